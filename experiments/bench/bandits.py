"""Run times of the compiled bandits on this machine: medians of several runs without compilation,
which is measured separately.

scripts/bench                                  every benchmark
scripts/bench --only abalone bkb               some of them
scripts/bench --reference DIR                  also the authors' code
scripts/bench --accelerator                    the benchmarks of `experiments.bench.accelerator`

Every benchmark runs with a draw of the dictionary after every batch, and with a draw only when the
dictionary is larger than 1.25 times the expected size of a draw. DIR is a checkout of
luigicarratino/batch-bkb.
"""

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from experiments import cli
from experiments.bbkb_2020 import authors_code
from experiments.bench import accelerator
from experiments.bench.timing import seconds, show
from experiments.data import datasets
from experiments.results import store
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, BKB, Draw, Extend, FixedBKB, SketchedTS


class Task(NamedTuple):
    """An algorithm on a problem."""

    algorithm: str
    dataset: str  # or "whitened": abalone with decorrelated features, a hard problem
    lengthscale: float
    noise_std: float
    regularization: float
    horizon: int
    seeds: int = 1


# "whitened" has A = 4177, d = 8, lengthscale 5, and about 350 inducing points at the end
TASKS = {
    "hard_2000": Task("bbkb_global", "whitened", 5.0, 0.025, 0.01, 2_000),
    "hard_10000": Task("bbkb_global", "whitened", 5.0, 0.025, 0.01, 10_000),
    "abalone": Task("bbkb_global", "abalone", 5.0, 0.01, 1e-4, 10_000),
    "abalone_seeds": Task("bbkb_global", "abalone", 5.0, 0.01, 1e-4, 10_000, 10),
    "small_seeds": Task("bbkb_global", "abalone", 17.5, 0.01, 1e-4, 10_000, 10),
    "local": Task("bbkb_global_local", "abalone", 5.0, 0.01, 1e-4, 10_000),
    "bkb": Task("bkb", "abalone", 5.0, 0.01, 1e-4, 2_000),
}
DICTIONARIES = {"every batch": Draw(), "g = 0.25": Extend(0.25)}  # {label of the row: rule}


def load_problem(dataset: str, noise_std: float, data_dir: Path | None) -> Any:
    """The finite-arm problem of a benchmark: standardised features, decorrelated for "whitened",
    and rewards in [0, 1]."""
    name = "abalone" if dataset == "whitened" else dataset
    features, mean_reward = datasets.preprocess(datasets.load(name, data_dir))
    if dataset == "whitened":
        left_vectors, _, _ = np.linalg.svd(features, full_matrices=False)
        features = left_vectors * np.sqrt(len(features))  # columns of variance 1
    return problems.finite_arms(features, mean_reward, noise_std)


def make_bandit(task: Task, **options: Any) -> Any:
    """The algorithm of a task with the hyperparameters of the papers' experiments."""
    common: dict[str, Any] = dict(
        kernel=kernels.Gaussian(task.lengthscale),
        regularization=task.regularization,
        noise_std=task.noise_std,
        norm_bound=1.0,
        delta=1 / task.horizon,
        qbar=2.0,
    )
    if task.algorithm.startswith("bbkb"):
        rule = task.algorithm.removeprefix("bbkb_")
        return BBKB(**common, ratio=2.0, rule=rule, **options)
    classes: dict[str, Any] = dict(
        bkb=BKB, fixed_bkb=partial(FixedBKB, batch=10), sketched_ts=SketchedTS
    )
    return classes[task.algorithm](**common, **options)


