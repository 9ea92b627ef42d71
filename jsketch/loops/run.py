"""Runs on the host: rollouts whose capacity grows when a dictionary would not fit, over seeds."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jsketch.loops.inputs import check_horizon, check_keys
from jsketch.loops.rollout import Progress, Trace, rollout, start
from jsketch.types import PRNGKey

# small capacities grow faster, to compile less; from LARGE_CAPACITY on a refresh costs more than compiling saves
CAPACITY_GROWTH, CAPACITY_GROWTH_LARGE = 1.5, 1.125
LARGE_CAPACITY = 256
CAPACITY_MULTIPLE = 16


@struct.dataclass
class Run:
    """A finished run, or S of them (then the arrays have a leading seed axis; the domain in `state` has none)."""

    trace: Trace
    state: Any
    truncated: Array  # [] or [S] bool
    capacity: int = struct.field(pytree_node=False)  # largest capacity that was needed
    run_seconds: float = struct.field(pytree_node=False)  # wall time without compilation
    compile_seconds: float = struct.field(pytree_node=False)  # wall time of tracing and compiling


@partial(jax.jit, static_argnames="horizon", donate_argnames="progress")
def _segment(
    bandit: Any, problem: Any, key: PRNGKey, progress: Progress, until: Array, horizon: int
) -> Progress:
    return rollout(bandit, problem, key, horizon, progress, until)


@partial(jax.jit, static_argnames="horizon", donate_argnames="progress")
def _segment_seeds(
    bandit: Any, problem: Any, keys: PRNGKey, progress: Progress, until: Array, horizon: int
) -> Progress:
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


_compiling = (
    threading.Lock()
)  # seeds on several threads need the same program: the first compiles it, the others wait


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
        warnings.warn(
            "a batch filled its capacity `max_batch` and was ended there; a larger one may need fewer rounds.",
            stacklevel=3,
        )


def _advance(
    bandit: Any,
    problem: Any,
    keys: PRNGKey,
    state: Any,
    horizon: int,
    vmapped: bool,
    clock: _Clock,
    steps: int,
) -> Progress:
    """One run (or all seeds of a vmapped one) to its horizon: segments on the device, growth between them."""
    begin, segment = (_start_seeds, _segment_seeds) if vmapped else (_start, _segment)
    progress = clock.compile(begin, bandit, problem, keys, horizon)
    if state is not None:
        # a copy: the program below takes over the memory of what it is given
        progress = progress.replace(state=jax.tree.map(jnp.copy, state.replace(domain=None)))
    progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
    seeds = keys.shape[0] if vmapped else 1
    until = reported = 0
    while True:
        done = int(np.min(progress.t))
        until = min(horizon, max(until, done) + max(1, horizon // steps))
        progress = jax.block_until_ready(
            segment(bandit, problem, keys, progress, jnp.asarray(until), horizon)
        )
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


def _stacked(bandit: Any, states: Sequence[Any]) -> Any:
    """States with a leading seed axis and no domain, all at the largest of their capacities."""
    states = [state.replace(domain=None) for state in states]
    capacity = max(_capacity(state, False) for state in states)
    if capacity:
        states = [bandit.grow(state, capacity) for state in states]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def _validate(bandit: Any, problem: Any, horizon: int) -> None:
    """Static mistakes on the host, before anything is traced: `init` raises them."""
    check_horizon(horizon)
    if isinstance(bandit, type) or not hasattr(bandit, "ask"):
        raise ValueError(
            f"bandit must be an algorithm with its numbers, such as BBKB(kernel); {bandit!r} was given."
        )
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
    states: Sequence[Any] | None = None,
) -> Run:
    """S runs with keys [S], to evaluation `horizon` each; capacities grow by themselves.

    strategy "vmap" runs all seeds in one program (the default on an accelerator); "threads" runs a program of one seed on
    `workers` cores at a time (the default on a CPU, where a vmapped loop waits for its slowest seed). Both give the same
    picks. states: S states to start from, such as `init` makes of past evaluations; by default `init` is called for
    every key. on_progress(evaluations so far, seconds without compilation) is called `reports` times a run.

    Raises ValueError on static mistakes and FloatingPointError when a reward is infinite or the posterior not finite.
    """
    _validate(bandit, problem, horizon)
    if strategy not in (None, "vmap", "threads"):
        raise ValueError(f'strategy must be "vmap", "threads" or None; {strategy!r} was given.')
    keys = check_keys(keys, 1, "run_seeds takes an array of keys [S], such as jax.random.split(key, 10)")
    if keys.shape[0] < 1:
        raise ValueError("run_seeds needs at least one key; an empty array was given.")
    if states is not None and len(states) != keys.shape[0]:
        raise ValueError(f"there are {keys.shape[0]} keys and {len(states)} states: one state a key.")
    vmapped = strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu")
    clock = _Clock(on_progress)
    if vmapped:
        together = None if states is None else _stacked(bandit, states)
        progress = _advance(bandit, problem, keys, together, horizon, True, clock, reports)
    else:
        with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
            one = partial(
                _advance, bandit, problem, horizon=horizon, vmapped=False, clock=clock, steps=reports
            )
            runs = list(pool.map(one, keys, [None] * len(keys) if states is None else states))
        grown = _stacked(bandit, [p.state for p in runs])
        progress = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[p.replace(state=None) for p in runs])
        progress = progress.replace(state=grown)
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
    key = check_keys(key, 0, "run takes one key, such as jax.random.key(0); `run_seeds` takes several")
    result = run_seeds(bandit, problem, key[None], horizon, **options)
    first = jax.tree.map(lambda leaf: leaf[0], result.replace(state=result.state.replace(domain=None)))
    return first.replace(state=first.state.replace(domain=problem.arms))
