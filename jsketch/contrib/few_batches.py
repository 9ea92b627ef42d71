"""Exploration by T evaluations in O(log log T) batches. Arms are eliminated after each batch.

The posterior is exact and uses the last batch only. Batch lengths and elimination follow Li and
Scarlett (Gaussian process bandit optimization with few batches, AISTATS 2022, BPE); THEORY 6.7
derives the width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.exact import ExactState, grow, observe, start
from jsketch.core import history, widths
from jsketch.numerics import count, put
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
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
class BatchedExploration(widths.KernelBandit, Algorithm):
    """Pure exploration (BPE): every pick has the largest posterior variance of the active arms.
    A pick costs O(A u) for u <= A distinct arms of the longest batch.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    horizon         number of evaluations T, which determines the lengths of all batches
    capacity        the largest number of distinct arms of a batch; None as for `GPUCB`
    """

    horizon: int = struct.size(1_000)
    capacity: int | None = struct.size(None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExplorationState:
        """The state before the first batch, in which all arms are active. Raises ValueError for
        invalid arguments."""
        prior = start(self, arms, key, data)
        dtype, count = prior.count.dtype, arms.count
        checks.memory(4 * self.horizon, dtype, horizon=self.horizon)
        floats = exact.floats(count, self._longest_batch(count))
        checks.memory(floats, dtype, arms=count, horizon=self.horizon)
        active, batches = jnp.ones_like(prior.posterior.mean, bool), jnp.zeros((), jnp.int32)
        return ExplorationState(**vars(prior), active=active, batches=batches)

    def _longest_batch(self, count: int) -> int:
        """An upper bound on the distinct arms of the longest batch, of `count` arms."""
        return min(max(batch_lengths(self.horizon)), count)

    def _prior(self, arms: Arms, capacity: int) -> Exact:
        return exact.prior(self.kernel, arms.features, self.regularization, capacity)

    def confidence_width(self, state: ExplorationState, arms: Arms) -> Array:
        """The width [] of the next batch i, sqrt(lam F^2 + 2 xi^2 log(2 A i (i+1) / delta)) (THEORY
        6.7), with F = `norm_bound` and xi = `noise_std`."""
        i = (state.batches + 1).astype(state.count.dtype)
        log = jnp.log(2 * arms.count * i * (i + 1) / self.delta)
        bias = jnp.sqrt(self.regularization) * self.norm_bound
        return jnp.hypot(bias, self.noise_std * jnp.sqrt(2 * log))

    def confidence_bounds(self, state: ExplorationState, arms: Arms) -> tuple[Array, Array, Array]:
        width = self.confidence_width(state, arms)
        return state.posterior.mean, state.posterior.variance, width

    def _batch_length(self, state: ExplorationState, limit: ArrayLike | None) -> Array:
        lengths = jnp.asarray(batch_lengths(self.horizon), jnp.int32)
        length = lengths[jnp.minimum(state.batches, len(lengths) - 1)]
        return jnp.minimum(length, history.limit_of(limit, self.horizon))

    def _candidates(self, state: ExplorationState, arms: Arms) -> Array:
        """The active arms, [A] bool, without those that are left out unless these are all."""
        rest = state.active & arms.candidates
        is_arm = replace(arms, left_out=None).candidates
        return jnp.where(count(rest) > 0, rest, state.active & is_arm)

    def ask(
        self, state: ExplorationState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        length, candidates = self._batch_length(state, limit), self._candidates(state, arms)
        model = self.kernel, arms.features, self.regularization

        def pick(slot: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
            posterior, index = carry
            arm = jnp.argmax(jnp.where(candidates, posterior.variance, -jnp.inf)).astype(jnp.int32)
            return exact.hallucinate(posterior, *model, arm), put(index, slot, arm)

        index = jnp.zeros(self.horizon, jnp.int32)
        # a prior with the capacity of the state would make the picks depend on this capacity
        prior = self._prior(arms, self._longest_batch(arms.count))
        _, index = lax.fori_loop(0, length, pick, (prior, index))
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)

    def tell(
        self, state: ExplorationState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExplorationState, Info]:
        """(state, info) after the batch. The posterior contains this batch alone, and arms whose
        upper bound is below the largest lower bound are eliminated."""
        width = self.confidence_width(state, arms)
        prior = replace(state, posterior=self._prior(arms, state.capacity))
        new, info = observe(self, prior, arms, query, y, width)
        mean, half_width = new.posterior.mean, width * jnp.sqrt(new.posterior.variance)
        largest_lower_bound = jnp.max(jnp.where(state.active, mean - half_width, -jnp.inf))
        active = state.active & ~(mean + half_width < largest_lower_bound)
        new = replace(new, active=active, batches=state.batches + 1)
        # a round without an observation, such as one that needs more rows, changes nothing
        return jax.tree.map(partial(jnp.where, info.observed > 0), new, state), info

    def grow(self, state: ExplorationState, arms: Arms, capacity: int) -> ExplorationState:
        """The same state with capacity for `capacity` distinct arms of a batch."""
        return grow(state, capacity)


@struct.dataclass
class RandomExploration(BatchedExploration):
    """`BatchedExploration` with uniform picks among the active arms. A batch costs O(A + T).

    Follows Salgia, Vakili, Zhao, Random exploration in Bayesian optimization: order-optimal regret
    and computational efficiency, ICML 2024 (REDS). The paper leaves the first length open; here
    it is ceil(sqrt(T)). The posterior is exact; the paper's has uniform inducing points.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    horizon         number of evaluations T, which determines the lengths of all batches
    capacity        the largest number of distinct arms of a batch; None as for `GPUCB`
    """

    def ask(
        self, state: ExplorationState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        length, candidates = self._batch_length(state, limit), self._candidates(state, arms)
        cumulative = jnp.cumsum(candidates, dtype=jnp.int32)
        rank = jax.random.randint(key, (self.horizon,), 0, cumulative[-1], jnp.int32)
        index = jnp.searchsorted(cumulative, rank, side="right").astype(jnp.int32)
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)
