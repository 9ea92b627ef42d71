"""Figures 3 to 5 of the GO-UCB paper: cumulative regret in tuning three classifiers on three data
sets.

    python -m experiments.go_ucb_2023.tuning --repetitions 5 --out results/go_ucb_2023/tuning

A run evaluates n = 5 uniform points, the same for all methods in a repetition, and then T = 25
more. f* is the best accuracy of all methods for a classifier, data set and repetition, so that
regrets depend on the choice of methods. The figures show the mean, and 1.96 sd / sqrt(repetitions)
at the end. Settings that the paper does not state are listed under "chosen" in the saved
configuration. An interrupted command resumes with the missing runs.
"""

from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from experiments import cli
from experiments.data.classifiers import MODELS, SOURCES
from experiments.figures import plots
from experiments.go_ucb_2023 import tuning_runs
from experiments.go_ucb_2023.loop import print_table
from experiments.results import environment, outputs, summaries, tidy

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
    "gradient_boosting": "gradient boosting",
}
TABLE_FIELDS = (
    "cumulative_regret",
    "more_than_go_ucb",
    "best_accuracy",
    "met_the_best",
    "improved_on_phase_one",
    "failed",
)
PAPER_BEND = 23  # evaluations after which TuRBO's regret bends, according to the text on Figure 3b


def distance(row: Run) -> float:
    """The largest distance in any input, of length 10, of points of phase II from the best point of
    phase I."""
    best = np.argmax(np.nan_to_num(row["accuracy"][: tuning_runs.N]))
    return float(np.abs(row["x"][tuning_runs.N :] - row["x"][best]).max())


def summarise(runs: dict[str, list[Run]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(the entry of one problem in summary.json, regrets [S, n + T] by method). Raises ValueError
    if no evaluation succeeded."""
    observed = {name: np.stack([row["accuracy"] for row in rows]) for name, rows in runs.items()}
    if not any(np.isfinite(values).any() for values in observed.values()):
        errors = (e for rows in runs.values() for row in rows for e in row["errors"] if e)
        first = next(errors)
        raise ValueError(f"every evaluation failed; the first one: {first}")
    accuracy = {
        name: np.where(np.isfinite(values), values, 0.0) for name, values in observed.items()
    }
    best = np.max([values.max(1) for values in accuracy.values()], 0)
    regret = {name: best[:, None] - values for name, values in accuracy.items()}
    n, table = tuning_runs.N, {}
    total = {name: values.sum(1) for name, values in regret.items()}
    for name, values in regret.items():
        reached, more = accuracy[name].max(1), None
        if "go_ucb" in regret:
            more = summaries.statistics(total[name] - total["go_ucb"], ci=True)
        table[name] = dict(
            cumulative_regret=summaries.statistics(total[name], ci=True),
            after_phase_one=summaries.statistics(values[:, n:].sum(1), ci=True),
            more_than_go_ucb=more,
            regret_per_step_until_23=summaries.statistics(values[:, n:PAPER_BEND].mean(1)),
            regret_per_step_after_23=summaries.statistics(values[:, PAPER_BEND:].mean(1)),
            best_accuracy=summaries.statistics(reached, ci=True),
            improved_on_phase_one=int((reached > accuracy[name][:, :n].max(1)).sum()),
            distance_from_phase_one=summaries.statistics([distance(row) for row in runs[name]]),
            met_the_best=int((reached == best).sum()),
            failed=int((~np.isfinite(observed[name])).sum()),
        )
    return dict(f_star=best.tolist(), n=n, T=tuning_runs.T, algorithms=table), regret


def draw(folder: Path, regrets: Regrets, repetitions: int) -> None:
    """Draws figure3.png to figure5.png: a figure for each data set, a panel for each classifier."""
    t = np.arange(1, tuning_runs.N + tuning_runs.T + 1)
    for data in dict.fromkeys(data for _, data in regrets):
        panels = {
            f"{TITLES[model]} (d = {len(MODELS[model].space.names)})": {
                name: (t, np.cumsum(values, 1)) for name, values in methods.items()
            }
            for (model, model_data), methods in regrets.items()
            if model_data == data
        }
        title = (
            f"{data.replace('_', ' ')}, mean and 1.96 sd / sqrt({repetitions}) of {repetitions}"
            " repetitions"
        )
        plots.tuning_panels(folder / f"figure{FIGURES[data]}.png", panels, tuning_runs.N, title)


def tidy_runs(regrets: Regrets) -> list[tidy.Run]:
    """The runs for the tables."""
    fields = dict(n=tuning_runs.N, T=tuning_runs.T, root_seed=tuning_runs.ROOT_SEED)
    t = np.arange(1, tuning_runs.N + tuning_runs.T + 1)
    return [
        tidy.Run(
            dict(problem=f"{model}-{data}", algorithm=name, **fields),
            repetition,
            dict(t=t, regret=regret, cumulative_regret=regret.sum()),
        )
        for (model, data), methods in regrets.items()
        for name, values in methods.items()
        for repetition, regret in enumerate(values)
    ]


def redraw(folder: Path) -> None:
    """Draws the figures from the tables."""
    curves = tidy.load(folder).curves
    regrets: Regrets = {}
    for problem, part in curves.groupby("problem", observed=True, sort=False):
        model, data = str(problem).split("-")
        regrets[model, data] = {
            name: values for name, (_, values) in tidy.lines(part, "regret").items()
        }
    draw(folder, regrets, curves["seed"].nunique())


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_choices(parser, "--models", list(MODELS))
    cli.add_choices(parser, "--data", list(SOURCES))
    cli.add_choices(parser, "--algorithms", list(tuning_runs.OPTIMIZERS), ALGORITHMS)
    parser.add_argument(
        "--repetitions", type=cli.count, default=5, help="the paper: 5, one for each fold"
    )
    parser.add_argument("--jobs", type=cli.count, default=1, help="processes; each needs a core")
    cli.add_shared(parser, data_dir=None)
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    problems = [(model, data) for data in options.data for model in options.models]
    parts, regrets = {}, {}
    config = tuning_runs.configure(options.models, options.data, options.algorithms)
    with outputs.results_folder(
        options, "go_ucb_2023.tuning", config, options.repetitions
    ) as results:
        runs = tuning_runs.run_all(problems, options)
        for model, data in problems:
            parts[f"{model}-{data}"], regrets[model, data] = summarise(runs[f"{model}-{data}"])
        versions = environment.versions() | {"scikit-learn": sklearn.__version__}
        summary = dict(
            config=config, repetitions=options.repetitions, versions=versions, problems=parts
        )
        results.write(summary, tidy_runs(regrets), "tuning with 5 + 25 evaluations")
        draw(options.out, regrets, options.repetitions)
    for problem, part in parts.items():
        rows = {n: {f: row[f] for f in TABLE_FIELDS} for n, row in part["algorithms"].items()}
        print_table(problem, rows)


if __name__ == "__main__":
    main()
