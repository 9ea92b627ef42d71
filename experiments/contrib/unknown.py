"""Beyond the papers: an unknown lengthscale and norm (Ziomek, Adachi, Osborne, NeurIPS 2024).

Balancing over five candidate lengthscales is compared with BBKB at the right lengthscale, at four
times and at a quarter of it; and a norm bound that is doubled with a known one.
A method is BBKB (C = 2), or it chooses between several BBKB; most widths are two posterior standard
deviations. "draw" is a function drawn from a GP of lengthscale 0.2 on 500 points of the square,
noise 0.1; its norm is 12.7, and Lemma 2.1 gives the norm bounds of the other candidates. "abalone"
has lambda = 0.01, and a norm bound of 1, a guess, for all candidates. `lb_certified` and `norm_*`
run on "draw" only. `lb_certified` is `lb_realised` with the width `certified_mixture`, for which
THEORY 6.8 has guarantees. The three `norm_*` have the right lengthscale and the width of the code,
which contains the norm bound: `norm_small` has the bound 0.1, `norm_doubling` starts from 0.1 and
doubles it, and `norm_known` has the norm itself.

At T the tables have the inducing points of the candidate that chose last, CPU seconds a round (of
the second of two runs, all seeds together), the share of the evaluations that each candidate chose
(the longest lengthscale first), the eliminated candidates, and the last norm bound.
"""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import common
from experiments.common import Options, Settings
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.data import datasets
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Draw, widths
from jsketch.contrib import LengthscaleBalancing, NormDoubling

N_POINTS = 500  # of "draw"
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25)  # multiples of the right lengthscale, the longest first
RIGHT_INDEX = FACTORS.index(1.0)
FIRST_BOUND = 0.1  # on the norm, before doubling
METHODS = (
    *("bbkb_right", "bbkb_long", "bbkb_short", "lb_order", "lb_realised", "lb_norm_test"),
    *("lb_evidence", "lb_certified", "norm_small", "norm_doubling", "norm_known"),
)
DRAW_METHODS = METHODS[-4:]  # run on "draw" only, because they need a known norm
ROWS = (
    Row("regret_ratio", "$R_t\\,/\\,R_t^{\\mathrm{unif}}$", top=1.1),
    Row("rounds", "rounds", log=True),
)
FIELDS = dict(
    final_regret_ratio=("R_T / R_T^unif", 4),
    final_rounds=("rounds", 1),
    out_4=("4 l ruled out", 2),
    out_2=("2 l ruled out", 2),
    out_1=("l ruled out", 2),
    last_bound=("F at T", 1),
    norm=("|f|", 1),
)


class Setting(NamedTuple):
    """A problem, and the assumptions of all methods."""

    problem: Any
    lengthscale: float  # the right one
    noise: float
    norm_bounds: tuple[float, ...]  # one for each candidate
    horizon: int
    regularization: float


def draw_of_gp(settings: Settings, data_dir: Path | None) -> Setting:
    """The setting of a function of lengthscale 0.2 on 500 points of the square."""
    noise, lengthscale = 0.1, 0.2
    kernel = kernels.Gaussian(lengthscale)
    arms_key, f_key = jax.random.split(jax.random.key(0))
    arms = jax.random.uniform(arms_key, (N_POINTS, 2))
    problem = problems.gp_draw(f_key, kernel, arms, noise)
    eigenvalues, vectors = np.linalg.eigh(np.asarray(kernel.gram(arms, arms)))
    # the other eigenvalues are dominated by rounding
    significant = eigenvalues > 1e-10 * eigenvalues.max()
    coefficients = np.asarray(problem.mean_reward) @ vectors[:, significant]
    # the RKHS norm of the function
    norm = float(np.sqrt((np.square(coefficients) / eigenvalues[significant]).sum()))
    # Lemma 2.1: norm * (theta_0 / theta)^(d/2), with d = 2 and the right lengthscale theta_0
    bounds = tuple(norm / factor for factor in FACTORS)
    return Setting(
        problem, lengthscale, noise, bounds, settings["horizon"], regularization=noise**2
    )


def abalone(settings: Settings, data_dir: Path | None) -> Setting:
    """Abalone with the lengthscale of BBKB's Table 1, and one norm bound for all candidates,
    because in eight dimensions Lemma 2.1 multiplies it by 16 from one candidate to the next."""
    data = datasets.load("abalone", data_dir)
    problem = problems.finite_arms(*datasets.preprocess(data), noise_std=0.01)
    bounds, horizon = (1.0,) * len(FACTORS), min(settings["horizon"], 300)
    return Setting(problem, 17.5, 0.01, bounds, horizon, regularization=1e-2)


