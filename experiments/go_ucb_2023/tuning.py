"""Figures 3 to 5 of the GO-UCB paper: cumulative regret in tuning three classifiers on three data sets.

    python -m experiments.go_ucb_2023.tuning --repetitions 5 --out results/go_ucb_2023/tuning

n = 5 uniform points, the same for all methods in a repetition, then T = 25 more. f* is the best accuracy that any of the
methods met in that classifier, data set and repetition, so regrets depend on which methods ran. The figures show the
mean, and 1.96 sd / sqrt(repetitions) at the end. What the paper does not state is listed under "chosen" in the saved
configuration.

Every evaluation is recorded in a table on disk (`--table`) and made once; an interrupted run goes on with what is missing.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pooch
import sklearn
from tqdm import tqdm

from experiments import cli
from experiments.arguments import add_out_folder, count
from experiments.compile_cache import use_compile_cache
from experiments.data import classifiers
from experiments.data.classifiers import MODELS, SOURCES
from experiments.data.datasets import describe
from experiments.figures import plots
from experiments.go_ucb_2023.synthetic import ALGORITHMS as OPTIMIZERS
from experiments.results import outputs, store, tidy
from jsketch.loops import drive_box

Config = dict[str, Any]
Run = dict[str, np.ndarray]
Regrets = dict[tuple[str, str], dict[str, np.ndarray]]  # [S, n + T] by (model, data) and method

N, T = 5, 25
ROOT_SEED = 0
ALGORITHMS = ("uniform", "go_ucb", "go_ucb_eq5", "gp_ei", "gp_pi", "gp_ucb", "turbo", "go_ucb_printed")
FIGURES = {"breast_cancer": 3, "australian": 4, "diabetes": 5}
TITLES = {
    "random_forest": "random forest",
    "mlp": "multi-layer perceptron",
    "gradient_boosting": "gradient boosting",
}
PAPER_BEND = 23  # evaluations after which TuRBO's regret bends in Figure 3b, as the text reads it
CHOSEN = [
    f"n = {N} and T = {T}, as for the paper's f1: its text mentions t = 23",
    "breast_cancer: Wisconsin (original), 683 complete rows without the id; the zeros of diabetes stay as they are",
    "one fold a repetition, the same for all methods: " + "; ".join(classifiers.PROTOCOL),
    "integers by floor over intervals of equal length; open ends are kept away from by a millionth of the range",
    "f*: the best of all methods of this run in a repetition, uniform included; nobody knows the true maximum",
    "a failed evaluation counts as accuracy 0 in regrets, and is never learned from",
    "the settings of all methods: as for the synthetic functions",
]


class Task(NamedTuple):
    """One run of one method."""

    model: str
    data: str
    algorithm: str
    repetition: int

    @property
    def label(self) -> str:
        return f"{self.model}-{self.data}-{self.algorithm}"


def configure(models: list[str], data: list[str], algorithms: list[str]) -> Config:
    """Everything that runs of these methods on these problems depend on."""
    return dict(
        n=N,
        T=T,
        root_seed=ROOT_SEED,
        scikit_learn=sklearn.__version__,
        spaces={model: [repr(one) for one in MODELS[model].space.hyperparameters] for model in models},
        sources={name: describe(SOURCES[name]) for name in data},
        optimizers={name: repr(OPTIMIZERS[name](N)) for name in algorithms},
        chosen=CHOSEN,
    )


def key_of(task: Task) -> jax.Array:
    """The same for all methods, so that they meet the same first points."""
    key = jax.random.key(ROOT_SEED)
    for number in (list(MODELS).index(task.model), list(SOURCES).index(task.data), task.repetition):
        key = jax.random.fold_in(key, number)
    return key


def run(task: Task, folder: Path, table: Path, data_dir: Path | None = None) -> None:
    """One run, saved, unless it is there already."""
    path = store.run_path(folder, task.label, task.repetition)
    if path.exists():
        return
    dataset = classifiers.load(task.data, data_dir)
    errors: list[str] = []

    def objective(hyperparameters: dict[str, Any]) -> float:
        outcome = classifiers.evaluate(task.model, dataset, task.repetition, hyperparameters, table)
        errors.append(outcome.error)
        return outcome.value

    space = MODELS[task.model].space
    driven = drive_box(
        OPTIMIZERS[task.algorithm](N), space.objective(objective), space.box, key_of(task), N + T
    )
    store.write_npz(path, dict(accuracy=driven.y, x=driven.x, errors=np.array(errors)))


def prepare() -> None:
    """What each process that runs tasks needs."""
    jax.config.update("jax_enable_x64", True)
    use_compile_cache()


def run_all(tasks: list[Task], folder: Path, table: Path, data_dir: Path | None, jobs: int) -> None:
    """All tasks, in this process or spread over `jobs` others."""
    for task in tasks:
        store.claim(folder, task.label, configure([task.model], [task.data], [task.algorithm]))
        classifiers.load(task.data, data_dir)  # what is wrong with the data is said before anything runs
    missing = [t for t in tasks if not store.run_path(folder, t.label, t.repetition).exists()]
    one = partial(run, folder=folder, table=table, data_dir=data_dir)

    def finished() -> Iterator[None]:
        if jobs == 1:
            yield from map(one, missing)
            return
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=prepare) as pool:
            try:
                with cli.interrupts_ignored():  # by the processes: this one ends them
                    futures = [pool.submit(one, task) for task in missing]
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool as error:
                raise ValueError(
                    "a process that was making runs ended abruptly: is there enough memory for --jobs of them? The same"
                    " command goes on with the runs that are missing."
                ) from error
            except BaseException:
                for child in multiprocessing.active_children():
                    child.terminate()
                raise

    with tqdm(total=len(tasks), initial=len(tasks) - len(missing), desc="tuning", unit="run") as bar:
        for _ in finished():
            bar.update()


def distance(row: Run) -> float:
    """The farthest that phase II went in any input, of length 10, from the best point of phase I."""
    best = np.argmax(np.nan_to_num(row["accuracy"][:N]))
    return float(np.abs(row["x"][N:] - row["x"][best]).max())


def summarise(runs: dict[str, list[Run]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(what summary.json says of one problem, regrets [S, n + T] by method).

    Raises ValueError if no evaluation succeeded: that is a mistake in the set-up and no result.
    """
    observed = {name: np.stack([row["accuracy"] for row in rows]) for name, rows in runs.items()}
    if not any(np.isfinite(values).any() for values in observed.values()):
        first = next(error for rows in runs.values() for row in rows for error in row["errors"] if error)
        raise ValueError(f"every evaluation failed; the first one: {first}")
    accuracy = {name: np.where(np.isfinite(values), values, 0.0) for name, values in observed.items()}
    best = np.max([values.max(1) for values in accuracy.values()], 0)
    regret = {name: best[:, None] - values for name, values in accuracy.items()}
    table = {
        name: dict(
            cumulative_regret=store.describe(regret[name].sum(1), ci=True),
            after_phase_one=store.describe(regret[name][:, N:].sum(1), ci=True),
            more_than_go_ucb=(
                store.describe(regret[name].sum(1) - regret["go_ucb"].sum(1), ci=True)
                if "go_ucb" in regret
                else None
            ),
            regret_per_step_until_23=store.describe(regret[name][:, N:PAPER_BEND].mean(1)),
            regret_per_step_after_23=store.describe(regret[name][:, PAPER_BEND:].mean(1)),
            best_accuracy=store.describe(accuracy[name].max(1), ci=True),
            improved_on_phase_one=int((accuracy[name].max(1) > accuracy[name][:, :N].max(1)).sum()),
            distance_from_phase_one=store.describe([distance(row) for row in runs[name]]),
            met_the_best=int((accuracy[name].max(1) == best).sum()),
            failed=int((~np.isfinite(observed[name])).sum()),
        )
        for name in runs
    }
    return dict(f_star=best.tolist(), n=N, T=T, algorithms=table), regret


