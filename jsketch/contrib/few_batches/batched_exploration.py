"""Batched pure exploration: O(log log T) batches, each chosen by variance alone, and arms ruled out
between them.

Follows Li, Scarlett, Gaussian process bandit optimization with few batches, AISTATS 2022 (BPE). The
text was not at hand: lengths and elimination are the paper's as known to us, the width and its
proof are ours (THEORY 6.7). The posterior is exact, of the batch alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import exact_state
from jsketch.checks import queries
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


def lengths(horizon: int) -> list[int]:
    """N_i = ceil(sqrt(T N_{i-1})), N_0 = 1, the last one cut at T: at most ceil(log2 log2 T) + 1
    of them for T >= 3."""
    found: list[int] = []
    previous = 1
    while sum(found) < horizon:
        previous = math.isqrt(horizon * previous - 1) + 1
        found.append(min(previous, horizon - sum(found)))
    return found


@struct.dataclass
class ExplorationState:
    """The arms that are left, and the posterior of the last batch."""

    domain: Arms
    active: Array  # [A] bool, arms that may be the best
    batches: Array  # [] int32, batches observed so far
    first_arm: Array  # [] int32, not used
    posterior: Exact
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x k(x,x)

    @property
    def capacity(self) -> int:
        return self.posterior.basis.shape[0]


@struct.dataclass
@one_dtype
class BatchedExploration:
    """Pure exploration in batches for `horizon` evaluations; O(A u) a pick, u <= A arms of the
    longest batch."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    horizon: int = struct.field(pytree_node=False, default=1_000)  # T, which lengths depend on
    # N distinct arms of a batch; `run` grows it
    capacity: int = struct.field(pytree_node=False, default=128)

    def init(self, domain: Arms, key: PRNGKey) -> ExplorationState:
        """All arms are left. Raises ValueError on static mistakes."""
        checks.positive(regularization=self.regularization)
        checks.nonnegative(noise_std=self.noise_std, norm_bound=self.norm_bound)
        checks.probability(delta=self.delta)
        checks.capacity(horizon=self.horizon)
        start = exact_state.start(self, domain, key)
        checks.room(4 * self.horizon, start.count.dtype, horizon=self.horizon)
        arms, slots = start.domain.count, self._slots(start.domain)
        checks.room(slots * (arms + 2 * slots), start.count.dtype, arms=arms, horizon=self.horizon)
        return ExplorationState(
            domain=start.domain,
            active=jnp.ones(start.domain.count, bool),
            batches=jnp.zeros((), jnp.int32),
            first_arm=start.first_arm,
            posterior=start.posterior,
            count=start.count,
            prior_variance=start.prior_variance,
        )

    def _slots(self, domain: Arms) -> int:
        """Distinct arms that a batch may have."""
        return min(max(lengths(self.horizon)), domain.count)

    def _prior(self, state: ExplorationState, capacity: int) -> Exact:
        return exact.prior(self.kernel, state.domain.features, self.regularization, capacity)

    def confidence_width(self, state: ExplorationState) -> Array:
        """Of batch i, the next one: sqrt(lam F^2 + 2 xi^2 log(2 A i (i+1) / delta)), [] (THEORY
        6.7)."""
        i = (state.batches + 1).astype(state.count.dtype)
        log = jnp.log(2 * state.domain.count * i * (i + 1) / self.delta)
        bias = jnp.sqrt(self.regularization) * self.norm_bound
        return jnp.hypot(bias, self.noise_std * jnp.sqrt(2 * log))

    def ask(self, state: ExplorationState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        planned = jnp.asarray(lengths(self.horizon), jnp.int32)
        length = planned[jnp.minimum(state.batches, planned.shape[0] - 1)]
        length = jnp.minimum(length, jnp.maximum(queries.limited(limit), 1))
        arms = state.domain.features

        def pick(i: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
            posterior, index = carry
            scores = jnp.where(state.active, posterior.variance, -jnp.inf)
            arm = jnp.argmax(scores).astype(jnp.int32)
            posterior, _ = exact.hallucinate(posterior, self.kernel, arms, arm, self.regularization)
            return posterior, index.at[i].set(arm)

        none = jnp.zeros(self.horizon, jnp.int32)
        # rows of its own for the batch, whose picks must not depend on the capacity
        prior = self._prior(state, self._slots(state.domain))
        _, index = lax.fori_loop(0, length, pick, (prior, none))
        return Query(index=index, mask=jnp.arange(self.horizon, dtype=jnp.int32) < length)

    def tell(
        self, state: ExplorationState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExplorationState, Info]:
        """The posterior of this batch, and the arms whose upper bound is not below the largest
        lower bound."""
        width = self.confidence_width(state)
        new, info = exact_state.observe(
            self, replace(state, posterior=self._prior(state, state.capacity)), query, y, width, key
        )
        mean = new.posterior.mean
        reach = width * jnp.sqrt(new.posterior.variance)
        best = jnp.max(jnp.where(state.active, mean - reach, -jnp.inf))
        new = replace(new, active=state.active & ~(mean + reach < best), batches=state.batches + 1)
        kept = info.overflow | (info.observed == 0)
        return jax.tree.map(lambda old, new: jnp.where(kept, old, new), state, new), info

    def grow(self, state: ExplorationState, capacity: int) -> ExplorationState:
        """The same state with room for `capacity` distinct arms of a batch."""
        return replace(state, posterior=exact.grow(state.posterior, capacity))
