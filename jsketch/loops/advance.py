"""Compiled runs in segments. Between segments the host enlarges capacities, saves the run and
reports progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsketch import devices, numerics
from jsketch.loops.capacities import larger_capacity
from jsketch.loops.rollouts import Progress, continue_run, grown, is_over_box, start
from jsketch.loops.saving import RunFile
from jsketch.loops.traces import no_value
from jsketch.results import Result
from jsketch.types import ArmProblem, PRNGKey

# Of runs over arms. The disabled passes take nearly half of the compile time, and programs that
# consist of matrix products are as fast without them (`scripts/bench`); those of optimisers over a
# box, which fit models, consist of small operations
COMPILER_OPTIONS = devices.EMITTERS | {"xla_llvm_disable_expensive_passes": True}

SAVES = 20  # the least number of times that a run is saved

# One run; the runs of one algorithm with several keys; or the runs of several algorithms that
# differ in their numbers, with one key each
Runs = Literal["one", "keys", "algorithms"]


def over_runs(function: Callable[..., Any], runs: Runs) -> Callable[..., Any]:
    """A function of an algorithm and other arguments, over runs. An accelerator computes the runs
    together, and a CPU one after the other. `lax.map` traces a run once, whereas a vmap of
    `rollouts.continue_run` traces it a second time to divide the runs."""
    if runs == "one" or numerics.on_accelerator():
        return vmapped(function, runs)

    def one_by_one(algorithm: Any, *rest: Any) -> Any:
        if runs == "algorithms":
            return lax.map(lambda arguments: function(*arguments), (algorithm, *rest))
        return lax.map(lambda arguments: function(algorithm, *arguments), rest)

    return one_by_one


def vmapped(function: Callable[..., Any], runs: Runs) -> Callable[..., Any]:
    """`over_runs` of runs that are computed together."""
    if runs == "one":
        return function
    over_algorithms = 0 if runs == "algorithms" else None
    return lambda algorithm, *rest: jax.vmap(function, in_axes=(over_algorithms, *[0] * len(rest)))(
        algorithm, *rest
    )


@partial(jax.jit, static_argnames=("horizon", "runs"))
def start_runs(algorithm: Any, problem: Any, keys: PRNGKey, horizon: int, runs: Runs) -> Progress:
    """The runs before their first evaluation."""
    return over_runs(lambda a, key: start(a, problem, key, horizon), runs)(algorithm, keys)


def _segment(
    algorithm: Any,
    problem: Any,
    keys: PRNGKey,
    progress: Progress,
    until: Any,
    horizon: int,
    runs: Runs,
) -> Progress:
    """Continues the runs from `progress` to evaluation `until`."""
    return over_runs(
        lambda a, key, progress: continue_run(a, problem, key, horizon, progress, until), runs
    )(algorithm, keys, progress)


# programs that continue runs over arms, and over a box
_compiled = partial(jax.jit, static_argnames=("horizon", "runs"), donate_argnames="progress")
run_segment = _compiled(_segment, compiler_options=COMPILER_OPTIONS)
run_box_segment = _compiled(_segment)


@partial(jax.jit, static_argnames=("capacity", "runs"))
def grow_runs(
    algorithm: Any, problem: ArmProblem, progress: Progress, capacity: int, runs: Runs
) -> Progress:
    """The runs with states of a larger capacity."""
    grow = partial(_grown_run, problem=problem, capacity=capacity)
    return over_runs(grow, runs)(algorithm, progress)


def _grown_run(algorithm: Any, progress: Progress, problem: ArmProblem, capacity: int) -> Progress:
    return grown(algorithm, problem, progress, capacity)


def compiled_programs() -> int:
    """The number of programs that runs have compiled in this process. Runs that differ only in
    their numbers or keys share a program."""
    programs: tuple[Any, ...] = (run_segment, run_box_segment, start_runs, grow_runs)
    return sum(program._cache_size() for program in programs)


class Report(NamedTuple):
    """How runs stand, for `run(on_report=)`.

    evaluations  int, of all runs so far
    seconds      float, wall time without compilation
    trace        the evaluations that every run has made, [t], or [S, t] over seeds, as NumPy arrays

    Example:

        run(bandit, problem, key, 100, reports=10, on_report=lambda report: print(report.metrics()))
    """

    evaluations: int
    seconds: float
    trace: Any

    @property
    def t(self) -> int:
        """Number of evaluations that every run has made."""
        return self.trace.y.shape[-1]

    def metrics(self) -> dict[str, float]:
        """What a logger records, as means over the seeds: evaluations (of all runs), seconds, best
        (the largest value so far), and, where regrets are known, simple_regret (the least regret so
        far) and cumulative_regret. What is not known, or not finite, is left out."""
        numbers: dict[str, Any] = dict(evaluations=self.evaluations, seconds=self.seconds)
        if self.t:
            numbers |= dict(
                best=np.mean(np.asarray(self.trace.best)[..., -1]),
                simple_regret=np.mean(np.asarray(self.trace.simple_regret)[..., -1]),
                cumulative_regret=np.mean(np.sum(self.trace.regret, -1)),
            )
        return {name: float(number) for name, number in numbers.items() if np.isfinite(number)}


class Clock:
    """Wall time with and without compilation, and progress reports over several runs."""

    def __init__(
        self,
        on_progress: Callable[[int, float], None] | None,
        on_report: Callable[[Report], None] | None = None,
    ):
        self.start_time = time.perf_counter()
        self.compile_seconds = 0.0
        self.on_progress = on_progress
        self.on_report = on_report
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

    def report(self, n_new: int, progress: Progress) -> None:
        self.n_evaluations += n_new
        if self.on_progress is not None:
            self.on_progress(self.n_evaluations, self.run_seconds)
        if self.on_report is not None:
            seconds, t = self.run_seconds, int(np.min(progress.t))
            part = (slice(None),) * np.ndim(progress.t) + (slice(t),)
            # a copy, because the next segment reuses the memory of the trace
            trace = jax.tree.map(lambda column: np.array(np.asarray(column)[part]), progress.trace)
            self.on_report(Report(self.n_evaluations, seconds, trace))


def advance(
    algorithm: Any,
    problem: Any,
    keys: PRNGKey,
    state: Any,
    horizon: int,
    runs: Runs,
    clock: Clock,
    steps: int,
    file: RunFile | None = None,
) -> Progress:
    """Runs to their horizon.

    algorithm  its numbers have an axis [R] if `runs` is "algorithms"
    problem    a problem over arms or over a box
    keys       one key if `runs` is "one", else keys [R]
    state      the initial state, with an axis [R] for R runs; None: `init` makes it
    runs       "one", "keys" or "algorithms"
    steps      the approximate number of segments, at least SAVES with a file; progress is reported
               after each
    file       the file to which the runs are saved, and from which they resume

    A run whose posterior is not finite, or whose algorithm has nothing to ask, ends before its
    horizon. With several algorithms the other runs continue; otherwise all runs end with it.
    """
    segment_length = max(1, horizon // max(steps, 1 if file is None else SAVES))
    options: dict[str, Any] = dict(runs=runs)
    grow = partial(grow_runs, algorithm, problem, **options)
    segment: Any = run_box_segment if is_over_box(problem) else run_segment
    n_arms = None if is_over_box(problem) else problem.arms.count
    run_to = partial(segment, algorithm, problem, keys, horizon=horizon, **options)
    progress = clock.compile(partial(start_runs, **options), algorithm, problem, keys, horizon)
    if state is not None:
        # a copy, because `run_segment` reuses the memory of its argument
        progress = replace(progress, state=jax.tree.map(jnp.copy, state))
    if file is not None and (content := file.load()) is not None:
        header, state_bytes = content
        before = capacity_of(progress.state, runs)
        capacity = file.whole_number(header, "capacity", most=max(before, n_arms or 0))
        if capacity > before:
            progress = grow(progress, capacity=capacity)
        progress = jax.tree.map(jnp.asarray, file.restore(progress, state_bytes, n_arms))
        if np.any(progress.t > horizon):
            raise file.invalid("t", f"is {np.max(progress.t)}, and the horizon is {horizon}")
    progress = clock.compile(run_to, progress, 0)
    n_runs = len(keys) if runs != "one" else 1
    until = n_reported = 0
    while True:
        until = min(horizon, max(until, int(np.asarray(progress.t).min())) + segment_length)
        progress = jax.block_until_ready(run_to(progress, until))
        results = np.asarray(progress.result)
        ended = (results != Result.RUNNING) & (results != Result.CAPACITY_EXCEEDED)
        if runs != "algorithms" and ended.any():
            return progress
        if (results == Result.CAPACITY_EXCEEDED).any():
            capacity = larger_capacity(capacity_of(progress.state, runs), problem.arms.count)
            progress = clock.compile(partial(grow, capacity=capacity), progress)
            progress = clock.compile(run_to, progress, 0)
            continue
        if file is not None:
            capacity = capacity_of(progress.state, runs)
            file.save(progress, capacity=capacity, evaluations=np.asarray(progress.t).tolist())
        n_evaluations = int(np.sum(np.where(ended, horizon, np.minimum(progress.t, horizon))))
        clock.report(n_evaluations - n_reported, progress)
        n_reported = n_evaluations
        if n_evaluations == n_runs * horizon:
            return _up_to_end(progress) if ended.any() else progress


def _up_to_end(progress: Progress) -> Progress:
    """The runs [R] with traces that are NaN and -1 from evaluation t on. On the host, because NaN
    in the output of a program would stop `jax_debug_nans`."""
    made = np.arange(progress.trace.y.shape[-1]) < np.asarray(progress.t)[:, None]

    def cut(column: Any) -> np.ndarray:
        rows = made.reshape(*made.shape, *[1] * (np.ndim(column) - 2))
        return np.where(rows, column, np.asarray(no_value(column.dtype)))

    return replace(progress, trace=jax.tree.map(cut, progress.trace))


def capacity_of(state: Any, runs: Runs) -> int:
    """The capacity of a state, or of the states of several runs; 0 if it has none."""

    def first(state: Any) -> Any:
        return state if runs == "one" else jax.tree.map(lambda leaf: leaf[0], state)

    return getattr(jax.eval_shape(first, state), "capacity", 0)
