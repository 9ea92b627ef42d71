"""Comparison of four confidence widths of BBKB with the global rule, by the mean and the largest
regret ratio over seeds on four kinds of problems.

    python -m experiments.bbkb_2020.widths --out out/widths

The problems are Abalone and Cadata with the lengthscales of Table 1, NAS-Bench-101 with that of the
paper, and five functions drawn from a Gaussian process on 500 points of the square [0, 1]^2
(lengthscale 0.2, noise 0.1; their norm exceeds the assumed F = 1). lambda = noise^2, C = 2, q_bar =
2, delta = 1/T.
"""

from pathlib import Path
from typing import Any

import jax

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, LENGTHSCALES
from experiments.data import architectures, datasets
from experiments.figures import plots
from experiments.figures.styles import label
from experiments.results import outputs, summaries, tidy
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
TABLE = "widths.csv"
HEAD = ("problem", "width", "T", "seeds", "mean", "worst seed", "batches", "inducing points")
# {problem: (evaluations, seeds)}, small where dictionaries are large
RUN_SIZES = {"abalone": (10_000, 10), "nasbench101": (2_000, 5), "cadata": (500, 2)} | {
    f"gp_draw_{i}": (1_000, 4) for i in range(5)
}


def load(name: str, data_dir: str | Path | None) -> tuple[Any, float, float]:
    """(problem, lengthscale, noise_std). Raises ValueError or OSError if the data are missing."""
    if name.startswith("gp_draw"):
        point_key, draw_key = jax.random.split(jax.random.fold_in(jax.random.key(7), int(name[-1])))
        points = jax.random.uniform(point_key, (500, 2))
        lengthscale, noise_std = 0.2, 0.1
        kernel = kernels.Gaussian(lengthscale)
        return problems.gp_draw(draw_key, kernel, points, noise_std), lengthscale, noise_std
    if name == "nasbench101":
        space = architectures.load("nasbench101_means", data_dir)
        return architectures.problem(space), 100.0, 0.01
    arms = datasets.preprocess(datasets.load(name, data_dir))
    return problems.finite_arms(*arms, noise_std=0.01), LENGTHSCALES[name]["bbkb_global"], 0.01


def configure(problem: str, width: str, lengthscale: float, noise_std: float) -> Config:
    """The configuration of one width on one problem."""
    horizon, _ = RUN_SIZES[problem]
    return dict(
        algorithm=width,
        horizon=horizon,
        lengthscale=lengthscale,
        noise_std=noise_std,
        regularization=noise_std**2,
        delta=1 / horizon,
        ratio=2.0,
        qbar=2.0,
        root_seed=0,
        seeds_side_by_side=1,
    )


def make(width: str, c: Config) -> Any:
    """BBKB with the global rule and the given width."""
    bandit = ALGORITHMS["bbkb_global"](c | dict(norm_bound=1.0, width="code"))
    return bandit.replace(width=WIDTHS[width])


def draw(folder: Path) -> None:
    """Draws regret_ratio.png and writes widths.csv, from the tables in the folder."""
    curves, summary, _ = tidy.load(folder)
    panels = {
        str(problem).replace("_", " "): tidy.lines(part, "regret_ratio")
        for problem, part in curves.groupby("problem", observed=True, sort=False)
    }
    plots.regret_ratio_panels(folder / "regret_ratio.png", panels, curves.attrs["title"])
    rows = []
    groups = summary.groupby(["problem", "algorithm"], observed=True, sort=False)
    for (problem, width), part in groups:
        ratio = part["final_regret_ratio"]
        regrets = (f"{ratio.mean():.4f}", f"{ratio.max():.4f}")
        sizes = (f"{part['batches'].mean():.1f}", f"{part['dictionary_size'].mean():.1f}")
        rows.append((problem, label(width), part["horizon"].iloc[0], len(part), *regrets, *sizes))
    tidy.write_csv(folder / TABLE, rows, HEAD)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=10, data_dir=None)
    cli.add_choices(parser, "--problems", list(RUN_SIZES))
    options = cli.parse(parser)
    loaded = {name: load(name, options.data_dir) for name in options.problems}
    configs = {
        name: {width: configure(name, width, *settings) for width in WIDTHS}
        for name, (_, *settings) in loaded.items()
    }
    measured: dict[str, Any] = {}
    table: list[tidy.Run] = []
    with outputs.results_folder(options, "bbkb_2020.widths", configs, options.seeds) as results:
        for name, (problem, *_) in loaded.items():
            seeds = dict.fromkeys(WIDTHS, min(options.seeds, RUN_SIZES[name][1]))
            folder = options.out / "runs" / name
            _, algorithms, runs = bandit_runs.run_all(
                make, problem, name, configs[name], folder, seeds
            )
            measured[name] = dict(algorithms=algorithms)
            table += runs
            summaries.print_table(name, algorithms)
        summary = dict(config=configs, seeds=options.seeds, problems=measured)
        results.write(summary, table, "BBKB (global) with four widths, mean and 95% interval")
        draw(options.out)
