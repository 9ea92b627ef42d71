"""Runs BBKB, a batched and sketched GP bandit, and a policy that picks arms at random, and draws
their regret. The data are generated, and nothing is downloaded.
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
    parser = cli.parser(__doc__, prog="scripts/demo", horizon=1000, seeds=4)
    help_text = "number of generated candidates (default 2000)"
    parser.add_argument("--arms", type=cli.count, default=2000, help=help_text)
    out_help = "folder of the picture (default demo_out)"
    parser.add_argument("--out", type=Path, default=Path("demo_out"), help=out_help)
    options = parser.parse_args()
    outputs.check_no_tables(options.out)
    files.check_folder(options.out)
    cli.set_up_jax()

    print(
        f"Data: generated, {options.arms:,} arms with 4 features and a smooth mean reward in"
        f" [0, 1]; a reward has noise of standard deviation {NOISE_STD}."
        f"\nRuns: BBKB and random arms, {options.horizon:,} evaluations each; seeds:"
        f" {options.seeds} ...",
        flush=True,
    )
    features, reward = generate(options.arms)
    problem = problems.finite_arms(features, reward, NOISE_STD)
    keys = jax.random.split(jax.random.key(0), options.seeds)
    t = np.arange(1, options.horizon + 1)
    curves, best = {}, {}
    rows: dict[str, dict[str, Any]] = {}
    bandit = BBKB(
        kernel=kernels.Gaussian(3.0),
        regularization=NOISE_STD**2,
        noise_std=NOISE_STD,
        delta=min(1 / options.horizon, 0.5),  # delta must be below 1
    )
    for name, policy in dict(uniform=Uniform(), bbkb_global=bandit).items():
        result = loops.run(policy, problem, keys, options.horizon)
        regret = np.asarray(result.trace.regret)
        ratios = np.asarray(loops.regret_ratio(result.trace.regret, problem.mean_reward))
        curves[name] = (t, regret.cumsum(1))
        best[name] = int((regret.min(1) == 0).sum())  # seeds
        rows[name] = dict(
            regret=summaries.statistics(curves[name][1][:, -1], ci=True),
            regret_ratio=summaries.statistics(ratios[:, -1], ci=True),
            batches=float(result.trace.round[:, -1].mean()) + 1,
            inducing_points=float(result.trace.dictionary_size[:, -1].mean()),
            compile_seconds=result.compile_seconds,
            run_seconds=result.run_seconds,
        )
    picture = options.out / "regret.png"
    title = f"{options.arms:,} generated arms, {options.seeds} seeds, mean and 95% interval"
    plots.streams(picture, curves, title, "cumulative regret $R_t$", "evaluations $t$")
    summaries.print_table(title, rows)
    bbkb, share = rows["bbkb_global"], rows["bbkb_global"]["regret_ratio"]["mean"]
    print(
        f"\nThe regret is the sum of f(best arm) - f(arm) over the evaluations. That of BBKB is"
        f" {share:.0%} of the expected regret of random arms (the regret ratio). It evaluated"
        f" {options.horizon:,} arms in {bbkb['batches']:.0f} batches, with"
        f" {bbkb['inducing_points']:.0f} inducing points, and the best arm in"
        f" {best['bbkb_global']} of {options.seeds} runs."
        f"\n\nThe picture {picture} has both regrets against the number of evaluations."
        f"\nNext: scripts/sweep --problem generated --algorithm bbkb_global --grid lengthscale 1 3"
        " --out out/sweep"
    )
