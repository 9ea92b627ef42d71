"""BBKB: BKB in adaptive batches, within which the dictionary and the feedback are frozen.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Near-linear time Gaussian process optimization
with adaptive batching and resparsification. ICML 2020, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.batches import adaptive_batch
from jsketch.bandits.core import sketched, widths
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.struct import in_dtype
from jsketch.types import Arms, Data, Info, PRNGKey, Query
from jsketch.warn import warn


@struct.dataclass
class BBKB(SketchedBandit):
    """BBKB over finite arms. A round is a batch and one refresh of the posterior.

    Example:

        bandit = BBKB(kernels.Gaussian(1.0), noise_std=0.1, ratio=2.0)
        run(bandit, problem, jax.random.key(0), 100).trace.batch_size  # [100]
    """

    width: widths.Width = widths.bbkb_code
    # C >= 1, the factor by which a variance may shrink within a batch; with 1 a batch is one pull
    ratio: ArrayLike = 2.0
    # arms [n] of the first batch, chosen before any observation (see `bandits.initial`); with None
    # the first batch is one random arm
    initial: Any = None
    # the rule that ends a batch: "global" is Lemma 1; with "global_local" a batch that Lemma 1
    # would end continues until Lemma 3 ends it
    rule: str = struct.field(pytree_node=False, default="global")
    # the covariance in the sum of Lemma 3: "full" is k~, as in the paper and the authors' code;
    # "guaranteed" takes the larger of the sums for k~ and for its embedded part e. A theorem covers
    # the local rule only with "guaranteed" (THEORY 5.4)
    local_statistic: str = struct.field(pytree_node=False, default="full")
    # False: the local bound is first checked one pick after the global bound exceeds C, as in the
    # authors' code (THEORY 5.5)
    strict: bool = struct.field(pytree_node=False, default=True)
    # False: every pick updates the scores of all arms, with O(A M) memory
    lazy: bool = struct.field(pytree_node=False, default=True)
    # B; a batch that has B picks before its rule ends it is flagged `truncated`
    max_batch: int = struct.field(pytree_node=False, default=10_000)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "rule": ("global", "global_local"),
        "local_statistic": ("full", "guaranteed"),
    }

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> SketchState:
        """The state of `SketchedBandit.init`. Warns if the width has no guarantee with the rule."""
        is_unproved = (self.rule, self.local_statistic) == ("global_local", "full")
        if is_unproved and self.width in widths.CERTIFIED:
            warn(
                'with rule="global_local" a certified width is proved for local_statistic='
                '"guaranteed" only (THEORY 5.4).'
            )
        state = super().init(domain, key, data=data)
        # the arms of a query and their rewards
        checks.memory(2 * self.max_batch, state.mean.dtype, max_batch=self.max_batch)
        if self.initial is None:
            return state
        checks.arm_numbers(state.domain, initial=self.initial)
        if not 1 <= len(self.initial) <= self.max_batch:
            raise ValueError(
                f"initial must have between 1 and max_batch = {self.max_batch} arms;"
                f" {len(self.initial)} were given."
            )
        return replace(state, first_arm=jnp.asarray(self.initial, jnp.int32)[0])

    def confidence_width(self, state: SketchState) -> Array:
        """The confidence width [] (alpha~_fb of the paper), constant within a batch."""
        return widths.confidence_width(self, state.evidence, self.ratio)

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        limit = checks.evaluation_limit(limit)
        width = self.confidence_width(state)
        batch = adaptive_batch.fill(state, self, width, jnp.clip(limit, 1, self.max_batch))
        arms, size = batch.arms[: self.max_batch], batch.size
        # a batch that `limit` ends is not truncated, and neither are single picks (B = 1)
        is_full = (size >= self.max_batch) & (limit > self.max_batch)
        ratio = in_dtype(self.ratio, width.dtype)
        truncated = is_full & ~adaptive_batch.stop_global(batch.bound, ratio)
        if self.initial is not None:
            initial = jnp.asarray(self.initial, jnp.int32)
            # if all evaluations of `initial` fail, `tell` changes `first_arm`, and the batches up
            # to the first observation are single arms
            is_initial = (state.evidence.count == 0) & (state.first_arm == initial[0])
            padded = jnp.pad(initial, (0, self.max_batch - initial.shape[0]))
            arms = jnp.where(is_initial, padded, arms)
            size = jnp.where(is_initial, jnp.clip(limit, 1, initial.shape[0]), size)
            truncated = truncated & ~is_initial
        mask = jnp.arange(self.max_batch, dtype=jnp.int32) < size
        return Query(index=arms, mask=mask, truncated=truncated if self.max_batch > 1 else None)

    def tell(  # type: ignore[override]
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        new, info = super().tell(state, query, y, key)
        if self.initial is not None:
            # before the first observation all variances are those of the prior, and the sum of
            # log(1 + variance) over many arms may exceed their information by far
            is_first = (state.evidence.count == 0) & ~info.overflow
            bounded = sketched.with_upper_information(new, self.regularization)
            new = sketched.select_state(is_first, bounded, new)
        return new, info
