"""The exact posterior of a Gaussian process at a library's candidates, in blocks, and jointly at a
few of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import struct
from jax import Array, lax

from jsketch.factor import cholesky_inverse
from jsketch.linalg import chunked, matmul

BLOCK = 2048  # candidates that are predicted together


class Observed(NamedTuple):
    """N slots of evaluations: those observed, and those pending."""

    points: Array  # [N, d]
    values: Array  # [N], of mean 0, in units of the signal's standard deviation
    known: Array  # [N] bool, slots with a value
    pending: Array  # [N] bool, slots whose value is still to come


@struct.dataclass
class Posterior:
    """What the evaluations say of f, k(x,x) = 1: variances with the pending ones, means without."""

    kernel: Any
    points: Array  # [N, d]
    used: Array  # [N] bool
    inverse: Array  # [N, N], L^-1 of Cov y = L L^T
    weights: Array  # [N], Cov^-1 y
    ratio: Array  # [], noise variance over signal variance


def _factored(kernel: Any, points: Array, used: Array, ratio: Array) -> Array:
    both = used[:, None] & used[None, :]
    gram = jnp.where(both, kernel.gram(points, points), 0)
    return cholesky_inverse(gram + jnp.diag(jnp.where(used, ratio, 1))).inverse


def condition(kernel: Any, observed: Observed, ratio: Array) -> Posterior:
    """The posterior after the observed values, and after every pending one has brought its mean:
    which changes no mean, and lowers variances (hallucination; THEORY 5.8)."""
    points, values, known, pending = observed
    inverse = _factored(kernel, points, known, ratio)
    weights = matmul(inverse.T, matmul(inverse, jnp.where(known, values, 0)))
    if pending.shape[0] == 0:
        return Posterior(kernel, points, known, inverse, weights, ratio)
    used = known | pending
    believed = matmul(kernel.gram(points, points), jnp.where(known, weights, 0))
    believed = jnp.where(pending, believed, jnp.where(known, values, 0))
    inverse = _factored(kernel, points, used, ratio)
    weights = matmul(inverse.T, matmul(inverse, believed))
    return Posterior(kernel, points, used, inverse, weights, ratio)


def _with_data(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], L^-1 Cov(y, f(x)) [N,q]) at x [q,d]."""
    gram = jnp.where(posterior.used[:, None], posterior.kernel.gram(posterior.points, x), 0)
    return matmul(posterior.weights, gram), matmul(posterior.inverse, gram)


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
    at = begins[:, None] + jnp.arange(size)
    empty = jnp.zeros(x.shape[0], x.dtype)
    return empty.at[at].set(mean), empty.at[at].set(variance)


def joint(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """(mean [q], covariance [q,q]) at a few candidates x [q,d]."""
    mean, half = _with_data(posterior, x)
    return mean, posterior.kernel.gram(x, x) - matmul(half.T, half)
