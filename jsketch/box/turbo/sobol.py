"""Sobol points of the unit cube, scrambled at random: evenly spread, uniform one by one, and
traceable."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from jsketch.types import PRNGKey

BITS = 30


@lru_cache(maxsize=16)
def _directions(bits: int, d: int) -> np.ndarray:
    """Direction numbers [bits,d], the k-th that of bit k of an index, in units of 2^-BITS. On the
    host: a constant of the program."""
    # imported where it is used: a third of a second, which everyone would pay for `import jsketch`
    from scipy.stats import qmc

    points = (qmc.Sobol(d, scramble=False, bits=BITS).random_base2(bits) * 2**BITS).astype(
        np.uint32
    )
    # in the order of the Gray code, point 2^k differs from the one before by the k-th direction
    last = 2 ** np.arange(bits)
    return points[last] ^ points[last - 1]


def sobol(key: PRNGKey, count: int, d: int, dtype: DTypeLike) -> Array:
    """The first `count` points [count,d] in [0,1): digits times a random lower triangular matrix an
    input, and shifted.

    Matousek. On the L2-discrepancy for anchored boxes. Journal of Complexity 1998. A shift alone
    leaves the lattice of the first points as it is: the same differences in every draw.
    """
    bits = max(1, (count - 1).bit_length())
    matrix_key, shift_key = jax.random.split(key)
    # row j holds what digit j (from the top) takes of the digits above it, and itself
    places = np.uint32(1) << np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    above = ((1 << BITS) - 1) ^ (2 * places - 1)
    rows = (jax.random.bits(matrix_key, (d, BITS), jnp.uint32) & above[None, :]) | places[None, :]
    taken = rows[:, :, None] & jnp.asarray(_directions(bits, d)).T[:, None, :]  # [d, BITS, bits]
    digits = lax.population_count(taken) & 1
    directions = (digits * places[None, :, None]).sum(1, dtype=jnp.uint32)  # [d, bits]
    index = np.arange(count)
    gray = ((index ^ (index >> 1))[:, None] >> np.arange(bits)) & 1 == 1  # [count, bits]
    points = jax.random.bits(shift_key, (d,), jnp.uint32)[None, :] >> (32 - BITS)
    for k in range(bits):
        points = points ^ jnp.where(gray[:, k : k + 1], directions[None, :, k], 0)
    return points.astype(dtype) / 2**BITS
