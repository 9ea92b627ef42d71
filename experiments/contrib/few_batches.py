"""Few batches: a comparison of batched pure exploration (Li and Scarlett, AISTATS 2022), BBKB with
both rules, and FixedBKB.

    python -m experiments.contrib.few_batches --out out/few_batches

The problems are functions on 500 points of the square [0, 1]^2 and Abalone. The functions are two
GP draws (Gaussian kernel of lengthscale 0.2, noise 0.1; as in `bbkb_2020.widths`) with the
assumption F = 1, which they violate, and one of known RKHS norm F = 2. Abalone has the lengthscale
of BBKB's Table 1 and F = 1. lambda = noise^2, delta = 0.1, C = 2, q_bar = 2. `fixed_bkb_few` has as
many batches as batched exploration, of equal size. Batched exploration depends on T, so comparing
its regret at T / 4 and at T needs separate runs with T / 4 evaluations.
"""

import argparse
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bbkb_2020 import widths as widths_experiment
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.runs import bandit_runs
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Draw, FixedBKB
from jsketch.contrib import BatchedExploration, RandomExploration
from jsketch.contrib.few_batches import batch_lengths

PROBLEMS = ("gp_draw_0", "gp_draw_1", "known_norm", "abalone")
METHODS = (
    *("batched_exploration", "random_exploration", "bbkb_global", "bbkb_global_local"),
    *("fixed_bkb_96", "fixed_bkb_few", "batched_exploration_quarter"),
)
NORM = 2.0  # of "known_norm"
DELTA, RATIO, QBAR = 0.1, 2.0, 2.0
ROWS = (
    Row("regret_ratio", "$R_t\\,/\\,R_t^{\\mathrm{unif}}$", top=1.1),
    Row("rounds", "batches", log=True),
)
draw = partial(saving.draw_panels, name="regret_ratio.png", rows=ROWS, xlabel="evaluations $t$")


def load(name: str, data_dir: str | None) -> tuple[Any, dict[str, Any]]:
    """(problem, assumptions of the algorithms). Raises ValueError or OSError without the data."""
    if name == "known_norm":
        point_key, draw_key = jax.random.split(jax.random.key(11))
        points = jax.random.uniform(point_key, (500, 2))
        lengthscale, noise, norm = 0.2, 0.1, NORM
        kernel = kernels.Gaussian(lengthscale)
        problem = problems.rkhs_draw(draw_key, kernel, points, noise, norm=norm)
    else:
        problem, lengthscale, noise = widths_experiment.load(name, data_dir)
        norm = 1.0
    return problem, dict(
        kernel=kernels.Gaussian(lengthscale),
        regularization=noise**2,
        noise_std=noise,
        norm_bound=norm,
        delta=DELTA,
    )


def bandit_of(method: str, common: dict[str, Any], horizon: int) -> Any:
    """The bandit of a method, for `horizon` evaluations."""
    if method.startswith("batched_exploration"):
        return BatchedExploration(**common, horizon=horizon)
    if method == "random_exploration":
        return RandomExploration(**common, horizon=horizon)
    sketched = common | dict(qbar=QBAR, dictionary=Draw())
    if method.startswith("bbkb"):
        rule = method.removeprefix("bbkb_")
        return BBKB(**sketched, ratio=RATIO, rule=rule, max_batch=horizon)
    n_batches = len(batch_lengths(horizon))
    batch = 96 if method == "fixed_bkb_96" else math.ceil(horizon / n_batches)
    return FixedBKB(**sketched, batch=min(batch, horizon))


def runs(options: argparse.Namespace, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    problem, common = load(name, options.data_dir)
    horizon = options.horizon // (4 if method.endswith("_quarter") else 1)
    keys = bandit_runs.keys_of(0, list(range(options.seeds)))
    result = loops.run(bandit_of(method, common, horizon), problem, keys, horizon)
    trace, t = jax.tree.map(np.asarray, result.trace), saving.grid(horizon)
    ratio = np.asarray(loops.regret_ratio(trace.regret, problem.mean_reward))
    shared = dict(t=t, horizon=horizon, run_seconds=result.run_seconds)
    arrays = dict(
        final_regret_ratio=ratio[:, -1],
        batches=trace.round[:, -1] + 1,
        dictionary_size=trace.dictionary_size[:, -1],
        regret_ratio=ratio[:, t - 1],
        rounds=trace.round[:, t - 1] + 1,
        final_regret=trace.regret.astype(float).sum(1),
    )
    if method.startswith("batched_exploration"):
        best = int(jnp.argmax(problem.mean_reward))
        arrays["best_is_left"] = np.asarray(result.state.active)[:, best].astype(float)
        # the bound of THEORY 6.7: ceil(log2 log2 T) + 1, T >= 3
        shared["most_batches"] = math.ceil(math.log2(math.log2(max(horizon, 3)))) + 1
    return saving.by_seed(shared, **arrays)


@cli.command
def main() -> None:
    parser = saving.parser(__doc__, METHODS, PROBLEMS, seeds=8, horizon=1_024, data_dir=None)
    options = cli.parse(parser)
    if options.horizon < 12:  # the quarter needs T >= 3
        raise ValueError(f"horizon must be at least 12; {options.horizon} was given.")
    config = dict(horizon=options.horizon, norm=NORM, delta=DELTA, ratio=RATIO, qbar=QBAR)
    config |= dict(root_seed=0, seeds=options.seeds)
    title = f"Few batches, T = {options.horizon:,}, {options.seeds} seeds, mean and 95% interval"
    saving.run(options, "beyond.few_batches", title, config, runs, draw)
