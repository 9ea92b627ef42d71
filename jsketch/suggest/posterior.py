"""The posterior of a Gaussian process, exact or on a sketch of inducing points. `predict` computes
the variances of a whole library, in blocks, and `joint` the covariance of a few candidates.

`jsketch.posterior.exact` stores a number for each pair of a candidate and an evaluation, too many
for millions of candidates. Here only the evaluations are stored. In the sketch (Titsias, AISTATS
2009; eq. 2 of BBKB), the part of f that the inducing points do not represent keeps its prior
variance. The sketch is exact if every evaluated candidate is an inducing point.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jsketch import struct
from jsketch.numerics import matmul
from jsketch.sketch import nystrom

BLOCK = 2048  # largest number of candidates in one matrix product of `predict`


class Evaluations(NamedTuple):
    """N slots of observed and pending evaluations."""

    points: Array  # [N, d]
    values: Array  # [N], of mean 0, in units of the signal's standard deviation
    observed: Array  # [N] bool, slots with a value
    pending: Array  # [N] bool
    error_variance: Array  # [N], added to the noise variance, in units of the signal variance


@struct.dataclass
class Posterior:
    """Posterior of f; k(x,x) is 1 on average. Pending evaluations change variances, but no mean."""

    kernel: Any
    points: Array  # [N, d], evaluations or inducing points
    used: Array  # [N] bool
    weights: Array  # [N]; the mean at x is their product with k(points, x)
    # [N, N]; the evaluations reduce the variance of f(x) by |half k(points, x)|^2. `half` is L^-1,
    # where Cov y = L L^T. On a sketch it is R F, where F maps k(points, x) to the features of x,
    # R^T R = I - (I + Z^T Z / ratio)^-1, and the rows of Z are the features of the evaluations.
    half: Array
    ratio: Array  # [], noise variance over signal variance


def inverse_root_by_lapack(matrix: Array) -> Array:
    """L^-1 of a positive definite matrix L L^T. `numerics.cholesky_inverse` takes half a second to
    compile for each size, more than it saves in a few factorizations."""
    identity = jnp.eye(len(matrix), dtype=matrix.dtype)
    root = lax.linalg.cholesky(matrix)
    return lax.linalg.triangular_solve(root, identity, left_side=True, lower=True)


def inverse_root(kernel: Any, points: Array, used: Array, noise: Array) -> Array:
    """L^-1 [N,N] of k(points, points) + diag(noise) = L L^T; the identity in unused slots."""
    in_use = used[:, None] & used[None, :]
    gram = jnp.where(in_use, kernel.gram(points, points), 0)
    return inverse_root_by_lapack(gram + jnp.diag(jnp.where(used, noise, 1)))


def condition(kernel: Any, evaluations: Evaluations, ratio: Array) -> Posterior:
    """The posterior given the observed values, where each pending evaluation is assumed to return
    its posterior mean (hallucination; THEORY 5.8)."""
    points, values, observed, pending, error_variance = evaluations
    noise = ratio + error_variance
    inverse = inverse_root(kernel, points, observed, noise)
    weights = matmul(inverse.T, matmul(inverse, jnp.where(observed, values, 0)))
    if pending.shape[0] == 0:
        return Posterior(kernel, points, observed, weights, inverse, ratio)
    used = observed | pending
    hallucinated = matmul(kernel.gram(points, points), jnp.where(observed, weights, 0))
    hallucinated = jnp.where(pending, hallucinated, jnp.where(observed, values, 0))
    inverse = inverse_root(kernel, points, used, noise)
    weights = matmul(inverse.T, matmul(inverse, hallucinated))
    return Posterior(kernel, points, used, weights, inverse, ratio)


def condition_sketched(
    kernel: Any, evaluations: Evaluations, inducing: Array, included: Array, ratio: Array
) -> Posterior:
    """As `condition`, with a sketch. `included` [M] marks the inducing points [M,d] in use."""
    sketch = nystrom.build(kernel, inducing, included)
    z = nystrom.features(sketch, kernel, evaluations.points)
    # a value is multiplied by this factor, so that its noise and error have the variance `ratio`
    factor = jnp.sqrt(ratio / (ratio + evaluations.error_variance))
    z = factor[:, None] * z
    observed = jnp.where(evaluations.observed[:, None], z, 0)
    identity = jnp.eye(z.shape[1], dtype=z.dtype)
    root = inverse_root_by_lapack(identity + matmul(observed.T, observed) / ratio)
    values = jnp.where(evaluations.observed, factor * evaluations.values, 0)
    weights = matmul(root.T, matmul(root, matmul(values, observed))) / ratio
    used = jnp.where((evaluations.observed | evaluations.pending)[:, None], z, 0)
    spectrum, vectors = jnp.linalg.eigh(matmul(used.T, used))
    spectrum = jnp.maximum(spectrum, 0)
    explained = jnp.sqrt(spectrum / (spectrum + ratio))[:, None] * vectors.T
    mask, half = jnp.ones(len(inducing), bool), matmul(explained, sketch.root.T)
    return Posterior(kernel, sketch.points, mask, matmul(sketch.root, weights), half, ratio)


def _mean_and_explained(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], root [N,q] of the covariance that the evaluations explain) at x [q,d]."""
    gram = jnp.where(posterior.used[:, None], posterior.kernel.gram(posterior.points, x), 0)
    return matmul(posterior.weights, gram), matmul(posterior.half, gram)


