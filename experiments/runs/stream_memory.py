"""Memory and time of a stream longer than memory: PKAWV with Taylor features over chunks.

python -m experiments.runs.stream_memory                      5,000,000 examples, made up a chunk at
                                                              a time
python -m experiments.runs.stream_memory --folder DIR         the same, written to files there and
read memory-mapped

The examples are MADE UP: 18 inputs uniform in [-1, 1] and a label -1 or 1, the shape of the SUSY
data set and nothing else of it. Time and memory do not depend on the values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.results import environment, files, store
from jsketch import loops, online
from jsketch.sketch.taylor import Taylor

INPUTS, DEGREE = 18, 2
FILES = ("x.npy", "y.npy")


def made_up(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`count` made-up examples of SUSY's shape, `size` at a time."""
    random = np.random.default_rng(0)
    for begin in range(0, count, size):
        xs = random.uniform(-1, 1, (min(size, count - begin), INPUTS))
        yield xs, np.sign(xs[:, :3].sum(1) + 0.5 * random.standard_normal(len(xs)))


def in_files(folder: Path, count: int, size: int) -> Iterator[tuple[Any, Any]]:
    """The same examples by way of two files in `folder`, memory-mapped."""
    shapes = dict(zip(FILES, ((count, INPUTS), (count,)), strict=True))
    written = [
        np.lib.format.open_memmap(folder / name, "w+", dtype=float, shape=shape)
        for name, shape in shapes.items()
    ]
    begin = 0
    for chunk in made_up(count, size):
        end = begin + len(chunk[1])
        for file, values in zip(written, chunk, strict=True):
            file[begin:end] = values
        begin = end
    # written and unmapped
    written.clear()
    xs, ys = (np.load(folder / name, mmap_mode="r") for name in shapes)
    return loops.chunks(xs, ys, size)


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--examples", type=cli.count, default=5_000_000)
    parser.add_argument(
        "--chunk", type=cli.count, default=65_536, help="examples in memory at a time"
    )
    parser.add_argument(
        "--folder", type=Path, help="write the examples to files there first (0.15 GB a million)"
    )
    cli.add_out_file(parser)
    options = parser.parse_args()
    files.check_new(options.out, options.overwrite)
    cli.set_up_jax(cached=False)
    print(
        f"made-up examples of SUSY's shape: n = {options.examples:,}, d = {INPUTS}, Taylor features"
        f" of degree {DEGREE}"
    )
    if options.folder is None:
        chunks: Iterator[tuple[Any, Any]] = made_up(options.examples, options.chunk)
    else:
        if not options.overwrite and any((options.folder / name).exists() for name in FILES):
            raise ValueError(
                f"{options.folder} holds {' or '.join(FILES)}: use another --folder, or"
                " --overwrite."
            )
        files.check_folder(options.folder)
        chunks = in_files(options.folder, options.examples, options.chunk)
    forecaster = online.PKAWV(Taylor(INPUTS, DEGREE, lengthscale=4.0), regularization=1.0)
    loss, early, first_seconds = 0.0, 0.0, 0.0
    began = time.perf_counter()
    with cli.progress(options.examples, unit="example") as bar:

        def progress(seen: int) -> None:
            bar.update(seen - bar.n)

        stream = loops.prequential_chunks(forecaster, chunks, jax.random.key(0), progress)
        for number, (forecasts, _) in enumerate(stream):
            loss += float(forecasts.loss.sum())
            if number == 0:
                first_seconds = time.perf_counter() - began
            if number <= 1:
                early = environment.peak_memory() / 1e6
    seconds = time.perf_counter() - began
    numbers = dict(
        examples=options.examples,
        chunk=options.chunk,
        in_files=options.folder is not None,
        seconds=seconds,
        first_chunk_seconds=first_seconds,
        microseconds_per_example=1e6 * seconds / options.examples,
        average_loss=loss / options.examples,
        peak_mb_after_two_chunks=early,
        peak_mb=environment.peak_memory() / 1e6,
    )
    print(
        f"{seconds:.1f} s, making or reading the examples included:"
        f" {numbers['microseconds_per_example']:.2f} microseconds"
        f" an example; {first_seconds:.1f} s of them for the first chunk, with its compilation\n"
        f"average loss {numbers['average_loss']:.4f}\n"
        f"peak memory {numbers['peak_mb']:.0f} MB, {early:.0f} MB after two chunks   [< 2000]"
    )
    if options.folder is not None:
        print(
            "the pages of the files that are mapped count among them, and the system takes them"
            " back when it needs them"
        )
    if options.out is not None:
        store.write_json(options.out, {"environment": environment.describe(), "stream": numbers})


if __name__ == "__main__":
    main()
