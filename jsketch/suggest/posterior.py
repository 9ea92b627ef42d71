"""The posterior of a Gaussian process at a library's candidates, in blocks, and jointly at a few of
them: exact, or on a sketch of inducing points.

The sketch's is Titsias' (AISTATS 2009): what the inducing points cannot represent keeps its prior
variance, as in BBKB's eq. 2, and where every evaluated candidate is one of them it is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from jsketch import struct
from jsketch.linalg import chunked, inverse_root_by_lapack, matmul
from jsketch.sketch import nystrom

BLOCK = 2048  # candidates that are predicted together


class Observed(NamedTuple):
    """N slots of evaluations: those observed, and those pending."""

    points: Array  # [N, d]
    values: Array  # [N], of mean 0, in units of the signal's standard deviation
    known: Array  # [N] bool, slots with a value
    pending: Array  # [N] bool, slots whose value is still to come
    error: Array  # [N], variance of a value's own error beside the noise, in those units


@struct.dataclass
class Posterior:
    """What the evaluations say of f, k(x,x) = 1: variances with the pending ones, means without."""

    kernel: Any
    points: Array  # [N, d], evaluations or inducing points
    used: Array  # [N] bool
    weights: Array  # [N], of k(points, x) in the mean
    # [N, N], the square of `half` k(points, x) is the variance of f(x) that the evaluations
    # explain: L^-1 of Cov y = L L^T, or a root of I - (I + Z^T Z / ratio)^-1 times the features z
    half: Array
    ratio: Array  # [], noise variance over signal variance


def _factored(kernel: Any, points: Array, used: Array, noise: Array) -> Array:
    both = used[:, None] & used[None, :]
    gram = jnp.where(both, kernel.gram(points, points), 0)
    return inverse_root_by_lapack(gram + jnp.diag(jnp.where(used, noise, 1)))


def condition(kernel: Any, observed: Observed, ratio: Array) -> Posterior:
    """The posterior after the observed values, and after every pending one has brought its mean:
    which changes no mean, and lowers variances (hallucination; THEORY 5.8)."""
    points, values, known, pending, error = observed
    noise = ratio + error
    inverse = _factored(kernel, points, known, noise)
    weights = matmul(inverse.T, matmul(inverse, jnp.where(known, values, 0)))
    if pending.shape[0] == 0:
        return Posterior(kernel, points, known, weights, inverse, ratio)
    used = known | pending
    believed = matmul(kernel.gram(points, points), jnp.where(known, weights, 0))
    believed = jnp.where(pending, believed, jnp.where(known, values, 0))
    inverse = _factored(kernel, points, used, noise)
    weights = matmul(inverse.T, matmul(inverse, believed))
    return Posterior(kernel, points, used, weights, inverse, ratio)


def condition_sketched(
    kernel: Any, observed: Observed, inducing: Array, included: Array, ratio: Array
) -> Posterior:
    """`condition` on the inducing points [M,d] whose mask [M] is true."""
    built = nystrom.build(kernel, inducing, included)
    z = nystrom.features(built, kernel, observed.points)
    # a value with an error of its own counts as a smaller one with the noise alone
    share = jnp.sqrt(ratio / (ratio + observed.error))
    z = share[:, None] * z
    known = jnp.where(observed.known[:, None], z, 0)
    identity = jnp.eye(z.shape[1], dtype=z.dtype)
    root = inverse_root_by_lapack(identity + matmul(known.T, known) / ratio)
    values = jnp.where(observed.known, share * observed.values, 0)
    moments = matmul(root.T, matmul(root, matmul(values, known))) / ratio
    used = jnp.where((observed.known | observed.pending)[:, None], z, 0)
    spectrum, vectors = jnp.linalg.eigh(matmul(used.T, used))
    spectrum = jnp.maximum(spectrum, 0)
    explained = jnp.sqrt(spectrum / (spectrum + ratio))[:, None] * vectors.T
    everywhere, half = jnp.ones(len(inducing), bool), matmul(explained, built.root.T)
    return Posterior(kernel, built.points, everywhere, matmul(built.root, moments), half, ratio)


def _with_data(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], what the points explain of f(x) [N,q]) at x [q,d]."""
    gram = jnp.where(posterior.used[:, None], posterior.kernel.gram(posterior.points, x), 0)
    return matmul(posterior.weights, gram), matmul(posterior.half, gram)


def predict(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [A], variance [A]) at all candidates x [A,d], in blocks."""
    count, size = chunked(x.shape[0], BLOCK)

    def block(begin: Array) -> tuple[Array, Array]:
        part = lax.dynamic_slice_in_dim(x, begin, size)
        mean, half = _with_data(posterior, part)
        return mean, jnp.maximum(posterior.kernel.diag(part) - jnp.square(half).sum(0), 0)

    # the last block begins earlier where the blocks do not divide the candidates
    begins = jnp.minimum(jnp.arange(count) * size, x.shape[0] - size)
    mean, variance = lax.map(block, begins)
    at = begins[:, None] + jnp.arange(size)[None, :]
    empty = jnp.zeros(x.shape[0], x.dtype)
    return empty.at[at].set(mean), empty.at[at].set(variance)


def joint(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], covariance [q,q]) at a few candidates x [q,d]."""
    mean, half = _with_data(posterior, x)
    return mean, posterior.kernel.gram(x, x) - matmul(half.T, half)
