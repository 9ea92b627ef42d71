"""The time of `jsketch.suggest` with compilation: twenty rounds of eight on direct arylation, and a
batch of 96 for 100,000 synthetic candidates after 5,000 evaluations, twice.

    python -m experiments.pools.speed

No compilation cache is used.
"""

from __future__ import annotations

import time
from pathlib import Path

import jax
import numpy as np

from experiments import cli
from experiments.pools import libraries
from experiments.pools.libraries import Pool
from jsketch.suggest import suggest

ROUNDS, BATCH = 20, 8
CANDIDATES, EVALUATIONS, INPUTS, LARGE_BATCH = 100_000, 5_000, 8, 96


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of the data files")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    loop(libraries.arylation_one_hot(options.data_dir))
    large()


def loop(pool: Pool) -> None:
    """Prints the time of twenty rounds."""
    arms = np.random.default_rng(0).permutation(len(pool.values))[:BATCH]
    began, cpu = time.perf_counter(), time.process_time()
    rounds = []
    for i in range(ROUNDS):
        start = time.perf_counter()
        found = suggest(pool.library, arms, pool.values[arms], batch=BATCH, key=jax.random.key(i))
        arms = np.append(arms, found.rows)
        rounds.append(time.perf_counter() - start)
    print(
        f"{ROUNDS} rounds of {BATCH} on {len(pool.values)}: {time.perf_counter() - began:.1f} s,"
        f" {time.process_time() - cpu:.1f} CPU s; a round {np.median(rounds):.2f} s, the longest"
        f" two, which compile, {np.sort(rounds)[-1]:.1f} and {np.sort(rounds)[-2]:.1f} s"
    )


def large() -> None:
    """Prints the time of two batches for a large library."""
    random = np.random.default_rng(0)
    x = random.uniform(size=(CANDIDATES, INPUTS))
    f = np.sin(3 * x[:, 0]) + x[:, 1] ** 2 - np.abs(x[:, 2] - 0.4) + 0.5 * np.cos(5 * x[:, 3])
    arms = random.permutation(CANDIDATES)[:EVALUATIONS]
    values = f[arms] + 0.1 * random.normal(size=EVALUATIONS)
    for name, seed in (("cold", 0), ("warm", 1)):
        began, cpu = time.perf_counter(), time.process_time()
        suggest(x, arms, values, batch=LARGE_BATCH, key=jax.random.key(seed))
        print(
            f"{LARGE_BATCH} of {CANDIDATES:,} after {EVALUATIONS:,}, {name}:"
            f" {time.perf_counter() - began:.1f} s, {time.process_time() - cpu:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