def predict(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [A], variance [A]) at all candidates x [A,d], in blocks."""
    n_blocks = -(-x.shape[0] // BLOCK)
    length = -(-x.shape[0] // n_blocks)

    def predict_block(begin: Array) -> tuple[Array, Array]:
        block = lax.dynamic_slice_in_dim(x, begin, length)
        mean, half = _mean_and_explained(posterior, block)
        return mean, jnp.maximum(posterior.kernel.diag(block) - jnp.square(half).sum(0), 0)

    # the last two blocks overlap if `length` does not divide the number of candidates
    begins = jnp.minimum(jnp.arange(n_blocks) * length, x.shape[0] - length)
    mean, variance = lax.map(predict_block, begins)
    index = begins[:, None] + jnp.arange(length)[None, :]
    zeros = jnp.zeros(x.shape[0], x.dtype)
    return zeros.at[index].set(mean), zeros.at[index].set(variance)


def joint(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], covariance [q,q]) at a few candidates x [q,d]."""
    mean, half = _mean_and_explained(posterior, x)
    return mean, posterior.kernel.gram(x, x) - matmul(half.T, half)


def average_over_sets(posterior: Posterior, sets: Array) -> tuple[Array, Array]:
    """(mean [k], variance [k]) of the average of f over each of k sets of S points, `sets`
    [k,S,d]."""

    def average_of_set(x: Array) -> tuple[Array, Array]:
        mean, half = _mean_and_explained(posterior, x)
        prior = jnp.mean(posterior.kernel.gram(x, x))
        return jnp.mean(mean), jnp.maximum(prior - jnp.square(jnp.mean(half, 1)).sum(), 0)

    return lax.map(average_of_set, sets)


class EvidenceBound(NamedTuple):
    """The bound on a log marginal likelihood for R noise-to-signal ratios."""

    log_likelihood: Array  # [R], at most max over s of log N(y; 0, s^2 (K + ratio I))
    scale: Array  # [R], the maximising s, in units of y


def evidence_bound(
    kernel: Any,
    x: Array,
    y: Array,
    points: Array,
    ratios: Array,
    *,
    observed: Array | None = None,
    included: Array | None = None,
) -> EvidenceBound:
    """A lower bound on the log marginal likelihood of values y [n] at x [n,d] (Titsias, AISTATS
    2009), from a sketch with inducing points [m,d]; the noise variances are ratios [R] times s^2.

    The bound is maximised over the scale s in closed form. It is exact if all points are inducing
    points, and its trace term is large for a sketch that represents little of the kernel. Values
    whose `observed` [n] bool is false, and points whose `included` [m] bool is false, are padding,
    which changes at most the last bits of sums. O(n m^2 + m^3).
    """
    observed = jnp.ones(len(y), bool) if observed is None else observed
    included = jnp.ones(len(points), bool) if included is None else included
    y = jnp.where(observed, y, 0)
    z = nystrom.features(nystrom.build(kernel, points, included), kernel, x)
    z = jnp.where(observed[:, None], z, 0)
    count = observed.sum().astype(y.dtype)
    spectrum, vectors = jnp.linalg.eigh(matmul(z.T, z))
    spectrum = jnp.maximum(spectrum, 0)
    # squared coordinates of y in the basis of the sketch, times the spectrum
    squares = jnp.square(matmul(matmul(y, z), vectors))
    # trace of K - Q, where Q = z z^T
    residual = jnp.maximum(jnp.where(observed, kernel.diag(x), 0).sum() - jnp.square(z).sum(), 0)
    shifted = spectrum[None, :] + ratios[:, None]
    # y^T (Q + ratio I)^-1 y
    quadratic = (jnp.square(y).sum() - (squares[None, :] / shifted).sum(1)) / ratios
    variance = jnp.maximum(quadratic, 0) / count
    logdet = count * jnp.log(ratios) + jnp.log(shifted / ratios[:, None]).sum(1)
    fit = count * (jnp.log(2 * jnp.pi * variance) + 1)
    return EvidenceBound(-0.5 * (fit + logdet + residual / ratios), jnp.sqrt(variance))
