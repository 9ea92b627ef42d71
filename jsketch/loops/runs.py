"""Compiled runs on the host, for one key or several, over arms or over a box. Over arms the
capacities grow automatically."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, devices, struct
from jsketch.bandits.core import sketched
from jsketch.loops.advance import Clock, advance, capacity_of, grow_states
from jsketch.loops.rollouts import BoxRun, Progress, Trace, rollout
from jsketch.loops.saving import SIMULATED_RUN, RunFile, lock_files, run_file
from jsketch.types import ArmProblem, Box, BoxOptimizer, PRNGKey, is_traced
from jsketch.warn import warn


@struct.dataclass
class Run:
    """A finished run over arms, or S of them. For S runs, all arrays except the domain of `state`
    have a leading seed axis."""

    trace: Trace
    state: Any
    truncated: Array  # [] or [S] bool
    imprecise: Array  # [] or [S] bool, as in `Progress`
    capacity: int = struct.field(pytree_node=False)  # largest capacity of the runs
    run_seconds: float = struct.field(pytree_node=False)  # wall time without compilation
    compile_seconds: float = struct.field(pytree_node=False)  # wall time of tracing and compiling

    def summary(self) -> dict[str, Any]:
        """The values that the repr shows; numbers are means over the seeds."""
        regret = np.asarray(self.trace.regret)
        values: dict[str, Any] = dict(evaluations=regret.shape[-1])
        if regret.ndim > 1:
            values |= dict(seeds=regret.shape[0])
        return values | dict(
            simple_regret=regret.min(-1).mean(),
            mean_regret=regret.mean(),
            dictionary_size=np.asarray(self.trace.dictionary_size)[..., -1].mean(),
            capacity=self.capacity,
            truncated=bool(np.any(self.truncated)),
            imprecise=bool(np.any(self.imprecise)),
            run_seconds=round(self.run_seconds, 3),
        )


@struct.checked_names
def run(
    algorithm: Any,
    problem: Any,
    key: PRNGKey,
    horizon: int,
    *,
    strategy: str | None = None,
    on_progress: Callable[[int, float], None] | None = None,
    reports: int = 1,
    states: Sequence[Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Any:
    """One run to evaluation `horizon`, or one for each of several keys.

    algorithm    an algorithm over arms or over a box
    problem      a problem over arms or over a box, as `rollout` takes it
    key          one key, or keys [S]
    horizon      int, evaluations of a run
    strategy     "vmap" runs all seeds at the same time (the default on an accelerator); "map" runs
                 one seed after the other with the same compiled program (the default on a CPU,
                 where a vmapped loop waits for its slowest seed). Both give the same picks, up to
                 arms that tie (`jsketch.types`). Several processes fill the cores of a CPU

    The other arguments are for runs over arms only.

    on_progress  a function of (evaluations so far, seconds without compilation), which is called
                 about `reports` times in a run, and more often with a checkpoint
    states       S states to start from, such as `init` returns for observed evaluations; None:
                 `init` is called for every key
    checkpoint   a file to which the run is saved about 20 times; the same call resumes from the
                 file. Several seeds of the strategy "map" have one file each: name.0, name.1, ...
                 Functions and classes are compared by name: an edited kernel or problem is not
                 noticed unless its attribute `checkpoint_tag`, a text, changes too

    Returns a `Run` over arms and a `BoxRun` over a box.

    Raises ValueError for static mistakes, and for a file that is of another run or version or that
    another process is writing; FloatingPointError if a reward of an arm is infinite or the
    posterior is not finite; RuntimeError if the algorithm returns an empty query before the
    horizon. Warns of batches that end at their capacity, and if rounding may have changed
    variances.

    Example:

        bandit = bandits.BBKB(kernels.Gaussian(1.0), noise_std=0.1)
        problem = problems.finite_arms(features, mean_reward, noise_std=0.1)
        result = run(bandit, problem, jax.random.split(jax.random.key(0), 3), 100)
        result.trace.regret.cumsum(1)  # [3, 100]
    """
    checks.horizon(horizon)
    checks.positive_integer(reports=reports)
    if strategy is not None:
        checks.choice(("vmap", "map"), strategy=strategy)
    vmapped = strategy == "vmap" or (strategy is None and devices.on_accelerator())
    # an untyped key is two uint32 numbers
    one_key = getattr(key, "ndim", 0) == (1 if getattr(key, "dtype", None) == jnp.uint32 else 0)
    keys = checks.one_key(key=key)[None] if one_key else checks.keys(key=key)
    if not hasattr(problem, "domain") and not hasattr(problem, "arms") and callable(problem):
        raise ValueError(
            "a function is maximised over a box as problems.on_box(function, box); a function alone"
            " was given."
        )
    if isinstance(getattr(problem, "domain", None), Box):
        arm_options = dict(on_progress=on_progress, states=states, checkpoint=checkpoint)
        if any(value is not None for value in arm_options.values()):
            names = ", ".join(arm_options)
            raise ValueError(f"{names} are for runs over arms; this one is over a box.")
        key = keys[0] if one_key else keys
        return _run_over_box(algorithm, problem, key, horizon, vmapped)
    n_seeds = keys.shape[0]
    checks.component("the algorithm", algorithm, pytree=True)
    checks.component("the problem", problem, pytree=True)
    if states is not None and (not isinstance(states, Sequence) or len(states) != n_seeds):
        given = len(states) if isinstance(states, Sequence) else f"a {type(states).__name__}"
        raise ValueError(f"states is a list of {n_seeds}, one for each key; {given} was given.")
    if on_progress is not None:
        checks.function_of("on_progress", on_progress, "evaluations, seconds")
    _check_start(algorithm, problem, horizon, states)
    algorithm = struct.numbers_in_dtype(algorithm, problem.arms.features.dtype)
    if states is None:
        algorithm = algorithm.with_initial_capacity(problem.arms, horizon)
    clock = Clock(on_progress)
    run_program = partial(advance, algorithm, problem, horizon=horizon, clock=clock, steps=reports)
    file_of = partial(_file, checkpoint, algorithm, problem, horizon)
    if vmapped:
        initial = None if states is None else _stack_states(algorithm, states)
        file = file_of(keys, initial)
        with lock_files([file]):
            progress = run_program(keys, initial, layout="seeds", file=file)
    else:
        progress = _run_one_by_one(algorithm, run_program, file_of, keys, states)
    seconds = clock.run_seconds
    _raise_flags(progress, horizon)
    capacity = capacity_of(progress.state, vmapped=True)
    if one_key:
        progress = _first_run(progress)
    return Run(
        trace=progress.trace,
        state=replace(progress.state, domain=problem.arms),
        truncated=progress.truncated,
        imprecise=progress.imprecise,
        capacity=capacity,
        run_seconds=seconds,
        compile_seconds=clock.compile_seconds,
    )


def _check_start(
    bandit: Any, problem: ArmProblem, horizon: int, states: Sequence[Any] | None
) -> None:
    """Raises ValueError for static mistakes, which `init` checks outside of jit, and for a horizon
    above `bandit.remaining(state)`, the number of evaluations that the algorithm can still make."""
    initial = bandit.init(problem.arms, jax.random.key(0), horizon=horizon)
    for state in states or []:
        checks.state(bandit, problem.arms, state)
    for state in states or [initial]:
        sketched.check_inducing_points_fit(state)
        remaining = bandit.remaining(state)
        if remaining is not None and int(remaining) < horizon:
            raise ValueError(
                f"horizon is {horizon}, but {type(bandit).__name__} evaluates no arm twice"
                f" (repeat=False), and {int(remaining)} are left: ask for a horizon of at most"
                f" {int(remaining)}, or let arms be repeated."
            )


def _file(
    path: str | os.PathLike[str] | None,
    bandit: Any,
    problem: ArmProblem,
    horizon: int,
    keys: PRNGKey,
    state: Any,
    number: int | None = None,
) -> RunFile | None:
    """The file of run `number` (None: of all runs), described by the keys [] or [S] and the initial
    `state` (None: `init` makes it). Returns None if the path is None."""
    if path is None:
        return None
    return run_file(
        path if number is None else f"{os.fspath(path)}.{number}",
        SIMULATED_RUN,
        keys,
        bandit=bandit,
        problem=problem,
        start="init" if state is None else replace(state, domain=None),
        horizon=horizon,
        dtype=str(problem.mean_reward.dtype),
        # other versions may round, and so pick, differently
        versions={name: version(name) for name in ("jsketch", "jax", "jaxlib")},
    )


def _run_one_by_one(
    bandit: Any,
    run_program: Callable[..., Progress],
    file_of: Callable[..., RunFile | None],
    keys: PRNGKey,
    states: Sequence[Any] | None,
) -> Progress:
    """Runs one seed after the other, with one file for each seed. `run_program` and `file_of` are
    `advance` and `_file` with the arguments that all runs share."""
    starts = [None] * len(keys) if states is None else list(states)
    run_numbers = [None] if len(keys) == 1 else range(len(keys))
    files = list(map(file_of, keys, starts, run_numbers))
    with lock_files(files):
        runs = [
            run_program(key, state, layout="run", file=file)
            for key, state, file in zip(keys, starts, files, strict=True)
        ]
    state = _stack_states(bandit, [p.state for p in runs])
    return replace(_stack(*[replace(p, state=None) for p in runs]), state=state)


def _stack_states(bandit: Any, states: Sequence[Any]) -> Any:
    """The states with a leading seed axis and no domain, all at the largest capacity."""
    states = [replace(state, domain=None) for state in states]
    capacities = [capacity_of(state, vmapped=False) for state in states]
    largest = max(capacities)
    return _stack(
        *[
            state if capacity == largest else grow_states(bandit, state, largest, "run")
            for state, capacity in zip(states, capacities, strict=True)
        ]
    )


_stack = jax.jit(lambda *trees: jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees))
_first_run = jax.jit(lambda tree: jax.tree.map(lambda leaf: leaf[0], tree))


def _raise_flags(progress: Progress, horizon: int) -> None:
    """Raises an error or warns if a flag of the finished runs is set."""
    if bool(np.any(progress.exhausted)):
        raise RuntimeError(
            f"the run stopped after {int(np.min(progress.t))} of {horizon} evaluations: the"
            " algorithm returned an empty query. Use a smaller horizon."
        )
    if bool(np.any(progress.nonfinite)):
        raise FloatingPointError(
            "the run stopped: a reward was infinite, or the posterior or the width is no longer"
            " finite. A failed evaluation is NaN and never infinite; otherwise try float64 or a"
            " larger regularization."
        )
    if bool(np.any(progress.truncated)):
        warn(
            "a batch filled its capacity `max_batch` and ended there; a larger `max_batch` may need"
            " fewer rounds."
        )
    if bool(np.any(progress.imprecise)):
        warn_of_imprecision()


def warn_of_imprecision() -> None:
    """Warns that `Info.imprecise` is set."""
    warn(
        "rounding may have changed variances by more than 0.1% of the largest (`info.imprecise`):"
        " near-duplicates are among the inducing points, or the regularization is small. Use"
        " float64, a larger regularization, or arms without near-duplicates."
    )


_box_run = partial(jax.jit, static_argnames="horizon")(rollout)


@partial(jax.jit, static_argnames="horizon")
def _box_runs(optimizer: BoxOptimizer, problem: Any, keys: PRNGKey, horizon: int) -> BoxRun:
    return jax.vmap(lambda key: rollout(optimizer, problem, key, horizon))(keys)


def _run_over_box(
    optimizer: Any, problem: Any, key: PRNGKey, horizon: int, vmapped: bool
) -> BoxRun:
    """The run over a box with one key, or the runs with keys [S]."""
    # outside of jit, `init` raises errors for static mistakes
    optimizer.init(problem.domain, jax.random.key(0), horizon=horizon)
    if key.ndim == 0:
        result = _box_run(optimizer, problem, key, horizon)
    elif vmapped:
        result = _box_runs(optimizer, problem, key, horizon)
    else:
        result = _stack(*[_box_run(optimizer, problem, one, horizon) for one in key])
    if is_traced(result.t):
        return result
    if int(jnp.min(result.t)) < horizon:
        raise RuntimeError(
            f"the run stopped after {int(jnp.min(result.t))} of {horizon} evaluations: the"
            " optimiser returned an empty query."
        )
    warn_of_nonfinite(result.info)
    return result


def warn_of_nonfinite(info: Any) -> bool:
    """Warns, and returns True, if the flag `nonfinite` of rounds over a box is set."""
    nonfinite = bool(np.any(getattr(info, "nonfinite", False)))
    if nonfinite:
        warn(
            "values, gradients or parameters of the model were not finite: the optimiser left them"
            " out and continued, and its choices may be poor (`GOInfo` counts what was left out)."
        )
    return nonfinite
