"""Other methods in place of `jsketch.suggest`: a greedy random forest of scikit-learn and BoTorch's
Gaussian process with expected improvement, both with the defaults of their packages, and random
candidates.

Features are those of `suggest`, with numbers scaled to [0, 1]. BoTorch is not a dependency of this
project: `pip install botorch`.
"""

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.pools.campaigns import Campaign
from experiments.pools.libraries import Pool

# (features [A, d], rows evaluated [n], values [n], batch size, seed) -> rows [q]
Chooser = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int], np.ndarray]


def random_forest(
    features: np.ndarray, arms: np.ndarray, values: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """The candidates of the largest predictions."""
    forest = importlib.import_module("sklearn.ensemble").RandomForestRegressor(random_state=seed)
    predicted = forest.fit(features[arms], values).predict(features)
    predicted[arms] = -np.inf
    return np.argsort(-predicted, kind="stable")[:batch]


def botorch_ei(
    features: np.ndarray, arms: np.ndarray, values: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """The batch of the largest joint expected improvement, one candidate after the other."""
    torch = _torch()
    torch.manual_seed(seed)
    acquisition = importlib.import_module("botorch.acquisition")
    left = np.setdiff1d(np.arange(len(features)), arms)
    points, targets = torch.tensor(features[arms]), torch.tensor(values)[:, None]
    improvement = acquisition.qLogExpectedImprovement(_gp(points, targets), best_f=targets.max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, _ = importlib.import_module("botorch.optim").optimize_acqf_discrete(
            improvement, q=batch, choices=torch.tensor(features[left]), unique=True
        )
    # the rows of the chosen candidates; equal candidates in order
    rows: list[int] = []
    for point in found.numpy():
        equal = left[(features[left] == point).all(1)]
        rows.append(next(int(row) for row in equal if row not in rows))
    return np.array(rows)


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("botorch")
    except ImportError as error:
        raise ValueError("this baseline needs BoTorch: pip install botorch") from error
    # small matrices are faster on one core
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    return torch


def _gp(points: Any, targets: Any) -> Any:
    """BoTorch's default model, fitted to the values."""
    models = importlib.import_module("botorch.models")
    gp = models.SingleTaskGP(points, targets)
    likelihood = importlib.import_module("gpytorch.mlls").ExactMarginalLogLikelihood
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("botorch.fit").fit_gpytorch_mll(likelihood(gp.likelihood, gp))
    return gp


def at_random(
    features: np.ndarray, arms: np.ndarray, values: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """Random candidates."""
    left = np.setdiff1d(np.arange(len(features)), arms)
    return np.random.default_rng(seed).choice(left, batch, replace=False)


CHOOSERS: dict[str, Chooser] = {
    "random_forest": random_forest,
    "botorch_ei": botorch_ei,
    "random": at_random,
}


def play(pool: Pool, sizes: Sequence[int], seed: int, choose: Chooser) -> Campaign:
    """A campaign with the random first batch of `campaigns.play`. Raises ValueError for
    fingerprints, whose packed words are no features, and for evaluations that fail."""
    if any(group.kind == "bits" for group in pool.library.columns) or np.isnan(pool.values).any():
        raise ValueError(f"{pool.name} has fingerprints or failures, which no baseline supports.")
    features, readings = np.asarray(pool.library.features, np.float64), pool.readings(seed)
    arms = np.random.default_rng(seed).permutation(len(pool.values))[: sizes[0]]
    for count, size in enumerate(sizes[1:]):
        rows = choose(features, arms, readings[arms], size, 1000 * seed + count)
        arms = np.append(arms, rows)
    return Campaign(seed, arms, pool.values[arms])
