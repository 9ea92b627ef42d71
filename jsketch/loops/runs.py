"""Compiled runs on the host, for one key or several, over arms or over a box. Over arms the
capacities grow automatically."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks, components, struct
from jsketch.box.go_ucb.own_model import warn_of_misfit
from jsketch.box.history import checked_box
from jsketch.loops.advance import Clock, Report, Runs, advance, capacity_of
from jsketch.loops.capacities import with_initial_capacity
from jsketch.loops.describe import describe
from jsketch.loops.failures import warn_of_failures
from jsketch.loops.rollouts import Progress, is_over_box
from jsketch.loops.saving import SIMULATED_RUN, RunFile, lock_files, run_file
from jsketch.loops.traces import BoxTrace, Trace
from jsketch.results import must_grow
from jsketch.types import Algorithm, Arms, PRNGKey
from jsketch.warn import warn

IMPRECISE = 1e-3  # a larger relative error of variances, estimated after a run, causes a warning


@struct.dataclass
class Run:
    """A finished run over arms or over a box, or S of them. For S runs, all arrays have a leading
    seed axis.

    trace            the evaluations, a `Trace` over arms and a `BoxTrace` over a box
    state            the last state of the algorithm
    capacity         largest capacity of the runs; 0 if the state has none
    run_seconds      wall time without compilation
    compile_seconds  wall time of tracing and compiling
    settings         pairs (name, value) of the algorithm, its numbers, the problem and the horizon
    """

    trace: Any
    state: Any
    capacity: int = struct.field(pytree_node=False)
    run_seconds: float = struct.field(pytree_node=False)
    compile_seconds: float = struct.field(pytree_node=False)
    settings: tuple[tuple[str, Any], ...] = struct.field(pytree_node=False, default=())

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows; numbers are means over the seeds."""
        trace, y = self.trace, np.asarray(self.trace.y)
        values: dict[str, Any] = dict(evaluations=y.shape[-1])
        if y.ndim > 1:
            values |= dict(seeds=y.shape[0])
        if not np.isfinite(y).all():
            values |= dict(failed=int((~np.isfinite(y)).sum()))
        regret = np.asarray(trace.regret)
        if not np.isnan(regret).all():
            simple_regret = np.asarray(trace.simple_regret)[..., -1].mean()
            values |= dict(simple_regret=simple_regret, mean_regret=regret.mean())
        if isinstance(trace, BoxTrace):
            values |= dict(best=np.asarray(trace.best)[..., -1].mean())
            if y.ndim == 1:
                best = np.argmax(np.where(np.isfinite(y), y, -np.inf))
                values |= dict(best_x=np.asarray(trace.x)[best])
        else:
            sizes = np.asarray(trace.dictionary_size)[..., -1]
            values |= dict(dictionary_size=sizes.mean(), capacity=self.capacity)
        return values | dict(run_seconds=round(self.run_seconds, 3))

    def to_frame(self) -> Any:
        """`trace.to_frame()`, a DataFrame with a row for each evaluation of each seed. Raises
        ImportError without pandas."""
        return self.trace.to_frame()

    def to_xarray(self) -> Any:
        """`trace.to_xarray()`, a Dataset [seed, t] or [t], with the settings as its attributes.
        Raises ImportError without xarray."""
        # files of xarray hold numbers and texts
        plain = {
            name: value if type(value) in (int, float, str) else repr(value)
            for name, value in self.settings
        }
        return self.trace.to_xarray(**plain)


