"""Random exploration with domain shrinking: batches of uniform arms, and arms ruled out between
them.

Follows Salgia, Vakili, Zhao, Random exploration in Bayesian optimization: order-optimal regret and
computational efficiency, ICML 2024 (REDS). What the definition rests on: the abstract, and the
authors' scripts for several agents (Pavlovic, Salgia, Zhao, 2024), whose batches grow as those of
`BatchedExploration`, from a first length that they choose; here it is ceil(sqrt(T)). Elimination
is that of the scripts, the width and its proof are ours (THEORY 6.7), as is the posterior, exact
and of the batch alone, where theirs is on a uniform subset.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.checks import queries
from jsketch.contrib.few_batches.batched_exploration import (
    BatchedExploration,
    ExplorationState,
    lengths,
)
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
@one_dtype
class RandomExploration:
    """`BatchedExploration` whose picks are uniform among the arms that are left: O(A + T) a batch
    to choose, O(A u) an observation, u distinct arms of the batch."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    horizon: int = struct.field(pytree_node=False, default=1_000)  # T, which lengths depend on
    # N distinct arms of a batch; `run` grows it
    capacity: int = struct.field(pytree_node=False, default=128)

    def _by_variance(self) -> BatchedExploration:
        return BatchedExploration(
            kernel=self.kernel,
            regularization=self.regularization,
            noise_std=self.noise_std,
            norm_bound=self.norm_bound,
            delta=self.delta,
            horizon=self.horizon,
            capacity=self.capacity,
        )

    def init(self, domain: Arms, key: PRNGKey) -> ExplorationState:
        """All arms are left. Raises ValueError on static mistakes."""
        return self._by_variance().init(domain, key)

    def confidence_width(self, state: ExplorationState) -> Array:
        """As `BatchedExploration.confidence_width`."""
        return self._by_variance().confidence_width(state)

    def ask(self, state: ExplorationState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        planned = jnp.asarray(lengths(self.horizon), jnp.int32)
        length = planned[jnp.minimum(state.batches, planned.shape[0] - 1)]
        length = jnp.minimum(length, jnp.maximum(queries.limited(limit), 1))
        left = jnp.cumsum(state.active, dtype=jnp.int32)
        # the number of each pick among the arms that are left
        number = jax.random.randint(key, (self.horizon,), 0, left[-1], jnp.int32)
        index = jnp.searchsorted(left, number, side="right").astype(jnp.int32)
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)

    def tell(
        self, state: ExplorationState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExplorationState, Info]:
        """As `BatchedExploration.tell`."""
        return self._by_variance().tell(state, query, y, key)

    def grow(self, state: ExplorationState, capacity: int) -> ExplorationState:
        """The same state with room for `capacity` distinct arms of a batch."""
        return self._by_variance().grow(state, capacity)