def draw(folder: Path, regrets: Regrets, repetitions: int) -> None:
    """figure3.png to figure5.png: a figure for each data set, a panel for each classifier."""
    t = np.arange(1, N + T + 1)
    for data in dict.fromkeys(data for _, data in regrets):
        panels = {
            f"{TITLES[model]} (d = {len(MODELS[model].space.names)})": {
                name: (t, np.cumsum(values, 1)) for name, values in methods.items()
            }
            for (model, of), methods in regrets.items()
            if of == data
        }
        title = (
            f"{data.replace('_', ' ')}, mean and 1.96 sd / sqrt({repetitions}) of {repetitions} repetitions"
        )
        plots.tuning_panels(folder / f"figure{FIGURES[data]}.png", panels, N, title)


def rows(regrets: Regrets) -> list[tidy.Run]:
    """The runs for the tables."""
    t = np.arange(1, N + T + 1)
    return [
        tidy.Run(
            dict(problem=f"{model}-{data}", algorithm=name, n=N, T=T, root_seed=ROOT_SEED),
            repetition,
            dict(t=t, regret=regret, cumulative_regret=regret.sum()),
        )
        for (model, data), methods in regrets.items()
        for name, values in methods.items()
        for repetition, regret in enumerate(values)
    ]


def redraw(folder: Path) -> None:
    """The figures again, of the tables."""
    curves = tidy.load(folder).curves
    regrets: Regrets = {}
    for problem, part in curves.groupby("problem", observed=True, sort=False):
        model, data = str(problem).split("-")
        regrets[model, data] = {name: values for name, (_, values) in tidy.lines(part, "regret").items()}
    draw(folder, regrets, curves["seed"].nunique())


