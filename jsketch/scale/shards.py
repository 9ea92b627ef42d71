"""Operations over arms whose rows are on the devices of a mesh.

An algorithm runs under `jax.shard_map` (`scale.sharded`): every device runs the same program with
its R rows of every array [A]. The operations that combine arms are methods of the domain's `rows`
(`linalg.Rows`, or `Shard` here). The last rows may be padding, which `mask` excludes.

Every result except the rows themselves is the same on all devices, to the last bit. Therefore loops
end in the same step on all of them. A message has a few numbers from each device, or the rows of
the arms that are read, but never an array [A].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec as P

from jsketch import linalg
from jsketch.linalg import Pytree, Rows
from jsketch.types import PRNGKey

NO_ARM = np.iinfo(np.int32).max
COUNTERS = 2**32  # in a smaller array of random numbers, each entry has its own 32-bit counter


@dataclass(frozen=True)
class Shard(Rows):
    """The rows of A arms along an axis of a mesh. The operations are documented in
    `linalg.Rows`."""

    axis: str  # of the mesh
    arms: int  # A, without padding

    def arm_numbers(self, rows: int) -> Array:
        return jnp.arange(rows, dtype=jnp.int32) + self._first_arm(rows)

    def local(self, index: Array, rows: int) -> Array:
        row = index - self._first_arm(rows)
        return jnp.where((row >= 0) & (row < rows), row, rows)

    def mask(self, values: Array, fill: float) -> Array:
        return jnp.where(self.arm_numbers(values.shape[-1]) < self.arms, values, fill)

    def on_host(self, values: Array, index: np.ndarray) -> np.ndarray:
        sharding: Any = values.sharding
        take = jax.shard_map(
            lambda rows: self.take(rows, jnp.asarray(index, jnp.int32)),
            mesh=sharding.mesh,
            in_specs=P(self.axis),
            out_specs=P(),
            check_vma=False,
        )
        return np.asarray(jax.jit(take)(values))

    def take(self, values: Array, index: Array) -> Array:
        rows = values.shape[0]
        row = self.local(index, rows)
        entries = values[jnp.minimum(row, rows - 1)]
        is_here = lax.expand_dims(row < rows, range(row.ndim, entries.ndim))
        # the sum is exact, because all terms but one are zero
        return lax.psum(jnp.where(is_here, entries, 0), self.axis)

    def add(self, values: Array, index: Array, amount: Array) -> Array:
        row = self.local(index, values.shape[0])
        value = values[row] + amount
        return linalg.put_if(row < values.shape[0], values, row, value)

    def sum(self, value: Array) -> Array:
        return lax.psum(value, self.axis)

    def max(self, value: Array) -> Array:
        return self.gather(value).max(0)

    def all(self, value: Array) -> Array:
        return self.gather(value).all(0)

    def argmax(self, values: Array) -> Array:
        best = super().argmax(values)
        top = jnp.take_along_axis(values, best[..., None], -1)[..., 0]
        tops, arms = self.gather((top, best + self._first_arm(values.shape[-1])))
        # devices are in the order of their arms: the first maximum has the lowest arm number
        return jnp.take_along_axis(arms, jnp.argmax(tops, 0)[None], 0)[0]

    def gather(self, values: Pytree) -> Pytree:
        """The values of all devices, [devices, ...], in the order of the arms."""
        return lax.all_gather(values, self.axis)

    def running_count(self, mask: Array) -> Array:
        own_count = linalg.running_count(mask)
        counts = self.gather(own_count[-1])
        is_earlier = jnp.arange(counts.shape[0], dtype=jnp.int32) < lax.axis_index(self.axis)
        return own_count + jnp.where(is_earlier, counts, 0).sum(dtype=jnp.int32)

    def total(self, running_count: Array) -> Array:
        # the count in the last row of the last device
        return lax.pmax(running_count[-1], self.axis)

    def compact(self, running_count: Array, start: Array | int, size: int) -> tuple[Array, Array]:
        rows = running_count.shape[0]
        rank = start + jnp.arange(1, size + 1, dtype=jnp.int32)
        row = jnp.searchsorted(running_count, rank).astype(jnp.int32)
        # the entry is on the first device whose count reaches the rank: pmin chooses its arm
        arms = jnp.where(row < rows, row + self._first_arm(rows), NO_ARM)
        valid = rank <= self.total(running_count)
        return jnp.where(valid, lax.pmin(arms, self.axis), 0), valid

    def largest(self, scores: Array, count: int) -> tuple[Array, Array]:
        rows = scores.shape[0]
        index, own_next_best = linalg.largest(scores, min(count, rows))
        arms = self.arm_numbers(rows)[index]
        # where only scores of -inf remain, `linalg.largest` repeats a position; it counts once
        repeated = jnp.concatenate([jnp.zeros(1, bool), index[1:] == index[:-1]])
        own_scores = jnp.where(repeated, -jnp.inf, scores[index])
        scores, arms = (x.reshape(-1) for x in self.gather((own_scores, arms)))
        index, next_best = linalg.largest(scores, count)
        return arms[index], jnp.maximum(next_best, self.max(own_next_best))

    def uniform(self, key: PRNGKey, shape: tuple[int], dtype: Any) -> Array:
        (rows,) = shape
        if not _has_counters(key, self.arms):
            return self._local_part(jax.random.uniform(key, (self.arms,), dtype), rows)
        return _uniform(key, self.arm_numbers(rows).astype(jnp.uint32), dtype)

    def normal(self, key: PRNGKey, shape: tuple[int, int], dtype: Any) -> Array:
        batch, rows = shape
        if not _has_counters(key, batch * self.arms):
            return self._local_part(jax.random.normal(key, (batch, self.arms), dtype), rows)
        offsets = jnp.arange(batch, dtype=jnp.uint32)[:, None] * np.uint32(self.arms)
        low = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
        uniform = _uniform(key, offsets + self.arm_numbers(rows).astype(jnp.uint32), dtype)
        # the same operations, in the same order, as in jax.random
        symmetric = jnp.maximum(low, uniform * (np.array(1, dtype) - low) + low)
        return jnp.asarray(np.array(np.sqrt(2), dtype) * lax.erf_inv(symmetric))

    def _first_arm(self, rows: int) -> Array:
        """The index [] int32 of the arm in the first row of this device."""
        return lax.axis_index(self.axis) * rows

    def _local_part(self, values: Array, rows: int) -> Array:
        """The entries of this device's rows, from values [..., A] that every device has drawn."""
        n_padding = lax.psum(1, self.axis) * rows - self.arms
        padding = [(0, 0)] * (values.ndim - 1) + [(0, n_padding)]
        padded = jnp.pad(values, padding, constant_values=1)
        return lax.dynamic_slice_in_dim(padded, self._first_arm(rows), rows, -1)


