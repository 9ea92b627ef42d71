"""BKB with a discount: an observation that is s rounds old weighs discount^s.

The estimate minimises sum_s discount^(t-s) (y_s - f(x_s))^2 + lam |f|^2 over the rounds s with an
observation, which are those that t counts. It is BKB's posterior at discounted pull counts and
reward sums, so that a state is one of BKB and nothing grows with the rounds.

What the definition rests on: the weighted estimate is that of discounted linear bandits (Russac,
Vernade, Cappe, NeurIPS 2019, D-LinUCB) and of WGP-UCB (Deng, Zhou, Kim, Tewari, Gupta, Shroff,
AISTATS 2022, weighted GP regression; not at hand in full). Both shrink the variance further, with
squared weights; here it is that of the weighted posterior, which is never smaller (THEORY 6.5).
Dictionary and width are BKB's, and no theorem covers their use on a mean that moves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bkb import with_numbers_of
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
@one_dtype
class DiscountedBKB:
    """BKB that forgets at a rate; `discount` 1 is BKB. About 1 / (1 - discount) observations count.

    Widths read the discounted counts, except `bbkb_*`, whose information is that of all rounds.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    # in (0, 1], of all that was observed with each `tell` that observes something (`ask` asks for
    # one arm)
    discount: ArrayLike = 0.99
    width: widths.Width = widths.bkb_code
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
        """As `BKB.init`, but that earlier evaluations may weigh less than one: pull counts [A] are
        sums of weights, such as discount^age, and reward sums are weighted by them; counts that are
        whole weigh as if all were made just now, and dictionary="bless" takes no others. Raises
        ValueError on static mistakes."""
        checks.positive(discount=self.discount)
        checks.fraction(discount=self.discount)
        bandit = with_numbers_of(self)
        if pull_counts is not None:
            domain = checks.arms(domain)
            known = sketched.checked_history(
                bandit, domain, key, pull_counts, reward_sums, dictionary, whole=False
            )
            return bandit.init(domain, key, pull_counts=known)
        return bandit.init(domain, key, reward_sums=reward_sums, dictionary=dictionary)

    def confidence_width(self, state: SketchState) -> Array:
        """[], BKB's at the discounted counts."""
        return with_numbers_of(self).confidence_width(state)

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return with_numbers_of(self).scores(state)

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return with_numbers_of(self).ask(state, key, limit)

    def tell(
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        """BKB's, after everything older has been discounted; not where nothing was observed, nor by
        a traced number that is not above 0 and at most 1, which `info.nonfinite` says."""
        query, y = queries.feedback(state.domain, query, y)
        observed = counts.usable(query, y).any()
        gamma = jnp.asarray(self.discount, y.dtype)
        # a traced number may be none
        valid = (gamma > 0) & (gamma <= 1)
        factor = jnp.where(observed & valid, gamma, 1)
        older = replace(
            state, pull_counts=factor * state.pull_counts, reward_sums=factor * state.reward_sums
        )
        new, info = with_numbers_of(self).tell(older, query, y, key)
        # a round that is not applied gives `older` back
        kept = replace(
            new,
            pull_counts=jnp.where(info.overflow, state.pull_counts, new.pull_counts),
            reward_sums=jnp.where(info.overflow, state.reward_sums, new.reward_sums),
        )
        return kept, replace(info, nonfinite=info.nonfinite | ~valid)

    def grow(self, state: SketchState, capacity: int) -> SketchState:
        """As `BKB.grow`."""
        return with_numbers_of(self).grow(state, capacity)
