"""Beyond the papers: few batches (Li and Scarlett, AISTATS 2022).

Batched pure exploration, BBKB with both rules, and FixedBKB are compared.
The problems are functions on 500 points of the square [0, 1]^2: a GP draw (Gaussian kernel of
lengthscale 0.2, noise 0.1; as in `bbkb_2020.widths`) with the assumption F = 1, which it violates,
and one of known RKHS norm F = 2. lambda = noise^2, delta = 0.1, C = 2, q_bar = 2. `fixed_bkb_few`
has as many batches as batched exploration, of equal size. Batched exploration depends on T, so
comparing its regret at T / 4 and at T needs separate runs with T / 4 evaluations.
"""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.bbkb_2020 import widths as widths_experiment
from experiments.common import Options, Settings
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.runs import bandit_runs
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Draw, FixedBKB
from jsketch.contrib import BatchedExploration, RandomExploration
from jsketch.contrib.few_batches import batch_lengths

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
FIELDS = dict(
    horizon=("T", 0),
    final_regret_ratio=("R_T / R_T^unif", 4),
    final_regret=("regret at T", 1),
    batches=("batches", 1),
    best_is_left=("share with the best arm active", 2),
)
RUNS: dict[str, Settings] = {
    "beyond/few_batches": dict(
        problems=("gp_draw_0", "known_norm"), methods=METHODS, seeds=8, horizon=1_024
    ),
}
QUICK: Settings = dict(seeds=2, horizon=16, methods=("batched_exploration", "bbkb_global"))


def load(name: str) -> tuple[Any, dict[str, Any]]:
    """(problem, assumptions of the algorithms)."""
    if name == "known_norm":
        point_key, draw_key = jax.random.split(jax.random.key(11))
        points = jax.random.uniform(point_key, (500, 2))
        lengthscale, noise, norm = 0.2, 0.1, NORM
        kernel = kernels.Gaussian(lengthscale)
        problem = problems.rkhs_draw(draw_key, kernel, points, noise, norm=norm)
    else:
        problem, lengthscale, noise = widths_experiment.load(name, None)
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


def runs(settings: Settings, name: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    problem, common = load(name)
    horizon = settings["horizon"] // (4 if method.endswith("_quarter") else 1)
    keys = bandit_runs.keys_of(0, list(range(settings["seeds"])))
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


def run(folder: Path, settings: Settings, options: Options) -> None:
    title = f"Few batches, T = {settings['horizon']:,}, {settings['seeds']} seeds"
    saving.run(folder, "beyond.few_batches", title, settings, options, runs)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, name="regret_ratio.png", rows=ROWS, xlabel="evaluations $t$")
    saving.write_numbers(folder, FIELDS)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
