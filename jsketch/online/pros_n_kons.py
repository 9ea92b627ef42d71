"""Pros-N-KONS: kernel online Newton steps in the span of a KORS dictionary, restarted whenever it
grows.

Calandriello, Lazaric, Valko. Efficient second-order online kernel learning with adaptive embedding.
NeurIPS 2017; with the settings that PKAWV compares with (THEORY 7.8): squared loss, predictions
clipped to [-C, C], curvature sigma = 1/(8 C^2). For an example x with features z, weights u and A:

    w = u - h A^-1 z / z^T A^-1 z, the closest weights in the norm of A that predict
        y^ = clip(z^T u, -C, C)
    g = 2 (y^ - y) z,   A <- A + sigma/2 g g^T,   u <- w - A^-1 g

PKAWV's author takes the step for g one example later and learns nothing from a point that joins:
about 9% worse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.linalg import matmul, pad_identity, put
from jsketch.online import rounding
from jsketch.precision import one_dtype
from jsketch.sketch import kors, newton
from jsketch.sketch.kors import Kors, Received, Sampling
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class NewtonState:
    """m points of at most M, and the weights in their coordinates z(x) = basis k_I(x)."""

    dictionary: Kors
    basis: Array  # [M, M], orthonormal coordinates (`newton`); zero rows add no coordinate
    inverse: Array  # [M, M], A^-1
    weights: Array  # [M], u
    received: Array  # [] int32, examples so far
    key: Array  # key data of the draws; `predict` and `update` make the same one


@struct.dataclass
@one_dtype
class ProsNKONS:
    """Second-order steps, O(m^2) an example and O(m^2) memory whatever the length of the stream."""

    kernel: Any
    regularization: ArrayLike = 1.0  # alpha
    bound: ArrayLike = 1.0  # C, on |y| and on the predictions
    sampling: Sampling = struct.field(default_factory=Sampling)
    capacity: int = struct.field(pytree_node=False, default=64)  # M points at first

    takes = "growing blocks"

    def init(self, x: Array, key: PRNGKey) -> NewtonState:
        """Nothing seen; x [d] is one example. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization, bound=self.bound)
        checks.capacity(capacity=self.capacity)
        x = checks.example(x)
        checks.kernel_on(self.kernel, x[None])
        checks.room(self.capacity * (3 * self.capacity + len(x)), x.dtype, capacity=self.capacity)
        self.check_rounding(x)
        kors.check(self.sampling, x.dtype)
        return NewtonState(
            dictionary=kors.empty(x, self.capacity),
            basis=jnp.zeros((self.capacity, self.capacity), x.dtype),
            inverse=jnp.eye(self.capacity, dtype=x.dtype) / self.regularization,
            weights=jnp.zeros(self.capacity, x.dtype),
            received=jnp.zeros((), jnp.int32),
            key=jax.random.key_data(key),
        )

    def check_rounding(self, x: Array) -> bool:
        """Warns, and says whether it did, when rounding is too much for an example x [d]
        (`rounding`). On the host."""
        return rounding.check_kernel(self.kernel, x, self.regularization)

    def predict(self, state: NewtonState, x: Array) -> Array:
        """y^ [] for x [d], before its label is observed; zero for a point that joins the
        dictionary."""
        _, prediction, _, _ = self.advance(state, x[None], jnp.full((1,), jnp.nan, x.dtype), 1)
        return prediction[0]

    def update(
        self, state: NewtonState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[NewtonState, ForecastInfo]:
        """Learns y [] at x [d]; a label that is not finite is not learned. On overflow the state
        comes back unchanged."""
        state, _, _, info = self.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, info

    def advance(
        self, state: NewtonState, x: Array, y: Array, limit: ArrayLike
    ) -> tuple[NewtonState, Array, Array, ForecastInfo]:
        """`predict` and `update` of examples x [B,d], y [B] in order, before the next one that
        joins the dictionary and at most `limit` of them: (state, y^ [B] valid before `done`, done
        [] int32, info). A limit of zero changes nothing."""
        limit = jnp.asarray(limit, jnp.int32)
        slots = jnp.arange(len(y), dtype=jnp.int32)
        draws = kors.draws(state.key, state.received, len(y), x.dtype)
        received = kors.receive(state.dictionary, self.kernel, self.sampling, x, draws, limit > 0)
        full = received.full
        done = jnp.where(full, 0, jnp.minimum(received.until, limit))

        learn = (slots < done) & jnp.isfinite(y)
        state, z = self._restarted(state, received, x[0])
        inverse, weights, prediction = self._newton_steps(state, z, y, learn)
        state = replace(state, inverse=inverse, weights=weights, received=state.received + done)
        bad = jnp.any(jnp.isinf(y) & (slots < done)) | ~jnp.isfinite(weights).all()
        return state, prediction, done, ForecastInfo(state.dictionary.used, full, bad)

    def grow(self, state: NewtonState) -> NewtonState:
        """The same state with room for twice the points."""
        size = state.basis.shape[0]
        lam = jnp.asarray(self.regularization, state.basis.dtype)
        return replace(
            state,
            dictionary=kors.grow(state.dictionary, 2 * size),
            basis=jnp.pad(state.basis, (0, size)),
            inverse=pad_identity(state.inverse * lam, 2 * size) / lam,
            weights=jnp.pad(state.weights, (0, size)),
        )

    def _restarted(
        self, state: NewtonState, received: Received, x: Array
    ) -> tuple[NewtonState, Array]:
        """(state, with nothing learned if x [d] joined the dictionary; z [B,M] of the block)."""
        dictionary = received.dictionary
        joined, z = newton.join_first(
            state.basis,
            state.dictionary.used,
            received.k,
            x,
            self.kernel,
            kors.filled(dictionary.points, dictionary.used, x),
            None,
            lambda nothing, turn: nothing,
            received.joins,
        )
        lam = jnp.asarray(self.regularization, z.dtype)
        state = replace(
            state,
            dictionary=dictionary,
            basis=joined.basis,
            inverse=jnp.where(
                received.joins, jnp.eye(z.shape[1], dtype=z.dtype) / lam, state.inverse
            ),
            weights=jnp.where(received.joins, 0, state.weights),
        )
        return state, z

    def _newton_steps(
        self, state: NewtonState, z: Array, y: Array, learn: Array
    ) -> tuple[Array, Array, Array]:
        """(A^-1, u, y^ [B]) after the rows of z [B,M], y [B] that are to be learned, one after the
        other.

        Everything that the steps need of A is in the span of the block: with D = Z A^-1 of the
        start, A_t^-1 z_s is D^T L[:, s], and G[r, s] = z_r^T A_t^-1 z_s. A step is one elimination
        in [G; L], [2B, B].
        """
        count, bound = len(y), jnp.asarray(self.bound, z.dtype)
        # D
        directions = matmul(z, state.inverse)
        identity = jnp.eye(count, dtype=z.dtype)
        curvature = 1 / (8 * bound**2)

        def step(t: Array, carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, ...]:
            both, outputs, moved, scaled, predictions = carry
            column = lax.dynamic_index_in_dim(both, t, 1, keepdims=False)
            # z^T A^-1 z
            leverage = column[t]
            prediction = jnp.clip(outputs[t], -bound, bound)
            slope = jnp.where(learn[t], 2 * (prediction - y[t]), 0)
            excess = jnp.where(learn[t] & (leverage > 0), outputs[t] - prediction, 0)
            weight = curvature / 2 * slope**2
            damping = weight / (1 + weight * leverage)
            # u <- u - move A^-1 z
            move = excess / jnp.where(leverage > 0, leverage, 1) + slope / (1 + weight * leverage)
            # G[t, :]
            row = lax.dynamic_index_in_dim(both, t, 0, keepdims=False)
            return (
                both - damping * column[:, None] * row[None, :],
                outputs - move * column[:count],
                moved + move * column[count:],
                put(scaled, t, jnp.sqrt(damping) * column[count:]),
                put(predictions, t, prediction),
            )

        zeros = jnp.zeros_like(y)
        start = (
            jnp.concatenate([matmul(directions, z.T), identity]),
            matmul(z, state.weights),
            zeros,
            jnp.zeros_like(identity),
            zeros,
        )
        _, _, moved, scaled, predictions = lax.fori_loop(0, count, step, start)
        # rows sqrt(damping) A_t^-1 z_t
        updates = matmul(scaled, directions)
        inverse = state.inverse - matmul(updates.T, updates)
        return inverse, state.weights - matmul(moved, directions), predictions
