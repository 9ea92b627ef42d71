"""Online gradient descent in random Fourier features (FOGD) and in the Nystrom features of the
first examples (NOGD).

Lu, Hoi, Wang, Zhao, Liu. Large scale online kernel learning. JMLR 2016, with the settings of
PKAWV's experiments (THEORY 7.8): squared loss, step size eta = 1/sqrt(n). FOGD has D frequencies
and 2D features (sin, cos)/sqrt(D). NOGD takes steps in the space of the kernel until the first M
examples are its points, and later in the span of these points. A step is
w <- w - 2 eta (w.z(x) - y) z(x), with the features z of FOGD, or the coordinates z of NOGD.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import components, struct
from jsketch.numerics import matmul, put, put_if
from jsketch.online.base import GrowingFeatures, checked_example, first_labels, info_after
from jsketch.precision import in_first_dtype
from jsketch.sketch import fourier, kors, newton
from jsketch.sketch.fourier import Fourier, RandomFourier
from jsketch.types import Forecaster, ForecastInfo, PRNGKey


def gradient_steps(
    weights: Array, z: Array, y: Array, learn: Array, step_size: ArrayLike
) -> tuple[Array, Array]:
    """(weights [r], predictions [B]) after gradient steps on the squared losses of the rows of
    z [B,r], y [B] where `learn` [B] is true, in order. The errors e of the predictions solve the
    unit triangular system (I + 2 eta tril(Z Z^T, -1)) e = Z w - y."""
    labelled = jnp.where(learn[:, None], z, 0)
    twice_step = 2 * jnp.asarray(step_size, z.dtype)
    couplings = twice_step * jnp.tril(matmul(z, labelled.T), -1)
    outputs = matmul(z, weights)
    uncoupled = jnp.where(learn, outputs - y, 0)

    def error(i: Array, errors: Array) -> Array:
        return put(errors, i, uncoupled[i] - matmul(couplings[i], errors))

    errors = lax.fori_loop(0, len(y), error, jnp.zeros_like(uncoupled))
    return weights - twice_step * matmul(errors, labelled), outputs - matmul(couplings, errors)


@struct.dataclass
class GradientState:
    """The random features and their weights."""

    features: Fourier
    weights: Array  # [2D]


@struct.dataclass
class FOGD(Forecaster):
    """Gradient steps in random Fourier features. An example costs O(D d).

    kernel     a kernel of `jsketch.kernels`
    step_size  eta, 1/sqrt(n) for n examples
    count      D, the number of frequencies
    """

    kernel: Any = struct.component(components.KERNEL)
    step_size: ArrayLike = struct.number(above=0)
    count: int = struct.size(1000)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> GradientState:
        # D frequencies [d], and 2D weights
        x = checked_example(self, x, lambda d: self.count * (d + 2), count=self.count)
        features = RandomFourier(self.count).draw(self.kernel, x.shape[0], key, x.dtype)
        return GradientState(features, jnp.zeros(2 * self.count, x.dtype))

    def predict(self, state: GradientState, x: Array) -> Array:
        return matmul(fourier.features(state.features, x[None])[0], state.weights)

    def advance(
        self,
        state: GradientState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[GradientState, Array, Array, ForecastInfo]:
        y, done = first_labels(y, limit)
        z = fourier.features(state.features, x)
        weights, prediction = gradient_steps(state.weights, z, y, jnp.isfinite(y), self.step_size)
        info = info_after(2 * self.count, y, weights)
        return replace(state, weights=weights), prediction, done, info


@struct.dataclass
class NOGDState:
    """The first examples as points, and the weights in their coordinates."""

    points: Array  # [M, d]
    basis: Array  # [M, M], orthonormal coordinates (`sketch.newton`)
    weights: Array  # [M]
    used: Array  # [] int32, number of points


@struct.dataclass
class NOGD(GrowingFeatures):
    """Gradient steps in the span of the first examples. An example costs O(M^2 + M d).

    kernel     a kernel of `jsketch.kernels`
    step_size  eta, 1/sqrt(n) for n examples
    count      M, the number of points
    """

    kernel: Any = struct.component(components.KERNEL)
    step_size: ArrayLike = struct.number(above=0)
    count: int = struct.size(100)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> NOGDState:
        size = self.count
        x = checked_example(self, x, lambda d: size * (size + d), count=size)
        return NOGDState(
            points=jnp.zeros((size, *x.shape), x.dtype),
            basis=jnp.zeros((size, size), x.dtype),
            weights=jnp.zeros(size, x.dtype),
            used=jnp.zeros((), jnp.int32),
        )

    def advance(
        self,
        state: NOGDState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[NOGDState, Array, Array, ForecastInfo]:
        """See `Forecaster.advance`. Until there are M points, `done` is at most 1."""
        limit = jnp.asarray(limit, jnp.int32)
        incomplete = state.used < self.count
        done = jnp.minimum(jnp.where(incomplete, 1, len(y)), limit)
        state = self._join(state, x[0], incomplete & (done > 0) & jnp.isfinite(y[0]))
        processed = jnp.arange(len(y), dtype=jnp.int32) < done
        weights, prediction = gradient_steps(
            state.weights, self._features(state, x), y, processed & jnp.isfinite(y), self.step_size
        )
        state = replace(state, weights=weights)
        return state, prediction, done, info_after(state.used, jnp.where(processed, y, 0), weights)

    def _features(self, state: NOGDState, x: Array) -> Array:
        """The coordinates z(x) [n,M] of points x [n,d]."""
        in_use = jnp.arange(self.count, dtype=jnp.int32) < state.used
        gram = self.kernel.gram(x, kors.fill_unused(state.points, state.used, x[0]))
        return matmul(jnp.where(in_use, gram, 0), state.basis.T)

    def _join(self, state: NOGDState, x: Array, joins: Array) -> NOGDState:
        """The state with x [d] added to the points if `joins` [] is true."""
        z = self._features(state, x[None])[0]
        points = put_if(joins, state.points, state.used, x)
        joined = newton.join(
            basis=state.basis,
            slot=state.used,
            z=z,
            diag=self.kernel.diag(x[None])[0],
            kernel=self.kernel,
            points=kors.fill_unused(points, state.used + 1, x),
            state=state.weights,
            rotate=lambda weights, rows: matmul(rows, weights),
            joins=joins,
        )
        return NOGDState(points, joined.basis, joined.state, state.used + joins.astype(jnp.int32))
