"""Run times of the compiled bandits on this machine: medians of several runs, with compilation
counted apart.

scripts/bench                                  every benchmark
scripts/bench --only abalone compile           some of them
scripts/bench --accelerator                    the benchmarks of `experiments.bench.accelerator`
"""

import argparse
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.bench import accelerator
from experiments.bench.timing import show
from experiments.data import datasets
from experiments.results import environment, files, store
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB


class Task(NamedTuple):
    """An algorithm on a problem."""

    algorithm: str
    dataset: str  # "abalone", or "whitened": abalone with decorrelated features, a hard problem
    lengthscale: float
    noise_std: float
    regularization: float
    horizon: int
    seeds: int
    target: str  # of the project


# "whitened": A = 4177, d = 8, lengthscale 5; the sketch settles near m = 350.
TASKS = {
    "hard_2000": Task("bbkb_global", "whitened", 5.0, 0.025, 0.01, 2_000, 1, "run < 7 s"),
    "hard_10000": Task("bbkb_global", "whitened", 5.0, 0.025, 0.01, 10_000, 1, "run < 12 s"),
    "abalone": Task("bbkb_global", "abalone", 5.0, 0.01, 1e-4, 10_000, 1, "run < 1.2 s"),
    "abalone_seeds": Task(
        "bbkb_global", "abalone", 5.0, 0.01, 1e-4, 10_000, 10, "with compilation < 15 s"
    ),
    "small_seeds": Task(
        "bbkb_global", "abalone", 17.5, 0.01, 1e-4, 10_000, 10, "with compilation < 8 s"
    ),
    "local": Task("bbkb_global_local", "abalone", 5.0, 0.01, 1e-4, 10_000, 1, "no target"),
    "bkb": Task("bkb", "abalone", 5.0, 0.01, 1e-4, 2_000, 1, "run < 8 s"),
    "gp_ucb": Task("gp_ucb", "abalone", 5.0, 0.01, 1e-4, 2_000, 1, "run < 30 s"),
    "gp_bucb": Task("gp_bucb", "abalone", 5.0, 0.01, 1e-4, 2_000, 1, "run < 30 s"),
}
EXACT = {"gp_ucb": GPUCB, "gp_bucb": GPBUCB}


def load_problem(dataset: str, noise_std: float, data_dir: Path | None) -> Any:
    """The finite-arm problem of a benchmark: standardised features, decorrelated for "whitened",
    and rewards in [0, 1]."""
    features, mean_reward = datasets.preprocess(datasets.load("abalone", data_dir))
    if dataset == "whitened":
        left, _, _ = np.linalg.svd(features, full_matrices=False)
        features = left * np.sqrt(len(features))
    return problems.finite_arms(features, mean_reward, noise_std)


def make_bandit(task: Task, **options: Any) -> Any:
    """The algorithm of a task with the hyperparameters of the papers' experiments."""
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(task.lengthscale),
        regularization=task.regularization,
        noise_std=task.noise_std,
        norm_bound=1.0,
        delta=1 / task.horizon,
    )
    if task.algorithm in EXACT:
        return EXACT[task.algorithm](**common, **options)
    common["qbar"] = 2.0
    if task.algorithm == "bkb":
        return BKB(**common, **options)
    rule = "global_local" if task.algorithm.endswith("local") else "global"
    return BBKB(**common, ratio=2.0, rule=rule, **options)


def run_task(name: str, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Times one task; the first run in this process compiles."""
    problem = load_problem(task.dataset, task.noise_std, options.data_dir)
    bandit = make_bandit(task)
    keys = jax.random.split(jax.random.key(0), task.seeds)
    jax.clear_caches()
    first = loops.run(bandit, problem, keys, task.horizon)
    again = [loops.run(bandit, problem, keys, task.horizon) for _ in range(options.repeats)]
    ratio = loops.regret_ratio(first.trace.regret, problem.mean_reward)[:, -1]
    row: dict[str, Any] = dict(
        task=task._asdict(),
        run_seconds=statistics.median(r.run_seconds + r.compile_seconds for r in again),
        compile_seconds=first.compile_seconds,
        with_compilation=first.run_seconds + first.compile_seconds,
        dictionary_size=float(first.trace.dictionary_size[:, -1].mean()),
        batches=float(first.trace.round[:, -1].mean()) + 1,
        regret_ratio=float(ratio.mean()),
    )
    show(name, row, f"[{task.target}]")
    return row


def compile_times(options: argparse.Namespace) -> dict[str, float]:
    """Seconds to trace and compile one program of each algorithm, from cleared caches."""
    rows = {}
    for name in ("bkb", "bbkb_global", "bbkb_global_local"):
        task = TASKS["abalone"]._replace(algorithm=name)
        problem = load_problem(task.dataset, task.noise_std, options.data_dir)
        jax.clear_caches()
        result = loops.run(make_bandit(task, capacity=160), problem, jax.random.key(0), 10)
        rows[name] = result.compile_seconds
        before = loops.compiled_programs()
        other = task._replace(lengthscale=6.0, noise_std=0.02, regularization=4e-4)
        loops.run(make_bandit(other, capacity=160), problem, jax.random.key(1), 10)
        programs = loops.compiled_programs() - before
        row = dict(compile_seconds=rows[name], new_programs_for_other_numbers=programs)
        show(f"compile {name}", row, "[< 4 s, 0]")
    return rows


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_choices(parser, "--only", [*TASKS, "compile"], help="benchmarks to run")
    cli.add_shared(parser, repeats=3, data_dir=None)
    cli.add_out_file(parser)
    accelerator.add_options(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax(cached=False)
    rows: dict[str, Any] = {"environment": environment.provenance()}
    if options.accelerator:
        problem = load_problem("abalone", TASKS["abalone"].noise_std, options.data_dir)
        bandit = make_bandit(TASKS["abalone"], capacity=accelerator.CAPACITY)
        rows |= accelerator.run(options, problem, bandit)
    else:
        for name in options.only:
            if name == "compile":
                rows[name] = compile_times(options)
            else:
                rows[name] = run_task(name, TASKS[name], options)
    if options.out is not None:
        store.write_json(options.out, rows)


if __name__ == "__main__":
    main()
