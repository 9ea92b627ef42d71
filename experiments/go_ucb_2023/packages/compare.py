"""Figure 2 with the baselines of the packages that the paper names: EI, PI and UCB of
scikit-optimize and of BoTorch, with their defaults.

    python -m experiments.go_ucb_2023.packages.compare --algorithms skopt_ei skopt_pi skopt_lcb \
        --out results/go_ucb_2023/scikit_optimize

The packages are not dependencies of this project: pip install scikit-optimize botorch. The first n
points and their noise are those of `synthetic` with the same seed, and the regrets of the methods
of Figure 2 are read from the tables of `synthetic`. The default priors of BoTorch changed in 2024,
after the paper. The methods with the suffix "_gamma" have the earlier priors, which are Gamma
distributions, and EI itself in place of its logarithm.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.go_ucb_2023 import synthetic
from experiments.go_ucb_2023.loop import configurations, load_or_run
from experiments.results import environment, outputs, summaries, tidy
from experiments.runs.bandit_runs import keys_of
from jsketch import loops
from jsketch.box import UniformBox

Value = Callable[[np.ndarray], float]  # a noisy value at x [d], to be maximised

SKOPT = {"skopt_ei": "EI", "skopt_pi": "PI", "skopt_lcb": "LCB"}
SKOPT_PACKAGES = ("scikit-optimize", "scikit-learn")
GAMMA = "_gamma"  # suffix of the methods with the priors of the paper's time
ACQUISITIONS = ("botorch_ei", "botorch_pi", "botorch_ucb")
BOTORCH = (*ACQUISITIONS, *(f"{name}{GAMMA}" for name in ACQUISITIONS))
BOTORCH_PACKAGES = ("botorch", "gpytorch", "torch")
NAMES = (*SKOPT, *BOTORCH)
# BoTorch has no defaults for these; the numbers are from the example in its documentation
RESTARTS, RAW_SAMPLES, BETA = 5, 20, 0.1
DIGITS = 5  # of the numbers in summary.json


def run_skopt(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    """All points [n + steps, d] of one run on the box [d, 2] that starts with x [n, d], y [n]."""
    from skopt import Optimizer

    sides, acquisition = [tuple(side) for side in box.tolist()], SKOPT[name]
    optimizer = Optimizer(sides, acq_func=acquisition, n_initial_points=len(x), random_state=seed)
    optimizer.tell(x.tolist(), (-y).tolist())  # scikit-optimize minimises
    points = list(x)
    for _ in range(steps):
        points.append(np.asarray(optimizer.ask()))
        optimizer.tell(points[-1].tolist(), -value(points[-1]))
    return np.stack(points)


def run_botorch(
    name: str, value: Value, box: np.ndarray, x: np.ndarray, y: np.ndarray, steps: int, seed: int
) -> np.ndarray:
    """All points [n + steps, d] of one run, from the same arguments as in `run_skopt`."""
    import torch
    from botorch.optim import optimize_acqf

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small matrices are faster on one core
    torch.set_default_dtype(torch.float64)
    bounds = torch.tensor(box.T)
    points, values = torch.tensor(x), torch.tensor(y)[:, None]
    for _ in range(steps):
        acquisition = _acquisition(name, points, values, bounds)
        point, _ = optimize_acqf(
            acquisition, bounds, q=1, num_restarts=RESTARTS, raw_samples=RAW_SAMPLES
        )
        points = torch.cat([points, point.detach()])
        values = torch.cat([values, torch.tensor([[value(points[-1].numpy())]])])
    return np.asarray(points.numpy())


def _acquisition(name: str, points: Any, values: Any, bounds: Any) -> Any:
    """The acquisition function of a GP with BoTorch's default kernel, and its default or earlier
    priors, fitted to all values."""
    from botorch import acquisition
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from botorch.models.utils import gpytorch_modules
    from gpytorch.mlls import ExactMarginalLogLikelihood

    dimension, priors = points.shape[1], {}
    if name.endswith(GAMMA):
        priors["covar_module"] = gpytorch_modules.get_matern_kernel_with_gamma_prior(dimension)
        priors["likelihood"] = gpytorch_modules.get_gaussian_likelihood_with_gamma_prior()
    transforms = dict(
        input_transform=Normalize(dimension, bounds=bounds), outcome_transform=Standardize(1)
    )
    gp = SingleTaskGP(points, values, **priors, **transforms)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    if name.startswith("botorch_ucb"):
        return acquisition.UpperConfidenceBound(gp, beta=BETA)
    make = dict(
        botorch_ei=acquisition.LogExpectedImprovement,
        botorch_ei_gamma=acquisition.ExpectedImprovement,
        botorch_pi=acquisition.ProbabilityOfImprovement,
        botorch_pi_gamma=acquisition.ProbabilityOfImprovement,
    )[name]
    return make(gp, best_f=values.max())


def summarise(regret: np.ndarray, uniform: float) -> dict[str, Any]:
    """The entry of a method with regrets [S, n + T] in summary.json (see `synthetic.summarise`)."""
    values = dict(
        regret_ratio=regret.mean(1) / uniform,
        ratio_last_10=regret[:, -10:].mean(1) / uniform,
        simple_regret=regret.min(1),
    )
    return {
        name: dict(
            mean=round(float(v.mean()), DIGITS),
            ci95=round(summaries.ci95(v), DIGITS) if v.size > 1 else None,
        )
        for name, v in values.items()
    }


def regrets_of_figure_2(folder: Path, function: str, seeds: int) -> dict[str, np.ndarray]:
    """{method: regrets [S, n + T]} of the first S = seeds in a folder of `synthetic`. Raises
    ValueError if the folder holds fewer seeds."""
    curves = tidy.load(folder).curves
    lines = tidy.lines(curves[curves["problem"] == function], "regret")
    fewest = min((len(values) for _, values in lines.values()), default=0)
    if fewest < seeds:
        raise ValueError(f"{folder} holds {fewest} seeds of {function}; {seeds} are compared.")
    return {name: values[:seeds] for name, (_, values) in lines.items()}


def configure(function: str, name: str) -> dict[str, Any]:
    """The configuration on which the runs of one method on one function depend."""
    _, n, steps = synthetic.FUNCTIONS[function]
    config = dict(function=function, algorithm=name, inputs=20, n=n, T=steps, root_seed=0)
    packages = SKOPT_PACKAGES if name in SKOPT else BOTORCH_PACKAGES
    config |= dict(noise_std=synthetic.NOISE_STD, packages=environment.package_versions(*packages))
    if name in BOTORCH:
        config |= dict(restarts=RESTARTS, raw_samples=RAW_SAMPLES)
    return config | (dict(beta=BETA) if name.startswith("botorch_ucb") else {})


def make(config: dict[str, Any], seeds: list[int]) -> list[dict[str, np.ndarray]]:
    """The run of one seed, in a list."""
    function, name, [seed] = config["function"], config["algorithm"], seeds
    problem_of, n, steps = synthetic.FUNCTIONS[function]
    problem = problem_of(20, synthetic.NOISE_STD)
    initial = loops.run(UniformBox(initial=n), problem, keys_of(0, [seed])[0], n)
    exact_value = jax.jit(problem.value)
    rng = np.random.default_rng(seed)

    def value(x: np.ndarray) -> float:
        return float(exact_value(jnp.asarray(x))) + synthetic.NOISE_STD * float(rng.normal())

    box = np.stack([np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)], axis=1)
    start = time.perf_counter()
    warnings.simplefilter("ignore")
    run = run_skopt if name in SKOPT else run_botorch
    x = run(name, value, box, np.asarray(initial.x), np.asarray(initial.y), steps, seed)
    regret = np.asarray(problem.maximum - jax.vmap(problem.value)(jnp.asarray(x)))
    return [dict(regret=regret, seconds=np.asarray(time.perf_counter() - start))]


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=synthetic.PAPER_SEEDS, workers=1)
    synthetic.add_options(parser, NAMES, NAMES)
    folder = Path("results/go_ucb_2023/synthetic")
    help_text = "folder with the tables of synthetic"
    parser.add_argument("--figure2", type=Path, default=folder, help=help_text)
    options = cli.parse(parser)
    config = configurations(configure, options)
    folder, seeds = options.figure2, options.seeds
    figure_2 = {f: regrets_of_figure_2(folder, f, seeds) for f in options.functions}
    with outputs.results_folder(options, "go_ucb_2023.packages", config, options.seeds) as results:
        runs_by_function = load_or_run(options.out, config, seeds, make, jobs=options.workers)
        functions: dict[str, Any] = {}
        for function in options.functions:
            uniform = synthetic.uniform_regret(function)
            rows = {n: summarise(regret, uniform) for n, regret in figure_2[function].items()}
            for name, runs in runs_by_function[function].items():
                regret = np.stack([run["regret"] for run in runs])
                rows[name] = summarise(regret, uniform)
                rows[name]["seconds"] = dict(mean=float(np.mean([run["seconds"] for run in runs])))
            functions[function] = dict(uniform_regret=uniform, algorithms=rows)
        table = []
        for function, methods in runs_by_function.items():
            for name, runs in methods.items():
                regrets = [run["regret"] for run in runs]
                arrays = [dict(t=np.arange(1, len(row) + 1), regret=row) for row in regrets]
                table += tidy.runs_of(dict(problem=function, algorithm=name), arrays)
        summary = dict(config=config, seeds=options.seeds, functions=functions)
        results.write(summary, table, "20 inputs, noise 0.01, other packages")
    for function, entry in functions.items():
        summaries.print_table(function, entry["algorithms"])
