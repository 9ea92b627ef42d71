"""Regret balancing: what each candidate may have lost, and which of them the rewards rule out.

Ziomek, Adachi, Osborne, NeurIPS 2024 (arXiv 2410.10384), Algorithm 1, lines 3 and 9 to 13. S_g are
the observations of the arms that candidate g chose, n_g = |S_g|.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch.kernels import Gaussian, Matern


def log_information_order(kernel: Any, lengthscales: Array, n: Array, inputs: int) -> Array:
    """log gamma_n of each candidate up to a constant, [G], -inf at n = 1 (Proposition 2.2): gamma_n
    is theta^-d log(n)^(d+1) for the Gaussian kernel, theta^-d n^(1-p) log(n)^p, p = 2 nu / (2 nu +
    d), for Matern (so its proof; the statement prints an earlier power of n). In logarithms, as
    powers of hundreds of inputs d leave every dtype. Raises ValueError for other kernels."""
    scale, log = -inputs * jnp.log(lengthscales), jnp.log(n)
    if isinstance(kernel, Gaussian):
        return scale + (inputs + 1) * jnp.log(log)
    if isinstance(kernel, Matern):
        power = 2 * kernel.nu / (2 * kernel.nu + inputs)
        return scale + (1 - power) * log + power * jnp.log(log)
    raise ValueError(
        'rule="order" is known for Gaussian and Matern kernels;'
        f' {type(kernel).__name__} was given. Take rule="realised".'
    )


def log_regret_order(log_information: Array, log_norm_bounds: Array, n: Array) -> Array:
    """log R(n), R(n) = sqrt(n) (B sqrt(gamma_n) + gamma_n), of each candidate, [G] (Theorem
    2.3)."""
    of_norm = log_norm_bounds + log_information / 2
    return jnp.log(n) / 2 + jnp.logaddexp(of_norm, log_information)


def least(active: Array, regret: Array) -> Array:
    """The number [] int32 of the active candidate [G] bool of the least regret [G], the first of
    those that tie; never one that is out, not even where all regrets are infinite or NaN."""
    largest = jnp.finfo(regret.dtype).max
    known = jnp.clip(jnp.where(jnp.isnan(regret), largest, regret), -largest, largest)
    return jnp.argmin(jnp.where(active, known, jnp.inf)).astype(jnp.int32)


def deviation(n: Array, noise_std: ArrayLike, delta: ArrayLike) -> Array:
    """By how much the mean of n_g rewards may miss that of their arms, for all candidates and all
    times at once with probability 1 - delta, [G]: xi sqrt(2 log(G pi^2 n^2 / (3 delta)) / n)
    (THEORY 6.8)."""
    logs = jnp.log(n.shape[0] * (math.pi * n) ** 2 / (3 * jnp.asarray(delta, n.dtype)))
    return jnp.asarray(noise_std * jnp.sqrt(2 * logs / n))


def ruled_out(
    active: Array,
    pulls: Array,
    reward_sums: Array,
    suspected: Array,
    noise_std: ArrayLike,
    delta: ArrayLike,
) -> Array:
    """Candidates whose suspected regret the rewards of the others contradict, [G] bool (line 12,
    THEORY 6.8); none while an active one has no observation (line 9).

    active [G] bool; pulls, reward_sums and suspected [G] are sums over S_g of 1, y and 2 w sigma.
    """
    n = jnp.maximum(pulls, 1)
    mean, miss = reward_sums / n, deviation(n, noise_std, delta)
    attained = jnp.max(jnp.where(active, mean - miss, -jnp.inf))
    attainable = mean + miss + suspected / n
    complete = (~active | (pulls > 0)).all()
    return complete & active & (attainable < attained)
