"""Acquisition functions of a Gaussian posterior.

The logarithm of the expected improvement has a nonzero gradient even far from the data, where the
expected improvement is rounded to zero (Ament, Daulton, Eriksson, Balandat, Bakshy. Unexpected
improvements to expected improvement for Bayesian optimization. NeurIPS 2023). In the tail z < TAIL,
Laplace's continued fraction of Mills' ratio avoids cancellation.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

LOG_ROOT_2PI = math.log(2 * math.pi) / 2
TAIL = -5.0  # below -5 the continued fraction is used; above -5 fewer than 2 digits cancel
TERMS = 20  # terms of the continued fraction, whose relative error is then at most 1e-13


def _tail(z: Array) -> tuple[Array, Array, Array]:
    """(whether z is below TAIL, t, c), where t = max(-z, -TAIL), and 1 / (t + c) is Mills' ratio
    (1 - Phi(t)) / phi(t)."""
    in_tail = z < TAIL
    t = jnp.where(in_tail, -z, -TAIL)
    denominator = t
    for k in range(TERMS, 1, -1):
        denominator = t + k / denominator
    return in_tail, t, 1 / denominator


def log_normal_cdf(z: Array) -> Array:
    """log Phi(z), [...]; the value and its gradient are exact to rounding in both tails."""
    in_tail, t, c = _tail(z)
    tail_value = -t * t / 2 - LOG_ROOT_2PI - jnp.log(t + c)
    return jnp.where(in_tail, tail_value, jnp.log(ndtr(jnp.where(in_tail, 0, z))))


def _log_expected_excess(z: Array) -> Array:
    """log E max(Z + z, 0) = log(phi(z) + z Phi(z)) for a standard normal Z."""
    in_tail, t, c = _tail(z)
    # phi(t) - t (1 - Phi(t)) = phi(t) c / (t + c)
    tail_value = -t * t / 2 - LOG_ROOT_2PI + jnp.log(c) - jnp.log(t + c)
    central_z = jnp.where(in_tail, 0, z)
    density = jnp.exp(-central_z * central_z / 2 - LOG_ROOT_2PI)
    return jnp.where(in_tail, tail_value, jnp.log(density + central_z * ndtr(central_z)))


def log_expected_improvement(mean: Array, variance: Array, threshold: ArrayLike) -> Array:
    """log E max(f - threshold, 0) for f ~ N(mean, variance), [...]."""
    deviation = jnp.sqrt(variance)
    return jnp.log(deviation) + _log_expected_excess((mean - threshold) / deviation)


def log_probability_of_improvement(mean: Array, variance: Array, threshold: ArrayLike) -> Array:
    """log P(f > threshold) for f ~ N(mean, variance), [...]."""
    return log_normal_cdf((mean - threshold) / jnp.sqrt(variance))
