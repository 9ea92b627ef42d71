"""How a run or a stream stands: one number, in place of a flag for each thing that may happen.

A compiled loop cannot raise an error. It ends when the result is not `RUNNING`, and the loop on the
host reads the number and raises the error, enlarges the capacity or warns.
"""

from __future__ import annotations

import enum

import jax.numpy as jnp
import numpy as np
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


def must_grow(codes: ArrayLike, not_finite: str, nothing_to_ask: str = "") -> bool:
    """Whether a capacity has to be enlarged before a run or stream continues, by its results [] or
    those [S] of several ones. The loops on the host translate results here and nowhere else.

    Raises RuntimeError if the algorithm has nothing to ask, and FloatingPointError if something is
    not finite, with the given messages.

    Example:

        while must_grow(info.result, "the posterior is not finite."):
            state = bandit.grow(state, arms, 2 * state.capacity)
    """
    found = np.asarray(codes)
    if (found == Result.NOTHING_TO_ASK).any():
        raise RuntimeError(nothing_to_ask)
    if (found == Result.NOT_FINITE).any():
        raise FloatingPointError(not_finite)
    return bool((found == Result.CAPACITY_EXCEEDED).any())
