"""Arms whose means drift or jump: BKB, which forgets nothing, beside restarts, discounts and
windows.

python -m experiments.contrib.drifting_arms --out out/drifting_arms
python -m experiments.contrib.drifting_arms --seeds 2 --only bkb discount_0.998 --out out/two

100 arms in the unit square, Gaussian kernel of lengthscale 0.5, noise 0.1, lambda = noise^2; four
functions of RKHS norm 2 at equal distances in time, with straight lines between them ("drift") or
held until the next one ("jump"). All take the same width: two posterior standard deviations, or
with --width code BKB's `bkb_code` at F = 2. Kept: dynamic regret over that of uniform arms against
t, over the whole run and over its last tenth, and the inducing points at the end.

Measured at T = 4,000: `experiments/contrib/README.md`. Restarts that meet every jump (1,000
rounds) have 0.005 on "jump". What forgets gains only where BKB has settled: with the wide
`bkb_code`, which explores throughout, BKB has 0.108 on "jump", discounts of 0.998 and 0.99 have
0.104 and 0.130 (2 seeds).
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.contrib import saving
from experiments.contrib.saving import Row
from experiments.results import tidy
from experiments.results.summaries import ci95
from jsketch import kernels
from jsketch.bandits import BKB, widths
from jsketch.contrib import DiscountedBKB, WindowBKB
from jsketch.contrib.problems import drifting

ARMS, NOISE, NORM, ANCHORS = 100, 0.1, 2.0, 4
KERNEL = kernels.Gaussian(0.5)
COMMON: dict[str, Any] = dict(
    kernel=KERNEL, regularization=NOISE**2, noise_std=NOISE, norm_bound=NORM, capacity=64
)


class Method(NamedTuple):
    """An algorithm, and after how many rounds it starts anew."""

    bandit: Any
    restart: int | None = None


METHODS = {
    "bkb": Method(BKB(**COMMON)),
    "restart_700": Method(BKB(**COMMON), 700),
    "restart_350": Method(BKB(**COMMON), 350),
    "discount_0.999": Method(DiscountedBKB(**COMMON, discount=0.999)),
    "discount_0.998": Method(DiscountedBKB(**COMMON, discount=0.998)),
    "discount_0.995": Method(DiscountedBKB(**COMMON, discount=0.995)),
    "window_1000": Method(WindowBKB(**COMMON, window=1_000)),
    "window_500": Method(WindowBKB(**COMMON, window=500)),
}
KINDS = ("drift", "jump")
WIDTHS = {"bayesian": widths.Bayesian(2.0), "code": widths.bkb_code}


def problem_of(kind: str, horizon: int) -> drifting.DriftingArms:
    """The problem "drift" or "jump"."""
    arms_key, f_key = jax.random.split(jax.random.key(0))
    return drifting.drifting_draw(
        f_key,
        KERNEL,
        jax.random.uniform(arms_key, (ARMS, 2)),
        NOISE,
        # the last of the lines ends with the run
        period=horizon / (ANCHORS if kind == "jump" else ANCHORS - 1),
        anchors=ANCHORS,
        norm=NORM,
        abrupt=kind == "jump",
    )


def runs(options: argparse.Namespace, kind: str, name: str) -> list[dict[str, Any]]:
    """The runs of a method on a problem, one a seed."""
    horizon, problem = options.horizon, problem_of(kind, options.horizon)
    method, keys = METHODS[name], jax.random.split(jax.random.key(1), options.seeds)
    bandit = method.bandit.replace(width=WIDTHS[options.width])
    start = time.process_time()
    played = drifting.play(problem, bandit, horizon, keys, restart=method.restart)
    seconds = time.process_time() - start
    means = jax.vmap(problem.mean_reward)(jnp.arange(horizon))
    uniform = np.asarray(means.max(1) - means.mean(1))
    regret, late = np.asarray(played.regret), -max(horizon // 10, 1)
    t = saving.grid(horizon)
    ratio = (regret.cumsum(1) / uniform.cumsum())[:, t - 1]
    numbers = f"{ratio[:, -1].mean():8.3f} +- {ci95(ratio[:, -1]):.3f}"
    print(f"{kind:6s} {name:14s} {numbers} {seconds:7.1f} CPU s with compilation", flush=True)
    return [
        dict(
            t=t,
            regret_ratio=ratio[seed],
            final_regret_ratio=ratio[seed, -1],
            last_tenth=regret[seed, late:].sum() / uniform[late:].sum(),
            points=played.dictionary_size[seed, -1],
        )
        for seed in range(options.seeds)
    ]


def draw(folder: Path) -> None:
    """regret_ratio.png from the tables in the folder."""
    row = Row("regret_ratio", "dynamic regret  $R_t\\,/\\,R_t^{\\mathrm{unif}}$", top=0.7)
    saving.draw_panels(folder, "regret_ratio.png", (row,), "rounds $t$")


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--width", choices=list(WIDTHS), default="bayesian")
    parser.add_argument("--seeds", type=cli.count, default=4)
    parser.add_argument("--horizon", type=cli.count, default=4_000)
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    one = dict(
        width=options.width,
        horizon=options.horizon,
        arms=ARMS,
        noise_std=NOISE,
        norm=NORM,
        anchors=ANCHORS,
        seeds=options.seeds,
    )

    def make() -> list[tidy.Run]:
        make_one = partial(runs, options)
        return saving.of_all(options.out, one, options.kinds, options.only, options.seeds, make_one)

    config = one | dict(problems=options.kinds, methods=options.only)
    title = f"Arms whose means change, {options.seeds} seeds, mean and 95% interval"
    saving.keep(options, "beyond.drifting_arms", config, title, make, draw)


if __name__ == "__main__":
    main()
