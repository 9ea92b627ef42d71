"""FixedBKB: batches of a fixed size, such as the 96 wells of a laboratory plate, and evaluations
that are still pending when the next batch is chosen.

The posterior is BKB's. Every pick of a batch and every pending evaluation is hallucinated: it
lowers variances and does not change means (Desautels et al. 2014). A batch of a fixed size may
leave the region that the dictionary represents. The picks therefore lower variances by the full
sketched covariance k~ (BBKB eq. 2), which differs from arm to arm even if the dictionary is empty.
BBKB's adaptive batches need only the embedded part e of k~.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.batches import fixed_set
from jsketch.bandits.core import widths
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.bandits.core.widths import ucb
from jsketch.struct import in_dtype
from jsketch.types import Arms, Data, Info, PRNGKey, Query, is_traced


@struct.dataclass
class FixedBatchState(SketchState):
    """BKB's state, and the pending evaluations."""

    pending: Array  # [A], number of pending evaluations of each arm
    tried: Array  # [A] bool, whether an arm was evaluated, failed evaluations included


@struct.dataclass
class FixedBKB(SketchedBandit):
    """BKB in batches of a fixed size. No bound on the variance ratio ends a batch; `ratio` only
    scales the width.

    Example:

        bandit = FixedBKB(kernels.Gaussian(1.0), noise_std=0.1, batch=8, repeat=False)
        state = bandit.init(Arms(features), jax.random.key(0))
        bandit.ask(state, jax.random.key(1)).index  # [8]
    """

    width: widths.Width = widths.bbkb_code
    ratio: ArrayLike = 1.0  # C of the width
    batch: int = struct.field(pytree_node=False, default=96)  # B, the evaluations in a batch
    # P, the largest number of distinct arms that are pending at an `ask`
    max_pending: int = struct.field(pytree_node=False, default=0)
    # False: no arm is evaluated twice, even if its evaluation failed; when too few arms remain,
    # batches are shorter or empty
    repeat: bool = struct.field(pytree_node=False, default=True)

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> FixedBatchState:
        state = super().init(domain, key, data=data)
        slots = self.batch + self.max_pending
        floats = 2 * slots * (slots + 2 * self.initial_slots)
        checks.memory(floats, state.mean.dtype, batch=self.batch, max_pending=self.max_pending)
        tried = state.pull_counts > 0
        if data is not None and data.failed is not None:
            checks.arm_numbers(state.domain, failed=data.failed)
            index = checks.mark_invalid_arms(state.domain, data.failed)
            place = state.domain.rows.local(index, len(tried))
            tried = tried.at[place].set(True, mode="drop")
        pending = jnp.zeros_like(state.pull_counts)
        return FixedBatchState(**vars(state), pending=pending, tried=tried)

    def remaining(self, state: FixedBatchState) -> Array | None:
        """The number [] int32 of arms that may still be evaluated; None if arms may be repeated."""
        if self.repeat:
            return None
        return state.domain.rows.sum((~self._excluded(state)).sum(dtype=jnp.int32))

    def _excluded(self, state: FixedBatchState) -> Array:
        excluded = state.tried | (state.pull_counts > 0) | (state.pending > 0)
        return state.domain.rows.mask(excluded, True)

    def pend(self, state: FixedBatchState, query: Query) -> FixedBatchState:
        """The state in which the evaluations of the query are pending: they are hallucinated until
        `tell` observes them. Raises ValueError when more than max_pending distinct arms would be
        pending, and for an arm that does not exist. If traced, such an arm is ignored, and `tell`
        flags it."""
        query = checks.arm_query(state.domain, query)
        increment = query.mask.astype(state.pending.dtype)
        place = state.domain.rows.local(query.index, len(state.pending))
        pending = state.pending.at[place].add(increment, mode="drop")
        if not is_traced(pending) and int((pending > 0).sum()) > self.max_pending:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending, max_pending is"
                f" {self.max_pending}: raise it."
            )
        return replace(state, pending=pending)

    def confidence_width(self, state: SketchState) -> Array:
        """The width of a batch, []."""
        return widths.confidence_width(self, state.evidence, self.ratio)

    def _pending_pulls(self, state: FixedBatchState) -> fixed_set.Pulls:
        domain, rows = state.domain, state.domain.rows
        pulls = fixed_set.empty_pulls(domain, state.capacity, self.max_pending + self.batch)
        if self.max_pending == 0:
            return pulls
        cumulative = rows.running_count(state.pending > 0)
        index, valid = rows.compact(cumulative, 0, min(self.max_pending, domain.count))
        counts = jnp.where(valid, rows.take(state.pending, index), 0)
        return fixed_set.fill_pulls(in_dtype(self, counts.dtype), state, pulls, index, counts)

    def start_batch(self, state: FixedBatchState) -> tuple[fixed_set.Batch, Array]:
        """(batch, n_pending []): the batch at the start of `ask`, without picks, and the number of
        distinct pending arms, at most `max_pending`."""
        rows = state.domain.rows
        is_first_batch = (state.evidence.count == 0) & (rows.sum(state.pending.sum()) == 0)
        n_pending = rows.sum((state.pending > 0).sum(dtype=jnp.int32))
        scores = ucb(state.mean, state.variance, self.confidence_width(state))
        # the first pick of a run is a random arm, because all scores tie
        is_first_arm = rows.arm_numbers(scores.shape[0]) == state.first_arm
        scores = jnp.where(is_first_batch & is_first_arm, jnp.inf, scores)
        scores = rows.mask(scores, -jnp.inf)
        if not self.repeat:
            scores = jnp.where(self._excluded(state), -jnp.inf, scores)
        batch = fixed_set.Batch(
            arms=jnp.zeros(self.batch + fixed_set.PICKS, jnp.int32),
            size=jnp.zeros((), jnp.int32),
            scores=scores,
            pulls=self._pending_pulls(state),
        )
        return batch, jnp.minimum(n_pending, self.max_pending)

    def ask(self, state: FixedBatchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        limit = jnp.clip(checks.evaluation_limit(limit), 1, self.batch)
        remaining = self.remaining(state)
        if remaining is not None:
            limit = jnp.minimum(limit, remaining)
        start, n_pending = self.start_batch(state)
        bandit = in_dtype(self, state.mean.dtype)
        batch = lax.while_loop(
            lambda b: b.size < limit,
            lambda b: fixed_set.extend(bandit, state, b, n_pending, limit),
            start,
        )
        slots = jnp.arange(self.batch, dtype=jnp.int32)
        return Query(index=batch.arms[: self.batch], mask=slots < batch.size)

    def tell(  # type: ignore[override]
        self, state: FixedBatchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FixedBatchState, Info]:
        """(state, info) after the rewards of any part of the pending evaluations, in any order.
        Slots with a false mask stay pending, and a reward of NaN is a failed evaluation."""
        query, y = checks.feedback(state.domain, query, y)
        new, info = super().tell(state, query, y, key)
        rows = state.domain.rows
        too_many_pending = rows.sum((state.pending > 0).sum()) > self.max_pending
        place = rows.local(query.index, len(state.pending))
        decrement = -query.mask.astype(state.pending.dtype)
        pending_after = state.pending.at[place].add(decrement, mode="drop")
        pending = jnp.where(info.overflow, state.pending, jnp.maximum(pending_after, 0))
        tried = state.tried.at[place].max(query.mask & ~info.overflow, mode="drop")
        info = replace(info, truncated=too_many_pending)
        return replace(new, pending=pending, tried=tried), info
