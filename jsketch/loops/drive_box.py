"""A box optimiser meets an objective that no tracer can enter: a laboratory, a trained model. Resumable."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization, struct

from jsketch.box.history import checked_box
from jsketch.loops.inputs import check_horizon, check_keys
from jsketch.loops.rollout import split_roots
from jsketch.types import Box, PRNGKey


@struct.dataclass
class DrivenBox:
    """A run with a host objective so far; give it back to `drive_box` to go on."""

    key: np.ndarray  # of the run, its numbers
    box: Box
    state: Any  # after `told` evaluations
    x: np.ndarray  # [t, d]
    y: np.ndarray  # [t], as observed; NaN or infinite for a failed evaluation
    told: int  # evaluations of which the optimiser knows; the others belong to a query that is not finished

    @property
    def t(self) -> int:
        return len(self.y)

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """(x [d], y) of the largest finite value. Raises ValueError while there is none."""
        if not np.isfinite(self.y).any():
            raise ValueError("no evaluation has succeeded so far, so there is no best point.")
        first = int(np.argmax(np.where(np.isfinite(self.y), self.y, -np.inf)))
        return self.x[first], float(self.y[first])


_ask = jax.jit(lambda optimizer, state, key: optimizer.ask(state, key))
_tell = jax.jit(lambda optimizer, state, query, y, key: optimizer.tell(state, query, y, key)[0])


def drive_box(
    optimizer: Any,
    objective: Callable[[np.ndarray], Any],
    box: Box,
    key: PRNGKey,
    horizon: int,
    state: DrivenBox | None = None,
    checkpoint: str | Path | None = None,
) -> DrivenBox:
    """`horizon` evaluations in all of a host objective(x [d]) -> y, NaN for a failure.

    Goes on from `state`, or from the file `checkpoint` if it exists, which is written after each evaluation: a killed run
    makes the same picks when it is called again with the same arguments. Raises ValueError for an objective that returns no
    number and for a checkpoint of another optimiser, box, key or horizon.
    """
    check_horizon(horizon)
    box = checked_box(box)
    key = check_keys(key, 0, "drive_box takes one key, such as jax.random.key(0)")
    roots = split_roots(key)
    nothing = np.zeros((0, box.lower.size)), np.zeros(0), 0
    start = DrivenBox(
        np.asarray(jax.random.key_data(key)), box, optimizer.init(box, roots.init, horizon), *nothing
    )
    driven = state or _load(checkpoint, start)
    while driven.t < horizon:
        query = _ask(optimizer, driven.state, jax.random.fold_in(roots.ask, driven.told))
        points = np.asarray(query.x)[np.asarray(query.mask)]
        if len(points) == 0:
            raise ValueError(
                f"the run was planned for {driven.t} evaluations and has made them; start one with horizon {horizon}."
            )
        # asking again gives the same query: what a killed run had evaluated of it is known
        for x in points[driven.t - driven.told :]:
            driven = driven.replace(
                x=np.vstack([driven.x, x]), y=np.append(driven.y, _evaluated(objective, x))
            )
            _save(checkpoint, driven)
        y = np.full(query.mask.shape, np.nan)
        y[: len(points)] = driven.y[driven.told :]
        tell_key = jax.random.fold_in(roots.tell, driven.told)
        told = _tell(optimizer, driven.state, query, jnp.asarray(y, query.x.dtype), tell_key)
        driven = driven.replace(state=told, told=driven.t)
        _save(checkpoint, driven)
    return driven


def _evaluated(objective: Callable[[np.ndarray], Any], x: np.ndarray) -> float:
    y = np.asarray(objective(x))
    if y.shape != () or y.dtype.kind not in "biuf":
        raise ValueError(f"the objective must return one number, NaN for a failure; {y!r} was returned.")
    return float(y)


def _save(checkpoint: str | Path | None, driven: DrivenBox) -> None:
    """In one step: a run killed while saving leaves the file before it."""
    if checkpoint is None:
        return
    path = Path(checkpoint)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_bytes(serialization.to_bytes(driven))
    os.replace(unfinished, path)


def _load(checkpoint: str | Path | None, start: DrivenBox) -> DrivenBox:
    """The run in the file, or `start`. Raises ValueError for a file that does not fit."""
    if checkpoint is None or not Path(checkpoint).exists():
        return start
    wrong = (
        f"{checkpoint} holds no run of this optimiser, box, key and horizon: name another file, or remove it."
    )
    try:
        driven = serialization.from_bytes(start, Path(checkpoint).read_bytes())
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(wrong) from error
    shapes = jax.tree.map(lambda a, b: np.shape(a) == np.shape(b), driven.state, start.state)
    numbers = jax.tree.map(np.array_equal, (driven.key, driven.box), (start.key, start.box))
    if not all(jax.tree.leaves((shapes, numbers))):
        raise ValueError(wrong)
    return driven