def print_table(summary: dict[str, Any]) -> None:
    """Problem by problem: cumulative regret, the difference to GO-UCB's, and the best accuracy found."""

    def interval(numbers: dict[str, Any] | None) -> str:
        if numbers is None:
            return "-"
        half = "" if numbers["ci95"] is None else f" +- {numbers['ci95']:.3f}"
        return f"{numbers['mean']:.3f}{half}"

    for problem, part in summary.items():
        print(
            f"\n{problem}: cumulative regret, more than GO-UCB's (paired), best accuracy, runs that met f*, that improved"
            " on phase I, failed evaluations"
        )
        for name, row in part["algorithms"].items():
            print(
                f"{name:16s} {interval(row['cumulative_regret']):>16s} {interval(row['more_than_go_ucb']):>17s}"
                f" {interval(row['best_accuracy']):>16s} {row['met_the_best']:3d} {row['improved_on_phase_one']:3d}"
                f" {row['failed']:3d}"
            )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--data", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--algorithms", nargs="+", choices=list(OPTIMIZERS), default=list(ALGORITHMS))
    parser.add_argument("--repetitions", type=count, default=5, help="the paper: 5, one for each fold")
    parser.add_argument("--jobs", type=count, default=1, help="processes; each needs a core")
    parser.add_argument("--table", type=Path, help="file of all evaluations (default: in a per-user cache)")
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    add_out_folder(parser)
    return parser.parse_args()


@cli.line
def main() -> None:
    options = parse()
    prepare()
    table = options.table or Path(pooch.os_cache("jsketch")) / "tuning.sqlite"
    problems = [(model, data) for data in options.data for model in options.models]
    # methods outermost: what two processes work on at a time has no evaluations in common
    tasks = [
        Task(*problem, name, r)
        for name in options.algorithms
        for problem in problems
        for r in range(options.repetitions)
    ]
    parts, regrets = {}, {}
    config = configure(options.models, options.data, options.algorithms)
    with outputs.opened(options, "go_ucb_2023.tuning", config, options.repetitions) as opened:
        run_all(tasks, options.out, table, options.data_dir, options.jobs)
        for model, data in problems:
            runs = {
                name: [
                    store.read_run(options.out, f"{model}-{data}-{name}", r)
                    for r in range(options.repetitions)
                ]
                for name in options.algorithms
            }
            parts[f"{model}-{data}"], regrets[model, data] = summarise(runs)
        environment = store.environment()
        environment["versions"]["scikit-learn"] = sklearn.__version__
        summary = dict(config=config, repetitions=options.repetitions, **environment, problems=parts)
        opened.finish(summary, rows(regrets), "tuning with 5 + 25 evaluations")
        draw(options.out, regrets, options.repetitions)
    print_table(parts)
    print(f"\nsummary.json, the tables (curves, summary .parquet) and the figures are in {options.out}")


if __name__ == "__main__":
    main()
