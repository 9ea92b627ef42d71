"""Figures 1 and 2 of the BBKB paper: regret ratio and run time on Abalone or Cadata, and batch
sizes.

    python -m experiments.bbkb_2020.regret --dataset abalone --seeds 10 --out out/abalone

Preprocessing and hyperparameters of Section 5 and Appendix D.1: features z-scored, rewards scaled
to [0, 1], noise 0.01, F = 1, delta = 1/T, q_bar = 2, the lengthscales of Table 1, and the widths of
the theorems ("all algorithms use the hyperparameters suggested by theory"); --width code takes
those of the authors' code. What the paper does not state is listed under "chosen" in the saved
configuration. An interrupted run resumes with the missing seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, LENGTHSCALES, STOPS, WIDTHS
from experiments.data import datasets
from experiments.results import environment, outputs
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import (
    Config,
    add_fewer,
    print_table,
    run_algorithm,
    seeds_of,
    seeds_text,
    summarise,
    tidy_runs,
)
from jsketch import problems

# panels of the poster, by the metric that they show
POSTER = {
    "abalone": {},
    "cadata": dict(regret_ratio="cadata_regret_ratio", seconds="cadata_seconds"),
}
CHOSEN = [
    "regularization",
    "ratio",
    "epsilon",
    "lengthscale of eps_greedy and sketched_ts",
    "features z-scored",
    "stops on abalone",
]
# the curves of the paper's Figures 1 and 2, without exact Thompson sampling (an A x A root a
# batch): ask for it by name
DEFAULT = [
    "uniform",
    "gp_ucb",
    "gp_bucb",
    "gp_bucb_sqrt",
    "sketched_ts",
    "bkb",
    "bbkb_global",
    "bbkb_global_local",
    "eps_greedy",
]


def configure(name: str, options: argparse.Namespace, lengthscale: float | None = None) -> Config:
    """The configuration of one algorithm: everything that its results depend on."""
    noise_std = 0.01
    stop = STOPS[options.dataset].get(name, options.horizon) if options.stops else options.horizon
    if lengthscale is None:
        lengthscale = LENGTHSCALES[options.dataset].get(name, 1.0)
    return dict(
        dataset=options.dataset,
        algorithm=name,
        horizon=min(options.horizon, stop),
        width=options.width,
        lengthscale=lengthscale,
        noise_std=noise_std,
        regularization=noise_std**2 if options.regularization is None else options.regularization,
        norm_bound=1.0,
        delta=1 / options.horizon if options.horizon > 1 else 0.5,
        qbar=options.qbar,
        ratio=options.ratio,
        epsilon=options.epsilon,
        root_seed=0,
        seeds_side_by_side=options.workers,
        chosen=CHOSEN,
    )


def load(options: argparse.Namespace) -> tuple[Any, str]:
    """(problem, where its data come from). Raises ValueError or OSError when they cannot be had."""
    dataset = datasets.load(options.dataset, options.data_dir)
    print(f"data: {dataset.source} (real), {len(dataset.target)} arms")
    return problems.finite_arms(*datasets.preprocess(dataset), noise_std=0.01), dataset.source


def run_all(
    problem: Any, options: argparse.Namespace, out: Path, lengthscale: float | None
) -> dict[str, list[dict[str, Any]]]:
    """All algorithms and seeds, saved in the folder. Raises ValueError on a mistake."""
    runs = {}
    for name in options.algorithms:
        config = configure(name, options, lengthscale)
        runs[name] = run_algorithm(
            name, ALGORITHMS[name](config), problem, config, out, seeds_of(name, options)
        )
    return runs


def add_options(parser: argparse.ArgumentParser, horizon: int) -> None:
    """The options that this script and `bandwidths` share."""
    parser.add_argument("--dataset", choices=sorted(LENGTHSCALES), default="abalone")
    parser.add_argument(
        "--horizon", type=cli.count, default=horizon, help=f"evaluations a run (default {horizon})"
    )
    parser.add_argument("--seeds", type=cli.count, default=10)
    add_fewer(parser, list(ALGORITHMS))
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), default=DEFAULT)
    parser.add_argument(
        "--width", choices=WIDTHS, default=WIDTHS[0], help="of the theorems, or of the code"
    )
    parser.add_argument(
        "--no-stops",
        dest="stops",
        action="store_false",
        help="run slow methods to the horizon too, not only as far as the paper does",
    )
    parser.add_argument(
        "--regularization", type=cli.positive, help="default noise_std^2 = 1e-4 (chosen)"
    )
    parser.add_argument("--ratio", type=float, default=2.0, help="C of BBKB and GP-BUCB (chosen)")
    parser.add_argument("--qbar", type=float, default=2.0)
    parser.add_argument("--epsilon", type=float, default=0.05, help="of eps_greedy (chosen)")
    parser.add_argument(
        "--workers", type=cli.count, default=environment.usable_cores(), help="seeds side by side"
    )
    cli.add_out_folder(parser)
    parser.add_argument("--data-dir", help="folder of the data sets")


def describe(options: argparse.Namespace, source: str) -> dict[str, Any]:
    """What a summary says about all its runs."""
    side_by_side = min(options.workers, options.seeds)
    return dict(
        seeds=options.seeds,
        data=source,
        uniform_regret="expectation t (f* - mean f)",
        run_seconds=f"wall time of a run without compilation, {side_by_side} seeds side by side",
        compile_seconds="sum over the calls; a warm persistent cache makes it small",
        **environment.describe(),
    )


def draw(folder: Path) -> None:
    """The figures of bandit runs, with the published curves that the folder keeps."""
    bandit_runs.draw(folder, against_published.kept(folder))


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    add_options(parser, horizon=10_000)
    parser.add_argument(
        "--lengthscale",
        type=cli.positive,
        help="one for all algorithms (default: the paper's Table 1)",
    )
    options = parser.parse_args()
    cli.set_up_jax()
    problem, source = load(options)
    configs = {name: configure(name, options, options.lengthscale) for name in options.algorithms}
    with outputs.opened(options, "bbkb_2020.regret", configs, options.seeds) as opened:
        runs = run_all(problem, options, options.out, options.lengthscale)
        summary = dict(
            config=configs,
            **describe(options, source),
            algorithms={name: summarise(rows) for name, rows in runs.items()},
        )
        title = f"{options.dataset}, {seeds_text(options)}, mean and 95% interval"
        opened.finish(summary, tidy_runs(options.dataset, configs, runs), title)
        against_published.keep(options.out, POSTER[options.dataset], 0, options.data_dir)
        against_published.compare(options.out)
        draw(options.out)
    print_table(summary["algorithms"])
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and the figures are in"
        f" {options.out}"
    )


if __name__ == "__main__":
    main()
