"""Figures 3 to 5 of the GO-UCB paper: cumulative regret in tuning three classifiers on three data
sets.

    python -m experiments.go_ucb_2023.tuning --repetitions 5 --out results/go_ucb_2023/tuning

n = 5 uniform points, the same for all methods in a repetition, then T = 25 more. f* is the best
accuracy that any of the methods met in that classifier, data set and repetition, so regrets depend
on which methods ran. The figures show the mean, and 1.96 sd / sqrt(repetitions) at the end. What
the paper does not state is listed under "chosen" in the saved configuration.

Every evaluation is recorded in a table on disk (`--table`) and made once; an interrupted run
resumes with what is missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import sklearn

from experiments import cli
from experiments.data.classifiers import MODELS, PAPER_MODELS, SOURCES
from experiments.figures import plots
from experiments.go_ucb_2023 import tuning_runs
from experiments.results import environment, outputs, store, summaries, tidy

Run = dict[str, np.ndarray]
Regrets = dict[tuple[str, str], dict[str, np.ndarray]]  # [S, n + T] by (model, data) and method

ALGORITHMS = (
    "uniform",
    "go_ucb",
    "go_ucb_eq5",
    "gp_ei",
    "gp_pi",
    "gp_ucb",
    "turbo",
    "go_ucb_printed",
)
FIGURES = {"breast_cancer": 3, "australian": 4, "diabetes": 5}
TITLES = {
    "random_forest": "random forest",
    "mlp": "multi-layer perceptron",
    "mlp_raw": "multi-layer perceptron, inputs not scaled",
    "gradient_boosting": "gradient boosting",
}
PAPER_BEND = 23  # evaluations after which TuRBO's regret bends in Figure 3b, as the text reads it


def distance(row: Run) -> float:
    """The farthest that phase II went in any input, of length 10, from the best point of phase
    I."""
    best = np.argmax(np.nan_to_num(row["accuracy"][: tuning_runs.N]))
    return float(np.abs(row["x"][tuning_runs.N :] - row["x"][best]).max())


def summarise(runs: dict[str, list[Run]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(what summary.json says of one problem, regrets [S, n + T] by method).

    Raises ValueError if no evaluation succeeded: that is a mistake in the set-up and no result.
    """
    observed = {name: np.stack([row["accuracy"] for row in rows]) for name, rows in runs.items()}
    if not any(np.isfinite(values).any() for values in observed.values()):
        first = next(
            error for rows in runs.values() for row in rows for error in row["errors"] if error
        )
        raise ValueError(f"every evaluation failed; the first one: {first}")
    accuracy = {
        name: np.where(np.isfinite(values), values, 0.0) for name, values in observed.items()
    }
    best = np.max([values.max(1) for values in accuracy.values()], 0)
    regret = {name: best[:, None] - values for name, values in accuracy.items()}
    table = {
        name: dict(
            cumulative_regret=summaries.describe(regret[name].sum(1), ci=True),
            after_phase_one=summaries.describe(regret[name][:, tuning_runs.N :].sum(1), ci=True),
            more_than_go_ucb=(
                summaries.describe(regret[name].sum(1) - regret["go_ucb"].sum(1), ci=True)
                if "go_ucb" in regret
                else None
            ),
            regret_per_step_until_23=summaries.describe(
                regret[name][:, tuning_runs.N : PAPER_BEND].mean(1)
            ),
            regret_per_step_after_23=summaries.describe(regret[name][:, PAPER_BEND:].mean(1)),
            best_accuracy=summaries.describe(accuracy[name].max(1), ci=True),
            improved_on_phase_one=int(
                (accuracy[name].max(1) > accuracy[name][:, : tuning_runs.N].max(1)).sum()
            ),
            distance_from_phase_one=summaries.describe([distance(row) for row in runs[name]]),
            met_the_best=int((accuracy[name].max(1) == best).sum()),
            failed=int((~np.isfinite(observed[name])).sum()),
        )
        for name in runs
    }
    return dict(f_star=best.tolist(), n=tuning_runs.N, T=tuning_runs.T, algorithms=table), regret


