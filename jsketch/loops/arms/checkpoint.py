"""A long run that survives being killed: its progress in a file, written whole or not at all.

The file says what it belongs to: the algorithm with all its numbers, the problem, the keys, the
horizon and the versions. A run that resumes from it makes the picks, and has the state, of one that
was never interrupted, bit for bit on one machine. During a run the lock file `path.lock`,
which stays afterwards, keeps every other one from its file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization

from jsketch import checks, struct
from jsketch.loops.arms.rollout import Progress
from jsketch.loops.saving import processes, saved
from jsketch.loops.saving.describe import describe
from jsketch.loops.saving.resume import check_belongs, checked_path, restored, versions
from jsketch.types import ArmProblem, Bandit, PRNGKey, detach


@struct.dataclass
class Checkpoint:
    """Where a run is kept, how often, and what it is."""

    path: Path = struct.field(pytree_node=False)
    every: int = struct.field(pytree_node=False)  # evaluations
    belongs: dict[str, Any] = struct.field(pytree_node=False)

    def save(self, progress: Progress, capacity: int) -> None:
        """Replaces the file."""
        header = dict(
            belongs=self.belongs, capacity=capacity, evaluations=np.asarray(progress.t).tolist()
        )
        saved.write(self.path, saved.RUN, header, serialization.to_bytes(progress))

    def load(self, start: Progress, grow: Callable[[Any, int], Any], capacity: int) -> Progress:
        """The run in the file, or `start`, whose capacity is given, when there is none. Raises
        ValueError for a file of something else, and names the differences."""
        if not self.path.exists():
            return start
        header, body = saved.read(self.path, saved.RUN)
        check_belongs(self.path, header["belongs"], self.belongs)
        if header["capacity"] > capacity:
            start = replace(start, state=grow(start.state, header["capacity"]))
        return jax.tree.map(jnp.asarray, restored(self.path, start, body))


def numbered(path: str | os.PathLike[str] | None, count: int) -> list[str | None]:
    """A file for each of several seeds."""
    return [None if path is None else f"{os.fspath(path)}.{i}" for i in range(count)]


def open_checkpoint(
    path: str | os.PathLike[str] | None,
    every: int | None,
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    horizon: int,
    state: Any,
) -> Checkpoint | None:
    """The checkpoint of a run with keys [] or [S], from `state` (None: from its own beginning);
    every 20th of the horizon, unless said otherwise. None without a path. Raises ValueError for a
    folder that is not there and for a wrong `every`."""
    if path is None:
        if every is not None:
            raise ValueError(
                f"every={every!r} says how often a checkpoint is written; name its file too."
            )
        return None
    if every is None:
        every = max(1, horizon // 20)
    if not checks.is_integer(every, 1):
        raise ValueError(
            f"every counts evaluations and must be an integer of at least 1; {every!r} was given."
        )
    path = checked_path(path)
    if processes.is_over(problem):
        raise ValueError(
            "the arms lie over several processes, and a simulated run of those keeps no file: use"
            " drive, whose checkpoint process 0 writes."
        )
    parts = dict(
        bandit=bandit,
        problem=problem,
        start="init" if state is None else detach(state),
        key=np.asarray(jax.random.key_data(keys)),
        key_kind=str(jax.random.key_impl(keys)),
        horizon=horizon,
        dtype=str(problem.mean_reward.dtype),
        versions=versions(),
    )
    return Checkpoint(path, int(every), describe(parts))
