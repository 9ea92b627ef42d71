"""Streams longer than memory: examples read from a file a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jsketch import checks

CHUNK = 65_536  # examples


def chunks(xs: Any, ys: Any, size: int = CHUNK) -> Iterator[tuple[Any, Any]]:
    """The examples with their labels, in order, a chunk at a time, for `prequential_chunks`.

    xs    [n, d] examples: anything with a shape that can be sliced, such as `np.load(path,
          mmap_mode="r")`, `np.memmap` or a data set of an HDF5 file; lists and tables become arrays
          first
    ys    [n] labels, likewise
    size  int, examples of a chunk. A shorter last chunk compiles the pass once more: 1 to 2 s on a
          CPU for PKAWV, nothing where `size` divides n

    A slice is read when its turn comes. Raises ValueError for shapes that do not fit, an empty
    stream or a size below 1.
    """
    xs, ys = (
        np.asarray(a) if not hasattr(a, "shape") or hasattr(a, "iloc") else a for a in (xs, ys)
    )
    if len(xs.shape) != 2 or tuple(ys.shape) != tuple(xs.shape[:1]) or 0 in xs.shape:
        raise ValueError(
            "a stream is a matrix [n, d] of examples and a vector [n] of labels, at least one; the"
            f" shapes are {tuple(xs.shape)} and {tuple(ys.shape)}."
        )
    if not checks.is_integer(size, 1):
        raise ValueError(
            f"size counts the examples of a chunk and must be at least 1; {size!r} was given."
        )
    # an iterator and not a generator function, which would keep the errors above until its first
    # chunk
    return (
        (xs[begin : begin + size], ys[begin : begin + size])
        for begin in range(0, xs.shape[0], size)
    )
