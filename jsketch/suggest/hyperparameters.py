"""Lengthscales, amplitude and noise of a `Mixed` kernel: the posterior mode given the values, by
L-BFGS with gradients from several starts (`box.gp.fit`).

Values are standardized, and the mean is theirs. A mean that is fitted, or a small amplitude, makes
what no evaluation is like seem as poor as the first ones were: batches then stay where they began.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy import optimize

from jsketch.box.gp import regression
from jsketch.box.gp.fit import LogNormal
from jsketch.kernels import Mixed

STEPS = 30  # L-BFGS steps from each start
STARTS = (0.5, 2.0)  # lengthscales over sqrt(L)
# Lengthscales grow with the root of their number, as distances do (Hvarfner, Hellsten, Nardi. ICML
# 2024), log-normal with a median of 1.6 sqrt(L) sides of the unit cube; amplitude and noise are
# variances. Chosen on other seeds than those reported (experiments/pools/README.md)
LENGTHSCALE = LogNormal(0.5, 0.7)
OUTPUTSCALE = LogNormal(2.0, 0.5)
NOISE = LogNormal(-2.0, 1.0)
LEAST_NOISE = 1e-5
NOWHERE = 1e10  # the loss where there is no number


class Found(NamedTuple):
    """Of standardized values."""

    lengthscale: Any  # [L]
    outputscale: Any  # [], a variance
    noise: Any  # [], a variance


class _Known(NamedTuple):
    """A kernel whose fingerprint distances are worked out once."""

    kernel: Mixed
    bits: list[Array]

    def gram(self, x: Array, y: Array) -> Array:
        return self.kernel.of_bits(x, y, self.bits)


def default(count: int) -> Found:
    """The medians of the priors, for `count` lengthscales."""
    length = np.full(count, np.exp(LENGTHSCALE.location) * math.sqrt(count))
    return Found(length, np.exp(OUTPUTSCALE.location), np.exp(NOISE.location))


def log_prior(numbers: Found) -> Array:
    """Density of the numbers themselves, not of their logarithms, []."""
    root = math.sqrt(numbers.lengthscale.shape[0])
    total = LENGTHSCALE.log_density(numbers.lengthscale / root).sum()
    return total + OUTPUTSCALE.log_density(numbers.outputscale) + NOISE.log_density(numbers.noise)


def log_posterior(
    kernel: Mixed, bits: list[Array], data: regression.Data, numbers: Found, known: ArrayLike = 0.0
) -> Array:
    """log of likelihood times prior, []; `bits` are the kernel's own of the points, `known` [N] the
    variances of errors beside the noise."""
    own: Any = _Known(replace(kernel, lengthscale=numbers.lengthscale), bits)
    # the kernel divides by its lengthscales itself
    one = jnp.ones(data.u.shape[1], data.u.dtype)
    whole = regression.Hyperparameters(one, numbers.outputscale, numbers.noise + known)
    return regression.log_marginal_likelihood(own, whole, data) + log_prior(numbers)


def fit(
    kernel: Mixed, data: regression.Data, fixed: np.ndarray | None = None, known: ArrayLike = 0.0
) -> Found:
    """The best of the searches; the kernel's own lengthscales do not count, `fixed` [L] are not
    searched; `known` [N] are variances of errors beside the noise.

    The search is SciPy's, on the host: compiled as a whole, with its line search's three copies of
    the likelihood, it took three seconds for each number of slots.
    """
    count, dtype = sum(group.lengthscales for group in kernel.columns), data.u.dtype
    length = None if fixed is None else jnp.asarray(fixed, dtype)
    bits, errors = _bits(kernel, data.u), jnp.asarray(known, dtype)
    starts = _starts(count, fixed is not None)
    best, least = starts[0], np.inf

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least
        value, slope = _loss(jnp.asarray(free, dtype), kernel, bits, data, length, errors)
        value, slope = float(value), np.asarray(slope, float)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return NOWHERE, np.zeros_like(free)
        if value < least:
            best, least = free.copy(), value
        return value, slope

    for start in starts:
        optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=dict(maxiter=STEPS))
    return _numbers(np, best.astype(dtype), fixed)


def _starts(count: int, fixed: bool) -> list[np.ndarray]:
    """Free coordinates: logarithms of amplitude, noise above its floor, and lengthscales."""
    ends = [OUTPUTSCALE.location, NOISE.location]
    if fixed:
        return [np.array(ends, float)]
    return [np.array(ends + [math.log(f * math.sqrt(count))] * count, float) for f in STARTS]


def _numbers(array: Any, free: Any, fixed: Any) -> Found:
    """Free coordinates as hyperparameters, in the arrays of `array`: NumPy's or JAX's."""
    floor = max(LEAST_NOISE, 100 * float(np.finfo(free.dtype).eps))
    length = array.exp(free[2:]) if fixed is None else fixed
    return Found(length, array.exp(free[0]), floor + array.exp(free[1]))


@jax.jit
def _bits(kernel: Mixed, u: Array) -> list[Array]:
    return kernel.bits(u, u)


@jax.jit
@jax.value_and_grad
def _loss(
    free: Array,
    kernel: Mixed,
    bits: list[Array],
    data: regression.Data,
    fixed: Array | None,
    known: Array,
) -> Array:
    return -log_posterior(kernel, bits, data, _numbers(jnp, free, fixed), known)
