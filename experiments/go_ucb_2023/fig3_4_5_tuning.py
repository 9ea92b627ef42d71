"""GO-UCB, Figures 3 to 5: cumulative regret in tuning three classifiers on three data sets.

A run evaluates n = 5 uniform points, the same for all methods in a repetition, and then T = 25
more. The paper leaves n and T open (its text mentions t = 23, as on f1), the noise, the rounding of
integers (here intervals of equal length), and what "five folds" are: here a repetition is a fold,
and 20 repetitions are the folds of four partitions. Data: Wisconsin (original) without the id and
incomplete rows; the zeros of diabetes stay. Forms of GO-UCB and of the GP methods are those of
Figure 2, with the null baseline `repeat`: the best point of phase I, again and again.

Regrets are relative to f*, the best accuracy of the methods of a folder in a repetition, because
the maximum is unknown. A failed evaluation counts as accuracy 0, and is not learned from. Intervals
are over partitions, because the folds of one share their rows. The implementations of the GP
methods are those of Figure 2, of which a claim needs each.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import sklearn

from experiments import common
from experiments.common import Options, Settings, Verdict
from experiments.data import classifiers
from experiments.data.classifiers import MODELS, SOURCES
from experiments.data.datasets import citation
from experiments.figures import drawing, plots
from experiments.go_ucb_2023 import loop, packages
from experiments.go_ucb_2023.fig2_functions import FOLDER, METHODS, OURS
from experiments.go_ucb_2023.loop import Config
from experiments.results import environment, tidy
from jsketch import loops
from jsketch.box import UniformBox
from jsketch.show import full_repr

N, T = 5, 25  # evaluations of the two phases
ROOT_SEED = 0
GP_METHODS = ("gp_ei", "gp_pi", "gp_ucb")
UNIFORM_GP = tuple(f"{name}_uniform" for name in GP_METHODS)
ALL: Settings = dict(models=tuple(MODELS), data=tuple(SOURCES), steps=T)
CANCER: Settings = dict(data=("breast_cancer",), steps=T, seeds=20)
JUDGED = ("go_ucb_printed", *UNIFORM_GP, "turbo")
RUNS: dict[str, Settings] = {
    f"{FOLDER}/tuning": ALL | dict(methods=OURS, seeds=5),
    f"{FOLDER}/tuning_forest": CANCER | dict(models=("random_forest",), methods=JUDGED),
    f"{FOLDER}/tuning_perceptron": CANCER | dict(models=("mlp",), methods=("uniform", *JUDGED)),
    f"{FOLDER}/tuning_boosting": CANCER
    | dict(models=("gradient_boosting",), methods=("uniform", *JUDGED)),
    f"{FOLDER}/tuning_raw": CANCER
    | dict(models=tuple(MODELS), methods=("botorch_ei_raw", "botorch_pi_raw")),
    f"{FOLDER}/tuning_scaled": CANCER
    | dict(models=tuple(MODELS), methods=("botorch_ei_gamma", "botorch_pi_gamma")),
    f"{FOLDER}/tuning_scikit_optimize": CANCER
    | dict(models=tuple(MODELS), methods=tuple(packages.SKOPT)),
    f"{FOLDER}/tuning_rates": CANCER | dict(models=("mlp",), methods=("go_ucb_rates",)),
}
QUICK: Settings = dict(
    models=("random_forest",),
    data=("breast_cancer",),
    methods=("uniform", "turbo"),
    steps=2,
    seeds=2,
)
# {implementation of the GP methods, beside ours: its folder}
IMPLEMENTATIONS = {
    "BoTorch, raw": f"{FOLDER}/tuning_raw",
    "BoTorch, scaled": f"{FOLDER}/tuning_scaled",
    "scikit-optimize": f"{FOLDER}/tuning_scikit_optimize",
}
FIGURES = {"breast_cancer": 3, "australian": 4, "diabetes": 5}
TITLES = dict(
    random_forest="random forest",
    mlp="multi-layer perceptron",
    gradient_boosting="gradient boosting",
)
BEND = 23  # the evaluation at which TuRBO's curve bends in the paper
BENT = 0.5  # of a bent curve's regret per step after BEND to that of phase II before


def configure(model: str, data: str, method: str, steps: int) -> Config:
    """What the runs of a method on a problem depend on."""
    config = dict(model=model, data=data, algorithm=method, n=N, T=steps, root_seed=ROOT_SEED)
    config |= dict(scikit_learn=sklearn.__version__, source=citation(SOURCES[data]))
    config |= dict(space=[repr(h) for h in MODELS[model].space.hyperparameters])
    config |= dict(protocol=classifiers.PROTOCOL)
    if method in METHODS:
        return config | dict(optimizer=full_repr(METHODS[method](N)))
    settings = packages.settings(method)
    return config | settings | dict(packages=environment.package_versions(*settings["packages"]))


def play(
    config: Config, repetitions: list[int], data_dir: Path | None = None
) -> list[dict[str, np.ndarray]]:
    """The run of one repetition, in a list."""
    model, data, method = config["model"], config["data"], config["algorithm"]
    [repetition], steps = repetitions, config["T"]
    dataset, space = classifiers.load(data, data_dir), MODELS[model].space
    accuracies: list[float] = []

    def value(hyperparameters: dict[str, Any]) -> float:
        accuracies.append(classifiers.evaluate(model, dataset, repetition, hyperparameters)[0])
        return accuracies[-1]

    # the key is the same for all methods, so that they share the first points
    key = jax.random.key(ROOT_SEED)
    for index in (list(MODELS).index(model), list(SOURCES).index(data), repetition):
        key = jax.random.fold_in(key, index)
    objective = space.objective(value)
    if method in METHODS:
        loops.drive(METHODS[method](N), objective, space.box, key, N + steps)
    else:
        initial = loops.drive(UniformBox(initial=N), objective, space.box, key, N)
        box = np.stack([np.asarray(space.box.lower), np.asarray(space.box.upper)], axis=1)
        start = np.asarray(initial.x), np.nan_to_num(np.asarray(initial.y))
        # the packages learn from a failed evaluation as from accuracy 0
        packages.points(
            method, lambda x: float(np.nan_to_num(objective(x))), box, *start, steps, repetition
        )
    return [dict(accuracy=np.array(accuracies))]


def run(folder: Path, settings: Settings, options: Options) -> None:
    for data in settings["data"]:  # an error ends the figure before its runs
        classifiers.load(data, options.data_dir)
    steps = settings["steps"]
    configs = {
        f"{model}-{data}": {m: configure(model, data, m, steps) for m in settings["methods"]}
        for data in settings["data"]
        for model in settings["models"]
    }
    seeds, make = settings["seeds"], partial(play, data_dir=options.data_dir)
    with options.results(folder, "go_ucb_2023.fig3_4_5_tuning", configs, seeds) as results:
        runs = loop.load_or_run(folder, configs, seeds, make, options.workers)
        problems, table, t = {}, [], np.arange(1, N + steps + 1)
        for problem, methods in runs.items():
            accuracy = {
                name: np.nan_to_num(np.stack([row["accuracy"] for row in rows]))
                for name, rows in methods.items()
            }
            f_star = np.max([values.max(1) for values in accuracy.values()], 0)
            problems[problem] = dict(f_star=f_star.tolist())
            for name, values in accuracy.items():
                regret = f_star[:, None] - values
                rows = [dict(t=t, regret=row, cumulative_regret=row.sum()) for row in regret]
                config = dict(problem=problem, algorithm=name, n=N, T=steps, root_seed=ROOT_SEED)
                table += tidy.runs_of(config, rows)
        summary = dict(config=configs, seeds=seeds, problems=problems)
        results.write(summary, table, f"tuning with {N} + {steps} evaluations")


# --- regrets of single evaluations, {method: [S, n + T]}

Regrets = Mapping[str, np.ndarray]


def regrets_in(folder: Path, problem: str) -> dict[str, np.ndarray]:
    """The regrets of a folder, and those of the null baseline. The suffix of uniform candidates is
    dropped, because no folder has the same method with other candidates."""
    found = common.curves(folder, "regret", problem=problem)
    if not found:
        raise common.Missing(f"{problem} in {folder.parent.name}/{folder.name}")
    regrets = {name.removesuffix("_uniform"): values for name, (_, values) in found.items()}
    null = next(iter(regrets.values())).copy()
    null[:, N:] = null[:, :N].min(1, keepdims=True)
    return common.Methods(regrets | dict(repeat=null))


def with_methods_of(folder: Path, other: Path, problem: str, names: set[str]) -> Regrets:
    """The regrets of a folder with some methods of another one, relative to the folder's f*."""
    regrets, more = regrets_in(folder, problem), regrets_in(other, problem)
    f_star, f_star_of_more = (
        np.array(common.tables(path).provenance["problems"][problem]["f_star"])
        for path in (folder, other)
    )
    seeds = min(len(f_star), len(f_star_of_more))
    shift = (f_star[:seeds] - f_star_of_more[:seeds])[:, None]
    return common.Methods(regrets | {name: more[name][:seeds] + shift for name in names})


