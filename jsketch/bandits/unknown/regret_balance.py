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


def information_order(kernel: Any, lengthscales: Array, n: Array, inputs: int) -> Array:
    """gamma_n of each candidate up to a constant, [G] (Proposition 2.2): theta^-d log(n)^(d+1) for
    the Gaussian kernel, theta^-d n^(1-p) log(n)^p, p = 2 nu / (2 nu + d), for Matern (so its proof;
    the statement prints an earlier power of n). Raises ValueError for other kernels."""
    scale, log = lengthscales**-inputs, jnp.log(n)
    if isinstance(kernel, Gaussian):
        return scale * log ** (inputs + 1)
    if isinstance(kernel, Matern):
        power = 2 * kernel.nu / (2 * kernel.nu + inputs)
        return scale * n ** (1 - power) * log**power
    raise ValueError(
        'rule="order" is known for Gaussian and Matern kernels;'
        f' {type(kernel).__name__} was given. Take rule="realised".'
    )


def regret_order(information: Array, norm_bounds: Array, n: Array) -> Array:
    """R(n) = sqrt(n) (B sqrt(gamma_n) + gamma_n) of each candidate, [G] (Theorem 2.3)."""
    return jnp.sqrt(n) * (norm_bounds * jnp.sqrt(information) + information)


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
