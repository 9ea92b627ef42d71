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
from jax import Array

from jsketch.box.gp import regression
from jsketch.box.gp.fit import each, minimise
from jsketch.box.gp.prior import LogNormal
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


class Found(NamedTuple):
    """Of standardized values."""

    lengthscale: Array  # [L]
    outputscale: Array  # [], a variance
    noise: Array  # [], a variance


class _Known(NamedTuple):
    """A kernel whose fingerprint distances are worked out once."""

    kernel: Mixed
    bits: list[Array]

    def gram(self, x: Array, y: Array) -> Array:
        return self.kernel.of_bits(x, y, self.bits)


def default(count: int) -> Found:
    """The medians of the priors, for `count` lengthscales."""
    length = jnp.full(count, jnp.exp(LENGTHSCALE.location) * math.sqrt(count))
    return Found(length, jnp.exp(OUTPUTSCALE.location), jnp.exp(NOISE.location))


def log_prior(numbers: Found) -> Array:
    """Density of the numbers themselves, not of their logarithms, []."""
    root = math.sqrt(numbers.lengthscale.shape[0])
    total = LENGTHSCALE.log_density(numbers.lengthscale / root).sum()
    return total + OUTPUTSCALE.log_density(numbers.outputscale) + NOISE.log_density(numbers.noise)


def log_posterior(kernel: Mixed, bits: list[Array], data: regression.Data, numbers: Found) -> Array:
    """log of likelihood times prior, []; `bits` are the kernel's own of the points."""
    known: Any = _Known(replace(kernel, lengthscale=numbers.lengthscale), bits)
    # the kernel divides by its lengthscales itself
    one = jnp.ones(data.u.shape[1], data.u.dtype)
    whole = regression.Hyperparameters(one, numbers.outputscale, numbers.noise)
    return regression.log_marginal_likelihood(known, whole, data) + log_prior(numbers)


def fit(kernel: Mixed, data: regression.Data, fixed: Array | None = None) -> Found:
    """The best of the searches; the kernel's own lengthscales do not count, `fixed` [L] are not
    searched."""
    bits, dtype = kernel.bits(data.u, data.u), data.u.dtype
    count = sum(group.lengthscales for group in kernel.columns)
    floor = max(LEAST_NOISE, 100 * float(jnp.finfo(dtype).eps))

    def numbers(free: Array) -> Found:
        length = jnp.exp(free[2:]) if fixed is None else jnp.asarray(fixed, dtype)
        return Found(length, jnp.exp(free[0]), floor + jnp.exp(free[1]))

    def loss(free: Array) -> Array:
        return -log_posterior(kernel, bits, data, numbers(free))

    ends = [OUTPUTSCALE.location, NOISE.location]
    factors = STARTS if fixed is None else STARTS[:1]
    lengths = [[math.log(f * math.sqrt(count))] * count if fixed is None else [] for f in factors]
    starts = jnp.asarray([ends + length for length in lengths], dtype)
    found, losses = each(lambda free: minimise(loss, free, STEPS), starts)
    return numbers(found[jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))])


compiled = jax.jit(fit)
