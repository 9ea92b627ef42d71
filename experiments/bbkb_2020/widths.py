"""Beyond BBKB: which width a user should choose, by the mean and the largest regret ratio.

BBKB with the global rule and four widths on Abalone, Cadata and NAS-Bench-101, with the paper's
lengthscales, and on five functions drawn from a Gaussian process on 500 points of [0, 1]^2
(lengthscale 0.2, noise 0.1; their norm exceeds the assumed F = 1). lambda = noise^2, C = 2, q_bar =
2, delta = 1/T.
"""

from pathlib import Path
from typing import Any

import jax

from experiments import common
from experiments.bbkb_2020.methods import ALGORITHMS, LENGTHSCALES
from experiments.common import Options, Settings
from experiments.data import architectures, datasets
from experiments.figures import plots
from experiments.figures.styles import label
from experiments.results import tidy
from experiments.runs import bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import kernels, problems
from jsketch.bandits import widths as formulas

WIDTHS = {
    "width_code": formulas.bbkb_code,
    "width_paper": formulas.bbkb_paper,
    "width_sqrt": formulas.bbkb_sqrt,
    "width_certified": formulas.certified,
}
# {problem: (evaluations, seeds)}, small where dictionaries are large
SIZES = {"abalone": (10_000, 10), "nasbench101": (2_000, 5), "cadata": (500, 2)}
DRAWS = tuple(f"gp_draw_{i}" for i in range(5))
SIZES |= dict.fromkeys(DRAWS, (1_000, 4))
RUNS: dict[str, Settings] = {
    "bbkb_2020/widths": dict(problems=("abalone", *DRAWS), seeds=10),
    "bbkb_2020/widths_large": dict(problems=("cadata", "nasbench101"), seeds=10),
}
QUICK: Settings = dict(problems=DRAWS[:1], seeds=1)


def load(name: str, data_dir: str | Path | None) -> tuple[Any, float, float]:
    """(problem, lengthscale, noise_std). Raises ValueError or OSError if the data are missing."""
    if name.startswith("gp_draw"):
        point_key, draw_key = jax.random.split(jax.random.fold_in(jax.random.key(7), int(name[-1])))
        points = jax.random.uniform(point_key, (500, 2))
        kernel = kernels.Gaussian(0.2)
        return problems.gp_draw(draw_key, kernel, points, 0.1), 0.2, 0.1
    if name == "nasbench101":
        space = architectures.load("nasbench101_means", data_dir)
        return architectures.problem(space), 100.0, 0.01
    arms = datasets.preprocess(datasets.load(name, data_dir))
    return problems.finite_arms(*arms, noise_std=0.01), LENGTHSCALES[name]["bbkb_global"], 0.01


def make(width: str, c: Config) -> Any:
    """BBKB with the global rule and the given width."""
    bandit = ALGORITHMS["bbkb_global"](c | dict(norm_bound=1.0, width="code"))
    return bandit.replace(width=WIDTHS[width])


def run(folder: Path, settings: Settings, options: Options) -> None:
    groups = {}
    for name in settings["problems"]:
        problem, lengthscale, noise_std = load(name, options.data_dir)
        horizon, seeds = SIZES[name]
        model = dict(lengthscale=lengthscale, noise_std=noise_std, regularization=noise_std**2)
        model |= dict(horizon=horizon, delta=1 / horizon, ratio=2.0, qbar=2.0, root_seed=0)
        configs = {width: dict(algorithm=width) | model for width in WIDTHS}
        counts = dict.fromkeys(WIDTHS, min(settings["seeds"], seeds))
        groups[name] = bandit_runs.Group(problem, configs, make, counts)
    title = "BBKB (global) with four widths, mean and 95% interval"
    bandit_runs.save_groups(folder, "bbkb_2020.widths", groups, "see experiments", title, options)


def draw(folder: Path) -> None:
    """Draws regret_ratio.png and writes widths.csv."""
    curves, summary, _ = common.tables(folder)
    panels = {
        str(problem).replace("_", " "): tidy.lines(part, "regret_ratio")
        for problem, part in curves.groupby("problem", observed=True, sort=False)
    }
    plots.regret_ratio_panels(folder / "regret_ratio.png", panels, curves.attrs["title"])
    rows = []
    for (problem, width), part in summary.groupby(["problem", "algorithm"], observed=True):
        ratio = part["final_regret_ratio"]
        numbers = (f"{ratio.mean():.4f}", f"{ratio.max():.4f}", f"{part['batches'].mean():.1f}")
        rows.append((problem, label(width), part["horizon"].iloc[0], len(part), *numbers))
    head = ("problem", "width", "T", "seeds", "mean", "worst seed", "batches")
    tidy.write_csv(folder / "widths.csv", rows, head)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
