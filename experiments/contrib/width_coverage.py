"""How tight confidence widths are, whether they cover, and what they cost in regret: every width on
one function of known norm, over seeds of noise.

python -m experiments.contrib.width_coverage --out out/width_coverage        64 seeds, T = 200
python -m experiments.contrib.width_coverage --seeds 8 --only mixture gp_ucb_tight --out out/two

100 arms in the unit square; f has norm F = 2 in the space of a Matern 5/2 kernel, which the
algorithms know, as they know F; noise xi = 0.1, lambda = xi^2, delta = 0.1. Widths of an exact
posterior choose by GP-UCB, those of a sketched one by BBKB (C = 2, q_bar = 2). Every 10 evaluations
it is checked what share of the width covers |mean - f| at all arms: `needed` is the largest share
of a run until t, `covered` the runs in which it is at most 1. BBKB's widths contain their sqrt(C)
or C. Measured: `experiments/contrib/README.md`.

smooth_tight is `gp_ucb_tight` at a regularization that grows with T as THEORY 4.1 derives for
Whitehouse, Ramdas, Wu (NeurIPS 2023): lambda = xi^2 T^(1/(1+b)), b = 1 + 2 nu / d. The order is
theirs, the factor xi^2 is ours.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import Array

from experiments import cli
from experiments.contrib import saving
from experiments.figures import drawing
from experiments.results import tidy
from experiments.results.summaries import ci95
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, GPUCB, widths
from jsketch.bandits.core.exact_state import ExactState
from jsketch.loops.rollouts import start

ARMS, NOISE, NORM, DELTA, LENGTHSCALE, EVERY = 100, 0.1, 2.0, 0.1, 0.5, 10
KERNEL = kernels.Matern(LENGTHSCALE, nu=2.5)
DECAY = 1 + 2 * 2.5 / 2  # of the eigenvalues, in two dimensions
ASSUMED: dict[str, Any] = dict(kernel=KERNEL, noise_std=NOISE, norm_bound=NORM, delta=DELTA)
EXACT = {
    "gp_ucb_code": widths.gp_ucb_code,
    "gp_ucb_paper": widths.gp_ucb_paper,
    "gp_ucb_tight": widths.gp_ucb_tight,
    "smooth_tight": widths.gp_ucb_tight,
    "mixture": widths.mixture,
}
SKETCHED = {
    "bbkb_code": widths.bbkb_code,
    "bbkb_paper": widths.bbkb_paper,
    "bbkb_sqrt": widths.bbkb_sqrt,
    "certified": widths.certified,
    "certified_mixture": widths.certified_mixture,
}


class Found(NamedTuple):
    """What the runs of one width say, S of them."""

    stops: np.ndarray  # [P], evaluations after which coverage was checked
    needed: np.ndarray  # [S,P], the share of the width that covers all arms
    width: np.ndarray  # [S], the last one
    regret: np.ndarray  # [S], R_T
    uniform: float  # the expected R_T of uniform arms


def make(name: str, horizon: int) -> GPUCB | BBKB:
    """The algorithm that a width chooses for."""
    lam = NOISE**2
    if name in SKETCHED:
        return BBKB(**ASSUMED, regularization=lam, width=SKETCHED[name], ratio=2.0, capacity=ARMS)
    if name == "smooth_tight":
        lam *= horizon ** (1 / (1 + DECAY))
    return GPUCB(**ASSUMED, regularization=lam, width=EXACT[name], capacity=min(horizon, ARMS))


def function() -> problems.GaussianArms:
    """The one function: ten kernel functions, scaled to the norm F."""
    arms_key, f_key = jax.random.split(jax.random.key(0))
    return problems.rkhs_draw(
        f_key, KERNEL, jax.random.uniform(arms_key, (ARMS, 2)), NOISE, norm=NORM
    )


def found(name: str, seeds: int, horizon: int) -> Found:
    """The runs of one width. Raises ValueError when a capacity was too small."""
    problem, bandit = function(), make(name, horizon)
    # the last one is T, whatever its last digit
    stops = jnp.asarray([*range(EVERY, horizon, EVERY), horizon], jnp.int32)

    def share(state: Any) -> Array:
        posterior = state.posterior if isinstance(state, ExactState) else state
        error = jnp.abs(posterior.mean - problem.mean_reward)
        return jnp.max(error / (bandit.confidence_width(state) * jnp.sqrt(posterior.variance)))

    def run(key: Array) -> tuple[Array, ...]:
        def until(progress: Any, stop: Array) -> tuple[Any, Array]:
            progress = loops.rollout(bandit, problem, key, horizon, progress, stop)
            return progress, share(progress.state)

        end, shares = jax.lax.scan(until, start(bandit, problem, key, horizon), stops)
        return shares, end.trace.width[-1], end.trace.regret.sum(), end.stopped

    keys = jax.random.split(jax.random.key(1), seeds)
    needed, width, regret, stopped = map(np.asarray, jax.jit(jax.vmap(run))(keys))
    if stopped.any():
        raise ValueError(f"{int(stopped.sum())} runs of {name} ended before T = {horizon}.")
    uniform = horizon * float(problem.mean_reward.max() - problem.mean_reward.mean())
    return Found(np.asarray(stops), needed, width, regret, uniform)


def runs(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs of one width, one a seed."""
    start = time.process_time()
    f = found(name, options.seeds, options.horizon)
    seconds = time.process_time() - start
    most, ratio = f.needed.max(1), f.regret / f.uniform
    print(
        f"{name:18s} width {f.width.mean():6.3f}, needed {np.median(most):.3f} and at most"
        f" {most.max():.3f}, covered {(most <= 1).mean():.0%}, R_T / unif {ratio.mean():.3f} +-"
        f" {ci95(ratio):.3f}, {seconds:.0f} CPU s with compilation",
        flush=True,
    )
    return [
        dict(
            t=f.stops,
            needed=np.maximum.accumulate(f.needed[seed]),
            most_needed=most[seed],
            covered=float(most[seed] <= 1),
            last_width=f.width[seed],
            final_regret_ratio=ratio[seed],
        )
        for seed in range(options.seeds)
    ]


