"""Epsilon-greedy without a model: the baseline of BBKB's architecture search.

The paper names EpsGreedy without a definition. On its poster a step takes 22 microseconds, which is
too short for a posterior, and the regret ratio decreases as t^(-1/2), unlike that of a constant
epsilon.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.core import history
from jsketch.types import Algorithm, Arms, Evaluations, Info, PRNGKey, Query


@struct.dataclass
class MeansState:
    """Counts and sums of rewards by arm."""

    counts: Array  # [A]
    sums: Array  # [A]
    new: Array  # [] int32, observations without initial evaluations


@struct.dataclass
class ModelFreeEpsGreedy(Algorithm):
    """Picks a uniform arm with probability min(1, factor/sqrt(t)), and otherwise the arm with the
    largest mean of its observed rewards."""

    factor: ArrayLike = struct.number(2.0, above=0)

    def init(
        self,
        arms: Arms,
        key: PRNGKey,
        *,
        horizon: int | None = None,
        data: Evaluations | None = None,
    ) -> MeansState:
        """The initial state, also after earlier evaluations. Raises ValueError for a factor that is
        not positive."""
        checks.settings(self)
        counts = sums = jnp.zeros(arms.count, arms.features.dtype)
        if data is not None:
            counts = jnp.asarray(data.pull_counts, counts.dtype)
            sums = jnp.asarray(data.reward_sums, sums.dtype)
        return MeansState(counts, sums, jnp.zeros((), jnp.int32))

    def ask(
        self, state: MeansState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        coin_key, arm_key = jax.random.split(key)
        dtype = state.sums.dtype
        probability = self.factor / jnp.sqrt((state.new + 1).astype(dtype))
        observed = state.counts > 0
        explore = (jax.random.uniform(coin_key, dtype=dtype) < probability) | ~observed.any()
        uniform = jax.random.randint(arm_key, (), 0, arms.count, jnp.int32)
        means = jnp.where(observed, state.sums / jnp.maximum(state.counts, 1), -jnp.inf)
        return Query.of(jnp.where(explore, uniform, jnp.argmax(means).astype(jnp.int32)))

    def tell(
        self, state: MeansState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[MeansState, Info]:
        info = history.round_info(query, y)
        counts, sums = history.add(state.counts, state.sums, query, y)
        return MeansState(counts, sums, state.new + info.observed), info
