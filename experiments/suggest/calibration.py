"""How often `suggest.stopping` stops too early, on functions drawn from the model's prior and on
functions that are not.

    python -m experiments.suggest.calibration --seeds 50

Each campaign has 200 candidates in two dimensions, a random first batch of 5 and batches of 5 until
the rule stops, or 80 values. It stopped too early where an unevaluated candidate is better than the
best evaluated one, which the rule names, by more than the tolerance.
"""

from __future__ import annotations

import jax
import numpy as np

from experiments import cli
from jsketch import kernels
from jsketch.suggest import library, stopping, suggest

CANDIDATES, BATCH, LONGEST, NOISE = 200, 5, 80, 0.1
FUNCTIONS = ("smooth", "rough", "step", "peak")


def function(name: str, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Values [A] of a random function at candidates x [A, 2]."""
    if name in ("smooth", "rough"):
        kernel = kernels.Matern(0.5) if name == "smooth" else kernels.Matern(0.5, nu=0.5)
        points = jax.numpy.asarray(x)
        gram = np.asarray(kernel.gram(points, points)) + 1e-9 * np.eye(len(x))
        return np.linalg.cholesky(gram) @ random.standard_normal(len(x))
    if name == "step":
        return np.sin(3 * x[:, 0]) + (x @ random.standard_normal(2) > 0.3)
    centre = random.uniform(size=2)
    return 3 * np.exp(-np.square(x - centre).sum(1) / 0.0098) + 0.3 * np.sin(3 * x[:, 0])


def campaign(name: str, seed: int) -> tuple[int, float, float]:
    """(evaluations at the stop, LONGEST where there is none; the true gain; the tolerance)."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=(CANDIDATES, 2))
    f, known = function(name, x, random), library(x)
    arms = random.permutation(CANDIDATES)[:BATCH]
    values = f[arms] + NOISE * random.standard_normal(BATCH)
    while len(arms) < LONGEST:
        key = jax.random.fold_in(jax.random.key(seed), len(arms))
        found = suggest(known, arms, values, batch=BATCH, key=key)
        gain = stopping.possible_gain(known, arms, values, found.model, key=key)
        at_most = stopping.tolerance(values)
        if gain is not None and stopping.should_stop(gain, at_most):
            return len(arms), float(np.delete(f, arms).max() - f[gain.best]), at_most
        arms = np.append(arms, found.rows)
        values = np.append(values, f[found.rows] + NOISE * random.standard_normal(BATCH))
    return LONGEST, 0.0, 0.0


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    cli.add_shared(parser, seeds=50)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS)
    options = parser.parse_args()
    cli.set_up_jax()
    for name in options.functions:
        ended = np.array([campaign(name, seed) for seed in range(options.seeds)])
        stopped = ended[:, 0] < LONGEST
        early = stopped & (ended[:, 1] > ended[:, 2])
        print(
            f"{name:8s} stopped in {stopped.sum()} of {len(ended)} campaigns, after"
            f" {np.median(ended[:, 0]):.0f} values (median), too early in {early.sum()}",
            flush=True,
        )


if __name__ == "__main__":
    main()
