"""Runs the architecture search without initial evaluations and with changes of settings that the
paper leaves open, to find the cause of a difference from the published simple regret.

    python -m experiments.bbkb_2020.search_settings --out results/bbkb_2020/nas_settings

The algorithm is BBKB with the global rule on the 12,416 cells of NAS-Bench-101. On the authors'
poster all runs have evaluated the best cell by t = 1,939. summary.json has, for each setting, the
number of seeds that have evaluated the best cell by T, and the simple regrets of all seeds.
"""

from typing import Any

import numpy as np

from experiments import cli
from experiments.bbkb_2020.methods import ALGORITHMS, COMMON
from experiments.data import architectures
from experiments.results import outputs, summaries, tidy
from experiments.runs import bandit_runs
from experiments.runs.bandit_runs import Config
from jsketch import problems

ALGORITHM = "bbkb_global"
BASE: Config = COMMON | dict(
    lengthscale=100.0, delta=1 / 12_000, rewards="scaled", noise=architectures.NOISE_STD
)
CODE_WIDTH = dict(width="code")
# {setting: changes of BASE, the configuration of nas_bench_101}. "rewards" are scaled to [0, 1] or
# are accuracies; "noise" is their standard deviation in units of accuracy, and "noise_std" is the
# standard deviation that BBKB assumes.
SETTINGS: dict[str, Config] = {
    "the theorem's width": {},
    "the code's width": CODE_WIDTH,
    "lambda = 1e-2": CODE_WIDTH | dict(regularization=1e-2),
    "C = 1.1": CODE_WIDTH | dict(ratio=1.1),
    "assumed noise 0.1, lambda = 1e-2": CODE_WIDTH | dict(noise_std=0.1, regularization=1e-2),
    "no noise": CODE_WIDTH | dict(noise=0.0),
    "rewards in accuracy": CODE_WIDTH | dict(rewards="accuracy"),
    "lengthscale 10": CODE_WIDTH | dict(lengthscale=10.0),
}


def problem_of(space: architectures.Space, c: Config) -> Any:
    """The problem with the rewards and the noise of a configuration."""
    scaled_rewards = space.evaluations[:, 0]
    if c["rewards"] == "scaled":
        return problems.finite_arms(space.features, scaled_rewards, c["noise"] / space.span)
    accuracies = space.lowest + space.span * scaled_rewards
    return problems.finite_arms(space.features, accuracies, c["noise"])


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=2_000, seeds=10, data_dir=None)
    cli.add_choices(parser, "--settings", list(SETTINGS))
    options = cli.parse(parser)
    space = architectures.load("nasbench101_means", options.data_dir)
    configs = {
        setting: BASE
        | dict(algorithm=ALGORITHM, horizon=options.horizon, root_seed=0, seeds_side_by_side=1)
        | SETTINGS[setting]
        for setting in options.settings
    }
    settings: dict[str, Any] = {}
    table: list[tidy.Run] = []
    with outputs.results_folder(
        options, "bbkb_2020.search_settings", configs, options.seeds
    ) as results:
        for setting, config in configs.items():
            folder = options.out / "runs" / f"setting_{list(SETTINGS).index(setting):02d}"
            problem, seeds = problem_of(space, config), {ALGORITHM: options.seeds}
            runs, entries, rows = bandit_runs.run_all(
                lambda name, c: ALGORITHMS[name](c).replace(max_batch=10_000, capacity=64),
                *(problem, setting, {ALGORITHM: config}, folder, seeds),
            )
            unit = space.span if config["rewards"] == "scaled" else 1.0  # of regret
            regrets = np.array([float(run["simple_regret"][-1]) for run in runs[ALGORITHM]]) * unit
            settings[setting] = entries[ALGORITHM] | dict(
                simple_regret=summaries.statistics(regrets, ci=True),
                seeds_with_the_best_cell=int((regrets <= 1e-9).sum()),  # 0 up to rounding
            )
            table += rows
        summary = dict(config=configs, seeds=options.seeds, data=space.source, settings=settings)
        results.write(summary, table, "NAS-Bench-101, settings tried")
    summaries.print_table("NAS-Bench-101, settings tried", settings)
