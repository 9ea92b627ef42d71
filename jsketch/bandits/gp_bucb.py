"""GP-BUCB: exact GP-UCB in adaptive batches. Within a batch the mean is frozen, and hallucinated
pulls lower the variances.

Desautels, Krause, Burdick (2014), in the adaptive form of BBKB's Algorithm 2 (the product rule).
The sum rule is BBKB's Lemma 1 on the same exact posterior. The sum never exceeds the product;
the sum rule therefore gives batches that are at least as long (THEORY 5.6).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.exact import ExactBandit, ExactState
from jsketch.core import history
from jsketch.core.widths import ucb
from jsketch.numerics import put
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.types import Arms, PRNGKey, Query


class _Batch(NamedTuple):
    arms: Array  # [B] int32
    size: Array  # [] int32
    posterior: Exact  # given the hallucinated picks
    bound: Array  # [], upper bound of the variance ratio; the batch ends when it exceeds C


@struct.dataclass
class GPBUCB(ExactBandit):
    """Exact GP-UCB in adaptive batches over finite arms. A pick costs O(A (capacity + D)).

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    capacity        N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    ratio           C >= 1, the factor by which a variance may shrink within a batch; 1 is GP-UCB
    rule            the rule that ends a batch; "sum" is Lemma 1 of BBKB
    max_batch       B, the largest number of picks of a batch
    new_arms        D, the largest number of new arms in a batch
    """

    ratio: ArrayLike = struct.number(2.0, at_least=1)
    rule: str = struct.choice("product", of=("product", "sum"))
    max_batch: int = struct.size(10_000)
    new_arms: int = struct.size(64)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        state = super().init(arms, key, data=data)
        n_rows, dtype = state.capacity + self.new_arms, state.count.dtype
        floats = exact.floats(arms.count, n_rows)
        checks.memory(floats, dtype, capacity=state.capacity, new_arms=self.new_arms)
        checks.memory(self.max_batch, dtype, max_batch=self.max_batch)
        return state

    def confidence_width(self, state: ExactState, arms: Arms) -> Array:
        """The confidence width [], sqrt(C) beta_fb; the factor sqrt(C) accounts for the variances
        that shrink within a batch (THEORY 4.3)."""
        return jnp.sqrt(self.ratio) * super().confidence_width(state, arms)

    def ask(
        self, state: ExactState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        width, variance = self.confidence_width(state, arms), state.posterior.variance
        is_first = state.count == 0
        limit = jnp.where(is_first, 1, history.limit_of(limit, self.max_batch))
        model = self.kernel, arms.features, self.regularization

        def pick(batch: _Batch) -> _Batch:
            now = batch.posterior
            scores = arms.of_candidates(ucb(now.mean, now.variance, width))
            best = jnp.argmax(scores).astype(jnp.int32)
            arm = history.first_or(is_first, best, arms, key)
            product = (1 + now.variance[arm]) * batch.bound
            return _Batch(
                arms=put(batch.arms, batch.size, arm),
                size=batch.size + 1,
                posterior=exact.hallucinate(now, *model, arm),
                bound=product if self.rule == "product" else batch.bound + variance[arm],
            )

        def continues(batch: _Batch) -> Array:
            fits = batch.posterior.used < state.posterior.used + self.new_arms
            return (batch.size < limit) & (batch.bound <= self.ratio) & fits

        start = _Batch(
            arms=jnp.zeros(self.max_batch, jnp.int32),
            size=jnp.zeros((), jnp.int32),
            posterior=exact.grow(state.posterior, state.capacity + self.new_arms),
            bound=jnp.ones_like(state.count),
        )
        batch = lax.while_loop(continues, pick, start)
        mask = jnp.arange(self.max_batch, dtype=jnp.int32) < batch.size
        return Query(index=batch.arms, mask=mask)
