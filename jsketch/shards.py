"""Arms over the devices of a mesh: the few places where an algorithm reads or writes across arms.

An algorithm runs under `jax.shard_map` (`scale.sharded`), the same program on every device, with
its own rows of whatever is [A]. `shard` says which axis of the mesh they lie on; with None an array
[A] is whole, and every function here is what it is in NumPy. A device holds as many rows as any
other, R: the last ones may be padding, which `padded` keeps from being chosen.

Every result but the rows themselves is the same on all devices, to the last bit: loops that read it
end together. Messages hold a few numbers a device, or the rows of the arms that are asked for:
never A of anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec as P

from jsketch import linalg
from jsketch.types import Arms, PRNGKey, Shard

Pytree = TypeVar("Pytree")

NOWHERE = np.iinfo(np.int32).max
COUNTERS = 2**32  # numbers that one key gives by counting


def numbers(shard: Shard | None, rows: int) -> Array:
    """The numbers of the arms in the rows here, [R] int32."""
    here = jnp.arange(rows, dtype=jnp.int32)
    return here if shard is None else here + _first(shard, rows)


def local(shard: Shard | None, index: Array, rows: int) -> Array:
    """The rows of arms `index`, [n] int32; R for those of other devices, where a scatter writes
    nothing."""
    if shard is None:
        return index
    place = index - _first(shard, rows)
    return jnp.where((place >= 0) & (place < rows), place, rows)


def padded(shard: Shard | None, values: Array, fill: float) -> Array:
    """The values [..., R], `fill` in rows that are no arms."""
    if shard is None:
        return values
    return jnp.where(numbers(shard, values.shape[-1]) < shard.arms, values, fill)


def take(shard: Shard | None, values: Pytree, index: Array) -> Pytree:
    """values[index] of arrays [R, ...] of numbers, for arms `index` of any shape, on all
    devices."""
    if shard is None:
        return jax.tree.map(lambda x: x[index], values)

    def mine(x: Array) -> Array:
        place = local(shard, index, x.shape[0])
        found = x[jnp.minimum(place, x.shape[0] - 1)]
        here = lax.expand_dims(place < x.shape[0], range(place.ndim, found.ndim))
        return jnp.where(here, found, 0)

    # all but one are zero: the sum is exact
    return lax.psum(jax.tree.map(mine, values), shard.axis)


def on_host(domain: Arms, index: np.ndarray) -> np.ndarray:
    """The features of arms `index`, [n, d], outside of any program; over several processes, on all
    of them."""
    if domain.shard is None:
        return np.asarray(domain.features)[index]
    found: Any = domain.features.sharding
    taken = jax.shard_map(
        lambda rows: take(domain.shard, rows, jnp.asarray(index, jnp.int32)),
        mesh=found.mesh,
        in_specs=P(domain.shard.axis),
        out_specs=P(),
        check_vma=False,
    )
    return np.asarray(jax.jit(taken)(domain.features))


def put(shard: Shard | None, values: Array, index: Array, value: Array) -> Array:
    """values [R] with values[index] = value for one arm."""
    if shard is None:
        return linalg.put(values, index, value)
    place = local(shard, index, values.shape[0])
    return linalg.put_if(place < values.shape[0], values, place, value)


def add(shard: Shard | None, values: Array, index: Array, amount: Array) -> Array:
    """values [R] with values[index] larger by an amount, for one arm."""
    place = local(shard, index, values.shape[0])
    return put(shard, values, index, values[place] + amount)


def lookup(shard: Shard | None, values: Array, index: Array) -> Callable[[Array], Array]:
    """i -> values[index[i]], for values [R] and arms `index` [n]: for a loop, in which every call
    would be a message."""
    if shard is None:
        return lambda i: values[index[i]]
    table = take(shard, values, index)
    return lambda i: table[i]


def total(shard: Shard | None, value: Array) -> Array:
    """The sum over devices."""
    return value if shard is None else lax.psum(value, shard.axis)


def largest(shard: Shard | None, value: Array) -> Array:
    """The largest over devices; NaN where one has it."""
    return value if shard is None else lax.all_gather(value, shard.axis).max(0)


def everywhere(shard: Shard | None, flag: Array) -> Array:
    """Whether it is true on all devices."""
    return flag if shard is None else lax.all_gather(flag, shard.axis).all(0)


def argmax(shard: Shard | None, values: Array) -> Array:
    """The arm with the largest of values [..., R], the first where several have it, [...] int32."""
    best = jnp.argmax(values, -1).astype(jnp.int32)
    if shard is None:
        return best
    top = jnp.take_along_axis(values, best[..., None], -1)[..., 0]
    tops, arms = gather(shard, (top, best + _first(shard, values.shape[-1])))
    # devices are in the order of their arms: the first one has the lower number
    return jnp.take_along_axis(arms, jnp.argmax(tops, 0)[None], 0)[0]


def gather(shard: Shard, values: Pytree) -> Pytree:
    """What every device has, [devices, ...], in the order of the arms."""
    return lax.all_gather(values, shard.axis)


def running_count(shard: Shard | None, mask: Array) -> Array:
    """Number of true entries of the arms up to and including each, [R] int32."""
    running = linalg.running_count(mask)
    if shard is None:
        return running
    counts = gather(shard, running[-1])
    before = jnp.arange(counts.shape[0], dtype=jnp.int32) < lax.axis_index(shard.axis)
    return running + jnp.where(before, counts, 0).sum(dtype=jnp.int32)


def last(shard: Shard | None, running: Array) -> Array:
    """Number of true entries of all arms, [] int32, of their `running_count`."""
    return running[-1] if shard is None else lax.pmax(running[-1], shard.axis)


def compact(
    shard: Shard | None, running: Array, start: Array | int, size: int
) -> tuple[Array, Array]:
    """`linalg.compact` of a `running_count` over all arms: (arms [size], valid [size])."""
    if shard is None:
        return linalg.compact(running, start, size)
    rows = running.shape[0]
    rank = start + jnp.arange(1, size + 1, dtype=jnp.int32)
    place = jnp.searchsorted(running, rank).astype(jnp.int32)
    # the device of the entry and those after it have counted so many: the entry is at the first
    found = jnp.where(place < rows, place + _first(shard, rows), NOWHERE)
    valid = rank <= last(shard, running)
    return jnp.where(valid, lax.pmin(found, shard.axis), 0), valid


def uniform(shard: Shard | None, key: PRNGKey, rows: int, dtype: Any) -> Array:
    """jax.random.uniform of (A,), the rows here, [R]."""
    if shard is None:
        return jax.random.uniform(key, (rows,), dtype)
    if not _counts(key, shard.arms):
        return _part(shard, jax.random.uniform(key, (shard.arms,), dtype), rows)
    return _uniform(key, numbers(shard, rows).astype(jnp.uint32), dtype)


def check_counting(key: PRNGKey, arms: int) -> None:
    """Raises ValueError for a key with which numbers for some of so many arms cannot be drawn
    alone."""
    if not _counts(key, arms):
        raise ValueError(
            "a key of JAX's default kind (threefry2x32, jax_threefry_partitionable) draws for some"
            " arms alone, as jax.random.key(0) does; with this one all arms would be drawn for."
        )


def uniform_at(key: PRNGKey, index: Array, arms: int, dtype: Any) -> Array:
    """The entries `index` [n] of jax.random.uniform of (arms,), [n]; the others are not drawn.
    Raises ValueError as `check_counting`."""
    check_counting(key, arms)
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    return _uniform(key, index.astype(jnp.uint32), dtype)


def normal(shard: Shard | None, key: PRNGKey, batch: int, rows: int, dtype: Any) -> Array:
    """jax.random.normal of (batch, A), the rows here, [batch, R]."""
    if shard is None:
        return jax.random.normal(key, (batch, rows), dtype)
    if not _counts(key, batch * shard.arms):
        return _part(shard, jax.random.normal(key, (batch, shard.arms), dtype), rows)
    slots = jnp.arange(batch, dtype=jnp.uint32)[:, None] * np.uint32(shard.arms)
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    between = _uniform(key, slots + numbers(shard, rows).astype(jnp.uint32), dtype)
    # the same operations, in the same order, as in jax.random
    symmetric = jnp.maximum(low, between * (np.array(1, dtype) - low) + low)
    return jnp.asarray(np.array(np.sqrt(2), dtype) * lax.erf_inv(symmetric))


def _first(shard: Shard, rows: int) -> Array:
    """The arm of the first row here, [] int32."""
    return lax.axis_index(shard.axis) * rows


def _counts(key: PRNGKey, size: int) -> bool:
    """Whether the i-th of so many numbers of a key depends on the key and i alone, as
    `fold_in(key, i)` does: then a device draws those of its own arms only."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    plain = str(jax.random.key_impl(key)) == "threefry2x32"
    counted = bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]
    return plain and counted and size < COUNTERS


def _uniform(key: PRNGKey, counters: Array, dtype: Any) -> Array:
    """The uniform numbers that a key gives at these positions (uint32) of an array.

    With jax_threefry_partitionable the bits of position i are the words of fold_in(key, i), their
    exclusive or for numbers of 32 bits; a test compares with jax.random.
    """
    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(counters.reshape(-1))
    data = jax.random.key_data(folded) if folded.ndim == 1 else folded
    high, low = data[:, 0], data[:, 1]
    info = jnp.finfo(dtype)
    if info.bits == 64:
        bits = (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    else:
        bits = high ^ low
    kind = bits.dtype.type
    one = np.array(1, dtype).view(kind)
    mantissa = (bits >> kind(info.bits - info.nmant)) | one
    return (lax.bitcast_convert_type(mantissa, dtype) - np.array(1, dtype)).reshape(counters.shape)


def _part(shard: Shard, values: Array, rows: int) -> Array:
    """The rows here of values [..., A] that every device has drawn whole."""
    missing = lax.psum(1, shard.axis) * rows - shard.arms
    whole = jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)], constant_values=1)
    return lax.dynamic_slice_in_dim(whole, _first(shard, rows), rows, -1)
