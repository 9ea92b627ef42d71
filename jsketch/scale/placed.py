"""Arms on several devices: `place` distributes the rows of the arms over a mesh. Every algorithm
and loop then works unchanged, because XLA distributes a program along with its data.

    mesh = jax.make_mesh((4,), ("arms",))
    arms = place(features, mesh)
    drive(BBKB(kernel), objective, arms, key, horizon)

A device has its rows of the arms and of every vector [A], the history and the posterior. Everything
else is equal on all devices: the dictionary of M arms and its factors, O(M^2) numbers, and the rest
of the program. A message has O(M sqrt(A)) numbers at most, never the arms and never a vector [A]
(`numerics`). The random number of an arm depends on its number and not on its device. Therefore the
picks are the same as on one device, up to arms that tie (`jsketch.types`).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jsketch import checks
from jsketch.numerics import table_length
from jsketch.types import Arms

AXIS = "arms"
LEAST_ROWS = 32  # rows of a device in a chunk of a sweep; padding is at most about 1 / LEAST_ROWS


def place(features: Any, mesh: Mesh, axis: str = AXIS) -> Arms:
    """Arms [A,d] over the devices of a mesh, with the same number of rows on each device. The last
    arm is repeated as padding (`Arms.padding`), which is never chosen. A device receives only its
    own rows.

    features  [A, d], an array or a DataFrame of floating point numbers on the host
    mesh      a mesh of devices, such as jax.make_mesh((4,), ("arms",)). Its axes may be explicit:
              the arms are on a mesh with the same devices and axes of the type Auto
    axis      the axis of the mesh that divides the arms; along other axes the arms are copied

    Raises ValueError for invalid features, a mesh without this axis and fewer arms than devices.

    Example:

        mesh = jax.make_mesh((jax.device_count(),), ("arms",))
        problem = problems.finite_arms(features, mean_reward, noise_std=0.1)
        problem = problem.replace(arms=place(features, mesh))
        rollout(bandits.BBKB(kernels.Gaussian(1.0)), problem, key, 20)
    """
    n_devices = check_mesh(mesh, axis)
    features = checks.arm_features(features)
    rows = rows_per_device(len(features), n_devices, axis)
    dtype = jax.dtypes.canonicalize_dtype(features.dtype)

    def part(begin: int, end: int) -> np.ndarray:
        return np.asarray(features[np.minimum(np.arange(begin, end), len(features) - 1)], dtype)

    shape = rows * n_devices, features.shape[1]
    return placed(shape, len(features), mesh, axis, part)


def placed(shape: tuple[int, int], n_arms: int, mesh: Mesh, axis: str, part: Any) -> Arms:
    """Arms with features of this shape, padding included, whose rows part(begin, end) are read for
    each device of this process."""
    sharding = NamedSharding(with_automatic_axes(mesh), P(axis))

    def rows_of_device(index: Any) -> np.ndarray:
        begin, end, _ = index[0].indices(shape[0])
        rows: np.ndarray = part(begin, end)
        return rows

    features = jax.make_array_from_callback(shape, sharding, rows_of_device)
    return Arms(features, padding=shape[0] - n_arms, sharding=sharding)


def rows_per_device(n_arms: int, n_devices: int, axis: str = AXIS) -> int:
    """Rows of a device, padding included. Raises ValueError for fewer arms than devices.

    The number is a multiple of a power of two, so that the devices divide the rows of a table
    (`numerics.table_length`) and the rows of a chunk (`numerics.sweep`)."""
    if n_arms < n_devices:
        raise ValueError(
            f"there are {n_arms} arms for {n_devices} devices along the axis {axis!r}: use fewer"
            " devices."
        )
    rows = -(-n_arms // n_devices)
    multiple = 1 << (max(rows // LEAST_ROWS, 1).bit_length() - 1)
    while True:
        padded = -(-rows // multiple) * multiple
        length = table_length(padded * n_devices)
        if multiple >= length:
            return padded
        multiple = length


def check_mesh(mesh: Any, axis: str) -> int:
    """The number of devices along an axis. Raises ValueError unless `mesh` has this axis."""
    if not isinstance(mesh, Mesh):
        raise ValueError(
            'mesh must be a jax.sharding.Mesh, such as jax.make_mesh((4,), ("arms",)); a'
            f" {type(mesh).__name__} was given."
        )
    if axis not in mesh.axis_names:
        raise ValueError(
            f"the mesh has the axes {', '.join(map(repr, mesh.axis_names))} and no axis {axis!r}."
        )
    return int(mesh.shape[axis])


def with_automatic_axes(mesh: Mesh) -> Mesh:
    """The mesh with axes along which XLA infers shardings: along explicit axes, which are the
    default of `jax.make_mesh`, arrays cannot be indexed by the numbers of arms."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
