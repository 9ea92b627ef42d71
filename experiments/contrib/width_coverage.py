"""Beyond the papers: tighter confidence widths (Whitehouse et al., 2023; Flynn and Reeb, 2025).

Coverage, tightness and regret of widths on one function of known norm, over seeds of the noise.
The problem has 100 arms in the unit square. The function f has norm F = 2 in the RKHS of a Matern
5/2 kernel; the algorithms use this kernel and this F. The noise is xi = 0.1, lambda = xi^2, delta =
0.1. Widths for an exact posterior are used in GP-UCB, those for a sketched posterior in BBKB. Every
10 evaluations a run computes max |mean - f| / (width * sd) over the arms, the smallest multiple of
the width that covers f. `needed` is the largest such multiple up to t, and `covered` is 1 if
`needed` at T is at most 1. `smooth_tight` is `gp_ucb_tight` with a regularization that grows with T
(THEORY 4.1): lambda = xi^2 T^(1/(1+b)), b = 1 + 2 nu / d; the factor xi^2 is our choice.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import Array

from experiments import common
from experiments.common import Options, Settings
from experiments.contrib import saving
from experiments.figures import drawing
from experiments.results import tidy
from experiments.results.summaries import ci95
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, GPUCB, Draw, widths
from jsketch.loops.rollouts import start

N_ARMS, NOISE, NORM, DELTA, LENGTHSCALE, INTERVAL = 100, 0.1, 2.0, 0.1, 0.5, 10
KERNEL = kernels.Matern(LENGTHSCALE, nu=2.5)
DECAY = 1 + 2 * 2.5 / 2  # b, the rate at which the eigenvalues of the kernel decay in d = 2
ASSUMPTIONS: dict[str, Any] = dict(kernel=KERNEL, noise_std=NOISE, norm_bound=NORM, delta=DELTA)
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
FIELDS = dict(
    covered=("share of runs covered", 2),
    most_needed=("largest share of the width needed", 2),
    last_width=("width at T", 2),
    final_regret_ratio=("R_T / R_T^unif", 4),
)
LATER = ("gp_ucb_tight", "smooth_tight", "mixture", "certified", "certified_mixture")
RUNS: dict[str, Settings] = {"beyond/width_coverage": dict(methods=LATER, seeds=64, horizon=200)}
QUICK: Settings = dict(seeds=2, horizon=20, methods=("mixture", "certified"))


def make(name: str, horizon: int) -> GPUCB | BBKB:
    lam = NOISE**2
    if name in SKETCHED:
        return BBKB(
            **ASSUMPTIONS,
            regularization=lam,
            width=SKETCHED[name],
            ratio=2.0,
            capacity=N_ARMS,
            dictionary=Draw(),
        )
    if name == "smooth_tight":
        lam *= horizon ** (1 / (1 + DECAY))
    capacity = min(horizon, N_ARMS)
    return GPUCB(**ASSUMPTIONS, regularization=lam, width=EXACT[name], capacity=capacity)


def runs(settings: Settings, _: str, name: str) -> list[dict[str, Any]]:
    """The arrays of the runs with the width `name`, one dict for each seed. Raises ValueError if a
    capacity is too small."""
    horizon = settings["horizon"]
    arms_key, f_key = jax.random.split(jax.random.key(0))
    arms = jax.random.uniform(arms_key, (N_ARMS, 2))
    # f is a sum of ten kernel functions, scaled to the norm F
    problem, bandit = problems.rkhs_draw(f_key, KERNEL, arms, NOISE, norm=NORM), make(name, horizon)
    # evaluations after which `needed_multiple` is computed; the last is T
    stops = jnp.asarray([*range(INTERVAL, horizon, INTERVAL), horizon], jnp.int32)

    def needed_multiple(state: Any) -> Array:
        mean, variance, width = bandit.confidence_bounds(state, problem.arms)
        return jnp.max(jnp.abs(mean - problem.mean_reward) / (width * jnp.sqrt(variance)))

    def run(key: Array) -> tuple[Array, ...]:
        def run_until(progress: Any, stop: Array) -> tuple[Any, Array]:
            progress = loops.rollout(bandit, problem, key, horizon, progress, stop)
            return progress, needed_multiple(progress.state)

        end, multiples = jax.lax.scan(run_until, start(bandit, problem, key, horizon), stops)
        return multiples, end.trace.width[-1], end.trace.regret.sum(), end.stopped

    keys = jax.random.split(jax.random.key(1), settings["seeds"])
    needed, width, regret, stopped = map(np.asarray, jax.jit(jax.vmap(run))(keys))
    if stopped.any():
        raise ValueError(f"{int(stopped.sum())} runs of {name} ended before T = {horizon}.")
    uniform_regret = horizon * float(problem.mean_reward.max() - problem.mean_reward.mean())
    most_needed, ratio = needed.max(1), regret / uniform_regret
    return saving.by_seed(
        dict(t=np.asarray(stops)),
        needed=np.maximum.accumulate(needed, axis=1),
        most_needed=most_needed,
        covered=(most_needed <= 1).astype(float),
        last_width=width,
        final_regret_ratio=ratio,
    )


def draw(folder: Path) -> None:
    """Writes numbers.csv and draws coverage.png from the tables in the folder: for each width, the
    multiple of it that each run needed to cover f, and the regret."""
    _, summary, provenance = tidy.load(folder)
    names = [str(name) for name in summary["algorithm"].unique()][::-1]
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (7.8, 3.4)}):
        figure, (left, right) = plt.subplots(1, 2, sharey=True)
        for height, name in enumerate(names):
            rows = summary[summary["algorithm"] == name]
            colour = "#0072B2" if name in EXACT else "#D55E00"
            heights = np.full(len(rows), height)
            left.plot(rows["most_needed"], heights, "|", color=colour, markersize=9, alpha=0.5)
            ratio = rows["final_regret_ratio"].to_numpy()
            half = ci95(ratio) if len(ratio) > 1 else None
            right.errorbar(ratio.mean(), height, xerr=half, color=colour, fmt="o", markersize=4)
        left.set_ylim(-0.6, len(names) - 0.4)
        left.set_yticks(range(len(names)), names)
        left.axvline(1, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        left.set_xlim(0, 1.05)
        right.set_xlim(0, 1)
        left.set_xlabel("largest share of the width needed\n(beyond 1: not covered)")
        right.set_xlabel("$R_T\\,/\\,R_T^{\\mathrm{unif}}$")
        legend = f"{len(rows)} seeds; blue: exact posterior, GP-UCB; red: sketched, BBKB"
        title = f"Confidence widths, T = {provenance['config']['horizon']:,}, {legend}"
        drawing.save(figure, folder / "coverage.png", title)
    saving.write_numbers(folder, FIELDS)


def run(folder: Path, settings: Settings, options: Options) -> None:
    kinds = {True: "exact_posterior", False: "sketched_posterior"}
    pairs = [(kinds[name in EXACT], name) for name in settings["methods"]]
    title = "Confidence widths: coverage and regret"
    saving.run(folder, "beyond.width_coverage", title, settings, options, runs, pairs=pairs)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
