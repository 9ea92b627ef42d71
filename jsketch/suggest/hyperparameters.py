"""Lengthscales, amplitude, noise and mean of a `Mixed` kernel: the most likely ones a posteriori,
by L-BFGS with gradients from two starts (`box.gp.fit`).

Values are standardized. The lengthscales' prior is that of Hvarfner, Hellsten, Nardi (ICML 2024),
log-normal and sqrt(D) long for D lengthscales; the noise's is theirs too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.box.gp import regression
from jsketch.box.gp.fit import each, minimise
from jsketch.box.gp.prior import LENGTHSCALE, NOISE, LogNormal
from jsketch.kernels import Mixed

STEPS = 30  # L-BFGS steps from each start
STARTS = (0.5, 2.0)  # lengthscales over sqrt(D)
OUTPUTSCALE = LogNormal(0.0, 1.0)
MEAN_STD = 1.0
LEAST_NOISE = 1e-5


class Found(NamedTuple):
    """Of standardized values."""

    lengthscale: Array  # [L]
    outputscale: Array  # [], a variance
    noise: Array  # [], a variance
    mean: Array  # []
    loss: Array  # [], minus the log of likelihood times prior


class _Known(NamedTuple):
    """A kernel whose fingerprint distances are worked out once."""

    kernel: Mixed
    bits: list[Array]

    def gram(self, x: Array, y: Array) -> Array:
        return self.kernel.of_bits(x, y, self.bits)


def start_points(count: int) -> np.ndarray:
    """[S, L+3] where searches start: lengthscales, amplitude, noise (logarithms) and mean."""
    rows = [
        [math.log(factor * count**0.5)] * count + [0.0, math.log(0.1), 0.0] for factor in STARTS
    ]
    return np.array(rows)


def unpacked(free: Array) -> tuple[Array, Array, Array, Array]:
    floor = max(LEAST_NOISE, 100 * float(jnp.finfo(free.dtype).eps))
    return jnp.exp(free[:-3]), jnp.exp(free[-3]), floor + jnp.exp(free[-2]), free[-1]


def log_prior(lengthscale: Array, outputscale: Array, noise: Array, mean: Array) -> Array:
    root = math.sqrt(lengthscale.shape[0])
    total = LENGTHSCALE.log_density(lengthscale / root).sum()
    total = total + OUTPUTSCALE.log_density(outputscale) + NOISE.log_density(noise)
    return total - jnp.square(mean / MEAN_STD) / 2


def fit(kernel: Mixed, data: regression.Data, starts: Array) -> Found:
    """The best of the searches from `starts` [S, L+3]; the kernel's own lengthscales do not
    count."""
    bits = kernel.bits(data.u, data.u)

    def loss(free: Array) -> Array:
        lengthscale, outputscale, noise, mean = unpacked(free)
        one = jnp.ones(data.u.shape[1], data.u.dtype)
        known: Any = _Known(kernel.replace(lengthscale=lengthscale), bits)
        centred = data._replace(y=jnp.where(data.mask, data.y - mean, 0))
        numbers = regression.Hyperparameters(one, outputscale, noise)
        value = regression.log_marginal_likelihood(known, numbers, centred)
        return -value - log_prior(lengthscale, outputscale, noise, mean)

    ends, losses = each(lambda free: minimise(loss, free, STEPS), starts)
    winner = jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))
    return Found(*unpacked(ends[winner]), losses[winner])


compiled = jax.jit(fit)
