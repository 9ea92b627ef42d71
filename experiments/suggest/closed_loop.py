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
from pathlib import Path

import jax
import numpy as np

from experiments import cli
from experiments.data import datasets
from experiments.figures import plots
from experiments.results import environment, outputs, summaries, tidy
from jsketch.suggest import suggest


def play(
    features: np.ndarray, values: np.ndarray, rounds: int, batch: int, seed: int
) -> np.ndarray:
    """Values [rounds, batch] of the suggested candidates, of features [A, d] and values [A]."""
    arms, key = np.zeros(0, int), jax.random.key(seed)
    for _ in range(rounds):
        arms = np.append(arms, suggest(features, arms, values[arms], batch=batch, key=key).rows)
    return values[arms].reshape(rounds, batch)


def random_values(values: np.ndarray, rounds: int, batch: int, seed: int) -> np.ndarray:
    """Values [rounds, batch] of random batches without repetition."""
    return np.random.default_rng(seed).permutation(values)[: rounds * batch].reshape(rounds, batch)


def simple_regret(values: np.ndarray, largest: float) -> np.ndarray:
    """[rounds], of values [rounds, batch]."""
    return largest - np.maximum.accumulate(values.max(1))


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--rounds", type=cli.count, default=20)
    parser.add_argument("--batch", type=cli.count, default=8)
    parser.add_argument("--seeds", type=cli.count, default=5)
    parser.add_argument("--random-seeds", type=cli.count, default=1000, help="of random batches")
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    abalone = datasets.load("abalone", options.data_dir)
    size = options.rounds, options.batch
    if options.rounds * options.batch > len(abalone.target):
        parser.error(f"the library has {len(abalone.target)} candidates")
    data = datasets.citation(datasets.SOURCES["abalone"])
    print(f"data: {data}")
    config = dict(data=data, rounds=options.rounds, batch=options.batch, root_seed=0)
    seeds = dict(suggested=options.seeds, random=options.random_seeds)
    with outputs.results_folder(options, "closed_loop", dict(config, seeds_of=seeds)) as results:
        largest, began = float(abalone.target.max()), time.perf_counter()
        regrets: dict[str, list[np.ndarray]] = {"suggested": []}
        with cli.progress(options.seeds, unit="seed") as bar:
            for seed in range(options.seeds):
                values = play(abalone.features, abalone.target, *size, seed)
                regrets["suggested"].append(simple_regret(values, largest))
                bar.update()
        seconds = (time.perf_counter() - began) / options.seeds / options.rounds
        regrets["random"] = [
            simple_regret(random_values(abalone.target, *size, seed), largest)
            for seed in range(options.random_seeds)
        ]
        report(results, config, regrets, seconds)


def report(
    results: outputs.Folder, config: dict, regrets: dict[str, list[np.ndarray]], seconds: float
) -> None:
    """Prints, plots and saves the simple regrets [rounds] of every seed by method."""
    ends = {name: np.array([curve[-1] for curve in curves]) for name, curves in regrets.items()}
    ratio = float(ends["random"].mean() / max(ends["suggested"].mean(), 1e-12))
    t = np.arange(1, config["rounds"] + 1) * config["batch"]
    runs = [
        tidy.Run(
            dict(problem="abalone", algorithm=name, **config), seed, dict(t=t, simple_regret=curve)
        )
        for name, curves in regrets.items()
        for seed, curve in enumerate(curves[:100])
    ]
    statistics = {name: summaries.statistics(end, ci=True) for name, end in ends.items()}
    statistics["random"].pop("values", None)
    summary = dict(
        config=config,
        seconds_a_round=seconds,
        random_over_suggested=ratio,
        **environment.provenance(),
        simple_regret=statistics,
    )
    results.write(summary, runs, "Abalone as a library")
    curves = {name: (t, np.stack(rows)) for name, rows in regrets.items()}
    title = f"Abalone as a library, {config['rounds']} batches of {config['batch']}"
    plots.streams(
        results.path / "simple_regret.png", curves, title, "simple regret (rings)", "evaluations"
    )
    for name, end in ends.items():
        print(
            f"{name:10s} simple regret {end.mean():.2f} +- {summaries.ci95(end):.2f} rings"
            f" ({len(end)} seeds)"
        )
    print(f"random / suggested: {ratio:.1f}; {seconds:.1f} s a round")


if __name__ == "__main__":
    main()
