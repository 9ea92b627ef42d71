"""Loops: a bandit meets a problem.

    rollout     the pure run at a fixed capacity: one compiled loop over rounds, for anybody's jit and vmap
    run         rollout on the host, growing the capacity when a dictionary would not fit
    run_seeds   the same over seeds: vmapped on an accelerator, spread over the cores of a CPU
    drive       the same rounds for an objective that no tracer can enter; resumable

The unit is a round: ask, observe a batch, tell. The horizon counts evaluations, traces live on the evaluation axis [T], and
the last batch is cut at T. Keys are folded in by evaluation number from two separate roots, one for the algorithm and one
for the problem: all algorithms meet the same noise under the same key, and a run continues at any point.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.linalg import put
from jsketch.types import Arms, PRNGKey, Query

# small capacities grow faster, to compile less; from LARGE_CAPACITY on a refresh costs more than compiling saves
CAPACITY_GROWTH, CAPACITY_GROWTH_LARGE = 1.5, 1.25
LARGE_CAPACITY = 256
CAPACITY_MULTIPLE = 16


@struct.dataclass
class Trace:
    """What happened, evaluation by evaluation; all [T], or [S, T] over seeds."""

    arm: Array  # int32
    reward: Array
    regret: Array  # f* - f(x_t), instantaneous
    round: Array  # int32, number of the round
    batch_size: Array  # int32, size of the batch that the evaluation belongs to
    dictionary_size: Array  # int32, inducing points (distinct arms, for the exact posterior) after the round
    width: Array  # confidence width with which the round was chosen


@struct.dataclass
class Progress:
    """A run up to evaluation t. It stops early when a flag is raised; the flags are values until `run` raises them."""

    state: Any  # of the bandit, without its domain
    trace: Trace  # valid up to t
    t: Array  # [] int32, evaluations made
    round: Array  # [] int32, rounds made
    overflow: Array  # [] bool, the next dictionary does not fit; the round that would need it is not applied
    truncated: Array  # [] bool, some batch was ended by its capacity
    nonfinite: Array  # [] bool, an infinite reward or a posterior that is not finite

    @property
    def stopped(self) -> Array:
        return self.overflow | self.nonfinite


@struct.dataclass
class Run:
    """A finished run, or S of them (then the arrays have a leading seed axis; the domain in `state` has none)."""

    trace: Trace
    state: Any
    truncated: Array  # [] or [S] bool
    capacity: int = struct.field(pytree_node=False)  # largest capacity that was needed
    run_seconds: float = struct.field(pytree_node=False)  # wall time without compilation
    compile_seconds: float = struct.field(pytree_node=False)  # wall time of tracing and compiling


class _Roots(NamedTuple):
    """Independent roots of one run; each use folds in the number of the evaluation."""

    init: PRNGKey
    ask: PRNGKey
    tell: PRNGKey
    problem: PRNGKey


def _roots(key: PRNGKey) -> _Roots:
    return _Roots(*jax.random.split(key, 4))


def start(bandit: Any, problem: Any, key: PRNGKey, horizon: int) -> Progress:
    """The run before its first evaluation."""
    state = bandit.init(problem.arms, _roots(key).init).replace(domain=None)
    dtype = problem.mean_reward.dtype
    integers, numbers = jnp.zeros(horizon, jnp.int32), jnp.zeros(horizon, dtype)
    trace = Trace(integers, numbers, numbers, integers, integers, integers, numbers)
    zero, false = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return Progress(state, trace, zero, zero, false, false, false)


def _sample(problem: Any, key: PRNGKey, t: Array, query: Query) -> Array:
    """Rewards [B] of a query whose first evaluation is the t-th; a loop over the slots in use, not over all B."""
    dtype = problem.mean_reward.dtype

    def one(i: Array, y: Array) -> Array:
        reward = problem.sample(jax.random.fold_in(key, t + i), query.index[i])
        return put(y, i, reward.astype(dtype))

    return lax.fori_loop(0, query.size, one, jnp.full(query.index.shape, jnp.nan, dtype))


def _record(trace: Trace, t: Array, query: Query, y: Array, row: dict[str, Array], regrets: Array) -> Trace:
    def one(i: Array, trace: Trace) -> Trace:
        arm = query.index[i]
        values = dict(row, arm=arm, reward=y[i], regret=regrets[arm])
        columns = {name: put(getattr(trace, name), t + i, value) for name, value in values.items()}
        return Trace(**columns)

    return lax.fori_loop(0, query.size, one, trace)


def rollout(
    bandit: Any, problem: Any, key: PRNGKey, horizon: int, progress: Progress | None = None, until: ArrayLike | None = None
) -> Progress:
    """Runs rounds until evaluation `until` (by default the horizon) is reached or a flag stops the run.

    Pure, at the capacity of the bandit (or of the progress that it goes on from): for use inside jit and vmap, over keys
    and over every number of bandit and problem. Check `progress.overflow` and `progress.nonfinite` yourself.
    """
    roots = _roots(key)
    progress = start(bandit, problem, key, horizon) if progress is None else progress
    until = horizon if until is None else until
    mean_reward = problem.mean_reward
    regrets = jnp.max(mean_reward) - mean_reward

    def one_round(p: Progress) -> Progress:
        # the domain stays out of the carry: under vmap a carried array is copied for every seed
        state = p.state.replace(domain=problem.arms)
        query = bandit.ask(state, jax.random.fold_in(roots.ask, p.t), limit=horizon - p.t)
        y = _sample(problem, roots.problem, p.t, query)
        state, info = bandit.tell(state, query, y, jax.random.fold_in(roots.tell, p.t))
        row = dict(
            round=p.round, batch_size=info.batch_size, dictionary_size=info.dictionary_size, width=info.width
        )
        applied = (~info.overflow).astype(jnp.int32)
        return Progress(
            state=state.replace(domain=None),
            trace=_record(p.trace, p.t, query, y, row, regrets),
            t=p.t + applied * info.batch_size,
            round=p.round + applied,
            overflow=info.overflow,
            truncated=p.truncated | info.truncated,
            nonfinite=p.nonfinite | info.nonfinite,
        )

    return lax.while_loop(lambda p: (p.t < until) & ~p.stopped, one_round, progress)


@partial(jax.jit, static_argnames="horizon", donate_argnames="progress")
def _segment(bandit: Any, problem: Any, key: PRNGKey, progress: Progress, until: Array, horizon: int) -> Progress:
    return rollout(bandit, problem, key, horizon, progress, until)


@partial(jax.jit, static_argnames="horizon", donate_argnames="progress")
def _segment_seeds(bandit: Any, problem: Any, keys: PRNGKey, progress: Progress, until: Array, horizon: int) -> Progress:
    def one(key: PRNGKey, progress: Progress) -> Progress:
        return rollout(bandit, problem, key, horizon, progress, until)

    return jax.vmap(one)(keys, progress)


@partial(jax.jit, static_argnames="horizon")
def _start(bandit: Any, problem: Any, key: PRNGKey, horizon: int) -> Progress:
    return start(bandit, problem, key, horizon)


@partial(jax.jit, static_argnames="horizon")
def _start_seeds(bandit: Any, problem: Any, keys: PRNGKey, horizon: int) -> Progress:
    return jax.vmap(lambda key: start(bandit, problem, key, horizon))(keys)


def compiled_programs() -> int:
    """Number of programs that `run` and `run_seeds` have compiled in this process; other numbers or seeds add none."""
    return sum(f._cache_size() for f in (_segment, _segment_seeds, _start, _start_seeds))


_compiling = threading.Lock()  # seeds on several threads need the same program: the first compiles it, the others wait


class _Clock:
    """Wall time, with compilation apart, and progress reports from several threads."""

    def __init__(self, on_progress: Callable[[int, float], None] | None):
        self.began = time.perf_counter()
        self.compile_seconds = 0.0
        self.on_progress = on_progress
        self.done = 0
        self.lock = threading.Lock()

    @property
    def run_seconds(self) -> float:
        return time.perf_counter() - self.began - self.compile_seconds

    def compile(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a jitted function that has nothing to do, so that all the time it takes is compilation."""
        with _compiling:
            began = time.perf_counter()
            result = jax.block_until_ready(function(*args))
            self.compile_seconds += time.perf_counter() - began
        return result

    def report(self, evaluations: int) -> None:
        with self.lock:
            self.done += evaluations
            if self.on_progress is not None:
                self.on_progress(self.done, self.run_seconds)


