"""mini-GP-UCB and mini-GP-EI: exact Gaussian processes that evaluate a few arms many times.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Scaling Gaussian process optimization by
evaluating a few unique candidates multiple times. ICML 2022, Algorithm 1. A batch evaluates one arm
(C^2 - 1)/sigma^2(x) times, which divides its standard deviation by C. Few switches between arms
leave few distinct arms in the posterior.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, exact_state
from jsketch.bandits.core.exact_state import ExactBandit, ExactState
from jsketch.bandits.core.widths import ucb
from jsketch.posterior import exact
from jsketch.struct import in_dtype
from jsketch.types import Arms, Info, PRNGKey, Query, is_traced


@struct.dataclass
class MiniGP(ExactBandit):
    """mini-GP-UCB or mini-GP-EI. A batch repeats one arm and costs O(A N) for N pulled arms."""

    # C >= 1: a batch divides the standard deviation of its arm by C; 1 gives batches of one pull
    ratio: ArrayLike = 2.0
    acquisition: str = struct.field(pytree_node=False, default="ucb")  # or "ei"
    # B; a batch that would be longer is cut and flagged `truncated`
    max_batch: int = struct.field(pytree_node=False, default=10_000)
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"acquisition": ("ucb", "ei")}

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        state = super().init(domain, key, data=data)
        checks.memory(2 * self.max_batch, state.count.dtype, max_batch=self.max_batch)
        return state

    def confidence_width(self, state: ExactState) -> Array:
        """C beta_t, [], because a batch divides the standard deviation by C (Lemma 3.2)."""
        beta = super().confidence_width(state)
        return jnp.asarray(in_dtype(self.ratio, beta.dtype) * beta)

    def scores(self, state: ExactState) -> Array:
        """The acquisition [A] of all arms: upper confidence bounds, or expected improvements over
        the best posterior mean of a pulled arm, in which the standard deviation is multiplied by
        the width."""
        posterior, width = state.posterior, self.confidence_width(state)
        if self.acquisition == "ucb":
            return ucb(posterior.mean, posterior.variance, width)
        sd = width * jnp.sqrt(posterior.variance)
        is_used = jnp.arange(state.capacity, dtype=jnp.int32) < posterior.used
        best = jnp.max(jnp.where(is_used, posterior.mean[posterior.pulled], -jnp.inf))
        gain = posterior.mean - best
        is_positive = sd > 0
        # where the standard deviation is 0, the improvement is certain
        z = gain / jnp.where(is_positive, sd, 1)
        improvement = gain * norm.cdf(z) + sd * norm.pdf(z)
        return jnp.where(is_positive, improvement, jnp.maximum(gain, 0))

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        unclipped_limit = checks.evaluation_limit(limit)
        limit = jnp.clip(unclipped_limit, 1, self.max_batch)
        best = jnp.argmax(self.scores(state)).astype(jnp.int32)
        arm = jnp.where(state.count == 0, state.first_arm, best)
        variance = self._resolved_variance(state, arm)
        ratio = in_dtype(self.ratio, variance.dtype)
        repeats = (jnp.square(ratio) - 1) / jnp.where(variance > 0, variance, 1)
        length = jnp.where(variance > 0, jnp.clip(repeats, 1, self.max_batch), 1).astype(jnp.int32)
        slots = jnp.arange(self.max_batch, dtype=jnp.int32)
        is_longer = (variance > 0) & (jnp.floor(repeats) > self.max_batch)
        is_cut = is_longer & (unclipped_limit > self.max_batch)
        return Query(
            index=jnp.full(self.max_batch, arm),
            mask=slots < jnp.minimum(length, limit),
            truncated=is_cut if self.max_batch > 1 else None,
        )

    def _resolved_variance(self, state: ExactState, arm: Array) -> Array:
        """The variance [] of an arm, or half of its least possible value if that is larger. After t
        observations this value is s / (1 + t S), with s the prior variance of the arm and S the
        largest prior variance. Near a pulled arm rounding leaves a variance of 0, with which a
        batch would have only one evaluation, or of 1e-17, with which it would have `max_batch`."""
        arms = state.domain.features
        kernel, lam = in_dtype((self.kernel, self.regularization), arms.dtype)
        prior = kernel.diag(arms) / jnp.asarray(lam, arms.dtype)
        floor = prior[arm] / (1 + state.count * jnp.max(prior)) / 2
        return jnp.maximum(state.posterior.variance[arm], floor)

    def tell(  # type: ignore[override]
        self, state: ExactState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        """(state, info) after the rewards of one arm, which the posterior contains as one
        observation of their mean. Raises ValueError for a second arm."""
        query, y = checks.feedback(state.domain, query, y)
        arm, y = _arm_and_rewards(query, y)
        observed = query.mask & jnp.isfinite(y)
        count = observed.sum(dtype=jnp.int32)
        repeats = jnp.maximum(count, 1).astype(y.dtype)
        average = jnp.where(observed, y, 0).sum() / repeats
        arms = state.domain.features
        kernel, lam = in_dtype((self.kernel, self.regularization), arms.dtype)
        posterior, overflow = exact.observe(
            state.posterior, kernel, arms, arm, average, count > 0, lam, repeats
        )
        width = self.confidence_width(state)
        info = exact_state.exact_round_info(query, y, posterior, overflow, width)
        new = counts.count_observations(state, info, key)
        return replace(new, posterior=posterior), info


def _arm_and_rewards(query: Query, y: Array) -> tuple[Array, Array]:
    """(arm [], rewards [B]) of a query that repeats the arm of its first slot in use.
    Raises ValueError for a second arm. Under tracing, rewards of a second arm become infinite
    instead: they are ignored and set `info.nonfinite`."""
    arm = query.index[jnp.argmax(query.mask & ~jnp.isinf(y))]
    is_second = query.mask & (query.index != arm)
    if not is_traced(is_second) and bool(is_second.any()):
        arms = np.unique(np.asarray(query.index)[np.asarray(query.mask)])
        raise ValueError(
            f"a batch of this algorithm is one arm, repeated; arms {arms.tolist()} were given."
        )
    return arm, jnp.where(is_second, jnp.inf, y)
