"""The loop over rounds of the problems in this folder, for all seeds in one program.

A problem has three methods. Contexts and noise depend on the key and not on the bandit.

checked(bandit, key) -> problem     the problem with checked arrays; raises ValueError
start(bandit, key) -> state         the state before the first round
advance(bandit, state, key, t) -> (state, RunRecord)    the state and the record of round t
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import checks, struct
from jsketch.numerics import one_after_another
from jsketch.precision import dtype_of, in_dtype
from jsketch.results import must_grow
from jsketch.types import Info, PRNGKey


@struct.dataclass
class RunRecord:
    """The record of a run, with arrays [T], or [S,T] over seeds. `ClientArms` has actions and
    rewards [T,N], and sums of regrets over the clients.

    action           int32, the index of the arm or candidate
    reward           as observed
    regret           the largest mean reward of the round minus the mean reward of the action
    uniform_regret   the expected regret of a uniform action
    dictionary_size  int32
    width            the confidence width of the choice
    result           int32, a `jsketch.results.Result`
    sent             these three fields are set only with clients, see `contrib.clients` floats sent
                     so far
    sent_as_data     floats that points and rewards would have taken so far
    exchanges        int32, exchanges so far
    """

    action: Array
    reward: Array
    regret: Array
    uniform_regret: Array
    dictionary_size: Array
    width: Array
    result: Array
    sent: Any = None
    sent_as_data: Any = None
    exchanges: Any = None


def record(info: Info, **fields: Any) -> RunRecord:
    """The record of a round, with three fields from `info` and the others from `fields`."""
    names = "dictionary_size", "width", "result"
    return RunRecord(**{name: getattr(info, name) for name in names}, **fields)


def begin(problem: Any, bandit: Any, key: PRNGKey) -> tuple[Any, PRNGKey]:
    """(state before the first round, key of all rounds) of the run with `key`."""
    init_key, round_key = jax.random.split(key)
    return problem.start(bandit, init_key), round_key


def advance(
    problem: Any, bandit: Any, round_key: PRNGKey, state: Any, t: Array
) -> tuple[Any, RunRecord]:
    """(state, record) after round t [] of a run that `begin` starts."""
    return problem.advance(bandit, state, jax.random.fold_in(round_key, t), t)


def _run(
    problem: Any, bandit: Any, key: PRNGKey, *, horizon: int, restart: int | None
) -> RunRecord:
    start, round_key = begin(problem, bandit, key)

    def step(state: Any, t: Array) -> tuple[Any, RunRecord]:
        if restart is not None:
            state = jax.tree.map(partial(jnp.where, t % restart == 0), start, state)
        return advance(problem, bandit, round_key, state, t)

    return lax.scan(step, start, jnp.arange(horizon, dtype=jnp.int32))[1]


@partial(jax.jit, static_argnames=("horizon", "restart"))
def _runs(problem: Any, bandit: Any, horizon: int, keys: PRNGKey, restart: int | None) -> RunRecord:
    run = partial(_run, horizon=horizon, restart=restart)
    return jax.vmap(lambda key: one_after_another(run, problem, bandit, key))(keys)


def play(
    problem: Any, bandit: Any, horizon: int, keys: PRNGKey, restart: int | None = None
) -> RunRecord:
    """The runs of several seeds, with one evaluation in a round (one for each client).

    bandit   for `ContextualArms` one of `contrib.contextual`, for `ClientArms` one of
             `contrib.clients`, for `DriftingArms` any algorithm over arms, whose batches are cut to
             their first evaluation. The capacity of the bandit must suffice for `horizon` rounds
    keys     keys [S], one for each run
    restart  number of rounds after which the state is reset to its start; None: never

    Raises ValueError for invalid arguments and when the capacity of the bandit is too small, and
    FloatingPointError when a posterior is not finite.
    """
    checks.positive_integer(horizon=horizon)
    keys = checks.keys(keys=keys)
    if restart is not None:
        checks.positive_integer(restart=restart)
    bandit = in_dtype(bandit, dtype_of(problem))
    problem = problem.checked(bandit, keys[0])
    runs = _runs(problem, bandit, horizon, keys, restart)
    check_results(runs, horizon)
    return runs


def check_results(runs: RunRecord, horizon: int) -> None:
    """Raises the exceptions of `play` for the results of any run."""
    if must_grow(runs.result, "the posterior is not finite: try float64."):
        raise ValueError(
            "the bandit's capacity was exceeded: give it a larger capacity, and a max_history of at"
            f" least {horizon} if it has one."
        )
