"""Problems with finitely many arms: mean rewards with Gaussian noise, or recorded evaluations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.numerics import matmul
from jsketch.types import Arms, PRNGKey, is_traced


@struct.dataclass
class GaussianArms:
    """Reward = mean_reward[arm] + noise_std * standard normal.

    arms         [A, d]
    mean_reward  [A]
    noise_std    standard deviation of the noise of a reward
    """

    arms: Arms
    mean_reward: Array
    noise_std: ArrayLike

    def sample(self, key: PRNGKey, arm: Array) -> Array:
        """One reward [] of an arm []."""
        normal = jax.random.normal(key, (), self.mean_reward.dtype)
        return self.mean_reward[arm] + jnp.asarray(self.noise_std, normal.dtype) * normal


@struct.dataclass
class RecordedArms:
    """A reward of an arm is drawn from the recorded evaluations of the arm, whose mean is the mean
    reward.

    arms         [A, d]
    evaluations  [A, R]
    """

    arms: Arms
    evaluations: Array

    @property
    def mean_reward(self) -> Array:
        """The mean [A] of the evaluations of each arm."""
        return self.evaluations.mean(1)

    def sample(self, key: PRNGKey, arm: Array) -> Array:
        """One reward [] of an arm []."""
        return self.evaluations[arm, jax.random.randint(key, (), 0, self.evaluations.shape[1])]


def _checked_features(features: Any, rewards: Any, name: str) -> Array:
    """The features as an array. Raises ValueError for invalid features or rewards; the rewards are
    the argument `name`."""
    features = checks.arm_features(features, warns=False)
    if np.shape(rewards)[:1] != np.shape(features)[:1]:
        raise ValueError(
            f"{name} must have one row for each of the {np.shape(features)[0]} arms; its shape is"
            f" {np.shape(rewards)}."
        )
    rewards = checks.real(name, rewards)
    n_invalid = 0 if is_traced(rewards) else int((~np.isfinite(np.asarray(rewards))).sum())
    if n_invalid:
        raise ValueError(f"{name} must be finite: {n_invalid} values are not.")
    return jnp.asarray(features)


@struct.checked_names
def finite_arms(features: Any, mean_reward: Any, noise_std: ArrayLike) -> GaussianArms:
    """Arms with features [A,d], mean rewards [A] and Gaussian noise. Raises ValueError on wrong
    shapes, no arms, numbers that are not finite, or negative noise.

    Example:

        problem = finite_arms(features, np.sin(features.sum(1)), noise_std=0.1)
    """
    features = _checked_features(features, mean_reward, "mean_reward")
    if np.ndim(mean_reward) != 1:
        raise ValueError(f"mean_reward must be a vector [A]; its shape is {np.shape(mean_reward)}.")
    checks.nonnegative(noise_std=noise_std)
    mean_reward = jnp.asarray(checks.real("mean_reward", mean_reward), features.dtype)
    return GaussianArms(Arms(features), mean_reward, noise_std)


@struct.checked_names
def recorded_arms(features: Any, evaluations: Any) -> RecordedArms:
    """Arms with features [A,d] and R >= 1 recorded evaluations each, [A,R]. Raises ValueError on
    wrong shapes, no arms, or numbers that are not finite."""
    features = _checked_features(features, evaluations, "evaluations")
    if np.ndim(evaluations) != 2 or np.shape(evaluations)[1] == 0:
        raise ValueError(
            "evaluations must be a matrix [A, R] with R >= 1; its shape is"
            f" {np.shape(evaluations)}."
        )
    evaluations = jnp.asarray(checks.real("evaluations", evaluations), features.dtype)
    return RecordedArms(Arms(features), evaluations)


@struct.checked_names
def gp_draw(key: PRNGKey, kernel: Any, features: Array, noise_std: ArrayLike) -> GaussianArms:
    """A problem whose mean rewards are a draw of GP(0, kernel) at features [A,d]; O(A^3), by an
    eigendecomposition without jitter."""
    checks.component("kernel", components.KERNEL, kernel)
    eigenvalues, eigenvectors = jnp.linalg.eigh(kernel.gram(features, features))
    normal = jax.random.normal(key, (features.shape[0],), features.dtype)
    mean_reward = matmul(eigenvectors, jnp.sqrt(jnp.maximum(eigenvalues, 0)) * normal)
    return finite_arms(features, mean_reward, noise_std)


@struct.checked_names
def rkhs_draw(
    key: PRNGKey,
    kernel: Any,
    features: Array,
    noise_std: ArrayLike,
    terms: int = 10,
    norm: ArrayLike = 1.0,
) -> GaussianArms:
    """A problem with mean rewards f = sum_i a_i k(., x_i) over `terms` random arms x_i, scaled to
    RKHS norm sqrt(a^T K a) = `norm`."""
    checks.component("kernel", components.KERNEL, kernel)
    arm_key, weight_key = jax.random.split(key)
    centres = features[jax.random.randint(arm_key, (terms,), 0, features.shape[0])]
    weights = jax.random.normal(weight_key, (terms,), features.dtype)
    squared_norm = matmul(weights, matmul(kernel.gram(centres, centres), weights))
    mean_reward = matmul(kernel.gram(features, centres), weights) * (norm / jnp.sqrt(squared_norm))
    return finite_arms(features, mean_reward, noise_std)
