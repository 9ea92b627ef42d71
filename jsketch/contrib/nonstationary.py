"""BKB for mean rewards that change: old observations are discounted or dropped.

The literature defines discounts and windows for exact Gaussian processes. Here they apply to BKB's
sketch. No theorem covers BKB's dictionary and width for a mean that changes (THEORY 6.5).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bkb import BKB
from jsketch.bandits.core import counts, sketched
from jsketch.bandits.core.sketched import SketchState
from jsketch.contrib import discounting
from jsketch.types import Arms, Data, Info, PRNGKey, Query


@struct.dataclass
class DiscountedBKB(BKB):
    """BKB in which an observation that is n rounds old has the weight discount^n.

    The mean minimises sum_s discount^(t-s) (y_s - f(x_s))^2 + lam |f|^2 over the t rounds with an
    observation. This is BKB's mean with discounted pull counts and reward sums; the state does not
    grow. The weights of all observations add up to at most 1 / (1 - discount). Widths depend on the
    discounted counts, except `bbkb_*`, which depend on the information gained in all rounds.

    WGP-UCB (Deng, Zhou, Kim, Tewari, Gupta, Shroff, AISTATS 2022) has the same mean, and a smaller
    variance with squared weights. Here the variance is that of the weighted posterior (THEORY 6.5).
    """

    # in (0, 1], the factor of all earlier weights in each `tell` with an observation; 1 is BKB
    discount: ArrayLike = 0.99
    whole_counts: ClassVar[bool] = False  # discounted pull counts are fractions
    incremental: ClassVar[bool] = False  # each round changes the weight of every observation

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> SketchState:
        """The state of `BKB.init`. Pull counts and reward sums in `data` may have weights such as
        discount^age, except for dictionary="bless"."""
        discounting.check_discount(self.discount)
        return super().init(domain, key, data=data)

    def tell(  # type: ignore[override]
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        """(state, info) after BKB's update of the discounted state. A round without an observation
        discounts nothing. A traced discount outside (0, 1] sets `info.nonfinite` and is ignored."""
        query, y = checks.feedback(state.domain, query, y)
        observed = (query.mask & jnp.isfinite(y)).any()
        discount = jnp.asarray(self.discount, y.dtype)
        is_valid = (discount > 0) & (discount <= 1)
        factor = jnp.where(observed & is_valid, discount, 1)
        discounted = replace(
            state, pull_counts=factor * state.pull_counts, reward_sums=factor * state.reward_sums
        )
        new, info = super().tell(discounted, query, y, key)
        # on overflow `super().tell` returns the discounted state
        new = sketched.select_state(info.overflow, state, new)
        return new, replace(info, nonfinite=info.nonfinite | ~is_valid)


@struct.dataclass
class Window:
    """A ring buffer of the last W observations."""

    arms: Array  # [W] int32; A, the number of all arms, in free slots
    rewards: Array  # [W]
    slot: Array  # [] int32, the slot of the oldest observation


@struct.dataclass
class WindowState(SketchState):
    """BKB's state given the observations of a window."""

    window: Window


@struct.dataclass
class WindowBKB(BKB):
    """BKB on the last `window` observations: SW-GP-UCB (Zhou, Shroff, No-regret algorithms for
    time-varying Bayesian optimization, 2021) on BKB's sketch.

    Widths depend on the observations in the window, except `bbkb_*`, which depend on the
    information gained in all rounds. R-GP-UCB of the same paper, which restarts every W rounds, is
    `restart=W` of `contrib.problems.play`.
    """

    # an extended dictionary becomes inaccurate when observations leave the window
    resparsify: ArrayLike | None = sketched.EVERY_BATCH
    window: int = struct.field(pytree_node=False, default=100)  # W observations

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: Data = None
    ) -> WindowState:
        checks.no_evaluations(self, data)
        checks.settings(self)
        if self.resparsify is not None:
            raise ValueError(
                "WindowBKB draws its dictionary after every batch (resparsify=EVERY_BATCH): an"
                " extended dictionary is not accurate after observations have left the window."
            )
        start = super().init(domain, key)
        dtype = start.mean.dtype
        checks.memory(2 * self.window, dtype, window=self.window)
        arms = jnp.full(self.window, start.domain.count, jnp.int32)
        window = Window(arms, jnp.zeros(self.window, dtype), jnp.zeros((), jnp.int32))
        return WindowState(**vars(start), window=window)

    def tell(  # type: ignore[override]
        self, state: WindowState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[WindowState, Info]:
        """(state, info) after BKB's update given the new window. Raises ValueError for a state of
        another window length."""
        length = state.window.arms.shape[0]
        if length != self.window:
            raise ValueError(
                f"the state has a window of {length} observations, and the bandit has window ="
                f" {self.window}: call the bandit's `init`."
            )
        query, y = checks.feedback(state.domain, query, y)
        pulls, sums = state.pull_counts, state.reward_sums
        feedback = counts.add_rewards(pulls, sums, state.variance, query, y)
        window, pulls, sums = slide_window(state.window, pulls, sums, query, y)
        feedback = feedback._replace(pull_counts=pulls, reward_sums=sums)
        width = self.confidence_width(state)
        new, info = sketched.apply_feedback(state, feedback, query, width, key, self)
        window = jax.tree.map(partial(jnp.where, info.overflow), state.window, window)
        return replace(new, window=window), info


def slide_window(
    window: Window, pull_counts: Array, reward_sums: Array, query: Query, y: Array
) -> tuple[Window, Array, Array]:
    """(window, pull_counts [A], reward_sums [A]) after the rewards y [B] of a query; slots without
    an observation are ignored. An observation costs O(W)."""
    observed = query.mask & jnp.isfinite(y)

    def observe(i: Array, carry: tuple[Window, Array, Array]) -> tuple[Window, Array, Array]:
        window, pulls, sums = carry
        slot, leaving_arm = window.slot, window.arms[window.slot]
        arms = window.arms.at[slot].set(jnp.where(observed[i], query.index[i], leaving_arm))
        reward = jnp.where(observed[i], y[i], window.rewards[slot])
        rewards = window.rewards.at[slot].set(reward)
        # the sums are recomputed, because the subtraction of a reward leaves a rounding error;
        # mode="drop" ignores the arm A of a free slot
        for arm in (leaving_arm, query.index[i]):
            is_arm = arms == arm
            pulls = pulls.at[arm].set(is_arm.sum(dtype=pulls.dtype), mode="drop")
            sums = sums.at[arm].set(jnp.where(is_arm, rewards, 0).sum(), mode="drop")
        slot = (slot + observed[i].astype(jnp.int32)) % arms.shape[0]
        return Window(arms, rewards, slot), pulls, sums

    return counts.scan_slots(observe, (window, pull_counts, reward_sums), query)
