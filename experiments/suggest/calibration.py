"""How often `suggest.stopping` stops too early, on random functions and on recorded libraries.

    python -m experiments.suggest.calibration --problems smooth rough step peak short --seeds 40
    python -m experiments.suggest.calibration --problems arylation_one_hot --seeds 20

Campaigns on functions have 200 candidates in two dimensions, noise of standard deviation 0.1, a
random first batch of 5 and batches of 5 up to 80 values. Campaigns on libraries are those of
`experiments.pools`. A stop is too early if an unevaluated candidate is better, by more than the
tolerance, than the evaluated one that the verdict names.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.pools import published
from experiments.results import store
from jsketch import kernels
from jsketch.suggest import Library, library, stopping, suggest

N_CANDIDATES, BATCH_SIZES, NOISE = 200, (5,) * 16, 0.1  # of campaigns on functions
KERNELS = dict(
    smooth=kernels.Matern(0.5),
    rough=kernels.Matern(0.5, nu=0.5),
    short=kernels.Matern(0.2, nu=1.5),
)
FUNCTIONS = ("smooth", "rough", "step", "peak", "short")
BOUNDS = dict.fromkeys(("arylation_one_hot", "arylation_dft"), (0.0, 100.0))


class Problem(NamedTuple):
    """The candidates of a campaign."""

    library: Library
    truth: np.ndarray  # [A], NaN where an evaluation fails
    values: np.ndarray  # [A], the result of an evaluation of each candidate
    sizes: tuple[int, ...]  # of the batches
    bounds: tuple[float, float] | None = None  # of values


class End(NamedTuple):
    """The end of a campaign. `gain` and `tolerance` are None if no stop was suggested."""

    evaluations: int
    # the best unevaluated value minus the value of the candidate that the verdict names
    gain: float | None = None
    tolerance: float | None = None

    @property
    def too_early(self) -> bool:
        return self.gain is not None and self.tolerance is not None and self.gain > self.tolerance


def draw_function(name: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values [A] of a random function at candidates x [A, 2]."""
    if name in KERNELS:
        points = jax.numpy.asarray(x)
        # the diagonal makes the Gram matrix positive definite in spite of rounding
        gram = np.asarray(KERNELS[name].gram(points, points)) + 1e-9 * np.eye(len(x))
        return np.linalg.cholesky(gram) @ rng.standard_normal(len(x))
    if name == "step":
        return np.sin(3 * x[:, 0]) + (x @ rng.standard_normal(2) > 0.3)
    centre = rng.uniform(size=2)  # of a narrow peak
    return 3 * np.exp(-np.square(x - centre).sum(1) / 0.0098) + 0.3 * np.sin(3 * x[:, 0])


def problem_maker(name: str, folder: Path | None) -> Callable[[int], Problem]:
    """A function that makes the problem of a seed."""
    if name in FUNCTIONS:

        def draw_problem(seed: int) -> Problem:
            rng = np.random.default_rng([seed, FUNCTIONS.index(name)])
            x = rng.uniform(size=(N_CANDIDATES, 2))
            f = draw_function(name, x, rng)
            noise = NOISE * rng.standard_normal(N_CANDIDATES)
            return Problem(library(x), truth=f, values=f + noise, sizes=BATCH_SIZES)

        return draw_problem
    setting, bounds = published.SETTINGS[name], BOUNDS.get(name)
    pool, sizes = setting.load(folder), setting.sizes
    return lambda seed: Problem(pool.library, pool.values, pool.readings(seed), sizes, bounds)


def campaign(problem: Problem, seed: int) -> End:
    """The end of a campaign: a random batch, then batches of `suggest` until the rule stops."""
    arms = np.random.default_rng(seed).permutation(len(problem.truth))[: problem.sizes[0]]
    for index, size in enumerate(problem.sizes[1:]):
        key, values = jax.random.fold_in(jax.random.key(seed), index), problem.values[arms]
        suggestion = suggest(problem.library, arms, values, batch=size, key=key)
        gain = stopping.possible_gain(
            problem.library, arms, values, suggestion.model, bounds=problem.bounds, key=key
        )
        tolerance = stopping.tolerance(values, problem.bounds)
        if gain is not None and stopping.should_stop(gain, tolerance):
            best_unevaluated = np.nanmax(np.delete(problem.truth, arms))
            row = stopping.stop_row(gain, tolerance, arms, values)
            return End(len(arms), float(best_unevaluated - problem.truth[row]), tolerance)
        arms = np.append(arms, suggestion.rows)
    return End(len(arms))


def parse(doc: str | None) -> tuple[argparse.Namespace, range]:
    """(options, seeds) of the commands of this module and of `intervals`."""
    parser = cli.parser(doc, seeds=50, first_seed=0, data_dir=None)
    cli.add_choices(parser, "--problems", (*FUNCTIONS, *published.SETTINGS), FUNCTIONS)
    options = cli.parse_benchmark(parser, cached=True)
    return options, range(options.first_seed, options.first_seed + options.seeds)


def table_row(name: str, ends: list[End]) -> str:
    """A row of a table in Markdown."""
    stops = [end.evaluations for end in ends if end.gain is not None]
    n_too_early = sum(end.too_early for end in ends)
    low, median, high = np.percentile(stops, (10, 50, 90)) if stops else (np.nan,) * 3
    quantiles = f"{median:.0f} ({low:.0f} to {high:.0f})" if stops else ""
    return f"| {name} | {len(ends)} | {len(stops)} | {quantiles} | {n_too_early} |"


@cli.command
def main() -> None:
    options, seeds = parse(__doc__)
    ends: dict[str, list[End]] = {}
    print(
        "| problem | campaigns | stopped | after (10% to 90%) | too early |\n|---|---|---|---|---|"
    )
    for name in options.problems:
        problem_of = problem_maker(name, options.data_dir)
        ends[name] = [campaign(problem_of(seed), seed) for seed in seeds]
        print(table_row(name, ends[name]), flush=True)
    saved = {name: [end._asdict() for end in name_ends] for name, name_ends in ends.items()}
    store.write_numbers(options.out, dict(first_seed=options.first_seed, ends=saved))
