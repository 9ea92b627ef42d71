"""Exact Kernel-AWV and kernel ridge regression, the references of the sketched forecasters.

Jezequel, Gaillard, Rudi. NeurIPS 2019, eq. 3 and closed form (9), after Azoury and Warmuth (2001)
and Vovk (2001) (THEORY 7.1). The t-th example costs O(t d + t^2).
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.numerics import matmul, pad_identity, put, put_if
from jsketch.online.base import KernelForecaster, checked_example, info_after
from jsketch.precision import in_first_dtype
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class KernelState:
    """The t labelled examples, at most N, and L^-1, where K_tt + lam I = L L^T."""

    points: Array  # [N, d]
    inverse: Array  # [N, N], L^-1, lower triangular; the identity beyond row t
    solved: Array  # [N], L^-1 y of the labels y; zero beyond t
    used: Array  # [] int32, t


@struct.dataclass
class KernelAWV(KernelForecaster):
    """The forecaster of Azoury, Warmuth and Vovk in the space of a kernel.

    kernel            a kernel of `jsketch.kernels`
    regularization    lambda of PKAWV, alpha of the Newton steps
    penalize_current  True: AWV. False: kernel ridge regression
    capacity          int, the initial capacity N for labelled examples

    Example:

        forecaster = KernelAWV(kernels.Gaussian(1.0), regularization=0.1)
        forecasts, state = prequential(forecaster, (xs, ys), jax.random.key(0))
    """

    penalize_current: bool = struct.choice(True)
    capacity: int = struct.size(128)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> KernelState:
        size = self.capacity
        x = checked_example(self, x, lambda d: size * (size + d), capacity=size)
        return KernelState(
            points=jnp.zeros((size, *x.shape), x.dtype),
            inverse=jnp.eye(size, dtype=x.dtype),
            solved=jnp.zeros(size, x.dtype),
            used=jnp.zeros((), jnp.int32),
        )

    def predict(self, state: KernelState, x: Array) -> Array:
        row, squared_pivot = self._row(state, x)
        ridge = matmul(row, state.solved)
        # AWV divides the ridge prediction by (lam + k(x,x) - |row|^2) / lam
        return ridge * self.regularization / squared_pivot if self.penalize_current else ridge

    def update(
        self, state: KernelState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[KernelState, ForecastInfo]:
        row, squared_pivot = self._row(state, x)
        labelled = jnp.isfinite(y)
        exceeded = labelled & (state.used >= state.points.shape[0])
        learn = labelled & ~exceeded
        pivot = jnp.sqrt(squared_pivot)
        slot = state.used
        inverse_row = put(-matmul(row, state.inverse), slot, jnp.ones((), x.dtype)) / pivot
        solved = (jnp.where(labelled, y, 0) - matmul(row, state.solved)) / pivot
        state = KernelState(
            points=put_if(learn, state.points, slot, x),
            inverse=put_if(learn, state.inverse, slot, inverse_row),
            solved=put_if(learn, state.solved, slot, solved),
            used=slot + learn.astype(jnp.int32),
        )
        return state, info_after(state.used, y, state.solved, exceeded)

    def grow(self, state: KernelState) -> KernelState:
        """The same state with 1.5 times the capacity."""
        extra = -(-state.points.shape[0] // 2)
        return replace(
            state,
            points=jnp.pad(state.points, ((0, extra), (0, 0))),
            inverse=pad_identity(state.inverse, state.points.shape[0] + extra),
            solved=jnp.pad(state.solved, (0, extra)),
        )

    def _row(self, state: KernelState, x: Array) -> tuple[Array, Array]:
        """(the row [N] that x would add to L, the square [] of its pivot)."""
        in_use = jnp.arange(state.points.shape[0], dtype=jnp.int32) < state.used
        cross = jnp.where(in_use, self.kernel.gram(x[None], state.points)[0], 0)
        row = matmul(state.inverse, cross)
        residual = jnp.maximum(self.kernel.diag(x[None])[0] - jnp.square(row).sum(), 0)
        return row, jnp.asarray(self.regularization, x.dtype) + residual
