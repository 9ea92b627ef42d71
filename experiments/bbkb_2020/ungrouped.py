"""BBKB, Figure 2, a cause: the time of a GP-UCB that does not group repeated arms (Abalone).

Its posterior has a row for every evaluation, so that step t takes O(t^2 A) operations, as the
paper counts; our GP-UCB has a row for every distinct arm. Problem and width are those of Figure 1.
Seconds are CPU time, which other programs hardly change.
"""

import time
from pathlib import Path

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from experiments import common
from experiments.bbkb_2020.methods import LENGTHSCALES
from experiments.common import Options, Settings
from experiments.data import datasets
from experiments.figures import plots
from experiments.results import tidy

NOISE_STD, NORM_BOUND, REGULARIZATION = 0.01, 1.0, 1e-4
RUNS: dict[str, Settings] = {"bbkb_2020/ungrouped": dict(data="abalone", horizon=2_000, seeds=1)}
QUICK: Settings = dict(horizon=20)


def play(features: np.ndarray, rewards_of: np.ndarray, s: Settings, seed: int) -> np.ndarray:
    """The CPU seconds [T] from the start of a run to the end of each step."""
    rng, horizon = np.random.default_rng(seed), s["horizon"]
    lengthscale = LENGTHSCALES[s["data"]]["gp_ucb"]
    # kernel values of each evaluated arm with all arms; the Cholesky factor of the posterior
    rows, factor = np.zeros((horizon, len(features))), np.zeros((horizon, horizon))
    arms, rewards, seconds = np.zeros(horizon, int), np.zeros(horizon), np.zeros(horizon)
    arm, start = int(rng.integers(len(features))), time.process_time()
    for t in range(horizon):
        distances = cdist(features[[arm]], features, "sqeuclidean")[0]
        rows[t], arms[t] = np.exp(-distances / (2 * lengthscale**2)), arm
        rewards[t] = rewards_of[arm] + NOISE_STD * rng.standard_normal()
        if t:
            factor[t, :t] = solve_triangular(factor[:t, :t], rows[t, arms[:t]], lower=True)
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


def run(folder: Path, settings: Settings, options: Options) -> None:
    dataset = datasets.load(settings["data"], options.data_dir)
    features, mean_reward = map(np.asarray, datasets.preprocess(dataset))
    config = dict(settings, noise_std=NOISE_STD, norm_bound=NORM_BOUND)
    with options.results(folder, "bbkb_2020.ungrouped", config, settings["seeds"]) as results:
        t = np.arange(1, settings["horizon"] + 1)
        runs = [
            dict(t=t, seconds=play(features, mean_reward, settings, seed))
            for seed in range(settings["seeds"])
        ]
        table = tidy.runs_of(dict(problem=settings["data"], algorithm="gp_ucb"), runs)
        results.write(dict(config=config, data=dataset.source), table, "GP-UCB without groups")


def draw(folder: Path) -> None:
    plots.run_time(folder / "time.png", common.curves(folder, "seconds"), "GP-UCB, ungrouped", 1)


CHECKS = ()

if __name__ == "__main__":
    common.main(__file__)
