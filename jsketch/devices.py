"""The device on which programs run, and meshes of devices. Programs have fewer and larger steps on
an accelerator than on a CPU, and compute the same numbers up to rounding.
"""

import os
from typing import Any

import jax
from jax.sharding import AxisType, Mesh


def on_accelerator() -> bool:
    """Whether jax's default device is not a CPU; read while a program is traced."""
    return jax.default_backend() != "cpu"


def memory() -> int | None:
    """Bytes of the default device, or of this machine for a CPU; None where the system does not
    report it."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_mesh(mesh: Any) -> None:
    """Raises ValueError for anything but a mesh of devices."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            'mesh must be a jax.sharding.Mesh, such as jax.make_mesh((4,), ("arms",)); a'
            f" {type(mesh).__name__} was given."
        )


def automatic(mesh: Mesh) -> Mesh:
    """The mesh with axes whose shardings the compiler infers. With the explicit axes of
    `jax.make_mesh` states cannot be indexed."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
