"""NOGD: online gradient descent in the Nystrom features of the first examples.

Lu, Hoi, Wang, Zhao, Liu. Large scale online kernel learning. JMLR 2016. Until B points are kept
every example joins them and the step is the one in the kernel's own space; from then on it is the
step in the span of these points. Both are w <- w - 2 eta (w.z(x) - y) z(x) in Newton coordinates,
where z(x) of a point that has just joined represents k(x, .) itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, put_if
from jsketch.online.gradient import descend
from jsketch.precision import one_dtype
from jsketch.sketch import kors, newton
from jsketch.types import ForecastInfo, PRNGKey


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
