"""Time and memory of many seeds, and of a sweep with many seeds, computed in several ways.

python -m experiments.bench.seeds                          everything
python -m experiments.bench.seeds --only generated         one of the problems
python -m experiments.bench.seeds --small                  a few small runs

    abalone    Abalone (A = 4,177, d = 8), lengthscale 5, T = 1,000
    generated  GENERATED arms, A = 300, d = 4, lengthscale 3, T = 200

1, 8, 64 and 1,000 seeds of BBKB, and 20 seeds of each of 20 settings (5 lengthscales x 4 levels of
noise), are computed

    one by one      in one program of this process, one run after the other
    together        in one program, in which each step computes all runs
    two processes   as single runs in two worker processes of one thread each (`experiments.engine`)

Every measurement is one process, so that its peak memory is its own; that of worker processes is
added. Its compilation cache is empty. `run_seconds` are those of the runs alone, in worker
processes those of the busiest one, and `seconds` those until the last run has ended, with
compilation and the start of worker processes. A size is left out if, by the time or the memory of
the smaller sizes, it would take more than --limit seconds or more memory than there is. The
accelerator is not used (JAX_PLATFORMS=cpu): it computes all runs together.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli, demo, engine
from experiments.bench.bandits import TASKS, load_problem, make_bandit
from experiments.bench.timing import show
from experiments.data import datasets
from experiments.results import environment, store
from jsketch import devices, kernels, loops, problems
from jsketch.bandits import BBKB
from jsketch.loops import advance, rollouts

Row = dict[str, Any]
ONE_BY_ONE, TOGETHER, PROCESSES = "one by one", "together", "two processes"
WAYS = (ONE_BY_ONE, TOGETHER, PROCESSES)
WORKERS = engine.Workers(2)
# factors of the lengthscale and of the noise of the bandit, the settings of a sweep
FACTORS = (0.6, 0.8, 1.0, 1.5, 2.0), (0.5, 1.0, 2.0, 4.0)


class Size(NamedTuple):
    """How many runs there are."""

    lengthscales: int
    noises: int
    seeds: int

    @property
    def runs(self) -> int:
        return self.lengthscales * self.noises * self.seeds

    @property
    def label(self) -> str:
        settings = self.lengthscales * self.noises
        seeds = f"{self.seeds:,} seed{'s' * (self.seeds > 1)}"
        return seeds if settings == 1 else f"{settings} settings x {seeds}"


SIZES = tuple(Size(*size) for size in ((1, 1, 1), (1, 1, 8), (1, 1, 64), (1, 1, 1_000), (5, 4, 20)))
SMALL = tuple(Size(*size) for size in ((1, 1, 1), (1, 1, 2), (2, 2, 4)))


class Task(NamedTuple):
    """A run: the number of its setting, and its seed."""

    setting: int
    seed: int


class Case(NamedTuple):
    """The problem, the algorithm and the length of all runs."""

    problem: Any
    bandit: Any
    horizon: int


def load_abalone(small: bool, data_dir: Path | None) -> Case:
    task = TASKS["abalone"]._replace(horizon=20 if small else 1_000)
    problem = load_problem(task.dataset, task.noise_std, data_dir)
    return Case(problem, make_bandit(task), task.horizon)


def load_generated(small: bool, data_dir: Path | None) -> Case:
    noise, horizon = demo.NOISE_STD, 20 if small else 200
    problem = problems.finite_arms(*demo.generate(60 if small else 300), noise)
    bandit = BBKB(kernels.Gaussian(3.0), noise**2, noise_std=noise, delta=1 / horizon)
    return Case(problem, bandit, horizon)


CASES = {"abalone": load_abalone, "generated": load_generated}


def settings_of(bandit: Any, size: Size) -> list[Any]:
    """The algorithm with each setting, all numbers as floats, so that they share a program."""
    lengthscales, noises = (
        (1.0,) if count == 1 else factors[:count]
        for count, factors in zip(size[:2], FACTORS, strict=True)
    )
    return [
        bandit.replace(
            kernel=kernels.Gaussian(float(bandit.kernel.lengthscale * lengthscale)),
            noise_std=float(bandit.noise_std * noise),
        )
        for lengthscale, noise in product(lengthscales, noises)
    ]


def tasks_of(size: Size) -> list[Task]:
    return [
        Task(*pair) for pair in product(range(size.lengthscales * size.noises), range(size.seeds))
    ]


def key(seed: Any) -> jax.Array:
    return jax.random.fold_in(jax.random.key(0), seed)


def in_one_program(case: Case, size: Size) -> Row:
    """All runs in this process."""
    bandits, tasks = settings_of(case.bandit, size), tasks_of(size)
    keys = jax.vmap(key)(jnp.asarray([task.seed for task in tasks]))
    if len(bandits) == 1:
        result = loops.run(bandits[0], case.problem, keys, case.horizon)
        run_seconds, trace = result.run_seconds, result.trace
    else:  # as `scripts/sweep --strategy vmap`
        chosen = [bandits[task.setting] for task in tasks]
        stacked = jax.tree.map(lambda *values: jnp.asarray(values), *chosen)
        clock = advance.Clock(None)
        trace = advance.advance(
            stacked, case.problem, keys, None, case.horizon, "algorithms", clock, 1
        ).trace
        run_seconds = clock.run_seconds
    regret = loops.regret_ratio(trace.regret, case.problem.mean_reward)[:, -1]
    return dict(
        run_seconds=run_seconds,
        regret_ratio=float(regret.mean()),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


def one_run(case: Case, bandits: list[Any], task: Task) -> Row:
    """A single run, and the process that made it."""
    run = loops.run(bandits[task.setting], case.problem, key(task.seed), case.horizon)
    ratio = loops.regret_ratio(run.trace.regret, case.problem.mean_reward)[-1]
    return dict(
        process=os.getpid(),
        run_seconds=run.run_seconds,
        regret_ratio=float(ratio),
        memory=environment.peak_memory(),
    )


def in_processes(case: Case, size: Size) -> Row:
    """All runs in worker processes."""
    make = partial(one_run, case, settings_of(case.bandit, size))
    seconds: defaultdict[int, float] = defaultdict(float)  # of each process
    memory: defaultdict[int, int] = defaultdict(int)
    ratios = []
    for _, row in engine.each(make, tasks_of(size), WORKERS):
        seconds[row["process"]] += row["run_seconds"]
        memory[row["process"]] = max(memory[row["process"]], row["memory"])
        ratios.append(row["regret_ratio"])
    return dict(
        run_seconds=max(seconds.values()),
        regret_ratio=float(np.mean(ratios)),
        peak_gigabytes=(environment.peak_memory() + sum(memory.values())) / 1e9,
    )


def measure(options: argparse.Namespace) -> Row:
    """The row of the runs that `--point` names, measured in this process."""
    name, size, way = json.loads(options.point)
    size = Size(*size)
    case = CASES[name](options.small, options.data_dir)
    if way == TOGETHER:  # as on an accelerator: the runs are one vmapped loop
        rollouts.one_after_another = lambda function, *args: function(*args)
        advance.over_runs = advance.vmapped
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rounding, which is the same in all ways
        row = (in_processes if way == PROCESSES else in_one_program)(case, size)
    seconds = time.perf_counter() - began
    return dict(size=size, runs=size.runs, way=way, seconds=seconds, **row)


def in_new_process(name: str, size: Size, way: str, options: argparse.Namespace) -> Row | None:
    """`measure` in a new process with an empty compilation cache; None if it fails, for example
    because memory is used up."""
    command = [sys.executable, "-m", "experiments.bench.seeds"]
    command += ["--point", json.dumps([name, size, way])] + ["--small"] * options.small
    folder = datasets.find_folder(options.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    command += ["--data-dir", str(folder)]  # it may be in the cache folder, which is another one
    with tempfile.TemporaryDirectory() as cache:
        variables = os.environ | dict(XDG_CACHE_HOME=cache, JAX_PLATFORMS="cpu")
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=variables)
    if done.returncode:
        print(f"{name} {size.label} {way}: the process ended with {done.returncode}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def expected(rows: list[Row], size: Size) -> tuple[float, float]:
    """(run seconds, peak gigabytes) of another size, by the rows so far: the seconds of a run are
    those in the last row, and the memory is on the line through the first and the last row."""
    if not rows:
        return 0.0, 0.0
    runs = [row["runs"] for row in (rows[0], rows[-1])]
    seconds = rows[-1]["run_seconds"] * size.runs / runs[-1]
    memory = [row["peak_gigabytes"] for row in (rows[0], rows[-1])]
    slope = (memory[1] - memory[0]) / max(runs[1] - runs[0], 1)
    return seconds, memory[1] + slope * (size.runs - runs[1])


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """The rows of a problem."""
    rows: list[Row] = []
    available = (devices.memory() or np.inf) / 1e9
    for way in WAYS:
        mine: list[Row] = []
        for size in SMALL if options.small else SIZES:
            if size.runs == 1 and way != ONE_BY_ONE:  # one run is the same in all ways
                continue
            seconds, gigabytes = expected(mine, size)
            if seconds > options.limit or gigabytes > 0.8 * available:
                print(
                    f"{name} {size.label} {way}: left out, because it would take about"
                    f" {seconds:.0f} s and {gigabytes:.1f} GB",
                    flush=True,
                )
                continue
            row = in_new_process(name, size, way, options)
            if row is None:
                break
            mine.append(row)
            show(f"{name} {size.label} {way}", row)
        rows += mine
    return rows


def fastest(rows: list[Row], column: str) -> str:
    return min(rows, key=lambda row: row[column])["way"]


def table(name: str, rows: list[Row]) -> list[str]:
    """The lines of a Markdown table, with a row for each number of runs."""

    def cell(row: Row | None) -> str:
        if row is None:
            return "–"
        return (
            f"{row['seconds']:.3g} s ({row['run_seconds']:.3g} s), {row['peak_gigabytes']:.2g} GB"
        )

    lines = [[name, *WAYS, "ends first", "without compilation"]]
    lines.append(["---"] * len(lines[0]))
    for size in sorted({Size(*row["size"]) for row in rows}):
        by_way = {row["way"]: row for row in rows if Size(*row["size"]) == size}
        best = [fastest(list(by_way.values()), column) for column in ("seconds", "run_seconds")]
        lines.append([size.label, *(cell(by_way.get(way)) for way in WAYS), *best])
    return [f"| {' | '.join(cells)} |" for cells in lines]


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None)
    cli.add_choices(parser, "--only", list(CASES))
    parser.add_argument("--limit", type=float, default=600, help="seconds (default %(default)s)")
    parser.add_argument("--small", action="store_true", help="a few small runs")
    parser.add_argument("--point", help="measure one way, [problem, size, way] as JSON")
    jax.config.update("jax_platforms", "cpu")
    options = cli.parse_benchmark(parser, cached=True)
    if options.point:
        print(json.dumps(measure(options)))
        return
    measured: dict[str, Any] = {}
    for name in options.only:
        measured[name] = rows_of(name, options)
        store.write_numbers(options.out, measured)
    print("\nseconds until the last run has ended (those of the runs alone), peak memory")
    for name, rows in measured.items():
        print("", *table(name, rows), sep="\n")
