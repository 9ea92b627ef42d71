"""Compares BBKB with the authors' NumPy implementation on Abalone, with the same hyperparameters.

    python -m experiments.bbkb_2020.authors_code --reference DIR [--out FILE.json]

DIR is a checkout of luigicarratino/batch-bkb, of which this project contains no part. The output
has the regret ratio, the dictionary size and the number of batches for each lengthscale and rule.
"""

import importlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.gaussian_process.kernels import RBF, PairwiseKernel

from experiments import cli
from experiments.data import datasets
from experiments.results import store, summaries
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Draw

# {"bkb", or our batch rule: class of the authors' code}
CLASSES = {"bkb": "BKB", "global": "Batch_BKB", "global_local": "Local_Batch_BKB"}
NOISE_STD, QBAR, RATIO = 0.01, 2.0, 2.0
FIELDS = ("regret_ratio", "dictionary_size", "batches")


def run_authors(
    folder: Path,
    problem: Any,
    rule: str,
    lengthscale: float,
    horizon: int,
    seed: int,
    regularization: float = NOISE_STD**2,
    noise_std: float = NOISE_STD,
) -> tuple[float, int, int]:
    """The values of FIELDS at T of a run of the authors' code. The run starts from two uniform
    arms, because the authors' code cannot start from one. The kernel is the fast one of its module
    `utils`. Raises FileNotFoundError if `folder` does not contain the code."""
    cli.import_from(folder, "bkb_lib.py", "luigicarratino/batch-bkb")
    library, utilities = map(importlib.import_module, ("bkb_lib", "utils"))
    features, mean_reward = np.asarray(problem.arms.features), np.asarray(problem.mean_reward)
    rng = np.random.RandomState(seed)
    pairwise = PairwiseKernel(
        gamma=1 / (2 * lengthscale**2), metric="rbf", pairwise_kernels_kwargs={"n_jobs": 1}
    )
    options = {} if rule == "bkb" else dict(ratio_threshold=RATIO)
    bandit = getattr(library, CLASSES[rule])(
        lam=regularization,
        dot=utilities.FastMixinKernel(RBF(lengthscale), pairwise),
        noise_variance=noise_std**2,
        fnorm=1.0,
        delta=1 / horizon,
        qbar=QBAR,
        verbose=0,
        **options,
    )

    def reward(arms: np.ndarray) -> np.ndarray:
        return mean_reward[arms] + noise_std * rng.randn(len(arms))

    batch = rng.choice(len(features), 2, replace=False)
    bandit.initialize(features, batch, reward(batch))
    batches, t = [batch], len(batch)
    while t < horizon:
        batch = np.asarray(bandit.predict()[0])[: horizon - t]
        bandit.update(batch, reward(batch), rng)
        batches.append(batch)
        t += len(batch)
    regret = (mean_reward.max() - mean_reward[np.concatenate(batches)]).sum()
    uniform_regret = horizon * (mean_reward.max() - mean_reward.mean())
    return regret / uniform_regret, int(bandit.dict_size_unique), len(batches)


def run_ours(
    problem: Any, rule: str, lengthscale: float, horizon: int, strict: bool, seeds: int
) -> dict[str, np.ndarray]:
    """{field: values [S] at T of our runs}, for each of FIELDS."""
    bandit = BBKB(
        kernel=kernels.Gaussian(lengthscale),
        regularization=NOISE_STD**2,
        noise_std=NOISE_STD,
        norm_bound=1.0,
        delta=1 / horizon,
        qbar=QBAR,
        ratio=RATIO,
        rule=rule,
        strict=strict,
        dictionary=Draw(),
    )
    keys = jax.random.split(jax.random.key(0), seeds)
    trace = loops.run(bandit, problem, keys, horizon).trace
    ratio = loops.regret_ratio(trace.regret, problem.mean_reward)[:, -1]
    values = (ratio, trace.dictionary_size[:, -1], trace.round[:, -1] + 1)
    return dict(zip(FIELDS, map(np.asarray, values), strict=True))


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, horizon=2_000, seeds=10, data_dir=None)
    help_text = "checkout of the authors' code"
    parser.add_argument("--reference", type=Path, required=True, help=help_text)
    parser.add_argument("--lengthscales", type=cli.positive, nargs="+", default=[5.0, 10.0, 17.5])
    options = cli.parse_benchmark(parser, cached=True)
    dataset = datasets.load("abalone", options.data_dir)
    print(f"Abalone from {dataset.source}, T = {options.horizon}, {options.seeds} seeds")
    problem = problems.finite_arms(*datasets.preprocess(dataset), NOISE_STD)
    rows = []
    for rule in ("global", "global_local"):
        for lengthscale in options.lengthscales:
            setting = (problem, rule, lengthscale, options.horizon)
            runs = [run_authors(options.reference, *setting, seed) for seed in range(options.seeds)]
            authors_values = dict(zip(FIELDS, np.array(runs).T, strict=True))
            for strict in (True, False) if rule == "global_local" else (True,):
                our_values = run_ours(*setting, strict, options.seeds)
                row: dict[str, Any] = dict(rule=rule, strict=strict, lengthscale=lengthscale)
                for implementation, numbers in (("ours", our_values), ("authors", authors_values)):
                    row[implementation] = {
                        field: summaries.statistics(values, ci=True)
                        for field, values in numbers.items()
                    }
                rows.append(row)
                print(row, flush=True)
    store.write_numbers(options.out, dict(rows=rows))
