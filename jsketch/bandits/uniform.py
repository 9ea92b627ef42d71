"""The uniform policy. A regret ratio is a regret divided by the regret of this policy."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query


@struct.dataclass
class UniformState:
    """The arms, and the number of observations."""

    domain: Arms
    count: Array  # [] int32, number of observations


@struct.dataclass
class Uniform(Algorithm):
    """Evaluates batches of arms that are drawn uniformly, with replacement."""

    batch: int = struct.field(pytree_node=False, default=1)  # B, the evaluations in a batch

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> UniformState:
        checks.no_evaluations(self, data)
        checks.settings(self)
        domain = checks.arms(domain)
        checks.memory(2 * self.batch, domain.features.dtype, batch=self.batch)
        return UniformState(domain=domain, count=jnp.zeros((), jnp.int32))

    def ask(self, state: UniformState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        index = jax.random.randint(key, (self.batch,), 0, state.domain.count, jnp.int32)
        limit = jnp.maximum(checks.evaluation_limit(limit), 1)
        return Query(index=index, mask=jnp.arange(self.batch, dtype=jnp.int32) < limit)

    def tell(
        self, state: UniformState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[UniformState, Info]:
        query, y = checks.feedback(state.domain, query, y)
        info = counts.round_info(query, y, size=0)
        return replace(state, count=state.count + info.observed), info
