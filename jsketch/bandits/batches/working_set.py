"""Picks of a batch among a few arms: the working set of the k largest stored scores, in k
dimensions.

Within a batch an arm's score only falls, so a stored score is an upper bound: while the best of the
set is not below the largest stored score outside, it is the best of all. The set's covariance C = U
P U^T follows pick by pick, [k,k], and P once for all of them, when another set needs it. Arm by arm
a pick costs two products with P, an update of P, and as many passes over all arms, for every score
that is refreshed; on an accelerator a launch for each of them, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import devices, shards
from jsketch.bandits.core.sketched import SketchState
from jsketch.factor import cholesky_inverse
from jsketch.linalg import lazy_cond, matmul, put
from jsketch.posterior import ridge
from jsketch.types import Shard

SIZE = 16  # k: of 10,000 picks on Abalone 200 are of an arm that is new to its batch
PICKS = 256  # of one set
STRIDE = 4  # picks on an accelerator between two looks of the host at whether to continue
# of a score: a set is not given up for less, which may be rounding between two products
SLACK = 64.0


class LastSet(NamedTuple):
    """The pulls of the last working set, which are not yet in `Batch.precision`."""

    directions: Array  # [k, M], rows P u
    covariance: Array  # [k, k], C before the pulls
    pulls: Array  # [k]


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + PICKS] int32, picks in order, then zeros
    size: Array  # [] int32
    # [A], upper bounds of the current upper confidence bounds (equal to them in the sweep)
    scores: Array
    precision: Array  # [M, M] of the hallucinated pulls, in whitened coordinates
    last: LastSet  # [0] each in the sweep
    e: Array  # [A], embedded variance e(x,x); only the sweep keeps it, [0] otherwise
    # [A], upper bounds of 1 + sum_s k~(x,x_s)^2/sigma~^2(x); only global_local keeps it, [0]
    # otherwise
    local: Array
    # [], upper bound of the ratio that the rule controls: it is time to look when it exceeds C
    bound: Array
    done: Array  # [] bool


class _Picks(NamedTuple):
    """Picks so far."""

    covariance: Array  # [k, k], C after them
    pulls: Array  # [k]
    position: Array  # [PICKS] int32, which of the set was picked
    picked: Array  # [] int32, how many
    bound: Array  # [], as in `Batch`
    going: Array  # [] bool


def no_set(arms: int, precision: Array) -> LastSet:
    """What a batch over so many arms starts from."""
    size, dtype = min(SIZE, arms), precision.dtype
    directions = jnp.zeros((size, precision.shape[0]), dtype)
    return LastSet(directions, jnp.zeros((size, size), dtype), jnp.zeros(size, dtype))


def extend(
    state: SketchState,
    kernel: Any,
    width: Array,
    batch: Batch,
    ratio: ArrayLike,
    limit: Array,
    beyond: Array | None = None,
) -> Batch:
    """The batch with the picks of one working set, perhaps none: then the set's scores are current,
    and the next set is another. Ends at `limit` picks, or when the bound is above the ratio.
    beyond [] bounds the scores of arms that are not in the domain, None where there are none."""
    shard = state.domain.shard
    index, outside = largest_of_all(shard, batch.scores, min(SIZE, state.domain.count))
    if beyond is not None:
        outside = jnp.maximum(outside, beyond)
    arms, mean, variance, stored = shards.take(
        shard, (state.domain.features, state.mean, state.variance, batch.scores), index
    )
    k = kernel.gram(arms, state.nystrom.points)
    u = matmul(matmul(k, state.nystrom.root), state.whiten)

    def follow(_: tuple[Array, Array]) -> tuple[Array, Array]:
        precision = _with_pulls(batch.precision, batch.last)
        return precision, matmul(u, precision)

    # the precision of the first set is I
    precision, directions = lazy_cond(batch.size > 0, follow, (batch.precision, u))
    covariance = matmul(directions, u.T)
    # what a pull does not change: the part of the variance that the dictionary does not see
    unseen = ridge.residual_variance(variance, u)
    ruled_out = jnp.isneginf(stored)

    def scores_of(covariance: Array) -> Array:
        e = jnp.maximum(jnp.diagonal(covariance), 0)
        return jnp.where(ruled_out, -jnp.inf, mean + width * jnp.sqrt(unseen + e))

    picks = _pick(batch, scores_of, outside, covariance, spent=variance, ratio=ratio, limit=limit)
    chosen = index[picks.position]
    slots = jnp.arange(PICKS, dtype=jnp.int32)
    rows = shards.local(shard, index, batch.scores.shape[0])
    return batch._replace(
        arms=lax.dynamic_update_slice(
            batch.arms, jnp.where(slots < picks.picked, chosen, 0), (batch.size,)
        ),
        size=batch.size + picks.picked,
        # never more than before: what rounds up from set to set would keep them from ending
        scores=batch.scores.at[rows].min(scores_of(picks.covariance), mode="drop"),
        precision=precision,
        last=LastSet(directions, covariance, picks.pulls),
        local=batch.local + (picks.bound - batch.bound),
        bound=picks.bound,
    )


def _pick(
    batch: Batch,
    scores_of: Callable[[Array], Array],
    outside: Array,
    covariance: Array,
    *,
    spent: Array,
    ratio: ArrayLike,
    limit: Array,
) -> _Picks:
    """The picks of a set, with the scores [k] of a covariance [k,k] and its arms' variances `spent`
    [k]: while no score `outside` [] may be larger."""
    least = outside - SLACK * jnp.finfo(outside.dtype).eps * jnp.abs(outside)
    slots = jnp.arange(spent.shape[0], dtype=jnp.int32)

    def pick(picks: _Picks) -> _Picks:
        scores = scores_of(picks.covariance)
        best = jnp.argmax(scores).astype(jnp.int32)
        # not >=: a posterior that is not finite ends its batch too
        going = picks.going & ~(scores[best] < least) & (picks.bound <= ratio)
        going = going & (picks.picked < PICKS) & (batch.size + picks.picked < limit)
        row = picks.covariance[best]
        gain = jnp.where(going, 1 / (1 + jnp.maximum(row[best], 0)), 0)
        slot = jnp.minimum(picks.picked, PICKS - 1)
        return _Picks(
            covariance=picks.covariance - row[:, None] * (gain * row)[None, :],
            pulls=picks.pulls + jnp.where((slots == best) & going, 1, 0).astype(row.dtype),
            position=put(picks.position, slot, jnp.where(going, best, picks.position[slot])),
            picked=picks.picked + going.astype(jnp.int32),
            bound=picks.bound + jnp.where(going, spent[best], 0),
            going=going,
        )

    def stride(picks: _Picks) -> _Picks:
        for _ in range(STRIDE if devices.on_accelerator() else 1):
            picks = pick(picks)
        return picks

    start = _Picks(
        covariance=covariance,
        pulls=jnp.zeros_like(covariance[0]),
        position=jnp.zeros(PICKS, jnp.int32),
        picked=jnp.zeros((), jnp.int32),
        bound=batch.bound,
        going=jnp.ones((), bool),
    )
    return lax.while_loop(lambda p: p.going, stride, start)


def precision_after(batch: Batch) -> Array:
    """P [M,M] after all picks of a batch."""
    return _with_pulls(batch.precision, batch.last)


def _with_pulls(precision: Array, last: LastSet) -> Array:
    """P [M,M] after the pulls n of a set: P - D^T N^1/2 (I + N^1/2 C N^1/2)^-1 N^1/2 D."""
    root = jnp.sqrt(last.pulls)
    scaled = root[:, None] * last.covariance * root[None, :]
    factor = cholesky_inverse(jnp.eye(root.shape[0], dtype=root.dtype) + scaled).inverse
    half = matmul(factor, root[:, None] * last.directions)
    return precision - matmul(half.T, half)


def largest_of_all(shard: Shard | None, scores: Array, count: int) -> tuple[Array, Array]:
    """`_largest` over all arms: of the largest of each device."""
    if shard is None:
        return _largest(scores, count)
    rows = scores.shape[0]
    index, outside = _largest(scores, min(count, rows))
    arms = shards.numbers(shard, rows)[index]
    # `_largest` repeats a position where only -inf is left: padding takes no arm's place in the set
    again = jnp.concatenate([jnp.zeros(1, bool), index[1:] == index[:-1]])
    stored = jnp.where(again, -jnp.inf, scores[index])
    scores, arms = (x.reshape(-1) for x in shards.gather(shard, (stored, arms)))
    index, left = _largest(scores, count)
    return arms[index], jnp.maximum(left, shards.largest(shard, outside))


def _largest(scores: Array, count: int) -> tuple[Array, Array]:
    """(positions [count] int32, in order of the arms, of the largest scores [A]; the largest of the
    others [], -inf where there are none). By the largest of every block: sorting all, or `count`
    passes over all, takes longer."""
    size = scores.shape[0]
    length = math.isqrt(size - 1) + 1
    blocks = -(-size // length)
    padded = jnp.pad(scores, (0, blocks * length - size), constant_values=-jnp.inf)
    table = padded.reshape(blocks, length)
    least = jnp.asarray(-jnp.inf, scores.dtype)

    def take(i: Array | int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        table, tops, index = carry
        block = jnp.argmax(tops).astype(jnp.int32)
        best = jnp.argmax(table[block]).astype(jnp.int32)
        row = put(table[block], best, least)
        return (
            put(table, block, row),
            put(tops, block, row.max()),
            put(index, jnp.asarray(i), block * length + best),
        )

    nowhere = jnp.zeros(count, jnp.int32)
    _, tops, index = lax.fori_loop(0, count, take, (table, table.max(1), nowhere))
    return jnp.sort(index), jnp.max(tops)
