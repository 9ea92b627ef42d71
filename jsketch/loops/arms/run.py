"""Runs on the host: rollouts whose capacity grows when a dictionary would not fit, over seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from jsketch import checks, struct
from jsketch.bandits.core import sketched
from jsketch.loops.arms import over_devices
from jsketch.loops.arms.advance import Clock, advance, capacity_of
from jsketch.loops.arms.checkpoint import Checkpoint, numbered, open_checkpoint
from jsketch.loops.arms.rollout import Progress, Trace
from jsketch.loops.inputs import (
    check_bandit,
    check_horizon,
    check_keys,
    check_problem,
    check_started,
    check_state,
)
from jsketch.loops.saving.resume import locked
from jsketch.types import ArmProblem, Bandit, PRNGKey, attach, detach, enlarged
from jsketch.warn import warn


@struct.dataclass
class Run:
    """A finished run, or S of them (then the arrays have a leading seed axis; the domain in `state`
    has none)."""

    trace: Trace
    state: Any
    truncated: Array  # [] or [S] bool
    imprecise: Array  # [] or [S] bool, as in `Progress`
    capacity: int = struct.field(pytree_node=False)  # largest capacity that was needed
    run_seconds: float = struct.field(pytree_node=False)  # wall time without compilation
    compile_seconds: float = struct.field(pytree_node=False)  # wall time of tracing and compiling


def _raise_flags(progress: Progress, horizon: int) -> None:
    if bool(np.any(progress.exhausted)):
        raise RuntimeError(
            f"the run stopped after {int(np.min(progress.t))} of {horizon} evaluations: the"
            " algorithm asked for nothing"
            " more. Ask for a smaller horizon."
        )
    if bool(np.any(progress.nonfinite)):
        raise FloatingPointError(
            "the run stopped: a reward was infinite, or the posterior or the width is no longer"
            " finite. An infinite reward is refused (tell NaN for a failed evaluation); otherwise"
            " try float64 or a larger regularization."
        )
    if bool(np.any(progress.truncated)):
        warn(
            "a batch filled its capacity `max_batch` and was ended there; a larger one may need"
            " fewer rounds.",
        )
    if bool(np.any(progress.imprecise)):
        warn_of_imprecision()


def warn_of_imprecision() -> None:
    """What `Info.imprecise` means, once for a whole run."""
    warn(
        "rounding may have changed variances by more than 0.1% of the largest (`info.imprecise`):"
        " near-duplicates are among"
        " the inducing points, or the regularization is small. Use float64, a larger"
        " regularization, or arms without them."
    )


def _stacked(bandit: Bandit[Any], states: Sequence[Any]) -> Any:
    """States with a leading seed axis and no domain, all at the largest of their capacities."""
    states = [detach(state) for state in states]
    capacity = max(capacity_of(state, False) for state in states)
    if capacity:
        states = [enlarged(bandit, state, capacity) for state in states]
    return _stack(*states)


@jax.jit
def _stack(*trees: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.jit
def _first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _validate(
    bandit: Bandit[Any], problem: ArmProblem, horizon: int, states: Sequence[Any] | None
) -> None:
    """Static mistakes on the host, before anything is traced: `init` raises them. A horizon beyond
    the evaluations that an algorithm can still ask for, by its method `remaining(state)` if it has
    one (None: any number), is one."""
    check_horizon(horizon)
    check_bandit(bandit)
    check_problem(problem)
    state = bandit.init(problem.arms, jax.random.key(0))
    check_started(bandit, state)
    for begin in [state] if states is None else states:
        if states is not None:
            check_state(bandit, problem.arms, begin)
        sketched.check_whole(begin)
        left = bandit.remaining(begin) if hasattr(bandit, "remaining") else None
        if left is not None and int(left) < horizon:
            raise ValueError(
                f"horizon is {horizon}, but {type(bandit).__name__} evaluates no arm twice"
                " (repeat=False), and"
                f" {int(left)} are left: ask for a horizon of at most {int(left)}, or let arms be"
                " repeated."
            )


def run_seeds(
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    horizon: int,
    *,
    strategy: str | None = None,
    workers: int | None = None,
    on_progress: Callable[[int, float], None] | None = None,
    reports: int = 1,
    states: Sequence[Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    mesh: Mesh | None = None,
) -> Run:
    """S runs with keys [S], to evaluation `horizon` each; capacities grow by themselves.

    strategy "vmap" runs all seeds in one program (the default on an accelerator); "threads" runs a
    program of one seed on `workers` cores at a time (the default on a CPU, where a vmapped loop
    waits for its slowest seed). Both give the same picks, up to arms that tie (`jsketch.types`).

    states: S states to start from, such as `init` makes of observed evaluations; by default `init`
    is called for every key. on_progress(evaluations so far, seconds without compilation) is called
    `reports` times a run.

    checkpoint: a file that the run is written to every `every` evaluations (by default a 20th of
    the horizon) and resumes from when it is called again with the same arguments. Several seeds on
    threads have a file each, numbered name.0, name.1.
    Functions and classes are compared by name: an edited kernel or problem is not noticed unless
    its attribute `checkpoint_tag`, a text, changes too.

    mesh: devices that share the seeds, whatever its axes are called: each runs its part in one
    program, and waits for no other. Where the devices do not divide S, some repeat the last seed;
    `on_progress` counts that too, nothing else does.

    Raises ValueError on static mistakes (a horizon beyond the arms of an algorithm that repeats
    none is one), and for a file of another run or another version or one that another process is
    writing; FloatingPointError when a reward is infinite or the posterior not finite; RuntimeError
    when the algorithm asks for nothing more before the horizon.
    """
    checks.capacity(reports=reports, **({} if workers is None else {"workers": workers}))
    if strategy not in (None, "vmap", "threads"):
        raise ValueError(f'strategy must be "vmap", "threads" or None; {strategy!r} was given.')
    keys = check_keys(
        keys, 1, "run_seeds takes an array of keys [S], such as jax.random.split(key, 10)"
    )
    if keys.shape[0] < 1:
        raise ValueError("run_seeds needs at least one key; an empty array was given.")
    if states is not None and not isinstance(states, Sequence):
        raise ValueError(f"states is a list of states; a {type(states).__name__} was given.")
    if states is not None and len(states) != keys.shape[0]:
        raise ValueError(
            f"there are {keys.shape[0]} keys and {len(states)} states: one state a key."
        )
    if mesh is not None:
        over_devices.check(mesh, strategy, problem.arms)
    if on_progress is not None:
        checks.function_of("on_progress", on_progress, "evaluations, seconds")
    _validate(bandit, problem, horizon, states)
    clock = Clock(on_progress)
    one = partial(advance, bandit, problem, horizon=horizon, clock=clock, steps=reports)
    kept = partial(open_checkpoint, every=every, bandit=bandit, problem=problem, horizon=horizon)
    if mesh is not None:
        filled, begins = over_devices.filled(keys, states, mesh)
        one = partial(one, mesh=mesh)
        progress = _in_one_program(bandit, one, kept, filled, begins, checkpoint)
        progress = jax.tree.map(lambda leaf: leaf[: keys.shape[0]], progress)
    elif strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu"):
        progress = _in_one_program(bandit, one, kept, keys, states, checkpoint)
    else:
        if problem.arms.shard is not None:
            # two programs that wait for each other's devices would wait for ever
            workers = 1
        progress = _on_threads(bandit, one, kept, keys, states, checkpoint, workers)
    seconds = clock.run_seconds
    _raise_flags(progress, horizon)
    return Run(
        trace=progress.trace,
        state=attach(progress.state, problem.arms),
        truncated=progress.truncated,
        imprecise=progress.imprecise,
        capacity=capacity_of(progress.state, True),
        run_seconds=seconds,
        compile_seconds=clock.compile_seconds,
    )


def _in_one_program(
    bandit: Bandit[Any],
    one: Callable[..., Progress],
    kept: Callable[..., Checkpoint | None],
    keys: PRNGKey,
    states: Sequence[Any] | None,
    checkpoint: str | os.PathLike[str] | None,
) -> Progress:
    """All seeds vmapped, kept in one file. `one` is `advance` and `kept` is `open_checkpoint`, but
    for keys and state."""
    begin = None if states is None else _stacked(bandit, states)
    file = kept(checkpoint, keys=keys, state=begin)
    with locked([] if file is None else [file.path]):
        return one(keys, begin, over="seeds", kept=file)


def _on_threads(
    bandit: Bandit[Any],
    one: Callable[..., Progress],
    kept: Callable[..., Checkpoint | None],
    keys: PRNGKey,
    states: Sequence[Any] | None,
    checkpoint: str | os.PathLike[str] | None,
    workers: int | None,
) -> Progress:
    """A program of one seed on each of the workers, each seed kept in a file of its own; `one` and
    `kept` as above."""
    begins = [None] * len(keys) if states is None else list(states)
    paths = [checkpoint] if len(keys) == 1 else numbered(checkpoint, len(keys))
    files = [
        kept(path, keys=key, state=begin)
        for path, key, begin in zip(paths, keys, begins, strict=True)
    ]

    def of_seed(key: PRNGKey, begin: Any, file: Checkpoint | None) -> Progress:
        return one(key, begin, over="run", kept=file)

    held = [file.path for file in files if file is not None]
    with locked(held), ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        runs = list(pool.map(of_seed, keys, begins, files))
    grown = _stacked(bandit, [p.state for p in runs])
    return replace(_stack(*[replace(p, state=None) for p in runs]), state=grown)


def run(
    bandit: Bandit[Any], problem: ArmProblem, key: PRNGKey, horizon: int, **options: Any
) -> Run:
    """One run; options, capacities and errors as in `run_seeds`."""
    key = check_keys(
        key, 0, "run takes one key, such as jax.random.key(0); `run_seeds` takes several"
    )
    result = run_seeds(bandit, problem, key[None], horizon, **options)
    first = _first(replace(result, state=detach(result.state)))
    return replace(first, state=attach(first.state, problem.arms))
