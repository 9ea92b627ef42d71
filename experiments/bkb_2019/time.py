"""BKB, Section 3.2, measured: a run takes O(T A d_eff^2) operations.

BKB with q_bar = 2 plays a function of norm 2 on A random arms of [0, 1]^2 (Gaussian kernel of
lengthscale 0.3, lambda = 1, noise 0.5) for T evaluations. A varies at T = 200, and T at A = 1,000.
Seconds are CPU seconds without compilation, which other programs change less than wall seconds; m
is the size of the dictionary at T.
"""

import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from experiments import common
from experiments.bkb_2019.theorems import DELTA, KERNEL, LAM, NOISE_STD, NORM
from experiments.common import Options, Settings, Verdict
from experiments.figures import drawing
from experiments.results import tidy
from jsketch import loops, problems
from jsketch.bandits import BKB, Draw, widths

FOLDER = "bkb_2019/time"
RUNS: dict[str, Settings] = {
    FOLDER: dict(arms=(1_000, 4_000, 16_000), evaluations=(250, 1_000, 4_000), seeds=3)
}
QUICK: Settings = dict(arms=(50, 100), evaluations=(20, 40), seeds=2)
BANDIT = BKB(
    KERNEL,
    regularization=LAM,
    noise_std=NOISE_STD,
    norm_bound=NORM,
    delta=DELTA,
    qbar=2.0,
    width=widths.bkb_paper,
    dictionary=Draw(),
)


def measure(n_arms: int, horizon: int, seed: int) -> dict[str, np.ndarray]:
    """The CPU seconds of a run, and the size of its dictionary at the end."""
    x_key, f_key, run_key = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.uniform(x_key, (n_arms, 2))
    problem = problems.rkhs_draw(f_key, KERNEL, x, NOISE_STD, norm=NORM)
    loops.run(BANDIT, problem, run_key, horizon)  # compiles
    start = time.process_time()
    trace = loops.run(BANDIT, problem, run_key, horizon).trace
    size = float(trace.dictionary_size[-1])
    seconds = time.process_time() - start
    return dict(cpu_seconds=np.array(seconds), inducing_points=np.array(size))


def run(folder: Path, settings: Settings, options: Options) -> None:
    arms, evaluations, seeds = (settings[name] for name in ("arms", "evaluations", "seeds"))
    sizes = [("arms", n, 200 if n >= 1_000 else 20) for n in arms]
    sizes += [("evaluations", 1_000 if t >= 250 else 50, t) for t in evaluations]
    runs = []
    with options.results(folder, "bkb_2019.time", settings, seeds) as results:
        for varied, n_arms, horizon in sizes:
            for seed in range(seeds):
                numbers = measure(n_arms, horizon, seed)
                config = dict(problem=varied, algorithm="bkb", arms=n_arms, horizon=horizon)
                arrays = dict(t=np.array([horizon]), cost=numbers["cpu_seconds"][None])
                runs.append(tidy.Run(config, seed, arrays | numbers))
            print(varied, n_arms, horizon, flush=True)
        results.write(dict(config=settings, data="generated"), runs, "Seconds of BKB")


def costs(folder: Path, varied: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sizes [n], CPU seconds [seeds, n], the same over T A m^2) where A or T varies."""
    rows = common.tables(folder).summary
    rows = rows[rows["problem"] == varied]
    size = "arms" if varied == "arms" else "horizon"
    per_operation = rows["cpu_seconds"] / (
        rows["arms"] * rows["horizon"] * rows["inducing_points"] ** 2
    )
    table = rows.assign(per_operation=per_operation).pivot(index="seed", columns=size)
    sizes = table["cpu_seconds"].columns.to_numpy(float)
    return sizes, table["cpu_seconds"].to_numpy(float), table["per_operation"].to_numpy(float)


def draw(folder: Path) -> None:
    """Draws time.png: seconds against A and against T."""
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (6.4, 2.8)}):
        figure, panels = plt.subplots(1, 2, sharey=True)
        for axes, varied in zip(panels, ("arms", "evaluations"), strict=True):
            sizes, seconds, _ = costs(folder, varied)
            axes.loglog(sizes, seconds.T, "o-", color="#009E73")
            axes.set_xlabel(varied)
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.xaxis.set_minor_formatter(NullFormatter())
        panels[0].set_ylabel("CPU seconds of a run")
        drawing.save(figure, folder / "time.png", "BKB, lines are functions")


GROWTH = 0.1  # the largest power of A or T by which the seconds of an operation may grow


def near_linear_time(root: Path) -> Verdict:
    """The slope of log(CPU seconds / (T A m^2)) against log A, and against log T, lies below
    GROWTH. The claim differs if one lies above."""
    slopes, texts = {}, {}
    for varied in ("arms", "evaluations"):
        sizes, seconds, per_operation = costs(root / FOLDER, varied)

        def slope_of(rows: np.ndarray, sizes: np.ndarray = sizes) -> common.Interval:
            fits = [np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in rows]
            return common.mean_interval(fits)

        slopes[varied] = slope_of(per_operation)
        texts[varied] = common.interval_text(slope_of(seconds), 2)
    margins = [(GROWTH - centre, half) for centre, half in slopes.values()]
    text = f"powers of an operation's seconds: {common.listed(slopes, 2)}; of the seconds"
    return common.verdict(
        common.all_above(margins, 0), f"{text} themselves: {common.listed(texts)}"
    )


CHECKS = (near_linear_time,)

if __name__ == "__main__":
    common.main(__file__)
