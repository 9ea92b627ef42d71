"""The parts of `scripts/bench --accelerator`, each in a process of its own: python -m experiments.accelerator_parts PART.

A part prints a line for every row and writes the file with all its rows again, so that one that is killed keeps what it has.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments import bench, command, results
from experiments.accelerator_precision import Precision, refreshed
from experiments.kernel_profile import profiled
from experiments.stream_memory import DEGREE, INPUTS, made_up
from jsketch import kernels, loops, online, problems
from jsketch.bandits import BBKB
from jsketch.loops import rollout
from jsketch.sketch.taylor import Taylor

# of one program for the whole run: m is at most 160 on Abalone at lengthscale 5
CAPACITY = 160
PRECISION_HORIZON = 150  # no more distinct arms than CAPACITY
ENOUGH = 20.0  # seconds of timed runs after which no other one is begun
SHORT = 5.0  # seconds of a run that is timed a second time
ARM_INPUTS = 8


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

Row = dict[str, Any]
Report = Callable[[str, Row], None]


def seeds(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """S runs of BBKB by `run_seeds`: in one vmapped program on an accelerator, one by one on the cores of a CPU."""
    problem = _problem(sizes, data_dir)
    for count, horizon in sizes.runs:
        bandit = _bandit(horizon)
        keys = jax.random.split(jax.random.key(0), count)

        def run(keys: Array = keys, bandit: Any = bandit, horizon: int = horizon) -> loops.Run:
            return loops.run_seeds(bandit, problem, keys, horizon)

        first = run()
        seconds = _seconds(run, sizes.repeats)
        rounds = np.asarray(first.trace.round[:, -1]) + 1
        row = dict(
            seeds=count,
            horizon=horizon,
            run_seconds=seconds,
            compile_seconds=first.compile_seconds,
            milliseconds_a_seed=1e3 * seconds / count,
            evaluations_a_second=count * horizon / seconds,
            rounds=float(rounds.mean()),
            most_rounds=int(rounds.max()),
            dictionary_size=float(first.trace.dictionary_size[:, -1].mean()),
            capacity=first.capacity,
            regret_ratio=_ratio(first.trace, problem),
            peak_gigabytes=_peak_gigabytes(),
        )
        report(f"{count} seeds, T = {horizon:,}", row)


def profile(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """Where the time of a shorter vmapped run goes."""
    problem = _problem(sizes, data_dir)
    for count in (1, min(100, sizes.runs[-1][0])):
        horizon = min(200, sizes.runs[-1][1])
        bandit, keys = _bandit(horizon), jax.random.split(jax.random.key(0), count)

        def run(keys: Array = keys, bandit: Any = bandit, horizon: int = horizon) -> loops.Trace:
            return loops.run_seeds(bandit, problem, keys, horizon, strategy="vmap").trace

        run()
        began = time.perf_counter()
        trace = run()
        seconds = time.perf_counter() - began
        rounds = int(np.asarray(trace.round[:, -1]).max()) + 1
        row = dict(
            seeds=count, horizon=horizon, run_seconds=seconds, most_rounds=rounds, kernels=profiled(run)
        )
        report(f"profile of {count} seeds, T = {horizon:,}", row)


def sweep(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """Lengthscales x seeds in one vmapped call of `rollout`; on a CPU also run by run on all cores."""
    problem = _problem(sizes, data_dir)
    scales, count, horizon = sizes.sweep
    lengthscales = jnp.asarray(np.geomspace(5, 17.5, scales))
    keys = jax.random.split(jax.random.key(0), count)
    bandit = _bandit(horizon)

    def one(lengthscale: Array, key: Array) -> loops.Progress:
        return rollout(bandit.replace(kernel=kernels.Gaussian(lengthscale)), problem, key, horizon)

    def row_of(program: Callable[[], Any], compile_seconds: float) -> Row:
        seconds = _seconds(program, sizes.repeats)
        return dict(
            lengthscales=scales,
            seeds=count,
            horizon=horizon,
            run_seconds=seconds,
            compile_seconds=compile_seconds,
            milliseconds_a_run=1e3 * seconds / (scales * count),
        )

    if jax.default_backend() == "cpu":
        single, made = _compiled(one, lengthscales[0], keys[0])
        pairs = [(scale, key) for scale in lengthscales for key in keys]

        def on_threads() -> None:
            with ThreadPoolExecutor(results.usable_cores()) as pool:
                list(pool.map(lambda pair: jax.block_until_ready(single(*pair)), pairs))

        report(f"{scales} lengthscales x {count} seeds on threads, T = {horizon:,}", row_of(on_threads, made))
    grid, made = _compiled(jax.vmap(jax.vmap(one, (None, 0)), (0, None)), lengthscales, keys)
    ends = grid(lengthscales, keys)
    row = row_of(lambda: grid(lengthscales, keys), made)
    row["stopped"] = int(ends.stopped.sum())
    row["regret_ratio"] = _ratio(ends.trace, problem)
    report(f"{scales} lengthscales x {count} seeds by vmap, T = {horizon:,}", row)


def arms(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """Generated arms, d = 8, in float64 and float32: seconds a round and memory."""
    for count in sizes.arms:
        for dtype in (jnp.float32, jnp.float64):
            problem = _many_arms(count, dtype)
            bandit = _large_bandit(sizes.arms_horizon)

            def run(bandit: Any = bandit, problem: Any = problem) -> loops.Run:
                return loops.run(bandit, problem, jax.random.key(0), sizes.arms_horizon)

            first = run()
            # a long one has paid for its first steps
            again = run() if first.run_seconds < SHORT else first
            rounds = int(again.trace.round[-1]) + 1
            row = dict(
                arms=count,
                inputs=ARM_INPUTS,
                dtype=jnp.dtype(dtype).name,
                horizon=sizes.arms_horizon,
                run_seconds=again.run_seconds,
                compile_seconds=first.compile_seconds,
                rounds=rounds,
                milliseconds_a_round=1e3 * again.run_seconds / rounds,
                dictionary_size=int(again.trace.dictionary_size[-1]),
                regret_ratio=_ratio(again.trace, problem),
                peak_gigabytes=_peak_gigabytes(),
            )
            report(f"A = {count:,}, {row['dtype']}", row)


def precision(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """One refresh in mixed precision after a run in float64: which part must be float64.

    Errors are in units of the largest variance and of the range of the scores; `same_picks` counts the picks of the next
    batch that agree with float64's, from the first on.
    """
    for regularization in (1e-2, 1e-4):
        problem = _many_arms(min(sizes.arms), jnp.float64)
        horizon = min(PRECISION_HORIZON, sizes.arms_horizon)
        bandit = _large_bandit(horizon, regularization)
        state = loops.run(bandit, problem, jax.random.key(0), horizon).state
        truth, _ = _refresh(state, bandit, Precision(jnp.float64, jnp.float64), 1)
        batch = _batch(bandit, truth)
        for factors in (jnp.float64, jnp.float32):
            for swept in (jnp.float64, jnp.float32):
                which = Precision(factors, swept)
                new, seconds = _refresh(state, bandit, which, sizes.repeats)
                scores, wanted = bandit.scores(new), bandit.scores(truth)
                picks = _batch(bandit, new)
                shared = min(len(picks), len(batch))
                differ = np.flatnonzero(picks[:shared] != batch[:shared])
                row = dict(
                    arms=min(sizes.arms),
                    regularization=regularization,
                    factors=jnp.dtype(factors).name,
                    sweep=jnp.dtype(swept).name,
                    dictionary_size=int(state.dictionary.size),
                    milliseconds=1e3 * seconds,
                    variance_error=_error(new.variance, truth.variance, jnp.max(truth.variance)),
                    mean_error=_error(new.mean, truth.mean, jnp.ptp(truth.mean)),
                    score_error=_error(scores, wanted, jnp.ptp(wanted)),
                    batch=len(batch),
                    same_picks=int(differ[0]) if differ.size else shared,
                )
                name = f"lam = {regularization:g}, factors {row['factors']}, sweep {row['sweep']}"
                report(name, row)


def stream(sizes: Sizes, data_dir: str | None, report: Report) -> None:
    """PKAWV with Taylor features on made-up examples, in chunks; what the host does with them is counted."""
    for dtype in (jnp.float64, jnp.float32):
        forecaster = online.PKAWV(Taylor(INPUTS, DEGREE, lengthscale=4.0), regularization=1.0)
        chunks = [(x.astype(dtype), y.astype(dtype)) for x, y in made_up(sizes.examples, sizes.chunk)]
        times, losses = [], []
        for given in (chunks[:1], chunks):  # the first pass compiles
            began = time.perf_counter()
            for forecasts, _ in loops.prequential_chunks(forecaster, given, jax.random.key(0)):
                losses.append(float(forecasts.average_loss[-1]))
            times.append(time.perf_counter() - began)
        row = dict(
            examples=sizes.examples,
            chunk=sizes.chunk,
            inputs=INPUTS,
            features=Taylor(INPUTS, DEGREE).size,
            dtype=jnp.dtype(dtype).name,
            run_seconds=times[1],
            first_chunk_seconds=times[0],
            examples_a_second=sizes.examples / times[1],
            microseconds_an_example=1e6 * times[1] / sizes.examples,
            last_loss=losses[-1],
            peak_gigabytes=_peak_gigabytes(),
        )
        report(f"{sizes.examples:,} examples, {row['dtype']}", row)


PARTS = {
    "profile": profile,
    "seeds": seeds,
    "sweep": sweep,
    "arms": arms,
    "precision": precision,
    "stream": stream,
}


def _problem(sizes: Sizes, data_dir: str | None) -> Any:
    task = bench.TASKS["abalone"]
    if sizes.data == "abalone":
        return bench.load_problem(task.dataset, task.noise_std, data_dir)
    return _many_arms(200, jnp.float64)


def _many_arms(count: int, dtype: Any) -> Any:
    """Made-up arms with a smooth reward, those of `bench_scale.million`."""
    random = np.random.default_rng(0)
    features = random.standard_normal((count, ARM_INPUTS))
    weights = random.standard_normal(ARM_INPUTS) / np.sqrt(ARM_INPUTS)
    return problems.finite_arms(features.astype(dtype), np.tanh(features @ weights), 0.1)


def _bandit(horizon: int) -> Any:
    task = bench.TASKS["abalone"]._replace(horizon=horizon)
    return bench.make_bandit(task, capacity=CAPACITY, max_batch=horizon)


def _large_bandit(horizon: int, regularization: float = 0.01) -> BBKB:
    return BBKB(
        kernel=kernels.Gaussian(10.0),
        regularization=regularization,
        noise_std=0.1,
        delta=1 / horizon,
        capacity=CAPACITY,
        max_batch=horizon,
    )


def _refresh(state: Any, bandit: Any, which: Precision, repeats: int) -> tuple[Any, float]:
    """The refreshed state, and the median of seconds of a refresh."""
    new = jax.block_until_ready(_REFRESHED(state, bandit, which))
    return new, _seconds(lambda: _REFRESHED(state, bandit, which), repeats)


def _batch(bandit: Any, state: Any) -> np.ndarray:
    """The arms of the next batch."""
    query = _ASK(bandit, state)
    return np.asarray(query.index)[np.asarray(query.mask)]


def _error(value: Array, truth: Array, scale: Array) -> float | None:
    """The largest difference over `scale`; None where it is not finite."""
    error = float(jnp.max(jnp.abs(value - truth)) / scale)
    return error if np.isfinite(error) else None


def _ratio(trace: loops.Trace, problem: Any) -> float:
    return float(loops.regret_ratio(trace.regret, problem.mean_reward)[..., -1].mean())


def _compiled(function: Callable[..., Any], *args: Any) -> tuple[Callable[..., Any], float]:
    """The compiled function and the seconds that it took."""
    began = time.perf_counter()
    program = jax.jit(function).lower(*args).compile()
    return program, time.perf_counter() - began


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median of seconds of that many calls, or of those until ENOUGH."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < ENOUGH:
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _peak_gigabytes() -> float:
    """Of the accelerator since the process began; of a CPU, resident memory."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if jax.default_backend() == "cpu" or "peak_bytes_in_use" not in stats:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return stats["peak_bytes_in_use"] / 1e9


def _line(name: str, row: Row) -> str:
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
        told.append(f"{busy['launches']} launches, {busy['busy_ms']:.0f} of {busy['span_ms']:.0f} ms busy")
    return f"{jax.default_backend():4s} {name:45s} {'  '.join(told)}"


@command.line
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", choices=SIZES, required=True)
    parser.add_argument("--out", type=Path, required=True, help="rows of the part, written after each")
    parser.add_argument("--data-dir", help="folder of the data sets")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    content: dict[str, Any] = {"environment": results.environment(), "rows": {}}

    def report(name: str, row: Row) -> None:
        print(_line(name, row), flush=True)
        content["rows"][name] = row
        results.write_json(options.out, content)

    with warnings.catch_warnings():
        # float32 at small regularizations is what is measured
        warnings.simplefilter("ignore")
        PARTS[options.part](SIZES[options.sizes], options.data_dir, report)


if __name__ == "__main__":
    main()
