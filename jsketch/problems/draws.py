"""Random reward functions on a candidate set, for tests of what the theory promises."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch.linalg import matmul
from jsketch.problems.finite import GaussianArms, finite_arms
from jsketch.types import PRNGKey


def gp_draw(key: PRNGKey, kernel: Any, features: Array, noise_std: ArrayLike) -> GaussianArms:
    """Mean rewards drawn from GP(0, kernel) at features [A,d]; O(A^3), by an eigendecomposition (no
    jitter)."""
    values, vectors = jnp.linalg.eigh(kernel.gram(features, features))
    normal = jax.random.normal(key, (features.shape[0],), features.dtype)
    return finite_arms(
        features, matmul(vectors, jnp.sqrt(jnp.maximum(values, 0)) * normal), noise_std
    )


def rkhs_draw(
    key: PRNGKey,
    kernel: Any,
    features: Array,
    noise_std: ArrayLike,
    terms: int = 10,
    norm: ArrayLike = 1.0,
) -> GaussianArms:
    """Mean rewards f = sum_i a_i k(., x_i) over `terms` random arms, scaled to RKHS norm sqrt(a^T K
    a) = `norm`."""
    arm_key, weight_key = jax.random.split(key)
    centres = features[jax.random.randint(arm_key, (terms,), 0, features.shape[0])]
    weights = jax.random.normal(weight_key, (terms,), features.dtype)
    squared_norm = matmul(weights, matmul(kernel.gram(centres, centres), weights))
    mean_reward = matmul(kernel.gram(features, centres), weights) * (norm / jnp.sqrt(squared_norm))
    return finite_arms(features, mean_reward, noise_std)
