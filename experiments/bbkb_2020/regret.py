"""Figures 1 and 2 of the BBKB paper: regret ratio, run time and batch sizes on Abalone or Cadata.

    python -m experiments.bbkb_2020.regret --dataset abalone --seeds 10 --out out/abalone

The settings are those of Section 5 and Appendix D.1: z-scored features, rewards scaled to [0, 1],
noise 0.01, F = 1, delta = 1/T, q_bar = 2, the lengthscales of Table 1 and the widths of the
theorems. The entry "chosen" of summary.json lists the settings that the paper leaves open.
"""

import argparse
from typing import Any

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, COMMON, LENGTHSCALES, STOPS, add_width
from experiments.data import datasets
from experiments.results import outputs, summaries
from experiments.runs import against_published, bandit_runs
from experiments.runs.bandit_runs import Config, draw
from jsketch import problems

# {data set: {metric: panel of the poster}}
POSTER = {"cadata": dict(regret_ratio="cadata_regret_ratio", seconds="cadata_seconds")}
# settings that the paper leaves open
CHOSEN_SETTINGS = [
    "regularization",
    "ratio",
    "epsilon",
    "lengthscale of eps_greedy and sketched_ts",
    "features z-scored",
    "stops on abalone",
]


def parser(description: str | None) -> argparse.ArgumentParser:
    """The parser that this script and `bandwidths` share."""
    parser = cli.parser(description, horizon=10_000, seeds=10, data_dir=None, workers=1)
    parser.add_argument("--dataset", choices=sorted(LENGTHSCALES), default="abalone")
    # exact Thompson sampling is slow, because it factors an A x A matrix in every batch
    default = [name for name in ALGORITHMS if name != "ts"]
    bandit_runs.add_options(parser, list(ALGORITHMS), default)
    add_width(parser)
    help_text = "lambda (default: the variance of the noise; the theorems assume at least 1)"
    parser.add_argument("--regularization", type=cli.positive, default=0.01**2, help=help_text)
    help_text = "run slow methods to the horizon, beyond the end of the authors' curves"
    parser.add_argument("--no-stops", dest="stops", action="store_false", help=help_text)
    return parser


def configure(options: argparse.Namespace, lengthscale: float | None = None) -> dict[str, Config]:
    """The configuration of each algorithm: everything that its results depend on. All algorithms
    have the given lengthscale, or by default those of Table 1."""
    table, stops = LENGTHSCALES[options.dataset], STOPS[options.dataset] if options.stops else {}
    return {
        name: COMMON
        | dict(
            dataset=options.dataset,
            algorithm=name,
            horizon=min(options.horizon, stops.get(name, options.horizon)),
            width=options.width,
            lengthscale=table.get(name, 1.0) if lengthscale is None else lengthscale,
            regularization=options.regularization,
            delta=1 / options.horizon if options.horizon > 1 else 0.5,  # below 1
            epsilon=0.05,
            root_seed=0,
            seeds_side_by_side=options.workers,
            chosen=CHOSEN_SETTINGS,
        )
        for name in options.algorithms
    }


def load(options: argparse.Namespace) -> tuple[Any, str]:
    """(problem, source of its data). Raises ValueError or OSError if the data are missing."""
    dataset = datasets.load(options.dataset, options.data_dir)
    print(f"data: {dataset.source} (real), {len(dataset.target)} arms")
    return problems.finite_arms(*datasets.preprocess(dataset), noise_std=0.01), dataset.source


def title(options: argparse.Namespace) -> str:
    return f"{options.dataset}, {bandit_runs.seeds_text(options)}, mean and 95% interval"


@cli.command
def main() -> None:
    options = cli.parse(parser(__doc__))
    problem, source = load(options)
    configs = configure(options)
    with outputs.results_folder(options, "bbkb_2020.regret", configs, options.seeds) as results:
        seeds = bandit_runs.seeds_of(options)
        _, algorithms, runs = bandit_runs.run_all(
            lambda name, c: ALGORITHMS[name](c),
            *(problem, options.dataset, configs, options.out, seeds),
        )
        shared = bandit_runs.shared_fields(options, source)
        results.write(dict(config=configs, **shared, algorithms=algorithms), runs, title(options))
        panels = POSTER.get(options.dataset, {})
        against_published.write_curves(options.out, panels, initial=0, data_dir=options.data_dir)
        against_published.compare(options.out)
        draw(options.out)
    summaries.print_table(title(options), algorithms)