Case = Callable[[np.ndarray, Regrets], Verdict]  # of GO-UCB's regrets and those of the others


def with_each(root: Path, folder: str, problem: str, case: Case) -> Verdict:
    """The verdict of a claim on a problem with each implementation of the GP methods: ours, and
    those of IMPLEMENTATIONS. Undecided where they disagree, or where one was not run."""

    def with_ours() -> Verdict:
        return case(*_compared(regrets_in(root / FOLDER / folder, problem), *GP_METHODS))

    def with_package(name: str) -> Verdict:
        names, paths = RUNS[name]["methods"], (root / FOLDER / folder, root / name)
        return case(*_compared(with_methods_of(*paths, problem, set(names)), *names))

    packaged = {words: partial(with_package, name) for words, name in IMPLEMENTATIONS.items()}
    return common.agreed({"ours": with_ours} | packaged)


def _compared(regrets: Regrets, *gp_methods: str) -> tuple[np.ndarray, Regrets]:
    """(the regrets of GO-UCB, those of the GP methods and of TuRBO)."""
    return regrets["go_ucb_printed"], {name: regrets[name] for name in (*gp_methods, "turbo")}


def of_partitions(values: np.ndarray) -> np.ndarray:
    """The means [S // 5] of values [S] over the folds of each partition. Raises Missing without a
    whole partition."""
    whole = len(values) // classifiers.FOLDS
    if not whole:
        raise common.Missing("a whole partition")
    return values[: whole * classifiers.FOLDS].reshape(whole, classifiers.FOLDS).mean(1)


