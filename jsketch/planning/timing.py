"""Seconds of rounds and evaluations: the run's own program, timed for a moment from states that
hold the pilot's data.

Nothing here knows an algorithm. Data reach a state by its own `tell`, the capacity by its own
`grow`, and what is timed is the program that `run` compiles (`loops.advance`), so that the run
which follows finds it compiled. XLA's cost analysis is no substitute: it counts the body of a loop
once, and rounds, picks and chunks of arms are loops.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks
from jsketch.loops.arms import advance
from jsketch.loops.arms.rollout import Progress
from jsketch.problems.finite import GaussianArms
from jsketch.types import Arms, PRNGKey, Query, attach, detach

STRETCH = 0.3  # seconds that a program is timed
OBSERVING = 1.0  # seconds that `tell` is called with the pilot's data
PART = 0.25  # data of one `tell`, as a part of those before
LARGEST = 256  # largest capacity that is timed; beyond it a power law extrapolates
ENTRIES = 4_000_000  # arms times capacity that are timed; the time of more arms is proportional
APART = 3.0  # between the two capacities that are timed
STEEPEST = 3.0  # power of the capacity that time goes with
# code that is made quickly and runs slowly, in the same memory
QUICKLY: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


class History(NamedTuple):
    """Evaluations in the order of time."""

    arms: np.ndarray  # [n]
    rewards: np.ndarray  # [n]
    middle: int  # evaluations after which half of the rounds are made


class Rates(NamedTuple):
    """What a run at one capacity takes."""

    round: float  # seconds of a round, whatever its size
    evaluation: float  # seconds of an evaluation more in it
    batch: float  # evaluations a round, at the end of the data
    fixed: int  # size of every batch; 0 where batches differ
    dictionary_size: float  # at the end of the stretch
    compiling: float  # seconds to compile the program, or to find it compiled


class _Stretch(NamedTuple):
    """What was timed."""

    seconds: float
    rounds: int
    evaluations: int
    full: bool  # every batch filled its query
    dictionary_size: float

    @property
    def batch(self) -> float:
        return self.evaluations / self.rounds

    @property
    def round(self) -> float:
        """Seconds."""
        return self.seconds / self.rounds


@partial(jax.jit, compiler_options=QUICKLY)
def _tell(bandit: Any, state: Any, query: Query, y: Any, key: PRNGKey) -> tuple[Any, Any]:
    return bandit.tell(state, query, y, key)


def largest_dictionary(bandit: Any) -> int:
    """The budget of an algorithm that has one, else as many as can be counted."""
    most = getattr(bandit, "max_dictionary", None)
    return checks.MOST if most is None else int(most)


def capacities(bandit: Any, size: float, arms: int) -> tuple[int, ...]:
    """The capacities that a run goes through to hold that many inducing points or distinct arms; ()
    without any."""
    if not hasattr(bandit, "capacity"):
        return ()
    most = largest_dictionary(bandit)
    found = [min(int(bandit.capacity), most)]
    while found[-1] < min(size, arms, most):
        found.append(min(advance.next_capacity(found[-1], arms), most))
    return tuple(found)


def timed(run: tuple[int, ...]) -> tuple[int, ...]:
    """The two capacities that are timed, the larger one first, for a run that goes through those of
    `run`; or the one."""
    if not run:
        return (0,)
    high = max((c for c in run if c <= LARGEST), default=LARGEST)
    smaller = [c for c in run if c < high]
    if smaller:
        return high, min(smaller, key=lambda c: abs(c - high / APART))
    return (high, int(high / APART)) if run[-1] > high else (high,)


def fewer_arms(count: int, capacity: int) -> int:
    """How many of `count` arms a program is timed with."""
    return min(count, max(ENTRIES // max(capacity, 1), 1))


def rates(bandit: Any, problem: Any, horizon: int, capacity: int, history: History | None) -> Rates:
    """Times rounds at a capacity (0: of an algorithm without). Without a history, from the first
    evaluation on."""
    key = jax.random.key(0)
    if capacity and capacity < bandit.capacity:
        bandit = replace(bandit, capacity=capacity)

    def segment(progress: Progress, until: int) -> Progress:
        # as `advance` calls it, down to what is positional: other calls are other programs
        return jax.block_until_ready(
            advance._segment(bandit, problem, key, progress, jnp.asarray(until), horizon)
        )

    def started(state: Any = None) -> Progress:
        progress = advance._start(bandit, problem, key, horizon)
        if state is not None:
            # a copy: the program takes over the memory of what it is given
            return replace(progress, state=jax.tree.map(jnp.copy, detach(state)))
        return (
            replace(progress, state=bandit.grow(progress.state, capacity)) if capacity else progress
        )

    fresh = started()
    slots = slots_of(bandit, fresh.state, problem.arms)
    states = (
        []
        if history is None or slots == 1
        else _states(bandit, fresh.state, problem.arms, slots, history)
    )
    began = time.perf_counter()
    segment(fresh, 0)
    compiling = time.perf_counter() - began
    stretches = [_stretch(segment, started(state), horizon, slots) for state in states or [None]]
    early, late = stretches[0], stretches[-1]
    fixed = slots if all(stretch.full for stretch in stretches) else 0
    a_round, an_evaluation = _split(early, late)
    return Rates(a_round, an_evaluation, late.batch, fixed, late.dictionary_size, compiling)


def slots_of(bandit: Any, state: Any, arms: Arms) -> int:
    """Slots of the queries that an algorithm makes."""

    def ask(state: Any, arms: Arms) -> Any:
        return bandit.ask(attach(state, arms), jax.random.key(0), limit=jnp.asarray(1))

    asked = jax.eval_shape(ask, state, arms)
    return int(asked.index.shape[0])


def _states(bandit: Any, state: Any, arms: Arms, slots: int, history: History) -> list[Any]:
    """The states with half of the rounds' data and with all, as far as the capacity, the algorithm
    and the time let them."""
    state, at_middle = attach(state, arms), None
    key, done, began = jax.random.key(1), 0, math.inf
    while done < len(history.arms) and time.perf_counter() - began < OBSERVING:
        count = min(slots, len(history.arms) - done, max(1, int(PART * done)))
        index, y = np.zeros(slots, np.int32), np.full(slots, np.nan)
        index[:count], y[:count] = (
            history.arms[done : done + count],
            history.rewards[done : done + count],
        )
        query = Query(jnp.asarray(index), jnp.arange(slots) < count)
        after, info = _tell(
            bandit, state, query, jnp.asarray(y, arms.features.dtype), jax.random.fold_in(key, done)
        )
        if bool(info.overflow | info.nonfinite):
            break
        # the first call compiles
        began = time.perf_counter() if done == 0 else began
        state, done = after, done + count
        if at_middle is None and done >= history.middle:
            at_middle = state
    return [state] if at_middle is None else [at_middle, state]


def _stretch(
    segment: Callable[[Progress, int], Progress], progress: Progress, horizon: int, slots: int
) -> _Stretch:
    """Times the program to twice as many evaluations again and again, until time, horizon or
    capacity end it."""
    seconds, t, stopped = 0.0, 0, False
    while seconds < STRETCH and t < horizon and not stopped:
        began = time.perf_counter()
        progress = segment(progress, min(2 * t + 1, horizon))
        seconds += time.perf_counter() - began
        t, stopped = int(progress.t), bool(progress.stopped)
    sizes, rounds = np.asarray(progress.trace.batch_size)[:t], np.asarray(progress.trace.round)[:t]
    # the first batch may be one arm while nothing is observed, and the horizon cuts the last one
    between = sizes[(rounds > 0) & (rounds < int(progress.round) - 1)]
    full = bool(t and ((between if between.size else sizes) == min(slots, horizon)).all())
    # a round that did not fit was paid for
    made = int(progress.round) + int(progress.overflow)
    size = float(np.asarray(progress.trace.dictionary_size)[t - 1]) if t else 0.0
    return _Stretch(seconds, max(made, 1), max(t, 1), full, size)


def _split(early: _Stretch, late: _Stretch) -> tuple[float, float]:
    """(seconds of a round, of an evaluation) that explain both stretches; all of it the round's
    where batches are alike."""
    if late.batch < 1.5 * early.batch:
        return late.round, 0.0
    evaluation = max((late.round - early.round) / (late.batch - early.batch), 0.0)
    a_round = early.round - evaluation * early.batch
    return (a_round, evaluation) if a_round > 0 else (0.0, late.seconds / late.evaluations)


def part_of(problem: Any, fewer: int, history: History | None) -> tuple[Any, History | None]:
    """A problem with some of the arms, those of the history first, and the history in their
    numbers."""
    count = problem.arms.count
    pulled = np.zeros(0, int) if history is None else np.unique(history.arms)[:fewer]
    others = np.random.default_rng(0).permutation(count)
    rows = np.concatenate([pulled, others[~np.isin(others, pulled)][: fewer - len(pulled)]])
    noise = getattr(problem, "noise_std", 0.1)
    part = GaussianArms(Arms(problem.arms.features[rows]), problem.mean_reward[rows], noise)
    if history is not None:
        kept = np.isin(history.arms, pulled)
        history = History(
            np.searchsorted(pulled, history.arms[kept]),
            history.rewards[kept],
            int(kept[: history.middle].sum()),
        )
    return part, history


def power(high: Rates, low: Rates, apart: float) -> float:
    """The power of the capacity that time goes with, from rates at two capacities that are `apart`
    times apart."""
    per_round = [max(r.round + r.evaluation * low.batch, 1e-9) for r in (high, low)]
    return min(max(math.log(per_round[0] / per_round[1]) / math.log(apart), 0.0), STEEPEST)
