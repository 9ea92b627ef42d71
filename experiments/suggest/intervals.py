"""The coverage of 90% intervals of values, on random functions and on recorded libraries.

    python -m experiments.suggest.intervals --problems smooth nanoparticles --seeds 50

8, 16 or 32 random candidates have a value, and all others are predicted with intervals as in
`jsketch-suggest`. The functions and libraries are those of `experiments.suggest.calibration`.
The table has the coverage for all candidates without a value, and for a suggested batch.
"""

import jax
import numpy as np

from experiments import cli
from experiments.results import store
from experiments.suggest import calibration
from jsketch.suggest import leave_one_out, predict, suggest
from jsketch.suggest.prediction import interval_half_width

VALUE_COUNTS = (8, 16, 32)
BATCH = 8


def coverage(problem: calibration.Problem, n_values: int, seed: int) -> tuple[float, float]:
    """The shares of values that are inside their intervals after `n_values` random evaluations:
    (among all candidates without a value, among a suggested batch)."""
    arms = np.random.default_rng(seed).permutation(len(problem.values))[:n_values]
    evaluations = problem.library, arms, problem.values[arms]
    suggestion = suggest(*evaluations, batch=BATCH, key=jax.random.key(seed))
    predicted = predict(*evaluations, suggestion.model)
    factor = interval_half_width(leave_one_out(*evaluations, suggestion.model))
    is_inside = np.abs(problem.values - predicted.mean) <= factor * predicted.value_std
    return float(np.delete(is_inside, arms).mean()), float(is_inside[suggestion.rows].mean())


@cli.command
def main() -> None:
    options, seeds = calibration.parse(__doc__)
    shares: dict[str, dict[int, list[float]]] = {}
    print(f"| problem | {' | '.join(f'{n} values | their batch' for n in VALUE_COUNTS)} |")
    print("|---" * (1 + 2 * len(VALUE_COUNTS)) + "|")
    for name in options.problems:
        problem_of = calibration.problem_maker(name, options.data_dir)
        shares[name] = {
            n: np.mean([coverage(problem_of(s), n, s) for s in seeds], 0).tolist()
            for n in VALUE_COUNTS
        }
        cells = [f"{share:.2f}" for pair in shares[name].values() for share in pair]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    content = dict(first_seed=options.first_seed, seeds=options.seeds, shares=shares)
    store.write_numbers(options.out, content)
