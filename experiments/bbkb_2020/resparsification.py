"""Compares two rules for drawing the dictionary: after every batch, as in the papers, or only when
the dictionary is larger than (1 + g) times the expected size of a draw (THEORY 3.6), for four g.

    python -m experiments.bbkb_2020.resparsification --seeds 10 --out out/resparsification.json

All rules have the same seeds. A row has R_T / R_T^unif, its difference from the papers' rule with a
standard error over seeds, the number of batches, the final dictionary size, the mean number of
rounds in which the dictionary shrinks, and the seconds of all seeds without compilation.
"""

import time
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.bench.bandits import Task, load_problem, make_bandit
from experiments.results import store, summaries
from jsketch import loops
from jsketch.bandits import Draw, Extend, widths

RULES: dict[str, Draw | Extend] = {
    "every batch": Draw(),
    "g = 0.1": Extend(0.1),
    "g = 0.25": Extend(0.25),
    "g = 0.5": Extend(0.5),
    "g = 1": Extend(1.0),
}


# (data set, lengthscale, capacity of the dictionary) of the papers' figures
PROBLEMS = (("abalone", 17.5, 128), ("abalone", 5.0, 256), ("cadata", 12.5, 256))
# algorithms with small batches have shorter horizons
HORIZONS = dict.fromkeys(("bbkb_global", "bbkb_global_local", "bbkb_theory"), 2_000)
HORIZONS |= dict(fixed_bkb=1_000, sketched_ts=1_000, bkb=500)
# {name: (task, capacity)}; the last two are the hard problem of the benchmarks
TASKS = {
    f"{data} l = {lengthscale:g}, {name}": (
        Task(name, data, lengthscale, 0.01, 1e-4, horizon),
        capacity,
    )
    for data, lengthscale, capacity in PROBLEMS
    for name, horizon in HORIZONS.items()
} | {
    f"hard, T = {horizon:,}": (Task("bbkb_global", "whitened", 5.0, 0.025, 0.01, horizon), 512)
    for horizon in (2_000, 6_000)
}


def measure(task: Task, capacity: int, problem: Any, keys: Any) -> dict[str, dict[str, float]]:
    """{rule: row} of the runs of a task. "bbkb_theory" is bbkb_global with the paper's width."""
    rows: dict[str, dict[str, float]] = {}
    papers_regret = np.zeros(len(keys))
    options: dict[str, Any] = dict(capacity=capacity)
    if task.algorithm == "bbkb_theory":
        task = task._replace(algorithm="bbkb_global")
        options["width"] = widths.bbkb_paper
    for rule, dictionary in RULES.items():
        start = time.perf_counter()
        bandit = make_bandit(task, dictionary=dictionary, **options)
        run = loops.run(bandit, problem, keys, task.horizon)
        seconds = time.perf_counter() - start - run.compile_seconds
        trace = run.trace
        regret = np.asarray(loops.regret_ratio(trace.regret, problem.mean_reward))[:, -1]
        sizes = np.asarray(trace.dictionary_size)
        if isinstance(dictionary, Draw):  # the first rule
            papers_regret = regret
        difference = regret - papers_regret
        error = difference.std(ddof=1) / np.sqrt(len(keys)) if len(keys) > 1 else np.nan
        row = dict(
            regret=regret.mean(),
            difference=difference.mean(),
            standard_error=error,
            batches=np.asarray(trace.round)[:, -1].mean() + 1,
            size=sizes[:, -1].mean(),
            # rounds in which the dictionary shrinks
            smaller=(np.diff(sizes, axis=1) < 0).sum(1).mean(),
            seconds=seconds,
        )
        rows[rule] = {name: float(value) for name, value in row.items()}
    return rows


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=10, data_dir=None)
    cli.add_choices(parser, "--tasks", list(TASKS))
    options = cli.parse_benchmark(parser, cached=True)
    keys = jax.random.split(jax.random.key(0), options.seeds)
    table: dict[str, Any] = {}
    for name in options.tasks:
        task, capacity = TASKS[name]
        problem = load_problem(task.dataset, task.noise_std, options.data_dir)
        table[name] = measure(task, capacity, problem, keys)
        summaries.print_table(name, table[name])
        store.write_numbers(options.out, dict(seeds=options.seeds, tasks=table))
