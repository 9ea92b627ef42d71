"""Pros-N-KONS: kernel online Newton steps in the span of a KORS dictionary. The steps restart
whenever the dictionary grows.

Calandriello, Lazaric, Valko. Efficient second-order online kernel learning with adaptive embedding.
NeurIPS 2017, with the settings of PKAWV's experiments (THEORY 7.8): squared loss, predictions
clipped to [-C, C], curvature sigma = 1/(8 C^2). With weights u and a matrix A (alpha I after a
restart), the step for an example with features z and label y is

    y^ = clip(z^T u, -C, C)
    w = u - (z^T u - y^) A^-1 z / z^T A^-1 z  (closest to u in the norm of A, with z^T w = y^)
    g = 2 (y^ - y) z,   A <- A + sigma/2 g g^T,   u <- w - A^-1 g
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import components, struct
from jsketch.numerics import matmul, put
from jsketch.online import base
from jsketch.online.base import info_after
from jsketch.precision import in_first_dtype
from jsketch.sketch import kors
from jsketch.sketch.kors import Arrival, Sampling
from jsketch.types import ForecastInfo, PRNGKey


@struct.dataclass
class ProsNKONS(base.KernelForecaster, base.GrowingFeatures):
    """Second-order steps. With m inducing points, an example and the state take O(m^2).

    kernel          a kernel of `jsketch.kernels`
    regularization  lambda of PKAWV, alpha of the Newton steps
    bound           C, on |y| and on the predictions
    sampling        `Sampling`, the settings mu, beta and eps of KORS
    capacity        int, the initial capacity M for inducing points
    """

    bound: ArrayLike = struct.number(1.0, above=0)
    sampling: Sampling = struct.component(components.SAMPLING, default_factory=Sampling)
    capacity: int = struct.size(64)

    @in_first_dtype
    def init(self, x: Array, key: PRNGKey) -> base.DictionaryState:
        size = self.capacity
        x = base.checked_example(self, x, lambda d: size * (3 * size + d), capacity=size)
        kors.check(self.sampling, x.dtype)
        return base.empty_dictionary(x, size, self.regularization, key)

    def advance(
        self,
        state: base.DictionaryState,
        x: Array,
        y: Array,
        limit: ArrayLike,
        keys: PRNGKey | None = None,
    ) -> tuple[base.DictionaryState, Array, Array, ForecastInfo]:
        """See `Forecaster.advance`. The prediction for a point that joins is zero."""
        limit = jnp.asarray(limit, jnp.int32)
        draws = kors.draws(state.key, state.received, len(y), x.dtype)
        arrival = kors.receive(state.dictionary, self.kernel, self.sampling, x, draws, limit > 0)
        done = jnp.where(arrival.full, 0, jnp.minimum(arrival.next_join, limit))
        processed = jnp.arange(len(y), dtype=jnp.int32) < done
        state, z = self._restart(state, arrival, x[0])
        inverse, weights, prediction = self._newton_steps(state, z, y, processed & jnp.isfinite(y))
        state = replace(state, inverse=inverse, weights=weights, received=state.received + done)
        info = info_after(state.dictionary.used, jnp.where(processed, y, 0), weights, arrival.full)
        return state, prediction, done, info

    def grow(self, state: base.DictionaryState) -> base.DictionaryState:
        """The same state with twice the capacity."""
        return base.grow_dictionary(state, 2 * state.basis.shape[0], self.regularization)

    def _restart(
        self, state: base.DictionaryState, arrival: Arrival, x: Array
    ) -> tuple[base.DictionaryState, Array]:
        """(state, features z [B,M] of the block). If x [d], the first example of the block, joins
        the dictionary, A and the weights restart."""
        dictionary = arrival.dictionary
        points = kors.fill_unused(dictionary.points, dictionary.used, x)
        # the weights restart, and nothing is rotated
        joined, z = base.join_first(
            state, arrival, x, points, self.kernel, None, rotate=lambda none, rows: none
        )
        prior = jnp.eye(z.shape[1], dtype=z.dtype) / jnp.asarray(self.regularization, z.dtype)
        state = replace(
            state,
            dictionary=dictionary,
            basis=joined.basis,
            inverse=jnp.where(arrival.joins, prior, state.inverse),
            weights=jnp.where(arrival.joins, 0, state.weights),
        )
        return state, z

    def _newton_steps(
        self, state: base.DictionaryState, z: Array, y: Array, learn: Array
    ) -> tuple[Array, Array, Array]:
        """(A^-1, u, y^ [B]) after steps on the rows of z [B,M], y [B] where `learn` [B] is true.

        The steps need A only in the span of the block. With D = Z A^-1 at the start, A_t^-1 z_s is
        D^T L[:, s], and G[r, s] = z_r^T A_t^-1 z_s. A step is one elimination in [G; L], [2B, B].
        """
        count, bound = len(y), jnp.asarray(self.bound, z.dtype)
        directions = matmul(z, state.inverse)  # D
        identity = jnp.eye(count, dtype=z.dtype)
        curvature = 1 / (8 * bound**2)

        # carry: [G; L]; Z u; moves, u = u_0 - moves @ D; scaled, updates = scaled @ D; y^
        def step(t: Array, carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, ...]:
            stacked, outputs, moves, scaled, predictions = carry
            column = lax.dynamic_index_in_dim(stacked, t, 1, keepdims=False)
            leverage = column[t]  # z^T A^-1 z
            prediction = jnp.clip(outputs[t], -bound, bound)
            slope = jnp.where(learn[t], 2 * (prediction - y[t]), 0)
            excess = jnp.where(learn[t] & (leverage > 0), outputs[t] - prediction, 0)
            weight = curvature / 2 * slope**2
            damping = weight / (1 + weight * leverage)
            # u <- u - move A^-1 z
            move = excess / jnp.where(leverage > 0, leverage, 1) + slope / (1 + weight * leverage)
            row = lax.dynamic_index_in_dim(stacked, t, 0, keepdims=False)  # G[t, :]
            return (
                stacked - damping * column[:, None] * row[None, :],
                outputs - move * column[:count],
                moves + move * column[count:],
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
        _, _, moves, scaled, predictions = lax.fori_loop(0, count, step, start)
        updates = matmul(scaled, directions)  # rows sqrt(damping) A_t^-1 z_t
        inverse = state.inverse - matmul(updates.T, updates)
        return inverse, state.weights - matmul(moves, directions), predictions
