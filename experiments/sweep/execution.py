"""The runs of a sweep: few compiled programs for all configurations and seeds of an algorithm, and
a file for each finished run."""

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.results import environment, store
from experiments.runs import bandit_runs
from experiments.sweep.settings import Sweep
from jsketch import loops, numerics
from jsketch.loops.advance import Clock, advance
from jsketch.loops.capacities import with_initial_capacity
from jsketch.loops.rollouts import filled_trace
from jsketch.results import Result

REPORTS = 10  # number of progress reports of a run
# By `experiments.bench.seeds`, on two cores: worker processes need about so many more seconds, to
# start and to compile, and a run on one thread takes about so many times as long as on all cores
START_SECONDS, SLOWER_ON_ONE_THREAD = 6.0, 1.6
# the largest ratio of capacities that become one: a run with excess capacity is slower
SHARED_RATIO = 1.5


class Task(NamedTuple):
    """A run: a configuration, as its row in the sweep, and a seed."""

    row: int
    seed: int


class Job(NamedTuple):
    """The inputs of all runs of a sweep."""

    bandits: Sequence[Any]  # one for each row; those of an algorithm differ only in their numbers
    problems: Sequence[Any]  # one for each row, over arms or over a box
    mean_reward: Any  # [A], of uniform arms or points, and the largest one
    horizon: int
    folder: Path
    commit: str  # the code that makes the runs


# --- which way is the fastest (`experiments.bench.seeds`)


def is_vmapped(sweep: Sweep) -> bool:
    """Whether one program makes `sweep.chunk` runs. The strategy "auto" does so on an accelerator,
    unless the sweep uses a cluster."""
    if sweep.strategy != "auto":
        return sweep.strategy == "vmap"
    return numerics.on_accelerator() and not sweep.cluster


def processes(n_runs: int, seconds: float) -> int:
    """The number of processes in which `n_runs` runs of so many seconds on all cores end first: one
    for each core if they save more than START_SECONDS, else 1, as on an accelerator, which has one
    process."""
    most = min(environment.hardware()["cores"], n_runs)
    if most < 2 or numerics.on_accelerator():
        return 1
    saved = seconds * (n_runs - SLOWER_ON_ONE_THREAD * math.ceil(n_runs / most))
    return most if saved > START_SECONDS else 1


# --- which runs share a program


def with_shared_capacities(
    bandits: Sequence[Any], problems: Sequence[Any], horizon: int
) -> list[Any]:
    """The algorithms of configurations with capacities for their first inducing points. `loops.run`
    chooses a capacity by the expected size of the dictionary, which the kernel changes, and each
    one is another compiled program. Here those of an algorithm whose ratio is at most SHARED_RATIO
    are one. The picks are the same."""
    known: dict[Any, int | None] = {}
    capacities = []  # None for a configuration that stays as it is
    for bandit, problem in zip(bandits, problems, strict=True):
        settings = [getattr(bandit, name, None) for name in ("kernel", "regularization", "qbar")]
        numbers = tuple(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(settings))
        key = id(problem), jax.tree.structure(bandit), numbers
        if key not in known:
            known[key] = _new_capacity(bandit, problem, horizon)
        capacities.append(known[key])
    shared: dict[tuple[Any, int], int] = {}
    pairs = {(type(a), c) for a, c in zip(bandits, capacities, strict=True) if c is not None}
    for algorithm in {algorithm for algorithm, _ in pairs}:
        largest = 0
        for capacity in sorted((c for a, c in pairs if a is algorithm), reverse=True):
            if not capacity <= largest <= SHARED_RATIO * capacity:
                largest = capacity
            shared[algorithm, capacity] = largest
    return [
        bandit if c is None else dataclasses.replace(bandit, capacity=shared[type(bandit), c])
        for bandit, c in zip(bandits, capacities, strict=True)
    ]


def _new_capacity(bandit: Any, problem: Any, horizon: int) -> int | None:
    """The capacity that `loops.run` would choose in place of that of the algorithm; None if it
    would choose none, or fails, so that the run of this configuration names the cause."""
    if not hasattr(problem, "arms"):
        return None
    try:
        chosen = with_initial_capacity(bandit, problem.arms, horizon)
    except (ValueError, TypeError, np.linalg.LinAlgError):
        return None
    return None if chosen is bandit else int(chosen.capacity)


