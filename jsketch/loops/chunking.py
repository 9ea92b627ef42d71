"""Streams in arrays, files and iterators, in chunks for `prequential`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jsketch import checks, struct
from jsketch.loops import stream_files

Pair = stream_files.Pair


@dataclass(frozen=True)
class _Chunks:
    """An iterable of chunks. Every loop over it starts at the first chunk."""

    read: Callable[[], Iterator[Pair]]

    def __iter__(self) -> Iterator[Pair]:
        return self.read()


@struct.checked_names
def chunks(
    xs: Any,
    ys: Any = None,
    size: int = 65_536,
    *,
    target: str | None = None,
    inputs: Sequence[str] | None = None,
) -> Iterable[Pair]:
    """The pairs (xs, ys) of consecutive examples, for `prequential`.

    Example:

        chunks("events.parquet", target="y")

    xs      the path of a Parquet or CSV file with a header, whose columns are separated by commas,
            tabs or semicolons; or examples [n, d]: an array, a table, or any object with a shape
            that can be sliced, such as `np.load(path, mmap_mode="r")` or a data set of an HDF5
            file; or, without ys, an iterable of pairs (x [d], y)
    ys      the labels [n] of examples [n, d]
    size    int, examples of a chunk
    target  the column of the file that has the labels; an empty cell is a missing label
    inputs  the columns of the file that have the inputs; None: all other columns

    A chunk is read when a loop reaches it. Every loop over the result starts at the first chunk,
    unless xs is an iterable of pairs.

    A CSV file is text in UTF-8, UTF-16 or cp1252, also compressed (.csv.gz). Cells are numbers,
    with decimal commas too if all of them have it, True or False (1 or 0), or missing: empty, NA,
    NaN, null or None. The first row has the names of the columns, below a line such as `sep=;` if
    there is one. Empty rows below the names are skipped. An index of pandas without a name is not
    an input.

    Raises ValueError for shapes that do not fit, an empty stream, a size below 1, columns that do
    not exist, have no name (if inputs is None), have the name of another one or are not numbers,
    and damaged files; in mid-file when a loop reaches that place. Raises ImportError without
    pyarrow, which reads Parquet, or pandas, which reads CSV (the extra `tables`).
    """
    checks.positive_integer(size=size)
    if isinstance(xs, str | os.PathLike):
        if ys is not None:
            raise ValueError(
                "ys are the labels of arrays; the labels of a file are its column `target`."
            )
        read = stream_files.reader(Path(xs), target, inputs)
        return _Chunks(lambda: _rechunk(read(), size))
    if target is not None or inputs is not None:
        raise ValueError("target and inputs are columns of a file; the labels of arrays are ys.")
    if ys is None and not hasattr(xs, "shape"):
        return _rechunk(_read_pairs(xs, size), size)
    xs, ys = (
        np.asarray(a) if not hasattr(a, "shape") or hasattr(a, "iloc") else a for a in (xs, ys)
    )
    if len(xs.shape) != 2 or tuple(ys.shape) != tuple(xs.shape[:1]) or 0 in xs.shape:
        raise ValueError(
            "a stream has at least one example: xs is a matrix [n, d], and ys is a vector [n]; the"
            f" shapes are {tuple(xs.shape)} and {tuple(ys.shape)}."
        )
    starts = range(0, xs.shape[0], size)
    return _Chunks(lambda: ((xs[i : i + size], ys[i : i + size]) for i in starts))


def _rechunk(parts: Iterable[Pair], size: int) -> Iterator[Pair]:
    """The examples of parts of any length in chunks of `size`; the last chunk may be shorter."""
    held: list[Pair] = []
    is_empty = True
    for part in parts:
        held.append(part)
        is_empty = False
        if sum(len(ys) for _, ys in held) < size:
            continue
        xs, ys = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
        end = len(ys) - len(ys) % size
        for start in range(0, end, size):
            yield xs[start : start + size], ys[start : start + size]
        held = [(xs[end:], ys[end:])]
    if is_empty:
        raise ValueError("the stream is empty.")
    xs, ys = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
    if len(ys):
        yield xs, ys


def _read_pairs(pairs: Iterable[Any], size: int) -> Iterator[Pair]:
    iterator = iter(pairs)
    while part := list(itertools.islice(iterator, size)):
        try:
            xs, ys = zip(*part, strict=True)
        except (TypeError, ValueError):
            raise ValueError(
                "an iterable stream has pairs (x, y), and arrays are given as chunks(xs, ys); a"
                f" {type(part[0]).__name__} was given."
            ) from None
        yield np.asarray(xs), np.asarray(ys)
