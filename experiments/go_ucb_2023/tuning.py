"""Figures 3 to 5 of the GO-UCB paper: cumulative regret in tuning three classifiers on three data
sets.

    python -m experiments.go_ucb_2023.tuning --repetitions 5 --out results/go_ucb_2023/tuning

A run evaluates n = 5 uniform points, the same for all methods in a repetition, and then T = 25
more. f* is the best accuracy that any of the methods reaches for a classifier, data set and
repetition, so that regrets depend on the choice of methods. The entry "chosen" of the saved
configuration lists settings that the paper does not state.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import sklearn

from experiments import cli
from experiments.data import classifiers
from experiments.data.classifiers import MODELS, SOURCES
from experiments.data.datasets import citation
from experiments.figures import drawing, plots
from experiments.go_ucb_2023.loop import Config, load_or_run
from experiments.go_ucb_2023.synthetic import OPTIMIZERS
from experiments.results import environment, outputs, summaries, tidy
from jsketch import loops
from jsketch.show import full_repr

Run = dict[str, np.ndarray]

N, T = 5, 25  # evaluations of the two phases
ROOT_SEED = 0
CHOSEN_SETTINGS = [
    f"n = {N} and T = {T}, as for the paper's f1: its text mentions t = 23",
    "breast_cancer: Wisconsin (original), 683 complete rows without the id; the zeros of diabetes"
    " stay as they are",
    "one fold a repetition, the same for all methods: " + "; ".join(classifiers.PROTOCOL),
    "integers by floor over intervals of equal length; open ends are kept away from by a millionth"
    " of the range",
    "f*: the best of all methods of this run in a repetition, uniform included; the true maximum is"
    " unknown",
    "a failed evaluation counts as accuracy 0 in regrets, and is never learned from",
    "the settings of all methods: as for the synthetic functions",
]
ALGORITHMS = (
    *("uniform", "go_ucb", "go_ucb_eq5", "gp_ei", "gp_pi", "gp_ucb", "turbo"),
    "go_ucb_printed",
)
FIGURES = {"breast_cancer": 3, "australian": 4, "diabetes": 5}
TITLES = {
    "random_forest": "random forest",
    "mlp": "multi-layer perceptron",
    "gradient_boosting": "gradient boosting",
}
PAPER_BEND = 23  # evaluations after which TuRBO's regret bends, according to the text on Figure 3b


def configure(models: list[str], data: list[str], algorithms: list[str]) -> Config:
    """The configuration on which the runs of the algorithms on the models and data depend."""
    return dict(
        n=N,
        T=T,
        root_seed=ROOT_SEED,
        scikit_learn=sklearn.__version__,
        spaces={model: [repr(h) for h in MODELS[model].space.hyperparameters] for model in models},
        sources={name: citation(SOURCES[name]) for name in data},
        optimizers={name: full_repr(OPTIMIZERS[name](N)) for name in algorithms},
        chosen=CHOSEN_SETTINGS,
    )


def make(
    config: Config, repetitions: list[int], data_dir: Path | None = None
) -> list[dict[str, np.ndarray]]:
    """The run of one repetition, in a list. `config` has one model, one data set, one algorithm."""
    [model], [data], [algorithm] = config["spaces"], config["sources"], config["optimizers"]
    [repetition] = repetitions
    dataset = classifiers.load(data, data_dir)
    errors: list[str] = []

    def objective(hyperparameters: dict[str, Any]) -> float:
        value, error = classifiers.evaluate(model, dataset, repetition, hyperparameters)
        errors.append(error)
        return value

    space, optimizer = MODELS[model].space, OPTIMIZERS[algorithm](N)
    # the key is the same for all methods, so that they share the first points
    key = jax.random.key(ROOT_SEED)
    for index in (list(MODELS).index(model), list(SOURCES).index(data), repetition):
        key = jax.random.fold_in(key, index)
    run = loops.drive(optimizer, space.objective(objective), space.box, key, N + T)
    return [dict(accuracy=run.y, x=run.x, errors=np.array(errors))]


def summarise(runs: dict[str, list[Run]]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(the entry of one problem in summary.json, regrets [S, n + T] by method). Raises ValueError
    if no evaluation succeeded."""
    observed = {name: np.stack([row["accuracy"] for row in rows]) for name, rows in runs.items()}
    if not any(np.isfinite(values).any() for values in observed.values()):
        errors = (e for rows in runs.values() for row in rows for e in row["errors"] if e)
        raise ValueError(f"every evaluation failed; the first error: {next(errors)}")
    accuracy = {
        name: np.where(np.isfinite(values), values, 0.0) for name, values in observed.items()
    }
    f_star = np.max([values.max(1) for values in accuracy.values()], 0)
    regret = {name: f_star[:, None] - values for name, values in accuracy.items()}
    table = {}
    cumulative = {name: values.sum(1) for name, values in regret.items()}
    for name, values in regret.items():
        best, excess = accuracy[name].max(1), None  # of each repetition
        if "go_ucb" in regret:
            excess = summaries.statistics(cumulative[name] - cumulative["go_ucb"], ci=True)
        table[name] = dict(
            cumulative_regret=summaries.statistics(cumulative[name], ci=True),
            more_than_go_ucb=excess,
            regret_per_step_until_23=summaries.statistics(values[:, N:PAPER_BEND].mean(1)),
            regret_per_step_after_23=summaries.statistics(values[:, PAPER_BEND:].mean(1)),
            best_accuracy=summaries.statistics(best, ci=True),
            improved_on_phase_one=int((best > accuracy[name][:, :N].max(1)).sum()),
            failed=int((~np.isfinite(observed[name])).sum()),
        )
    return dict(f_star=f_star.tolist(), n=N, T=T, algorithms=table), regret