def next_capacity(capacity: int, arms: int) -> int:
    """The capacity to go on with when `capacity` is too small: about half as large again, never needlessly over A."""
    growth = CAPACITY_GROWTH if capacity < LARGE_CAPACITY else CAPACITY_GROWTH_LARGE
    grown = -(-int(capacity * growth) // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
    return max(min(grown, arms), capacity + 1)


def _raise_flags(progress: Progress) -> None:
    if bool(np.any(progress.nonfinite)):
        raise FloatingPointError(
            "the run stopped: a reward was infinite, or the posterior is no longer finite. An infinite reward is refused"
            " (tell NaN for a failed evaluation); otherwise try float64 or a larger regularization."
        )
    if bool(np.any(progress.truncated)):
        warnings.warn("a batch filled its capacity `max_batch` and was ended there; a larger one may need fewer rounds.", stacklevel=3)


def _advance(
    bandit: Any, problem: Any, keys: PRNGKey, horizon: int, vmapped: bool, clock: _Clock, steps: int
) -> Progress:
    """One run (or all seeds of a vmapped one) to its horizon: segments on the device, growth between them."""
    begin, segment = (_start_seeds, _segment_seeds) if vmapped else (_start, _segment)
    progress = clock.compile(begin, bandit, problem, keys, horizon)
    progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
    seeds = keys.shape[0] if vmapped else 1
    until = reported = 0
    while True:
        done = int(np.min(progress.t))
        until = min(horizon, max(until, done) + max(1, horizon // steps))
        progress = jax.block_until_ready(segment(bandit, problem, keys, progress, jnp.asarray(until), horizon))
        if bool(np.any(progress.nonfinite)):
            return progress
        if bool(np.any(progress.overflow)):
            capacity = next_capacity(_capacity(progress.state, vmapped), problem.arms.count)
            grow = partial(bandit.grow, capacity=capacity)
            grown = (jax.vmap(grow) if vmapped else grow)(progress.state)
            progress = progress.replace(state=grown, overflow=jnp.zeros_like(progress.overflow))
            progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
            continue
        now = int(np.sum(np.minimum(progress.t, horizon)))
        clock.report(now - reported)
        reported = now
        if now == seeds * horizon:
            return progress


def _capacity(state: Any, batched: bool) -> int:
    shape = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s) if batched else s, state)
    return getattr(shape, "capacity", 0)


def _validate(bandit: Any, problem: Any, horizon: int) -> None:
    """Static mistakes on the host, before anything is traced: `init` raises them."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ValueError(f"horizon counts evaluations and must be an integer of at least 1; {horizon!r} was given.")
    bandit.init(problem.arms, jax.random.key(0))


def run_seeds(
    bandit: Any,
    problem: Any,
    keys: PRNGKey,
    horizon: int,
    *,
    strategy: str | None = None,
    workers: int | None = None,
    on_progress: Callable[[int, float], None] | None = None,
    reports: int = 1,
) -> Run:
    """S runs with keys [S], to evaluation `horizon` each; capacities grow by themselves.

    strategy "vmap" runs all seeds in one program (the default on an accelerator); "threads" runs a program of one seed on
    `workers` cores at a time (the default on a CPU, where a vmapped loop waits for its slowest seed). Both give the same
    picks. on_progress(evaluations so far, seconds without compilation) is called `reports` times a run.

    Raises ValueError on static mistakes and FloatingPointError when a reward is infinite or the posterior not finite.
    """
    _validate(bandit, problem, horizon)
    if strategy not in (None, "vmap", "threads"):
        raise ValueError(f'strategy must be "vmap", "threads" or None; {strategy!r} was given.')
    if keys.shape[0] < 1:
        raise ValueError("run_seeds needs at least one key; an empty array was given.")
    vmapped = strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu")
    clock = _Clock(on_progress)
    if vmapped:
        progress = _advance(bandit, problem, keys, horizon, True, clock, reports)
    else:
        with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            one = partial(_advance, bandit, problem, horizon=horizon, vmapped=False, clock=clock, steps=reports)
            runs = list(pool.map(one, keys))
        capacity = max(_capacity(p.state, False) for p in runs)
        if capacity:
            runs = [p.replace(state=bandit.grow(p.state, capacity)) for p in runs]
        progress = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)
    seconds = clock.run_seconds
    _raise_flags(progress)
    return Run(
        trace=progress.trace,
        state=progress.state.replace(domain=problem.arms),
        truncated=progress.truncated,
        capacity=_capacity(progress.state, True),
        run_seconds=seconds,
        compile_seconds=clock.compile_seconds,
    )


def run(bandit: Any, problem: Any, key: PRNGKey, horizon: int, **options: Any) -> Run:
    """One run; options, capacities and errors as in `run_seeds`."""
    result = run_seeds(bandit, problem, key[None], horizon, **options)
    first = jax.tree.map(lambda leaf: leaf[0], result.replace(state=result.state.replace(domain=None)))  # type: ignore[attr-defined]
    return first.replace(state=first.state.replace(domain=problem.arms))


def regret_ratio(regret: Array, mean_reward: Array) -> Array:
    """R_t / R_t^unif of instantaneous regrets [..., T]: the uniform policy's regret is its expectation t (f* - mean f)."""
    uniform = jnp.max(mean_reward) - jnp.mean(mean_reward)
    return jnp.cumsum(regret, -1) / (uniform * jnp.arange(1, regret.shape[-1] + 1))


@struct.dataclass
class Driven:
    """A run with a host objective so far; give it back to `drive` to go on."""

    state: Any
    arm: np.ndarray = struct.field(pytree_node=False)  # [t]
    reward: np.ndarray = struct.field(pytree_node=False)  # [t], NaN where nothing was observed

    @property
    def t(self) -> int:
        return len(self.arm)


_ask = jax.jit(lambda bandit, state, key, limit: bandit.ask(state, key, limit=limit))
_tell = jax.jit(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))


