"""Beyond the papers: arms whose means drift or jump (Deng et al., 2022; Zhou and Shroff, 2021).

BKB is compared with restarts, discounts and windows. There are 100 arms in the unit square, a
Gaussian kernel of lengthscale 0.5, noise 0.1, and lambda = noise^2. The mean passes through four
functions of RKHS norm 2 at equal distances in time, linearly ("drift") or in steps ("jump"). The
width of all methods is two posterior standard deviations. The tables have the dynamic regret
divided by that of uniform arms, also for the last tenth of a run.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import common
from experiments.common import Options, Settings
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
FIELDS = dict(final_regret_ratio=("R_T / R_T^unif", 4), points=("inducing points at T", 0))
RUNS: dict[str, Settings] = {
    "beyond/drifting_arms": dict(problems=KINDS, methods=tuple(METHODS), seeds=2, horizon=4_000)
}
QUICK: Settings = dict(methods=("bkb", "window_500"), horizon=20)


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


def runs(settings: Settings, kind: str, method: str) -> list[dict[str, Any]]:
    """The arrays of a method's runs on a problem, one dict for each seed."""
    horizon, problem = settings["horizon"], problem_of(kind, settings["horizon"])
    bandit, restart = METHODS[method]
    keys = jax.random.split(jax.random.key(1), settings["seeds"])
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


def run(folder: Path, settings: Settings, options: Options) -> None:
    title = f"Arms whose means change, {settings['seeds']} seeds, mean and 95% interval"
    saving.run(folder, "beyond.drifting_arms", title, settings, options, runs)


def draw(folder: Path) -> None:
    saving.draw_panels(folder, name="regret_ratio.png", rows=(ROW,), xlabel="rounds $t$")
    saving.write_numbers(folder, FIELDS)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
