"""Epsilon-greedy without a model: the baseline of BBKB's architecture search.

The paper names EpsGreedy without a definition. On its poster a step takes 22 microseconds, which is
too short for a posterior, and the regret ratio decreases as t^(-1/2), unlike that of a constant
epsilon.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts
from jsketch.types import Algorithm, Arms, Evaluations, Info, PRNGKey, Query


@struct.dataclass
class MeansState:
    """Counts and sums of rewards by arm."""

    domain: Arms
    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    count: Array  # [] int32, observations without initial evaluations


@struct.dataclass
class ModelFreeEpsGreedy(Algorithm):
    """Picks a uniform arm with probability min(1, factor/sqrt(t)), and otherwise the arm with the
    largest mean of its observed rewards."""

    factor: ArrayLike = 2.0

    def init(
        self,
        domain: Arms,
        key: PRNGKey,
        *,
        horizon: int | None = None,
        data: Evaluations | None = None,
    ) -> MeansState:
        """The initial state, also after earlier evaluations. Raises ValueError for a factor that is
        not positive."""
        checks.positive(factor=self.factor)
        pulls = sums = jnp.zeros(domain.count, domain.features.dtype)
        if data is not None:
            pulls = jnp.asarray(data.pull_counts, pulls.dtype)
            sums = jnp.asarray(data.reward_sums, sums.dtype)
        return MeansState(domain, pulls, sums, jnp.zeros((), jnp.int32))

    def ask(self, state: MeansState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        coin_key, arm_key = jax.random.split(key)
        dtype = state.reward_sums.dtype
        probability = self.factor / jnp.sqrt((state.count + 1).astype(dtype))
        observed = state.pull_counts > 0
        explore = (jax.random.uniform(coin_key, dtype=dtype) < probability) | ~observed.any()
        uniform = jax.random.randint(arm_key, (), 0, state.domain.count, jnp.int32)
        means = jnp.where(observed, state.reward_sums / jnp.maximum(state.pull_counts, 1), -jnp.inf)
        arm = jnp.where(explore, uniform, jnp.argmax(means).astype(jnp.int32))
        return checks.single_query(arm)

    def tell(
        self, state: MeansState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[MeansState, Info]:
        observed = (query.mask & jnp.isfinite(y))[0]
        arm, added = query.index[0], observed.astype(y.dtype)
        new = replace(
            state,
            pull_counts=state.pull_counts.at[arm].add(added),
            reward_sums=state.reward_sums.at[arm].add(jnp.where(observed, y[0], 0)),
            count=state.count + observed.astype(jnp.int32),
        )
        return new, counts.round_info(query, y, size=0)  # no inducing points