def run_task(name: str, task: Task, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a task: one for each of DICTIONARIES, and with --reference one of the
    authors' code."""
    problem = load_problem(task.dataset, task.noise_std, options.data_dir)
    rows = []
    for label, dictionary in DICTIONARIES.items():
        rows.append(run_ours(task, problem, options.repeats, dictionary))
        rows[-1]["rule"] = label
        show(f"{name}, {label}", rows[-1])
    if options.reference is not None:
        authors_row = run_authors(task, problem, options)
        authors_seconds = authors_row["run_seconds"]
        for row in rows:
            for timing in ("run", "fresh_cache", "warm_cache"):
                row[f"authors_over_{timing}"] = authors_seconds / row[f"{timing}_seconds"]
        rows.append(authors_row)
        show(f"{name}, authors", authors_row)
    return rows


def run_ours(task: Task, problem: Any, repeats: int, dictionary: Any) -> dict[str, Any]:
    """The row of a task: seconds of the first run with an empty and with a filled compilation
    cache, seconds of later runs, which do not compile, and results."""
    bandit = make_bandit(task, dictionary=dictionary)
    keys = jax.random.split(jax.random.key(0), task.seeds)

    def run() -> tuple[Any, float]:
        began = time.perf_counter()
        result = loops.run(bandit, problem, keys, task.horizon)
        return result, time.perf_counter() - began

    first_runs = []
    with tempfile.TemporaryDirectory() as cache_folder:
        jax.config.update("jax_compilation_cache_dir", cache_folder)
        for _ in range(2):  # the first run fills the cache
            jax.clear_caches()
            compilation_cache.reset_cache()
            first_runs.append(run())
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    result, fresh_cache_seconds = first_runs[0]
    ratio = loops.regret_ratio(result.trace.regret, problem.mean_reward)[:, -1]
    return dict(
        task=task._asdict(),
        run_seconds=statistics.median(run()[1] for _ in range(repeats)),
        fresh_cache_seconds=fresh_cache_seconds,
        warm_cache_seconds=first_runs[1][1],
        compile_seconds=result.compile_seconds,
        dictionary_size=float(result.trace.dictionary_size[:, -1].mean()),
        batches=float(result.trace.round[:, -1].mean()) + 1,
        regret_ratio=float(ratio.mean()),
    )


def run_authors(task: Task, problem: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The row of the authors' code: seconds of all seeds in sequence, results of the last seed. It
    is timed once, because it takes minutes."""
    rule = task.algorithm.removeprefix("bbkb_")
    noise = dict(regularization=task.regularization, noise_std=task.noise_std)
    began = time.perf_counter()
    for seed in range(task.seeds):
        regret, size, batches = authors_code.run_authors(
            options.reference, problem, rule, task.lengthscale, task.horizon, seed, **noise
        )
    spent = time.perf_counter() - began
    return dict(run_seconds=spent, dictionary_size=size, batches=batches, regret_ratio=regret)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, prog="scripts/bench", repeats=3, data_dir=None, reference=None)
    cli.add_choices(parser, "--only", list(TASKS), help="benchmarks to run")
    accelerator_help = "the benchmarks of an accelerator, of which --parts chooses some"
    parser.add_argument("--accelerator", action="store_true", help=accelerator_help)
    cli.add_choices(parser, "--parts", ("seeds", "arms", "stream"))
    parser.add_argument("--small", action="store_true", help="tiny sizes of --accelerator")
    options = cli.parse_benchmark(parser)
    if options.small and not options.accelerator:
        parser.error("--small is an option of --accelerator.")
    rows: dict[str, Any] = {}
    if options.accelerator:
        problem = load_problem("abalone", TASKS["abalone"].noise_std, options.data_dir)
        bandit = make_bandit(TASKS["abalone"], capacity=accelerator.CAPACITY)
        accelerator.run(options, problem, bandit)
    else:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        matrix, product = jnp.ones((2_048, 2_048)), jax.jit(jnp.matmul)
        median, _ = seconds(lambda: product(matrix, matrix), repeats=9)
        rows["gemm_gflops"] = 2 * 2_048**3 / median / 1e9
        show("dense products", dict(gflops=rows["gemm_gflops"]))
        for name in options.only:
            rows[name] = run_task(name, TASKS[name], options)
            store.write_numbers(options.out, rows)
