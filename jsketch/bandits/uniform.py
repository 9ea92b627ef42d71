"""The uniform policy. A regret ratio is a regret divided by the regret of this policy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.core import history
from jsketch.types import Algorithm, Arms, Info, PRNGKey, Query


@struct.dataclass
class Uniform(Algorithm):
    """Evaluates batches of arms that are drawn uniformly, with replacement. Its state is empty.

    batch  B, the evaluations in a batch
    """

    batch: int = struct.size(1)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> tuple[()]:
        checks.no_evaluations(self, data)
        checks.settings(self)
        arms = checks.arms(arms)
        checks.memory(2 * self.batch, arms.features.dtype, batch=self.batch)
        return ()

    def ask(
        self, state: tuple[()], arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        index = jax.random.randint(key, (self.batch,), 0, arms.count, jnp.int32)
        index = history.redrawn(arms, index, jax.random.fold_in(key, 0))
        size = history.limit_of(limit, self.batch)
        return Query(index=index, mask=jnp.arange(self.batch, dtype=jnp.int32) < size)

    def tell(
        self, state: tuple[()], arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[tuple[()], Info]:
        return state, history.round_info(query, y)
