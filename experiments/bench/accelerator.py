"""Benchmarks of an accelerator: many seeds at once, millions of arms, and a stream of millions of
examples, the last two in float32 and float64.

scripts/bench --accelerator                      on the default device of JAX
JAX_PLATFORMS=cpu scripts/bench --accelerator    smaller sizes on the CPU, for comparison
scripts/bench --accelerator --small              every part in tiny sizes, on any device

The GOALS are printed after the rows. Peak memory is the peak since the process began. The memory of
one part is measured by running this part alone, as with `--parts arms`.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.bench.timing import seconds, show
from experiments.results import environment, store
from jsketch import kernels, loops, online, problems, scale
from jsketch.bandits import BBKB
from jsketch.sketch.taylor import Taylor

CAPACITY = 160  # inducing points, enough for Abalone at lengthscale 5
DIMENSION = 8  # of the part "arms"
INPUTS, DEGREE = 18, 2  # of the part "stream", as many inputs as SUSY has
Row = dict[str, Any]


class Sizes(NamedTuple):
    """How much the parts compute."""

    seeds: tuple[int, ...]
    horizon: int  # of the seeds
    arms: tuple[int, ...]
    arms_horizon: int
    chunks: int  # of the stream
    chunk: int  # examples


ACCELERATOR = Sizes((10, 1_000), 10_000, (1_000_000, 10_000_000), 200, 10, 1_000_000)
CPU = Sizes((10, 100), 10_000, (1_000_000,), 200, 1, 1_000_000)
SMALL = Sizes((3,), 20, (400,), 10, 2, 300)

# {name of a row: (column, largest value)}, for one accelerator
GOALS = {
    "1,000 seeds, T = 10,000": ("run_seconds", 4.0),
    "A = 10,000,000, float32": ("milliseconds_a_round", 30.0),
    "A = 10,000,000, float64": ("milliseconds_a_round", 30.0),
}


def seeds(sizes: Sizes, problem: Any, bandit: Any, repeats: int) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) of BBKB with many seeds, by `run` with many keys."""
    horizon = sizes.horizon
    bandit = bandit.replace(delta=1 / horizon, max_batch=horizon)
    for n_seeds in sizes.seeds:
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
        yield f"{n_seeds:,} seeds, T = {horizon:,}", row


def arms(sizes: Sizes) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) of BBKB among generated arms, in float32 and in float64."""
    horizon = sizes.arms_horizon
    for n_arms in sizes.arms:
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
                delta=1 / horizon,
                capacity=CAPACITY,
                max_batch=horizon,
            )
            key = jax.random.key(0)
            first_run, second_run = (loops.run(bandit, arm_problem, key, horizon) for _ in range(2))
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


def stream(sizes: Sizes) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) of PKAWV on a stream of generated examples, in float32 and in float64. The
    examples are on the host before the clock starts, and are learned chunk by chunk."""
    n_examples = sizes.chunks * sizes.chunk
    rng = np.random.default_rng(0)
    xs = rng.uniform(-1, 1, (sizes.chunks, sizes.chunk, INPUTS))
    ys = np.sign(xs[..., :3].sum(-1) + 0.5 * rng.standard_normal(xs.shape[:-1]))
    forecaster = online.PKAWV(Taylor(INPUTS, DEGREE, lengthscale=4.0), regularization=1.0)
    for dtype in (np.float32, np.float64):
        chunks = list(zip(xs.astype(dtype), ys.astype(dtype), strict=True))

        def learn(chunks: list[Any] = chunks) -> loops.Forecasts:
            state, first = None, 0
            for chunk in chunks:
                forecasts, state = scale.prequential_in_segments(
                    forecaster, chunk, jax.random.key(0), state=state, first=first
                )
                first += len(chunk[1])
            return forecasts

        _, compile_seconds = seconds(partial(learn, chunks[:1]), repeats=1)
        began = time.perf_counter()
        forecasts = jax.block_until_ready(learn())
        run_seconds = time.perf_counter() - began
        row = dict(
            run_seconds=run_seconds,
            compile_seconds=compile_seconds,
            microseconds_an_example=1e6 * run_seconds / n_examples,
            squared_error=float(forecasts.loss.mean()),  # of the last chunk
            peak_gigabytes=peak_gigabytes(),
        )
        yield f"{n_examples:,} examples, {jnp.dtype(dtype).name}", row


def regret_ratio(trace: loops.Trace, problem: Any) -> float:
    """The final regret ratio, averaged over runs."""
    return float(loops.regret_ratio(trace.regret, problem.mean_reward)[..., -1].mean())


def peak_gigabytes() -> float:
    """Peak memory of the accelerator since the process began; on a CPU, peak resident memory."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats.get("peak_bytes_in_use", environment.peak_memory()) / 1e9


def goals(rows: dict[str, dict[str, Row]]) -> list[str]:
    """A line for each of GOALS, with what the rows of the parts have."""
    measured = {name: row for part in rows.values() for name, row in part.items()}
    lines = []
    for name, (column, goal) in GOALS.items():
        value = measured.get(name, {}).get(column)
        result = "not measured"
        if value is not None:
            result = f"{value:.4g}, {'reached' if value <= goal else 'not reached'}"
        lines.append(f"goal: {name}: {column} at most {goal:g}: {result}")
    return lines


def run(options: argparse.Namespace, problem: Any, bandit: Any) -> dict[str, dict[str, Row]]:
    """Runs the parts of options.parts, and writes options.out after every row; "seeds" uses the
    problem and the bandit. Returns {part: {name: row}}."""
    sizes = CPU if jax.default_backend() == "cpu" else ACCELERATOR
    sizes = SMALL if options.small else sizes
    parts = dict(
        seeds=partial(seeds, sizes, problem, bandit, options.repeats),
        arms=partial(arms, sizes),
        stream=partial(stream, sizes),
    )
    rows: dict[str, dict[str, Row]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about float32 at small regularizations
        for part in options.parts:
            rows[part] = {}
            for name, row in parts[part]():
                rows[part][name] = row
                show(f"{jax.default_backend()} {name}", row)
                store.write_numbers(options.out, rows)
    print(*goals(rows), sep="\n")
    return rows
