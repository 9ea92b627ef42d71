"""The rounds of `run` for an objective that cannot be traced: a laboratory, a trained model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, struct
from jsketch.bandits.core import sketched
from jsketch.checks import queries
from jsketch.loops.arms.advance import larger_capacity
from jsketch.loops.arms.drive_file import File, open_file
from jsketch.loops.arms.run import warn_of_imprecision
from jsketch.loops.arms.stop import rule
from jsketch.loops.inputs import (
    check_bandit,
    check_horizon,
    check_keys,
    check_started,
    check_state,
)
from jsketch.loops.keys import Roots, split_roots
from jsketch.loops.saving.resume import held
from jsketch.loops.unfinished import attach_partial_run
from jsketch.types import Arms, Bandit, Info, PRNGKey, Query, enlarged
from jsketch.warn import warn


@struct.dataclass
class Driven:
    """A run with a host objective so far; give it back to `drive` to resume it."""

    state: Any  # after all evaluations but the last `n_unobserved`
    arm: np.ndarray = struct.field(pytree_node=False)  # [t]
    reward: np.ndarray = struct.field(pytree_node=False)  # [t], NaN where nothing was observed
    # evaluations at the end that the algorithm has not observed yet: an error came between
    n_unobserved: int = struct.field(pytree_node=False, default=0)
    # the algorithm asked for nothing more: no arm is left that it would evaluate
    exhausted: bool = struct.field(pytree_node=False, default=False)
    # `stop` said so
    stopped: bool = struct.field(pytree_node=False, default=False)
    # rounding may have decided on variances, as `Info.imprecise` says of a round
    imprecise: bool = struct.field(pytree_node=False, default=False)

    @property
    def t(self) -> int:
        return len(self.arm)


_ask = jax.jit(lambda bandit, state, key, limit: bandit.ask(state, key, limit=limit))
_tell = jax.jit(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))


def drive(
    bandit: Bandit[Any],
    objective: Callable[[np.ndarray], Any],
    domain: Arms,
    key: PRNGKey,
    horizon: int,
    state: Driven | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    stop: Callable[[Driven], Any] | float | None = None,
) -> Driven:
    """The rounds of `run` for a host objective, up to `horizon` evaluations in all; `state` resumes
    an earlier call.

    objective(arms [n] of int) returns n rewards, NaN for one that failed. The same key gives the
    picks of `run`, if the rewards are the same. An algorithm that repeats no arm may have none left
    before the horizon: then the run so far comes back with `exhausted` set, and a warning says so.

    checkpoint: a file that the run is written to after every call of the objective, and resumes
    from when it is called again with the same algorithm, arms and key: a killed run makes the same
    picks. A larger horizon adds evaluations to it.

    stop: a function of the run so far (a `Driven`), called before every round but the first. Where
    it returns True the run ends, and comes back with `stopped` set. Or a number above 0, in units
    of the rewards: the run ends once `loops.gap` is below it. With `widths.certified` as the
    algorithm's width that bounds a regret by a theorem, with the default one, and for algorithms
    that forget, it is a heuristic.

    Raises ValueError on a wrong number of rewards or an infinite one, and for a checkpoint that is
    damaged, of another run or version of jsketch (it says what differs), being written by another
    process, or given beside a `state`; and for a state of another algorithm or of other arms.
    Whatever ends the run, an error of the objective or Ctrl-C, has the finished evaluations in its
    attribute `driven`: with state=error.driven the run resumes from them.
    """
    check_horizon(horizon)
    key = check_keys(key, 0, "drive takes one key, such as jax.random.key(0)")
    check_bandit(bandit)
    checks.function_of("objective", objective, "arms")
    roots = split_roots(key)
    if state is None:
        driven = Driven(bandit.init(domain, roots.init), np.zeros(0, np.int32), np.zeros(0))
    else:
        _check_state(bandit, domain, state)
        driven = state
    check_started(bandit, driven.state)
    sketched.check_whole(driven.state)
    ends = rule(bandit, driven.state, stop)
    file = open_file(checkpoint, bandit, driven.state.domain, key, state is not None)
    with held([] if file is None else [file.path], file is not None and file.over):
        if file is not None:
            driven = file.load(bandit, driven)
        driven = replace(driven, exhausted=False, stopped=False)
        driven = _rounds(bandit, objective, roots, horizon, driven, file, ends)
    if driven.exhausted:
        warn(
            f"the run ended after {driven.t} of {horizon} evaluations: no arm is left that the"
            " algorithm would evaluate.",
        )
    if driven.imprecise:
        warn_of_imprecision()
    return driven


def _check_state(bandit: Bandit[Any], domain: Arms, driven: Driven) -> None:
    """Raises ValueError for what is no run, a run of an algorithm with other states, or of other
    arms."""
    if not isinstance(driven, Driven):
        raise ValueError(
            "state is what an earlier call of drive gave, or the attribute `driven` of its error;"
            f" what was given is a {type(driven).__name__}."
        )
    check_state(bandit, domain, driven.state)


def _rounds(
    bandit: Bandit[Any],
    objective: Callable[[np.ndarray], Any],
    roots: Roots,
    horizon: int,
    driven: Driven,
    file: File | None,
    ends: Callable[[Driven], bool],
) -> Driven:
    """The rounds from `driven` to the horizon, or until the algorithm asks for nothing, or until
    `ends` says so."""
    kept = driven.t if file is not None and file.path.exists() else 0  # evaluations in the file
    try:
        while driven.t < horizon or driven.n_unobserved:
            known = driven.t - driven.n_unobserved
            if known and not driven.n_unobserved and ends(driven):
                driven = replace(driven, stopped=True)
                break
            # asking again gives the same query, which begins with the evaluations not yet observed
            limit = max(horizon - known, driven.n_unobserved)
            query = _ask(bandit, driven.state, jax.random.fold_in(roots.ask, known), limit)
            arms = np.asarray(query.index)[np.asarray(query.mask)]
            queries.present(driven.state.domain, query)
            if not np.array_equal(arms[: driven.n_unobserved], driven.arm[known:]):
                raise ValueError(
                    f"state is of another run: its last {driven.n_unobserved} evaluations are not"
                    " those that would be asked for."
                )
            if arms.size == 0:
                return replace(driven, exhausted=True)
            new = arms[driven.n_unobserved :]
            dtype = driven.state.domain.features.dtype
            if new.size:
                observed = _evaluated(objective, new, dtype)
                driven = replace(
                    driven,
                    arm=np.append(driven.arm, new),
                    reward=np.append(driven.reward, observed),
                    n_unobserved=driven.n_unobserved + new.size,
                )
                if file is not None:
                    file.save(driven)
                    kept = driven.t
            y = np.full(query.index.shape, np.nan)
            y[np.asarray(query.mask)] = driven.reward[known:]
            rewards = jnp.asarray(y, dtype)
            tell_key = jax.random.fold_in(roots.tell, known)
            after, info = _tell_growing(bandit, driven.state, query, rewards, tell_key)
            driven = replace(
                driven,
                state=after,
                n_unobserved=0,
                imprecise=driven.imprecise or bool(info.imprecise),
            )
        if file is not None:
            file.save(driven)
    except BaseException as error:
        attach_partial_run(
            error, driven, "drive", file.path if file is not None and kept == driven.t else None
        )
        raise
    return driven


def _evaluated(objective: Callable[[np.ndarray], Any], arms: np.ndarray, dtype: Any) -> np.ndarray:
    """The rewards [n] of arms [n]. Raises ValueError, with what the objective returned in its
    attribute `returned`, unless each is NaN or a number that is finite in the dtype of the arms."""
    returned, wrong = objective(arms), None
    rewards = np.asarray(checks.real("rewards", returned), dtype=float)
    if rewards.shape != arms.shape:
        wrong = (
            f"the objective must return {arms.size} rewards for {arms.size} arms; its shape is"
            f" {rewards.shape}."
        )
    elif (infinite := _infinite(rewards, dtype)).any():
        beyond = "" if np.isinf(rewards).any() else f" in {np.dtype(dtype).name}"
        wrong = (
            f"the reward of arm {arms[infinite][0]} is infinite{beyond}; return NaN for a failed"
            " evaluation."
        )
    if wrong is not None:
        error = ValueError(wrong)
        error.returned = returned  # type: ignore[attr-defined]
        raise error
    return rewards


def _infinite(rewards: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.isinf(rewards.astype(dtype))


def _tell_growing(
    bandit: Bandit[Any], state: Any, query: Query, y: Array, key: PRNGKey
) -> tuple[Any, Info]:
    """(the state after `tell`, at a capacity that holds it; its info)."""
    while True:
        new, info = _tell(bandit, state, query, y, key)
        if not bool(info.overflow):
            if bool(info.nonfinite):
                raise FloatingPointError(
                    "the posterior is not finite: try float64, smaller rewards or a larger"
                    " regularization."
                )
            return new, info
        state = enlarged(bandit, state, larger_capacity(state.capacity, state.domain.count))
