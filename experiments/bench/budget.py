"""A budget for the dictionary (THEORY 3.6): regret and CPU seconds with all the inducing points
that a run asks for, with half of them and with a quarter, and with a larger regularization in the
place of a budget.

python -m experiments.bench.budget --out results/budget.json
python -m experiments.bench.budget --only abalone --seeds 4 --parts full half

CPU seconds are those of the process, compilation left out: other work beside it matters less.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.bench.bandits import Task, load_problem, make_bandit
from experiments.results import environment, files, store, summaries
from jsketch import kernels, loops, problems
from jsketch.bandits import widths
from jsketch.loops.arms.advance import advance

# abalone as in `bench.bandits`, smooth with twice its lengthscale; random, which is generated:
# 20,000 standard normal arms, d = 8, a function of RKHS norm 1 (ten kernel functions)
TASKS = {
    "abalone": Task("bbkb_global", "abalone", 5.0, 0.01, 1e-4, 2_000, 10, ""),
    "smooth": Task("bbkb_global", "abalone", 10.0, 0.01, 1e-4, 2_000, 10, ""),
    "random": Task("bbkb_global", "random", 5.0, 0.025, 0.01, 1_000, 1, ""),
}
ARMS, INPUTS = 20_000, 8


class Part(NamedTuple):
    """What is changed."""

    share: float | None = None  # of the dictionary without a budget
    regularization: float = 1.0  # factor


PARTS = {
    "full": Part(),
    "half": Part(share=0.5),
    "quarter": Part(share=0.25),
    "regularization_x10": Part(regularization=10.0),
    "regularization_x100": Part(regularization=100.0),
}


class Clock:
    """What `advance` asks of a clock: CPU seconds, with compilation apart."""

    def __init__(self) -> None:
        self.began, self.compiling = time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        return time.process_time() - self.began - self.compiling

    def compile(self, function: Callable[..., Any], *args: Any) -> Any:
        began = time.process_time()
        result = jax.block_until_ready(function(*args))
        self.compiling += time.process_time() - began
        return result

    def report(self, evaluations: int) -> None:
        pass


class Found(NamedTuple):
    """What one run says."""

    regret_ratio: float  # R_T / R_T^unif
    cpu_seconds: float
    rounds: int
    dictionary_size: float  # largest
    certified_width: float  # `widths.certified` at the end
    budgeted: bool


def problem_of(task: Task, data_dir: str | None) -> Any:
    """The problem of a task."""
    if task.dataset != "random":
        return load_problem(task.dataset, task.noise_std, data_dir)
    features = jax.random.normal(jax.random.key(0), (ARMS, INPUTS))
    kernel = kernels.Gaussian(task.lengthscale)
    return problems.rkhs_draw(jax.random.key(1), kernel, features, task.noise_std)


def found(task: Task, problem: Any, seed: int, budget: int | None) -> Found:
    """One run under a budget; None for no limit."""
    bandit = make_bandit(task, max_dictionary=budget)
    clock: Any = Clock()
    progress = advance(
        bandit, problem, jax.random.key(seed), None, task.horizon, over="run", clock=clock, steps=1
    )
    seconds = clock.seconds
    evidence = progress.state.evidence
    ratio = loops.regret_ratio(progress.trace.regret, problem.mean_reward)[-1]
    return Found(
        regret_ratio=float(ratio),
        cpu_seconds=seconds,
        rounds=int(progress.round),
        dictionary_size=float(progress.trace.dictionary_size.max()),
        certified_width=float(widths.certified(evidence, widths.assumptions(bandit, bandit.ratio))),
        budgeted=bool(progress.budgeted),
    )


def measured(
    name: str, task: Task, seeds: int, data_dir: str | None, parts: list[str]
) -> dict[str, Any]:
    """A task with every change; shares are of the mean size without one, which is measured first
    and always."""
    problem = problem_of(task, data_dir)
    row: dict[str, Any] = dict(task=task._replace(seeds=seeds)._asdict())
    size = 0.0
    for part in ["full", *(part for part in parts if part != "full")]:
        share, factor = PARTS[part]
        budget = None if share is None else max(round(size * share), 1)
        changed = task._replace(regularization=task.regularization * factor)
        runs = [found(changed, problem, seed, budget) for seed in range(seeds)]
        columns = {
            field: np.array([float(getattr(run, field)) for run in runs]) for field in Found._fields
        }
        size = size or float(columns["dictionary_size"].mean())
        row[part] = dict(max_dictionary=budget) | {
            field: summaries.describe(values, ci=True) for field, values in columns.items()
        }
        ratio = columns["regret_ratio"]
        print(
            f"{name:8s} {part:20s} budget {budget or '-':>5}  m"
            f" {columns['dictionary_size'].mean():6.1f}"
            f"  regret ratio {ratio.mean():.4f} +- {summaries.ci95(ratio):.4f}  CPU"
            f" {columns['cpu_seconds'].mean():7.1f} s  rounds {columns['rounds'].mean():7.1f} "
            f" certified width {columns['certified_width'].mean():.3g}",
            flush=True,
        )
    return row


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=cli.count, help="of every problem; 10, 10 and 1 by default")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--horizon", type=cli.count, help="of every problem")
    parser.add_argument("--data-dir", help="folder of the data sets")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax()
    rows: dict[str, Any] = {"environment": environment.describe()}
    for name in options.only:
        task = TASKS[name]
        task = task._replace(horizon=options.horizon or task.horizon)
        seeds = options.seeds or task.seeds
        rows[name] = measured(name, task, seeds, options.data_dir, options.parts)
        if options.out is not None:
            store.write_json(options.out, rows)


if __name__ == "__main__":
    main()
