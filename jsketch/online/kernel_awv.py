"""Kernel-AWV and kernel ridge regression, exact: the forecasters that the sketched ones are
measured against.

Jezequel, Gaillard, Rudi. NeurIPS 2019, eq. 3 and closed form (9), after Azoury and Warmuth (2001)
and Vovk (2001) (THEORY 7.1). O(t d + t^2) for the t-th example. With a discount, older examples
count less: K_tt + lam diag(gamma^s) (THEORY 7.12; `discounting`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, pad_identity, put
from jsketch.online import discounting, rounding
from jsketch.precision import one_dtype
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class KernelState:
    """The labelled examples so far, t of at most N, and L^-1 of K_tt + lam I = L L^T (with a
    discount, K_tt + lam diag(gamma^s))."""

    points: Array  # [N, d]
    inverse: Array  # [N, N], lower triangular; the identity beyond t
    solved: Array  # [N], L^-1 y
    used: Array  # [] int32, t


@struct.dataclass
@one_dtype
class KernelAWV:
    """Azoury, Warmuth and Vovk's forecaster in a kernel's space; `penalize_current=False` is kernel
    ridge regression."""

    kernel: Any
    regularization: ArrayLike = 1.0  # lam
    penalize_current: bool = struct.field(pytree_node=False, default=True)
    # gamma in (0, 1], for targets that drift: 1 - 1/n remembers some n examples; None is 1. As a
    # reference: lam is forgotten, and the stream stops when rounding would decide; predictions are
    # near 0 where most inputs are unlike the last n ones (`discounting`)
    discount: ArrayLike | None = None
    # N labelled examples; `prequential` grows it
    capacity: int = struct.field(pytree_node=False, default=128)

    def init(self, x: Array, key: PRNGKey) -> KernelState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization)
        checks.capacity(capacity=self.capacity)
        discounting.check(self.discount)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        checks.room(self.capacity * (self.capacity + len(x)), x.dtype, capacity=self.capacity)
        self.check_rounding(x)
        return KernelState(
            points=jnp.zeros((self.capacity, *x.shape), x.dtype),
            inverse=jnp.eye(self.capacity, dtype=x.dtype),
            solved=jnp.zeros(self.capacity, x.dtype),
            used=jnp.zeros((), jnp.int32),
        )

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        return rounding.check_kernel(self.kernel, x, self.regularization)

    def predict(self, state: KernelState, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed."""
        row, rest = self._row(state, x)
        ridge = matmul(row, state.solved)
        # 1 + h = (lam + k(x,x) - |row|^2) / lam
        return ridge * self._own(state, x) / rest if self.penalize_current else ridge

    def update(
        self, state: KernelState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[KernelState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state
        comes back unchanged."""
        row, rest = self._row(state, x)
        seen = jnp.isfinite(y)
        overflow = seen & (state.used >= state.points.shape[0])
        learn = seen & ~overflow
        pivot = jnp.sqrt(rest)
        slot = jnp.minimum(state.used, state.points.shape[0] - 1)
        inverse_row = put(-matmul(row, state.inverse), slot, jnp.ones((), x.dtype)) / pivot
        solved = (jnp.where(seen, y, 0) - matmul(row, state.solved)) / pivot
        state = KernelState(
            points=put(state.points, slot, jnp.where(learn, x, state.points[slot])),
            inverse=put(state.inverse, slot, jnp.where(learn, inverse_row, state.inverse[slot])),
            solved=put(state.solved, slot, jnp.where(learn, solved, state.solved[slot])),
            used=state.used + learn.astype(jnp.int32),
        )
        nonfinite = jnp.isinf(y) | ~jnp.isfinite(state.solved).all()
        if self.discount is not None:
            lost = jnp.finfo(x.dtype).eps * self.kernel.diag(x[None])[0] / rest
            nonfinite |= learn & (lost > discounting.LARGEST_WINDUP)
        return state, ForecastInfo(
            dictionary_size=state.used, overflow=overflow, nonfinite=nonfinite
        )

    def grow(self, state: KernelState) -> KernelState:
        """The same state with room for half as many examples again."""
        extra = -(-state.points.shape[0] // 2)
        capacity = state.points.shape[0] + extra
        return replace(
            state,
            points=jnp.pad(state.points, ((0, extra), (0, 0))),
            inverse=pad_identity(state.inverse, capacity),
            solved=jnp.pad(state.solved, (0, extra)),
        )

    def _row(self, state: KernelState, x: Array) -> tuple[Array, Array]:
        """(the row [N] that x would add to L, the square [] of its pivot, at least `_own`)."""
        used = jnp.arange(state.points.shape[0], dtype=jnp.int32) < state.used
        cross = jnp.where(used, self.kernel.gram(x[None], state.points)[0], 0)
        row = matmul(state.inverse, cross)
        rest = self.kernel.diag(x[None])[0] - jnp.square(row).sum()
        return row, jnp.asarray(self._own(state, x), x.dtype) + jnp.maximum(rest, 0)

    def _own(self, state: KernelState, x: Array) -> ArrayLike:
        """What x has on the diagonal beside k(x,x) as the next example that is learned, []."""
        if self.discount is None:
            return self.regularization
        return self.regularization * discounting.power(self.discount, state.used + 1, x)
