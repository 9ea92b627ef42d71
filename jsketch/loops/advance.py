"""Compiled runs over arms in segments. Between segments the host enlarges capacities, saves the run
and reports progress.

A program has one of three layouts: "run" is one run; "seeds" is one bandit with several keys; and
"grid" is several bandits that differ in their numbers, with one key each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import Array

from jsketch.bandits.core.sketched import CAPACITY_MULTIPLE
from jsketch.loops.rollouts import Progress, continue_run, start, up_to_end
from jsketch.loops.saving import RunFile
from jsketch.types import ArmProblem, Bandit, PRNGKey

# Small capacities grow faster, because each new capacity compiles a program. From LARGE_CAPACITY
# on, computing all scores at a needlessly large capacity costs more than a compilation.
CAPACITY_GROWTH, CAPACITY_GROWTH_LARGE = 2.25, 1.125
LARGE_CAPACITY = 256

# The disabled passes take nearly half of the compile time, and programs that consist of matrix
# products are as fast without them (`scripts/bench`). XLA raises an error for a flag that its
# version does not have.
COMPILER_OPTIONS: dict[str, Any] = {"xla_llvm_disable_expensive_passes": True}
if jaxlib.__version__.startswith("0.10."):
    COMPILER_OPTIONS["xla_cpu_use_fusion_emitters"] = False

SAVES = 20  # the least number of times that a run is saved

Layout = Literal["run", "seeds", "grid"]


@partial(
    jax.jit,
    static_argnames=("horizon", "layout"),
    donate_argnames="progress",
    compiler_options=COMPILER_OPTIONS,
)
def run_segment(
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    progress: Progress,
    until: Array,
    horizon: int,
    layout: Layout = "run",
) -> Progress:
    """Continues the runs of a program from `progress` to evaluation `until`. The other arguments
    are those of `advance`."""
    return _vmap(
        lambda bandit, key, progress: continue_run(bandit, problem, key, horizon, progress, until),
        layout,
    )(bandit, keys, progress)


@partial(jax.jit, static_argnames=("horizon", "layout"))
def start_runs(
    bandit: Bandit[Any], problem: ArmProblem, keys: PRNGKey, horizon: int, layout: Layout = "run"
) -> Progress:
    """The runs of one program before their first evaluation."""
    return _vmap(lambda bandit, key: start(bandit, problem, key, horizon), layout)(bandit, keys)


@partial(jax.jit, static_argnames=("capacity", "layout"))
def grow_states(bandit: Bandit[Any], state: Any, capacity: int, layout: Layout) -> Any:
    """The states of the runs of a program with a larger capacity."""
    return _vmap(lambda bandit, state: bandit.grow(state, capacity), layout)(bandit, state)


def _vmap(function: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """A function of a bandit and other arguments, vmapped over the runs of a program. Only in a
    grid do the numbers of the bandit have an axis of runs."""
    if layout == "run":
        return function
    return lambda bandit, *rest: jax.vmap(
        function, in_axes=(0 if layout == "grid" else None, *[0] * len(rest))
    )(bandit, *rest)


def compiled_programs() -> int:
    """The number of programs that runs over arms have compiled in this process. Runs that differ
    only in their numbers or keys share a program."""
    programs: tuple[Any, ...] = (run_segment, start_runs)
    return sum(program._cache_size() for program in programs)


class Clock:
    """Wall time with and without compilation, and progress reports over several runs."""

    def __init__(self, on_progress: Callable[[int, float], None] | None):
        self.start_time = time.perf_counter()
        self.compile_seconds = 0.0
        self.on_progress = on_progress
        self.n_evaluations = 0

    @property
    def run_seconds(self) -> float:
        return time.perf_counter() - self.start_time - self.compile_seconds

    def compile(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a jitted function with arguments for which it makes no evaluation, so that all of
        its time is compilation."""
        start_time = time.perf_counter()
        result = jax.block_until_ready(function(*args))
        self.compile_seconds += time.perf_counter() - start_time
        return result

    def report(self, n_new: int) -> None:
        self.n_evaluations += n_new
        if self.on_progress is not None:
            self.on_progress(self.n_evaluations, self.run_seconds)


