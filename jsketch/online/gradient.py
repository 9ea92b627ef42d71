"""FOGD: online gradient descent in random Fourier features.

Lu, Hoi, Wang, Zhao, Liu. Large scale online kernel learning. JMLR 2016; with PKAWV's settings
(THEORY 7.8): D frequencies, 2D features (sin, cos)/sqrt(D), squared loss, step 1/sqrt(n).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.factor import triangular_inverse
from jsketch.linalg import matmul
from jsketch.precision import one_dtype
from jsketch.sketch import fourier
from jsketch.sketch.fourier import Fourier, RandomFourier
from jsketch.types import ForecastInfo, PRNGKey


def descend(
    weights: Array, z: Array, y: Array, learn: Array, step_size: ArrayLike
) -> tuple[Array, Array]:
    """(weights [r], predictions [B]) of the gradient steps for the squared loss on those rows of z
    [B,r], y [B] that are to be learned, one after the other.

    Their errors e satisfy (I + 2 eta tril(Z Z^T, -1)) e = Z w - y, a unit triangular system.
    """
    labelled = jnp.where(learn[:, None], z, 0)
    twice = 2 * jnp.asarray(step_size, z.dtype)
    strict = twice * jnp.tril(matmul(z, labelled.T), -1)
    start = matmul(z, weights)
    identity = jnp.eye(len(y), dtype=z.dtype)
    errors = matmul(triangular_inverse(identity + strict), jnp.where(learn, start - y, 0))
    return weights - twice * matmul(errors, labelled), start - matmul(strict, errors)


@struct.dataclass
class GradientState:
    """Weights of the features drawn at the start."""

    features: Fourier
    weights: Array  # [2D]


@struct.dataclass
@one_dtype
class FOGD:
    """w <- w - 2 eta (w.z(x) - y) z(x), O(D d) an example."""

    kernel: Any
    step_size: ArrayLike  # eta, 1/sqrt(n) for n examples
    count: int = struct.field(pytree_node=False, default=1000)  # D frequencies

    takes = "blocks"

    def init(self, x: Array, key: PRNGKey) -> GradientState:
        """Draws the features; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(step_size=self.step_size)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        checks.capacity(count=self.count)
        checks.room(self.count * (len(x) + 2), x.dtype, count=self.count)
        drawn = RandomFourier(self.count).draw(self.kernel, x.shape[0], key, x.dtype)
        return GradientState(drawn, jnp.zeros(2 * self.count, x.dtype))

    def predict(self, state: GradientState, x: Array) -> Array:
        """y^ [] for x [d]."""
        return matmul(fourier.features(state.features, x[None])[0], state.weights)

    def update(
        self, state: GradientState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[GradientState, ForecastInfo]:
        """One gradient step on y [] at x [d]; a label that is not finite is not learned."""
        z = fourier.features(state.features, x[None])[0]
        error = jnp.where(jnp.isfinite(y), matmul(z, state.weights) - y, 0)
        state = replace(state, weights=state.weights - 2 * self.step_size * error * z)
        return state, self._info(state, y)

    def predict_update(
        self, state: GradientState, x: Array, y: Array
    ) -> tuple[GradientState, Array, ForecastInfo]:
        """Predictions [B] for x [B,d], each before its label y [B], and the state after the block;
        as step by step."""
        z = fourier.features(state.features, x)
        weights, prediction = descend(state.weights, z, y, jnp.isfinite(y), self.step_size)
        state = replace(state, weights=weights)
        return state, prediction, self._info(state, y)

    def _info(self, state: GradientState, y: Array) -> ForecastInfo:
        size = jnp.asarray(2 * self.count, jnp.int32)
        nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(state.weights).all()
        return ForecastInfo(dictionary_size=size, overflow=jnp.zeros((), bool), nonfinite=nonfinite)
