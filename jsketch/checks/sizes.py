"""Static sizes: capacities, counts, and whether they fit into the memory."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsketch import memory

MOST = 2**31 - 1  # of what is counted in 32 bits


def is_integer(value: Any, least: int) -> bool:
    """Whether it is an integer, Python's or NumPy's and no truth value, of at least that size."""
    return (
        not isinstance(value, bool) and isinstance(value, int | np.integer) and bool(value >= least)
    )


def _integer(values: dict[str, int], least: int, words: str) -> None:
    for name, value in values.items():
        if not is_integer(value, least):
            raise ValueError(f"{name} must be an integer{words} {least}; {value!r} was given.")


def capacity(**values: int) -> None:
    """Raises ValueError unless every named static capacity is an integer >= 1."""
    _integer(values, 1, " of at least")


def count(**values: int) -> None:
    """Raises ValueError unless every named static count is an integer >= 0."""
    _integer(values, 0, ", at least")


def larger(before: int, **values: int) -> None:
    """Raises ValueError unless the named capacity to grow to is an integer, at least the one
    before."""
    capacity(**values)
    for name, value in values.items():
        if value < before:
            raise ValueError(f"{name} can only grow: it is {before}, and {value} was given.")


def room(numbers: int, dtype: DTypeLike, **sizes: int) -> None:
    """Raises ValueError when so many numbers, which the named sizes ask for, are more than the
    memory holds, and for a size that 32 bits cannot count."""
    said = " and ".join(f"{name} = {size:,}" for name, size in sizes.items())
    memory.check(int(numbers) * jnp.dtype(dtype).itemsize, said, "take less")
    for name, size in sizes.items():
        if size > MOST:
            raise ValueError(f"{name} can be at most {MOST:,}; {size:,} was given.")
