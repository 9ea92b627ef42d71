"""Estimates of the time and the memory of a run before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax

from jsketch import checks, components, devices, struct
from jsketch.loops import advance
from jsketch.loops.capacities import larger_capacity, with_initial_capacity
from jsketch.numerics import on_accelerator
from jsketch.results import Result

PILOT_SECONDS = 1.0  # approximate duration of the timed part


@dataclass(frozen=True)
class Plan:
    """Estimated time and memory of S runs."""

    algorithm: str
    arms: int
    horizon: int
    seeds: int  # S
    seconds: float  # wall time of all runs, without compilation
    compile_seconds: float  # compilation of the timed programs; small if the cache has them
    bytes: int  # memory at the initial capacity, including the problem
    capacity: int  # for inducing points, after the timed part; 0 for an algorithm without them
    pilot: int  # number of timed evaluations

    def __str__(self) -> str:
        runs = f"{self.seeds} x " if self.seeds > 1 else ""
        compiling = _format_seconds(self.compile_seconds)
        return (
            f"about {_format_seconds(self.seconds)} (compiling {compiling} more) and"
            f" {self.bytes / 1e9:.2g} GB for {runs}{self.algorithm},"
            f" {self.horizon:,} evaluations of {self.arms:,} arms"
        )


@struct.checked_names
def plan(
    bandit: Any,
    problem: Any,
    horizon: int,
    *,
    seeds: int = 1,
    memory: float | None = None,
) -> Plan:
    """Estimates the time and the memory of `run` over arms. A run with one key reuses the
    programs that are compiled here.

    bandit, problem, horizon  as in `run`
    seeds     int, number of runs
    memory    available bytes; None: those of the device

    The memory comes from XLA's analysis of the compiled program. The first evaluations are timed
    for about PILOT_SECONDS, and the others are assumed to take as long as the last timed ones. The
    estimate is rough: too low if the sketch still grows, too high if the batches grow.

    Raises ValueError for static mistakes, as `init` does, and if the memory is too small.

    Example:

        print(plan(BBKB(kernels.Gaussian(1.0)), problem, 10_000, seeds=10))
    """
    checks.component("the algorithm", components.ALGORITHM, bandit, pytree=True)
    checks.horizon(horizon)
    checks.component("the problem", components.PROBLEM, problem, pytree=True)
    checks.positive_integer(seeds=seeds)
    if memory is not None:
        checks.positive(memory=memory)
    memory = devices.memory() if memory is None else memory
    # on a CPU the runs are computed one after the other
    n_parallel = seeds if on_accelerator() else 1

    key = jax.random.key(0)
    bandit = struct.numbers_in_dtype(bandit, problem.arms.features.dtype)
    bandit = with_initial_capacity(bandit, problem.arms, horizon, seeds)
    start_time = time.perf_counter()
    # called as in `advance`, so that a later run reuses the program
    progress = advance.start_runs(bandit, problem, key, horizon, runs="one")
    static: dict[str, Any] = dict(horizon=horizon, runs="one")
    capacity = advance.capacity_of(progress.state, "one")
    compiled = advance.run_segment.lower(bandit, problem, key, progress, 0, **static).compile()
    required = _memory_of_runs(compiled, progress, seeds, n_parallel)
    compile_seconds = time.perf_counter() - start_time
    if memory is not None and required > memory:
        runs = f"{seeds} runs" if seeds > 1 else "a run"
        raise ValueError(
            f"{runs} of {type(bandit).__name__} with {problem.arms.count:,} arms would need about"
            f" {required / 1e9:,.2g} GB, and there are {memory / 1e9:,.2g} GB. Fewer arms, a"
            " smaller capacity, fewer runs at a time or float32 need less."
        )

    n_evaluations, n_next = 0, 1
    pilot_seconds = seconds_per_evaluation = 0.0
    while pilot_seconds < PILOT_SECONDS and n_evaluations < horizon:
        # a call that makes no evaluation compiles the program
        start_time = time.perf_counter()
        progress = advance.run_segment(bandit, problem, key, progress, 0, **static)
        compile_seconds += time.perf_counter() - start_time
        until = min(n_evaluations + n_next, horizon)
        start_time = time.perf_counter()
        progress = jax.block_until_ready(
            advance.run_segment(bandit, problem, key, progress, until, **static)
        )
        seconds, t = time.perf_counter() - start_time, int(progress.t)
        pilot_seconds += seconds
        if t > n_evaluations:
            seconds_per_evaluation = seconds / (t - n_evaluations)
        n_evaluations, n_next = t, 2 * n_next
        if int(progress.result) == Result.CAPACITY_EXCEEDED:
            capacity = larger_capacity(capacity, problem.arms.count)
            progress = advance.grow_runs(bandit, problem, progress, capacity, runs="one")
        elif bool(progress.stopped):
            break
    seconds = seeds * (pilot_seconds + seconds_per_evaluation * (horizon - n_evaluations))
    return Plan(
        algorithm=type(bandit).__name__,
        arms=problem.arms.count,
        horizon=horizon,
        seeds=seeds,
        seconds=seconds,
        compile_seconds=compile_seconds,
        bytes=required,
        capacity=capacity,
        pilot=n_evaluations,
    )


def _memory_of_runs(compiled: Any, progress: Any, seeds: int, n_parallel: int) -> int:
    """The memory of `seeds` runs, of which `n_parallel` run together. At the end all states and
    traces are stacked, which copies them."""
    sizes = compiled.memory_analysis()
    state_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(progress))
    argument_bytes = sizes.argument_size_in_bytes - state_bytes
    working = sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    return int(
        argument_bytes + n_parallel * working + seeds * state_bytes * (2 if seeds > 1 else 1)
    )


def _format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
