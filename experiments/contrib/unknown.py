"""Bandits that do not know the lengthscale: balancing over five of them beside BBKB at the right
one, at one four times as long and at one a quarter of it; and a norm bound that is doubled.

    python -m experiments.contrib.unknown --out out/unknown
    python -m experiments.contrib.unknown --problems draw --width certified --out out/certified

All are BBKB (C = 2) or have it as their base, with the same width: two posterior standard
deviations, or --width code or certified. "draw" is a function drawn from a GP of lengthscale 0.2 on
500 points of the square, noise 0.1; its norm, 12.7, is known, and that of the other candidates by
the rule of Lemma 2.1. "abalone" has lambda = 0.01, and a norm bound of 1, a guess, for all
candidates. Some methods are on "draw" alone: `lb_certified` is `lb_realised` with the width of
`certified_mixture`, and with it the guarantees of THEORY 6.8; the three `norm_` have the right
lengthscale and the width of the code, which the norm bound is a part of: 0.1, doubled from 0.1, and
the norm itself.

Kept of a run: R_t / R_t^unif and rounds against t; at T inducing points of the candidate that chose
last, CPU seconds a round (of the second of two runs, all seeds together), the share of the
evaluations that each candidate chose (the longest first), which ones were ruled out, and the last
norm bound.

Measured before with --width certified (T = 200, 8 seeds): the right lengthscale has 0.567 +- 0.009
in 101 rounds, for the sake of its norm bound of 12.7, the long one with its 3.2 0.274 +- 0.002;
order has 0.404 +- 0.013 and realised 0.315 +- 0.010, nothing ruled out in either; the norm test
rules out the two long ones in all seeds, and pays as the right one does, 0.593 +- 0.010. This
function needs none of the width that the norm pays for, which no data can say.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.data import datasets
from experiments.results import tidy
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, widths
from jsketch.contrib import LengthscaleBalancing, NormDoubling

POINTS = 500
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25)  # of the right lengthscale, the longest first
RIGHT = FACTORS.index(1.0)
WIDTHS: dict[str, widths.Width] = {
    "bayesian": widths.Bayesian(2.0),
    "code": widths.bbkb_code,
    "certified": widths.certified_mixture,
}
FIRST_BOUND = 0.1  # of the norm, where it is doubled
METHODS = (
    "bbkb_right",
    "bbkb_long",
    "bbkb_short",
    "lb_order",
    "lb_realised",
    "lb_norm_test",
    "lb_evidence",
    "lb_certified",
    "norm_small",
    "norm_doubling",
    "norm_known",
)
ON_DRAW = METHODS[-4:]  # its norm is known
ROWS = (
    Row("regret_ratio", "$R_t\\,/\\,R_t^{\\mathrm{unif}}$", top=1.1),
    Row("rounds", "rounds", log=True),
)


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


def draw_of_gp(options: argparse.Namespace) -> Setting:
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


def abalone(options: argparse.Namespace) -> Setting:
    """Abalone with the lengthscale of BBKB's Table 1, and one norm bound for all: the rule of Lemma
    2.1 multiplies it by 16 from each candidate to the next in eight dimensions."""
    data = datasets.load("abalone", options.data_dir)
    problem = problems.finite_arms(*datasets.preprocess(data), noise_std=0.01)
    return Setting(problem, 17.5, 0.01, (1.0,) * len(FACTORS), options.horizon or 300, 1e-2)


PROBLEMS: dict[str, Callable[[argparse.Namespace], Setting]] = {
    "draw": draw_of_gp,
    "abalone": abalone,
}


def bandit_of(method: str, s: Setting, width: str) -> Any:
    """A method by its name."""
    width = dict(lb_certified="certified").get(method, width)
    width = "code" if method.startswith("norm_") else width
    base = BBKB(
        kernels.Gaussian(s.lengthscale),
        regularization=s.regularization,
        noise_std=s.noise,
        norm_bound=s.norm_bounds[RIGHT],
        delta=0.05,
        width=WIDTHS[width],
        max_batch=512,
    )
    if method.startswith("lb_"):
        rule = method.removeprefix("lb_")
        scales = tuple(factor * s.lengthscale for factor in FACTORS)
        return LengthscaleBalancing(
            base,
            scales,
            norm_bounds=s.norm_bounds,
            delta=0.05,
            rule=rule if rule in ("order", "evidence") else "realised",
            norm_test=rule == "norm_test",
        )
    if method.startswith("bbkb_"):
        factor = dict(right=1.0, long=4.0, short=0.25)[method.removeprefix("bbkb_")]
        bound = s.norm_bounds[FACTORS.index(factor)]
        return replace(base, kernel=kernels.Gaussian(factor * s.lengthscale), norm_bound=bound)
    small = replace(base, norm_bound=FIRST_BOUND)
    return dict(norm_small=small, norm_doubling=NormDoubling(small), norm_known=base)[method]


def runs(name: str, method: str, options: argparse.Namespace) -> list[Mapping[str, Any]]:
    """The arrays of a method's runs on a problem, one a seed."""
    s = PROBLEMS[name](options)
    bandit = bandit_of(method, s, options.width)
    keys = jax.random.split(jax.random.key(1), options.seeds)

    def played() -> Any:
        return jax.block_until_ready(loops.run_seeds(bandit, s.problem, keys, s.horizon))

    first = played()
    start = time.process_time()
    played()
    seconds = time.process_time() - start
    ratio = np.asarray(loops.regret_ratio(first.trace.regret, s.problem.mean_reward))
    rounds = np.asarray(first.trace.round) + 1
    t = saving.grid(s.horizon)
    found: list[Mapping[str, Any]] = []
    for seed in range(options.seeds):
        arrays: dict[str, Any] = dict(
            t=t,
            regret_ratio=ratio[seed, t - 1],
            rounds=rounds[seed, t - 1],
            final_regret_ratio=ratio[seed, -1],
            final_rounds=rounds[seed, -1],
            points=np.asarray(first.trace.dictionary_size)[seed, -1],
            seconds_a_round=seconds / rounds[:, -1].sum(),
            norm=s.norm_bounds[RIGHT],
        )
        if hasattr(first.state, "ruled_out"):
            for g, factor in enumerate(FACTORS):
                chosen, out = first.state.pulls[seed, g], first.state.ruled_out[seed, g]
                arrays[f"chosen_{factor:g}"] = np.asarray(chosen) / s.horizon
                arrays[f"out_{factor:g}"] = np.asarray(out, float)
        if hasattr(first.state, "norm_bound"):
            arrays["last_bound"] = np.asarray(first.state.norm_bound)[seed]
        found.append(arrays)
    print(
        f"{name:8s} {method:14s} {ratio[:, -1].mean():.3f} {rounds[:, -1].mean():6.1f}"
        f" {found[0]['points']:4.0f} {seconds / rounds[:, -1].sum():.4f} s a round",
        flush=True,
    )
    return found


