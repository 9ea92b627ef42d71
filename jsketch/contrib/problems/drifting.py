"""Arms whose mean rewards change from round to round.

The mean at round t lies between two anchors, f_t = (1 - a) f^(j) + a f^(j+1), with j the integer
part and a the fractional part of t / period. With `abrupt`, a = 0, and the mean jumps. The norm of
f_t is at most the largest norm of the anchors, and the path length sum_t |f_(t+1) - f_t| is
sum_j |f^(j+1) - f^(j)|. Regret is dynamic, that is, relative to the best arm of each round.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.contrib.problems.play import RunRecord, record
from jsketch.problems import rkhs_draw
from jsketch.types import Arms, Bandit, PRNGKey


@struct.dataclass
class DriftingArms:
    """Reward at round t = mean_reward(t)[arm] + noise_std * standard normal.

    arms       [A, d]
    anchors    [K, A], mean rewards; after (K - 1) * period rounds the last one remains
    period     rounds from one anchor to the next
    noise_std  standard deviation of the noise
    abrupt     True: the mean rewards jump at every anchor. False: they change linearly between two
    """

    arms: Arms
    anchors: Array
    period: ArrayLike
    noise_std: ArrayLike
    abrupt: bool = struct.field(pytree_node=False, default=False)

    def mean_reward(self, t: ArrayLike) -> Array:
        """The mean rewards [A] at round t []; the first round is t = 0."""
        last = self.anchors.shape[0] - 1
        t = jnp.asarray(t, self.anchors.dtype)
        position = jnp.clip(t / self.period, 0, last)
        floor = jnp.floor(position)
        # a compiled division may round to below an integer, but products of integers are exact
        floor = jnp.where((floor + 1) * self.period <= t, floor + 1, floor)
        floor = jnp.where(floor * self.period > t, floor - 1, floor)
        floor = jnp.clip(floor, 0, last)
        share = jnp.zeros_like(position) if self.abrupt else jnp.clip(position - floor, 0, 1)
        j = floor.astype(jnp.int32)
        next_j = jnp.minimum(j + 1, last)
        return (1 - share) * self.anchors[j] + share * self.anchors[next_j]

    def checked(self, bandit: Bandit, key: PRNGKey) -> DriftingArms:
        bandit.init(self.arms, key)  # raises ValueError for invalid arms
        return self

    def start(self, bandit: Bandit, key: PRNGKey) -> Any:
        return bandit.init(self.arms, key)

    def advance(self, bandit: Bandit, state: Any, key: PRNGKey, t: Array) -> tuple[Any, RunRecord]:
        ask_key, tell_key, noise_key = jax.random.split(key, 3)
        query = bandit.ask(state, self.arms, ask_key, limit=1)
        # the slots in use come first
        arm, mean = query.index[0], self.mean_reward(t)
        y = mean[arm] + self.noise_std * jax.random.normal(noise_key, (), self.anchors.dtype)
        rewards = jnp.full(query.index.shape, jnp.nan, y.dtype).at[0].set(y)
        state, info = bandit.tell(state, self.arms, query, rewards, tell_key)
        return state, record(
            info,
            action=arm,
            reward=y,
            regret=mean.max() - mean[arm],
            uniform_regret=mean.max() - mean.mean(),
        )


def drifting_draw(
    key: PRNGKey,
    kernel: Any,
    features: Array,
    noise_std: ArrayLike,
    period: ArrayLike,
    anchors: int = 5,
    norm: ArrayLike = 1.0,
    abrupt: bool = False,
) -> DriftingArms:
    """A problem with `anchors` anchors, which `rkhs_draw` draws with the RKHS norm `norm` at the
    features [A,d]. Raises ValueError for invalid arguments."""
    checks.positive_integer(anchors=anchors)
    checks.positive(period=period)
    checks.nonnegative(noise_std=noise_std)
    checks.boolean(abrupt=abrupt)

    keys = jax.random.split(key, anchors)
    draws = [rkhs_draw(key, kernel, features, noise_std, norm=norm) for key in keys]
    means = jnp.stack([draw.mean_reward for draw in draws])
    return DriftingArms(Arms(features), means, period, noise_std, abrupt)
