"""GO-UCB, Figure 2, a baseline: our TuRBO-1 beside its authors' code on three other functions.

Ackley's, Rastrigin's and Levy's functions of 10 inputs without noise: 300 evaluations, of which 20
are initial, one at a time, both with their defaults in float64. The boxes are those of the TuRBO
paper (Ackley), of GO-UCB's f3 and of the example in the authors' repository (Levy). Our initial
points are uniform, and theirs a Latin hypercube.

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
from experiments.go_ucb_2023.loop import Config
from experiments.results import environment, tidy
from jsketch import loops
from jsketch.box import Turbo
from jsketch.problems import boxes
from jsketch.show import full_repr
from jsketch.types import Box

DIMENSION, INITIAL, HORIZON = 10, 20, 300
FUNCTIONS: dict[str, Callable[[], boxes.BoxProblem]] = {
    "ackley": partial(boxes.ackley, DIMENSION),
    "rastrigin": partial(boxes.rastrigin, DIMENSION),
    "levy": lambda: dataclasses.replace(
        boxes.levy(DIMENSION), domain=Box(jnp.full(DIMENSION, -5.0), jnp.full(DIMENSION, 10.0))
    ),
}
RUNS: dict[str, Settings] = {"go_ucb_2023/turbo": dict(methods=("turbo", "original"), seeds=10)}
QUICK: Settings = dict(methods=("turbo",), seeds=1)


def configure(function: str, method: str) -> Config:
    """What the runs of a method on a function depend on."""
    config = dict(problem=function, algorithm=method, inputs=DIMENSION)
    config |= dict(initial=INITIAL, horizon=HORIZON)
    if method == "turbo":
        return config | dict(optimizer=full_repr(Turbo(initial=INITIAL)))
    versions = environment.package_versions("torch", "gpytorch", "linear_operator")
    return config | dict(optimizer="Turbo1, all defaults") | versions


def play_original(problem: boxes.BoxProblem, seed: int) -> np.ndarray:
    """The values [HORIZON] of a run of the authors' code."""
    torch, value = importlib.import_module("torch"), jax.jit(problem.value)
    torch.set_num_threads(1)  # small matrices are faster on one core
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        turbo = importlib.import_module("turbo")
    np.random.seed(seed)  # noqa: NPY002 - the authors' code draws from it
    torch.manual_seed(seed)
    optimizer = turbo.Turbo1(
        f=lambda x: -float(value(x)),
        lb=np.asarray(problem.domain.lower),
        ub=np.asarray(problem.domain.upper),
        n_init=INITIAL,
        max_evals=HORIZON,
        batch_size=1,
        verbose=False,
    )
    optimizer.optimize()
    # a restart near the horizon evaluates its whole initial design, beyond the horizon
    return -optimizer.fX[:HORIZON, 0]


def play(config: Config, seeds: list[int]) -> list[dict[str, np.ndarray]]:
    """The run of one seed, in a list."""
    problem, [seed] = FUNCTIONS[config["problem"]](), seeds
    start = time.perf_counter()
    if config["algorithm"] == "original":
        y = play_original(problem, seed)
    else:
        key = jax.random.fold_in(jax.random.key(0), seed)
        y = np.asarray(loops.run(Turbo(initial=INITIAL), problem, key, HORIZON).trace.y)
    seconds = np.asarray(time.perf_counter() - start)
    regret = np.asarray(problem.maximum - np.maximum.accumulate(y))
    return [dict(y=y, simple_regret=regret, seconds=seconds)]


def run(folder: Path, settings: Settings, options: Options) -> None:
    configs = {f: {m: configure(f, m) for m in settings["methods"]} for f in FUNCTIONS}
    seeds, t = settings["seeds"], np.arange(1, HORIZON + 1)
    with options.results(folder, "go_ucb_2023.turbo_original", configs, seeds) as results:
        runs = loop.load_or_run(folder, configs, seeds, play, options.workers)
        table = [
            row
            for f, methods in runs.items()
            for name, rows in methods.items()
            for row in tidy.runs_of(configs[f][name], [dict(r, t=t) for r in rows])
        ]
        results.write(dict(config=configs, seeds=seeds), table, f"{DIMENSION} inputs, no noise")


def draw(folder: Path) -> None:
    for function in FUNCTIONS:
        curves = common.curves(folder, "simple_regret", problem=function)
        path, title = folder / f"{function}.png", f"{function}, {DIMENSION} inputs"
        plots.streams(path, curves, title, "simple regret", "evaluations $t$")


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
