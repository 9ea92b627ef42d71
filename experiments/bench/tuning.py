"""Comparison of `jsketch.minimize`, the TPE of Optuna, BoTorch and random search on five
scikit-learn models with mixed hyperparameters: the cross-validated loss, and the seconds of the
sampler.

python -m experiments.bench.tuning                       every problem and sampler, 10 seeds
python -m experiments.bench.tuning --only svm knn --seeds 3

Finished runs are saved in the file of --out, and a later call with the same file adds runs. TPE
needs the package optuna, BoTorch the package botorch.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingRegressor
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments import cli
from experiments.results import tidy
from jsketch import Space, minimize
from jsketch.box import Category, Integer, Real
from jsketch.box.space import SIDE

EVALUATIONS = (20, 40)  # numbers of evaluations after which the best losses are compared
FOLDS = 3  # of the cross-validation
MAX_ROWS = 500  # rows of a data set that are used
# BoTorch's steps of a fit, and candidates and restarts of the search for the next point
FIT_STEPS, CANDIDATES, RESTARTS = 50, 512, 4


class Problem(NamedTuple):
    """A model to tune."""

    space: Space
    model: Callable[..., Any]  # makes the model from its hyperparameters
    data: str  # NAME of sklearn.datasets.load_NAME
    scoring: str  # larger is better; the loss is its negative


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _neighbours(components: int, whiten: bool, **h: Any) -> Any:
    pca = PCA(components, whiten=whiten, random_state=0)
    return make_pipeline(pca, KNeighborsClassifier(**h))


PROBLEMS = {
    "svm": Problem(
        Space(
            C=(1e-3, 1e3, "log"),
            gamma=(1e-5, 1.0, "log"),
            kernel=["rbf", "poly", "sigmoid"],
            degree=(2, 5, int),
            coef0=(0.0, 1.0),
        ),
        lambda **h: _scaled(SVC(**h, max_iter=20_000)),
        **dict(data="digits", scoring="accuracy"),
    ),
    "forest": Problem(
        Space(
            n_estimators=(2, 60, int, "log"),
            max_depth=(1, 16, int),
            max_features=(0.05, 1.0),
            min_samples_leaf=(1, 20, int, "log"),
            criterion=["gini", "entropy"],
            bootstrap=[False, True],
        ),
        partial(ExtraTreesClassifier, random_state=0),
        **dict(data="breast_cancer", scoring="neg_log_loss"),
    ),
    "boosting": Problem(
        Space(
            learning_rate=(1e-3, 1.0, "log"),
            n_estimators=(5, 100, int, "log"),
            max_depth=(1, 6, int),
            subsample=(0.3, 1.0),
            loss=["squared_error", "absolute_error", "huber"],
        ),
        partial(GradientBoostingRegressor, random_state=0),
        **dict(data="diabetes", scoring="neg_root_mean_squared_error"),
    ),
    "linear": Problem(
        Space(
            loss=["log_loss", "modified_huber"],
            alpha=(1e-6, 1.0, "log"),
            l1_ratio=(0.0, 1.0),
            learning_rate=["optimal", "invscaling", "adaptive"],
            eta0=(1e-4, 1.0, "log"),
        ),
        lambda **h: _scaled(SGDClassifier(**h, penalty="elasticnet", random_state=0, max_iter=200)),
        **dict(data="wine", scoring="neg_log_loss"),
    ),
    "knn": Problem(
        Space(
            components=(2, 50, int),
            whiten=[True, False],
            n_neighbors=(1, 40, int, "log"),
            weights=["uniform", "distance"],
            p=(1.0, 4.0),
        ),
        _neighbours,
        **dict(data="digits", scoring="accuracy"),
    ),
}


def loss_of(problem: Problem) -> Callable[..., float]:
    """The cross-validated loss of a problem as a function of its hyperparameters."""
    x, y = getattr(datasets, f"load_{problem.data}")(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    folds = KFold(FOLDS, shuffle=True, random_state=0)

    def loss(**h: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = problem.model(**h)
            scores = cross_val_score(model, x[rows], y[rows], cv=folds, scoring=problem.scoring)
        return -float(scores.mean())

    return loss


def with_jsketch(loss: Any, space: Space, evaluations: int, seed: int) -> Any:
    minimize(loss, space, evaluations, seed=seed, progress=False)


def with_random(loss: Any, space: Space, evaluations: int, seed: int) -> Any:
    for u in np.random.default_rng(seed).random((evaluations, len(space.names))):
        loss(**space.decode(SIDE * u))


def with_tpe(loss: Any, space: Space, evaluations: int, seed: int) -> Any:
    """Optuna's TPE with its defaults."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        return loss(**{h.name: _suggest(trial, h) for h in space.hyperparameters})

    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(
        objective, evaluations
    )


def _suggest(trial: Any, h: Any) -> Any:
    if isinstance(h, Real):
        return trial.suggest_float(h.name, h.low, h.high, log=h.log)
    if isinstance(h, Integer):
        return trial.suggest_int(h.name, h.low, h.high, log=h.log)
    assert isinstance(h, Category)
    return trial.suggest_categorical(h.name, h.choices)


