"""Picks of a batch among a few arms: the working set of the k largest stored scores, in k
dimensions.

Within a batch an arm's score only falls, so a stored score is an upper bound: while the best of the
set is not below the largest stored score outside, it is the best of all. The set's covariance C = U
P U^T follows pick by pick, [k,k], and P once for all of them. On an accelerator a pick is then a
few kernels on k numbers, for one run as for a thousand; arm by arm it costs two products with P,
and as many passes over all arms, for every look.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.bandits.core.sketched import SketchState
from jsketch.linalg import matmul, put

SIZE = 16  # k: of 10,000 picks on Abalone 200 are of an arm that is new to its batch
PICKS = 256  # of one set
STRIDE = 4  # picks between two looks of the host at whether to continue
# of a score: a set is not given up for less, which may be rounding between two products
SLACK = 64.0


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B] int32, picks in order
    size: Array  # [] int32
    # [A], upper bounds of the current upper confidence bounds (equal to them in the sweep)
    scores: Array
    precision: Array  # [M, M] of the hallucinated pulls, in whitened coordinates
    e: Array  # [A], embedded variance e(x,x); only the sweep keeps it, [0] otherwise
    # [A], upper bounds of 1 + sum_s k~(x,x_s)^2/sigma~^2(x); only global_local keeps it, [0]
    # otherwise
    local: Array
    # [], upper bound of the ratio that the rule controls: it is time to look when it exceeds C
    bound: Array
    done: Array  # [] bool


class _Picks(NamedTuple):
    """Picks so far; with U the set's features, the precision is P - (U P)^T W U P."""

    covariance: Array  # [k, k], C under the current precision
    update: Array  # [k, k], W
    position: Array  # [PICKS] int32, which of the set was picked
    picked: Array  # [] int32, how many
    bound: Array  # [], as in `Batch`
    going: Array  # [] bool


def extend(
    state: SketchState,
    kernel: Any,
    regularization: ArrayLike,
    width: Array,
    batch: Batch,
    ratio: ArrayLike,
    limit: Array,
) -> Batch:
    """The batch with the picks of one working set, perhaps none: then the set's scores are current,
    and the next set is another. Ends where `adaptive_batch.fill` ends: at `limit` picks, or when
    the bound is above the ratio."""
    index, outside = _largest(batch.scores, min(SIZE, batch.scores.shape[0]))
    k = kernel.gram(state.domain.features[index], state.nystrom.points)
    u = matmul(k, state.whitened_root)
    directions = matmul(u, batch.precision)  # [k, M], rows P u
    covariance = matmul(directions, u.T)
    mean, residual, spent = (
        state.mean[index],
        state.residual[index] / regularization,
        state.variance[index],
    )
    ruled_out = jnp.isneginf(batch.scores[index])
    least = outside - SLACK * jnp.finfo(mean.dtype).eps * jnp.abs(outside)

    def scores_of(picks: _Picks) -> Array:
        e = jnp.maximum(jnp.diagonal(picks.covariance), 0)
        return jnp.where(ruled_out, -jnp.inf, mean + width * jnp.sqrt(residual + e))

    def pick(picks: _Picks) -> _Picks:
        scores = scores_of(picks)
        best = jnp.argmax(scores).astype(jnp.int32)
        # not >=: a posterior that is not finite continues as it does arm by arm
        going = picks.going & ~(scores[best] < least) & (picks.bound <= ratio)
        going = going & (picks.picked < PICKS) & (batch.size + picks.picked < limit)
        row = picks.covariance[best]
        gain = jnp.where(going, 1 / (1 + jnp.maximum(row[best], 0)), 0)
        chosen = (jnp.arange(row.shape[0], dtype=jnp.int32) == best).astype(row.dtype)
        # P u of the pick is (U P)^T a
        a = chosen - matmul(picks.update, covariance[best])
        slot = jnp.minimum(picks.picked, PICKS - 1)
        return _Picks(
            covariance=picks.covariance - row[:, None] * (gain * row)[None, :],
            update=picks.update + a[:, None] * (gain * a)[None, :],
            position=put(picks.position, slot, jnp.where(going, best, picks.position[slot])),
            picked=picks.picked + going.astype(jnp.int32),
            bound=picks.bound + jnp.where(going, spent[best], 0),
            going=going,
        )

    start = _Picks(
        covariance=covariance,
        update=jnp.zeros_like(covariance),
        position=jnp.zeros(PICKS, jnp.int32),
        picked=jnp.zeros((), jnp.int32),
        bound=batch.bound,
        going=jnp.ones((), bool),
    )

    def stride(picks: _Picks) -> _Picks:
        for _ in range(STRIDE):
            picks = pick(picks)
        return picks

    picks = lax.while_loop(lambda p: p.going, stride, start)
    slot = jnp.arange(batch.arms.shape[0], dtype=jnp.int32) - batch.size
    chosen = index[picks.position[jnp.clip(slot, 0, PICKS - 1)]]
    return batch._replace(
        arms=jnp.where((slot >= 0) & (slot < picks.picked), chosen, batch.arms),
        size=batch.size + picks.picked,
        scores=batch.scores.at[index].set(scores_of(picks)),
        precision=batch.precision - matmul(directions.T, matmul(picks.update, directions)),
        local=batch.local + (picks.bound - batch.bound),
        bound=picks.bound,
    )


def _largest(scores: Array, count: int) -> tuple[Array, Array]:
    """(positions [count] int32, in order of the arms, of the largest scores [A]; the largest of the
    others [], -inf where there are none). By passes over the scores: sorting millions of them takes
    longer."""

    def take(i: Array | int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, index = carry
        best = jnp.argmax(left).astype(jnp.int32)
        return put(left, best, jnp.asarray(-jnp.inf, left.dtype)), put(index, jnp.asarray(i), best)

    nowhere = jnp.zeros(count, jnp.int32)
    left, index = lax.fori_loop(0, count, take, (scores, nowhere))
    return jnp.sort(index), jnp.max(left)
