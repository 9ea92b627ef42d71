"""The arms that a state knows by number: those that were pulled, are pending or failed. All that is
kept between two batches; it does not grow with A."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import struct
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.scale import shards
from jsketch.scale.streamed import sweep
from jsketch.scale.streamed.arm_file import ArmFile
from jsketch.scale.streamed.table import FREE, Table
from jsketch.sketch.dictionary import Dictionary
from jsketch.types import Arms, Info, PRNGKey, Query

SLOTS = 256  # H at first; it doubles


@struct.dataclass
class StreamedState:
    """BKB's state over H slots for its own arms, in the order of their numbers; free ones last."""

    domain: ArmFile = struct.field(pytree_node=False)
    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    sketch: SketchState  # its domain is the own arms [H, d]
    number: Array  # [H] int32, FREE in free slots
    pending: Array  # [H], pending evaluations of each
    tried: Array  # [H] bool, arms that were evaluated, failed evaluations included

    @property
    def capacity(self) -> int:
        return self.sketch.capacity


def slots_for(count: int) -> int:
    """H for so many own arms."""
    slots = SLOTS
    while slots < count:
        slots *= 2
    return slots


def padded(rows: np.ndarray, slots: int) -> np.ndarray:
    """Rows [n, d] with free ones [slots, d], which repeat the first."""
    return np.concatenate([rows, np.repeat(rows[:1], slots - len(rows), 0)])


def positions(state: StreamedState, numbers: Any) -> np.ndarray:
    """The slots of own arms of these numbers."""
    return np.searchsorted(np.asarray(state.number), np.asarray(numbers)).astype(np.int32)


@jax.jit
def _read(sketch: SketchState, bandit: Any, x: Array) -> tuple[Array, Array]:
    rows, dtype = x.shape[0], sketch.mean.dtype
    factors = sweep.factors(sketch, bandit.kernel, bandit.regularization, rows, dtype)
    return sweep.posterior(factors, bandit.kernel, bandit.regularization, x)[:2]


def read(state: StreamedState, bandit: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean [n], variance [n]) of arms that are not in the dictionary [n, d]."""
    x = padded(rows, slots_for(len(rows))).astype(state.sketch.mean.dtype)
    mean, variance = _read(state.sketch, bandit, jnp.asarray(x))
    return np.asarray(mean)[: len(rows)], np.asarray(variance)[: len(rows)]


def with_arms(state: StreamedState, bandit: Any, numbers: Any) -> StreamedState:
    """The state with these arms among its own, read from the file where they are new."""
    known = np.asarray(state.number)
    used = int((known != FREE).sum())
    new = np.setdiff1d(np.asarray(numbers, np.int32), known[:used])
    if new.size == 0:
        return state
    rows = state.domain.rows(new).astype(state.sketch.mean.dtype)
    mean, variance = read(state, bandit, rows)
    number = np.concatenate([known[:used], new])
    order = np.argsort(number)
    free = max(slots_for(len(number)), len(known)) - len(number)

    def merged(before: Array, more: Any, fill: Any = 0) -> Array:
        old = np.asarray(before)
        more = np.broadcast_to(np.asarray(more, old.dtype), new.shape)
        whole = np.concatenate([old[:used], more])[order]
        return jnp.asarray(np.pad(whole, (0, free), constant_values=fill))

    points = np.concatenate([np.asarray(state.sketch.domain.features)[:used], rows])[order]
    old, place = state.sketch, np.argsort(order)
    dictionary, mask = old.dictionary, np.asarray(old.dictionary.mask)
    index = np.where(mask, place[np.where(mask, dictionary.index, 0)], 0).astype(np.int32)
    sketch = replace(
        old,
        domain=Arms(jnp.asarray(padded(points, len(number) + free))),
        pull_counts=merged(old.pull_counts, 0),
        reward_sums=merged(old.reward_sums, 0),
        dictionary=Dictionary(jnp.asarray(index), dictionary.mask),
        mean=merged(old.mean, mean),
        variance=merged(old.variance, variance),
    )
    return replace(
        state,
        sketch=sketch,
        number=merged(state.number, new, FREE),
        pending=merged(state.pending, 0),
        tried=merged(state.tried, False),
    )


def table(state: StreamedState) -> Table:
    """The own arms; their scores are those of a batch that has not started."""
    used = int((np.asarray(state.number) != FREE).sum())
    sketch = state.sketch
    number, points, mean, variance = (
        np.array(column)[:used]
        for column in (state.number, sketch.domain.features, sketch.mean, sketch.variance)
    )
    return Table(number, points, mean, variance, mean, np.ones(used, bool))


@partial(jax.jit, static_argnums=3)
def learn(
    bandit: Any,
    sketch: SketchState,
    number: Array,
    arms: int,
    query: Query,
    y: Array,
    key: PRNGKey,
) -> tuple[SketchState, Info]:
    """The posterior of the own arms after rewards y [B] of a query in their slots. Random numbers
    are drawn by the number of an arm among all A, as in memory."""
    feedback = counts.absorb(sketch.pull_counts, sketch.reward_sums, sketch.variance, query, y)
    uniform = shards.uniform_at(key, number, arms, y.dtype)
    width = widths.confidence_width(bandit, sketch.evidence, bandit.ratio)
    return sketched.apply_feedback(sketch, feedback, query, width, key, bandit, uniform)
