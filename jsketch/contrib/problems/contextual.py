"""Problems with contexts, and a loop over rounds: every round a context arrives, uniform on
[0,1]^c, and one of C actions is played in it.

`bump`, `Squares` and `StepDiagonal` are those of the figures of Zenati et al. (AISTATS 2022), with
the formulas of their published scripts. A reward is a callable pytree, reward(context [c], action
[a]) -> [], so that a class of your own is a problem as well. Regret is against the best of the C
actions in each context.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.types import PRNGKey

# of rewards by quarters of the context (rows) and of the action (columns)
LEVELS = ((0, 0.5, 0, 0), (1, 0, 1, 0), (0, 0.5, 0, 0.5), (0, 0, 1, 0))


@struct.dataclass
class Bump:
    """max(0, 1 - |action - best_action|_1 - slope . (context - centre))."""

    best_action: Array  # [a]
    centre: Array  # [c]
    slope: Array  # [c]

    def __call__(self, context: Array, action: Array) -> Array:
        away = jnp.abs(action - self.best_action).sum()
        return jnp.maximum(0, 1 - away - (self.slope * (context - self.centre)).sum())


@struct.dataclass
class Squares:
    """Piecewise constant on a 4 x 4 grid of the unit square: 0, 1/2 or 1."""

    def __call__(self, context: Array, action: Array) -> Array:
        row, column = (jnp.clip(4 * v[0], 0, 3).astype(jnp.int32) for v in (context, action))
        return jnp.asarray(LEVELS, context.dtype)[row, column]


@struct.dataclass
class StepDiagonal:
    """1 in a band below the diagonal, |context - action - 0.15| < 0.1, 1/2 in the one above it, and
    0 elsewhere."""

    def __call__(self, context: Array, action: Array) -> Array:
        gap = context[0] - action[0]
        low = jnp.where(jnp.abs(gap + 0.15) < 0.1, 0.5, 0).astype(context.dtype)
        return jnp.where(jnp.abs(gap - 0.15) < 0.1, 1, low)


@struct.dataclass
class ContextualArms:
    """Reward of an action = reward(context, action) + noise_std * standard normal."""

    actions: Array  # [C, a]
    reward: Any  # callable pytree
    noise_std: ArrayLike = 0.1
    inputs: int = struct.field(pytree_node=False, default=1)  # c

    def context(self, key: PRNGKey) -> Array:
        """A context [c], uniform."""
        return jax.random.uniform(key, (self.inputs,), self.actions.dtype)

    def points(self, context: Array) -> Array:
        """The candidates [C, c + a] in a context [c]."""
        rows = jnp.broadcast_to(context, (self.actions.shape[0], self.inputs))
        return jnp.concatenate([rows, self.actions], axis=1)

    def mean_reward(self, context: Array) -> Array:
        """[C] in a context [c]."""
        return jax.vmap(lambda action: self.reward(context, action))(self.actions)


def bump(
    key: PRNGKey, actions: Array, inputs: int = 5, noise_std: ArrayLike = 0.1
) -> ContextualArms:
    """A `Bump` over actions [C,a]: one of them the best, centre uniform on [0,1]^c and slope on
    [-1,1]^c. Raises ValueError on static mistakes."""
    checks.capacity(inputs=inputs)
    checks.nonnegative(noise_std=noise_std)
    actions = jnp.asarray(checks.rows_of_arms(actions))
    best_key, centre_key, slope_key = jax.random.split(key, 3)
    reward = Bump(
        best_action=jax.random.choice(best_key, actions),
        centre=jax.random.uniform(centre_key, (inputs,), actions.dtype),
        slope=jax.random.uniform(slope_key, (inputs,), actions.dtype, -1, 1),
    )
    return ContextualArms(actions, reward, noise_std, inputs)


@struct.dataclass
class Played:
    """What happened, round by round; all [T], or [S, T] over seeds."""

    action: Array  # int32
    reward: Array
    regret: Array  # max_a f(c_t, a) - f(c_t, a_t)
    uniform_regret: Array  # the same of a uniform action, in expectation
    dictionary_size: Array  # int32
    width: Array
    overflow: Array  # bool, no room, and nothing was learned
    nonfinite: Array  # bool


def _of_round(key: PRNGKey, t: Array) -> PRNGKey:
    """[4], for the context of round t [], the choice, the noise, and what is learned."""
    return jax.random.split(jax.random.fold_in(key, t), 4)


def advance(
    problem: ContextualArms, bandit: Any, key: PRNGKey, state: Any, t: Array
) -> tuple[Any, Played]:
    """Round t [] of the run with key `key`, from the state before it; for your own scan."""
    keys = _of_round(key, t)
    context = problem.context(keys[0])
    points, mean = problem.points(context), problem.mean_reward(context)
    action = bandit.ask(state, points, keys[1])
    noise = problem.noise_std * jax.random.normal(keys[2], (), mean.dtype)
    y = mean[action] + noise
    state, info = bandit.tell(state, points[action], y, keys[3])
    regret = mean.max() - mean
    flags = (info.overflow, info.nonfinite)
    size = info.dictionary_size
    return state, Played(action, y, regret[action], regret.mean(), size, info.width, *flags)


def begin(problem: ContextualArms, bandit: Any, key: PRNGKey) -> tuple[Any, PRNGKey]:
    """(state before the first round, key of the rounds) of the run with key `key`."""
    init_key, round_key = jax.random.split(key)
    dimension = problem.inputs + problem.actions.shape[1]
    return bandit.init(dimension, init_key, problem.actions.dtype), round_key


def rounds(problem: ContextualArms, bandit: Any, horizon: int, key: PRNGKey) -> Played:
    """One run of `play`, for your own jit and vmap; check `overflow` and `nonfinite` yourself.
    Contexts and noise of a key are the same for all bandits."""
    start, round_key = begin(problem, bandit, key)
    one = partial(advance, problem, bandit, round_key)
    return lax.scan(one, start, jnp.arange(horizon, dtype=jnp.int32))[1]


def uniform_regret(problem: ContextualArms, horizon: int, key: PRNGKey) -> Array:
    """[T], the expected regret of uniform actions in the contexts of the run with key `key`."""
    _, round_key = jax.random.split(key)

    def one(t: Array) -> Array:
        mean = problem.mean_reward(problem.context(_of_round(round_key, t)[0]))
        return (mean.max() - mean).mean()

    return lax.map(one, jnp.arange(horizon, dtype=jnp.int32))


@partial(jax.jit, static_argnames="horizon")
def _seeds(problem: ContextualArms, bandit: Any, horizon: int, keys: PRNGKey) -> Played:
    return jax.vmap(lambda key: rounds(problem, bandit, horizon, key))(keys)


def play(problem: ContextualArms, bandit: Any, horizon: int, keys: PRNGKey) -> Played:
    """The runs of several seeds in one program; every array of the result has S first.

    bandit   one of `contrib.contextual`, with room for `horizon` rewards (`max_history`)
    keys     keys [S], one a run

    Raises ValueError on static mistakes and when the bandit has no room, as it is not grown here.
    Raises FloatingPointError when a posterior is no longer finite.
    """
    problem, keys = checked(problem, bandit, horizon, keys)
    played = _seeds(problem, bandit, horizon, keys)
    check_flags(played, horizon)
    return played


def check_flags(played: Any, horizon: int) -> None:
    """Raises as `play` does, of the flags of all its runs."""
    if np.asarray(played.overflow).any():
        raise ValueError(
            "the bandit had no room: give it a larger capacity, and a max_history of at least"
            f" {horizon}."
        )
    if np.asarray(played.nonfinite).any():
        raise FloatingPointError("the posterior is no longer finite: try float64.")


def checked(
    problem: ContextualArms, bandit: Any, horizon: int, keys: PRNGKey
) -> tuple[ContextualArms, PRNGKey]:
    """(problem, keys [S]) of `play`. Raises ValueError on static mistakes, which are said outside
    of jit."""
    checks.capacity(horizon=horizon)
    keys = checks.keys(keys=keys)
    if not isinstance(problem, ContextualArms):
        raise ValueError(f"a problem with contexts is a ContextualArms; {problem!r} was given.")
    checks.capacity(inputs=problem.inputs)
    checks.nonnegative(noise_std=problem.noise_std)
    problem = replace(problem, actions=jnp.asarray(checks.rows_of_arms(problem.actions)))
    if not callable(problem.reward) or jax.tree_util.all_leaves([problem.reward]):
        raise ValueError(
            "reward must be a callable pytree, such as contextual.Squares() or a struct.dataclass"
            f" of yours with __call__(context, action); {problem.reward!r} was given."
        )
    dimension = problem.inputs + problem.actions.shape[1]
    bandit.init(dimension, keys[0], problem.actions.dtype)
    return problem, keys
