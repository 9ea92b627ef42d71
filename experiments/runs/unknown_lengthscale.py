"""Bandits that do not know the lengthscale: balancing over five of them beside BBKB at the right
one, at one four times as long and at one a quarter of it.

python -m experiments.runs.unknown_lengthscale
python -m experiments.runs.unknown_lengthscale --problems draw --only "BBKB right" realised

All are BBKB (C = 2) or have it as their base, with the same width: two posterior standard
deviations, or --width code and --width certified, the latter with the guarantees of THEORY 6.8.
"draw" is a function drawn from a GP of lengthscale 0.2 on 500 points of the square, noise 0.1; its
norm, 12.7, is known, and that of the other candidates by the rule of Lemma 2.1. "abalone" has
lambda = 0.01, and a norm bound of 1, a guess, for all candidates.
Printed: regret over that of uniform arms (mean and 95% interval), rounds, inducing points of the
candidate that chose last, CPU seconds a round (of the second of two runs, all seeds together), and
which candidates chose and in how many seeds each was ruled out, the longest first.

Measured, 8 seeds (2 cores of an AMD EPYC, other work beside):

    draw, T = 500         R_T / R_T^unif   rounds  points  s a round  chosen             ruled out
    BBKB right            0.134 +- 0.047     31.5    20.0     0.0009
    BBKB long             0.395 +- 0.121     14.6     6.4     0.0010
    BBKB short            0.179 +- 0.005    138.6   130.2     0.0023
    order                 0.205 +- 0.029     46.6    25.0     0.0039  58 27 12  2  1 %   3 0 0 0 0
    realised              0.146 +- 0.041     39.9    22.0     0.0035  32 51 14  1  1 %   5 0 0 0 0
    realised, norm test   0.079 +- 0.031     47.0    29.9     0.0064   1 30 65  2  2 %   8 7 0 0 0
    evidence              0.118 +- 0.048     34.2    21.6     0.0041   1  1 97  1  0 %   0 0 0 0 0

    abalone, T = 300
    BBKB right            0.155 +- 0.007     18.1    10.1     0.0032
    BBKB long             0.587 +- 0.001     12.8     5.4     0.0031
    BBKB short            0.190 +- 0.007     38.5    31.6     0.0028
    order                 0.470 +- 0.083     21.5    10.4     0.0118  52 27 11  9  1 %   5 2 0 0 0
    realised              0.252 +- 0.020     25.0    14.0     0.0132  15 27 25 31  1 %   6 2 0 0 0
    realised, norm test   0.195 +- 0.046     26.2    18.1     0.0152   0  1 20 76  2 %   8 8 5 0 3
    evidence              0.460 +- 0.084     27.4    18.1     0.0133   2 65  1  2 30 %   0 2 0 0 0

The order of the paper's bound (theta^-d log(n)^(d+1)) leaves most rounds to the longest candidate.
On Abalone the norm test rules out the "right" one in 5 seeds: the bound of 1 does not hold there.
Marginal likelihood, with lambda for the noise and 1 for the prior variance, takes one twice too
long there, and has no bound. With the certified width (T = 200, 8 seeds) the right lengthscale has
0.567 +- 0.009 in 101 rounds, for the sake of its norm bound of 12.7, the long one with its 3.2
0.274 +- 0.002; order has 0.404 +- 0.013 and realised 0.315 +- 0.010, nothing ruled out in either;
the norm test rules out the two long ones in all seeds, and pays as the right one does, 0.593 +-
0.010. `NormDoubling` from F_0 = 0.1 at the right lengthscale ends at 6.4 in all seeds, half the
norm (--width code, T = 500): 0.273 +- 0.005, for 0.341 +- 0.003 at the norm itself and 0.199 +-
0.004 at 0.1 without doubling. This function needs none of the width that the norm pays for, which
no data can say.
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
