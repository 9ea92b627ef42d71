"""Memory and time of a stream that is longer than memory: PKAWV with Taylor features over chunks.

python -m experiments.runs.stream_memory

The examples are GENERATED chunk by chunk, with 18 inputs uniform in [-1, 1] and a label -1 or 1.
"""

import time
from collections.abc import Iterator

import jax
import numpy as np

from experiments import cli
from experiments.bench.timing import show
from experiments.results import environment, store
from jsketch import loops, online
from jsketch.sketch.taylor import Taylor

INPUTS, DEGREE = 18, 2


def generate_examples(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`count` generated examples of SUSY's shape, `size` at a time."""
    random = np.random.default_rng(0)
    for begin in range(0, count, size):
        xs = random.uniform(-1, 1, (min(size, count - begin), INPUTS))
        yield xs, np.sign(xs[:, :3].sum(1) + 0.5 * random.standard_normal(len(xs)))


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--examples", type=cli.count, default=5_000_000)
    parser.add_argument("--chunk", type=cli.count, default=65_536, help="examples in memory")
    options = cli.parse_benchmark(parser)
    forecaster = online.PKAWV(Taylor(INPUTS, DEGREE, lengthscale=4.0), regularization=1.0)
    chunks = generate_examples(options.examples, options.chunk)
    loss, early_peak, first_seconds = 0.0, 0.0, 0.0
    began = time.perf_counter()
    for number, (forecasts, _) in enumerate(
        loops.prequential(forecaster, chunks, jax.random.key(0))
    ):
        loss += float(forecasts.loss.sum())
        if number == 0:
            first_seconds = time.perf_counter() - began
        if number <= 1:
            early_peak = environment.peak_memory() / 1e6
    seconds = time.perf_counter() - began
    numbers = dict(
        examples=options.examples,
        chunk=options.chunk,
        seconds=seconds,
        first_chunk_seconds=first_seconds,
        microseconds_per_example=1e6 * seconds / options.examples,
        average_loss=loss / options.examples,
        peak_mb_after_two_chunks=early_peak,
        peak_mb=environment.peak_memory() / 1e6,
    )
    show("generated examples", numbers, "[peak < 2000 MB]")
    store.write_numbers(options.out, dict(stream=numbers))