def path(folder: Path, task: Task) -> Path:
    """The file of one run."""
    return store.run_path(folder, name(task.row), task.seed)


def name(row: int) -> str:
    """The name of a configuration in the names of files."""
    return f"row{row:04d}"


def key(seed: int | jax.Array) -> jax.Array:
    """The key of a seed, the same in all rows, so that all configurations have the same noise."""
    return jax.random.fold_in(jax.random.key(0), seed)


def save(job: Job, task: Task, trace: Any, seconds: float, compile_seconds: float) -> None:
    """Writes a finished run; `trace` is None if the run failed because of a non-finite number. The
    curves of a failed run are NaN, so that a mean over seeds cannot leave it out."""
    if trace is None:
        saved = filled_trace(np.full(job.horizon, -1), np.full(job.horizon, np.nan))
    else:
        saved = trace
    arrays: dict[str, Any] = bandit_runs.saved_arrays(saved, job.mean_reward)
    arrays |= dict(
        final_simple_regret=np.asarray(np.asarray(saved.regret).min()),
        failed=np.asarray(trace is None),
        run_seconds=np.asarray(seconds),
        compile_seconds=np.asarray(compile_seconds),
        commit=np.asarray(job.commit),
    )
    store.write_npz(path(job.folder, task), arrays)


def execute(job: Job, task: Task, on_progress: Callable[[int, float], None] | None = None) -> None:
    """Makes and saves one run. All runs of a process share a compiled program."""
    try:
        run = loops.run(
            job.bandits[task.row],
            job.problems[task.row],
            key(task.seed),
            job.horizon,
            on_progress=on_progress,
            reports=REPORTS,
        )
    except FloatingPointError:
        save(job, task, trace=None, seconds=0.0, compile_seconds=0.0)
    else:
        save(job, task, run.trace, run.run_seconds, run.compile_seconds)


def run_vmapped(job: Job, tasks: Sequence[Task], chunk: int, bar: Any) -> None:
    """Executes the tasks in programs of `chunk` runs of one algorithm. The last chunk is padded
    with its last run. The capacity grows for all runs of a program if one of them needs it."""
    for _, group in itertools.groupby(
        tasks, lambda task: jax.tree.structure(job.bandits[task.row])
    ):
        _run_vmapped(job, list(group), chunk, bar)


def _run_vmapped(job: Job, tasks: Sequence[Task], chunk: int, bar: Any) -> None:
    """`run_vmapped` for the tasks of one algorithm."""
    problem = job.problems[tasks[0].row]
    chunk = min(chunk, len(tasks))
    for begin in range(0, len(tasks), chunk):
        chunk_tasks = tasks[begin : begin + chunk]
        padded_tasks = [*chunk_tasks, *[chunk_tasks[-1]] * (chunk - len(chunk_tasks))]
        started, before = time.perf_counter(), bar.n
        new = len(chunk_tasks) * job.horizon  # evaluations

        def report(evaluations: int, _: Any, before: int = before, new: int = new) -> None:
            # without padding; the last evaluation is counted when the runs are saved
            done = evaluations * new // (chunk * job.horizon)
            bar.update(before + min(done, new - 1) - bar.n)

        bandits = jax.tree.map(
            lambda *values: jnp.asarray(values), *[job.bandits[task.row] for task in padded_tasks]
        )
        keys = jax.vmap(key)(jnp.asarray([task.seed for task in padded_tasks]))
        settings: dict[str, Any] = dict(runs="algorithms", clock=Clock(report), steps=REPORTS)
        progress = advance(bandits, problem, keys, state=None, horizon=job.horizon, **settings)
        results = np.asarray(progress.result)
        if (results == Result.NOTHING_TO_ASK).any():
            raise ValueError(
                f"a run stopped after {int(progress.t.min())} of {job.horizon} evaluations: the"
                " algorithm returned an empty query. Use a smaller --horizon."
            )
        seconds = (time.perf_counter() - started) / len(chunk_tasks)
        for index, task in enumerate(chunk_tasks):
            trace = jax.tree.map(lambda a, index=index: a[index], progress.trace)
            save(job, task, None if results[index] == Result.NOT_FINITE else trace, seconds, 0.0)
        bar.update(before + new - bar.n)
