"""Hyperparameter tuning of scikit-learn's classifiers: the nine problems of GO-UCB's Figures 3 to 5
(Section 6.2, D.2).

The models are a random forest (7 hyperparameters), a multi-layer perceptron (8) and gradient
boosting (11), each on breast-cancer, Australian and diabetes. The reward is the accuracy on one of
five folds after training on the four others; it is a deterministic function of the hyperparameters
and the repetition.
"""

import io
import math
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # scikit-learn cannot be installed without it

from experiments.data import datasets
from experiments.data.datasets import Dataset, Source
from jsketch.box import Category, Integer, Real, Space

FOLDS = 5
UCI_URL = "https://archive.ics.uci.edu/static/public"
SOURCES = {
    "breast_cancer": Source(
        filename="breast-cancer-wisconsin.data",
        sha256="402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        url=f"{UCI_URL}/15/breast+cancer+wisconsin+original.zip",
        member="breast-cancer-wisconsin.data",
    ),
    "australian": Source(
        filename="australian.dat",
        sha256="3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
        url=f"{UCI_URL}/143/statlog+australian+credit+approval.zip",
        member="australian.dat",
    ),
    "diabetes": Source(
        filename="pima-indians-diabetes.data",
        sha256="06f5b7c2cd7bca686fda4f92eab5f61e7ff6426a9acefa2e3dda04fc54293cf5",
        url="https://raw.githubusercontent.com/jbrownlee/Datasets/master/pima-indians-diabetes.data.csv",
    ),
}


class Model(NamedTuple):
    """A classifier and the space of its hyperparameters."""

    space: Space
    build: Callable[..., Any]  # (random_state, **hyperparameters) -> an estimator


def gradient_boosting(**hyperparameters: Any) -> Any:
    """The estimator, without `criterion` if scikit-learn (from 1.9 on) ignores it."""
    defaults = GradientBoostingClassifier().get_params()
    if defaults.get("criterion", "deprecated") == "deprecated":
        hyperparameters = {n: v for n, v in hyperparameters.items() if n != "criterion"}
    return GradientBoostingClassifier(**hyperparameters)


# the order and the ranges are those of D.2, the names those of scikit-learn; "logloss" of D.2 is
# "log_loss" here, which equals "entropy" in a forest
MODELS = {
    "random_forest": Model(
        Space(
            Integer("n_estimators", 20, 200),
            Category("criterion", ("gini", "entropy", "log_loss")),
            Integer("max_depth", 1, 10),
            Integer("min_samples_split", 2, 10),
            Integer("min_samples_leaf", 1, 10),
            Category("max_features", ("sqrt", "log2")),
            Category("bootstrap", (True, False)),
        ),
        partial(RandomForestClassifier, n_jobs=1),
    ),
    "mlp": Model(
        Space(
            Category("activation", ("identity", "logistic", "tanh", "relu")),
            Real("alpha", 1e-6, 1e-2),
            Real("learning_rate_init", 1e-6, 1e-2),
            Integer("max_iter", 100, 300),
            Category("shuffle", (True, False)),
            Real("beta_1", 0, 1, open=True),
            Real("beta_2", 0, 1, open=True),
            Integer("n_iter_no_change", 1, 10),
        ),
        lambda **hyperparameters: make_pipeline(StandardScaler(), MLPClassifier(**hyperparameters)),
    ),
    "gradient_boosting": Model(
        Space(
            Category("loss", ("log_loss", "exponential")),
            Real("learning_rate", 0, 1, open=True),
            Integer("n_estimators", 20, 200),
            Real("subsample", 0, 1, open=True),
            Category("criterion", ("friedman_mse", "squared_error")),
            Integer("min_samples_split", 2, 10),
            Integer("min_samples_leaf", 1, 10),
            Real("min_weight_fraction_leaf", 0, 0.5, open=True),
            Integer("max_depth", 1, 10),
            Category("max_features", ("sqrt", "log2")),
            Integer("max_leaf_nodes", 2, 10),
        ),
        gradient_boosting,
    ),
}
PROTOCOL = [
    "5 stratified folds, shuffled by random_state = repetition // 5; fold repetition % 5 is the"
    " test set",
    "mlp: inputs standardized by the training rows; the trees take them raw",
    "random_state = repetition",
]


@lru_cache
def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Features [n, d] and classes 0 and 1 [n] (the larger of the file's codes is 1), in the order
    of the file. breast_cancer is Wisconsin (original) without the id and the 16 rows with a missing
    value. Raises the errors of `datasets.load`."""
    content = datasets.read(SOURCES[name], datasets.find_folder(data_dir)).decode()
    if name == "breast_cancer":
        # the id is the first field, and "?" stands for a missing value
        rows = [row.partition(",")[2] for row in content.splitlines() if "?" not in row]
        content = "\n".join(rows)
    table = np.loadtxt(io.StringIO(content), delimiter=None if name == "australian" else ",")
    target = (table[:, -1] == table[:, -1].max()).astype(float)
    return Dataset(name, table[:, :-1], target, datasets.citation(SOURCES[name]))


def split(target: np.ndarray, repetition: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows for training, rows for the test) of a repetition. Five repetitions share a partition
    into five folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repetition // FOLDS)
    return list(folds.split(np.zeros((len(target), 1)), target))[repetition % FOLDS]


def accuracy(
    model: str, dataset: Dataset, repetition: int, hyperparameters: dict[str, Any]
) -> float:
    """The share of test rows that are classified correctly, computed on one thread. Raises the
    errors of scikit-learn."""
    train, test = split(dataset.target, repetition)
    estimator = MODELS[model].build(random_state=repetition, **hyperparameters)
    with threadpool_limits(1), warnings.catch_warnings():
        # max_iter may be too small for convergence
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(dataset.features[train], dataset.target[train])
        return float((estimator.predict(dataset.features[test]) == dataset.target[test]).mean())


def evaluate(
    model: str, dataset: Dataset, repetition: int, hyperparameters: dict[str, Any]
) -> tuple[float, str]:
    """(`accuracy`, ""), or (NaN, the reason) if the evaluation fails. MemoryError and OSError are
    failures of the machine and are raised."""
    try:
        return accuracy(model, dataset, repetition, hyperparameters), ""
    except (MemoryError, OSError):
        raise
    except Exception as error:
        return math.nan, f"{type(error).__name__}: {error}"