def difference(first: np.ndarray, second: np.ndarray) -> common.Interval:
    """The interval of the mean of first - second, values [S] on the same folds, over partitions."""
    return common.difference_interval(of_partitions(first), of_partitions(second))


def gaps_to(regret: np.ndarray, others: Regrets) -> dict[str, common.Interval]:
    """{method: interval of its cumulative regret minus one method's, on the same folds}."""
    return {n: difference(o.sum(1), regret.sum(1)) for n, o in others.items()}


# --- the claims


def much_better(go_ucb: np.ndarray, others: Regrets) -> Verdict:
    """The cumulative regret of every other method minus GO-UCB's lies above 0."""
    gaps = gaps_to(go_ucb, others)
    return common.verdict(common.all_above(gaps.values(), 0), common.listed(gaps, 2))


def better_on_breast_cancer(root: Path) -> Verdict:
    """`much_better` for the perceptron and for gradient boosting on breast cancer, with each
    implementation of the GP methods."""
    folders = dict(tuning_perceptron="mlp", tuning_boosting="gradient_boosting")
    return common.all_of(
        {
            model: partial(with_each, root, folder, f"{model}-breast_cancer", much_better)
            for folder, model in folders.items()
        }
    )


def better_elsewhere(root: Path) -> Verdict:
    """`much_better` for every classifier on Australian and diabetes, with each implementation of
    the GP methods."""
    names = [f"{model}-{data}" for data in ("australian", "diabetes") for model in MODELS]
    return common.all_of(
        {name: partial(with_each, root, "tuning", name, much_better) for name in names}
    )


def phase_two_is_effective(root: Path) -> Verdict:
    """Two readings of Figure 3b, which leave the claim undecided if they disagree: the regret of
    every other method in phase II minus GO-UCB's lies above 0, as the paper argues, with each
    implementation of the GP methods; and GO-UCB `finds_better_points`."""

    def less_regret(go_ucb: np.ndarray, others: Regrets) -> Verdict:
        return much_better(go_ucb[:, N:], {name: r[:, N:] for name, r in others.items()})

    folder, problem = "tuning_perceptron", "mlp-breast_cancer"
    return common.agreed(
        {
            "less regret than the others": partial(with_each, root, folder, problem, less_regret),
            "better points": partial(finds_better_points, root, "go_ucb_printed"),
        }
    )


