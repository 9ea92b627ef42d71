"""The posterior given hallucinated pulls, and batches of a given size (THEORY 5.8).

A hallucinated pull lowers variances and does not change means. A batch of BBKB needs only the
embedded part u(x).u(x') of the covariance, because the rule that ends it bounds the rest. A batch
of a given size may leave the region that the dictionary represents. Its pulls therefore lower
variances by the full sketched covariance (BBKB eq. 2)

    k~(x,x') = (k(x,x') - z(x).z(x')) / lam + u(x).u(x'),

which differs from arm to arm even if the dictionary is empty. A pulled arm adds a row to the
Cholesky factor of the covariance of the pulls. The picks come from working sets
(`core.working_set`): they update the covariance of a set, and the factor once for each set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.core.posterior import Posterior, embed, features
from jsketch.core.working_set import pick_from_set
from jsketch.numerics import cholesky_inverse, largest, matmul, put_part, take

CONDITIONED_ARMS = 64  # k, arms of a working set
ROWS_TOGETHER = 32  # the largest number of picks from one working set; each is a row of L^-1


class Pulls(NamedTuple):
    """Hallucinated pulls in R slots. Slot j has n_j pulls of arm x_j. The mean of their rewards has
    the covariance k~(x, x_j) with the value of an arm x, and the noise variance 1/n_j."""

    points: Array  # [R, d]
    z: Array  # [R, M], Nystrom features
    u: Array  # [R, M], whitened features
    # [R, R], L^-1 with L L^T the covariance plus noise; zero in rows and columns of free slots
    inverse: Array


class Conditioned(NamedTuple):
    """k points given the pulls."""

    points: Array  # [k, d]
    z: Array  # [k, M]
    u: Array  # [k, M]
    half: Array  # [k, R], L^-1 times the covariances of a point and the pulls
    covariance: Array  # [k, k]


def no_pulls(posterior: Posterior, slots: int) -> Pulls:
    """No pulls in R = `slots` free slots."""
    capacity, dimension = posterior.points.shape
    dtype = posterior.points.dtype
    zeros = jnp.zeros((slots, capacity), dtype)
    return Pulls(
        points=jnp.broadcast_to(posterior.points[0], (slots, dimension)),
        z=zeros,
        u=zeros,
        inverse=jnp.zeros((slots, slots), dtype),
    )


def _given(
    posterior: Posterior, kernel: Any, regularization: ArrayLike, pulls: Pulls, x: Array
) -> tuple[Array, Array, Array, Any]:
    """(z, u and `Conditioned.half` of points x [k,d]; their covariances with other points)."""
    z, u = features(posterior, kernel, x), embed(posterior, kernel, x)

    def covariance(points: Array, other_z: Array, other_u: Array) -> Array:
        residual = kernel.gram(x, points) - matmul(z, other_z.T)
        return residual / regularization + matmul(u, other_u.T)

    half = matmul(covariance(pulls.points, pulls.z, pulls.u), pulls.inverse.T)
    return z, u, half, covariance


def _reduced(variance: Array, half: Array) -> Array:
    return jnp.maximum(variance - jnp.square(half).sum(1), 0)


def variances(
    posterior: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    pulls: Pulls,
    x: Array,
    variance: Array,
) -> Array:
    """The variances [k] of points x [k,d] given the pulls, from the variances [k] before them."""
    return _reduced(variance, _given(posterior, kernel, regularization, pulls, x)[2])


def condition(
    posterior: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    pulls: Pulls,
    x: Array,
    variance: Array,
) -> Conditioned:
    """Points x [k,d] given the pulls; `variance` [k] are their variances before the pulls."""
    z, u, half, covariance = _given(posterior, kernel, regularization, pulls, x)
    given_pulls = covariance(x, z, u) - matmul(half, half.T)
    # `variance` has no rounding error where the residual is 0 (THEORY 9.1)
    is_diagonal = jnp.eye(len(x), dtype=bool)
    given_pulls = jnp.where(is_diagonal, _reduced(variance, half)[:, None], given_pulls)
    return Conditioned(x, z, u, half, given_pulls)


def append(
    pulls: Pulls, slot: ArrayLike, points: Conditioned, counts: Array, valid: Array
) -> Pulls:
    """The pulls, with `counts` [k] further pulls of k points in the slots from `slot` [] on. Points
    that are not `valid` [k] come last, and their slots stay free.

    The new rows of L^-1 are [-D^-1 H L^-1, D^-1], with H = `half` and D D^T the covariance of the
    points given the earlier pulls, plus noise.
    """
    pairs = valid[:, None] & valid[None, :]
    noise = jnp.diag(jnp.where(valid, 1 / jnp.maximum(counts, 1), 1))
    inverse = cholesky_inverse(jnp.where(pairs, points.covariance, 0) + noise)[1]
    inverse = jnp.where(pairs, inverse, 0)
    rows = -matmul(matmul(inverse, points.half), pulls.inverse)
    slot, zero = jnp.asarray(slot, jnp.int32), jnp.zeros((), jnp.int32)
    rows = lax.dynamic_update_slice(rows, inverse, (zero, slot))
    block = Pulls(points.points, points.z, points.u, rows)
    return jax.tree.map(
        lambda before, new: lax.dynamic_update_slice(before, new, (slot, zero)), pulls, block
    )


class FixedBatch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + ROWS_TOGETHER] int32, picks in order; each set writes ROWS_TOGETHER entries
    size: Array  # [] int32
    scores: Array  # [A], upper bounds of the current scores; -inf for arms that cannot be picked
    pulls: Pulls  # of the pending evaluations, then of the picks
    n_pending: Array  # [] int32, slots of the pending evaluations


def fill_batch(
    posterior: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    x: Array,
    width: Array,
    batch: FixedBatch,
    limit: ArrayLike,
    *,
    repeat: bool = True,
    outside: ArrayLike = -jnp.inf,
) -> FixedBatch:
    """The batch after picks until it has `limit` [] picks, or no arm is left.

    kernel   k, a kernel of `jsketch.kernels`
    x        arms [A, d]
    width    [], posterior standard deviations of a score
    repeat   whether an arm may be picked again
    outside  [], an upper bound of the scores of arms that are not in x: picking ends below it
    """

    def goes_on(batch: FixedBatch) -> Array:
        best = jnp.max(batch.scores)
        # `~(<)`: a score of NaN is picked, because the loop must end
        return (batch.size < limit) & ~(best < outside) & ~jnp.isneginf(best)

    def add_from_set(batch: FixedBatch) -> FixedBatch:
        index, next_best = largest(batch.scores, min(CONDITIONED_ARMS, len(x)))
        mean, variance, before = (
            take(a, index) for a in (posterior.mean, posterior.variance, batch.scores)
        )
        # `largest` repeats an arm if too few have a score
        is_new = jnp.concatenate([jnp.ones(1, bool), index[1:] != index[:-1]])
        candidates = is_new & ~jnp.isneginf(before)
        arguments = posterior, kernel, regularization, batch.pulls
        arms = condition(*arguments, take(x, index), variance)
        picks, scores = pick_from_set(
            mean,
            jnp.zeros_like(mean),
            arms.covariance,
            width,
            outside=jnp.maximum(next_best, outside),
            limit=jnp.minimum(limit - batch.size, ROWS_TOGETHER),
            # no bound on the variances ends a batch of a given size
            bound=jnp.zeros_like(width),
            variance=jnp.zeros_like(mean),
            ratio=jnp.inf,
            candidates=candidates,
            repeat=repeat,
            reduces=False,
        )
        chosen = picks.member[:ROWS_TOGETHER]
        valid = jnp.arange(ROWS_TOGETHER, dtype=jnp.int32) < picks.size
        picked = Conditioned(*(take(rows, chosen) for rows in arms))
        picked = picked._replace(covariance=take(picked.covariance.T, chosen).T)
        # If rounding increased a stored score, the loop might not end. A score of NaN stays NaN,
        # unless its arm cannot be picked again
        scores = jnp.where(jnp.isneginf(scores), scores, jnp.minimum(before, scores))
        place = jnp.where(candidates, index, len(x))
        return FixedBatch(
            arms=put_part(batch.arms, batch.size, take(index, chosen)),
            size=batch.size + picks.size,
            scores=batch.scores.at[place].set(scores, mode="drop"),
            pulls=append(
                batch.pulls,
                batch.n_pending + batch.size,
                picked,
                jnp.ones_like(mean, shape=ROWS_TOGETHER),
                valid,
            ),
            n_pending=batch.n_pending,
        )

    return lax.while_loop(goes_on, add_from_set, batch)
