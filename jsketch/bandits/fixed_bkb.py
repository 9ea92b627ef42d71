"""Fixed-size batches, as a laboratory evaluates them (96 at a time, a round of 1,000), and
evaluations that are still pending when the next batch is chosen.

The posterior is BKB's. Within a batch every pick is hallucinated: its variance effect is counted,
its reward is not (Desautels et al. 2014), and pending evaluations are counted the same way. A fixed
batch outgrows the region that the dictionary represents, so picks are conditioned on with the full
sketched covariance k~ (BBKB eq. 2), a prior in which different arms differ even where the
dictionary is empty; BBKB's adaptive batches need only its embedded part e.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, shards, struct
from jsketch.bandits.batches import fixed_set
from jsketch.bandits.core import counts, room, sketched, warm_start, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, attach, detach, is_traced


@struct.dataclass
class FixedBatchState:
    """BKB's state, and what has been asked for but not observed."""

    domain: Arms
    sketch: SketchState  # without its domain
    pending: Array  # [A], pending evaluations of each arm
    tried: Array  # [A] bool, arms that were evaluated, failed evaluations included

    @property
    def capacity(self) -> int:
        return self.sketch.capacity


def _rows(values: Array, domain: Arms, index: Array) -> Array:
    """The rows of values [A] that arms `index` have."""
    return shards.local(domain.shard, index, values.shape[0])


