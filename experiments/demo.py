"""Compares a batched, sketched GP bandit with a uniform policy, and plots their regret. The
generated data need no download.

scripts/demo [--arms 2000] [--horizon 1000] [--seeds 4] [--out demo_out]
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.results import files, outputs, summaries
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Uniform

NOISE_STD = 0.05


def generate(arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Candidates [A,4] and a smooth reward in [0,1] [A]: a sum of Gaussian bumps."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (arms, 4))
    centres, heights = rng.uniform(-1, 1, (12, 4)), rng.uniform(0.2, 1, 12)
    squared_distances = np.square(features[:, None] - centres).sum(-1)
    reward = (heights * np.exp(-squared_distances / (2 * 0.8**2))).sum(1)
    return features, (reward - reward.min()) / np.ptp(reward)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=1000, seeds=4)
    help_text = "number of generated candidates (default 2000)"
    parser.add_argument("--arms", type=cli.count, default=2000, help=help_text)
    parser.add_argument("--out", type=Path, default=Path("demo_out"))
    options = parser.parse_args()
    outputs.check_no_tables(options.out)
    files.check_folder(options.out)
    cli.set_up_jax()

    print(
        f"Data: GENERATED, {options.arms} candidates with 4 features, a smooth reward in [0, 1],"
        f" noise {NOISE_STD}.\n"
    )
    features, reward = generate(options.arms)
    problem = problems.finite_arms(features, reward, NOISE_STD)
    keys = jax.random.split(jax.random.key(0), options.seeds)
    t = np.arange(1, options.horizon + 1)
    curves = {}
    rows: dict[str, dict[str, Any]] = {}
    bandit = BBKB(
        kernel=kernels.Gaussian(3.0),
        regularization=NOISE_STD**2,
        noise_std=NOISE_STD,
        delta=min(1 / options.horizon, 0.5),  # delta must be below 1
    )
    for name, policy in dict(uniform=Uniform(), bbkb_global=bandit).items():
        result = loops.run(policy, problem, keys, options.horizon)
        ratios = np.asarray(loops.regret_ratio(result.trace.regret, problem.mean_reward))
        curves[name] = (t, ratios)
        rows[name] = dict(
            regret_ratio=summaries.statistics(ratios[:, -1], ci=True),
            batches=float(result.trace.round[:, -1].mean()) + 1,
            inducing_points=float(result.trace.dictionary_size[:, -1].mean()),
            compile_seconds=result.compile_seconds,
            run_seconds=result.run_seconds,
        )
    picture = options.out / "regret.png"
    title = f"generated data, {options.seeds} seeds, mean and 95% interval"
    plots.regret_ratio(picture, curves, title)
    summaries.print_table(title, rows)
    print(
        "\nRegret ratio: cumulative regret over the expected regret of the uniform policy, after"
        f" {options.horizon} evaluations."
        f"\nThe picture is {picture}. Next: python -m experiments.bbkb_2020.regret --dataset"
        " abalone --out out/abalone"
    )