def draw(folder: Path) -> None:
    """Draws figure3.png to figure5.png from the tables: a figure for each data set, a panel for
    each classifier."""
    curves = tidy.load(folder).curves
    repetitions = curves["seed"].nunique()
    figures: dict[str, dict[str, drawing.Curves]] = {}
    for problem, part in curves.groupby("problem", observed=True, sort=False):
        model, data = str(problem).split("-")
        figures.setdefault(data, {})[f"{TITLES[model]} (d = {len(MODELS[model].space.names)})"] = {
            name: (t, np.cumsum(values, 1))
            for name, (t, values) in tidy.lines(part, "regret").items()
        }
    for data, panels in figures.items():
        title = (
            f"{data.replace('_', ' ')}, mean and 1.96 sd / sqrt({repetitions}) of {repetitions}"
            " repetitions"
        )
        plots.tuning_panels(folder / f"figure{FIGURES[data]}.png", panels, N, title)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None)
    cli.add_choices(parser, "--models", list(MODELS))
    cli.add_choices(parser, "--data", list(SOURCES))
    cli.add_choices(parser, "--algorithms", list(OPTIMIZERS), ALGORITHMS)
    help_text = "number of repetitions (default 5, one for each fold, as in the paper)"
    parser.add_argument("--repetitions", type=cli.count, default=5, help=help_text)
    help_text = "number of processes, each of which needs a core (default 1)"
    parser.add_argument("--jobs", type=cli.count, default=1, help=help_text)
    options = cli.parse(parser)
    configs = {
        f"{model}-{data}": {name: configure([model], [data], [name]) for name in options.algorithms}
        for data in options.data
        for model in options.models
    }
    config = configure(options.models, options.data, options.algorithms)
    repetitions = options.repetitions
    make_run = partial(make, data_dir=options.data_dir)
    with outputs.results_folder(options, "go_ucb_2023.tuning", config, repetitions) as results:
        # all data are read first, so that an error ends the experiment before its runs
        for data in options.data:
            classifiers.load(data, options.data_dir)
        entries, table, t = {}, [], np.arange(1, N + T + 1)
        runs = load_or_run(options.out, configs, repetitions, make_run, jobs=options.jobs)
        for problem, runs_of_methods in runs.items():
            entries[problem], regrets = summarise(runs_of_methods)
            for name, values in regrets.items():
                settings = dict(problem=problem, algorithm=name, n=N, T=T, root_seed=ROOT_SEED)
                rows = [dict(t=t, regret=row, cumulative_regret=row.sum()) for row in values]
                table += tidy.runs_of(settings, rows)
        versions = environment.versions() | {"scikit-learn": sklearn.__version__}
        summary = dict(config=config, repetitions=repetitions, versions=versions, problems=entries)
        results.write(summary, table, "tuning with 5 + 25 evaluations")
        draw(options.out)
    for problem, entry in entries.items():
        summaries.print_table(problem, entry["algorithms"])
