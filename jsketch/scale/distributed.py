"""Arms over several processes, each of which reads a part of the rows. Every algorithm then works
on a mesh of the devices of all processes.

    distributed.start("10.0.0.1:1234", processes=2, process=rank, devices=8)
    mesh = jax.make_mesh((jax.device_count(),), ("arms",))
    rows = distributed.rows_of_process(10_000_000, mesh)
    arms = distributed.place_rows(features[rows], 10_000_000, mesh)  # features: np.memmap

All processes must run the same program with the same keys and rewards; otherwise they wait for each
other forever. Such a run cannot be saved: if a process fails, start all of them again, with the
observed evaluations as the `data` of `init`.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jsketch import checks
from jsketch.scale.placed import AXIS, check_mesh, placed, rows_per_device, with_automatic_axes
from jsketch.types import Arms


def start(
    coordinator: str | None = None,
    *,
    processes: int | None = None,
    process: int | None = None,
    local_device_ids: list[int] | None = None,
    devices: int | None = None,
    timeout: int = 300,
) -> None:
    """Connects to the other processes, before any other use of JAX, and prints the devices.

    coordinator       host:port of process 0, which every process can reach
    processes         int, number of processes
    process           int, index of this process, from 0
    local_device_ids  the devices of this process; None: all
    devices           int, expected number of devices of all processes
    timeout           seconds after which JAX ends a process that waits for the others

    If coordinator, processes and process are not given, JAX reads them from a cluster such as
    SLURM. Raises ValueError if only some of these are given, if one is invalid, or if there is no
    cluster, and RuntimeError if the number of devices is not `devices`.
    """
    is_given = [value is not None for value in (coordinator, processes, process)]
    if any(is_given) and not all(is_given):
        raise ValueError(
            "give all of coordinator, processes and process, or none of them on a cluster such as"
            " SLURM."
        )
    if process is not None and processes is not None:
        checks.positive_integer(processes=processes)
        checks.nonnegative_integer(process=process)
        if process >= processes:
            raise ValueError(
                f"process must be from 0 to {processes - 1} = processes - 1; {process} was given."
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
            f"no cluster such as SLURM was found: give coordinator, processes and process ({error})"
        ) from error
    print(
        f"process {jax.process_index()} of {jax.process_count()}: {jax.local_device_count()} of"
        f" {jax.device_count()} devices, {jax.local_devices()}",
        flush=True,
    )
    if devices is not None and jax.device_count() != devices:
        raise RuntimeError(
            f"there are {jax.device_count()} devices in {jax.process_count()} processes, and"
            f" {devices} were expected: check local_device_ids."
        )


def rows_of_process(arms: int, mesh: Mesh, axis: str = AXIS) -> slice:
    """The rows of A = `arms` arms on the devices of this process. Raises ValueError for fewer arms
    than devices, for more arms than 32 bits can count, and unless the devices of this process are
    neighbours in the mesh."""
    n_devices = check_mesh(mesh, axis)
    checks.positive_integer(arms=arms)
    checks.memory(0, np.float32, arms=arms)
    per_device = rows_per_device(arms, n_devices, axis)
    sharding = NamedSharding(with_automatic_axes(mesh), P(axis))
    n_rows = per_device * n_devices  # padding included
    slices = sharding.addressable_devices_indices_map((n_rows, 1)).values()
    begins = sorted({index[0].indices(n_rows)[0] for index in slices if index is not None})
    if not begins:
        raise ValueError(
            f"the mesh has no device of process {jax.process_index()}: make it from jax.devices()."
        )
    if begins != list(range(begins[0], begins[0] + per_device * len(begins), per_device)):
        raise ValueError(
            "the devices of this process are not neighbours in the mesh: make it from jax.devices()"
            " in their order."
        )
    return slice(min(begins[0], arms), min(begins[-1] + per_device, arms))


def place_rows(rows: Any, arms: int, mesh: Mesh, axis: str = AXIS) -> Arms:
    """The result of `place`, where each process passes only its own rows (`rows_of_process`).

    Raises ValueError in all processes if one of them passes a wrong number of rows, or numbers that
    are not finite or not floating point, or if processes differ in the number of features or dtype.
    """
    own_rows, n_devices = rows_of_process(arms, mesh, axis), check_mesh(mesh, axis)
    features, error = _check_rows(rows, own_rows)
    summary = np.array([arms, features.shape[-1], features.dtype.num, error is None], np.int32)
    summaries = multihost_utils.process_allgather(summary).reshape(-1, len(summary))
    # raised after the exchange, for which all processes wait
    if error is not None:
        raise error
    if not summaries[:, 3].all():
        invalid = np.flatnonzero(summaries[:, 3] == 0).tolist()
        raise ValueError(
            f"the rows of processes {invalid} are not finite, or not those of `rows_of_process`."
        )
    if (summaries != summaries[0]).any():
        raise ValueError(
            "processes disagree on (number of arms, number of features, dtype):"
            f" {summaries[:, :3].tolist()}."
        )
    dtype = jax.dtypes.canonicalize_dtype(features.dtype)
    padding = _last_arm(features, own_rows.stop == arms, dtype)

    def part(begin: int, end: int) -> np.ndarray:
        values = np.asarray(features[begin - own_rows.start : end - own_rows.start], dtype)
        return np.concatenate([values, np.repeat(padding, end - begin - len(values), 0)])

    shape = rows_per_device(arms, n_devices, axis) * n_devices, features.shape[1]
    return placed(shape, arms, mesh, axis, part)


def _check_rows(rows: Any, own_rows: slice) -> tuple[np.ndarray, Exception | None]:
    """(the rows of this process as a matrix, the error to raise if they are invalid)."""
    n_rows = own_rows.stop - own_rows.start
    try:
        features = np.asarray(checks.arm_features(rows) if n_rows else rows)
        if features.ndim != 2 or len(features) != n_rows or features.shape[1] == 0:
            raise ValueError(
                f"this process has the arms {own_rows.start} to {own_rows.stop - 1}, a matrix"
                f" [{n_rows}, d]; an array of shape {features.shape} was given."
            )
        return features, None
    except Exception as error:
        return np.zeros((0, 0)), error


def _last_arm(features: np.ndarray, is_last: bool, dtype: Any) -> np.ndarray:
    """The last of all arms, [1, d], which is the padding on every device: with another padding,
    maxima over arms could include a variance that no arm has."""
    has_arm = is_last and len(features) > 0
    row = np.asarray(features[-1] if has_arm else np.zeros(features.shape[1]), dtype)
    rows, holders = multihost_utils.process_allgather((row, np.array(has_arm)))
    last = np.argmax(np.ravel(holders))
    return np.asarray(rows).reshape(-1, features.shape[1])[last : last + 1]