def finds_better_points(root: Path, method: str) -> Verdict:
    """In more than half of the repetitions whose phase I misses f* (beyond Wilson's interval) phase
    II finds a better point than the best one of phase I, which the null baseline repeats."""
    problem, folder = "mlp-breast_cancer", root / FOLDER / "tuning_perceptron"
    regrets: Regrets = regrets_in(folder, problem)
    if method not in regrets:
        rates = root / FOLDER / "tuning_rates"
        regrets = with_methods_of(folder, rates, problem, {method})
    first, second = (part.min(1) for part in np.split(regrets[method], [N], axis=1))
    missed, found = int((first > 0).sum()), int((second < first).sum())
    gap = difference(regrets["repeat"].sum(1), regrets[method].sum(1))
    text = f"in {found} of {missed} repetitions; cumulative regret of the null baseline minus"
    text += f" GO-UCB's {common.interval_text(gap, 3)}"
    share = common.probability_interval(found, missed)
    return common.verdict(common.all_above([share], 0.5), text)


def with_other_rates(root: Path) -> Verdict:
    """`finds_better_points` with rates of 1e-2 (Figure 2)."""
    return finds_better_points(root, "go_ucb_rates")


def error_bar(cumulative: np.ndarray) -> float:
    """The half width of the paper's error bars, of five repetitions."""
    return float(1.96 * cumulative.std(ddof=1) / np.sqrt(5))


def similar_on_forest(root: Path) -> Verdict:
    """The differences in cumulative regret between every two methods, on the same folds, lie within
    the paper's error bar of GO-UCB, with each implementation of the GP methods."""

    def case(go_ucb: np.ndarray, others: Regrets) -> Verdict:
        methods = {"go_ucb_printed": go_ucb, **others}
        gaps = {
            f"{b} - {a}": difference(methods[b].sum(1), methods[a].sum(1))
            for a, b in combinations(methods, 2)
        }
        margin = error_bar(go_ucb.sum(1))
        text = f"error bar {margin:.3f}; {common.listed(gaps)}"
        return common.verdict(common.all_near_zero(gaps.values(), margin), text)

    return with_each(root, "tuning_forest", "random_forest-breast_cancer", case)


def turbo_bends(root: Path) -> Verdict:
    """Until BEND the GP methods' cumulative regret minus TuRBO's lies within the paper's error bar
    of TuRBO; afterwards their regret per step minus TuRBO's lies above 0, and so does BENT times
    TuRBO's regret per step in phase II before, minus that afterwards. With each implementation."""

    def case(_: np.ndarray, others: Regrets) -> Verdict:
        turbo, gp = others["turbo"], {n: r for n, r in others.items() if n != "turbo"}
        before = {n: difference(r[:, :BEND].sum(1), turbo[:, :BEND].sum(1)) for n, r in gp.items()}
        after = {n: difference(r[:, BEND:].mean(1), turbo[:, BEND:].mean(1)) for n, r in gp.items()}
        bend = difference(BENT * turbo[:, N:BEND].mean(1), turbo[:, BEND:].mean(1))
        margin = error_bar(turbo[:, :BEND].sum(1))
        similar = common.all_near_zero(before.values(), margin)
        better = common.all_above([*after.values(), bend], 0)
        text = f"until {BEND}: {common.listed(before, 2)} (error bar {margin:.2f}), afterwards:"
        text += f" {common.listed(after | dict(bend=bend), 4)}"
        fails = similar is False or better is False
        return common.verdict(common.decision(fails, bool(similar and better)), text)

    return with_each(root, "tuning_perceptron", "mlp-breast_cancer", case)


def draw(folder: Path) -> None:
    """figure3.png to figure5.png: a figure for each data set, a panel for each classifier."""
    curves = common.tables(folder).curves
    figures: dict[str, dict[str, drawing.Curves]] = {}
    for problem in curves["problem"].unique():
        model, data = str(problem).split("-")
        panel = f"{TITLES[model]} (d = {len(MODELS[model].space.names)})"
        figures.setdefault(data, {})[panel] = {
            name: (np.arange(1, regret.shape[1] + 1), np.cumsum(regret, 1))
            for name, regret in regrets_in(folder, str(problem)).items()
        }
    seeds = curves["seed"].nunique()
    for data, panels in figures.items():
        title = f"{data.replace('_', ' ')}, mean and 1.96 sd / sqrt({seeds}) of {seeds} repetitions"
        plots.tuning_panels(folder / f"figure{FIGURES[data]}.png", panels, N, title)


CHECKS = (
    *(similar_on_forest, better_on_breast_cancer, phase_two_is_effective, turbo_bends),
    better_elsewhere,
)
CAUSES = {"phase_two_is_effective": with_other_rates}

if __name__ == "__main__":
    common.main(__file__)
