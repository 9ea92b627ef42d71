"""Runs of scikit-optimize and of BoTorch, one evaluation at a time, with the packages' defaults.

Neither is a dependency of this project: `pip install scikit-optimize botorch`. A run takes the
first points and values as given, so that all methods meet the same phase I.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

PACKAGES = ("scikit-optimize", "botorch", "gpytorch", "torch")
Value = Callable[[np.ndarray], float]  # a noisy value at x [d], to be maximised

SKOPT = {"skopt_ei": "EI", "skopt_pi": "PI", "skopt_lcb": "LCB"}
BOTORCH = ("botorch_ei", "botorch_pi", "botorch_ucb")
NAMES = (*SKOPT, *BOTORCH)
# BoTorch has no default for these: the numbers are those of the example in its documentation
RESTARTS, RAW_SAMPLES, BETA = 5, 20, 0.1


def versions() -> dict[str, str]:
    """Of the packages. Raises ValueError when one is missing."""
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES}
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            f"this comparison runs {', '.join(PACKAGES)}, and {error.name} is not installed:"
            " pip install scikit-optimize botorch"
        ) from error


def run(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    """All points [n + steps, d] of one run on the box [d, 2] that starts with x [n, d], y [n]."""
    warnings.simplefilter("ignore")
    if name in SKOPT:
        return _scikit_optimize(SKOPT[name], value, box, x, y, steps, seed)
    return _botorch(name, value, box, x, y, steps, seed)


def _scikit_optimize(
    acquisition: str,
    value: Value,
    box: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    steps: int,
    seed: int,
) -> np.ndarray:
    optimizer = importlib.import_module("skopt").Optimizer(
        [tuple(side) for side in box.tolist()],
        acq_func=acquisition,
        n_initial_points=len(x),
        random_state=seed,
    )
    optimizer.tell(x.tolist(), (-y).tolist())  # it minimises
    points = list(x)
    for _ in range(steps):
        points.append(np.asarray(optimizer.ask()))
        optimizer.tell(points[-1].tolist(), -value(points[-1]))
    return np.stack(points)


def _botorch(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    torch = importlib.import_module("torch")
    optimize = importlib.import_module("botorch.optim").optimize_acqf
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # matrices this small are faster on one core
    torch.set_default_dtype(torch.float64)
    bounds = torch.tensor(box.T)
    points, values = torch.tensor(x), torch.tensor(y)[:, None]
    for _ in range(steps):
        acquisition = _acquisition(name, points, values, bounds)
        found, _ = optimize(
            acquisition, bounds, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES
        )
        points = torch.cat([points, found.detach()])
        values = torch.cat([values, torch.tensor([[value(points[-1].numpy())]])])
    return np.asarray(points.numpy())


def _acquisition(name: str, points: Any, values: Any, bounds: Any) -> Any:
    """Of a GP with BoTorch's default kernel and priors, fitted to all values."""
    models = importlib.import_module("botorch.models")
    transforms = importlib.import_module("botorch.models.transforms")
    gp = models.SingleTaskGP(
        points,
        values,
        input_transform=transforms.Normalize(points.shape[1], bounds=bounds),
        outcome_transform=transforms.Standardize(1),
    )
    likelihood = importlib.import_module("gpytorch.mlls").ExactMarginalLogLikelihood
    importlib.import_module("botorch.fit").fit_gpytorch_mll(likelihood(gp.likelihood, gp))
    kinds = importlib.import_module("botorch.acquisition")
    if name == "botorch_ucb":
        return kinds.UpperConfidenceBound(gp, beta=BETA)
    kind = kinds.LogExpectedImprovement if name == "botorch_ei" else kinds.ProbabilityOfImprovement
    return kind(gp, best_f=values.max())
