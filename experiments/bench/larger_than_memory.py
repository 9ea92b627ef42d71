"""One batch of a fixed size among candidates that lie in a file, and what it takes.

python -m experiments.bench.larger_than_memory                  100,000,000 candidates, 3.2 GB
python -m experiments.bench.larger_than_memory --screen         ranked in float32, picked in float64
python -m experiments.bench.larger_than_memory --arms 1000000

The candidates are MADE UP: standard normal features in float32, written to a temporary folder that
is removed at the end (--folder DIR keeps the file, and takes one that is there); rewards are those
of a smooth function and noise.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.results import environment, files, store
from jsketch import kernels
from jsketch.bandits import FixedBKB
from jsketch.scale import Streamed, open_arms

INPUTS, CHUNK = 8, 1 << 18
TARGET = 6.0  # GB resident at 1e8 candidates


def made_up(path: Path, count: int) -> None:
    """`count` made-up candidates in a file, a chunk in memory at a time. Raises ValueError where
    the disk has no room."""
    needed, free = 4 * count * INPUTS, shutil.disk_usage(path.parent).free
    if needed > free:
        raise ValueError(
            f"the file takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: use fewer"
            " --arms or another --folder."
        )
    random = np.random.default_rng(0)
    # under another name until it is whole: a killed one would be taken for it, zeros and all
    part = path.with_suffix(".part")
    table = np.lib.format.open_memmap(part, "w+", dtype=np.float32, shape=(count, INPUTS))
    # plain writes: mapped pages would count as memory of this process
    offset = table.offset
    del table
    with part.open("r+b") as file:
        file.seek(offset)
        for begin in range(0, count, CHUNK):
            rows = min(CHUNK, count - begin)
            random.standard_normal((rows, INPUTS), np.float32).tofile(file)
    part.replace(path)


def one_batch(path: Path, options: Any) -> dict[str, Any]:
    """Starts from `observed` evaluations, and chooses a batch; times include compilation."""
    domain = open_arms(path, chunk=options.chunk)
    random = np.random.default_rng(1)
    weights = random.standard_normal(INPUTS) / np.sqrt(INPUTS)
    observed = np.unique(random.integers(domain.count, size=options.observed))
    values = np.tanh(domain.rows(observed) @ weights)
    rewards = values + 0.1 * random.standard_normal(len(observed))
    bandit = FixedBKB(
        kernels.Gaussian(options.lengthscale),
        0.01,
        noise_std=0.1,
        delta=1e-4,
        batch=options.batch,
        capacity=options.capacity,
    )
    streamed = Streamed(bandit, keep=options.keep, screen=options.screen)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = streamed.init(
            domain, jax.random.key(0), arms=observed, rewards=rewards, dictionary="leverage"
        )
    init = time.perf_counter() - began
    began = time.perf_counter()
    for _ in domain.in_order():
        pass
    reading = time.perf_counter() - began
    began, spent = time.perf_counter(), time.process_time()
    chosen = streamed.choose(state)
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    size = 4 * domain.count * INPUTS / 1e9
    parts = chosen.chunks / domain.chunks
    return dict(
        arms=domain.count,
        gigabytes=size,
        screen=options.screen,
        inducing_points=int(state.sketch.dictionary.size),
        capacity=state.capacity,
        observed=len(observed),
        batch=int(chosen.query.size),
        seconds_of_init=init,
        seconds_reading_once=reading,
        seconds_of_a_batch=seconds,
        cpu_seconds_of_a_batch=cpu,
        chunks_read=chosen.chunks,
        chunks=domain.chunks,
        seconds_a_refresh=seconds / parts,
        gigabytes_a_second=size * parts / seconds,
        missed=chosen.missed,
        picks=np.asarray(chosen.query.index).tolist(),
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--arms", type=cli.count, default=100_000_000)
    parser.add_argument("--observed", type=cli.count, default=500, help="evaluations before")
    parser.add_argument("--batch", type=cli.count, default=96)
    parser.add_argument("--keep", type=cli.count, default=4096, help="arms kept of a sweep")
    parser.add_argument("--chunk", type=cli.count, default=CHUNK, help="arms read at a time")
    parser.add_argument("--lengthscale", type=float, default=10.0)
    parser.add_argument("--capacity", type=cli.count, default=96, help="inducing points")
    parser.add_argument("--screen", action="store_true", help="sweep in float32, pick in float64")
    parser.add_argument("--folder", type=Path, help="keep the file there")
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax(cached=False)
    with tempfile.TemporaryDirectory() as temporary:
        path = (options.folder or Path(temporary)) / f"arms_{options.arms}.npy"
        if not path.exists():
            made_up(path, options.arms)
        row = one_batch(path, options)
    print(
        f"{row['arms']:,} made-up candidates, d = {INPUTS}, float32, {row['gigabytes']:.1f} GB in a"
        f" file; {row['inducing_points']} inducing points (capacity {row['capacity']})\n"
        f"starting {row['seconds_of_init']:.1f} s; reading alone"
        f" {row['seconds_reading_once']:.1f} s"
        f" ({row['gigabytes'] / row['seconds_reading_once']:.2f} GB/s)\n"
        f"a batch of {row['batch']}: {row['seconds_of_a_batch']:.1f} s,"
        f" {row['cpu_seconds_of_a_batch']:.1f} s of CPU; {row['chunks_read']} chunks read, the file"
        f" has {row['chunks']}: {row['seconds_a_refresh']:.1f} s a refresh,"
        f" {row['gigabytes_a_second']:.2f} GB/s\n"
        f"peak resident memory {row['peak_gigabytes']:.2f} GB   [< {TARGET:g} at 100,000,000]"
        + ("\nthe bound of the sweep in float32 did not hold" if row["missed"] else "")
    )
    if options.out is not None:
        store.write_json(options.out, {"environment": environment.describe(), "batch": row})


if __name__ == "__main__":
    main()
