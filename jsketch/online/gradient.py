"""Online gradient descent in features: random Fourier features (FOGD), and the Nystrom features of
the first examples (NOGD).

Lu, Hoi, Wang, Zhao, Liu. Large scale online kernel learning. JMLR 2016; with PKAWV's settings
(THEORY 7.8): squared loss, step 1/sqrt(n). FOGD: D frequencies, 2D features (sin, cos)/sqrt(D).
NOGD: until B points are kept every example joins them and the step is the one in the kernel's own
space; from then on it is the step in the span of these points. Both are w <- w - 2 eta (w.z(x) - y)
z(x) in Newton coordinates, where z(x) of a point that has just joined represents k(x, .) itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, put_if, triangular_inverse
from jsketch.precision import one_dtype
from jsketch.sketch import fourier, kors, newton
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


@struct.dataclass
class NOGDState:
    """The first points, and the weights in their coordinates."""

    points: Array  # [B, d]
    basis: Array  # [B, B], orthonormal coordinates (`newton`)
    weights: Array  # [B]
    used: Array  # [] int32


@struct.dataclass
@one_dtype
class NOGD:
    """Gradient steps for the squared loss, O(B^2 + B d) an example."""

    kernel: Any
    step_size: ArrayLike  # eta, 1/sqrt(n) for n examples
    count: int = struct.field(pytree_node=False, default=100)  # B points

    takes = "growing blocks"

    def init(self, x: Array, key: PRNGKey) -> NOGDState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(step_size=self.step_size)
        checks.capacity(count=self.count)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        checks.room(self.count * (self.count + len(x)), x.dtype, count=self.count)
        return NOGDState(
            points=jnp.zeros((self.count, *x.shape), x.dtype),
            basis=jnp.zeros((self.count, self.count), x.dtype),
            weights=jnp.zeros(self.count, x.dtype),
            used=jnp.zeros((), jnp.int32),
        )

    def predict(self, state: NOGDState, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed."""
        return matmul(self._features(state, x[None])[0], state.weights)

    def update(
        self, state: NOGDState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[NOGDState, ForecastInfo]:
        """One gradient step on y [] at x [d]; a label that is not finite is not learned."""
        state, _, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, info

    def advance(
        self, state: NOGDState, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[NOGDState, Array, Array, ForecastInfo]:
        """`predict` and `update` of examples x [B,d], y [B] in order: of all of them (at most
        `limit`) once the points are complete, of one before: (state, y^ [B] valid before `done`,
        done [] int32, info). A limit of zero changes nothing."""
        limit = jnp.asarray(limit, jnp.int32)
        slots = jnp.arange(len(y), dtype=jnp.int32)
        room = state.used < self.count
        done = jnp.minimum(jnp.where(room, 1, len(y)), limit)
        state = self._join(state, x[0], room & (done > 0) & jnp.isfinite(y[0]))
        learn = (slots < done) & jnp.isfinite(y)
        weights, prediction = descend(
            state.weights, self._features(state, x), y, learn, self.step_size
        )
        state = replace(state, weights=weights)
        false = jnp.zeros((), bool)
        bad = jnp.any(jnp.isinf(y) & (slots < done)) | ~jnp.isfinite(weights).all()
        return state, prediction, done, ForecastInfo(state.used, false, bad)

    def _features(self, state: NOGDState, x: Array) -> Array:
        in_use = jnp.arange(self.count, dtype=jnp.int32) < state.used
        return matmul(
            jnp.where(in_use, self.kernel.gram(x, kors.filled(state.points, state.used, x[0])), 0),
            state.basis.T,
        )

    def _join(self, state: NOGDState, x: Array, joins: Array) -> NOGDState:
        """The state with x [d] among the points, if it `joins` []."""
        z = self._features(state, x[None])[0]
        points = put_if(joins, state.points, state.used, x)
        joined = newton.join(
            state.basis,
            state.used,
            z,
            self.kernel.diag(x[None])[0],
            self.kernel,
            kors.filled(points, state.used + 1, x),
            state.weights,
            lambda weights, turn: matmul(turn.rows, weights),
            joins,
        )
        return NOGDState(points, joined.basis, joined.carried, state.used + joins.astype(jnp.int32))
