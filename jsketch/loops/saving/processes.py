"""Runs whose arms lie over several processes: process 0 reads and writes their files, the others
hear of it. Every process calls all of this, in the same order."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

DIGITS = 30  # bits of a number that is sent: 32 are not there for all


def is_over(tree: Any) -> bool:
    """Whether an array of it lies on devices of other processes too."""
    return any(_global(leaf) for leaf in jax.tree.leaves(tree))


def _global(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not leaf.is_fully_addressable


def is_spread(value: Any) -> bool:
    """Whether it is an array that no process has whole."""
    return _global(value) and not value.is_fully_replicated


def whole(tree: Any) -> Any:
    """The tree with such arrays in the memory of each process, whole."""

    def one(leaf: Any) -> Any:
        if is_spread(leaf):
            return multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf) if _global(leaf) else leaf

    return jax.tree.map(one, tree)


def placed(tree: Any, like: Any) -> Any:
    """The arrays of a tree where those of another one are."""

    def one(value: Any, there: Any) -> Any:
        if not _global(there):
            return jnp.asarray(value)
        numbers = np.asarray(value, there.dtype)
        return jax.make_array_from_callback(there.shape, there.sharding, lambda at: numbers[at])

    return jax.tree.map(one, tree, like)


def digest(array: jax.Array) -> str:
    """Of an array that no process has whole: of what each has, in the order of the processes."""
    parts = {str(part.index): part for part in array.addressable_shards}
    mine = hashlib.sha256()
    for part in parts.values():
        mine.update(np.ascontiguousarray(part.data).tobytes())
    bytes_of = np.frombuffer(mine.digest(), np.uint8)
    return hashlib.sha256(multihost_utils.process_allgather(bytes_of).tobytes()).hexdigest()


def writes(over: bool) -> bool:
    """Whether this process writes the file of a run that is over several, or is not."""
    return not over or jax.process_index() == 0


def content(path: Path, over: bool) -> bytes | None:
    """A file, None where there is none; over several processes what process 0 finds, so that a disk
    of its own is enough."""
    found = path.read_bytes() if writes(over) and path.exists() else None
    if not over:
        return found
    size = divmod(len(found or b""), 1 << DIGITS)
    there, high, low = from_first(np.array([found is not None, *size], np.int32)).tolist()
    mine = np.zeros((high << DIGITS) + low, np.uint8) if found is None else found
    return from_first(np.frombuffer(mine, np.uint8)).tobytes() if there else None


def from_first(values: np.ndarray) -> np.ndarray:
    """What process 0 gives, on all of them."""
    return np.asarray(multihost_utils.broadcast_one_to_all(values))
