"""Sketched-KONS: kernel online Newton steps with a curvature that only some examples enter.

Calandriello, Lazaric, Valko. Second-order kernel online convex optimization with adaptive
sketching. ICML 2017, for the squared loss with predictions clipped to [-C, C] and curvature sigma =
1/(8 C^2) (THEORY 7.8); PKAWV compares with it in Table 1 and Figure 1. Example t enters A with
probability max(gamma, min(1, beta tau)), tau its ridge leverage score at alpha by KORS; the weights
are a sum over all examples. O(t d + m^2) for the t-th example with m of them in A.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, pad_identity, put
from jsketch.online import rounding
from jsketch.precision import one_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Kors, Sampling
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class SketchedState:
    """f = sum_i c_i k(x_i, .) over t of N examples + sum_j b_j k(s_j, .) over m of M that are in
    A."""

    points: Array  # [N, d]
    coefficients: Array  # [N], c
    used: Array  # [] int32, t
    sketch: Kors  # the points s_j, and their inverse factor for the leverage scores
    # [M, M], L^-1 of K_SS + alpha / weights = L L^T; A = alpha I + sum_j weights_j phi_j phi_j^T
    inverse: Array
    sketch_coefficients: Array  # [M], b
    key: Array  # key data of the draws


@struct.dataclass
@one_dtype
class SketchedKONS:
    """Second-order steps with a sketch of the curvature; `minimum_probability` = 1 is KONS
    itself."""

    kernel: Any
    regularization: ArrayLike = 1.0  # alpha
    bound: ArrayLike = 1.0  # C, on |y| and on the predictions
    minimum_probability: ArrayLike = 0.1  # gamma
    oversampling: ArrayLike = 1.0  # beta
    capacity: int = struct.field(pytree_node=False, default=128)  # N examples and M points at first

    def init(self, x: Array, key: PRNGKey) -> SketchedState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(
            regularization=self.regularization, bound=self.bound, oversampling=self.oversampling
        )
        checks.fraction(minimum_probability=self.minimum_probability)
        checks.capacity(capacity=self.capacity)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        checks.room(2 * self.capacity * (self.capacity + len(x)), x.dtype, capacity=self.capacity)
        self.check_rounding(x)
        zeros = jnp.zeros(self.capacity, x.dtype)
        return SketchedState(
            points=jnp.zeros((self.capacity, *x.shape), x.dtype),
            coefficients=zeros,
            used=jnp.zeros((), jnp.int32),
            sketch=kors.empty(x, self.capacity),
            inverse=jnp.eye(self.capacity, dtype=x.dtype),
            sketch_coefficients=zeros,
            key=jax.random.key_data(key),
        )

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        return rounding.check_kernel(self.kernel, x, self.regularization)

    def predict(self, state: SketchedState, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed."""
        output, _, _ = self._output(state, x)
        return self._clipped(output)

    def update(
        self, state: SketchedState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[SketchedState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state
        comes back unchanged."""
        state, _, info = self.step(state, x, y, key)
        return state, info

    def step(
        self, state: SketchedState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[SketchedState, Array, ForecastInfo]:
        """`predict` and `update` in one: (state, y^, info)."""
        output, cross, own = self._output(state, x)
        prediction = self._clipped(output)
        sampling = Sampling(self.regularization, self.oversampling, 0.0)
        score, row, rest = (
            value[0]
            for value in kors.scores(state.sketch, self.kernel, sampling, x[None], cross[None])
        )
        probability = jnp.maximum(score, self.minimum_probability)
        full_sketch = state.sketch.used >= state.inverse.shape[0]
        overflow = jnp.isfinite(y) & ((state.used >= state.points.shape[0]) | full_sketch)
        learn = jnp.isfinite(y) & ~overflow
        enters = learn & (kors.draws(state.key, state.used, 1, x.dtype)[0] < probability)

        slope = jnp.where(learn, 2 * (prediction - y), 0)
        curved = matmul(state.inverse, cross)
        # alpha phi^T A^-1 phi
        residual = jnp.maximum(own - jnp.square(curved).sum(), 0)
        weight = jnp.where(enters, slope**2 / (16 * self.bound**2), 0)
        leverage = residual / self.regularization
        excess = jnp.where(learn & (leverage > 0), output - prediction, 0)
        move = excess / jnp.where(leverage > 0, leverage, 1) + slope / (1 + weight * leverage)
        # w <- w - move (phi - sum_j q_j phi_j), q = (K_SS + alpha / weights)^-1 k_S
        move = move / self.regularization

        slot = jnp.minimum(state.used, state.points.shape[0] - 1)
        last = jnp.minimum(state.sketch.used, state.inverse.shape[0] - 1)
        # 1 / pivot for the diagonal k(x,x) + alpha / weight; a weight of zero leaves a row of zeros
        shrink = jnp.sqrt(weight / (weight * residual + self.regularization))
        inverse_row = put(-matmul(curved, state.inverse), last, jnp.ones((), x.dtype)) * shrink
        new = SketchedState(
            points=put(state.points, slot, jnp.where(learn, x, state.points[slot])),
            coefficients=put(
                state.coefficients, slot, jnp.where(learn, -move, state.coefficients[slot])
            ),
            used=state.used + learn.astype(jnp.int32),
            sketch=kors.join(state.sketch, sampling, x, probability, row, rest, enters),
            inverse=put(state.inverse, last, jnp.where(enters, inverse_row, state.inverse[last])),
            sketch_coefficients=state.sketch_coefficients + move * matmul(curved, state.inverse),
            key=state.key,
        )
        nonfinite = jnp.isinf(y) | ~jnp.isfinite(new.sketch_coefficients).all()
        return new, prediction, ForecastInfo(new.sketch.used, overflow, nonfinite)

    def grow(self, state: SketchedState) -> SketchedState:
        """The same state with room for half as many again, of examples and points alike where they
        are full."""
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
        """(f(x) [] before it is clipped, k_S(x) [M], k(x,x) [])."""
        cross = kors.cross(state.sketch, self.kernel, x[None])[0]
        # the coefficients of unused rows are zero
        whole = matmul(self.kernel.gram(x[None], state.points)[0], state.coefficients)
        return whole + matmul(cross, state.sketch_coefficients), cross, self.kernel.diag(x[None])[0]
