"""A laboratory with a robot: 20 rounds of `jsketch.suggest` on a real library, against random
batches.

    python -m experiments.suggest.closed_loop --out results/closed_loop

The library is Abalone: 4,177 animals with 8 measurements; an experiment counts the rings of one (no
noise, 1 to 29). Every round suggests the next batch from all that was counted, as `scripts/suggest`
does from tables. Simple regret is 29 less the best count so far; a random batch is drawn from what
is left.

A simple regret of 2 is all that the measurements show: from 1,000 random counts the two animals of
27 rings are predicted fifth and sixth of the rest, and the one of 29 at 13.8, with a noise of 2.0,
behind 155 others. It is found by chance.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.figures import plots
from experiments.results import environment, outputs, summaries, tidy
from jsketch.suggest import suggest


def played(
    features: np.ndarray, values: np.ndarray, rounds: int, batch: int, seed: int
) -> np.ndarray:
    """Values [rounds, batch] of the suggested candidates, of features [A, d] and their values
    [A]."""
    arms, key = np.zeros(0, int), jax.random.key(seed)
    for _ in range(rounds):
        arms = np.append(arms, suggest(features, arms, values[arms], batch=batch, key=key).rows)
    return values[arms].reshape(rounds, batch)


def drawn(values: np.ndarray, rounds: int, batch: int, seed: int) -> np.ndarray:
    """Values [rounds, batch] of random batches without repetition."""
    return np.random.default_rng(seed).permutation(values)[: rounds * batch].reshape(rounds, batch)


def simple_regret(found: np.ndarray, largest: float) -> np.ndarray:
    """[rounds], of values [rounds, batch]."""
    return largest - np.maximum.accumulate(found.max(1))


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--rounds", type=cli.count, default=20)
    parser.add_argument("--batch", type=cli.count, default=8)
    parser.add_argument("--seeds", type=cli.count, default=5)
    parser.add_argument(
        "--random-seeds",
        type=cli.count,
        default=1000,
        help="of the random batches, which cost nothing",
    )
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    abalone = datasets.load("abalone", options.data_dir)
    if options.rounds * options.batch > len(abalone.target):
        parser.error(f"the library has {len(abalone.target)} candidates")
    print(f"data: {datasets.citation(datasets.SOURCES['abalone'])}")
    config = dict(
        data=datasets.citation(datasets.SOURCES["abalone"]),
        rounds=options.rounds,
        batch=options.batch,
        root_seed=0,
    )
    seeds = dict(suggested=options.seeds, random=options.random_seeds)
    with outputs.opened(options, "closed_loop", dict(config, seeds_of=seeds)) as opened:
        regrets, seconds = play(options, abalone)
        report(opened, config, regrets, seconds)


def play(
    options: argparse.Namespace, abalone: datasets.Dataset
) -> tuple[dict[str, list[np.ndarray]], float]:
    """(simple regrets [rounds] of every seed by method, seconds of a suggested round)."""
    largest = float(abalone.target.max())
    size, begin = (options.rounds, options.batch), time.perf_counter()
    regrets: dict[str, list[np.ndarray]] = {"suggested": []}
    with cli.progress(options.seeds, unit="seed") as bar:
        for seed in range(options.seeds):
            rewards = played(abalone.features, abalone.target, *size, seed)
            regrets["suggested"].append(simple_regret(rewards, largest))
            bar.update()
    seconds = (time.perf_counter() - begin) / options.seeds / options.rounds
    regrets["random"] = [
        simple_regret(drawn(abalone.target, *size, seed), largest)
        for seed in range(options.random_seeds)
    ]
    return regrets, seconds


def report(
    opened: outputs.Folder,
    config: dict[str, Any],
    regrets: dict[str, list[np.ndarray]],
    seconds: float,
) -> None:
    """Says, draws and saves what was found."""
    ends = {name: np.array([curve[-1] for curve in curves]) for name, curves in regrets.items()}
    better = float(ends["random"].mean() / max(ends["suggested"].mean(), 1e-12))
    t = np.arange(1, config["rounds"] + 1) * config["batch"]
    runs = [
        tidy.Run(
            dict(problem="abalone", algorithm=name, **config), seed, dict(t=t, simple_regret=curve)
        )
        for name, curves in regrets.items()
        for seed, curve in enumerate(curves[:100])
    ]
    summary = dict(
        config=config,
        seconds_a_round=seconds,
        random_over_suggested=better,
        **environment.describe(),
    )
    summary["simple_regret"] = {
        name: summaries.describe(end, ci=True) for name, end in ends.items()
    }
    summary["simple_regret"]["random"].pop("values", None)
    opened.finish(summary, runs, "Abalone as a library")
    curves = {name: (t, np.stack(rows)) for name, rows in regrets.items()}
    title = f"Abalone as a library, {config['rounds']} batches of {config['batch']}"
    plots.streams(
        opened.path / "simple_regret.png", curves, title, "simple regret (rings)", "evaluations"
    )
    for name, end in ends.items():
        print(
            f"{name:10s} simple regret {end.mean():.2f} +- {summaries.ci95(end):.2f} rings"
            f" ({len(end)} seeds)"
        )
    print(
        f"random batches end {better:.1f} times as far below the maximum; {seconds:.1f} s a round"
    )


if __name__ == "__main__":
    main()