def with_botorch(loss: Any, space: Space, evaluations: int, seed: int) -> Any:
    """BoTorch for mixed inputs: MixedSingleTaskGP, the logarithm of expected improvement, and
    optimize_acqf_mixed_alternating, with fewer steps of fit and search than the defaults, which
    take minutes a run. Like `minimize`, it begins with d + 3 points for d hyperparameters. Real
    numbers and integers are scaled to [0, 1]."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MixedSingleTaskGP
    from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    integers: dict[int, list[float]] = {}
    categories: dict[int, list[float]] = {}
    for i, h in enumerate(space.hyperparameters):
        if isinstance(h, Integer):
            integers[i] = [h.encode(value) for value in range(h.low, h.high + 1)]
        elif isinstance(h, Category):
            categories[i] = [float(index) for index in range(h.count)]
    d = len(space.names)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).repeat(1, d)
    for i, values in (integers | categories).items():
        bounds[:, i] = torch.tensor([values[0], values[-1]], dtype=torch.float64)

    def loss_at(point: Any) -> float:
        # the unit of a category is the middle of its interval
        units = [
            (coordinate + 0.5) / len(categories[i]) if i in categories else coordinate
            for i, coordinate in enumerate(point.tolist())
        ]
        return loss(**space.decode(SIDE * np.clip(units, 0, 1)))

    x = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(d + 3).to(torch.float64)
    for i, values in (integers | categories).items():
        x[:, i] = torch.tensor(values, dtype=torch.float64)[(x[:, i] * len(values)).long()]
    y = [loss_at(point) for point in x]
    while len(y) < evaluations:
        targets = -torch.tensor(y, dtype=torch.float64)[:, None]
        model = MixedSingleTaskGP(x, targets, list(categories))
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs=dict(options=dict(maxiter=FIT_STEPS)))
        chosen, _ = optimize_acqf_mixed_alternating(
            LogExpectedImprovement(model, targets.max()),
            *(bounds, integers, categories),
            options=dict(maxiter_alternating=RESTARTS),
            raw_samples=CANDIDATES,
            num_restarts=RESTARTS,
        )
        x = torch.cat([x, chosen])
        y.append(loss_at(chosen[0]))


SAMPLERS = {
    "jsketch": with_jsketch,
    "tpe": with_tpe,
    "botorch": with_botorch,
    "random": with_random,
}


def measure_run(problem: Problem, sampler: str, seed: int) -> dict[str, Any]:
    """The best loss of a run after 20 and 40 evaluations, and the seconds of sampler and model."""
    loss, losses, model_seconds = loss_of(problem), [], 0.0

    def timed_loss(**h: Any) -> float:
        nonlocal model_seconds
        began = time.perf_counter()
        losses.append(loss(**h))
        model_seconds += time.perf_counter() - began
        return losses[-1]

    began = time.perf_counter()
    SAMPLERS[sampler](timed_loss, problem.space, max(EVALUATIONS), seed)
    total = time.perf_counter() - began
    best = {f"best_{n}": min(losses[:n]) for n in EVALUATIONS}
    return best | dict(sampler_seconds=total - model_seconds, model_seconds=model_seconds)


def table(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """For each problem and sampler, the mean and the standard error of the best loss after 20 and
    40 evaluations, the median seconds of the sampler, and the number of seeds."""
    groups = pd.DataFrame(runs).groupby(["problem", "sampler"], sort=False)
    columns = {f"best_{n}": groups[f"best_{n}"].mean() for n in EVALUATIONS}
    columns |= {f"error_{n}": groups[f"best_{n}"].sem() for n in EVALUATIONS}
    columns |= dict(sampler_seconds=groups["sampler_seconds"].median(), seeds=groups.size())
    return pd.DataFrame(columns).reset_index()


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=10)
    cli.add_choices(parser, "--only", list(PROBLEMS), help="problems")
    cli.add_choices(parser, "--samplers", list(SAMPLERS))
    parser.add_argument("--out", type=Path, help="CSV file of the runs")
    options = parser.parse_args()
    file = options.out
    runs: list[Any] = []
    if file is not None and file.exists():
        runs = pd.read_csv(file).to_dict("records")
    finished = {(run["problem"], run["sampler"], run["seed"]) for run in runs}
    for seed, problem, sampler in product(range(options.seeds), options.only, options.samplers):
        if (problem, sampler, seed) in finished:
            continue
        run = measure_run(PROBLEMS[problem], sampler, seed)
        runs.append(dict(problem=problem, sampler=sampler, seed=seed) | run)
        best = ", ".join(f"{run[f'best_{n}']:.4f}" for n in EVALUATIONS)
        print(f"{problem:9s} {sampler:8s} seed {seed}: {best}", flush=True)
        if file is not None:
            tidy.write_csv(file, pd.DataFrame(runs))
    runs = [run for run in runs if run["problem"] in options.only]
    print(table(runs).to_string(index=False, float_format="%.4f"))
