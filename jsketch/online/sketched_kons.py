"""Sketched-KONS: kernel online Newton steps whose curvature is a sum over sampled examples.

Calandriello, Lazaric, Valko. Second-order kernel online convex optimization with adaptive
sketching. ICML 2017, for the squared loss with predictions clipped to [-C, C] and curvature
sigma = 1/(8 C^2) (THEORY 7.8). Example t enters A with probability max(gamma, min(1, beta tau)),
where tau is its ridge leverage score with regularization alpha, as KORS estimates it. The weight
vector is a sum over all examples. The t-th example costs O(t d + m^2) with m examples in A.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.numerics import matmul, pad_identity, put, put_if
from jsketch.online.base import KernelForecaster, checked_example, info_after
from jsketch.precision import in_first_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors, Sampling
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class SketchedState:
    """The function f = sum_i c_i k(x_i, .) + sum_j b_j k(s_j, .), with t of at most N examples x_i
    and m of at most M sampled examples s_j."""

    points: Array  # [N, d]
    coefficients: Array  # [N], c
    used: Array  # [] int32, t
    sketch: Kors  # the points s_j, and the inverse factor of their leverage scores
    # [M, M], the inverse factor L^-1 of K_SS + alpha / weights = L L^T, which represents
    # A = alpha I + sum_j weights_j phi_j phi_j^T
    inverse: Array
    sketch_coefficients: Array  # [M], b
    key: Array  # key data of the random numbers of KORS


@struct.dataclass
class SketchedKONS(KernelForecaster):
    """Second-order steps with a sketch of the curvature.

    kernel               a kernel of `jsketch.kernels`
    regularization       lambda of PKAWV, alpha of the Newton steps
    bound                C, on |y| and on the predictions
    minimum_probability  gamma; 1 is KONS
    oversampling         beta
    capacity             int, the initial capacity N for examples and M for sampled examples
    """

    bound: ArrayLike = struct.number(1.0, above=0)
    minimum_probability: ArrayLike = struct.number(0.1, at_least=0, at_most=1)
    oversampling: ArrayLike = struct.number(1.0, above=0)
    capacity: int = struct.size(128)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> SketchedState:
        size = self.capacity
        # numbers in the two [M, M] factors and the two [., d] arrays of points
        x = checked_example(self, x, lambda d: 2 * size * (size + d), capacity=size)
        zeros = jnp.zeros(size, x.dtype)
        return SketchedState(
            points=jnp.zeros((size, *x.shape), x.dtype),
            coefficients=zeros,
            used=jnp.zeros((), jnp.int32),
            sketch=kors.empty(x, size),
            inverse=jnp.eye(size, dtype=x.dtype),
            sketch_coefficients=zeros,
            key=jax.random.key_data(key),
        )

    def predict(self, state: SketchedState, x: Array) -> Array:
        return self._clipped(self._output(state, x)[0])

    def update(
        self, state: SketchedState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[SketchedState, ForecastInfo]:
        output, cross, prior_variance = self._output(state, x)
        prediction = self._clipped(output)
        sampling = Sampling(mu=self.regularization, beta=self.oversampling, eps=0.0)
        scores = kors.scores(state.sketch, self.kernel, sampling, x[None], cross[None])
        score, row, residual = (values[0] for values in scores)
        probability = jnp.maximum(score, self.minimum_probability)
        full_sketch = state.sketch.used >= state.inverse.shape[0]
        exceeded = jnp.isfinite(y) & ((state.used >= state.points.shape[0]) | full_sketch)
        learn = jnp.isfinite(y) & ~exceeded
        # the draws depend on the key given to `init`, and not on `key`
        enters = learn & (kors.draws(state.key, state.used, 1, x.dtype)[0] < probability)

        slope = jnp.where(learn, 2 * (prediction - y), 0)
        whitened = matmul(state.inverse, cross)
        # alpha phi^T A^-1 phi
        variance = jnp.maximum(prior_variance - jnp.square(whitened).sum(), 0)
        weight = jnp.where(enters, slope**2 / (16 * self.bound**2), 0)
        leverage = variance / self.regularization
        excess = jnp.where(learn & (leverage > 0), output - prediction, 0)
        step = excess / jnp.where(leverage > 0, leverage, 1) + slope / (1 + weight * leverage)
        # w <- w - step (phi - sum_j q_j phi_j), q = (K_SS + alpha / weights)^-1 k_S
        step = step / self.regularization
        q = matmul(whitened, state.inverse)

        free_row = state.sketch.used
        # 1 / L_jj of the new row j of L, in which K_SS + alpha / weights has the diagonal entry
        # k(x,x) + alpha / weight; a weight of zero gives a row of zeros
        scale = jnp.sqrt(weight / (weight * variance + self.regularization))
        inverse_row = put(-q, free_row, jnp.ones((), x.dtype)) * scale
        new = SketchedState(
            points=put_if(learn, state.points, state.used, x),
            coefficients=put_if(learn, state.coefficients, state.used, -step),
            used=state.used + learn.astype(jnp.int32),
            sketch=kors.join(state.sketch, sampling, x, probability, row, residual, enters),
            inverse=put_if(enters, state.inverse, free_row, inverse_row),
            sketch_coefficients=state.sketch_coefficients + step * q,
            key=state.key,
        )
        return new, info_after(new.sketch.used, y, new.sketch_coefficients, exceeded)

    def grow(self, state: SketchedState) -> SketchedState:
        """The same state with larger capacities where they are exhausted: 1.5 times as many
        examples or sampled examples."""
        rows, size = state.points.shape[0], state.inverse.shape[0]
        extra_rows = -(-rows // 2) if int(state.used) >= rows else 0
        extra = -(-size // 2) if int(state.sketch.used) >= size else 0
        return replace(
            state,
            points=jnp.pad(state.points, ((0, extra_rows), (0, 0))),
            coefficients=jnp.pad(state.coefficients, (0, extra_rows)),
            sketch=kors.grow(state.sketch, size + extra),
            inverse=pad_identity(state.inverse, size + extra),
            sketch_coefficients=jnp.pad(state.sketch_coefficients, (0, extra)),
        )

    def _clipped(self, output: Array) -> Array:
        bound = jnp.asarray(self.bound, output.dtype)
        return jnp.clip(output, -bound, bound)

    def _output(self, state: SketchedState, x: Array) -> tuple[Array, Array, Array]:
        """(f(x) [] without clipping, k_S(x) [M], k(x,x) [])."""
        cross = kors.cross(state.sketch, self.kernel, x[None])[0]
        # the coefficients of unused rows are zero
        output = matmul(self.kernel.gram(x[None], state.points)[0], state.coefficients)
        output = output + matmul(cross, state.sketch_coefficients)
        return output, cross, self.kernel.diag(x[None])[0]
