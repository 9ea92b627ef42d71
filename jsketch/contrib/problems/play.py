"""The loop over rounds of the problems in this folder, for all seeds in one program.

A problem has `checked(bandit, key)` -> the problem, which raises ValueError on static mistakes;
`start(bandit, key)` -> the state before the first round; and `advance(bandit, state, key, t)` ->
(state, record of round t). Contexts and noise depend on the key, not on the bandit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks, struct
from jsketch.types import PRNGKey


@struct.dataclass
class RunRecord:
    """The record of a run, round by round: all [T], or [S,T] over seeds. `ClientArms` has actions
    and rewards [T,N], and sums of regrets over the clients."""

    action: Array  # int32, the arm or candidate that was played
    reward: Array
    regret: Array  # the largest mean reward of the round minus that of the action
    uniform_regret: Array  # the expected regret of a uniform action
    dictionary_size: Array  # int32
    width: Array
    overflow: Array  # bool, the capacity was exceeded and the reward was not applied
    nonfinite: Array  # bool
    sent: Any = None  # of clients: numbers sent so far
    sent_as_data: Any = None  # of clients: the same, if points and rewards are sent
    exchanges: Any = None  # int32, of clients: exchanges so far


def begin(problem: Any, bandit: Any, key: PRNGKey) -> tuple[Any, PRNGKey]:
    """(state before the first round, key of all rounds) of the run with `key`."""
    init_key, round_key = jax.random.split(key)
    return problem.start(bandit, init_key), round_key


def advance(
    problem: Any, bandit: Any, round_key: PRNGKey, state: Any, t: Array
) -> tuple[Any, RunRecord]:
    """Round t [] of the run whose rounds have `round_key` of a user's scan."""
    return problem.advance(bandit, state, jax.random.fold_in(round_key, t), t)


@partial(jax.jit, static_argnames=("horizon", "restart"))
def _runs(problem: Any, bandit: Any, horizon: int, keys: PRNGKey, restart: int | None) -> RunRecord:
    def run(key: PRNGKey) -> RunRecord:
        start, round_key = begin(problem, bandit, key)

        def one(state: Any, t: Array) -> tuple[Any, RunRecord]:
            if restart is not None:
                restarts = t % restart == 0
                state = jax.tree.map(lambda new, old: jnp.where(restarts, new, old), start, state)
            return advance(problem, bandit, round_key, state, t)

        return lax.scan(one, start, jnp.arange(horizon, dtype=jnp.int32))[1]

    return jax.vmap(run)(keys)


def play(
    problem: Any, bandit: Any, horizon: int, keys: PRNGKey, restart: int | None = None
) -> RunRecord:
    """The runs of several seeds, one evaluation a round (one for each client).

    bandit   for `ContextualArms` one of `contrib.contextual`, for `ClientArms` one of
             `contrib.clients`, for `DriftingArms` any algorithm over arms, whose batches are cut to
             their first evaluation; with the capacity for `horizon` rounds, as it is not grown
    keys     keys [S], one a run
    restart  the state is set back to the first one before every `restart`-th round (None: never)

    Raises ValueError on static mistakes and when the bandit's capacity is too small, and
    FloatingPointError when a posterior is no longer finite.
    """
    checks.capacity(horizon=horizon)
    keys = checks.keys(keys=keys)
    if restart is not None:
        checks.capacity(restart=restart)
    problem = problem.checked(bandit, keys[0])
    played = _runs(problem, bandit, horizon, keys, restart)
    check_flags(played, horizon)
    return played


def check_flags(played: RunRecord, horizon: int) -> None:
    """Raises as `play` does, if a flag of any run is set."""
    if np.asarray(played.overflow).any():
        raise ValueError(
            "the bandit's capacity was exceeded: give it a larger capacity, and a max_history of at"
            f" least {horizon} if it has one."
        )
    if np.asarray(played.nonfinite).any():
        raise FloatingPointError("the posterior is no longer finite: try float64.")
