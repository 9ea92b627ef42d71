"""Streams in arrays, files and iterators, in chunks for `prequential`."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jsketch import checks, struct

Pair = tuple[Any, Any]  # (xs, ys)
_NO_SEPARATOR = "\x1f"  # a character that no text contains
LONGEST_HEADER = 2**16  # largest number of characters in a header
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan", re.IGNORECASE)


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
    unless xs is an iterable of pairs. Parquet needs pyarrow, CSV needs pandas. Raises ValueError
    for shapes that do not fit, an empty stream, a size below 1, and columns that do not exist or
    are not numbers.
    """
    checks.positive_integer(size=size)
    if isinstance(xs, str | os.PathLike):
        if ys is not None:
            raise ValueError(
                "ys are the labels of arrays; the labels of a file are its column `target`."
            )
        _read_file(Path(xs), target, inputs, size)  # raises errors before the first loop
        return _Chunks(lambda: _rechunk(_read_file(Path(xs), target, inputs, size), size))
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
    buffer: Pair | None = None
    for part in parts:
        if buffer is not None:
            part = (np.concatenate([buffer[0], part[0]]), np.concatenate([buffer[1], part[1]]))
        buffer = part
        while len(buffer[1]) >= size:
            yield buffer[0][:size], buffer[1][:size]
            buffer = (buffer[0][size:], buffer[1][size:])
    if buffer is None:
        raise ValueError("the stream is empty.")
    if len(buffer[1]):
        yield buffer


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


def _read_file(
    path: Path, target: str | None, inputs: Sequence[str] | None, size: int
) -> Iterator[Pair]:
    """The pairs (xs, ys) of the parts of a file; a part is read when a loop reaches it. Raises
    ValueError if the format is another one or a column is missing, and FileNotFoundError if there
    is no file."""
    ending = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()
    if ending not in (".parquet", ".pq", ".csv", ".csv.gz", ".tsv"):
        raise ValueError(f"a stream is read from a .parquet or .csv file; {path} was given.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    is_parquet = ending in (".parquet", ".pq")
    needed_names = [target, *([] if inputs is None else inputs)]
    frames = _read_parquet(path, size) if is_parquet else _read_csv(path, size, needed_names)
    try:
        first = next(frames, None)
    except ValueError as error:  # messages of pandas and pyarrow do not contain the path
        raise ValueError(f"{path} cannot be read: {error}") from error
    if first is None or len(first) == 0:
        raise ValueError(f"{path} has no rows.")
    columns = list(first.columns)
    names = ", ".join(map(str, columns))
    if target is None:
        raise ValueError(f"target must be the column of the labels, one of {names} in {path}.")
    if isinstance(inputs, str) or (inputs is not None and not len(inputs)):
        raise ValueError(
            f"inputs is a list of columns, such as [{columns[0]!r}]; {inputs!r} was given."
        )
    input_names = [name for name in columns if name != target] if inputs is None else list(inputs)
    if target in input_names:
        raise ValueError(f"inputs must not contain the target {target}.")
    missing = [name for name in (target, *input_names) if name not in columns]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(map(str, missing))}; it has {names}.")
    frames = itertools.chain([first], frames)
    return (
        (_to_numbers(frame, input_names), _to_numbers(frame, [target])[:, 0]) for frame in frames
    )


def _to_numbers(frame: Any, names: list[str]) -> np.ndarray:
    """Columns of a DataFrame as numbers [n, d]."""
    for name in names:
        if frame[name].dtype.kind not in "biuf":
            not_numbers = [cell for cell in frame[name] if not _NUMBER.fullmatch(str(cell))]
            # the first cell, if pandas has read a column of numbers as text
            example = [*not_numbers, frame[name].iloc[0]][0]
            raise ValueError(
                f"column {name} has values that are not numbers, such as {example!r}: convert the"
                " column, or leave it out of `inputs`."
            )
    return frame[names].to_numpy(float)


def _read_parquet(path: Path, size: int) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=size):
            yield batch.to_pandas()


def _read_csv(path: Path, size: int, names: Sequence[Any]) -> Iterator[Any]:
    import pandas

    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        text = file.read(LONGEST_HEADER).decode("utf-8-sig", "replace").lstrip("\r\n ")
    separator = separator_of(text, names)
    lines = csv.reader(text.splitlines(), delimiter=separator)
    header, first_row = next(lines, []), next(lines, [])
    if len(header) < len(first_row):  # pandas would shift the names
        raise ValueError("its rows have more cells than its header.")
    # with decimal commas, pandas reads a cell with a point as text, and `_to_numbers` refuses it
    has_decimal_comma = re.search(r'\n(?:.*;)? *"?[-+]?\d*,\d', text)
    decimal = "," if separator == ";" and has_decimal_comma else "."
    dialect = dict(sep=separator, decimal=decimal)
    with pandas.read_csv(path, chunksize=size, skipinitialspace=True, **dialect) as reader:
        yield from reader


def separator_of(text: str, names: Sequence[Any]) -> str:
    """The separator (comma, semicolon, tab or none) with which the header of the text has the most
    of the names. Of several such separators, it is one with which it has the most columns."""
    header = text.lstrip("\r\n ")[:LONGEST_HEADER]

    def column_counts(separator: str) -> tuple[int, int]:
        lines = io.StringIO(header, newline=None)
        cells = next(csv.reader(lines, delimiter=separator, skipinitialspace=True), [])
        return sum(name in [c.strip() for c in cells] for name in names), len(cells)

    return max(f"{_NO_SEPARATOR},;\t", key=column_counts)
