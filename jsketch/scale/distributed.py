"""Arms over several processes: one start, and rows that each process reads for itself. Everything
else is `scale.sharded`, over a mesh of the devices of all processes.

    distributed.start("10.0.0.1:1234", processes=2, process=rank, devices=8)
    mesh = jax.make_mesh((jax.device_count(),), ("arms",))
    rows = distributed.own_rows(10_000_000, mesh)
    # a np.memmap reads its part
    domain = distributed.place_own(features[rows], 10_000_000, mesh)

All processes run the same program with the same keys and rewards, or they wait for each other for
ever. After a lost process the same call of `drive(..., checkpoint=)` on all of them resumes:
process 0 keeps the file.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jsketch import checks, devices
from jsketch.scale.sharded import AXIS, check_mesh, rows_on_each
from jsketch.scale.shards import Shard
from jsketch.types import Arms

TIMEOUT = 300  # seconds to wait for the other processes


def start(
    coordinator: str | None = None,
    *,
    processes: int | None = None,
    process: int | None = None,
    local_device_ids: list[int] | None = None,
    devices: int | None = None,
    timeout: int = TIMEOUT,
) -> None:
    """Joins the other processes, before anything else of JAX is used; prints the devices.

    coordinator is host:port of process 0, which every process can reach; with none of the first
    three, SLURM and its like are asked. `devices` is how many there must be in all. Raises
    ValueError where only some of the three are given, where one is wrong, and where nothing tells
    them; RuntimeError for another number of devices. Where the others do not come within `timeout`
    seconds JAX ends the process: no `except` sees it.
    """
    given = [value is not None for value in (coordinator, processes, process)]
    if any(given) and not all(given):
        raise ValueError(
            "coordinator, processes and process belong together: give all three, or none where"
            " SLURM or its like tells them."
        )
    if process is not None and processes is not None:
        checks.capacity(processes=processes)
        checks.count(process=process)
        if process >= processes:
            raise ValueError(
                f"process counts from 0 to {processes - 1}, one less than processes; {process} was"
                " given."
            )
    if coordinator is not None and not re.fullmatch(r".+:\d+", str(coordinator)):
        raise ValueError(
            f"coordinator is host:port, such as 10.0.0.1:1234; {coordinator!r} was given."
        )
    try:
        jax.distributed.initialize(
            coordinator, processes, process, local_device_ids, initialization_timeout=timeout
        )
    except ValueError as error:
        if coordinator is not None:
            raise
        raise ValueError(
            "nothing here tells where the other processes are, as SLURM does: give coordinator,"
            f" processes and process ({error})"
        ) from error
    print(
        f"process {jax.process_index()} of {jax.process_count()}: {jax.local_device_count()} of"
        f" {jax.device_count()} devices, {jax.local_devices()}",
        flush=True,
    )
    if devices is not None and jax.device_count() != devices:
        raise RuntimeError(
            f"there are {jax.device_count()} devices in {jax.process_count()} processes, and"
            f" {devices} were expected: a process sees the devices of another, or fewer than it"
            " should (local_device_ids, one process a GPU)."
        )


def own_rows(arms: int, mesh: Mesh, axis: str = AXIS) -> slice:
    """Which of so many arms lie on the devices of this process. Raises ValueError for fewer arms
    than devices or more than 32 bits count, and where its devices are not next to each other or
    none of the mesh."""
    parts = check_mesh(mesh, axis)
    checks.capacity(arms=arms)
    checks.room(0, np.float32, arms=arms)
    rows = rows_on_each(arms, parts, axis)
    sharding = NamedSharding(devices.automatic(mesh), P(axis))
    here = sharding.addressable_devices_indices_map((rows * parts, 1)).values()
    begins = sorted({index[0].indices(rows * parts)[0] for index in here if index is not None})
    if not begins:
        raise ValueError(
            f"the mesh has no device of process {jax.process_index()}: make it of jax.devices(), of"
            " all processes."
        )
    if begins != list(range(begins[0], begins[0] + rows * len(begins), rows)):
        raise ValueError(
            "the devices of this process are not next to each other in the mesh: make it of"
            " jax.devices() in their order."
        )
    return slice(min(begins[0], arms), min(begins[-1] + rows, arms))


def place_own(rows: Any, arms: int, mesh: Mesh, axis: str = AXIS) -> Arms:
    """`place`, of the rows `own_rows` of each process; no process ever holds all arms.

    Raises ValueError in all processes where one has other rows than its own, numbers that are not
    finite or not floating point, or features of another number or dtype than the others.
    """
    wanted, parts = own_rows(arms, mesh, axis), check_mesh(mesh, axis)
    table, refused = _checked(rows, wanted)
    said = [arms, table.shape[-1], table.dtype.num, int(refused is None)]
    heard = multihost_utils.process_allgather(np.array(said, np.int32)).reshape(-1, len(said))
    if refused is not None:
        raise refused
    if not heard[:, 3].all():
        bad = np.flatnonzero(~heard[:, 3].astype(bool)).tolist()
        raise ValueError(
            f"the rows of processes {bad} are not their own, or are no finite numbers."
        )
    if (heard != heard[0]).any():
        raise ValueError(
            "processes disagree on the number of arms, of features or on the dtype:"
            f" {heard[:, :3].tolist()}, one row a process."
        )
    size = rows_on_each(arms, parts, axis)
    dtype = jax.dtypes.canonicalize_dtype(table.dtype)
    last = _last_row(table, wanted.stop == arms, dtype)

    def part(index: Any) -> np.ndarray:
        begin, end, _ = index[0].indices(size * parts)
        own = np.asarray(table[begin - wanted.start : end - wanted.start], dtype)
        return np.concatenate([own, np.repeat(last, end - begin - len(own), 0)])

    sharding = NamedSharding(devices.automatic(mesh), P(axis))
    shape = (size * parts, table.shape[1])
    return Arms(jax.make_array_from_callback(shape, sharding, part), Shard(axis, arms))


def _checked(rows: Any, wanted: slice) -> tuple[np.ndarray, Exception | None]:
    """(the rows of this process as a matrix, why they are none): it is raised when all processes
    have heard of it."""
    size = wanted.stop - wanted.start
    try:
        table = np.asarray(checks.table(rows))
        if table.ndim != 2 or len(table) != size or table.shape[1] == 0:
            raise ValueError(
                f"this process has the arms {wanted.start} to {wanted.stop - 1}, a matrix"
                f" [{size}, d]; an array of shape {table.shape} was given."
            )
        if not jnp.issubdtype(table.dtype, jnp.floating):
            raise ValueError(
                "arms must be floating point numbers, such as x.astype(float); their dtype is"
                f" {table.dtype}."
            )
        finite = np.isfinite(table)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(
                f"arms must be finite; arm {wanted.start + row}, feature {column} is"
                f" {table[row, column]}. Remove or impute such values."
            )
        return table, None
    except Exception as error:
        return np.zeros((0, 0)), error


def _last_row(table: np.ndarray, ends: bool, dtype: Any) -> np.ndarray:
    """The last arm of all, [1, d], which pads also the devices of processes without arms: another
    row there would have a variance of its own, and maxima over arms would see it."""
    known = ends and len(table) > 0
    row = np.asarray(table[-1] if known else np.zeros(table.shape[1]), dtype)
    heard = multihost_utils.process_allgather((row, np.array(known)))
    rows, which = np.asarray(heard[0]).reshape(-1, table.shape[1]), np.ravel(heard[1])
    found: np.ndarray = rows[np.argmax(which)][None]
    return found
