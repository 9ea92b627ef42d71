"""FixedBKB fills a batch of fixed size by working sets, as BBKB does (`adaptive_batch`), but a pick
lowers variances by the full sketched covariance k~ (THEORY 5.7, 5.8).

A pick updates the covariance [k,k] of the set given all earlier pulls; after a set, its pulls are
appended to the earlier pulls. Every argument `bandit` is a `FixedBKB` whose numeric fields have the
dtype of the arms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch.bandits.batches import adaptive_batch
from jsketch.bandits.batches.adaptive_batch import Members
from jsketch.bandits.core.sketched import SketchState, embed
from jsketch.linalg import cholesky_inverse, matmul
from jsketch.types import Arms

SIZE = 64  # k, the number of arms of a working set
PICKS = 32  # the largest number of picks from one working set


class Pulls(NamedTuple):
    """Hallucinated pulls in R slots. Slot j has n_j pulls of arm x_j. The mean of their rewards has
    the covariance k~(x, x_j) with the value of an arm x, and the noise variance 1/n_j."""

    points: Array  # [R, d]
    z: Array  # [R, M], Nystrom features
    u: Array  # [R, M], whitened features
    # [R, R], L^-1 with L L^T the covariance plus noise; zero in rows and columns of free slots
    inverse: Array


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + PICKS] int32, picks in order, then zeros; each set writes PICKS entries
    size: Array  # [] int32
    scores: Array  # [A], upper bounds of the current scores; inf for an arm to be picked next
    pulls: Pulls


class ConditionedArms(NamedTuple):
    """k arms, conditioned on the pulls."""

    points: Array  # [k, d]
    z: Array  # [k, M]
    u: Array  # [k, M]
    half: Array  # [k, R], rows L^-1 c, where c [R] are the covariances of an arm and the pulls
    covariance: Array  # [k, k], given the pulls


def empty_pulls(domain: Arms, capacity: int, slots: int) -> Pulls:
    """No pulls, in `slots` + PICKS free slots, because each set writes PICKS slots."""
    features, n_slots = domain.features, slots + PICKS
    first_arm = domain.rows.take(features, jnp.zeros((), jnp.int32))
    points = jnp.broadcast_to(first_arm, (n_slots, features.shape[1]))
    zeros = jnp.zeros((n_slots, capacity), features.dtype)
    inverse = jnp.zeros((n_slots, n_slots), features.dtype)
    return Pulls(points, z=zeros, u=zeros, inverse=inverse)


EmbeddedPoints = tuple[Array, Array, Array]  # (points [k,d], z [k,M], u [k,M])


def _whitened_covariance(bandit: Any, pulls: Pulls, arms: EmbeddedPoints) -> Array:
    """`ConditionedArms.half` of k arms, [k,R]."""
    return matmul(_covariance(bandit, arms, (pulls.points, pulls.z, pulls.u)), pulls.inverse.T)


def _covariance(bandit: Any, rows: EmbeddedPoints, columns: EmbeddedPoints) -> Array:
    """The covariances k~ of k points (rows) and n points (columns), [k,n]."""
    (row_points, row_z, row_u), (column_points, column_z, column_u) = rows, columns
    residual = bandit.kernel.gram(row_points, column_points) - matmul(row_z, column_z.T)
    return residual / bandit.regularization + matmul(row_u, column_u.T)


def _reduced_variance(variance: Array, half: Array) -> Array:
    """Variances [k] after the pulls, given the variances [k] before them."""
    return jnp.maximum(variance - jnp.square(half).sum(1), 0)


def condition_on(
    bandit: Any, state: SketchState, pulls: Pulls, points: Array, variance: Array
) -> ConditionedArms:
    """k arms at `points` [k,d], with `variance` [k] before the pulls, conditioned on the pulls."""
    embedded = points, *embed(state, bandit.kernel, points)
    half = _whitened_covariance(bandit, pulls, embedded)
    covariance = _covariance(bandit, embedded, embedded) - matmul(half, half.T)
    # `variance`, unlike `covariance`, has no rounding error where the residual is 0 (THEORY 9.1)
    diagonal = _reduced_variance(variance, half)
    on_diagonal = jnp.eye(len(points), dtype=bool)
    return ConditionedArms(*embedded, half, jnp.where(on_diagonal, diagonal[:, None], covariance))


def variances(
    bandit: Any, state: SketchState, pulls: Pulls, points: Array, variance: Array
) -> Array:
    """The variances [n] of points [n,d] after the pulls, given the variances [n] before them."""
    embedded = points, *embed(state, bandit.kernel, points)
    return _reduced_variance(variance, _whitened_covariance(bandit, pulls, embedded))


def _append(pulls: Pulls, slot: Array, arms: ConditionedArms, noise: Array, valid: Array) -> Pulls:
    """The pulls, with pulls of p arms added in the slots from `slot` on; `noise` [p] are their
    noise variances. Arms that are not `valid` [p] come last, and their slots stay free.

    The new rows of L^-1 are [-D^-1 H L^-1, D^-1], with H = `half` and D D^T the covariance of the
    arms given the earlier pulls, plus noise.
    """
    pairs = valid[:, None] & valid[None, :]
    noisy = jnp.where(pairs, arms.covariance, 0) + jnp.diag(jnp.where(valid, noise, 1))
    inverse = jnp.where(pairs, cholesky_inverse(noisy).inverse, 0)
    rows = -matmul(matmul(inverse, arms.half), pulls.inverse)
    zero = jnp.zeros((), jnp.int32)
    rows = lax.dynamic_update_slice(rows, inverse, (zero, slot))
    block = Pulls(arms.points, arms.z, arms.u, rows)
    return jax.tree.map(
        lambda before, new: lax.dynamic_update_slice(before, new, (slot, zero)), pulls, block
    )


def fill_pulls(bandit: Any, state: SketchState, pulls: Pulls, arms: Array, counts: Array) -> Pulls:
    """The empty `pulls`, filled with the pulls of distinct `arms` [p], each pulled `counts` [p]
    times. Arms with a count of 0 come last, and their slots stay free."""
    rows = state.domain.rows
    points, variance = rows.take(state.domain.features, arms), rows.take(state.variance, arms)
    conditioned = condition_on(bandit, state, pulls, points, variance)
    noise = 1 / jnp.maximum(counts, 1)
    return _append(pulls, jnp.zeros((), jnp.int32), conditioned, noise, counts > 0)


def extend(
    bandit: Any,
    state: SketchState,
    batch: Batch,
    n_pending: Array,
    limit: Array,
    unseen_score: Array | None = None,
) -> Batch:
    """The batch with the picks of one working set added, up to `limit` [] picks in all. If a set
    gives no pick, the stored scores of its arms become current, and the next set therefore differs.

    n_pending     number [] of distinct pending arms; their pulls are in the first slots
    unseen_score  an upper bound [] of the scores of arms that are not in the domain
    """
    rows, width = state.domain.rows, bandit.confidence_width(state)
    index, outside_score = rows.largest(batch.scores, min(SIZE, state.domain.count))
    if unseen_score is not None:
        outside_score = jnp.maximum(outside_score, unseen_score)
    points, mean = rows.take(state.domain.features, index), rows.take(state.mean, index)
    variance, previous = rows.take(state.variance, index), rows.take(batch.scores, index)
    arms = condition_on(bandit, state, batch.pulls, points, variance)
    zeros = jnp.zeros_like(variance)
    # `arms.covariance` includes the residuals, and no bound on the variances ends the picks
    members = Members(index, mean, variance=zeros, residual=zeros, previous=previous)
    picks = adaptive_batch.pick_from_set(
        members,
        width,
        arms.covariance,
        outside_score,
        bound=jnp.zeros((), variance.dtype),
        ratio=jnp.inf,
        limit=jnp.minimum(limit - batch.size, PICKS),
        capacity=PICKS,
        repeat=bandit.repeat,
    )
    valid = jnp.arange(PICKS, dtype=jnp.int32) < picks.size
    chosen = picks.position
    covariance = arms.covariance[chosen][:, chosen]
    picked = ConditionedArms(
        points[chosen], arms.z[chosen], arms.u[chosen], arms.half[chosen], covariance
    )
    # `minimum` is needed: if rounding increased a stored score, the loop over sets might not end.
    # A score of NaN remains NaN unless the arm is excluded
    scores = jnp.minimum(previous, adaptive_batch.scores_of(members, width, picks))
    scores = jnp.where(picks.excluded, -jnp.inf, scores)
    place = rows.local(index, batch.scores.shape[0])
    noise = jnp.ones(PICKS, variance.dtype)  # each slot has one pull
    return Batch(
        arms=lax.dynamic_update_slice(
            batch.arms, jnp.where(valid, index[chosen], 0), (batch.size,)
        ),
        size=batch.size + picks.size,
        scores=batch.scores.at[place].set(scores, mode="drop"),
        pulls=_append(batch.pulls, n_pending + batch.size, picked, noise, valid),
    )
