"""Benchmarks of an accelerator: many seeds at once, and millions of arms in float32 and float64.

scripts/bench --accelerator                      on the default device of JAX
JAX_PLATFORMS=cpu scripts/bench --accelerator    the same on the CPU, for comparison

Peak memory is the peak since the process began. The memory of one part is measured by running this
part alone, as with `--parts arms`.
"""

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench.timing import seconds, show
from experiments.results import environment
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB

CAPACITY = 160  # inducing points, enough for Abalone at lengthscale 5
DIMENSION, HORIZON = 8, 200  # of the part "arms"
Row = dict[str, Any]


def seeds(problem: Any, bandit: Any, repeats: int) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) of BBKB with many seeds, vmapped on an accelerator, else one by one."""
    max_seeds = 100 if _on_cpu() else 1_000
    for n_seeds, horizon in product((10, max_seeds), (1_000, 10_000)):
        bandit = bandit.replace(delta=1 / horizon, max_batch=horizon)
        keys = jax.random.split(jax.random.key(0), n_seeds)
        first_run = loops.run(bandit, problem, keys, horizon)
        median, _ = seconds(partial(loops.run, bandit, problem, keys, horizon), repeats)
        row = dict(
            run_seconds=median,
            compile_seconds=first_run.compile_seconds,
            milliseconds_a_seed=1e3 * median / n_seeds,
            regret_ratio=regret_ratio(first_run.trace, problem),
            peak_gigabytes=peak_gigabytes(),
        )
        yield f"{n_seeds} seeds, T = {horizon:,}", row


def arms() -> Iterator[tuple[str, Row]]:
    """Yields (name, row) of BBKB among generated arms, in float32 and in float64."""
    for n_arms in (1_000_000,) if _on_cpu() else (1_000_000, 10_000_000):
        rng = np.random.default_rng(0)
        features = rng.standard_normal((n_arms, DIMENSION))
        weights = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
        mean = np.tanh(features @ weights)
        for dtype in (jnp.float32, jnp.float64):
            arm_problem = problems.finite_arms(features.astype(dtype), mean, 0.1)
            bandit = BBKB(
                kernel=kernels.Gaussian(10.0),
                regularization=0.01,
                noise_std=0.1,
                delta=1 / HORIZON,
                capacity=CAPACITY,
                max_batch=HORIZON,
            )
            key = jax.random.key(0)
            first_run, second_run = (loops.run(bandit, arm_problem, key, HORIZON) for _ in range(2))
            rounds = int(second_run.trace.round[-1]) + 1
            row = dict(
                run_seconds=second_run.run_seconds,
                compile_seconds=first_run.compile_seconds,
                milliseconds_a_round=1e3 * second_run.run_seconds / rounds,
                dictionary_size=int(second_run.trace.dictionary_size[-1]),
                regret_ratio=regret_ratio(second_run.trace, arm_problem),
                peak_gigabytes=peak_gigabytes(),
            )
            yield f"A = {n_arms:,}, {jnp.dtype(dtype).name}", row


def regret_ratio(trace: loops.Trace, problem: Any) -> float:
    """The final regret ratio, averaged over runs."""
    return float(loops.regret_ratio(trace.regret, problem.mean_reward)[..., -1].mean())


def peak_gigabytes() -> float:
    """Peak memory of the accelerator since the process began; on a CPU, peak resident memory."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats.get("peak_bytes_in_use", environment.peak_memory()) / 1e9


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def run(options: argparse.Namespace, problem: Any, bandit: Any) -> dict[str, dict[str, Row]]:
    """Runs the parts of options.parts; "seeds" uses the problem and the bandit. Returns
    {part: {name: row}}."""
    rows: dict[str, dict[str, Row]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about float32 at small regularizations
        for part in options.parts:
            rows[part] = {}
            for name, row in arms() if part == "arms" else seeds(problem, bandit, options.repeats):
                rows[part][name] = row
                show(f"{jax.default_backend()} {name}", row)
    return rows
