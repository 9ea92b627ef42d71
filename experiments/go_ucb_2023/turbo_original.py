"""Comparison of our TuRBO-1 with its authors' code on Ackley's, Rastrigin's and Levy's functions of
10 inputs: 300 evaluations, of which 20 are initial.

    python -m experiments.go_ucb_2023.turbo_original --reference DIR --out results/go_ucb_2023/turbo

DIR is a checkout of uber-research/TuRBO, which needs torch and gpytorch. Both implementations run
with their defaults, in float64, one evaluation at a time, without noise, on the same boxes. Our
initial points are uniform, and those of the authors' code are a Latin hypercube.
"""

import dataclasses
import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import mannwhitneyu

from experiments import cli
from experiments.go_ucb_2023.loop import Config, configurations, load_or_run
from experiments.results import environment, outputs, summaries, tidy
from jsketch import loops
from jsketch.box import Turbo
from jsketch.problems import boxes
from jsketch.show import full_repr
from jsketch.types import Box

DIMENSION, INITIAL, HORIZON = 10, 20, 300
REPORTED_T = (50, 100, 200, 300)  # numbers of evaluations with an entry in summary.json
OURS, ORIGINAL = "turbo", "original"
PACKAGES = ("torch", "gpytorch", "linear_operator")


# the boxes are from the TuRBO paper (Ackley), GO-UCB's f3 (Rastrigin) and the example in the
# repository of TuRBO's authors (Levy)
FUNCTIONS: dict[str, Callable[[], boxes.BoxProblem]] = {
    "ackley": partial(boxes.ackley, DIMENSION),
    "rastrigin": partial(boxes.rastrigin, DIMENSION),
    "levy": lambda: dataclasses.replace(
        boxes.levy(DIMENSION), domain=Box(jnp.full(DIMENSION, -5.0), jnp.full(DIMENSION, 10.0))
    ),
}


def configure(function: str, name: str) -> dict[str, Any]:
    """The configuration on which the runs of one algorithm on one function depend."""
    problem = FUNCTIONS[function]()
    config = dict(
        problem=function,
        algorithm=name,
        inputs=DIMENSION,
        initial=INITIAL,
        horizon=HORIZON,
        lower=float(problem.domain.lower[0]),
        upper=float(problem.domain.upper[0]),
    )
    if name == OURS:
        return config | dict(optimizer=full_repr(Turbo(initial=INITIAL)))
    return config | dict(
        optimizer="Turbo1, all defaults", **environment.package_versions(*PACKAGES)
    )


def load(folder: Path) -> Any:
    """The authors' package `turbo`. Raises FileNotFoundError if `folder` does not contain it."""
    cli.import_from(folder, "turbo/turbo_1.py", "uber-research/TuRBO")
    # small matrices are faster on one core
    importlib.import_module("torch").set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module("turbo")


def run_original(problem: boxes.BoxProblem, seed: int, library: Any) -> np.ndarray:
    """The values [HORIZON] of a run of the authors' code."""
    value = jax.jit(problem.value)
    np.random.seed(seed)  # noqa: NPY002 - the authors' code draws from it
    importlib.import_module("torch").manual_seed(seed)
    optimizer = library.Turbo1(
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


def make(config: Config, seeds: list[int], reference: Path | None) -> list[dict[str, np.ndarray]]:
    """The run of one seed, in a list."""
    problem, [seed] = FUNCTIONS[config["problem"]](), seeds
    if config["algorithm"] == ORIGINAL:
        if reference is None:
            raise ValueError(
                f"runs of the authors' code on {config['problem']} are missing: --reference takes a"
                " checkout."
            )
        library = load(reference)
        start = time.perf_counter()
        y = run_original(problem, seed, library)
    else:
        start = time.perf_counter()
        key = jax.random.fold_in(jax.random.key(0), seed)
        y = np.asarray(loops.run(Turbo(initial=INITIAL), problem, key, HORIZON).y)
    seconds = np.asarray(time.perf_counter() - start)
    regret = np.asarray(problem.maximum - np.maximum.accumulate(y))
    return [dict(y=y, simple_regret=regret, seconds=seconds)]


def summarise(runs: dict[str, list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    """The entry of one function in summary.json: the seconds of each algorithm, its simple regret
    after each of REPORTED_T evaluations, and the two-sided p value of the Mann-Whitney test of the
    final simple regrets."""
    table = {}
    for name, rows in runs.items():
        regret = np.stack([row["simple_regret"] for row in rows])
        seconds = np.array([float(row["seconds"]) for row in rows])
        columns = {str(t): regret[:, t - 1] for t in REPORTED_T}
        by_t = {
            t: dict(median=float(np.median(column)), **summaries.statistics(column))
            for t, column in columns.items()
        }
        table[name] = dict(simple_regret=by_t, median_seconds=float(np.median(seconds)))
    final_regrets = [[float(row["simple_regret"][-1]) for row in rows] for rows in runs.values()]
    p_value = float(mannwhitneyu(*final_regrets).pvalue) if len(final_regrets) == 2 else None
    return dict(algorithms=table, p_value=p_value)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=10, reference=None)
    cli.add_choices(parser, "--functions", list(FUNCTIONS))
    cli.add_choices(parser, "--algorithms", [OURS, ORIGINAL])
    options = cli.parse(parser)
    config, experiment = configurations(configure, options), "go_ucb_2023.turbo_original"
    with outputs.results_folder(options, experiment, config, options.seeds) as results:
        make_run = partial(make, reference=options.reference)
        runs = load_or_run(options.out, config, options.seeds, make_run)
        functions = {f: summarise(methods) for f, methods in runs.items()}
        for function, entry in functions.items():
            rows = {
                name: {t: regret["median"] for t, regret in row["simple_regret"].items()}
                for name, row in entry["algorithms"].items()
            }
            summaries.print_table(f"{function}, median regret (p = {entry['p_value']})", rows)
        summary = dict(
            config=config,
            seeds=options.seeds,
            median_seconds="wall time of a run; the first one of ours includes compilation",
            functions=functions,
        )
        table = []
        for f, methods in runs.items():
            for name, saved in methods.items():
                arrays = [dict(row, t=np.arange(1, HORIZON + 1)) for row in saved]
                table += tidy.runs_of(config[f][name], arrays)
        results.write(summary, table, f"{DIMENSION} inputs, no noise")
