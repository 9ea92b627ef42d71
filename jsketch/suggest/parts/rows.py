"""Which rows of a library each of several processes has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jsketch.linalg import chunked
from jsketch.suggest import posterior


class Part(NamedTuple):
    """R rows of a library of `total` candidates, in whole blocks."""

    total: int
    rows: np.ndarray  # [R] int, their numbers in the library
    # [R] bool; a row that is in two blocks is the last one's
    own: np.ndarray


def part(count: int, number: int, processes: int) -> Part:
    """The rows of one of several processes. Raises ValueError for fewer blocks than processes."""
    blocks = -(-count // posterior.BLOCK)
    if processes > blocks:
        raise ValueError(
            f"{count} candidates are {blocks} blocks of at most {posterior.BLOCK}, too few for"
            f" {processes} processes: take at most {max(blocks, 1)}."
        )
    size = chunked(count, posterior.BLOCK)[1]
    begins = np.minimum(np.arange(blocks) * size, count - size)
    here = np.arange(blocks * number // processes, blocks * (number + 1) // processes)
    rows = begins[here][:, None] + np.arange(size)
    own = (rows < begins[-1]) | (here[:, None] == blocks - 1)
    return Part(count, rows.ravel(), own.ravel())
