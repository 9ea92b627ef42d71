"""Twenty rounds of `jsketch.suggest` on a real library, compared with random batches.

    python -m experiments.suggest.closed_loop --out results/closed_loop

The library is Abalone: 4,177 animals with 8 measurements. An experiment counts the rings of one
animal (1 to 29, without noise). Simple regret is 29 minus the largest count so far.
"""

import time

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from jsketch.suggest import suggest

ROUNDS, BATCH, RANDOM_SEEDS = 20, 8, 1_000


def play(
    features: np.ndarray, values: np.ndarray, rounds: int, batch: int, seed: int
) -> np.ndarray:
    """The values [rounds * batch] of the suggested candidates, in order, for a library of features
    [A, d] and values [A]."""
    arms, key = np.zeros(0, int), jax.random.key(seed)
    for _ in range(rounds):
        arms = np.append(arms, suggest(features, arms, values[arms], batch=batch, key=key).rows)
    return values[arms]


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=5, data_dir=None)
    options = cli.parse(parser)
    abalone, rounds, batch = datasets.load("abalone", options.data_dir), ROUNDS, BATCH
    config = dict(data=abalone.source, rounds=rounds, batch=batch, root_seed=0)
    seeds = dict(suggested=options.seeds, random=RANDOM_SEEDS)
    with outputs.results_folder(options, "closed_loop", dict(config, seeds_of=seeds)) as results:
        largest_value, start = float(abalone.target.max()), time.perf_counter()
        suggested = [
            play(abalone.features, abalone.target, rounds, batch, seed)
            for seed in range(options.seeds)
        ]
        seconds = (time.perf_counter() - start) / options.seeds / rounds
        # random batches without repetition
        random_values = [
            np.random.default_rng(seed).permutation(abalone.target)[: rounds * batch]
            for seed in range(RANDOM_SEEDS)
        ]
        t, regrets, runs = np.arange(1, rounds + 1) * batch, {}, []
        for name, values in dict(suggested=suggested, random=random_values).items():
            best = np.reshape(values, (len(values), rounds, batch)).max(2)
            regrets[name] = largest_value - np.maximum.accumulate(best, axis=1)
            # the tables have 100 of the random runs
            curves = [dict(t=t, simple_regret=curve) for curve in regrets[name][:100]]
            runs += tidy.runs_of(dict(problem="abalone", algorithm=name, **config), curves)
        ends = {n: summaries.statistics(curves[:, -1], ci=True) for n, curves in regrets.items()}
        ends["random"].pop("values")
        summary = dict(config=config, seconds_a_round=seconds, simple_regret=ends)
        results.write(summary, runs, "Abalone as a library")
        title = f"Abalone as a library, {rounds} batches of {batch}"
        lines = {name: (t, curves) for name, curves in regrets.items()}
        axis_labels = "simple regret (rings)", "evaluations"
        plots.streams(results.path / "simple_regret.png", lines, title, *axis_labels)
    for name, end in ends.items():
        print(f"{name:10s} simple regret {end['mean']:.2f} +- {end['ci95']:.2f} rings")
    print(f"{seconds:.1f} s a round")
