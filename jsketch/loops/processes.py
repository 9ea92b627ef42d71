"""Arrays and files of runs whose arms lie over several processes. Process 0 alone reads and writes
the files. Every process calls all of these functions, in the same order."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

# bits of an integer that is sent between processes: JAX without 64-bit numbers holds 32
BITS = 30


def is_shared(tree: Any) -> bool:
    """Whether some array of the tree lies on devices of other processes too."""
    return any(_is_global(leaf) for leaf in jax.tree.leaves(tree))


def _is_global(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not leaf.is_fully_addressable


def is_partitioned(value: Any) -> bool:
    """Whether the value is an array of which no process has all entries."""
    return _is_global(value) and not value.is_fully_replicated


def whole(tree: Any) -> Any:
    """The tree with all entries of its arrays in the memory of each process."""

    def one(leaf: Any) -> Any:
        if is_partitioned(leaf):
            return multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf) if _is_global(leaf) else leaf

    return jax.tree.map(one, tree)


def placed(tree: Any, like: Any) -> Any:
    """The arrays of the tree on the devices of the arrays of `like`."""

    def one(value: Any, target: Any) -> Any:
        if not _is_global(target):
            return jnp.asarray(value)
        numbers = np.asarray(value, target.dtype)
        return jax.make_array_from_callback(target.shape, target.sharding, lambda at: numbers[at])

    return jax.tree.map(one, tree, like)


def digest(array: jax.Array) -> str:
    """The hash of a partitioned array: of the parts of all processes in their order."""
    parts = {str(part.index): part for part in array.addressable_shards}
    local = hashlib.sha256()
    for part in parts.values():
        local.update(np.ascontiguousarray(part.data).tobytes())
    digests = multihost_utils.process_allgather(np.frombuffer(local.digest(), np.uint8))
    return hashlib.sha256(digests.tobytes()).hexdigest()


def writes(shared: bool) -> bool:
    """Whether this process writes the file of a run."""
    return not shared or jax.process_index() == 0


def content(path: Path, shared: bool) -> bytes | None:
    """The content of a file, None where there is none; in a shared run, what process 0 reads."""
    bytes_read = path.read_bytes() if writes(shared) and path.exists() else None
    if not shared:
        return bytes_read
    size = divmod(len(bytes_read or b""), 1 << BITS)
    exists, high, low = _from_first(np.array([bytes_read is not None, *size], np.int32)).tolist()
    sent = np.zeros((high << BITS) + low, np.uint8) if bytes_read is None else bytes_read
    return _from_first(np.frombuffer(sent, np.uint8)).tobytes() if exists else None


def of_first(value: bool, shared: bool) -> bool:
    """The value; in a shared run, that of process 0."""
    return bool(_from_first(np.array(value))) if shared else value


def _from_first(values: np.ndarray) -> np.ndarray:
    return np.asarray(multihost_utils.broadcast_one_to_all(values))