def drive(
    bandit: Any,
    objective: Callable[[np.ndarray], Any],
    domain: Arms,
    key: PRNGKey,
    horizon: int,
    state: Driven | None = None,
) -> Driven:
    """The rounds of `run` for a host objective, up to `horizon` evaluations in all; `state` goes on from an earlier call.

    objective(arms [n] of int) returns n rewards, NaN for one that failed. Raises ValueError on a wrong number of rewards or
    an infinite one. The same key gives the picks of `run`, if the rewards are the same.
    """
    roots = _roots(key)
    if horizon < 1:
        raise ValueError(f"horizon counts evaluations and must be at least 1; {horizon} was given.")
    driven = state or Driven(bandit.init(domain, roots.init), np.zeros(0, np.int32), np.zeros(0))
    while driven.t < horizon:
        query = _ask(bandit, driven.state, jax.random.fold_in(roots.ask, driven.t), horizon - driven.t)
        arms = np.asarray(query.index)[np.asarray(query.mask)]
        rewards = np.asarray(objective(arms), dtype=float)
        if rewards.shape != arms.shape:
            raise ValueError(f"the objective must return {arms.size} rewards for {arms.size} arms; its shape is {rewards.shape}.")
        if np.isinf(rewards).any():
            raise ValueError(f"the reward of arm {arms[np.isinf(rewards)][0]} is infinite; return NaN for a failed evaluation.")
        y = np.full(query.index.shape, np.nan)
        y[np.asarray(query.mask)] = rewards
        tell_key = jax.random.fold_in(roots.tell, driven.t)
        new = _tell_growing(bandit, driven.state, query, jnp.asarray(y, domain.features.dtype), tell_key)
        driven = Driven(new, np.append(driven.arm, arms), np.append(driven.reward, rewards))
    return driven


def _tell_growing(bandit: Any, state: Any, query: Query, y: Array, key: PRNGKey) -> Any:
    """The state after `tell`, at a capacity that holds it."""
    while True:
        new, info = _tell(bandit, state, query, y, key)
        if not bool(info.overflow):
            return new
        state = bandit.grow(state, next_capacity(state.capacity, state.domain.count))