@struct.checked_names
def run(
    algorithm: Any,
    problem: Any,
    key: PRNGKey,
    horizon: int,
    *,
    on_progress: Callable[[int, float], None] | None = None,
    on_report: Callable[[Report], None] | None = None,
    reports: int = 1,
    states: Sequence[Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Run:
    """One run to evaluation `horizon`, or one for each of several keys.

    algorithm    an algorithm over arms or over a box
    problem      a problem over arms or over a box, as `rollout` takes it
    key          one key, or keys [S]
    horizon      int, evaluations of a run

    All keys share one compiled program. On a CPU it computes the runs one after the other, because
    a vmapped loop waits for its slowest run, and on an accelerator at the same time. Both give the
    same picks, up to arms that tie (`jsketch.types`). Several processes fill the cores of a CPU.

    on_progress  a function of (evaluations so far, seconds without compilation), which is called
                 about `reports` times in a run, and more often with a checkpoint
    on_report    a function of a `Report`, called at the same times, which has the evaluations so
                 far: for loggers, and pictures of a run that goes on
    reports      int, number of reports
    states       over arms, S states to start from, such as `init` returns for observed evaluations;
                 None: `init` is called for every key
    checkpoint   a file to which the runs are saved about 20 times; the same call resumes from it.
                 Functions and classes are compared by name: an edited kernel or problem is not
                 noticed unless its attribute `checkpoint_tag`, a text, changes too

    Returns a `Run`, whose `trace` is a `Trace` over arms and a `BoxTrace` over a box.

    Raises ValueError for static mistakes, and for a file that is of another run or version or that
    another process is writing; FloatingPointError if a reward of an arm is infinite or the
    posterior is not finite; RuntimeError if the algorithm returns an empty query before the
    horizon. Warns of batches that end at their capacity, of arms that were left out because they
    fail (`loops.failures`), if rounding may have changed variances, and over a box if a model is
    not finite.

    Example:

        bandit = bandits.BBKB(kernels.Gaussian(1.0), noise_std=0.1)
        problem = problems.finite_arms(features, mean_reward, noise_std=0.1)
        result = run(bandit, problem, jax.random.split(jax.random.key(0), 3), 100)
        result.trace.regret.cumsum(1)  # [3, 100]
        result.to_frame()  # a row for each of the 300 evaluations
    """
    checks.horizon(horizon)
    checks.positive_integer(reports=reports)
    # an untyped key is two uint32 numbers
    one_key = getattr(key, "ndim", 0) == (1 if getattr(key, "dtype", None) == jnp.uint32 else 0)
    key = checks.one_key(key=key) if one_key else checks.keys(key=key)
    if not hasattr(problem, "domain") and not hasattr(problem, "arms") and callable(problem):
        raise ValueError(
            "a function is maximised over a box as problems.on_box(function, box); a function alone"
            " was given."
        )
    for name, function, arguments in (
        ("on_progress", on_progress, "evaluations, seconds"),
        ("on_report", on_report, "report"),
    ):
        if function is not None:
            checks.function_of(name, function, arguments)
    checks.component("the algorithm", components.ALGORITHM, algorithm, pytree=True)
    n_runs = 1 if one_key else len(key)
    runs: Runs = "one" if one_key else "keys"
    settings = _settings(algorithm, problem, horizon)
    if is_over_box(problem):
        if states is not None:
            raise ValueError("states are for runs over arms; this one is over a box.")
        dtype, state = checked_box(problem.domain).lower.dtype, None
        algorithm = struct.numbers_in_dtype(algorithm, dtype)
        # outside of jit, `init` raises errors for static mistakes
        algorithm.init(problem.domain, jax.random.key(0), horizon=horizon)
    else:
        checks.component("the problem", components.PROBLEM, problem, pytree=True)
        arms, dtype = problem.arms, problem.mean_reward.dtype
        if states is not None and (not isinstance(states, Sequence) or len(states) != n_runs):
            given = len(states) if isinstance(states, Sequence) else f"a {type(states).__name__}"
            raise ValueError(f"states is a list of {n_runs}, one for each key; {given} was given.")
        algorithm = struct.numbers_in_dtype(algorithm, arms.features.dtype)
        _check_start(algorithm, arms, horizon, states)
        if states is None:
            algorithm, state = with_initial_capacity(algorithm, arms, horizon, n_runs), None
        else:
            state = states[0] if one_key else _stacked(algorithm, arms, states)
    clock = Clock(on_progress, on_report)
    file = _file(checkpoint, algorithm, problem, horizon, key, state, dtype)
    with lock_files([file]):
        progress = advance(algorithm, problem, key, state, horizon, runs, clock, reports, file)
    seconds = clock.run_seconds
    raise_result(progress, horizon)
    if isinstance(progress.trace, BoxTrace):
        warn_of_nonfinite(progress.trace.info)
        warn_of_misfit(progress.state)
    else:
        warn_of_full_batches(algorithm, progress.trace)
        warn_of_failures(progress.trace.arm, progress.trace.y, arms.count)
        warn_of_imprecision(algorithm, progress.state, arms, over_runs=not one_key)
    return Run(
        trace=progress.trace,
        state=progress.state,
        capacity=capacity_of(progress.state, runs),
        run_seconds=seconds,
        compile_seconds=clock.compile_seconds,
        settings=settings,
    )


def _settings(algorithm: Any, problem: Any, horizon: int) -> tuple[tuple[str, Any], ...]:
    """The settings of a run, without the arrays of the problem. Lists become tuples, because the
    static fields of a pytree need a hash."""
    described = {f"algorithm.{name}": value for name, value in describe(algorithm).items() if name}
    settings = dict(algorithm=type(algorithm).__name__, **described)
    settings |= dict(problem=type(problem).__name__, horizon=horizon)
    return tuple((name, _hashable(value)) for name, value in settings.items())


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _check_start(algorithm: Any, arms: Arms, horizon: int, states: Sequence[Any] | None) -> None:
    """Raises ValueError for static mistakes, which `init` checks, and for a horizon above the
    number of evaluations that the algorithm can still make."""
    # traced, because the operations of `init` would be compiled one by one
    initial = jax.eval_shape(
        lambda key: algorithm.init(arms, key, horizon=horizon), jax.random.key(0)
    )
    for state in states or []:
        checks.state(algorithm, arms, state, initial)
    if type(algorithm).remaining is Algorithm.remaining:
        return
    for state in states or [algorithm.init(arms, jax.random.key(0), horizon=horizon)]:
        remaining = algorithm.remaining(state, arms)
        if remaining is not None and int(remaining) < horizon:
            raise ValueError(
                f"horizon is {horizon}, but {type(algorithm).__name__} evaluates no arm twice"
                f" (repeat=False), and {int(remaining)} are left: ask for a horizon of at most"
                f" {int(remaining)}, or let arms be repeated."
            )


def _file(
    path: str | os.PathLike[str] | None,
    algorithm: Any,
    problem: Any,
    horizon: int,
    key: PRNGKey,
    state: Any,
    dtype: Any,
) -> RunFile | None:
    """The file of the runs, described by the keys [] or [S], the initial `state` (None: `init`
    makes it) and the dtype of the computation. Returns None if the path is None."""
    if path is None:
        return None
    return run_file(
        path,
        SIMULATED_RUN,
        key,
        bandit=algorithm,
        problem=problem,
        start="init" if state is None else state,
        horizon=horizon,
        dtype=str(dtype),
        # other versions may round, and so pick, differently
        versions={name: version(name) for name in ("jsketch", "jax", "jaxlib")},
    )


def _stacked(algorithm: Any, arms: Arms, states: Sequence[Any]) -> Any:
    """The states with a leading axis, all at the largest capacity."""
    capacities = [getattr(state, "capacity", 0) for state in states]
    largest = max(capacities)
    same = [
        state if capacity == largest else algorithm.grow(state, arms, largest)
        for state, capacity in zip(states, capacities, strict=True)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *same)


def raise_result(progress: Progress, horizon: int) -> None:
    """Raises an error unless all runs have reached their horizon."""
    must_grow(
        progress.result,
        "the run stopped: a reward was infinite, or the posterior or the width is no longer finite."
        " A failed evaluation is NaN and never infinite; otherwise try float64 or a larger"
        " regularization.",
        f"the run stopped after {np.asarray(progress.t).min()} of {horizon} evaluations: the"
        " algorithm returned an empty query. Use a smaller horizon.",
    )


def warn_of_full_batches(algorithm: Any, trace: Trace) -> None:
    """Warns of batches that filled the capacity `max_batch` of the algorithm."""
    max_batch = getattr(algorithm, "max_batch", 1)
    if max_batch > 1 and bool((np.asarray(trace.batch_size) >= max_batch).any()):
        warn("a batch filled its capacity `max_batch`; a larger `max_batch` may need fewer rounds.")


def warn_of_imprecision(algorithm: Any, state: Any, arms: Arms, over_runs: bool = False) -> None:
    """Warns if rounding may have changed the variances of a state, or of the states [S] of several
    runs, by more than IMPRECISE times the largest variance."""
    if not getattr(algorithm, "may_be_imprecise", lambda *_: False)(state, IMPRECISE):
        return
    error = np.asarray(_imprecision(algorithm, state, arms, over_runs)).max()
    if error > IMPRECISE:
        warn(
            f"rounding may have changed variances by {error:.1g} of the largest: near-duplicates"
            " are among the inducing points, or the regularization is small. Use float64, a larger"
            " regularization, or arms without near-duplicates."
        )


@partial(jax.jit, static_argnames="over_runs")
def _imprecision(algorithm: Any, state: Any, arms: Arms, over_runs: bool) -> Any:
    if not over_runs:
        return algorithm.imprecision(state, arms)
    return jax.lax.map(lambda one: algorithm.imprecision(one, arms), state)


def warn_of_nonfinite(info: Any) -> bool:
    """Warns, and returns True, if the flag `nonfinite` of rounds over a box is set."""
    nonfinite = bool(np.any(getattr(info, "nonfinite", False)))
    if nonfinite:
        warn(
            "values, gradients or parameters of the model were not finite: the optimiser left them"
            " out and continued, and its choices may be poor (`left_out` of the infos of the rounds"
            " says what was left out)."
        )
    return nonfinite
