"""One compiled run on the host: segments on the device; growth, files and reports between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.loops.arms.checkpoint import Checkpoint
from jsketch.loops.arms.rollout import Progress, rollout, start
from jsketch.types import PRNGKey, detach

# small capacities grow faster, to compile less; from LARGE_CAPACITY on a refresh costs more than compiling saves
CAPACITY_GROWTH, CAPACITY_GROWTH_LARGE = 1.5, 1.125
LARGE_CAPACITY = 256
CAPACITY_MULTIPLE = 16


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
    programs: tuple[Any, ...] = (_segment, _segment_seeds, _start, _start_seeds)
    return sum(program._cache_size() for program in programs)


# seeds on several threads need the same program: the first compiles it, the others wait
_compiling = threading.Lock()


class Clock:
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


def larger_capacity(capacity: int, arms: int) -> int:
    """`next_capacity` after an overflow. Raises RuntimeError where every arm has room already: growing would never end."""
    if capacity >= arms:
        raise RuntimeError(
            f"the algorithm says that {capacity} inducing points are too few for {arms} arms: its `tell` sets"
            " info.overflow where a larger capacity is of no use."
        )
    return next_capacity(capacity, arms)


def advance(
    bandit: Any,
    problem: Any,
    keys: PRNGKey,
    state: Any,
    horizon: int,
    vmapped: bool,
    clock: Clock,
    steps: int,
    kept: Checkpoint | None,
) -> Progress:
    """One run (or all seeds of a vmapped one) to its horizon: segments on the device, growth and files between them.

    It ends before its horizon where `nonfinite` or `exhausted` says so of one of the seeds.
    """
    length = max(1, horizon // steps) if kept is None else min(max(1, horizon // steps), kept.every)

    def grow(state: Any, capacity: int) -> Any:
        one = partial(bandit.grow, capacity=capacity)
        return (jax.vmap(one) if vmapped else one)(state)

    begin, segment = (_start_seeds, _segment_seeds) if vmapped else (_start, _segment)
    progress = clock.compile(begin, bandit, problem, keys, horizon)
    if state is not None:
        # a copy: the program below takes over the memory of what it is given
        progress = replace(progress, state=jax.tree.map(jnp.copy, detach(state)))
    if kept is not None:
        progress = kept.load(progress, grow, capacity_of(progress.state, vmapped))
    progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
    seeds = keys.shape[0] if vmapped else 1
    until = reported = 0
    while True:
        done = int(np.min(progress.t))
        until = min(horizon, max(until, done) + length)
        progress = jax.block_until_ready(
            segment(bandit, problem, keys, progress, jnp.asarray(until), horizon)
        )
        if bool(np.any(progress.nonfinite | progress.exhausted)):
            return progress
        if bool(np.any(progress.overflow)):
            capacity = capacity_of(progress.state, vmapped)
            grown = grow(progress.state, larger_capacity(capacity, problem.arms.count))
            progress = replace(progress, state=grown, overflow=jnp.zeros_like(progress.overflow))
            progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
            continue
        if kept is not None:
            kept.save(progress, capacity_of(progress.state, vmapped))
        now = int(np.sum(np.minimum(progress.t, horizon)))
        clock.report(now - reported)
        reported = now
        if now == seeds * horizon:
            return progress


def capacity_of(state: Any, batched: bool) -> int:
    """Inducing points that a state has room for; 0 for an algorithm without."""
    shape = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s) if batched else s, state)
    return getattr(shape, "capacity", 0)
