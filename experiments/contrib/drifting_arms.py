"""Arms whose means drift or jump: a comparison of BKB with restarts, discounts and windows.

    python -m experiments.contrib.drifting_arms --out out/drifting_arms

There are 100 arms in the unit square, a Gaussian kernel of lengthscale 0.5, noise 0.1, and lambda =
noise^2. The mean passes through four functions of RKHS norm 2 at equal distances in time, linearly
("drift") or in steps ("jump"). The width of all methods is two posterior standard deviations. The
tables have the dynamic regret divided by that of uniform arms, also for the last tenth of a run.
"""

import argparse
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.contrib import saving
from experiments.contrib.saving import Row
from jsketch import kernels
from jsketch.bandits import BKB, Draw, widths
from jsketch.contrib import DiscountedBKB, WindowBKB
from jsketch.contrib.problems import DriftingArms, drifting_draw, play

N_ARMS, NOISE, NORM, ANCHORS = 100, 0.1, 2.0, 4
KERNEL = kernels.Gaussian(0.5)
COMMON: dict[str, Any] = dict(
    kernel=KERNEL,
    regularization=NOISE**2,
    noise_std=NOISE,
    norm_bound=NORM,
    width=widths.Bayesian(2.0),
    capacity=64,
    dictionary=Draw(),
)


class Method(NamedTuple):
    """An algorithm, and the number of rounds after which it is restarted."""

    bandit: Any
    restart: int | None = None


METHODS = {
    "bkb": Method(BKB(**COMMON)),
    "restart_350": Method(BKB(**COMMON), 350),
    "discount_0.998": Method(DiscountedBKB(**COMMON, discount=0.998)),
    "discount_0.995": Method(DiscountedBKB(**COMMON, discount=0.995)),
    "window_500": Method(WindowBKB(**COMMON, window=500)),
}
KINDS = ("drift", "jump")
ROW = Row("regret_ratio", "dynamic regret  $R_t\\,/\\,R_t^{\\mathrm{unif}}$", top=0.7)
draw = partial(saving.draw_panels, name="regret_ratio.png", rows=(ROW,), xlabel="rounds $t$")


def problem_of(kind: str, horizon: int) -> DriftingArms:
    """The problem of KINDS, "drift" or "jump"."""
    arms_key, f_key = jax.random.split(jax.random.key(0))
    return drifting_draw(
        f_key,
        KERNEL,
        jax.random.uniform(arms_key, (N_ARMS, 2)),
        NOISE,
        # the last segment between functions (drift) or the last step (jump) ends at the horizon
        period=horizon / (ANCHORS if kind == "jump" else ANCHORS - 1),
        anchors=ANCHORS,
        norm=NORM,
        abrupt=kind == "jump",
    )


def runs(options: argparse.Namespace, kind: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    horizon, problem = options.horizon, problem_of(kind, options.horizon)
    bandit, restart = METHODS[method]
    keys = jax.random.split(jax.random.key(1), options.seeds)
    record = play(problem, bandit, horizon, keys, restart=restart)
    means = jax.vmap(problem.mean_reward)(jnp.arange(horizon))
    uniform_regret = np.asarray(means.max(1) - means.mean(1))
    regret, last_tenth = np.asarray(record.regret), slice(-max(horizon // 10, 1), None)
    t = saving.grid(horizon)
    ratio = (regret.cumsum(1) / uniform_regret.cumsum())[:, t - 1]
    return saving.by_seed(
        dict(t=t),
        regret_ratio=ratio,
        final_regret_ratio=ratio[:, -1],
        last_tenth=regret[:, last_tenth].sum(1) / uniform_regret[last_tenth].sum(),
        points=np.asarray(record.dictionary_size)[:, -1],
    )


@cli.command
def main() -> None:
    options = cli.parse(saving.parser(__doc__, list(METHODS), KINDS, seeds=4, horizon=4_000))
    config = dict(width="bayesian", arms=N_ARMS, noise_std=NOISE, norm=NORM, anchors=ANCHORS)
    config |= dict(horizon=options.horizon, seeds=options.seeds)
    title = f"Arms whose means change, {options.seeds} seeds, mean and 95% interval"
    saving.run(options, "beyond.drifting_arms", title, config, runs, draw)
