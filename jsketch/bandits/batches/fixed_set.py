"""Picks of a batch of fixed size among a few arms: the working set of the k largest stored scores.

Every pick is hallucinated: it lowers variances by the full sketched covariance k~ (BBKB eq. 2) and
no mean. Scores only fall, so a stored score is an upper bound: while the best of the set is not
below the largest stored score outside, it is the best of all (THEORY 5.7, 5.8). The set's
covariance given the pulls before it, C [k,k], follows pick by pick; the pulls themselves grow once
a set, by a block. Arm by arm every score that is refreshed reads all pulls, and a batch refreshes a
hundred for each pick.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import shards
from jsketch.bandits.batches import working_set
from jsketch.bandits.core.sketched import SketchState
from jsketch.factor import cholesky_inverse
from jsketch.linalg import matmul, put
from jsketch.sketch import nystrom as nystroms
from jsketch.types import Arms, Kernel

SIZE = 64  # k
PICKS = 32  # of one set


class Pulls(NamedTuple):
    """Hallucinated pulls, R slots; the covariance of slot j with an arm x is k~(x, x_j), its noise
    variance 1/n_j."""

    points: Array  # [R, d]
    z: Array  # [R, M]
    u: Array  # [R, M]
    # [R, R], L^-1 of the pulls' covariance plus noise; rows and columns of free slots are zero
    inverse: Array


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + PICKS] int32, picks in order, then zeros
    size: Array  # [] int32
    # [A], upper bounds of the current upper confidence bounds; infinite for an arm that is to be
    # the next pick whatever its score
    scores: Array
    pulls: Pulls


class _Given(NamedTuple):
    """k arms given the pulls."""

    points: Array  # [k, d]
    z: Array  # [k, M]
    u: Array  # [k, M]
    half: Array  # [k, R], L^-1 c, c the arm's covariances with the pulls
    covariance: Array  # [k, k]


class _Picks(NamedTuple):
    """Picks of a set so far, and the next one."""

    covariance: Array  # [k, k] after them
    ruled_out: Array  # [k] bool
    position: Array  # [PICKS] int32, which of the set was picked
    picked: Array  # [] int32, how many
    best: Array  # [] int32, the next one
    going: Array  # [] bool, whether there is a next one


def no_pulls(domain: Arms, capacity: int, slots: int) -> Pulls:
    """Room for `slots` pulls, and for what a block writes beyond them."""
    features, slots = domain.features, slots + PICKS
    first = shards.take(domain.shard, features, jnp.zeros((), jnp.int32))
    square = jnp.zeros((slots, capacity), features.dtype)
    inverse = jnp.zeros((slots, slots), features.dtype)
    return Pulls(jnp.broadcast_to(first, (slots, features.shape[1])), square, square, inverse)


def _given(
    sketch: SketchState,
    kernel: Kernel,
    regularization: ArrayLike,
    pulls: Pulls,
    points: Array,
    variance: Array,
) -> _Given:
    """k arms [k,d], of known variances [k] before the pulls."""
    z = nystroms.features(sketch.nystrom, kernel, points)
    u = matmul(z, sketch.whiten)

    def covariance(others: Array, z_others: Array, u_others: Array) -> Array:
        unseen = kernel.gram(points, others) - matmul(z, z_others.T)
        return unseen / regularization + matmul(u, u_others.T)

    half = matmul(covariance(pulls.points, pulls.z, pulls.u), pulls.inverse.T)
    left = covariance(points, z, u) - matmul(half, half.T)
    # the variances of the sweep are exact for arms of the dictionary (THEORY 9.1)
    diagonal = _left(variance, half)
    same = jnp.eye(len(points), dtype=bool)
    return _Given(points, z, u, half, jnp.where(same, diagonal[:, None], left))


def _left(variance: Array, half: Array) -> Array:
    """Variances [k] after the pulls, of those before them."""
    return jnp.maximum(variance - jnp.square(half).sum(1), 0)


def variances(
    sketch: SketchState,
    kernel: Kernel,
    regularization: ArrayLike,
    pulls: Pulls,
    points: Array,
    variance: Array,
) -> Array:
    """The variances [n] after the pulls of arms [n,d], of known ones [n] before them."""
    z = nystroms.features(sketch.nystrom, kernel, points)
    u = matmul(z, sketch.whiten)
    unseen = kernel.gram(points, pulls.points) - matmul(z, pulls.z.T)
    covariance = unseen / regularization + matmul(u, pulls.u.T)
    return _left(variance, matmul(covariance, pulls.inverse.T))


def _append(pulls: Pulls, slot: Array, some: _Given, noise: Array, valid: Array) -> Pulls:
    """The pulls with those of some arms [p] from `slot` on, of noise variances [p]; where `valid`
    [p] is false a slot stays free. Valid ones come first.

    L^-1 of the larger matrix has the rows [-D^-1 H L^-1, D^-1], with H = `half` and D D^T what is
    left of the arms' covariance, plus noise.
    """
    both = valid[:, None] & valid[None, :]
    left = jnp.where(both, some.covariance, 0) + jnp.diag(jnp.where(valid, noise, 1))
    own = jnp.where(both, cholesky_inverse(left).inverse, 0)
    rows = -matmul(matmul(own, some.half), pulls.inverse)
    zero = jnp.zeros((), jnp.int32)
    rows = lax.dynamic_update_slice(rows, own, (zero, slot))
    written = Pulls(some.points, some.z, some.u, rows)
    return Pulls(
        *(
            lax.dynamic_update_slice(before, block, (slot, zero))
            for before, block in zip(pulls, written, strict=True)
        )
    )


def conditioned(
    domain: Arms,
    sketch: SketchState,
    kernel: Kernel,
    regularization: ArrayLike,
    pulls: Pulls,
    arms: Array,
    counts: Array,
) -> Pulls:
    """No pulls, and then counts [p] >= 1 of different arms [p]; a count of 0 is none, and comes
    last."""
    points, variance = shards.take(domain.shard, (domain.features, sketch.variance), arms)
    some = _given(sketch, kernel, regularization, pulls, points, variance)
    noise = 1 / jnp.maximum(counts, 1)
    return _append(pulls, jnp.zeros((), jnp.int32), some, noise, counts > 0)


def extend(
    domain: Arms,
    sketch: SketchState,
    kernel: Kernel,
    regularization: ArrayLike,
    width: Array,
    batch: Batch,
    begin: Array,
    limit: Array,
    repeat: bool,
    beyond: Array | None = None,
) -> Batch:
    """The batch with the picks of one working set, perhaps none: then the set's scores are current,
    and the next set is another. Ends at `limit` picks. `begin` [] pulls are not of this batch;
    repeat: whether an arm may be picked again; beyond [] bounds the scores of arms that are not in
    the domain, None where there are none."""
    shard = domain.shard
    index, outside = working_set.largest_of_all(shard, batch.scores, min(SIZE, domain.count))
    if beyond is not None:
        outside = jnp.maximum(outside, beyond)
    points, mean, variance, stored = shards.take(
        shard, (domain.features, sketch.mean, sketch.variance, batch.scores), index
    )
    some = _given(sketch, kernel, regularization, batch.pulls, points, variance)

    def scores_of(picks: _Picks) -> Array:
        variance = jnp.maximum(jnp.diagonal(picks.covariance), 0)
        return jnp.where(picks.ruled_out, -jnp.inf, mean + width * jnp.sqrt(variance))

    def look(picks: _Picks) -> _Picks:
        scores = scores_of(picks)
        scores = jnp.where(jnp.isposinf(stored) & (picks.picked == 0), jnp.inf, scores)
        best = jnp.argmax(scores).astype(jnp.int32)
        # not >=: a posterior that is not finite ends its batch too
        going = ~(scores[best] < outside) & (picks.picked < PICKS)
        # a NaN outside is in the next set
        going = going & (~picks.ruled_out[best] | jnp.isneginf(outside))
        return picks._replace(best=best, going=going & (batch.size + picks.picked < limit))

    def pick(picks: _Picks) -> _Picks:
        row = picks.covariance[picks.best]
        gain = 1 / (1 + jnp.maximum(row[picks.best], 0))
        ruled_out = picks.ruled_out
        if not repeat:
            # an arm is twice in the set where no other is left
            ruled_out = ruled_out | (index == index[picks.best])
        return look(
            picks._replace(
                covariance=picks.covariance - row[:, None] * (gain * row)[None, :],
                ruled_out=ruled_out,
                position=put(picks.position, picks.picked, picks.best),
                picked=picks.picked + 1,
            )
        )

    zero = jnp.zeros((), jnp.int32)
    none = jnp.zeros(PICKS, jnp.int32)
    start = _Picks(some.covariance, jnp.isneginf(stored), none, zero, zero, jnp.ones((), bool))
    picks = lax.while_loop(lambda p: p.going, pick, look(start))
    valid = jnp.arange(PICKS, dtype=jnp.int32) < picks.picked
    at = picks.position
    chosen = _Given(points[at], some.z[at], some.u[at], some.half[at], some.covariance[at][:, at])
    rows = shards.local(shard, index, batch.scores.shape[0])
    # never more than before: what rounds up from set to set would keep them from ending. A NaN
    # stays one, but where the arm is ruled out
    scores = jnp.where(picks.ruled_out, -jnp.inf, jnp.minimum(stored, scores_of(picks)))
    return Batch(
        arms=lax.dynamic_update_slice(batch.arms, jnp.where(valid, index[at], 0), (batch.size,)),
        size=batch.size + picks.picked,
        scores=batch.scores.at[rows].set(scores, mode="drop"),
        pulls=_append(
            batch.pulls, begin + batch.size, chosen, jnp.ones(PICKS, variance.dtype), valid
        ),
    )
