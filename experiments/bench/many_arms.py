"""Time and memory of a batch of a fixed size, and of rounds of BBKB, among millions of candidates.

python -m experiments.bench.many_arms                       10,000,000 candidates in memory
python -m experiments.bench.many_arms --file                100,000,000 candidates in a file
python -m experiments.bench.many_arms --file --float64      computed in float64

The candidates are GENERATED: standard normal features, d = 8, in float64 in memory and in float32
in the (temporary) file. FixedBKB chooses its batch after 500 evaluations; BBKB runs in memory only.
Times include compilation.
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.bench.timing import show
from experiments.results import environment, store
from jsketch import Arms, drive, kernels
from jsketch.bandits import BBKB, FixedBKB, history
from jsketch.scale import FileEvaluations, Streamed, open_arms

DIMENSION, NOISE, LENGTHSCALE, CAPACITY = 8, 0.1, 10.0, 96
N_OBSERVED, BATCH, CHUNK = 500, 96, 1 << 18
HORIZON = 1_000_000  # more than the rounds need
FIXED = FixedBKB(
    kernels.Gaussian(LENGTHSCALE), 0.01, noise_std=NOISE, delta=1e-4, batch=BATCH, capacity=CAPACITY
)


def time_call(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of a call, and its seconds of the wall clock and of the CPU."""
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    result = call()
    wall, cpu = time.perf_counter() - wall_start, time.process_time() - cpu_start
    return result, dict(seconds=wall, cpu_seconds=cpu)


def in_memory(count: int, rounds: int) -> dict[str, Any]:
    """Measurements of a batch, and of rounds of BBKB, among candidates in memory."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((count, DIMENSION))
    values = np.tanh(features @ (rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)))
    domain = Arms(jnp.asarray(features))
    del features  # frees the memory if JAX has copied the array
    rng = np.random.default_rng(1)
    observed = rng.choice(count, N_OBSERVED, replace=False)
    rewards = values[observed] + NOISE * rng.standard_normal(N_OBSERVED)
    data = history.of_evaluations(domain, observed, rewards, "leverage")
    key = jax.random.key(0)
    state, init = time_call(lambda: FIXED.init(domain, key, data=data))
    query, batch = time_call(lambda: jax.block_until_ready(jax.jit(FIXED.ask)(state, domain, key)))
    batch |= dict(
        inducing_points=int(state.dictionary_size),
        distinct=len(np.unique(np.asarray(query.index))),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )
    return dict(arms=count, init=init, batch=batch, bbkb=time_bbkb(domain, values, rounds))


def time_bbkb(domain: Arms, values: np.ndarray, rounds: int) -> dict[str, float]:
    """Times and memory of `rounds` rounds of BBKB, and the best value that they evaluate."""
    rng, key = np.random.default_rng(2), jax.random.key(0)
    times: list[float] = []

    def evaluate(arms: np.ndarray) -> np.ndarray:
        times.append(time.perf_counter())
        return np.asarray(values[arms] + NOISE * rng.standard_normal(len(arms)))

    bandit = BBKB(
        kernels.Gaussian(LENGTHSCALE), 0.01, noise_std=NOISE, delta=1e-4, capacity=CAPACITY
    )
    run, timing = time_call(
        lambda: drive(bandit, evaluate, domain, key, HORIZON, stop=lambda _: len(times) == rounds)
    )
    return timing | dict(
        median_seconds_of_a_round=float(np.median(np.diff(times))),
        rounds=len(times),
        evaluations=run.t,
        inducing_points=int(run.state.dictionary_size),
        best=float(values[run.x].max()),
        largest_value=float(values.max()),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


def write_candidates(path: Path, count: int) -> None:
    """Writes generated candidates to a file, chunk by chunk."""
    rng = np.random.default_rng(0)
    table = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(count, DIMENSION))
    offset = table.offset
    del table
    # `tofile` instead of the memory map, because mapped pages count as memory of this process
    with path.open("r+b") as file:
        file.seek(offset)
        for begin in range(0, count, CHUNK):
            rows = min(CHUNK, count - begin)
            rng.standard_normal((rows, DIMENSION), np.float32).tofile(file)


def in_file(path: Path, dtype: str) -> dict[str, Any]:
    """Measurements of a batch among the candidates in a file, computed in this dtype."""
    domain = open_arms(path, chunk=CHUNK, dtype=dtype)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
    observed = np.unique(rng.integers(domain.count, size=N_OBSERVED))
    rewards = np.tanh(domain.rows(observed) @ weights)
    rewards = rewards + NOISE * rng.standard_normal(len(observed))
    streamed, key = Streamed(FIXED), jax.random.key(0)
    data = FileEvaluations(observed, rewards, "leverage")
    state, init = time_call(lambda: streamed.init(domain, key, data=data))
    _, reading = time_call(lambda: [None for _ in domain.read_in_order()])
    chosen, batch = time_call(lambda: streamed.choose(state, domain, key))
    batch |= dict(
        inducing_points=int(state.tracked.dictionary_size),
        passes=chosen.n_reads / domain.n_chunks,
        picks=np.asarray(chosen.query.index).tolist(),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )
    return dict(arms=domain.count, dtype=dtype, init=init, reading=reading, batch=batch)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--arms", type=cli.count, help="default 10,000,000, in a file 100,000,000")
    parser.add_argument("--rounds", type=cli.count, default=50, help="rounds of BBKB")
    parser.add_argument("--file", action="store_true", help="candidates in a file")
    parser.add_argument("--float64", action="store_true", help="compute in float64 from the file")
    options = cli.parse_benchmark(parser)
    warnings.simplefilter("ignore")  # warnings about float32 with a small regularization
    if options.file:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "arms.npy"
            write_candidates(path, options.arms or 100_000_000)
            measured = in_file(path, "float64" if options.float64 else "float32")
    else:
        measured = in_memory(options.arms or 10_000_000, options.rounds)
    print(f"{measured['arms']:,} generated candidates, d = {DIMENSION}")
    for step in ("init", "reading", "batch", "bbkb"):
        if step in measured:
            show(step, measured[step])
    store.write_numbers(options.out, measured)
