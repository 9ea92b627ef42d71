"""Which width a user should have by default: BBKB (global) with four of them on four kinds of
problems, mean and worst seed.

    python -m experiments.bbkb_2020.widths --out out/widths

Abalone and Cadata with Table 1's lengthscales, NAS-Bench-101 with the paper's, and five functions
drawn from a Gaussian process on 500 points of the square [0, 1]^2 (lengthscale 0.2, noise 0.1, and
F = 1, which such functions break, as a user's would). lambda = noise^2, C = 2, q_bar = 2, delta =
1/T. An interrupted run resumes with the missing seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax

from experiments import cli
from experiments.bbkb_2020.methods import LENGTHSCALES
from experiments.data import architectures, datasets
from experiments.figures import plots
from experiments.figures.styles import label
from experiments.results import environment, outputs, tidy
from experiments.runs import against_published
from experiments.runs.bandit_runs import Config, print_table, run_algorithm, summarise, tidy_runs
from jsketch import kernels, problems
from jsketch.bandits import BBKB
from jsketch.bandits import widths as formulas

WIDTHS = {
    "width_code": formulas.bbkb_code,
    "width_paper": formulas.bbkb_paper,
    "width_sqrt": formulas.bbkb_sqrt,
    "width_certified": formulas.certified,
}
DRAWS = [f"gp_draw_{i}" for i in range(5)]
TABLE = "widths.csv"
# (evaluations, seeds); Cadata's dictionaries are large
SIZES = {"abalone": (10_000, 10), "nasbench101": (2_000, 5), "cadata": (500, 2)}
DRAW_SIZE = (1_000, 4)
HEAD = ("problem", "width", "T", "seeds", "mean", "worst seed", "batches", "inducing points")


def load(name: str, data_dir: str | None) -> tuple[Any, float, float]:
    """(problem, lengthscale, noise_std). Raises ValueError or OSError when its data are absent."""
    if name.startswith("gp_draw"):
        point_key, draw_key = jax.random.split(jax.random.fold_in(jax.random.key(7), int(name[-1])))
        points = jax.random.uniform(point_key, (500, 2))
        return problems.gp_draw(draw_key, kernels.Gaussian(0.2), points, 0.1), 0.2, 0.1
    if name == "nasbench101":
        space = architectures.load("nasbench101_means", data_dir)
        return architectures.problem(space), 100.0, 0.01
    arms = datasets.preprocess(datasets.load(name, data_dir))
    return problems.finite_arms(*arms, noise_std=0.01), LENGTHSCALES[name]["bbkb_global"], 0.01


def configure(problem: str, width: str, lengthscale: float, noise_std: float) -> Config:
    """The configuration of one width on one problem."""
    horizon, _ = SIZES.get(problem, DRAW_SIZE)
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
        seeds_side_by_side=environment.usable_cores(),
    )


def make(width: str, c: Config) -> BBKB:
    """BBKB with the global rule and that width."""
    return BBKB(
        kernel=kernels.Gaussian(c["lengthscale"]),
        regularization=c["regularization"],
        noise_std=c["noise_std"],
        delta=c["delta"],
        qbar=c["qbar"],
        ratio=c["ratio"],
        width=WIDTHS[width],
    )


def draw(folder: Path) -> None:
    """regret_ratio.png and widths.csv from the tables in the folder."""
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
        numbers = (f"{ratio.mean():.4f}", f"{ratio.max():.4f}")
        sizes = (f"{part['batches'].mean():.1f}", f"{part['dictionary_size'].mean():.1f}")
        rows.append((problem, label(width), part["horizon"].iloc[0], len(part), *numbers, *sizes))
    against_published.write(folder / TABLE, HEAD, rows)


def parse() -> argparse.Namespace:
    parser = cli.parser(__doc__)
    names = [*SIZES, *DRAWS]
    parser.add_argument("--problems", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=cli.count, default=10, help="at most; slow ones have less")
    cli.add_out_folder(parser)
    parser.add_argument("--data-dir", help="folder of the data sets")
    return parser.parse_args()


@cli.line
def main() -> None:
    options = parse()
    cli.set_up_jax()
    loaded = {name: load(name, options.data_dir) for name in options.problems}
    configs = {
        name: {width: configure(name, width, *numbers) for width in WIDTHS}
        for name, (_, *numbers) in loaded.items()
    }
    summary: dict[str, Any] = dict(
        config=configs, seeds=options.seeds, **environment.describe(), problems={}
    )
    table: list[tidy.Run] = []
    with outputs.opened(options, "bbkb_2020.widths", configs, options.seeds) as opened:
        for name, (problem, *_) in loaded.items():
            seeds = min(options.seeds, SIZES.get(name, DRAW_SIZE)[1])
            folder = options.out / "runs" / name
            runs = {
                width: run_algorithm(width, make(width, config), problem, config, folder, seeds)
                for width, config in configs[name].items()
            }
            rows = {width: summarise(found) for width, found in runs.items()}
            summary["problems"][name] = dict(algorithms=rows)
            table += tidy_runs(name, configs[name], runs)
            print(f"\n{name}")
            print_table(rows)
        title = "BBKB (global) with four widths, mean and 95% interval"
        opened.finish(summary, table, title)
        draw(options.out)
    print(f"\nsummary.json, the tables ({TABLE}) and regret_ratio.png are in {options.out}")


if __name__ == "__main__":
    main()
