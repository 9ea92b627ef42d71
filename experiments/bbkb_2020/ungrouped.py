"""Seconds of a GP-UCB that does not group repeated arms. Its posterior has a row for every
evaluation, so that step t takes O(t^2 A) operations, as the BBKB paper states.

    python -m experiments.bbkb_2020.ungrouped --out results/bbkb_2020/ungrouped

The problem and the width are those of `regret`. Seconds are CPU time, which other programs hardly
change.
"""

import time

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from experiments import cli
from experiments.bbkb_2020.methods import LENGTHSCALES
from experiments.data import datasets
from experiments.results import outputs, summaries, tidy

NOISE_STD, NORM_BOUND = 0.01, 1.0
REGULARIZATION = NOISE_STD**2


def run(
    features: np.ndarray, mean_reward: np.ndarray, lengthscale: float, horizon: int, seed: int
) -> np.ndarray:
    """The CPU seconds [T] from the start of a run to the end of each step."""
    rng = np.random.default_rng(seed)
    # kernel values of each evaluated arm with all arms; the Cholesky factor of the posterior
    rows, factor = np.zeros((horizon, len(features))), np.zeros((horizon, horizon))
    arms, rewards, seconds = np.zeros(horizon, int), np.zeros(horizon), np.zeros(horizon)
    arm, start = int(rng.integers(len(features))), time.process_time()
    for t in range(horizon):
        distances = cdist(features[[arm]], features, "sqeuclidean")[0]
        rows[t], arms[t] = np.exp(-distances / (2 * lengthscale**2)), arm
        rewards[t] = mean_reward[arm] + NOISE_STD * rng.standard_normal()
        if t:
            cross = rows[t, arms[:t]]
            factor[t, :t] = solve_triangular(factor[:t, :t], cross, lower=True)
        factor[t, t] = np.sqrt(1 + REGULARIZATION - np.square(factor[t, :t]).sum())
        cholesky = factor[: t + 1, : t + 1]
        whitened = solve_triangular(cholesky, rows[: t + 1], lower=True)
        mean = solve_triangular(cholesky, rewards[: t + 1], lower=True) @ whitened
        std = np.sqrt(np.maximum(1 - np.square(whitened).sum(0), 0) / REGULARIZATION)
        logdet = 2 * np.log(np.diag(cholesky)).sum() - (t + 1) * np.log(REGULARIZATION)
        width = np.sqrt(REGULARIZATION) * NORM_BOUND
        width += NOISE_STD * np.sqrt(2 * (logdet + np.log(horizon)))
        arm = int(np.argmax(mean + width * std))
        seconds[t] = time.process_time() - start
    return seconds


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=200, seeds=2, data_dir=None)
    options = cli.parse(parser)
    config = dict(horizon=options.horizon, noise_std=NOISE_STD, norm_bound=NORM_BOUND)
    with outputs.results_folder(options, "bbkb_2020.ungrouped", config, options.seeds) as results:
        table, entries = [], {}
        for name in ("abalone", "cadata"):
            dataset = datasets.load(name, options.data_dir)
            features, mean_reward = map(np.asarray, datasets.preprocess(dataset))
            lengthscale, t = LENGTHSCALES[name]["gp_ucb"], np.arange(1, options.horizon + 1)
            runs = [
                run(features, mean_reward, lengthscale, options.horizon, seed)
                for seed in range(options.seeds)
            ]
            run_config = dict(problem=name, algorithm="gp_ucb")
            table += tidy.runs_of(run_config, [dict(t=t, seconds=seconds) for seconds in runs])
            final_seconds = [float(seconds[-1]) for seconds in runs]
            statistics = summaries.statistics(final_seconds)
            entries[name] = dict(methods=dict(gp_ucb=dict(seconds=statistics)))
            print(f"{name}: {final_seconds} s until t = {options.horizon}", flush=True)
        results.write(
            dict(config=config, seeds=options.seeds, problems=entries), table, "ungrouped GP-UCB"
        )
