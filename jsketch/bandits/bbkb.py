"""BBKB: BKB in adaptive batches, dictionary and feedback frozen within each, near-linear time.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Near-linear time Gaussian process optimization
with adaptive batching and resparsification. ICML 2020, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.batches import adaptive_batch
from jsketch.bandits.core import counts, room, sketched, warm_start, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query

RULES = ("global", "global_local")
STATISTICS = ("full", "guaranteed")


@struct.dataclass
@one_dtype
class BBKB:
    """BBKB over finite arms; a batch and one refresh a round."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability; the papers use 1/T
    qbar: ArrayLike = 2.0  # oversampling; `dictionary.qbar_theory` for the guarantee
    # C >= 1, by which a variance may shrink within a batch; 1 is one evaluation a batch
    ratio: ArrayLike = 2.0
    # arms [n] of the first batch, pulled before anything is known; None is one uniform arm (see
    # `initial`)
    initial: Any = None
    width: widths.Width = widths.bbkb_code
    # Lemma 1, or "global_local": Lemma 3 after it
    rule: str = struct.field(pytree_node=False, default="global")
    # the covariance of the local bound: "full" k~ as in paper and code, "guaranteed" the larger of
    # both (THEORY 5.4)
    local_statistic: str = struct.field(pytree_node=False, default="full")
    # False: as the authors' code, which checks the local bound one pick after the global one is
    # exceeded (THEORY 5.5)
    strict: bool = struct.field(pytree_node=False, default=True)
    # False: full rank-one sweeps, O(A M) memory
    lazy: bool = struct.field(pytree_node=False, default=True)
    # B; a batch that fills it is flagged `truncated`
    max_batch: int = struct.field(pytree_node=False, default=10_000)
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it

    def init(
        self,
        domain: Arms,
        key: PRNGKey,
        *,
        pull_counts: Any = None,
        reward_sums: Any = None,
        dictionary: Any = None,
    ) -> SketchState:
        """As `BKB.init`; also raises ValueError for ratio < 1, an unknown rule or max_batch < 1."""
        checks.confidence(self)
        domain = checks.arms(domain)
        checks.positive(qbar=self.qbar)
        checks.at_least_one(ratio=self.ratio)
        room.check_bandit(self)
        checks.capacity(max_batch=self.max_batch)
        if self.initial is not None:
            checks.arm_numbers(domain, initial=self.initial)
            if not 1 <= len(self.initial) <= self.max_batch:
                raise ValueError(
                    f"initial must hold between 1 and max_batch = {self.max_batch} arms; it holds"
                    f" {len(self.initial)}."
                )
        checks.choice(RULES, rule=self.rule)
        checks.choice(STATISTICS, local_statistic=self.local_statistic)
        checks.truth(strict=self.strict, lazy=self.lazy)
        checks.model(domain, self.kernel, self.regularization)
        room.check_room(domain, self.capacity)
        checks.room(4 * self.max_batch, domain.features.dtype, max_batch=self.max_batch)
        known = warm_start.checked(self, domain, key, pull_counts, reward_sums, dictionary)
        state = sketched.start(domain, self.kernel, self.regularization, self.capacity, key, known)
        if self.initial is None:
            return state
        return replace(state, first_arm=jnp.asarray(self.initial, jnp.int32)[0])

    def confidence_width(self, state: SketchState) -> Array:
        """alpha~_fb, []."""
        return self.width(state.evidence, widths.assumptions(self, self.ratio))

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms at the start of a batch, [A]."""
        return state.mean + self.confidence_width(state) * jnp.sqrt(state.variance)

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        rule = adaptive_batch.Rule(
            ratio=self.ratio,
            local=self.rule == "global_local",
            strict=self.strict,
            guaranteed=self.local_statistic == "guaranteed",
            lazy=self.lazy,
        )
        limit = queries.limited(limit)
        batch = adaptive_batch.fill(
            state,
            self.kernel,
            self.regularization,
            self.confidence_width(state),
            rule,
            jnp.clip(limit, 1, self.max_batch),
            self.max_batch,
        )
        arms, size = batch.arms[: self.max_batch], batch.size
        truncated = (
            (size >= self.max_batch) & (batch.bound <= self.ratio) & (limit > self.max_batch)
        )
        if self.initial is not None:
            first = jnp.asarray(self.initial, jnp.int32)
            # another first arm says that the design failed as a whole: single arms follow
            begins = (state.evidence.count == 0) & (state.first_arm == first[0])
            arms = jnp.where(begins, jnp.pad(first, (0, self.max_batch - first.shape[0])), arms)
            size = jnp.where(begins, jnp.clip(limit, 1, first.shape[0]), size)
            truncated = truncated & ~begins
        mask = jnp.arange(self.max_batch, dtype=jnp.int32) < size
        return Query(index=arms, mask=mask, truncated=truncated if self.max_batch > 1 else None)

    def tell(
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        query, y = queries.feedback(state.domain, query, y)
        feedback = counts.absorb(
            state.pull_counts, state.reward_sums, state.variance, query, y, state.domain.shard
        )
        new, info = sketched.apply_feedback(
            state, feedback, query, self.confidence_width(state), key, self
        )
        if self.initial is not None:
            # a design is no batch: the sum of log(1 + variance) over it, all at the prior's
            # variance, means nothing
            begins = (state.evidence.count == 0) & ~info.overflow
            new = jax.tree.map(
                lambda x, y: jnp.where(begins, x, y),
                sketched.known_from_here(new, self.regularization),
                new,
            )
        return new, replace(info, truncated=queries.truncated(query))

    def grow(self, state: SketchState, capacity: int) -> SketchState:
        """The same state with room for `capacity` inducing points."""
        return room.grow(state, capacity)
