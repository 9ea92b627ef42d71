"""A batch of the arms of a file: a sweep of all chunks, picks among the arms that it kept, and
chunks read again where their bound is reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.bandits.bbkb import BBKB
from jsketch.bandits.core.sketched import SketchState
from jsketch.bandits.core.widths import confidence_width
from jsketch.checks import queries
from jsketch.scale.streamed import own, picks, sweep
from jsketch.scale.streamed import table as tables
from jsketch.scale.streamed.arm_file import ArmFile
from jsketch.scale.streamed.own import StreamedState
from jsketch.scale.streamed.table import Table
from jsketch.types import Kernel, Query
from jsketch.warn import warn

# chunks, in parts of all, that may be read again for one pick: no bound makes for more
AGAIN = 3


class Chosen(NamedTuple):
    """A batch and what it took."""

    query: Query  # in the numbers of the file
    chunks: int  # chunks read, the sweep among them
    # a kept arm has a score above the bound by which float32 ranked it: arms that were not kept may
    # have, too
    missed: bool


class _Sweep(NamedTuple):
    """What a sweep of the file leaves."""

    kept: Table
    bounds: np.ndarray  # [C], of the scores of arms that were not kept
    missed: bool


def prior_variance(file: ArmFile, kernel: Kernel, dtype: Any) -> float:
    """max_x k(x,x); reads the file once, which finds numbers that are not finite."""
    largest = jax.jit(lambda kernel, x: kernel.diag(x).max())
    return max(float(largest(kernel, x.astype(dtype))) for _, x in file.in_order())


def _places(numbers: np.ndarray, file: ArmFile, chunk: int) -> Array:
    """The rows of arms in a chunk, R for those elsewhere."""
    place = numbers.astype(np.int64) - chunk * file.chunk
    return jnp.asarray(
        np.where((place >= 0) & (place < file.chunk), place, file.chunk).astype(np.int32)
    )


def _candidates(top: sweep.Top, first: int) -> Table:
    """The arms that a chunk offers, whose first arm has this number. Raises FloatingPointError
    where the posterior is not finite."""
    if not bool(top.finite):
        raise FloatingPointError(
            "the posterior is not finite: try float64, smaller rewards or a larger regularization."
        )
    row, at = np.unique(np.asarray(top.row), return_index=True)
    points, mean, variance, score = (
        np.asarray(column)[at] for column in (top.points, top.mean, top.variance, top.score)
    )
    number = (first + row).astype(np.int32)
    found = Table(number, points, mean, variance, score, np.zeros(len(row), bool))
    return Table(*(column[found.score > -np.inf] for column in found))


def _swept(
    bandit: Any, state: StreamedState, width: Array, keep: int, offer: int, safety: float
) -> _Sweep:
    """All chunks once. A chunk is computed while the one before is collected and the next is
    read."""
    file, sketch = state.domain, state.sketch
    kernel, regularization = bandit.kernel, bandit.regularization
    factors = sweep.factors(sketch, kernel, regularization, file.chunk, file.dtype)
    known = np.asarray(state.number)
    bounds = np.full(file.chunks, -np.inf)
    offered: list[Table] = []
    largest = sensitivity = 0.0

    def collect(chunk: int, top: sweep.Top) -> None:
        nonlocal largest, sensitivity
        offered.append(_candidates(top, chunk * file.chunk))
        bounds[chunk] = top.outside
        largest = max(largest, float(top.largest))
        sensitivity = max(sensitivity, float(top.sensitivity))

    before: tuple[int, sweep.Top] | None = None
    for chunk, x in file.in_order():
        none, left = _places(known, file, chunk), jnp.asarray(file.count - chunk * file.chunk)
        top = sweep.top(
            factors, kernel, regularization, width, x, none, left.astype(jnp.int32), offer, safety
        )
        if before is not None:
            collect(*before)
        before = chunk, top
    assert before is not None
    collect(*before)
    kept, rest = tables.split(tables.joined(*offered), keep)
    bounds = tables.raised(bounds, rest, file.chunk)
    _warn_of_rounding(bandit, sketch, file.chunk, sensitivity, largest)
    if file.dtype == sketch.mean.dtype:
        return _Sweep(kept, bounds, False)
    return _rescored(bandit, state, float(width), kept, bounds)


def _rescored(
    bandit: Any, state: StreamedState, width: float, kept: Table, bounds: np.ndarray
) -> _Sweep:
    """The kept arms with their scores in the dtype of the posterior, and whether one of them is
    above the bound by which it was kept."""
    dtype = state.sketch.mean.dtype
    points = kept.points.astype(dtype)
    if not len(points):
        # every arm is an own one, which is in that dtype
        return _Sweep(kept._replace(points=points), bounds, False)
    mean, variance = own.read(state, bandit, points)
    score = mean + width * np.sqrt(variance)
    missed = bool((score > kept.score).any())
    return _Sweep(
        kept._replace(points=points, mean=mean, variance=variance, score=score), bounds, missed
    )


def _warn_of_rounding(
    bandit: Any, sketch: SketchState, rows: int, sensitivity: float, largest: float
) -> None:
    """As `SketchState.imprecise`, over all arms."""
    off = float(jnp.asarray(checks.roundings(bandit.kernel, sketch.nystrom.points, rows)))
    scale = float(sketch.evidence.prior_variance) / float(jnp.asarray(bandit.regularization))
    eps = float(jnp.finfo(sketch.mean.dtype).eps)
    if eps * off * scale * sensitivity > checks.LARGEST_ROUNDING * largest:
        warn(
            "rounding may decide more than 0.1% of the variances: near-duplicates among the"
            " inducing points, or float32. Try a larger regularization"
            f"{', or screen=True' if sketch.mean.dtype == jnp.float32 else ''}."
        )


class _Window(NamedTuple):
    """The arms at hand as the compiled picks take them."""

    table: Table  # [S] rows
    sketch: SketchState


def _window(state: StreamedState, table: Table, slots: int) -> _Window:
    table = tables.filled(table, slots)
    found = own.positions(state, table.number)
    mine = table.own & (table.number != tables.FREE)
    pulls = np.where(mine, np.asarray(state.sketch.pull_counts)[np.where(mine, found, 0)], 0)
    arrays = (table.points, table.mean, table.variance, pulls.astype(table.mean.dtype))
    sketch = picks.window(state.sketch, *map(jnp.asarray, arrays))
    first = np.searchsorted(table.number, int(state.first_arm)).astype(np.int32)
    return _Window(table, replace(sketch, first_arm=jnp.asarray(first)))


def _start(bandit: Any, state: StreamedState, window: _Window) -> tuple[Any, Array]:
    """(the batch without picks, distinct pending arms [])."""
    table = window.table
    found = np.where(table.own, own.positions(state, table.number), 0)
    pending = np.where(table.own, np.asarray(state.pending)[found], 0)
    tried = table.own & np.asarray(state.tried)[found]
    free = table.number == tables.FREE
    return picks.started(bandit, window.sketch, *map(jnp.asarray, (pending, tried, free)))


def choose(
    bandit: Any,
    state: StreamedState,
    limit: ArrayLike | None,
    keep: int,
    offer: int,
    screen: bool,
    safety: float,
) -> Chosen:
    """The next batch of a FixedBKB or a BBKB, as `Streamed.choose`."""
    adaptive = isinstance(bandit, BBKB)
    capacity = bandit.max_batch if adaptive else bandit.batch
    asked = int(queries.limited(limit))
    most = min(asked, capacity)
    nothing = float(state.sketch.evidence.count) == 0 and not np.asarray(state.pending).any()
    file = state.domain
    if adaptive and nothing:
        return Chosen(
            _query([int(state.first_arm)], capacity, _truncated(capacity, False)), 0, False
        )
    if not adaptive and not bandit.repeat:
        taken = np.asarray(state.tried) | (np.asarray(state.sketch.pull_counts) > 0)
        most = min(most, file.count - int((taken | (np.asarray(state.pending) > 0)).sum()))
    if nothing:
        state = own.with_arms(state, bandit, [int(state.first_arm)])
    width = confidence_width(bandit, state.sketch.evidence, bandit.ratio)
    kept, bounds, missed = _swept(bandit, state, width, keep, offer, safety)
    slots = state.number.shape[0] + keep
    window = _window(state, tables.joined(own.table(state), kept), slots)
    batch, begin = _start(bandit, state, window)
    factors = sweep.factors(
        state.sketch, bandit.kernel, bandit.regularization, file.chunk, state.sketch.mean.dtype
    )
    chosen: list[int] = []
    read, unchanged = file.chunks, 0
    while len(chosen) < most:
        beyond = bounds.max()
        batch = picks.extended(
            bandit,
            window.sketch,
            batch,
            begin,
            jnp.asarray(most, jnp.int32),
            jnp.asarray(beyond, state.sketch.mean.dtype),
        )
        new = np.asarray(batch.arms)[len(chosen) : int(batch.size)]
        chosen += window.table.number[new].tolist()
        ended = adaptive and not float(batch.bound) <= float(bandit.ratio)
        if ended or len(chosen) >= most or np.isneginf(beyond):
            break
        unchanged = 0 if new.size else unchanged + 1
        if unchanged > AGAIN * file.chunks:
            raise RuntimeError(
                f"chunks were read {unchanged} times without a pick: keep more than {keep} arms."
            )
        chunk = int(np.argmax(bounds))
        window, bounds, batch = _read_again(
            bandit, state, window, factors, batch, width, bounds, chunk, chosen, keep, offer
        )
        read += 1
    truncated = None
    if adaptive:
        full = len(chosen) >= capacity and float(batch.bound) <= float(bandit.ratio)
        truncated = _truncated(capacity, full and asked > capacity)
    return Chosen(_query(chosen, capacity, truncated), read, missed)


def _read_again(
    bandit: Any,
    state: StreamedState,
    window: _Window,
    factors: sweep.Factors,
    batch: Any,
    width: Array,
    bounds: np.ndarray,
    chunk: int,
    chosen: list[int],
    keep: int,
    offer: int,
) -> tuple[_Window, np.ndarray, Any]:
    """The arms at hand with the best of a chunk among them, by their scores after the picks."""
    file, table = state.domain, window.table._replace(score=np.asarray(batch.scores))
    used = table.number != tables.FREE
    capacity = len(batch.arms)
    gone = np.full(capacity, tables.FREE, np.int32)
    if not getattr(bandit, "repeat", True):
        gone[: len(chosen)] = chosen
    none = _places(np.concatenate([table.number, gone]), file, chunk)
    left = jnp.asarray(file.count - chunk * file.chunk, jnp.int32)
    x = jnp.asarray(file.read(chunk))
    top = sweep.top_now(bandit, window.sketch, factors, batch, width, x, none, left, offer)
    at_hand = Table(*(column[used] for column in table))
    kept, rest = tables.split(tables.joined(at_hand, _candidates(top, chunk * file.chunk)), keep)
    bounds = bounds.copy()
    bounds[chunk] = top.outside
    bounds = tables.raised(bounds, rest, file.chunk)
    window = _window(state, kept, len(table.number))
    return window, bounds, batch._replace(scores=jnp.asarray(window.table.score))


def _query(chosen: list[int], capacity: int, truncated: Any) -> Query:
    index = np.zeros(capacity, np.int32)
    index[: len(chosen)] = chosen
    mask = np.arange(capacity) < len(chosen)
    return Query(jnp.asarray(index), jnp.asarray(mask), truncated)


def _truncated(capacity: int, truncated: bool) -> Any:
    return jnp.asarray(truncated) if capacity > 1 else None
