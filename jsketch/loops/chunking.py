"""Streams in arrays, files and iterators, in chunks for `prequential`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jsketch import arguments, checks

CHUNK = 65_536  # examples of a chunk
Pair = tuple[Any, Any]  # (xs, ys)


@arguments.checked
def chunks(
    xs: Any,
    ys: Any = None,
    size: int = CHUNK,
    *,
    target: str | None = None,
    inputs: Sequence[str] | None = None,
) -> Iterator[Pair]:
    """An iterator over pairs (xs, ys) of consecutive examples, for `prequential`.

        chunks("events.parquet", target="y")

    xs      the path of a Parquet or CSV file with a header; or [n, d] examples: anything with a
            shape that can be sliced, such as `np.load(path, mmap_mode="r")` or a data set of an
            HDF5 file; lists and tables are converted to arrays. Without labels, an iterable of
            pairs (x [d], y)
    ys      [n] labels of an array, likewise
    size    int, examples of a chunk
    target  the column of a file that is the label; an empty cell is a missing label
    inputs  the columns of a file that are the inputs; None: all others

    A chunk is read when the iterator reaches it. Parquet needs pyarrow, CSV pandas. Raises
    ValueError for shapes that do not fit, an empty stream, a size below 1, and columns that do not
    exist or are not numbers.
    """
    checks.capacity(size=size)
    if isinstance(xs, str | os.PathLike):
        return _whole_chunks(_of_file(Path(xs), target, inputs, size), size)
    if target is not None or inputs is not None:
        raise ValueError("target and inputs are columns of a file; give labels as ys.")
    if ys is None and not hasattr(xs, "shape"):
        return _whole_chunks(_of_pairs(xs, size), size)
    xs, ys = (
        np.asarray(a) if not hasattr(a, "shape") or hasattr(a, "iloc") else a for a in (xs, ys)
    )
    if len(xs.shape) != 2 or tuple(ys.shape) != tuple(xs.shape[:1]) or 0 in xs.shape:
        raise ValueError(
            "a stream is a matrix [n, d] of examples and a vector [n] of labels, at least one; the"
            f" shapes are {tuple(xs.shape)} and {tuple(ys.shape)}."
        )
    # a generator function would raise the errors above only at its first chunk
    return (
        (xs[begin : begin + size], ys[begin : begin + size])
        for begin in range(0, xs.shape[0], size)
    )


def _whole_chunks(parts: Iterable[Pair], size: int) -> Iterator[Pair]:
    """The examples of parts of any length in chunks of `size`; the last one may be shorter."""
    held: list[Pair] = []
    count = 0  # examples of `held`
    for part in parts:
        held.append(part)
        count += len(part[1])
        while count >= size:
            xs, ys = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
            yield xs[:size], ys[:size]
            held, count = [(xs[size:], ys[size:])], count - size
    if not held:
        raise ValueError("the stream is empty.")
    if count:
        xs, ys = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
        yield xs, ys


def _of_pairs(pairs: Iterable[Any], size: int) -> Iterator[Pair]:
    iterator = iter(pairs)
    while part := list(itertools.islice(iterator, size)):
        try:
            xs, ys = zip(*part, strict=True)
        except (TypeError, ValueError):
            raise ValueError(
                f"an iterable stream has pairs (x, y); one of its elements is {part[0]!r}."
            ) from None
        yield np.asarray(xs), np.asarray(ys)


def _of_file(
    path: Path, target: str | None, inputs: Sequence[str] | None, size: int
) -> Iterator[Pair]:
    """The parts of a file. Raises ValueError for another kind of file, and FileNotFoundError, at
    once; the parts are read later."""
    kind = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()
    if kind not in (".parquet", ".pq", ".csv", ".csv.gz", ".tsv"):
        raise ValueError(f"a stream is read from a .parquet or .csv file; {path} is another.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    parquet = kind in (".parquet", ".pq")
    frames = _parquet(path, size) if parquet else _csv(path, size, "\t" if kind == ".tsv" else ",")
    first = next(frames, None)
    if first is None or len(first) == 0:
        raise ValueError(f"{path} has no rows.")
    columns = list(first.columns)
    if target is None:
        raise ValueError(f"target is the column of the labels; {path} has {', '.join(columns)}.")
    chosen = [name for name in columns if name != target] if inputs is None else list(inputs)
    missing = [name for name in (target, *chosen) if name not in columns]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(map(str, columns))}."
        )
    every = itertools.chain([first], frames)
    return ((_numbers(frame, chosen), _numbers(frame, [target])[:, 0]) for frame in every)


def _numbers(frame: Any, names: list[str]) -> np.ndarray:
    """Columns of a DataFrame as numbers [n, d]."""
    for name in names:
        if frame[name].dtype.kind not in "biuf":
            raise ValueError(
                f"column {name} has values that are not numbers, such as {frame[name].iloc[0]!r}:"
                " name the others in `inputs`."
            )
    return frame[names].to_numpy(float)


def _parquet(path: Path, size: int) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=size):
            yield batch.to_pandas()


def _csv(path: Path, size: int, separator: str) -> Iterator[Any]:
    import pandas

    with pandas.read_csv(path, sep=separator, chunksize=size) as reader:
        yield from reader
