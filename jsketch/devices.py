"""Where programs will run, asked while they are traced: an accelerator wants fewer and larger steps
than a CPU.

Both ways compute the same numbers up to rounding; on a CPU nothing depends on what an accelerator
would do.
"""

from typing import Any

import jax
from jax.sharding import AxisType, Mesh


def on_accelerator() -> bool:
    """Whether jax's default device is none of the CPU's cores."""
    return jax.default_backend() != "cpu"


def check_mesh(mesh: Any) -> None:
    """Raises ValueError for what is no mesh of devices."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            'mesh must be a jax.sharding.Mesh, such as jax.make_mesh((4,), ("arms",)); a'
            f" {type(mesh).__name__} was given."
        )


def automatic(mesh: Mesh) -> Mesh:
    """The mesh with axes whose shardings the compiler infers: `jax.make_mesh` makes explicit ones,
    with which no state could be indexed."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
