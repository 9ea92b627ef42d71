"""BBKB beside the authors' NumPy implementation on Abalone: the same problem, the same
hyperparameters, ten seeds each.

    python -m experiments.bbkb_2020.against_authors --reference DIR [--out FILE.json]

DIR is a checkout of luigicarratino/batch-bkb. For each lengthscale and rule: mean regret ratio R_T
/ R_T^unif of both with 95% intervals, Welch's t statistic of the difference, dictionary sizes,
batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.bbkb_2020 import authors_code
from experiments.data import datasets
from experiments.results import environment, files, store, summaries
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB

NOISE_STD = 0.01


def ours(
    problem: Any, rule: str, strict: bool, lengthscale: float, horizon: int, seeds: int
) -> dict[str, np.ndarray]:
    """Final regret ratios, dictionary sizes and numbers of batches of our runs, [S] each."""
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
    trace = loops.run_seeds(
        bandit, problem, jax.random.split(jax.random.key(0), seeds), horizon
    ).trace
    return dict(
        regret_ratio=np.asarray(loops.regret_ratio(trace.regret, problem.mean_reward)[:, -1]),
        dictionary_size=np.asarray(trace.dictionary_size[:, -1]),
        batches=np.asarray(trace.round[:, -1]) + 1,
    )


def authors(
    folder: Path, problem: Any, rule: str, lengthscale: float, horizon: int, seeds: int
) -> dict[str, np.ndarray]:
    """The same of the authors' code, which runs one seed at a time."""
    features, mean_reward = np.asarray(problem.arms.features), np.asarray(problem.mean_reward)
    options = dict(lengthscale=lengthscale, noise_std=NOISE_STD)
    runs = [
        authors_code.run(folder, f"bbkb_{rule}", features, mean_reward, horizon, number, **options)
        for number in range(seeds)
    ]
    uniform = horizon * (mean_reward.max() - mean_reward.mean())
    return dict(
        regret_ratio=np.array([run.regret.sum() / uniform for run in runs]),
        dictionary_size=np.array([run.dictionary_size for run in runs]),
        batches=np.array([run.batches for run in runs]),
    )


def compare(
    rule: str, strict: bool, lengthscale: float, a: dict[str, np.ndarray], b: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Our runs `a` beside the authors' `b`; prints a line."""
    ours_mean, theirs_mean = a["regret_ratio"].mean(), b["regret_ratio"].mean()
    ours_ci, theirs_ci = summaries.ci95(a["regret_ratio"]), summaries.ci95(b["regret_ratio"])
    row = dict(
        rule=rule,
        strict=strict,
        lengthscale=lengthscale,
        ours=summaries.describe(a["regret_ratio"], ci=True),
        authors=summaries.describe(b["regret_ratio"], ci=True),
        welch_t=float((ours_mean - theirs_mean) / (np.hypot(ours_ci, theirs_ci) / 1.96)),
        inside_authors_interval=bool(abs(ours_mean - theirs_mean) <= theirs_ci),
        dictionary_size=[float(a["dictionary_size"].mean()), float(b["dictionary_size"].mean())],
        batches=[float(a["batches"].mean()), float(b["batches"].mean())],
    )
    note = "" if strict else " (checked as theirs)"
    print(
        f"{rule + note:32s} lengthscale {lengthscale:5.1f}  ours {ours_mean:.4f} +- {ours_ci:.4f} "
        f" authors {theirs_mean:.4f} +- {theirs_ci:.4f}  t = {row['welch_t']:+.2f}  m"
        f" {row['dictionary_size']}  batches {row['batches']}",
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
    parser.add_argument("--horizon", type=cli.count, default=2_000)
    parser.add_argument("--seeds", type=cli.count, default=10)
    parser.add_argument("--data-dir")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax()
    dataset = datasets.load("abalone", options.data_dir)
    print(f"Abalone from {dataset.source}, T = {options.horizon}, {options.seeds} seeds")
    problem = problems.finite_arms(*datasets.preprocess(dataset), NOISE_STD)
    rows = []
    for rule in ("global", "global_local"):
        for lengthscale in options.lengthscales:
            b = authors(
                options.reference, problem, rule, lengthscale, options.horizon, options.seeds
            )
            for strict in (True, False) if rule == "global_local" else (True,):
                a = ours(problem, rule, strict, lengthscale, options.horizon, options.seeds)
                rows.append(compare(rule, strict, lengthscale, a, b))
    if options.out is not None:
        store.write_json(options.out, dict(rows=rows, environment=environment.describe()))


if __name__ == "__main__":
    main()
