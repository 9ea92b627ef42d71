"""What the data say about |f|, a lower bound that holds for any dictionary, and about a kernel, its
marginal likelihood."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.bandits.core.sketched import SketchState
from jsketch.linalg import cholesky_inverse, matmul

# rho over lam at which the bound is tried: any of them is valid, the largest value is taken
MULTIPLES = tuple(8.0**j for j in range(1, 8))


def least_norm(
    state: SketchState, regularization: ArrayLike, noise_std: ArrayLike, delta: ArrayLike
) -> Array:
    """A number [] that |f| is not below, with probability 1 - delta at all times at once, whatever
    the dictionary (THEORY 6.9); 0 where the data say nothing. O(M^3) for each of MULTIPLES.

    f is the mean reward as a function in the kernel's space, the noise is noise_std-subgaussian.
    With m(rho) = y^T (I + K/rho)^-1 y, rho |f|^2 >= m(rho) - m(lam) - xi^2 (L + 2 log 1/delta); of
    m only the part between arms is needed, and the sketch bounds it from both sides.
    """
    dtype = state.weights.dtype
    lam, left_out = jnp.asarray(regularization, dtype), state.evidence.residual_sum
    total = _between(state)
    square = matmul(state.whiten.T, state.whiten)
    identity = jnp.eye(square.shape[0], dtype=dtype)
    information = state.evidence.logdet + left_out / lam
    noise = jnp.square(noise_std) * (information - 2 * jnp.log(delta))
    least = total - matmul(state.weights, state.weights) + noise

    def squared(multiple: Array) -> Array:
        rho = lam * multiple
        # V + shift I = W^-T (I + shift W^T W) W^-1, W = whiten
        factor = cholesky_inverse(identity + (rho + left_out - lam) * square)
        half = matmul(factor.inverse, state.weights)
        between = rho / (rho + left_out) * (total - matmul(half, half))
        return (between - least) / rho

    largest = lax.map(squared, jnp.asarray(MULTIPLES, dtype)).max()
    return jnp.sqrt(jnp.maximum(largest, 0))


def log_evidence(state: SketchState, regularization: ArrayLike) -> Array:
    """A lower bound on log p(y) of a GP with this kernel and noise of variance lam, [], up to what
    kernels have in common: -(y^T (ZZ^T + lam I)^-1 y + logdet(V/lam) + rho/lam) / 2 (Titsias,
    AISTATS 2009); exact where all pulled arms are in the dictionary."""
    misfit = _between(state) - matmul(state.weights, state.weights)
    left_out = state.evidence.residual_sum
    return -((misfit + left_out) / regularization + state.evidence.logdet) / 2


def _between(state: SketchState) -> Array:
    """sum_i s_i^2 / n_i, []: the part of |y|^2 that lies between arms."""
    return (jnp.square(state.reward_sums) / jnp.maximum(state.pull_counts, 1)).sum()
