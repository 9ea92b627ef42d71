"""The largest scores of a chunk of arms, and a bound of the other scores.

In float64 the scores are those of `FixedBKB`. A sweep in float32 ranks arms by an upper bound of
their float64 score (THEORY 9.6). The bound includes an estimate of the rounding error of
k(x,x) - |k_S(x) G|^2. The caller checks the bound for arms whose score it computes in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, linalg
from jsketch.bandits.batches import fixed_set
from jsketch.bandits.core.sketched import SketchState
from jsketch.linalg import matmul, matmul_upper, squares_upper
from jsketch.posterior import ridge
from jsketch.precision import in_dtype
from jsketch.sketch.nystrom import PROBES
from jsketch.types import Kernel


class Factors(NamedTuple):
    """The factors of a posterior on M inducing points S: lam sigma^2 = k(x,x) - |k_S(x) G|^2."""

    points: Array  # [M, d]
    explained_root: Array  # G [M, M], upper triangular
    columns: Array  # [M, 1 + PROBES]: weights of the mean; probes of the slope |G G^T k_S(x)|
    # the next three are [], bounds of rounding errors in units of eps
    mean_error: Array  # of the mean of any arm
    variance_error: Array  # of lam sigma^2 of any arm
    slope_error: Array  # of lam sigma^2 per unit of |G G^T k_S(x)|


class TopArms(NamedTuple):
    """The k arms of a chunk with the largest scores. The score of an excluded arm is -inf."""

    row: Array  # [k] int32, in the chunk
    points: Array  # [k, d]
    mean: Array  # [k]
    variance: Array  # [k]
    score: Array  # [k]
    next_best: Array  # [], largest score of the other arms
    finite: Array  # [] bool, whether all means, variances and scores of the chunk are finite


@partial(jax.jit, static_argnums=(3, 4))
def factors(
    sketch: SketchState, kernel: Kernel, regularization: ArrayLike, rows: int, dtype: Any
) -> Factors:
    """The factors of a posterior for sweeps of `rows` arms, computed in the dtype of the sketch and
    rounded to `dtype`."""
    nystrom = sketch.nystrom
    ridge_posterior = ridge.Ridge(sketch.whiten, sketch.weights, sketch.evidence.logdet)
    n_inducing, sketch_dtype = nystrom.root.shape[0], nystrom.root.dtype
    root = ridge.explained_root(ridge_posterior, regularization)
    explained_root = matmul_upper(nystrom.root, root)
    mean_weights = matmul(nystrom.root, matmul(sketch.whiten, sketch.weights))
    normal = jax.random.normal(jax.random.key(0), (n_inducing, PROBES), sketch_dtype)
    # the mean square of the entries of probes^T k_S(x) estimates |G G^T k_S(x)|^2
    probes = matmul(explained_root, matmul(explained_root.T, normal))
    # rounding error of a kernel value, in units of eps k(x,x)
    kernel_error = jnp.asarray(checks.kernel_rounding(kernel, nystrom.points, rows), sketch_dtype)
    prior_variance = sketch.evidence.prior_variance
    largest_norm = jnp.sqrt(jnp.square(explained_root).sum(0).max())  # of a column
    result = Factors(
        points=nystrom.points,
        explained_root=explained_root,
        columns=jnp.concatenate([mean_weights[:, None], probes], axis=1),
        mean_error=(kernel_error + 1) * prior_variance * jnp.sqrt(jnp.square(mean_weights).sum()),
        variance_error=2 * prior_variance * (1 + jnp.sqrt(prior_variance) * largest_norm),
        slope_error=2 * kernel_error * prior_variance,
    )
    return in_dtype(result, dtype)


def posterior(
    factors: Factors, kernel: Kernel, regularization: ArrayLike, x: Array
) -> tuple[Array, Array, Array, Array]:
    """(mean, variance, bounds of rounding errors of the mean and of the variance), each [n], of
    arms x [n, d] in the dtype of the factors."""
    eps = jnp.finfo(factors.explained_root.dtype).eps

    def block(x: Array) -> tuple[Array, Array, Array, Array]:
        k = kernel.gram(x, factors.points)
        product = matmul(k, factors.columns)
        mean, slope = product[:, 0], jnp.sqrt(jnp.square(product[:, 1:]).mean(1))
        variance = jnp.maximum(kernel.diag(x) - squares_upper(k, factors.explained_root), 0)
        return (
            mean,
            variance / regularization,
            eps * (factors.mean_error + jnp.abs(mean)),
            eps * (factors.variance_error + factors.slope_error * slope) / regularization,
        )

    return linalg.map_rows(block, x, factors.explained_root.shape[0])


def _top_of_scores(
    x: Array, mean: Array, variance: Array, score: Array, excluded: Array, n_arms: Array, count: int
) -> TopArms:
    """The `count` arms with the largest scores [R] of a chunk. The rows `excluded` [E] (R stands
    for no row) and the padding, which are the rows from `n_arms` [] on, have the score -inf."""
    rows = x.shape[0]
    finite = jnp.isfinite(mean).all() & jnp.isfinite(variance).all() & jnp.isfinite(score).all()
    score = jnp.where(jnp.arange(rows, dtype=jnp.int32) < n_arms, score, -jnp.inf)
    score = score.at[excluded].set(-jnp.inf, mode="drop")
    row, next_best = linalg.largest(score, min(count, rows))
    return TopArms(row, x[row], mean[row], variance[row], score[row], next_best, finite)


@partial(jax.jit, static_argnums=7)
def top_arms(
    factors: Factors,
    kernel: Kernel,
    regularization: ArrayLike,
    width: Array,
    x: Array,
    excluded: Array,
    n_arms: Array,
    count: int,
    safety: ArrayLike,
) -> TopArms:
    """The arms of a chunk x [R, d] with the largest upper confidence bounds, in which mean and
    variance are enlarged by `safety` times the bounds of their rounding errors."""
    kernel, regularization, width, safety = in_dtype(
        (kernel, regularization, width, safety), x.dtype
    )
    mean, variance, mean_error, variance_error = posterior(factors, kernel, regularization, x)
    score = mean + safety * mean_error + width * jnp.sqrt(variance + safety * variance_error)
    return _top_of_scores(x, mean, variance, score, excluded, n_arms, count)


@partial(jax.jit, static_argnums=8)
def top_arms_after_picks(
    bandit: Any,
    sketch: SketchState,
    factors: Factors,
    pulls: fixed_set.Pulls,
    width: Array,
    x: Array,
    excluded: Array,
    n_arms: Array,
    count: int,
) -> TopArms:
    """The arms of a chunk with the largest scores given the picks of the batch."""
    kernel, regularization = bandit.kernel, bandit.regularization
    x = x.astype(factors.explained_root.dtype)

    def block(x: Array) -> Array:
        k = kernel.gram(x, factors.points)
        variance = jnp.maximum(kernel.diag(x) - squares_upper(k, factors.explained_root), 0)
        return fixed_set.variances(bandit, sketch, pulls, x, variance / regularization)

    mean, variance, _, _ = posterior(factors, kernel, regularization, x)
    variance_after_picks = linalg.map_rows(block, x, factors.explained_root.shape[0])
    score = mean + width * jnp.sqrt(variance_after_picks)
    return _top_of_scores(x, mean, variance, score, excluded, n_arms, count)
