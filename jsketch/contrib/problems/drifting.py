"""Arms whose mean rewards change from round to round, and a loop over rounds that knows the time.

The mean at round t lies between two anchors, f_t = (1 - a) f^(j) + a f^(j+1), j and a the whole
part and the rest of t / period; `abrupt` has a = 0, so that f^(j) is left all at once. No norm
exceeds the largest of the anchors', and the path sum_t |f_(t+1) - f_t| is sum_j |f^(j+1) - f^(j)|.
Regret is dynamic: against the best arm of each round. The other problems are static, and `rollout`
samples them without the time: hence a loop of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.problems import rkhs_draw
from jsketch.types import Arms, Bandit, PRNGKey, attach, detach


@struct.dataclass
class DriftingArms:
    """Reward at round t = mean_reward(t)[arm] + noise_std * standard normal."""

    arms: Arms  # [A, d]
    anchors: Array  # [K, A], mean rewards; the last one stays
    period: ArrayLike  # rounds from one anchor to the next
    noise_std: ArrayLike
    abrupt: bool = struct.field(pytree_node=False, default=False)

    def mean_reward(self, t: ArrayLike) -> Array:
        """[A] at round t [], 0 the first one."""
        last = self.anchors.shape[0] - 1
        t = jnp.asarray(t, self.anchors.dtype)
        position = jnp.clip(t / self.period, 0, last)
        whole = jnp.floor(position)
        # compiled divisions may end just below a whole number: products of whole numbers do not
        whole = jnp.where((whole + 1) * self.period <= t, whole + 1, whole)
        whole = jnp.where(whole * self.period > t, whole - 1, whole)
        whole = jnp.clip(whole, 0, last)
        share = jnp.zeros_like(position) if self.abrupt else jnp.clip(position - whole, 0, 1)
        before = whole.astype(jnp.int32)
        after = jnp.minimum(before + 1, last)
        return (1 - share) * self.anchors[before] + share * self.anchors[after]

    def sample(self, key: PRNGKey, arm: Array, t: ArrayLike) -> Array:
        """One reward [] of an arm [] at round t []."""
        noise = jax.random.normal(key, (), self.anchors.dtype)
        return self.mean_reward(t)[arm] + self.noise_std * noise


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
    """Between `anchors` functions of `rkhs_draw`, each of RKHS norm `norm`, on features [A,d].
    Raises ValueError on static mistakes."""
    checks.capacity(anchors=anchors)
    checks.positive(period=period)
    checks.nonnegative(noise_std=noise_std)
    checks.truth(abrupt=abrupt)

    def one(key: PRNGKey) -> Array:
        return rkhs_draw(key, kernel, features, noise_std, norm=norm).mean_reward

    means = jnp.stack([one(each) for each in jax.random.split(key, anchors)])
    return DriftingArms(Arms(features), means, period, noise_std, abrupt)


@struct.dataclass
class Played:
    """What happened, round by round; all [T], or [S, T] over seeds."""

    arm: Array  # int32
    reward: Array
    regret: Array  # max f_t - f_t(x_t)
    dictionary_size: Array  # int32
    width: Array
    overflow: Array  # bool, the dictionary had no room, and nothing was learned
    nonfinite: Array  # bool


def rounds(
    problem: DriftingArms, bandit: Bandit[Any], horizon: int, key: PRNGKey, restart: int | None
) -> Played:
    """One run of `play`, for your own jit and vmap; check `overflow` and `nonfinite` yourself."""
    init_key, round_key = jax.random.split(key)
    fresh = detach(bandit.init(problem.arms, init_key))

    def one(state: Any, t: Array) -> tuple[Any, Played]:
        if restart is not None:
            now = t % restart == 0
            state = jax.tree.map(lambda new, old: jnp.where(now, new, old), fresh, state)
        ask_key, tell_key, key = jax.random.split(jax.random.fold_in(round_key, t), 3)
        known = attach(state, problem.arms)
        # the slots in use come first
        query = bandit.ask(known, ask_key, limit=1)
        arm, mean = query.index[0], problem.mean_reward(t)
        y = problem.sample(key, arm, t)
        rewards = jnp.full(query.index.shape, jnp.nan, y.dtype).at[0].set(y)
        new, info = bandit.tell(known, query, rewards, tell_key)
        size, flags = info.dictionary_size, (info.overflow, info.nonfinite)
        return detach(new), Played(arm, y, mean.max() - mean[arm], size, info.width, *flags)

    return lax.scan(one, fresh, jnp.arange(horizon, dtype=jnp.int32))[1]


@partial(jax.jit, static_argnames=("horizon", "restart"))
def _seeds(
    problem: DriftingArms, bandit: Any, horizon: int, keys: PRNGKey, restart: int | None
) -> Played:
    return jax.vmap(lambda key: rounds(problem, bandit, horizon, key, restart))(keys)


def play(
    problem: DriftingArms,
    bandit: Bandit[Any],
    horizon: int,
    keys: PRNGKey,
    restart: int | None = None,
) -> Played:
    """The runs of several seeds, one evaluation a round; every array of the result has S first.

    bandit   any algorithm over arms that always asks; batches are cut to their first evaluation
    keys     keys [S], one a run
    restart  the state is set back to the first one before every `restart`-th round (None: never)

    Raises ValueError on static mistakes and when the bandit's capacity is too small, which it must
    not be: it is not grown here. Raises FloatingPointError when a posterior is no longer finite.
    """
    checks.capacity(horizon=horizon)
    keys = checks.keys(keys=keys)
    if restart is not None:
        checks.capacity(restart=restart)
    # static mistakes are said outside of jit
    bandit.init(problem.arms, keys[0])
    played = _seeds(problem, bandit, horizon, keys, restart)
    if np.asarray(played.overflow).any():
        raise ValueError("the dictionary had no room: give the bandit a larger capacity.")
    if np.asarray(played.nonfinite).any():
        raise FloatingPointError("the posterior is no longer finite: try float64.")
    return played