def check_counting(key: PRNGKey, n_arms: int) -> None:
    """Raises ValueError unless the random number of one of `n_arms` arms can be drawn from the key
    alone, without the random numbers of other arms."""
    if not _has_counters(key, n_arms):
        raise ValueError(
            "random numbers of single arms need a key of JAX's default implementation, threefry2x32"
            " with jax_threefry_partitionable, such as jax.random.key(0)."
        )


def uniform_at(key: PRNGKey, index: Array, n_arms: int, dtype: Any) -> Array:
    """The entries `index` [n] of jax.random.uniform of shape (n_arms,), [n], without drawing the
    others. Raises what `check_counting` raises."""
    check_counting(key, n_arms)
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    return _uniform(key, index.astype(jnp.uint32), dtype)


def _has_counters(key: PRNGKey, count: int) -> bool:
    """Whether the i-th of `count` random numbers depends only on the key and on i. If it does, a
    device draws only the random numbers of its arms."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    is_threefry = str(jax.random.key_impl(key)) == "threefry2x32"
    partitionable = bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]
    return is_threefry and partitionable and count < COUNTERS


def _uniform(key: PRNGKey, counters: Array, dtype: Any) -> Array:
    """The entries of jax.random.uniform(key, ...) at the positions `counters` (uint32).

    With jax_threefry_partitionable the bits of position i are the two words of fold_in(key, i), or,
    for numbers of 32 bits, the xor of both words. A test compares the numbers with jax.random.
    """
    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(counters.reshape(-1))
    words = jax.random.key_data(folded) if folded.ndim == 1 else folded
    high, low = words[:, 0], words[:, 1]
    finfo = jnp.finfo(dtype)
    if finfo.bits == 64:
        bits = (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    else:
        bits = high ^ low
    unsigned = bits.dtype.type
    # random bits as the mantissa of a number in [1, 2)
    bits = (bits >> unsigned(finfo.bits - finfo.nmant)) | np.array(1, dtype).view(unsigned)
    return (lax.bitcast_convert_type(bits, dtype) - np.array(1, dtype)).reshape(counters.shape)
