"""What a chunk of arms says of a posterior: its largest scores, and a bound of the others.

In float64 the scores are those of `sketched.predict_arms`. A sweep in float32 ranks arms by an
upper bound of their score in float64 instead (THEORY 9.7), with an estimate of what rounding does
to k(x,x) - |k_S(x) G|^2 in `screened`; who reads it checks the bound on arms whose score in float64
is known.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, devices, linalg
from jsketch.bandits.batches import adaptive_batch, fixed_set
from jsketch.bandits.core import sketched
from jsketch.bandits.core.sketched import SketchState
from jsketch.bandits.fixed_bkb import FixedBKB
from jsketch.linalg import chunked, matmul, matmul_upper, squares_upper
from jsketch.posterior import ridge
from jsketch.precision import in_dtype
from jsketch.sketch import nystrom as nystroms
from jsketch.types import Kernel


class Factors(NamedTuple):
    """A posterior as a sweep reads it: mean and lam sigma^2 = k(x,x) - |k_S(x) G|^2."""

    points: Array  # [M, d]
    said: Array  # G [M, M], upper triangular
    # [M, 1 + 2 PROBES]: the mean's, probes of `nystrom.sensitivity`, and G G^T times normals
    reads: Array
    # [], what rounding adds to a mean and to lam sigma^2 whatever the arm, in eps
    mean_error: Array
    spent_error: Array
    slope_error: Array  # [], what it adds to lam sigma^2 times |G G^T k_S(x)|, in eps


class Top(NamedTuple):
    """The k arms of a chunk with the largest scores; -inf for what is no candidate."""

    row: Array  # [k] int32, in the chunk
    points: Array  # [k, d]
    mean: Array  # [k]
    variance: Array  # [k]
    score: Array  # [k]
    outside: Array  # [], the largest of the others
    largest: Array  # [], variance of all arms of the chunk
    sensitivity: Array  # [], `nystrom.sensitivity` of them
    finite: Array  # [] bool, whether means and variances of them are


def _normals(size: int, dtype: Any) -> Array:
    return jax.random.normal(jax.random.key(0), (size, nystroms.PROBES), dtype)


@partial(jax.jit, static_argnums=(3, 4))
def factors(
    sketch: SketchState, kernel: Kernel, regularization: ArrayLike, rows: int, dtype: Any
) -> Factors:
    """The factors of a posterior, computed in its own dtype and rounded to that of a sweep of so
    many rows."""
    nystrom, posterior = (
        sketch.nystrom,
        ridge.Ridge(sketch.whiten, sketch.weights, sketch.evidence.logdet),
    )
    size, own = nystrom.root.shape[0], nystrom.root.dtype
    said = matmul_upper(nystrom.root, ridge.explained_root(posterior, regularization))
    dual = matmul(nystrom.root, matmul(sketch.whiten, sketch.weights))
    slopes = matmul(said, matmul(said.T, _normals(size, own)))
    reads = jnp.concatenate([dual[:, None], nystroms.probes(nystrom), slopes], axis=1)
    # by how many eps k(x,x) a value of the kernel is off
    off = jnp.asarray(checks.roundings(kernel, nystrom.points, rows), own)
    prior = sketch.evidence.prior_variance
    column = jnp.sqrt(jnp.square(said).sum(0).max())
    found = Factors(
        points=nystrom.points,
        said=said,
        reads=reads,
        mean_error=(off + 1) * prior * jnp.sqrt(jnp.square(dual).sum()),
        spent_error=2 * prior * (1 + jnp.sqrt(prior) * column),
        slope_error=2 * off * prior,
    )
    return in_dtype(found, dtype)


def _by_pieces(function: Any, x: Array, size: int) -> Any:
    """function(x [n, d]) of arrays [n], in pieces that fit a cache."""
    entries = (
        sketched.SWEEP_ENTRIES_ACCELERATOR if devices.on_accelerator() else sketched.SWEEP_ENTRIES
    )
    count, rows = chunked(x.shape[0], max(entries // size, 1))
    padded = jnp.pad(x, ((0, count * rows - x.shape[0]), (0, 0)), mode="edge")
    found = lax.map(function, padded.reshape(count, rows, -1))
    return jax.tree.map(lambda a: a.reshape(-1)[: x.shape[0]], found)


def posterior(
    factors: Factors, kernel: Kernel, regularization: ArrayLike, x: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """(mean, variance, sensitivity; upper bounds of what rounding adds to mean and to variance) of
    arms x [n, d], [n] each, in the dtype of the factors."""
    eps = jnp.finfo(factors.said.dtype).eps

    def piece(x: Array) -> tuple[Array, Array, Array, Array, Array]:
        k = kernel.gram(x, factors.points)
        read = matmul(k, factors.reads)
        mean, probed, slopes = jnp.split(read, [1, 1 + nystroms.PROBES], axis=1)
        spent = jnp.maximum(kernel.diag(x) - squares_upper(k, factors.said), 0)
        slope = jnp.sqrt(jnp.square(slopes).mean(1))
        return (
            mean[:, 0],
            spent / regularization,
            1 + jnp.square(probed).mean(1),
            eps * (factors.mean_error + jnp.abs(mean[:, 0])),
            eps * (factors.spent_error + factors.slope_error * slope) / regularization,
        )

    return _by_pieces(piece, x, factors.said.shape[0])


def _top(
    x: Array,
    mean: Array,
    variance: Array,
    sensitivity: Array,
    score: Array,
    none: Array,
    arms: Array,
    count: int,
) -> Top:
    """The `count` largest scores [R] of a chunk, without the rows in `none` [E] (R for no row) and
    those from the number `arms` [] on."""
    rows = x.shape[0]
    finite = jnp.isfinite(mean).all() & jnp.isfinite(variance).all() & jnp.isfinite(score).all()
    score = jnp.where(jnp.arange(rows, dtype=jnp.int32) < arms, score, -jnp.inf)
    score = score.at[none].set(-jnp.inf, mode="drop")
    row, outside = linalg.largest(score, min(count, rows))
    return Top(
        row=row,
        points=x[row],
        mean=mean[row],
        variance=variance[row],
        score=score[row],
        outside=outside,
        largest=variance.max(),
        sensitivity=sensitivity.max(),
        finite=finite,
    )


@partial(jax.jit, static_argnums=7)
def top(
    factors: Factors,
    kernel: Kernel,
    regularization: ArrayLike,
    width: Array,
    x: Array,
    none: Array,
    arms: Array,
    count: int,
    safety: ArrayLike,
) -> Top:
    """The largest upper confidence bounds of a chunk x [R, d], plus `safety` times what rounding
    may add to them: with 0 the scores themselves."""
    kernel, regularization, width, safety = in_dtype(
        (kernel, regularization, width, safety), x.dtype
    )
    mean, variance, sensitivity, more, spread = posterior(factors, kernel, regularization, x)
    score = mean + safety * more + width * jnp.sqrt(variance + safety * spread)
    return _top(x, mean, variance, sensitivity, score, none, arms, count)


@partial(jax.jit, static_argnums=8)
def top_now(
    bandit: Any,
    sketch: SketchState,
    factors: Factors,
    batch: Any,
    width: Array,
    x: Array,
    none: Array,
    arms: Array,
    count: int,
) -> Top:
    """The largest current scores of a chunk, the picks of the batch counted."""
    kernel, regularization = bandit.kernel, bandit.regularization
    x = x.astype(factors.said.dtype)

    def now(x: Array) -> Array:
        k = kernel.gram(x, factors.points)
        spent = jnp.maximum(kernel.diag(x) - squares_upper(k, factors.said), 0)
        variance = spent / regularization
        if isinstance(bandit, FixedBKB):
            return fixed_set.variances(sketch, kernel, regularization, batch.pulls, x, variance)
        u = matmul(matmul(k, sketch.nystrom.root), sketch.whiten)
        e = (matmul(u, adaptive_batch.with_pulls(batch.precision, batch.last)) * u).sum(1)
        return ridge.residual_variance(variance, u) + jnp.maximum(e, 0)

    mean, variance, sensitivity, _, _ = posterior(factors, kernel, regularization, x)
    left = _by_pieces(now, x, factors.said.shape[0])
    score = mean + width * jnp.sqrt(left)
    return _top(x, mean, variance, sensitivity, score, none, arms, count)