def draw(folder: Path, regrets: Regrets, repetitions: int) -> None:
    """figure3.png to figure5.png: a figure for each data set, a panel for each classifier."""
    t = np.arange(1, tuning_runs.N + tuning_runs.T + 1)
    for data in dict.fromkeys(data for _, data in regrets):
        panels = {
            f"{TITLES[model]} (d = {len(MODELS[model].space.names)})": {
                name: (t, np.cumsum(values, 1)) for name, values in methods.items()
            }
            for (model, of), methods in regrets.items()
            if of == data
        }
        title = (
            f"{data.replace('_', ' ')}, mean and 1.96 sd / sqrt({repetitions}) of {repetitions}"
            " repetitions"
        )
        plots.tuning_panels(folder / f"figure{FIGURES[data]}.png", panels, tuning_runs.N, title)


def rows(regrets: Regrets) -> list[tidy.Run]:
    """The runs for the tables."""
    n, steps = tuning_runs.N, tuning_runs.T
    t = np.arange(1, n + steps + 1)
    return [
        tidy.Run(
            dict(
                problem=f"{model}-{data}",
                algorithm=name,
                n=n,
                T=steps,
                root_seed=tuning_runs.ROOT_SEED,
            ),
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
        regrets[model, data] = {
            name: values for name, (_, values) in tidy.lines(part, "regret").items()
        }
    draw(folder, regrets, curves["seed"].nunique())


def print_table(summary: dict[str, Any]) -> None:
    """Problem by problem: cumulative regret, the difference to GO-UCB's, and the best accuracy
    found."""

    def interval(numbers: dict[str, Any] | None) -> str:
        if numbers is None:
            return "-"
        half = "" if numbers["ci95"] is None else f" +- {numbers['ci95']:.3f}"
        return f"{numbers['mean']:.3f}{half}"

    for problem, part in summary.items():
        print(
            f"\n{problem}: cumulative regret, more than GO-UCB's (paired), best accuracy, runs that"
            " met f*, that improved"
            " on phase I, failed evaluations"
        )
        for name, row in part["algorithms"].items():
            print(
                f"{name:16s} {interval(row['cumulative_regret']):>16s}"
                f" {interval(row['more_than_go_ucb']):>17s} {interval(row['best_accuracy']):>16s}"
                f" {row['met_the_best']:3d} {row['improved_on_phase_one']:3d} {row['failed']:3d}"
            )


def parse() -> argparse.Namespace:
    parser = cli.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=PAPER_MODELS)
    parser.add_argument("--data", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument(
        "--algorithms", nargs="+", choices=list(tuning_runs.OPTIMIZERS), default=list(ALGORITHMS)
    )
    parser.add_argument(
        "--repetitions", type=cli.count, default=5, help="the paper: 5, one for each fold"
    )
    parser.add_argument("--jobs", type=cli.count, default=1, help="processes; each needs a core")
    parser.add_argument(
        "--table", type=Path, help="file of all evaluations (default: in a per-user cache)"
    )
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    cli.add_out_folder(parser)
    return parser.parse_args()


@cli.line
def main() -> None:
    options = parse()
    cli.set_up_jax()
    table = options.table or Path(pooch.os_cache("jsketch")) / "tuning.sqlite"
    problems = [(model, data) for data in options.data for model in options.models]
    # methods outermost: what two processes work on at a time has no evaluations in common
    tasks = [
        tuning_runs.Task(*problem, name, r)
        for name in options.algorithms
        for problem in problems
        for r in range(options.repetitions)
    ]
    parts, regrets = {}, {}
    config = tuning_runs.configure(options.models, options.data, options.algorithms)
    with outputs.opened(options, "go_ucb_2023.tuning", config, options.repetitions) as opened:
        tuning_runs.run_all(tasks, options.out, table, options.data_dir, options.jobs)
        for model, data in problems:
            runs = {
                name: [
                    store.read_run(options.out, f"{model}-{data}-{name}", r)
                    for r in range(options.repetitions)
                ]
                for name in options.algorithms
            }
            parts[f"{model}-{data}"], regrets[model, data] = summarise(runs)
        made = environment.describe()
        made["versions"]["scikit-learn"] = sklearn.__version__
        summary = dict(config=config, repetitions=options.repetitions, **made, problems=parts)
        opened.finish(summary, rows(regrets), "tuning with 5 + 25 evaluations")
        draw(options.out, regrets, options.repetitions)
    print_table(parts)
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and the figures are in"
        f" {options.out}"
    )


if __name__ == "__main__":
    main()
