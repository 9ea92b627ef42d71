"""BKB for mean rewards that change: old observations are discounted or dropped.

The literature defines discounts and windows for exact Gaussian processes. Here they apply to BKB's
sketch. No theorem covers BKB's dictionary and width for a mean that changes (THEORY 6.5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bbkb import REBUILD, State
from jsketch.bandits.bkb import BKB
from jsketch.core.dictionary import Draw, Rule
from jsketch.types import Arms, Data, Info, PRNGKey, Query


@struct.dataclass
class DiscountedBKB(BKB):
    """BKB in which an observation that is n rounds old has the weight discount^n.

    The mean minimises sum_s discount^(t-s) (y_s - f(x_s))^2 + lam |f|^2 over the t rounds with an
    observation. This is BKB's mean with discounted counts and sums; the state does not grow. The
    weights of all observations add up to at most 1 / (1 - discount). Widths depend on the
    discounted counts, except `bbkb_*`, which depend on the information gained in all rounds.

    WGP-UCB (Deng, Zhou, Kim, Tewari, Gupta, Shroff, AISTATS 2022) has the same mean, and a smaller
    variance with squared weights. Here the variance is that of the weighted posterior (THEORY 6.5).

    The counts and sums of earlier evaluations may have weights such as discount^age, except for
    dictionary="bless".

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
    discount        the factor of all earlier weights in each `tell` with an observation; 1 is BKB.
                    A traced discount outside (0, 1] makes the state NaN
    """

    discount: ArrayLike = struct.number(0.99, above=0, at_most=1)
    whole_counts: ClassVar[bool] = False  # discounted counts are fractions

    def with_gram(self, state: Any, arms: Arms) -> Any:
        """The state itself, because every round computes the posterior from scratch."""
        return state

    def observe(
        self, state: Any, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[Any, Info]:
        """`BKB.observe` of the discounted state. A round without an observation discounts
        nothing."""
        observed = (query.mask & jnp.isfinite(y)).any()
        is_valid = (jnp.asarray(self.discount) > 0) & (jnp.asarray(self.discount) <= 1)
        factor = jnp.where(observed, jnp.where(is_valid, self.discount, jnp.nan), 1)
        discounted = replace(
            state,
            counts=factor * state.counts,
            sums=factor * state.sums,
            # the posterior is that of the weights before the discount
            due=jnp.asarray(REBUILD, jnp.int32),
        )
        return super().observe(discounted, arms, query, y, key)


@struct.dataclass
class WindowState(State):
    """BKB's state given the observations of a window, a ring buffer."""

    window_arms: Array  # [W] int32; A, the number of all arms, in free slots
    window_rewards: Array  # [W]
    slot: Array  # [] int32, the slot of the oldest observation


@struct.dataclass
class WindowBKB(BKB):
    """BKB on the last `window` observations: SW-GP-UCB (Zhou, Shroff, No-regret algorithms for
    time-varying Bayesian optimization, 2021) on BKB's sketch.

    Widths depend on the observations in the window, except `bbkb_*`, which depend on the
    information gained in all rounds. R-GP-UCB of the same paper, which restarts every W rounds, is
    `restart=W` of `contrib.problems.play`.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary      an extended dictionary becomes inaccurate when observations leave the window
    width           the confidence width, one of `bandits.widths`
    capacity        M, the largest number of inducing points. None: `init` makes 64 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given
    window          W observations
    """

    dictionary: Rule = Draw()
    window: int = struct.size(100)

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> WindowState:
        checks.no_evaluations(self, data)
        if not isinstance(self.dictionary, Draw):
            raise ValueError(
                "WindowBKB draws its dictionary after every batch (dictionary=Draw()): an extended"
                " dictionary is not accurate after observations have left the window."
            )
        start = super().init(arms, key)
        dtype = start.sums.dtype
        checks.memory(2 * self.window, dtype, window=self.window)
        return WindowState(
            **vars(start),
            window_arms=jnp.full(self.window, len(start.counts), jnp.int32),
            window_rewards=jnp.zeros(self.window, dtype),
            slot=jnp.zeros((), jnp.int32),
        )

    def observe(
        self, state: Any, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[Any, Info]:
        """`BKB.observe`, with the counts and sums of the new window."""
        new, info = super().observe(state, arms, query, y, key)
        window = len(state.window_arms)
        observed = query.mask & jnp.isfinite(y)
        number = jnp.cumsum(observed, dtype=jnp.int32)
        # of more than W observations only the last W are written; place W is dropped
        is_kept = observed & (number > number[-1] - window)
        place = jnp.where(is_kept, (state.slot + number - 1) % window, window)
        window_arms = state.window_arms.at[place].set(query.index, mode="drop")
        rewards = state.window_rewards.at[place].set(y, mode="drop")
        # The sums are computed anew, because the subtraction of a reward leaves a rounding error.
        # The arm A of a free slot is dropped
        zeros = jnp.zeros_like(state.counts)
        return replace(
            new,
            counts=zeros.at[window_arms].add(1, mode="drop"),
            sums=zeros.at[window_arms].add(rewards, mode="drop"),
            window_arms=window_arms,
            window_rewards=rewards,
            slot=(state.slot + number[-1]) % window,
        ), info
