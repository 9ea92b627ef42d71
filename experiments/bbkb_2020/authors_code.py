"""Compares BBKB with the authors' NumPy implementation on Abalone: the same problem, the same
hyperparameters, ten seeds each.

    python -m experiments.bbkb_2020.authors_code --reference DIR [--out FILE.json]

DIR is a checkout of luigicarratino/batch-bkb, the folder that holds its bkb_lib.py; this project
contains nothing of it. For each lengthscale and rule: mean regret ratios R_T / R_T^unif with 95%
intervals, Welch's t statistic of the difference, dictionary sizes and numbers of batches.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.results import environment, files, store, summaries
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB

CLASSES = {"bkb": "BKB", "bbkb_global": "Batch_BKB", "bbkb_global_local": "Local_Batch_BKB"}
NOISE_STD = 0.01
FIELDS = ("regret_ratio", "dictionary_size", "batches")


class ReferenceRun(NamedTuple):
    """One run of the authors' code."""

    regret: np.ndarray  # [T], instantaneous
    dictionary_size: int
    batches: int
    seconds: float


def load(folder: Path) -> tuple[Any, Any]:
    """The authors' modules (bkb_lib, utils) from a checkout. Raises FileNotFoundError when it holds
    no bkb_lib.py."""
    if not (folder / "bkb_lib.py").exists():
        raise FileNotFoundError(
            f"{folder} holds no bkb_lib.py: --reference takes a checkout of"
            " luigicarratino/batch-bkb, the authors' code."
        )
    sys.path.insert(0, str(folder.resolve()))
    return importlib.import_module("bkb_lib"), importlib.import_module("utils")


def run(
    folder: Path,
    algorithm: str,
    features: np.ndarray,
    mean_reward: np.ndarray,
    horizon: int,
    seed: int,
    *,
    lengthscale: float,
    noise_std: float,
    regularization: float | None = None,
    qbar: float = 2.0,
    ratio: float = 2.0,
) -> ReferenceRun:
    """One run of the authors' code on arms [A, d] with mean rewards [A]. It starts from two uniform
    arms, because that code cannot start from one.

    lambda = noise_std^2 unless given, F = 1, delta = 1/T. The kernel is the fast one of their
    utilities.
    """
    try:
        # the authors' code imports its kernels from it
        from sklearn.gaussian_process.kernels import RBF, PairwiseKernel
    except ImportError as error:
        raise SystemExit(
            "error: the authors' code needs scikit-learn: pip install scikit-learn"
        ) from error

    library, utilities = load(folder)
    random = np.random.RandomState(seed)
    pairwise = PairwiseKernel(
        gamma=1 / (2 * lengthscale**2), metric="rbf", pairwise_kernels_kwargs={"n_jobs": 1}
    )
    options = dict(
        lam=noise_std**2 if regularization is None else regularization,
        dot=utilities.FastMixinKernel(RBF(lengthscale), pairwise),
        noise_variance=noise_std**2,
        fnorm=1.0,
        delta=1 / horizon,
        qbar=qbar,
        verbose=0,
    )
    if algorithm != "bkb":
        options["ratio_threshold"] = ratio
    bandit = getattr(library, CLASSES[algorithm])(**options)

    def reward(arms: np.ndarray) -> np.ndarray:
        return mean_reward[arms] + noise_std * random.randn(len(arms))

    began = time.perf_counter()
    first = random.choice(len(features), 2, replace=False)
    bandit.initialize(features, first, reward(first))
    batches, done = [first], len(first)
    while done < horizon:
        batch = np.asarray(bandit.predict()[0])[: horizon - done]
        bandit.update(batch, reward(batch), random)
        batches.append(batch)
        done += len(batch)
    seconds = time.perf_counter() - began
    regret = mean_reward.max() - mean_reward[np.concatenate(batches)]
    return ReferenceRun(regret, int(bandit.dict_size_unique), len(batches), seconds)