PROBLEMS = dict(draw=draw_of_gp, abalone=abalone)
# Abalone stops at t = 300
RUNS: dict[str, Settings] = {
    "beyond/unknown": dict(problems=tuple(PROBLEMS), methods=METHODS, seeds=8, horizon=500)
}
QUICK: Settings = dict(
    problems=("draw",), methods=("bbkb_right", "lb_order", "norm_doubling"), seeds=2, horizon=20
)


def bandit_of(method: str, setting: Setting) -> Any:
    width: widths.Width = widths.Bayesian(2.0)
    if method == "lb_certified":
        width = widths.certified_mixture
    if method.startswith("norm_"):
        width = widths.bbkb_code
    bbkb = BBKB(
        kernels.Gaussian(setting.lengthscale),
        regularization=setting.regularization,
        noise_std=setting.noise,
        norm_bound=setting.norm_bounds[RIGHT_INDEX],
        delta=0.05,
        width=width,
        max_batch=512,
        dictionary=Draw(),
    )
    if method.startswith("lb_"):
        rule = method.removeprefix("lb_")
        lengthscales = tuple(factor * setting.lengthscale for factor in FACTORS)
        return LengthscaleBalancing(
            bbkb,
            lengthscales,
            norm_bounds=setting.norm_bounds,
            delta=0.05,
            rule=rule if rule in ("order", "evidence") else "realised",
            norm_test=rule == "norm_test",
        )
    if method.startswith("bbkb_"):
        factor = dict(right=1.0, long=4.0, short=0.25)[method.removeprefix("bbkb_")]
        bound = setting.norm_bounds[FACTORS.index(factor)]
        kernel = kernels.Gaussian(factor * setting.lengthscale)
        return replace(bbkb, kernel=kernel, norm_bound=bound)
    small = replace(bbkb, norm_bound=FIRST_BOUND)
    return dict(norm_small=small, norm_doubling=NormDoubling(small), norm_known=bbkb)[method]


def runs(data_dir: Path | None, settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    setting = PROBLEMS[name](settings, data_dir)
    bandit = bandit_of(method, setting)
    keys = jax.random.split(jax.random.key(1), settings["seeds"])

    def run_seeds() -> Any:
        return jax.block_until_ready(loops.run(bandit, setting.problem, keys, setting.horizon))

    result = run_seeds()
    start = time.process_time()
    run_seeds()
    seconds = time.process_time() - start
    ratio = np.asarray(loops.regret_ratio(result.trace.regret, setting.problem.mean_reward))
    rounds = np.asarray(result.trace.round) + 1
    t = saving.grid(setting.horizon)
    arrays = dict(
        regret_ratio=ratio[:, t - 1],
        rounds=rounds[:, t - 1],
        final_regret_ratio=ratio[:, -1],
        final_rounds=rounds[:, -1],
        points=np.asarray(result.trace.dictionary_size)[:, -1],
    )
    if hasattr(result.state, "ruled_out"):
        for i, factor in enumerate(FACTORS):
            arrays[f"chosen_{factor:g}"] = np.asarray(result.state.pulls)[:, i] / setting.horizon
            arrays[f"out_{factor:g}"] = np.asarray(result.state.ruled_out, float)[:, i]
    if hasattr(result.state, "norm_bound"):
        arrays["last_bound"] = np.asarray(result.state.norm_bound)
    seconds_a_round = seconds / rounds[:, -1].sum()
    shared = dict(t=t, seconds_a_round=seconds_a_round, norm=setting.norm_bounds[RIGHT_INDEX])
    return saving.by_seed(shared, **arrays)


def run(folder: Path, settings: Settings, options: Options) -> None:
    title = f"Unknown lengthscale and norm, {settings['seeds']} seeds, mean and 95% interval"
    data = "generated, and Abalone" if "abalone" in settings["problems"] else "generated"
    pairs = [
        (name, method)
        for name in settings["problems"]
        for method in settings["methods"]
        if name == "draw" or method not in DRAW_METHODS
    ]
    make = partial(runs, options.data_dir)
    saving.run(folder, "beyond.unknown", title, settings, options, make, pairs=pairs, data=data)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, name="regret_ratio.png", rows=ROWS, xlabel="evaluations $t$")
    saving.write_numbers(folder, FIELDS)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
