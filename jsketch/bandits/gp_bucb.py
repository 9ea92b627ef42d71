"""GP-BUCB: exact GP-UCB in adaptive batches. Within a batch the mean is frozen, and hallucinated
pulls lower the variances.

Desautels, Krause, Burdick (2014), in the adaptive form of BBKB's Algorithm 2 (the product rule).
The sum rule is BBKB's Lemma 1 on the same exact posterior. The sum never exceeds the product;
the sum rule therefore gives batches that are at least as long (THEORY 5.6).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core.exact_state import ExactBandit, ExactState
from jsketch.bandits.core.widths import ucb
from jsketch.linalg import put
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.struct import in_dtype
from jsketch.types import Arms, PRNGKey, Query


class _Batch(NamedTuple):
    arms: Array  # [B] int32
    size: Array  # [] int32
    posterior: Exact  # given the hallucinated picks
    bound: Array  # [], upper bound of the variance ratio; the batch ends when it exceeds C
    fits: Array  # [] bool, false if the last pick needs a row of the posterior and none is free


@struct.dataclass
class GPBUCB(ExactBandit):
    """Exact GP-UCB in adaptive batches over finite arms. A pick costs O(A (capacity + D))."""

    # C >= 1, the factor by which a variance may shrink within a batch; 1 is GP-UCB
    ratio: ArrayLike = 2.0
    rule: str = struct.field(pytree_node=False, default="product")  # or "sum", Lemma 1 of BBKB
    # B; a batch that has B picks before its rule ends it is flagged `truncated`
    max_batch: int = struct.field(pytree_node=False, default=10_000)
    # D, the largest number of new arms in a batch; a batch that needs more is flagged `truncated`
    new_arms: int = struct.field(pytree_node=False, default=64)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"rule": ("product", "sum")}

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        state = super().init(domain, key, data=data)
        n_rows, dtype = self.initial_slots + self.new_arms, state.count.dtype
        floats = n_rows * (state.domain.count + 2 * n_rows)
        checks.memory(floats, dtype, capacity=self.initial_slots, new_arms=self.new_arms)
        checks.memory(self.max_batch, dtype, max_batch=self.max_batch)
        return state

    def confidence_width(self, state: ExactState) -> Array:
        """The confidence width [], sqrt(C) beta_fb; the factor sqrt(C) accounts for the variances
        that shrink within a batch (THEORY 4.3)."""
        beta = super().confidence_width(state)
        return jnp.sqrt(in_dtype(self.ratio, beta.dtype)) * beta

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        unobserved = state.count == 0
        arms = state.domain.features
        kernel, lam, ratio = in_dtype((self.kernel, self.regularization, self.ratio), arms.dtype)
        width, start_variance = self.confidence_width(state), state.posterior.variance
        requested = checks.evaluation_limit(limit)
        limit = jnp.where(unobserved, 1, jnp.clip(requested, 1, self.max_batch))

        def pick(batch: _Batch) -> _Batch:
            current = batch.posterior
            best = jnp.argmax(ucb(current.mean, current.variance, width)).astype(jnp.int32)
            arm = jnp.where(unobserved, state.first_arm, best)
            product = (1 + current.variance[arm]) * batch.bound
            bound = product if self.rule == "product" else batch.bound + start_variance[arm]
            posterior, overflow = exact.hallucinate(current, kernel, arms, arm, lam)
            picked = put(batch.arms, batch.size, arm)
            return _Batch(picked, batch.size + 1, posterior, bound, fits=~overflow)

        def continues(batch: _Batch) -> Array:
            return (batch.size < limit) & (batch.bound <= ratio) & batch.fits

        # with D additional rows the length of a batch does not depend on the capacity N
        posterior = exact.grow(state.posterior, state.capacity + self.new_arms)
        no_arms, size = jnp.zeros(self.max_batch, jnp.int32), jnp.zeros((), jnp.int32)
        one, true = jnp.ones_like(state.count), jnp.ones((), bool)
        start = _Batch(no_arms, size, posterior, bound=one, fits=true)
        batch = lax.while_loop(continues, pick, start)
        mask = jnp.arange(self.max_batch, dtype=jnp.int32) < batch.size
        # a batch is truncated by too few slots, unless B = 1, or by too few rows for new arms
        full = (batch.size >= self.max_batch) & (requested > self.max_batch) & (self.max_batch > 1)
        no_row = ~batch.fits & (batch.size < limit)
        truncated = (full | no_row) & (batch.bound <= ratio)
        return Query(index=batch.arms, mask=mask, truncated=truncated)
