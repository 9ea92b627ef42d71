"""What the parts share: their sizes, problems and bandits, and how they are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.bench import bandits as bench
from experiments.bench.accelerator.precision import Precision, refreshed
from experiments.results import environment
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB

# of one program for the whole run: m is at most 160 on Abalone at lengthscale 5
CAPACITY = 160
PRECISION_HORIZON = 150  # no more distinct arms than CAPACITY
ENOUGH = 20.0  # seconds of timed runs after which no other one is started
SHORT = 5.0  # seconds of a run that is timed a second time
ARM_INPUTS = 8


Row = dict[str, Any]
Report = Callable[[str, Row], None]


class Sizes(NamedTuple):
    """How much a part does."""

    data: str  # "abalone", or "made_up": 200 arms, for tests
    runs: tuple[tuple[int, int], ...]  # (seeds, horizon)
    sweep: tuple[int, int, int]  # lengthscales, seeds, horizon
    arms: tuple[int, ...]
    arms_horizon: int
    chunk: int  # examples of a stream in memory at a time
    examples: int
    repeats: int


SIZES = {
    "accelerator": Sizes(
        data="abalone",
        runs=((10, 1_000), (10, 10_000), (1_000, 1_000), (1_000, 10_000)),
        sweep=(12, 10, 1_000),
        arms=(1_000_000, 10_000_000),
        arms_horizon=200,
        chunk=1_000_000,
        examples=10_000_000,
        repeats=3,
    ),
    "cpu": Sizes(
        data="abalone",
        runs=((10, 1_000), (10, 10_000), (100, 10_000)),
        sweep=(12, 10, 1_000),
        arms=(1_000_000,),
        arms_horizon=200,
        chunk=1_000_000,
        examples=4_000_000,
        repeats=3,
    ),
    "tiny": Sizes(
        data="made_up",
        runs=((2, 20),),
        sweep=(2, 2, 20),
        arms=(500,),
        arms_horizon=20,
        chunk=100,
        examples=200,
        repeats=1,
    ),
}

# numbers of the bandit are arguments: another regularization compiles nothing
_REFRESHED = jax.jit(refreshed, static_argnames="which")
_ASK = jax.jit(lambda bandit, state: bandit.ask(state, jax.random.key(0)))


def problem(sizes: Sizes, data_dir: str | None) -> Any:
    task = bench.TASKS["abalone"]
    if sizes.data == "abalone":
        return bench.load_problem(task.dataset, task.noise_std, data_dir)
    return many_arms(200, jnp.float64)


def many_arms(count: int, dtype: Any) -> Any:
    """Made-up arms with a smooth reward, those of `bench_scale.million`."""
    random = np.random.default_rng(0)
    features = random.standard_normal((count, ARM_INPUTS))
    weights = random.standard_normal(ARM_INPUTS) / np.sqrt(ARM_INPUTS)
    return problems.finite_arms(features.astype(dtype), np.tanh(features @ weights), 0.1)


def bandit(horizon: int) -> Any:
    task = bench.TASKS["abalone"]._replace(horizon=horizon)
    return bench.make_bandit(task, capacity=CAPACITY, max_batch=horizon)


def large_bandit(horizon: int, regularization: float = 0.01) -> BBKB:
    return BBKB(
        kernel=kernels.Gaussian(10.0),
        regularization=regularization,
        noise_std=0.1,
        delta=1 / horizon,
        capacity=CAPACITY,
        max_batch=horizon,
    )


def refresh(state: Any, bandit: Any, which: Precision, repeats: int) -> tuple[Any, float]:
    """The refreshed state, and the median of seconds of a refresh."""
    new = jax.block_until_ready(_REFRESHED(state, bandit, which))
    return new, seconds(lambda: _REFRESHED(state, bandit, which), repeats)


def batch(bandit: Any, state: Any) -> np.ndarray:
    """The arms of the next batch."""
    query = _ASK(bandit, state)
    return np.asarray(query.index)[np.asarray(query.mask)]


def error(value: Array, truth: Array, scale: Array) -> float | None:
    """The largest difference over `scale`; None where it is not finite."""
    error = float(jnp.max(jnp.abs(value - truth)) / scale)
    return error if np.isfinite(error) else None


def ratio(trace: loops.Trace, problem: Any) -> float:
    return float(loops.regret_ratio(trace.regret, problem.mean_reward)[..., -1].mean())


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], float]:
    """The compiled function and the seconds that it took."""
    began = time.perf_counter()
    program = jax.jit(function).lower(*args).compile()
    return program, time.perf_counter() - began


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median of seconds of that many calls, or of those until ENOUGH."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < ENOUGH:
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def peak_gigabytes() -> float:
    """Of the accelerator since the process began; of a CPU, resident memory."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if jax.default_backend() == "cpu" or "peak_bytes_in_use" not in stats:
        return environment.peak_memory() / 2**30
    return stats["peak_bytes_in_use"] / 1e9


def line(name: str, row: Row) -> str:
    """The row's numbers of time, in words."""
    units = {
        "run_seconds": "run {:.2f} s",
        "compile_seconds": "compile {:.1f} s",
        "milliseconds_a_seed": "{:.1f} ms a seed",
        "milliseconds_a_run": "{:.1f} ms a run",
        "milliseconds_a_round": "{:.1f} ms a round",
        "milliseconds": "{:.2f} ms",
        "microseconds_an_example": "{:.3f} us an example",
        "variance_error": "variance off by {:.1e}",
        "score_error": "scores by {:.1e}",
        "same_picks": "{} picks the same",
        "dictionary_size": "m {:.0f}",
        "regret_ratio": "regret ratio {:.3f}",
        "peak_gigabytes": "{:.2f} GB",
    }
    told = [words.format(row[key]) for key, words in units.items() if row.get(key) is not None]
    busy = row.get("kernels")
    if busy:
        told.append(
            f"{busy['launches']} launches, {busy['busy_ms']:.0f} of {busy['span_ms']:.0f} ms busy"
        )
    return f"{jax.default_backend():4s} {name:45s} {'  '.join(told)}"
