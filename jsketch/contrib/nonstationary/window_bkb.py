"""BKB on a sliding window: the posterior of the last W observations.

What the definition rests on: SW-GP-UCB is GP-UCB on the last W observations (Zhou, Shroff,
No-regret algorithms for time-varying Bayesian optimization, 2021; not at hand in full). Here BKB's
dictionary takes the place of the exact posterior; the choice of W and of the width is the user's,
and no theorem covers them. Starting anew every W rounds (their R-GP-UCB) is `restart=W` of
`contrib.problems.drifting.play`.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.bkb import with_numbers_of
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query, attach, detach


@struct.dataclass
class Window:
    """The last W observations, in a ring."""

    arms: Array  # [W] int32, A in slots that are free
    rewards: Array  # [W]
    slot: Array  # [] int32, of the oldest one, which the next one replaces


@struct.dataclass
class WindowState:
    """BKB's state at the counts and sums of a window."""

    domain: Arms
    sketch: SketchState  # without its domain
    window: Window

    @property
    def capacity(self) -> int:
        return self.sketch.capacity


@struct.dataclass
@one_dtype
class WindowBKB:
    """BKB on its last `window` observations; with as many as there are rounds it is BKB.

    Widths read the window, except `bbkb_*`, whose information is that of all rounds.
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    width: widths.Width = widths.bkb_code
    window: int = struct.field(pytree_node=False, default=100)  # W observations
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> WindowState:
        """The state before the first round. Raises ValueError on static mistakes."""
        checks.capacity(window=self.window)
        sketch = with_numbers_of(self).init(domain, key)
        domain, dtype = sketch.domain, sketch.mean.dtype
        checks.room(2 * self.window, dtype, window=self.window)
        window = Window(
            arms=jnp.full(self.window, domain.count, jnp.int32),
            rewards=jnp.zeros(self.window, dtype),
            slot=jnp.zeros((), jnp.int32),
        )
        return WindowState(domain, detach(sketch), window)

    def confidence_width(self, state: WindowState) -> Array:
        """[], BKB's at the window's counts."""
        return widths.confidence_width(self, state.sketch.evidence)

    def scores(self, state: WindowState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return with_numbers_of(self).scores(attach(state.sketch, state.domain))

    def ask(self, state: WindowState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return with_numbers_of(self).ask(attach(state.sketch, state.domain), key, limit)

    def tell(
        self, state: WindowState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[WindowState, Info]:
        """BKB's on what the window holds then. Raises ValueError for the state of another
        window."""
        kept_window = state.window.arms.shape[0]
        if kept_window != self.window:
            raise ValueError(
                f"the state holds the last {kept_window} observations, and window is {self.window}:"
                " it is chosen at `init`."
            )
        query, y = queries.feedback(state.domain, query, y)
        sketch = attach(state.sketch, state.domain)
        pulls, sums = sketch.pull_counts, sketch.reward_sums
        feedback = counts.absorb(pulls, sums, sketch.variance, query, y)
        window, pulls, sums = slide(state.window, pulls, sums, query, y)
        feedback = feedback._replace(pull_counts=pulls, reward_sums=sums)
        width = self.confidence_width(state)
        new, info = sketched.apply_feedback(sketch, feedback, query, width, key, self)
        kept = jax.tree.map(
            lambda before, after: jnp.where(info.overflow, before, after), state.window, window
        )
        return WindowState(state.domain, detach(new), kept), info

    def grow(self, state: WindowState, capacity: int) -> WindowState:
        """The same state with room for `capacity` inducing points."""
        return replace(state, sketch=sketched.grow(state.sketch, capacity))


def slide(
    window: Window, pull_counts: Array, reward_sums: Array, query: Query, y: Array
) -> tuple[Window, Array, Array]:
    """(window, pull_counts [A], reward_sums [A]) after the rewards y [B] of a query; what was not
    observed replaces nothing. O(W) an observation."""
    observed = counts.usable(query, y)

    def one(i: Array, carry: tuple[Window, Array, Array]) -> tuple[Window, Array, Array]:
        window, pulls, sums = carry
        slot, leaving = window.slot, window.arms[window.slot]
        arms = window.arms.at[slot].set(jnp.where(observed[i], query.index[i], leaving))
        reward = jnp.where(observed[i], y[i], window.rewards[slot])
        rewards = window.rewards.at[slot].set(reward)
        # both sums are made anew: taking a reward out of a sum would leave its rounding behind
        for arm in (leaving, query.index[i]):
            same = arms == arm
            pulls = pulls.at[arm].set(same.sum(dtype=pulls.dtype), mode="drop")
            sums = sums.at[arm].set(jnp.where(same, rewards, 0).sum(), mode="drop")
        slot = (slot + observed[i].astype(jnp.int32)) % arms.shape[0]
        return Window(arms, rewards, slot), pulls, sums

    return counts.over_slots(one, (window, pull_counts, reward_sums), query)
