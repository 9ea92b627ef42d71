"""Random numbers of single arms: the entries of `jax.random.uniform` over all arms of a file, which
are drawn without the others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch.types import PRNGKey

COUNTERS = 2**32  # in a smaller array of random numbers, each entry has its own 32-bit counter


def check_counting(key: PRNGKey, n_arms: int) -> None:
    """Raises ValueError unless the random number of one of `n_arms` arms can be drawn from the key
    alone, without the random numbers of other arms."""
    is_threefry = str(jax.random.key_impl(_typed(key))) == "threefry2x32"
    config: Any = jax.config  # not all versions declare the type of this attribute
    partitionable = bool(config.jax_threefry_partitionable)
    if not (is_threefry and partitionable and n_arms < COUNTERS):
        raise ValueError(
            "random numbers of single arms need a key of JAX's default implementation, threefry2x32"
            " with jax_threefry_partitionable, such as jax.random.key(0)."
        )


def uniform_at(key: PRNGKey, index: Array, n_arms: int, dtype: Any) -> Array:
    """The entries `index` [n] of jax.random.uniform(key, (n_arms,), dtype), [n]. Raises what
    `check_counting` raises.

    With jax_threefry_partitionable the bits of entry i are the two words of fold_in(key, i), or,
    for numbers of 32 bits, the xor of both words. A test compares the numbers with jax.random.
    """
    check_counting(key, n_arms)
    folded = jax.vmap(lambda i: jax.random.fold_in(_typed(key), i))(index.astype(jnp.uint32))
    high, low = jax.random.key_data(folded).T
    finfo = jnp.finfo(dtype)
    bits = high ^ low
    if finfo.bits == 64:
        bits = (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    unsigned = bits.dtype.type
    # random bits as the mantissa of a number in [1, 2)
    bits = (bits >> unsigned(finfo.bits - finfo.nmant)) | np.array(1, dtype).view(unsigned)
    return lax.bitcast_convert_type(bits, dtype) - np.array(1, dtype)


def _typed(key: PRNGKey) -> PRNGKey:
    """The key, if necessary converted from an array of the old style."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)