@struct.dataclass
@one_dtype
class FixedBKB:
    """BKB in batches of a fixed size. No bound on the variance ratio ends a batch: `ratio` scales
    the width only."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    ratio: ArrayLike = 1.0  # C of the width
    width: widths.Width = widths.bbkb_code
    batch: int = struct.field(pytree_node=False, default=96)  # B
    # P distinct arms pending at an `ask`
    max_pending: int = struct.field(pytree_node=False, default=0)
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it
    # False: no arm is asked for twice, failed evaluations count; a batch ends when none is left,
    # the next ones are empty
    repeat: bool = struct.field(pytree_node=False, default=True)

    def init(
        self,
        domain: Arms,
        key: PRNGKey,
        *,
        pull_counts: Any = None,
        reward_sums: Any = None,
        dictionary: Any = None,
        failed: Any = None,
    ) -> FixedBatchState:
        """As `BKB.init`; `failed` holds arms [n] whose evaluations failed, which pull counts leave
        out. Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        checks.at_least_one(ratio=self.ratio)
        checks.capacity(batch=self.batch)
        room.check_bandit(self)
        checks.count(max_pending=self.max_pending)
        checks.truth(repeat=self.repeat)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization)
        room.check_room(domain, self.capacity)
        slots = self.batch + self.max_pending
        floats = 2 * slots * (slots + 2 * self.capacity)
        checks.room(floats, domain.features.dtype, batch=self.batch, max_pending=self.max_pending)
        known = warm_start.checked(self, domain, key, pull_counts, reward_sums, dictionary)
        state = sketched.start(domain, self.kernel, self.regularization, self.capacity, key, known)
        tried = state.pull_counts > 0
        if failed is not None:
            checks.arm_numbers(domain, failed=failed)
            tried = tried.at[_rows(tried, domain, queries.or_none(domain, failed))].set(
                True, mode="drop"
            )
        return FixedBatchState(domain, detach(state), jnp.zeros_like(state.pull_counts), tried)

    def remaining(self, state: FixedBatchState) -> Array | None:
        """Evaluations that can still be asked for, [] int32; None: any number."""
        if self.repeat:
            return None
        free = (~self._taken(state)).sum(dtype=jnp.int32)
        return shards.total(state.domain.shard, free)

    def _taken(self, state: FixedBatchState) -> Array:
        taken = state.tried | (state.sketch.pull_counts > 0) | (state.pending > 0)
        return shards.padded(state.domain.shard, taken, True)

    def pend(self, state: FixedBatchState, query: Query) -> FixedBatchState:
        """The state with the query pending: until they are observed, its evaluations lower
        variances and not means.

        Raises ValueError when more than max_pending distinct arms would be pending, and for an arm
        that is not there (where arms are traced it is left out, and `tell` flags it).
        """
        query = queries.on_arms(state.domain, query)
        ones = query.mask.astype(state.pending.dtype)
        rows = _rows(state.pending, state.domain, query.index)
        pending = state.pending.at[rows].add(ones, mode="drop")
        if not is_traced(pending) and int((pending > 0).sum()) > self.max_pending:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending, max_pending is"
                f" {self.max_pending}: raise it."
            )
        return replace(state, pending=pending)

    def confidence_width(self, state: FixedBatchState) -> Array:
        """The width of a batch, []."""
        return self.width(state.sketch.evidence, widths.assumptions(self, self.ratio))

    def _conditioned_on_pending(self, state: FixedBatchState) -> fixed_set.Pulls:
        domain, shard = state.domain, state.domain.shard
        pulls = fixed_set.no_pulls(domain, state.capacity, self.max_pending + self.batch)
        if self.max_pending == 0:
            return pulls
        running = shards.running_count(shard, state.pending > 0)
        index, valid = shards.compact(shard, running, 0, min(self.max_pending, domain.count))
        times = jnp.where(valid, shards.take(shard, state.pending, index), 0)
        return fixed_set.conditioned(
            domain, state.sketch, self.kernel, self.regularization, pulls, index, times
        )

    def start_batch(self, state: FixedBatchState) -> tuple[fixed_set.Batch, Array]:
        """(a batch without picks, how many distinct arms are pending, []): what `ask` starts
        from."""
        sketch, shard = state.sketch, state.domain.shard
        width = self.confidence_width(state)
        nothing = (sketch.evidence.count == 0) & (shards.total(shard, state.pending.sum()) == 0)
        pending = shards.total(shard, (state.pending > 0).sum(dtype=jnp.int32))
        scores = sketch.mean + width * jnp.sqrt(sketch.variance)
        # the very first pick is uniform: all scores tie
        numbers = shards.numbers(shard, scores.shape[0])
        scores = jnp.where(nothing & (numbers == sketch.first_arm), jnp.inf, scores)
        scores = shards.padded(shard, scores, -jnp.inf)
        if not self.repeat:
            scores = jnp.where(self._taken(state), -jnp.inf, scores)
        batch = fixed_set.Batch(
            arms=jnp.zeros(self.batch + fixed_set.PICKS, jnp.int32),
            size=jnp.zeros((), jnp.int32),
            scores=scores,
            pulls=self._conditioned_on_pending(state),
        )
        return batch, jnp.minimum(pending, self.max_pending)

    def extend_batch(
        self,
        state: FixedBatchState,
        batch: fixed_set.Batch,
        begin: Array,
        limit: Array,
        beyond: Array | None = None,
    ) -> fixed_set.Batch:
        """The batch with the picks of one working set, as `fixed_set.extend`."""
        return fixed_set.extend(
            state.domain,
            state.sketch,
            self.kernel,
            self.regularization,
            self.confidence_width(state),
            batch,
            begin,
            limit,
            self.repeat,
            beyond,
        )

    def ask(self, state: FixedBatchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        limit = jnp.clip(queries.limited(limit), 1, self.batch)
        left = self.remaining(state)
        if left is not None:
            limit = jnp.minimum(limit, left)
        start, begin = self.start_batch(state)
        batch = lax.while_loop(
            lambda b: b.size < limit,
            lambda b: self.extend_batch(state, b, begin, limit),
            start,
        )
        slots = jnp.arange(self.batch, dtype=jnp.int32)
        return Query(index=batch.arms[: self.batch], mask=slots < batch.size)

    def tell(
        self, state: FixedBatchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FixedBatchState, Info]:
        """Any part of what was asked for, in any order: slots with a false mask stay pending, a NaN
        is a failure."""
        query, y = queries.feedback(state.domain, query, y)
        sketch = attach(state.sketch, state.domain)
        shard = state.domain.shard
        feedback = counts.absorb(
            sketch.pull_counts, sketch.reward_sums, sketch.variance, query, y, shard
        )
        new, info = sketched.apply_feedback(
            sketch, feedback, query, self.confidence_width(state), key, self
        )
        rows = _rows(state.pending, state.domain, query.index)
        less = -query.mask.astype(state.pending.dtype)
        left = state.pending.at[rows].add(less, mode="drop")
        pending = jnp.where(info.overflow, state.pending, jnp.maximum(left, 0))
        many = shards.total(shard, (state.pending > 0).sum()) > self.max_pending
        # padding is masked: it sets nothing
        tried = state.tried.at[rows].max(query.mask & ~info.overflow, mode="drop")
        new_state = replace(state, sketch=detach(new), pending=pending, tried=tried)
        return new_state, replace(info, truncated=many)

    def grow(self, state: FixedBatchState, capacity: int) -> FixedBatchState:
        """The same state with room for `capacity` inducing points."""
        return replace(state, sketch=room.grow(state.sketch, capacity))
