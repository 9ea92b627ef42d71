"""Bandits that do not know the lengthscale: balancing over five of them beside BBKB at the right
one, at one four times as long and at one a quarter of it.

python -m experiments.runs.unknown_lengthscale
python -m experiments.runs.unknown_lengthscale --problems draw --only "BBKB right" realised
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.results.summaries import ci95
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, LengthscaleBalancing, NormDoubling, widths

POINTS = 500
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25)  # of the right lengthscale, the longest first
WIDTHS: dict[str, widths.Width] = {
    "bayesian": widths.Bayesian(2.0),
    "code": widths.bbkb_code,
    "certified": widths.certified_mixture,
}


class Setting(NamedTuple):
    """A problem, and what all methods assume of it."""

    problem: Any
    lengthscale: float  # the right one
    noise: float
    norm_bounds: tuple[float, ...]  # of the candidates
    horizon: int
    regularization: float


def norm_of(f: np.ndarray, gram: np.ndarray) -> float:
    """Norm of the function with these values, but for the directions that rounding decides."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * values.max()
    return float(np.sqrt((np.square(f @ vectors[:, kept]) / values[kept]).sum()))


def draw(options: Any) -> Setting:
    """A function of lengthscale 0.2 on 500 points of the square, and the norm that it has there."""
    noise, scale = 0.1, 0.2
    kernel = kernels.Gaussian(scale)
    arms_key, f_key = jax.random.split(jax.random.key(0))
    arms = jax.random.uniform(arms_key, (POINTS, 2))
    problem = problems.gp_draw(f_key, kernel, arms, noise)
    norm = norm_of(np.asarray(problem.mean_reward), np.asarray(kernel.gram(arms, arms)))
    # (theta_0 / theta)^(d/2) of Lemma 2.1, with d = 2, from the right lengthscale
    bounds = tuple(norm / factor for factor in FACTORS)
    return Setting(problem, scale, noise, bounds, options.horizon or 500, noise**2)


def abalone(options: Any) -> Setting:
    """Abalone with the lengthscale of BBKB's Table 1, and one norm bound for all: the rule of Lemma
    2.1 multiplies it by 16 from each candidate to the next in eight dimensions."""
    data = datasets.load("abalone", options.data_dir)
    problem = problems.finite_arms(*datasets.preprocess(data), noise_std=0.01)
    return Setting(problem, 17.5, 0.01, (1.0,) * len(FACTORS), options.horizon or 500, 1e-2)


PROBLEMS: dict[str, Callable[[Any], Setting]] = {"draw": draw, "abalone": abalone}


def methods(s: Setting, width: str) -> dict[str, Any]:
    """The bandits of a table."""
    base = BBKB(
        kernels.Gaussian(s.lengthscale),
        regularization=s.regularization,
        noise_std=s.noise,
        delta=0.05,
        width=WIDTHS[width],
        max_batch=512,
    )

    def at(factor: float) -> BBKB:
        kernel = kernels.Gaussian(factor * s.lengthscale)
        return replace(base, kernel=kernel, norm_bound=s.norm_bounds[FACTORS.index(factor)])

    def balanced(**options: Any) -> LengthscaleBalancing:
        scales = tuple(factor * s.lengthscale for factor in FACTORS)
        return LengthscaleBalancing(base, scales, norm_bounds=s.norm_bounds, delta=0.05, **options)

    return {
        "BBKB right": at(1.0),
        "BBKB long": at(4.0),
        "BBKB short": at(0.25),
        "order": balanced(rule="order"),
        "realised": balanced(rule="realised"),
        "realised, norm test": balanced(rule="realised", norm_test=True),
        "evidence": balanced(rule="evidence"),
        "doubling": NormDoubling(replace(at(1.0), norm_bound=0.1)),
        "no doubling": replace(at(1.0), norm_bound=0.1),
    }


NAMES = (
    "BBKB right",
    "BBKB long",
    "BBKB short",
    "order",
    "realised",
    "realised, norm test",
    "evidence",
)


def row(name: str, bandit: Any, s: Setting, seeds: int) -> str:
    """A line of the table, the seconds those of the second of two runs."""
    keys = jax.random.split(jax.random.key(1), seeds)

    def played() -> Any:
        return jax.block_until_ready(loops.run_seeds(bandit, s.problem, keys, s.horizon))

    first = played()
    start = time.process_time()
    played()
    seconds = time.process_time() - start
    mean = s.problem.mean_reward
    uniform = s.horizon * float(mean.max() - mean.mean())
    ratio = np.asarray(first.trace.regret).sum(1) / uniform
    rounds = np.asarray(first.trace.round).max(1) + 1
    size = np.asarray(first.trace.dictionary_size)[:, -1].mean()
    end = ""
    if hasattr(first.state, "ruled_out"):
        pulls = np.asarray(first.state.pulls).mean(0) / s.horizon
        out = np.asarray(first.state.ruled_out).sum(0)
        shares = " ".join(f"{p:.0%}" for p in pulls)
        end = f"   chosen {shares}, ruled out in {' '.join(map(str, out))}"
    if hasattr(first.state, "norm_bound"):
        end = f"   F {np.asarray(first.state.norm_bound)}"
    return (
        f"{name:20s} {ratio.mean():7.3f} +- {ci95(ratio):.3f} {rounds.mean():8.1f} {size:8.1f}"
        f" {seconds / rounds.sum():10.4f}{end}"
    )


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    every = [*NAMES, "doubling", "no doubling"]
    parser.add_argument("--only", nargs="+", choices=every, default=list(NAMES))
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--width", choices=list(WIDTHS), default="bayesian")
    parser.add_argument("--seeds", type=cli.count, default=8)
    parser.add_argument("--horizon", type=cli.count, help="default 500")
    parser.add_argument("--data-dir", help="folder of the data sets")
    options = parser.parse_args()
    cli.set_up_jax()
    for problem in options.problems:
        setting = PROBLEMS[problem](options)
        bandits = methods(setting, options.width)
        head = f"\n{problem:20s} {'R_T / R_T^unif':>16s} {'rounds':>8s} {'points':>8s}"
        print(f"{head} {'s a round':>10s}   F of the right one {setting.norm_bounds[2]:.2f}")
        for name in options.only:
            print(row(name, bandits[name], setting, options.seeds), flush=True)


if __name__ == "__main__":
    main()
