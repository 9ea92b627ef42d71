"""Baselines for `jsketch.suggest`: a greedy random forest of scikit-learn, BoTorch's Gaussian
process with expected improvement, and random candidates.

Features are those of `suggest`, with numbers scaled to [0, 1]. BoTorch is not a dependency of this
project: `pip install botorch`.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from experiments.pools.campaigns import Campaign
from experiments.pools.libraries import Pool

# (features [A, d], evaluated rows [n], their readings [n], batch size, seed) -> rows [q]
Chooser = Callable[[np.ndarray, np.ndarray, np.ndarray, int, int], np.ndarray]


def random_forest(
    features: np.ndarray, evaluated: np.ndarray, readings: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """The candidates with the largest predicted values."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(random_state=seed)
    predicted = forest.fit(features[evaluated], readings).predict(features)
    predicted[evaluated] = -np.inf
    return np.argsort(-predicted, kind="stable")[:batch]


def botorch_ei(
    features: np.ndarray, evaluated: np.ndarray, readings: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """A batch with a large joint expected improvement, which is maximised greedily."""
    try:
        import torch
        from botorch import acquisition, fit, models, optim
        from gpytorch.mlls import ExactMarginalLogLikelihood
    except ImportError as error:
        raise ValueError("this baseline needs BoTorch: pip install botorch") from error
    # operations on small matrices are faster on one core
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    candidates = np.setdiff1d(np.arange(len(features)), evaluated)
    points, targets = torch.tensor(features[evaluated]), torch.tensor(readings)[:, None]
    # the expected improvement of one candidate has a closed form
    acquisition_name = "LogExpectedImprovement" if batch == 1 else "qLogExpectedImprovement"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = models.SingleTaskGP(points, targets)
        fit.fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
        improvement = getattr(acquisition, acquisition_name)(gp, best_f=targets.max())
        batch_points, _ = optim.optimize_acqf_discrete(
            improvement, q=batch, choices=torch.tensor(features[candidates]), unique=True
        )
    # candidates with equal features are chosen in the order of their rows
    rows: list[int] = []
    for point in batch_points.numpy():
        equal_rows = candidates[(features[candidates] == point).all(1)]
        rows.append(next(int(row) for row in equal_rows if row not in rows))
    return np.array(rows)


def random_candidates(
    features: np.ndarray, evaluated: np.ndarray, readings: np.ndarray, batch: int, seed: int
) -> np.ndarray:
    """Candidates drawn uniformly without replacement."""
    candidates = np.setdiff1d(np.arange(len(features)), evaluated)
    return np.random.default_rng(seed).choice(candidates, batch, replace=False)


CHOOSERS: dict[str, Chooser] = {
    "random_forest": random_forest,
    "botorch_ei": botorch_ei,
    "random": random_candidates,
}


def play(pool: Pool, sizes: Sequence[int], seed: int, choose: Chooser) -> Campaign:
    """A campaign with the same random first batch as in `campaigns.play`. Raises ValueError for
    failed evaluations, and for fingerprints, whose packed bits are not numeric features."""
    if any(group.kind == "bits" for group in pool.library.columns) or np.isnan(pool.values).any():
        raise ValueError(
            f"{pool.name} has fingerprints or failed evaluations, which the baselines do not"
            " support."
        )
    features, readings = np.asarray(pool.library.features, np.float64), pool.readings(seed)
    evaluated = np.random.default_rng(seed).permutation(len(pool.values))[: sizes[0]]
    for index, size in enumerate(sizes[1:]):
        round_seed = 1000 * seed + index
        rows = choose(features, evaluated, readings[evaluated], size, round_seed)
        evaluated = np.append(evaluated, rows)
    return Campaign(seed, evaluated, pool.values[evaluated])
