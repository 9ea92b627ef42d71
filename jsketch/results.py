"""How a run or a stream stands: one number, in place of a flag for each thing that may happen.

A compiled loop cannot raise an error. It ends when the result is not `RUNNING`, and the loop on the
host reads the number and raises the error, enlarges the capacity or warns.
"""

from __future__ import annotations

import enum

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


class Result(enum.IntEnum):
    """The states of a run or a stream. Of two results the larger one stands."""

    RUNNING = 0
    # the dictionary, or the number of distinct arms, exceeds the capacity of the state
    CAPACITY_EXCEEDED = 1
    # the algorithm returned an empty query
    NOTHING_TO_ASK = 2
    # a reward or label is infinite, or the posterior or the confidence width is not finite
    NOT_FINITE = 3


def result(*conditions: tuple[Result, ArrayLike]) -> Array:
    """The largest of the results whose condition [] is true, [] int32; RUNNING if none is.

    Example:

        result((Result.NOT_FINITE, ~jnp.isfinite(mean).all()))
    """
    code = jnp.asarray(int(Result.RUNNING), jnp.int32)
    for name, condition in conditions:
        code = jnp.where(jnp.asarray(condition), jnp.maximum(code, int(name)), code)
    return code