def run_ours(
    problem: Any, rule: str, strict: bool, lengthscale: float, horizon: int, seeds: int
) -> dict[str, np.ndarray]:
    """FIELDS of our runs at T, [S] each."""
    bandit = BBKB(
        kernel=kernels.Gaussian(lengthscale),
        regularization=NOISE_STD**2,
        noise_std=NOISE_STD,
        norm_bound=1.0,
        delta=1 / horizon,
        qbar=2.0,
        ratio=2.0,
        rule=rule,
        strict=strict,
    )
    keys = jax.random.split(jax.random.key(0), seeds)
    trace = loops.run_seeds(bandit, problem, keys, horizon).trace
    ratio = loops.regret_ratio(trace.regret, problem.mean_reward)[:, -1]
    final = (ratio, trace.dictionary_size[:, -1], trace.round[:, -1] + 1)
    return dict(zip(FIELDS, map(np.asarray, final), strict=True))


def run_theirs(
    folder: Path, problem: Any, rule: str, lengthscale: float, horizon: int, seeds: int
) -> dict[str, np.ndarray]:
    """The same for the authors' code, which runs one seed at a time."""
    arms = np.asarray(problem.arms.features), np.asarray(problem.mean_reward)
    options = dict(lengthscale=lengthscale, noise_std=NOISE_STD)
    runs = [
        run(folder, f"bbkb_{rule}", *arms, horizon, number, **options) for number in range(seeds)
    ]
    uniform = horizon * (arms[1].max() - arms[1].mean())
    final = [(r.regret.sum() / uniform, r.dictionary_size, r.batches) for r in runs]
    return dict(zip(FIELDS, np.array(final).T, strict=True))


def compare(
    rule: str,
    strict: bool,
    lengthscale: float,
    ours: dict[str, np.ndarray],
    theirs: dict[str, np.ndarray],
) -> dict[str, Any]:
    """A row of the comparison, which is printed too."""
    means, intervals = zip(
        *((a["regret_ratio"].mean(), summaries.ci95(a["regret_ratio"])) for a in (ours, theirs)),
        strict=True,
    )
    row = dict(
        rule=rule,
        strict=strict,
        lengthscale=lengthscale,
        ours=summaries.describe(ours["regret_ratio"], ci=True),
        authors=summaries.describe(theirs["regret_ratio"], ci=True),
        welch_t=float((means[0] - means[1]) / (np.hypot(*intervals) / 1.96)),
        inside_authors_interval=bool(abs(means[0] - means[1]) <= intervals[1]),
        dictionary_size=[float(a["dictionary_size"].mean()) for a in (ours, theirs)],
        batches=[float(a["batches"].mean()) for a in (ours, theirs)],
    )
    note = "" if strict else " (checked as theirs)"
    print(
        f"{rule + note:32s} lengthscale {lengthscale:5.1f}  ours {means[0]:.4f} +-"
        f" {intervals[0]:.4f}  authors {means[1]:.4f} +- {intervals[1]:.4f}  t ="
        f" {row['welch_t']:+.2f}  m {row['dictionary_size']}  batches {row['batches']}",
        flush=True,
    )
    return row


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--reference", type=Path, required=True, help="checkout of the authors' code"
    )
    parser.add_argument("--lengthscales", type=float, nargs="+", default=[5.0, 10.0, 17.5])
    cli.add_shared(parser, horizon=2_000, seeds=10, data_dir=None)
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax()
    dataset = datasets.load("abalone", options.data_dir)
    print(f"Abalone from {dataset.source}, T = {options.horizon}, {options.seeds} seeds")
    problem = problems.finite_arms(*datasets.preprocess(dataset), NOISE_STD)
    size = options.horizon, options.seeds
    rows = []
    for rule in ("global", "global_local"):
        for lengthscale in options.lengthscales:
            theirs = run_theirs(options.reference, problem, rule, lengthscale, *size)
            for strict in (True, False) if rule == "global_local" else (True,):
                ours = run_ours(problem, rule, strict, lengthscale, *size)
                rows.append(compare(rule, strict, lengthscale, ours, theirs))
    if options.out is not None:
        store.write_json(options.out, dict(rows=rows, environment=environment.describe()))


if __name__ == "__main__":
    main()
