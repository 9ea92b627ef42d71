"""FixedBKB: batches of a fixed size, such as the 96 wells of a laboratory plate, and evaluations
that are still pending when the next batch is chosen.

The posterior is BKB's. Every pick of a batch and every pending evaluation is hallucinated: it
lowers variances and does not change means (Desautels, Krause, Burdick. Parallelizing
exploration-exploitation tradeoffs in Gaussian process bandit optimization. JMLR 2014). The
mathematics is `core.conditioned`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import SketchedBandit, SketchedEvidence, SomeState, State
from jsketch.core import conditioned, history, low_rank, widths
from jsketch.numerics import positions, take
from jsketch.types import Arms, Data, Info, PRNGKey, Query, is_traced


@struct.dataclass
class FixedBatchState(State):
    """BBKB's state, and the pending evaluations."""

    pending: Array  # [A], number of pending evaluations of each arm
    tried: Array  # [A] bool, whether an arm was evaluated, failed evaluations included


@struct.dataclass
class FixedBKB(SketchedBandit):
    """BKB in batches of a fixed size. No bound on the variance ratio ends a batch; `ratio` only
    scales the width. The first pick of a run is a random arm.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary      how the dictionary changes after a batch: `Extend(slack)`, or `Draw()` as in the
                    papers
    width           the confidence width, one of `bandits.widths`
    capacity        M, the largest number of inducing points. None: `init` makes 64 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    ratio           C of the width
    batch           B, the evaluations in a batch
    max_pending     P, the largest number of distinct arms that are pending at an `ask`
    repeat          False: no arm is evaluated twice, even if its evaluation failed; when too few
                    arms remain, batches are shorter or empty

    Example:

        arms = Arms(features)
        bandit = FixedBKB(kernels.Gaussian(1.0), noise_std=0.1, batch=8, repeat=False)
        state = bandit.init(arms, jax.random.key(0))
        bandit.ask(state, arms, jax.random.key(1)).index  # [8]
    """

    width: widths.Width = widths.bbkb_code
    ratio: ArrayLike = struct.number(1.0, at_least=1)
    batch: int = struct.size(96)
    max_pending: int = struct.size(0, at_least=0)
    repeat: bool = struct.choice(True)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> FixedBatchState:
        """The state of `SketchedBandit.init`, in which the arms `data.failed` are tried as well."""
        state: Any = super().init(arms, key, data=data)
        slots, dtype = self.batch + self.max_pending, state.counts.dtype
        floats = 2 * slots * (slots + 2 * self.initial_slots)
        checks.memory(floats, dtype, batch=self.batch, max_pending=self.max_pending)
        tried = state.counts > 0
        if data is not None and data.failed is not None:
            checks.arm_numbers(arms, failed=data.failed)
            tried = tried.at[checks.mark_invalid_arms(arms, data.failed)].set(True, mode="drop")
        return replace(state, tried=tried)

    def _prior(self, arms: Arms) -> FixedBatchState:
        prior = super()._prior(arms)
        pending = arms.on_devices(jnp.zeros_like(prior.counts))
        tried = arms.on_devices(jnp.zeros_like(prior.inducing))
        return FixedBatchState(**vars(prior), pending=pending, tried=tried)

    def with_gram(self, state: SomeState, arms: Arms) -> SomeState:
        """`SketchedBandit.with_gram`, if batches are small enough for low-rank updates."""
        return super().with_gram(state, arms) if self.batch <= low_rank.MOST else state

    def confidence_width(self, state: State, arms: Arms) -> Array:
        """The width [] of a batch."""
        return widths.confidence_width(self, SketchedEvidence(self, state, arms), self.ratio)

    def candidates(self, state: FixedBatchState, arms: Arms) -> Array:
        """Which arms may be picked in the next batch, [A] bool."""
        candidates = arms.candidates
        return candidates if self.repeat else candidates & ~state.tried & (state.pending == 0)

    def remaining(self, state: FixedBatchState, arms: Arms) -> Array | None:
        """The number [] int32 of arms that may still be evaluated; None if arms may be repeated."""
        return None if self.repeat else self.candidates(state, arms).sum(dtype=jnp.int32)

    def pend(self, state: FixedBatchState, arms: Arms, query: Query) -> FixedBatchState:
        """The state in which the evaluations of the query are pending: they are hallucinated until
        `tell` observes them.

        Raises ValueError when more than `max_pending` distinct arms would be pending, and for an
        arm that does not exist. If traced, `ask` returns an empty query as long as too many arms
        are pending, because a batch that ignores some of them may evaluate the same arms again.
        """
        query = checks.arm_query(arms, query)
        exists = query.mask & (query.index < arms.count)
        place = jnp.where(exists, query.index, len(state.pending))
        pending = state.pending.at[place].add(1, mode="drop")
        if not is_traced(pending) and int((pending > 0).sum()) > self.max_pending:
            raise ValueError(
                f"{int((pending > 0).sum())} distinct arms would be pending, max_pending is"
                f" {self.max_pending}: raise it."
            )
        return replace(state, pending=pending)

    def ask(
        self, state: FixedBatchState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        """The next batch, of at most `limit` picks."""
        candidates = self.candidates(state, arms)
        # before the first observation all scores tie, and a random candidate is picked
        is_first = (state.counts.sum() == 0) & (state.pending.sum() == 0)
        number = history.random_arm(arms, key) % jnp.maximum(candidates.sum(dtype=jnp.int32), 1)
        random = positions(candidates, 1, number)[0]
        batch = self.start_batch(state, arms, jnp.where(is_first, random, len(candidates)))
        most = history.limit_of(limit, self.batch)
        most = jnp.where(batch.n_pending > self.max_pending, 0, most)
        batch = self.add_picks(state, arms, batch, most)
        slots = jnp.arange(self.batch, dtype=jnp.int32)
        return Query(index=batch.arms[: self.batch], mask=slots < jnp.minimum(batch.size, most))

    def start_batch(
        self, state: FixedBatchState, arms: Arms, first: Array
    ) -> conditioned.FixedBatch:
        """The batch without picks, given the pending evaluations; or with the one pick `first` []
        int32 if this is the number of an arm, and no evaluation is pending."""
        x, p = arms.features, state.posterior
        n_arms, n_slots = len(x), self.batch + self.max_pending + conditioned.ROWS_TOGETHER
        is_first = jnp.arange(n_arms, dtype=jnp.int32) == first
        counts = state.pending + is_first.astype(state.pending.dtype)
        index = positions(counts > 0, max(self.max_pending, 1))
        valid = index < n_arms
        index = jnp.where(valid, index, 0)
        pulls = conditioned.no_pulls(p, n_slots)
        arguments = p, self.kernel, self.regularization, pulls
        points = conditioned.condition(*arguments, take(x, index), take(p.variance, index))
        candidates = self.candidates(state, arms)
        if not self.repeat:
            candidates = candidates & ~is_first
        return conditioned.FixedBatch(
            arms=jnp.zeros(self.batch + conditioned.ROWS_TOGETHER, jnp.int32)
            .at[0]
            .set(first % n_arms),
            size=is_first.sum(dtype=jnp.int32),
            scores=jnp.where(candidates, self.scores(state, arms), -jnp.inf),
            pulls=conditioned.append(pulls, 0, points, take(counts, index), valid),
            n_pending=(state.pending > 0).sum(dtype=jnp.int32),
        )

    def add_picks(
        self,
        state: FixedBatchState,
        arms: Arms,
        batch: conditioned.FixedBatch,
        limit: Array,
        outside: ArrayLike = -jnp.inf,
    ) -> conditioned.FixedBatch:
        """The batch after picks until it has `limit` [] of them (`conditioned.fill_batch`)."""
        return conditioned.fill_batch(
            state.posterior,
            self.kernel,
            self.regularization,
            arms.features,
            self.confidence_width(state, arms),
            batch,
            limit,
            repeat=self.repeat,
            outside=outside,
        )

    def observe(  # type: ignore[override]
        self, state: FixedBatchState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[FixedBatchState, Info]:
        """(state, info) after the rewards of any part of the pending evaluations, in any order.
        Slots with a false mask stay pending, and a reward of NaN is a failed evaluation."""
        new, info = super().observe(state, arms, query, y, key)
        place = jnp.where(query.mask, query.index, len(state.pending))
        pending = jnp.maximum(state.pending.at[place].add(-1, mode="drop"), 0)
        tried = state.tried.at[place].set(True, mode="drop")
        return replace(new, pending=pending, tried=tried), info
