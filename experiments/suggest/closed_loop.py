"""Twenty rounds of `jsketch.suggest` on a real library, compared with random batches.

    python -m experiments.suggest.closed_loop --out results/closed_loop

The library is Abalone: 4,177 animals with 8 measurements. An experiment counts the rings of one
animal (1 to 29, without noise). Simple regret is 29 less the largest count so far. The measurements
do not allow a simple regret below 2: after 1,000 random counts, the two animals of 27 rings have
the fifth and sixth largest predictions, and 155 animals have a larger prediction than the one of
29.
"""

from __future__ import annotations

import time

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from jsketch.suggest import suggest


def play(
    features: np.ndarray, values: np.ndarray, rounds: int, batch: int, seed: int
) -> np.ndarray:
    """Values [rounds, batch] of the suggested candidates, of features [A, d] and values [A]."""
    arms, key = np.zeros(0, int), jax.random.key(seed)
    for _ in range(rounds):
        arms = np.append(arms, suggest(features, arms, values[arms], batch=batch, key=key).rows)
    return values[arms].reshape(rounds, batch)


def simple_regret(values: np.ndarray, largest: float) -> np.ndarray:
    """[rounds], of values [rounds, batch]."""
    return largest - np.maximum.accumulate(values.max(1))


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=5, data_dir=None)
    parser.add_argument("--rounds", type=cli.count, default=20)
    parser.add_argument("--batch", type=cli.count, default=8)
    parser.add_argument("--random-seeds", type=cli.count, default=1000, help="of random batches")
    options = cli.parse(parser)
    abalone = datasets.load("abalone", options.data_dir)
    rounds, batch = options.rounds, options.batch
    if rounds * batch > len(abalone.target):
        parser.error(f"the library has {len(abalone.target)} candidates")
    config = dict(data=abalone.source, rounds=rounds, batch=batch, root_seed=0)
    seeds = dict(suggested=options.seeds, random=options.random_seeds)
    with outputs.results_folder(options, "closed_loop", dict(config, seeds_of=seeds)) as results:
        largest, began = float(abalone.target.max()), time.perf_counter()
        suggested = [
            simple_regret(play(abalone.features, abalone.target, rounds, batch, seed), largest)
            for seed in range(options.seeds)
        ]
        seconds = (time.perf_counter() - began) / options.seeds / rounds
        # random batches without repetition
        random = [
            simple_regret(
                np.random.default_rng(seed)
                .permutation(abalone.target)[: rounds * batch]
                .reshape(rounds, batch),
                largest,
            )
            for seed in range(options.random_seeds)
        ]
        regrets, t = dict(suggested=suggested, random=random), np.arange(1, rounds + 1) * batch
        runs = [
            tidy.Run(
                dict(problem="abalone", algorithm=name, **config),
                seed,
                dict(t=t, simple_regret=curve),
            )
            for name, curves in regrets.items()
            for seed, curve in enumerate(curves[:100])
        ]
        ends = {
            name: summaries.statistics([curve[-1] for curve in curves], ci=True)
            for name, curves in regrets.items()
        }
        ends["random"].pop("values")
        summary = dict(config=config, seconds_a_round=seconds, simple_regret=ends)
        results.write(summary, runs, "Abalone as a library")
        title = f"Abalone as a library, {rounds} batches of {batch}"
        lines = {name: (t, np.stack(curves)) for name, curves in regrets.items()}
        words = "simple regret (rings)", "evaluations"
        plots.streams(results.path / "simple_regret.png", lines, title, *words)
    for name, end in ends.items():
        print(f"{name:10s} simple regret {end['mean']:.2f} +- {end['ci95']:.2f} rings")
    print(f"{seconds:.1f} s a round")
