"""EI, PI and UCB of the packages that the paper names, scikit-optimize and BoTorch.

The paper says "with default parameter settings", and not which package ran which method. Both are
no dependencies of this project: `pip install scikit-optimize botorch`. BoTorch is here with

    _raw    its defaults when the paper appeared: Gamma priors, inputs and values as they are
    _gamma  the same priors with inputs normalised and values standardised, which were no defaults

and, for the laws of `own_model`, as its documentation uses it now: `botorch_log_ei` has the default
priors of the installed version, normalised inputs, standardised values and the logarithm of EI.
"""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Value = Callable[[np.ndarray], float]  # a noisy value at x [d], to be maximised

SKOPT = {"skopt_ei": "EI", "skopt_pi": "PI", "skopt_lcb": "LCB"}
ACQUISITIONS = ("botorch_ei", "botorch_pi", "botorch_ucb")
RAW, GAMMA = "_raw", "_gamma"
BOTORCH = tuple(f"{name}{end}" for end in (RAW, GAMMA) for name in ACQUISITIONS)
LOG_EI = "botorch_log_ei"
NAMES = (*SKOPT, *BOTORCH, LOG_EI)
# BoTorch has no defaults for these. RESTARTS, RAW_SAMPLES and BETA are from the example in its
# documentation; `botorch_log_ei` has a more thorough search
RESTARTS, RAW_SAMPLES, BETA = 5, 20, 0.1
SEARCHES = {LOG_EI: (10, 512)}  # {method with other numbers: (restarts, raw samples)}


def settings(name: str) -> dict[str, Any]:
    """What the runs of a method depend on: the packages, and numbers without a default."""
    if name in SKOPT:
        return dict(packages=("scikit-optimize", "scikit-learn"))
    restarts, raw_samples = SEARCHES.get(name, (RESTARTS, RAW_SAMPLES))
    numbers = dict(restarts=restarts, raw_samples=raw_samples)
    beta = dict(beta=BETA) if name.startswith("botorch_ucb") else {}
    return dict(packages=("botorch", "gpytorch", "torch")) | numbers | beta


def points(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    """All points [n + steps, d] of a run of a method on the box [d, 2] that starts with x [n, d]
    and y [n]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = _run_skopt if name in SKOPT else _run_botorch
        return run(name, value, box, x, y, steps, seed)


def _run_skopt(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    from skopt import Optimizer

    sides, acquisition = [tuple(side) for side in box.tolist()], SKOPT[name]
    optimizer = Optimizer(sides, acq_func=acquisition, n_initial_points=len(x), random_state=seed)
    optimizer.tell(x.tolist(), (-y).tolist())  # scikit-optimize minimises
    chosen = list(x)
    for _ in range(steps):
        chosen.append(np.asarray(optimizer.ask()))
        optimizer.tell(chosen[-1].tolist(), -value(chosen[-1]))
    return np.stack(chosen)


def _run_botorch(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    torch = importlib.import_module("torch")
    optim = importlib.import_module("botorch.optim")
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small matrices are faster on one core
    torch.set_default_dtype(torch.float64)
    bounds = torch.tensor(box.T)
    chosen, values = torch.tensor(x), torch.tensor(y)[:, None]
    restarts, raw_samples = SEARCHES.get(name, (RESTARTS, RAW_SAMPLES))
    for _ in range(steps):
        acquisition = _acquisition(name, chosen, values, bounds)
        point, _ = optim.optimize_acqf(
            acquisition, bounds, q=1, num_restarts=restarts, raw_samples=raw_samples
        )
        chosen = torch.cat([chosen, point.detach()])
        values = torch.cat([values, torch.tensor([[value(chosen[-1].numpy())]])])
    return np.asarray(chosen.numpy())


def _acquisition(name: str, chosen: Any, values: Any, bounds: Any) -> Any:
    """The acquisition function of a GP fitted to all values."""
    from botorch import acquisition
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from botorch.models.utils import gpytorch_modules
    from gpytorch.mlls import ExactMarginalLogLikelihood

    dimension = chosen.shape[1]
    transforms: dict[str, Any] = dict(input_transform=None, outcome_transform=None)
    if name.endswith(GAMMA):
        transforms["input_transform"] = Normalize(dimension, bounds=bounds)
        transforms["outcome_transform"] = Standardize(1)
    if name == LOG_EI:  # the other settings are defaults
        scaled = Normalize(dimension, bounds=bounds)
        gp = SingleTaskGP(chosen, values, input_transform=scaled)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
        return acquisition.LogExpectedImprovement(gp, best_f=values.max())
    gp = SingleTaskGP(
        *(chosen, values),
        covar_module=gpytorch_modules.get_matern_kernel_with_gamma_prior(dimension),
        likelihood=gpytorch_modules.get_gaussian_likelihood_with_gamma_prior(),
        **transforms,
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    if name.startswith("botorch_ucb"):
        return acquisition.UpperConfidenceBound(gp, beta=BETA)
    is_ei = name.startswith("botorch_ei")
    make = acquisition.ExpectedImprovement if is_ei else acquisition.ProbabilityOfImprovement
    return make(gp, best_f=values.max())
