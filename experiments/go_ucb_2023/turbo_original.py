"""GO-UCB, Figure 2, a baseline: TuRBO-1 by its authors' code, on f1 and on three other functions.

On f1 it has the evaluations and the noise of Figure 2. Beside our TuRBO-1 it runs on Ackley's,
Rastrigin's and Levy's functions of 10 inputs without noise: 300 evaluations, of which 20 are
initial. Both evaluate one point at a time, with their defaults in float64. The boxes are those of
the TuRBO paper (Ackley), of GO-UCB's f3 and of the example in the authors' repository (Levy). Our
initial points are uniform, and theirs a Latin hypercube.

The authors' package `turbo` is a checkout of uber-research/TuRBO on PYTHONPATH; it needs torch and
gpytorch, which are no dependencies of this project.
"""

import dataclasses
import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.common import Options, Settings
from experiments.figures import plots
from experiments.go_ucb_2023 import loop
from experiments.go_ucb_2023.fig2_functions import FUNCTIONS as OF_FIGURE_2
from experiments.go_ucb_2023.fig2_functions import NOISE_STD
from experiments.go_ucb_2023.loop import Config
from experiments.results import environment, tidy
from jsketch import loops
from jsketch.box import Turbo
from jsketch.problems import boxes
from jsketch.show import full_repr
from jsketch.types import Box

DIMENSION = 10
_, F1_INITIAL, F1_STEPS = OF_FIGURE_2["f1"]
# {name: (function, initial points, evaluations)}
FUNCTIONS: dict[str, tuple[Callable[[], boxes.BoxProblem], int, int]] = {
    "ackley": (partial(boxes.ackley, DIMENSION), 20, 300),
    "rastrigin": (partial(boxes.rastrigin, DIMENSION), 20, 300),
    "levy": (
        lambda: dataclasses.replace(
            boxes.levy(DIMENSION), domain=Box(jnp.full(DIMENSION, -5.0), jnp.full(DIMENSION, 10.0))
        ),
        *(20, 300),
    ),
    "f1": (partial(OF_FIGURE_2["f1"][0], 20, NOISE_STD), F1_INITIAL, F1_INITIAL + F1_STEPS),
}
OTHERS = ("ackley", "rastrigin", "levy")
RUNS: dict[str, Settings] = {
    "go_ucb_2023/turbo": dict(functions=OTHERS, methods=("turbo", "original"), seeds=10),
    "go_ucb_2023/turbo_f1": dict(functions=("f1",), methods=("original",), seeds=30),
}
QUICK: Settings = dict(methods=("turbo",), seeds=1)


def configure(function: str, method: str) -> Config:
    """What the runs of a method on a function depend on."""
    make, initial, horizon = FUNCTIONS[function]
    problem = make()
    config = dict(problem=function, algorithm=method, inputs=problem.domain.lower.size)
    config |= dict(initial=initial, horizon=horizon)
    if problem.noise_std:
        config |= dict(noise_std=problem.noise_std)
    if method == "turbo":
        return config | dict(optimizer=full_repr(Turbo(initial=initial)))
    versions = environment.package_versions("torch", "gpytorch", "linear_operator")
    return config | dict(optimizer="Turbo1, all defaults") | versions


def play_original(problem: boxes.BoxProblem, initial: int, horizon: int, seed: int) -> np.ndarray:
    """The values [horizon], without noise, of a run of the authors' code."""
    torch, value = importlib.import_module("torch"), jax.jit(problem.value)
    torch.set_num_threads(1)  # small matrices are faster on one core
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        turbo = importlib.import_module("turbo")
    np.random.seed(seed)  # noqa: NPY002 - the authors' code draws from it
    torch.manual_seed(seed)
    rng, values = np.random.default_rng(seed), []

    def loss(x: np.ndarray) -> float:
        values.append(float(value(x)))
        return -values[-1] - np.asarray(problem.noise_std).item() * rng.standard_normal()

    optimizer = turbo.Turbo1(
        f=loss,
        lb=np.asarray(problem.domain.lower),
        ub=np.asarray(problem.domain.upper),
        n_init=initial,
        max_evals=horizon,
        batch_size=1,
        verbose=False,
    )
    optimizer.optimize()
    # a restart near the horizon evaluates its whole initial design, beyond the horizon
    return np.array(values[:horizon])


def play(config: Config, seeds: list[int]) -> list[dict[str, np.ndarray]]:
    """The run of one seed, in a list."""
    make, initial, horizon = FUNCTIONS[config["problem"]]
    problem, [seed] = make(), seeds
    start = time.perf_counter()
    if config["algorithm"] == "original":
        regret = np.asarray(problem.maximum) - play_original(problem, initial, horizon, seed)
    else:
        key = jax.random.fold_in(jax.random.key(0), seed)
        trace = loops.run(Turbo(initial=initial), problem, key, horizon).trace
        regret = np.asarray(trace.regret)
    seconds = np.asarray(time.perf_counter() - start)
    return [dict(regret=regret, simple_regret=np.minimum.accumulate(regret), seconds=seconds)]


def run(folder: Path, settings: Settings, options: Options) -> None:
    functions, seeds = settings["functions"], settings["seeds"]
    configs = {f: {m: configure(f, m) for m in settings["methods"]} for f in functions}
    with options.results(folder, "go_ucb_2023.turbo_original", configs, seeds) as results:
        runs = loop.load_or_run(folder, configs, seeds, play, options.workers)
        table = [
            row
            for f, methods in runs.items()
            for name, rows in methods.items()
            for row in tidy.runs_of(
                configs[f][name], [dict(r, t=np.arange(1, len(r["regret"]) + 1)) for r in rows]
            )
        ]
        results.write(dict(config=configs, seeds=seeds), table, "TuRBO and its authors' code")


def draw(folder: Path) -> None:
    for function in common.tables(folder).curves["problem"].unique():
        curves = common.curves(folder, "simple_regret", problem=function)
        path = folder / f"{function}.png"
        plots.streams(path, curves, str(function), "simple regret", "evaluations $t$")


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