def draw(folder: Path) -> None:
    """coverage.png from the tables in the folder: each run's largest share of the width that was
    needed, and its regret, by width."""
    _, summary, provenance = tidy.load(folder)
    names = [str(name) for name in summary["algorithm"].unique()][::-1]
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (7.8, 3.4)}):
        figure, (left, right) = plt.subplots(1, 2, sharey=True)
        for place, name in enumerate(names):
            rows = summary[summary["algorithm"] == name]
            colour = "#0072B2" if name in EXACT else "#D55E00"
            at = np.full(len(rows), place)
            left.plot(rows["most_needed"], at, "|", color=colour, markersize=9, alpha=0.5)
            ratio = rows["final_regret_ratio"].to_numpy()
            half = ci95(ratio) if len(ratio) > 1 else None
            right.errorbar(ratio.mean(), place, xerr=half, color=colour, fmt="o", markersize=4)
        left.set_ylim(-0.6, len(names) - 0.4)
        left.set_yticks(range(len(names)), names)
        left.axvline(1, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        left.set_xlim(0, 1.05)
        right.set_xlim(0, 1)
        left.set_xlabel("largest share of the width needed\n(beyond 1: not covered)")
        right.set_xlabel("$R_T\\,/\\,R_T^{\\mathrm{unif}}$")
        words = f"{len(rows)} seeds; blue: exact posterior, GP-UCB; red: sketched, BBKB"
        title = f"Confidence widths, T = {provenance['config']['horizon']:,}, {words}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        drawing.save(figure, folder / "coverage.png")


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    names = [*EXACT, *SKETCHED]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=cli.count, default=64)
    parser.add_argument("--horizon", type=cli.count, default=200)
    cli.add_out_folder(parser)
    options = parser.parse_args()
    if options.horizon < EVERY:
        raise ValueError(f"horizon must be at least {EVERY}; {options.horizon} was given.")
    cli.set_up_jax()
    one = dict(
        horizon=options.horizon,
        arms=ARMS,
        noise_std=NOISE,
        norm=NORM,
        delta=DELTA,
        lengthscale=LENGTHSCALE,
        every=EVERY,
        seeds=options.seeds,
    )

    def make() -> list[tidy.Run]:
        return [
            run
            for name in options.only
            for run in saving.resumed(
                options.out,
                one,
                "exact_posterior" if name in EXACT else "sketched_posterior",
                name,
                options.seeds,
                partial(runs, name, options),
            )
        ]

    config = one | dict(widths=options.only)
    title = "Confidence widths: coverage and regret"
    saving.keep(options, "beyond.width_coverage", config, title, make, draw)


if __name__ == "__main__":
    main()