def larger_capacity(capacity: int, n_arms: int) -> int:
    """The capacity after an overflow: more than twice as large or, from LARGE_CAPACITY on, an
    eighth larger; at most the number of arms. Raises RuntimeError if `capacity` is that number."""
    if capacity >= n_arms:
        raise RuntimeError(
            f"the algorithm sets info.overflow at a capacity of {capacity} inducing points, which"
            f" holds all {n_arms} arms: `tell` must not set it where a larger capacity cannot help."
        )
    growth = CAPACITY_GROWTH if capacity < LARGE_CAPACITY else CAPACITY_GROWTH_LARGE
    grown = -(-int(capacity * growth) // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
    return max(min(grown, n_arms), capacity + 1)


def advance(
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    state: Any,
    horizon: int,
    layout: Layout,
    clock: Clock,
    steps: int,
    file: RunFile | None = None,
) -> Progress:
    """Runs one program to its horizon.

    bandit    an algorithm; its numbers have an axis [R] in a grid of R runs
    keys      one key in the layout "run", keys [R] in the others
    state     the initial state, with a leading axis [R] for keys [R]; None: `init` makes it
    layout    "run", "seeds" or "grid"
    steps     the approximate number of segments, at least SAVES with a file; progress is reported
              after each
    file      the file to which the run is saved, and from which it resumes

    A run whose flag `nonfinite` or `exhausted` is set ends before its horizon. In a grid the other
    runs continue; in the layout "seeds" all runs end with it.
    """
    vmapped = layout != "run"
    segment_length = max(1, horizon // max(steps, 1 if file is None else SAVES))

    grow = partial(grow_states, bandit, layout=layout)
    run_to = partial(run_segment, bandit, problem, keys, horizon=horizon, layout=layout)
    no_evaluation = jnp.asarray(0)  # `until` of a call that only compiles
    progress = clock.compile(start_runs, bandit, problem, keys, horizon, layout)
    if state is not None:
        # a copy, because `run_segment` reuses the memory of its argument
        progress = replace(progress, state=jax.tree.map(jnp.copy, replace(state, domain=None)))
    if file is not None and (content := file.load()) is not None:
        header, state_bytes = content
        before, n_arms = capacity_of(progress.state, vmapped), problem.arms.count
        capacity = file.whole_number(header, "capacity", most=max(before, n_arms))
        if capacity > before:
            progress = replace(progress, state=grow(progress.state, capacity=capacity))
        progress = jax.tree.map(jnp.asarray, file.restore(progress, state_bytes, n_arms))
        if np.any(progress.t > horizon):
            raise file.invalid("t", f"is {np.max(progress.t)}, and the horizon is {horizon}")
    progress = clock.compile(run_to, progress, no_evaluation)
    n_runs = keys.shape[0] if vmapped else 1
    until = n_reported = 0
    while True:
        until = min(horizon, max(until, int(np.min(progress.t))) + segment_length)
        progress = jax.block_until_ready(run_to(progress, jnp.asarray(until)))
        ended = np.asarray(progress.nonfinite | progress.exhausted)
        if layout != "grid" and ended.any():
            return progress
        if bool(np.any(progress.overflow)):
            capacity = capacity_of(progress.state, vmapped)
            larger = larger_capacity(capacity, problem.arms.count)
            state = grow(progress.state, capacity=larger)
            progress = replace(progress, state=state, overflow=jnp.zeros_like(progress.overflow))
            progress = clock.compile(run_to, progress, no_evaluation)
            continue
        if file is not None:
            capacity = capacity_of(progress.state, vmapped)
            file.save(progress, capacity=capacity, evaluations=np.asarray(progress.t).tolist())
        n_evaluations = int(np.sum(np.where(ended, horizon, np.minimum(progress.t, horizon))))
        clock.report(n_evaluations - n_reported)
        n_reported = n_evaluations
        if n_evaluations == n_runs * horizon:
            # only then, because the NaN of a run that ended early would stop `jax_debug_nans`
            return jax.jit(jax.vmap(up_to_end))(progress) if ended.any() else progress


def capacity_of(state: Any, vmapped: bool) -> int:
    """The capacity of a state (0 if it has none), whose leaves have a leading axis if `vmapped`."""
    one = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s) if vmapped else s, state)
    return getattr(one, "capacity", 0)
