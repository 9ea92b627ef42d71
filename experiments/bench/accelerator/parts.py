"""The parts of `scripts/bench --accelerator`, each in a process of its own: `parts.py PART`.

A part prints a line for every row and writes the file with all its rows again, so that one that is
killed keeps what it has.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments import cli
from experiments.bench.accelerator import common
from experiments.bench.accelerator.kernel_profile import profiled
from experiments.results import environment, store
from experiments.runs.stream_memory import DEGREE, INPUTS, made_up
from jsketch import kernels, loops, online
from jsketch.loops import rollout
from jsketch.sketch.taylor import Taylor


def seeds(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """S runs of BBKB by `run_seeds`: in one vmapped program on an accelerator, one by one on the
    cores of a CPU."""
    problem = common.problem(sizes, data_dir)
    for count, horizon in sizes.runs:
        bandit = common.bandit(horizon)
        keys = jax.random.split(jax.random.key(0), count)

        def run(keys: Array = keys, bandit: Any = bandit, horizon: int = horizon) -> loops.Run:
            return loops.run_seeds(bandit, problem, keys, horizon)

        first = run()
        seconds = common.seconds(run, sizes.repeats)
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
            regret_ratio=common.ratio(first.trace, problem),
            peak_gigabytes=common.peak_gigabytes(),
        )
        report(f"{count} seeds, T = {horizon:,}", row)


def profile(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """Where the time of a shorter vmapped run goes."""
    problem = common.problem(sizes, data_dir)
    for count in (1, min(100, sizes.runs[-1][0])):
        horizon = min(200, sizes.runs[-1][1])
        bandit, keys = common.bandit(horizon), jax.random.split(jax.random.key(0), count)

        def run(keys: Array = keys, bandit: Any = bandit, horizon: int = horizon) -> loops.Trace:
            return loops.run_seeds(bandit, problem, keys, horizon, strategy="vmap").trace

        run()
        began = time.perf_counter()
        trace = run()
        seconds = time.perf_counter() - began
        rounds = int(np.asarray(trace.round[:, -1]).max()) + 1
        row = dict(
            seeds=count,
            horizon=horizon,
            run_seconds=seconds,
            most_rounds=rounds,
            kernels=profiled(run),
        )
        report(f"profile of {count} seeds, T = {horizon:,}", row)


def sweep(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """Lengthscales x seeds in one vmapped call of `rollout`; on a CPU also run by run on all
    cores."""
    problem = common.problem(sizes, data_dir)
    scales, count, horizon = sizes.sweep
    lengthscales = jnp.asarray(np.geomspace(5, 17.5, scales))
    keys = jax.random.split(jax.random.key(0), count)
    bandit = common.bandit(horizon)

    def one(lengthscale: Array, key: Array) -> loops.Progress:
        return rollout(bandit.replace(kernel=kernels.Gaussian(lengthscale)), problem, key, horizon)

    def row_of(program: Callable[[], Any], compile_seconds: float) -> common.Row:
        seconds = common.seconds(program, sizes.repeats)
        return dict(
            lengthscales=scales,
            seeds=count,
            horizon=horizon,
            run_seconds=seconds,
            compile_seconds=compile_seconds,
            milliseconds_a_run=1e3 * seconds / (scales * count),
        )

    if jax.default_backend() == "cpu":
        single, made = common.compiled(one, lengthscales[0], keys[0])
        pairs = [(scale, key) for scale in lengthscales for key in keys]

        def on_threads() -> None:
            with ThreadPoolExecutor(environment.usable_cores()) as pool:
                list(pool.map(lambda pair: jax.block_until_ready(single(*pair)), pairs))

        report(
            f"{scales} lengthscales x {count} seeds on threads, T = {horizon:,}",
            row_of(on_threads, made),
        )
    grid, made = common.compiled(jax.vmap(jax.vmap(one, (None, 0)), (0, None)), lengthscales, keys)
    ends = grid(lengthscales, keys)
    row = row_of(lambda: grid(lengthscales, keys), made)
    row["stopped"] = int(ends.stopped.sum())
    row["regret_ratio"] = common.ratio(ends.trace, problem)
    report(f"{scales} lengthscales x {count} seeds by vmap, T = {horizon:,}", row)


def arms(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """Generated arms, d = 8, in float64 and float32: seconds a round and memory."""
    for count in sizes.arms:
        for dtype in (jnp.float32, jnp.float64):
            problem = common.many_arms(count, dtype)
            bandit = common.large_bandit(sizes.arms_horizon)

            def run(bandit: Any = bandit, problem: Any = problem) -> loops.Run:
                return loops.run(bandit, problem, jax.random.key(0), sizes.arms_horizon)

            first = run()
            # a long one has paid for its first steps
            again = run() if first.run_seconds < common.SHORT else first
            rounds = int(again.trace.round[-1]) + 1
            row = dict(
                arms=count,
                inputs=common.ARM_INPUTS,
                dtype=jnp.dtype(dtype).name,
                horizon=sizes.arms_horizon,
                run_seconds=again.run_seconds,
                compile_seconds=first.compile_seconds,
                rounds=rounds,
                milliseconds_a_round=1e3 * again.run_seconds / rounds,
                dictionary_size=int(again.trace.dictionary_size[-1]),
                regret_ratio=common.ratio(again.trace, problem),
                peak_gigabytes=common.peak_gigabytes(),
            )
            report(f"A = {count:,}, {row['dtype']}", row)


def precision(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """One refresh in mixed precision after a run in float64: which part must be float64.

    Errors are in units of the largest variance and of the range of the scores; `same_picks` counts
    the picks of the next batch that agree with float64's, from the first on.
    """
    for regularization in (1e-2, 1e-4):
        problem = common.many_arms(min(sizes.arms), jnp.float64)
        horizon = min(common.PRECISION_HORIZON, sizes.arms_horizon)
        bandit = common.large_bandit(horizon, regularization)
        state = loops.run(bandit, problem, jax.random.key(0), horizon).state
        truth, _ = common.refresh(state, bandit, common.Precision(jnp.float64, jnp.float64), 1)
        batch = common.batch(bandit, truth)
        for factors in (jnp.float64, jnp.float32):
            for swept in (jnp.float64, jnp.float32):
                which = common.Precision(factors, swept)
                new, seconds = common.refresh(state, bandit, which, sizes.repeats)
                scores, wanted = bandit.scores(new), bandit.scores(truth)
                picks = common.batch(bandit, new)
                shared = min(len(picks), len(batch))
                differ = np.flatnonzero(picks[:shared] != batch[:shared])
                row = dict(
                    arms=min(sizes.arms),
                    regularization=regularization,
                    factors=jnp.dtype(factors).name,
                    sweep=jnp.dtype(swept).name,
                    dictionary_size=int(state.dictionary.size),
                    milliseconds=1e3 * seconds,
                    variance_error=common.error(
                        new.variance, truth.variance, jnp.max(truth.variance)
                    ),
                    mean_error=common.error(new.mean, truth.mean, jnp.ptp(truth.mean)),
                    score_error=common.error(scores, wanted, jnp.ptp(wanted)),
                    batch=len(batch),
                    same_picks=int(differ[0]) if differ.size else shared,
                )
                name = f"lam = {regularization:g}, factors {row['factors']}, sweep {row['sweep']}"
                report(name, row)


def stream(sizes: common.Sizes, data_dir: str | None, report: common.Report) -> None:
    """PKAWV with Taylor features on made-up examples, in chunks; what the host does with them is
    counted."""
    for dtype in (jnp.float64, jnp.float32):
        forecaster = online.PKAWV(Taylor(INPUTS, DEGREE, lengthscale=4.0), regularization=1.0)
        chunks = [
            (x.astype(dtype), y.astype(dtype)) for x, y in made_up(sizes.examples, sizes.chunk)
        ]
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
            peak_gigabytes=common.peak_gigabytes(),
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


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sizes", choices=common.SIZES, required=True)
    parser.add_argument(
        "--out", type=Path, required=True, help="rows of the part, written after each"
    )
    parser.add_argument("--data-dir", help="folder of the data sets")
    options = parser.parse_args()
    cli.set_up_jax(cached=False)
    content: dict[str, Any] = {"environment": environment.describe(), "rows": {}}

    def report(name: str, row: common.Row) -> None:
        print(common.line(name, row), flush=True)
        content["rows"][name] = row
        store.write_json(options.out, content)

    with warnings.catch_warnings():
        # float32 at small regularizations is what is measured
        warnings.simplefilter("ignore")
        PARTS[options.part](common.SIZES[options.sizes], options.data_dir, report)


if __name__ == "__main__":
    main()