def draw(folder: Path) -> None:
    """regret_ratio.png from the tables in the folder."""
    saving.draw_panels(folder, "regret_ratio.png", ROWS, "evaluations $t$")


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--width", choices=list(WIDTHS), default="bayesian")
    parser.add_argument("--seeds", type=cli.count, default=8)
    parser.add_argument("--horizon", type=cli.count, help="default 500, on Abalone 300")
    parser.add_argument("--data-dir", help="folder of the data sets")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    one = dict(
        width=options.width,
        seeds=options.seeds,
        horizon=options.horizon,
        factors=FACTORS,
        points=POINTS,
        first_bound=FIRST_BOUND,
    )

    def make() -> list[tidy.Run]:
        return [
            run
            for name in options.problems
            for method in options.only
            if name == "draw" or method not in ON_DRAW
            for run in saving.resumed(
                options.out, one, name, method, options.seeds, partial(runs, name, method, options)
            )
        ]

    config = one | dict(problems=options.problems, methods=options.only)
    title = f"Unknown lengthscale and norm, {options.seeds} seeds, mean and 95% interval"
    data = "generated, and Abalone" if "abalone" in options.problems else "generated"
    saving.keep(options, "beyond.unknown", config, title, make, draw, data)


if __name__ == "__main__":
    main()
