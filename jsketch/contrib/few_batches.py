"""Exploration by T evaluations in O(log log T) batches. Arms are eliminated after each batch.

The posterior is exact and uses the last batch only. Batch lengths and elimination follow Li and
Scarlett (Gaussian process bandit optimization with few batches, AISTATS 2022, BPE); THEORY 6.7
derives the width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import exact_state, widths
from jsketch.bandits.core.exact_state import ExactState
from jsketch.bandits.core.sketched import select_state
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.precision import one_dtype
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query


def batch_lengths(horizon: int) -> list[int]:
    """The lengths of the batches, N_i = ceil(sqrt(T N_{i-1})) with N_0 = 1, T = `horizon`. The last
    batch is cut so that the lengths sum to T. For T >= 3 there are at most ceil(log2 log2 T) + 1
    batches."""
    lengths: list[int] = []
    length = 1
    while sum(lengths) < horizon:
        length = math.isqrt(horizon * length - 1) + 1  # the ceiling of the root, exactly
        lengths.append(min(length, horizon - sum(lengths)))
    return lengths


@struct.dataclass
class ExplorationState(ExactState):
    """The posterior of the last batch, and the arms that are not eliminated."""

    active: Array  # [A] bool, arms that may be the best
    batches: Array  # [] int32, number of observed batches


@struct.dataclass
@one_dtype
class BatchedExploration(widths.KernelBandit, Algorithm):
    """Pure exploration (BPE): every pick has the largest posterior variance of the active arms.
    A pick costs O(A u) for u <= A distinct arms of the longest batch."""

    # number of evaluations T, which determines the lengths of all batches
    horizon: int = struct.field(pytree_node=False, default=1_000)
    # the largest number of distinct arms of a batch; None as for `GPUCB`
    capacity: int | None = struct.field(pytree_node=False, default=None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExplorationState:
        """The state before the first batch, in which all arms are active. Raises ValueError for
        invalid arguments."""
        start = exact_state.start(self, domain, key, data)
        dtype, arms = start.count.dtype, start.domain.count
        checks.memory(4 * self.horizon, dtype, horizon=self.horizon)
        slots = self._longest_batch(start.domain)
        checks.memory(slots * (arms + 2 * slots), dtype, arms=arms, horizon=self.horizon)
        zero = jnp.zeros((), jnp.int32)
        return ExplorationState(**vars(start), active=jnp.ones(arms, bool), batches=zero)

    def _longest_batch(self, domain: Arms) -> int:
        """An upper bound on the distinct arms of the longest batch."""
        return min(max(batch_lengths(self.horizon)), domain.count)

    def _prior(self, state: ExplorationState, capacity: int) -> Exact:
        return exact.prior(self.kernel, state.domain.features, self.regularization, capacity)

    def confidence_width(self, state: ExplorationState) -> Array:
        """The width [] of the next batch i, sqrt(lam F^2 + 2 xi^2 log(2 A i (i+1) / delta)) (THEORY
        6.7), with F = `norm_bound` and xi = `noise_std`."""
        i = (state.batches + 1).astype(state.count.dtype)
        log = jnp.log(2 * state.domain.count * i * (i + 1) / self.delta)
        bias = jnp.sqrt(self.regularization) * self.norm_bound
        return jnp.hypot(bias, self.noise_std * jnp.sqrt(2 * log))

    def confidence_bounds(self, state: ExplorationState) -> tuple[Array, Array, Array]:
        return state.posterior.mean, state.posterior.variance, self.confidence_width(state)

    def _batch_length(self, state: ExplorationState, limit: ArrayLike | None) -> Array:
        lengths = jnp.asarray(batch_lengths(self.horizon), jnp.int32)
        length = lengths[jnp.minimum(state.batches, lengths.shape[0] - 1)]
        return jnp.minimum(length, jnp.maximum(checks.evaluation_limit(limit), 1))

    def ask(self, state: ExplorationState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        length, arms = self._batch_length(state, limit), state.domain.features

        def pick(i: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
            posterior, index = carry
            scores = jnp.where(state.active, posterior.variance, -jnp.inf)
            arm = jnp.argmax(scores).astype(jnp.int32)
            posterior, _ = exact.hallucinate(posterior, self.kernel, arms, arm, self.regularization)
            return posterior, index.at[i].set(arm)

        index = jnp.zeros(self.horizon, jnp.int32)
        # a prior with the capacity of the state would make the picks depend on this capacity
        prior = self._prior(state, self._longest_batch(state.domain))
        _, index = lax.fori_loop(0, length, pick, (prior, index))
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)

    def tell(
        self, state: ExplorationState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExplorationState, Info]:
        """(state, info) after the batch. The posterior contains this batch alone, and arms whose
        upper bound is below the largest lower bound are eliminated."""
        width = self.confidence_width(state)
        new, info = exact_state.observe(
            self, replace(state, posterior=self._prior(state, state.capacity)), query, y, width, key
        )
        mean = new.posterior.mean
        half_width = width * jnp.sqrt(new.posterior.variance)
        largest_lower_bound = jnp.max(jnp.where(state.active, mean - half_width, -jnp.inf))
        active = state.active & ~(mean + half_width < largest_lower_bound)
        new = replace(new, active=active, batches=state.batches + 1)
        return select_state(info.overflow | (info.observed == 0), state, new), info

    def grow(self, state: ExplorationState, capacity: int) -> ExplorationState:
        """The same state with capacity for `capacity` distinct arms of a batch."""
        return replace(state, posterior=exact.grow(state.posterior, capacity))


@struct.dataclass
@one_dtype
class RandomExploration(BatchedExploration):
    """`BatchedExploration` with uniform picks among the active arms. A batch costs O(A + T).

    Follows Salgia, Vakili, Zhao, Random exploration in Bayesian optimization: order-optimal regret
    and computational efficiency, ICML 2024 (REDS). The paper leaves the first length open; here
    it is ceil(sqrt(T)). The posterior is exact; the paper's has uniform inducing points.
    """

    def ask(self, state: ExplorationState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        length = self._batch_length(state, limit)
        cumulative = jnp.cumsum(state.active, dtype=jnp.int32)
        rank = jax.random.randint(key, (self.horizon,), 0, cumulative[-1], jnp.int32)
        index = jnp.searchsorted(cumulative, rank, side="right").astype(jnp.int32)
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)
