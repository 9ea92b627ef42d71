"""The loop over rounds for clients that share a function (`contrib.clients`): in every round each
of them has a context of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import struct
from jsketch.contrib.problems.contextual import ContextualArms, check_flags, checked
from jsketch.types import PRNGKey


@struct.dataclass
class Shared:
    """What happened, round by round; [T], or [S, T] over seeds, regrets summed over the clients."""

    regret: Array
    uniform_regret: Array  # the same of uniform actions, in expectation
    sent: Array  # numbers sent so far
    sent_as_data: Array  # the same, where points are sent as they are
    exchanges: Array  # int32, so far
    dictionary_size: Array  # int32
    overflow: Array  # bool, no room, and nothing was learned
    nonfinite: Array  # bool


def rounds(problem: ContextualArms, bandit: Any, horizon: int, key: PRNGKey) -> Shared:
    """One run of `play`, for your own jit and vmap; check `overflow` and `nonfinite` yourself.
    Contexts and noise of a key are the same for all bandits with as many clients."""
    init_key, round_key = jax.random.split(key)
    dimension = problem.inputs + problem.actions.shape[1]

    def one(state: Any, t: Array) -> tuple[Any, Shared]:
        keys = jax.random.split(jax.random.fold_in(round_key, t), 4)
        contexts = jax.vmap(problem.context)(jax.random.split(keys[0], bandit.clients))
        points, mean = jax.vmap(problem.points)(contexts), jax.vmap(problem.mean_reward)(contexts)
        action = bandit.ask(state, points, keys[1])
        played = jnp.take_along_axis(mean, action[:, None], axis=1)[:, 0]
        y = played + problem.noise_std * jax.random.normal(keys[2], played.shape, mean.dtype)
        x = jnp.take_along_axis(points, action[:, None, None], axis=1)[:, 0]
        state, info = bandit.tell(state, x, y, keys[3])
        regret = mean.max(axis=1, keepdims=True) - mean
        return state, Shared(
            regret=(mean.max(axis=1) - played).sum(),
            uniform_regret=regret.mean(axis=1).sum(),
            sent=state.sent,
            sent_as_data=state.sent_as_data,
            exchanges=state.exchanges,
            dictionary_size=info.dictionary_size,
            overflow=info.overflow,
            nonfinite=info.nonfinite,
        )

    start = bandit.init(dimension, init_key, problem.actions.dtype)
    return lax.scan(one, start, jnp.arange(horizon, dtype=jnp.int32))[1]


@partial(jax.jit, static_argnames="horizon")
def _seeds(problem: ContextualArms, bandit: Any, horizon: int, keys: PRNGKey) -> Shared:
    return jax.vmap(lambda key: rounds(problem, bandit, horizon, key))(keys)


def play(problem: ContextualArms, bandit: Any, horizon: int, keys: PRNGKey) -> Shared:
    """The runs of several seeds in one program; every array of the result has S first.

    bandit   one of `contrib.clients`, with room for `horizon` rounds (`max_history`)
    keys     keys [S], one a run

    Raises ValueError on static mistakes and when the bandit has no room, as it is not grown here.
    Raises FloatingPointError when a posterior is no longer finite.
    """
    if not hasattr(bandit, "clients"):
        raise ValueError(
            "a bandit for clients is `SharedEmbedding`, `IndependentClients` or one with their"
            " methods;"
            f" {type(bandit).__name__} is for one learner: IndependentClients(bandit, clients=8)."
        )
    problem, keys = checked(problem, bandit, horizon, keys)
    shared = _seeds(problem, bandit, horizon, keys)
    check_flags(shared, horizon)
    return shared
