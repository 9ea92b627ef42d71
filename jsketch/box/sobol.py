"""Sobol points of the unit cube with a random digital shift: evenly spread, uniform one by one, and traceable."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import qmc

from jsketch.types import PRNGKey

BITS = 30


@lru_cache(maxsize=16)
def _digits(count: int, d: int) -> np.ndarray:
    """The first `count` points of the sequence [count,d], in units of 2^-BITS. On the host: a constant of the program."""
    whole = qmc.Sobol(d, scramble=False, bits=BITS).random_base2((count - 1).bit_length())
    return (whole[:count] * 2**BITS).astype(np.uint32)


def sobol(key: PRNGKey, count: int, d: int, dtype: Any) -> Array:
    """Points [count,d] in [0,1]: one random number an input is added to all points, digit by digit, without carrying."""
    shift = jax.random.bits(key, (d,), jnp.uint32) >> (32 - BITS)
    return (_digits(count, d) ^ shift).astype(dtype) / 2**BITS
