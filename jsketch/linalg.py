"""Masked linear algebra in static shapes: products, padding, compaction. No GP words here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import devices

Pytree = TypeVar("Pytree")
Given = TypeVar("Given")

UPPER_FROM = 96  # M from which the zeros of a triangular matrix are worth skipping
# column blocks of a product with a triangular matrix: 2/3 of the flops of a full one, as fast as
# six of them (7/12)
UPPER_BLOCKS = 3
ROWS = 64  # of a product with few rows, at a time


def matmul(a: Array, b: Array) -> Array:
    """a @ b at full precision. Accelerators otherwise round float32 products until Gram matrices
    lose positivity."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def aligned(vector: ArrayLike, x: Array) -> Array:
    """A vector [d] as [1, ..., 1, d], of the rank of x [..., d], for sums and products with x; a
    number as it is."""
    vector = jnp.asarray(vector)
    return vector if vector.ndim == 0 else lax.expand_dims(vector, range(x.ndim - vector.ndim))


def put(array: Array, index: Array, value: Array) -> Array:
    """array with array[index] = value for one index in range; `.at[].set` is a scatter, slow to
    compile and to run."""
    return lax.dynamic_update_index_in_dim(array, jnp.asarray(value, array.dtype), index, 0)


def put_if(needed: Array, array: Array, index: Array, value: Array) -> Array:
    """`put` if needed [], else the array: a choice between two entries and not between two arrays,
    which under vmap are copied. The index may be out of range when nothing is put."""
    return put(
        array, index, jnp.where(needed, value, lax.dynamic_index_in_dim(array, index, 0, False))
    )


def lazy_cond(needed: Array, change: Callable[[Pytree], Pytree], old: Pytree) -> Pytree:
    """change(old) if needed [], else old, of the same shapes. Under vmap the change is paid for
    only when some run needs it, where `lax.cond` pays in every round."""
    start = (needed, old)
    return lax.while_loop(
        lambda both: both[0], lambda both: (jnp.zeros_like(both[0]), change(both[1])), start
    )[1]


@jax.custom_batching.custom_vmap
def any_over_vmap(flag: Array) -> Array:
    """flag []; under vmap whether it is true for any run, the same for all.

    The condition of a loop whose step changes nothing in a run that has ended: where runs have
    conditions of their own, vmap copies the whole carry of every run in every step.
    """
    return flag


@any_over_vmap.def_vmap
def _any_over_vmap(runs: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return any_over_vmap(flag.any(0) if batched[0] else flag), False


def cond_per_run(
    needed: Array, change: Callable[[Pytree, Given], Pytree], old: Pytree, given: Given
) -> Pytree:
    """change(old, given) if needed [], else old, as `lazy_cond`; under vmap the runs that need it
    are changed one after the other, and the others pay nothing.

    For a change that costs much more than reading what it is `given`; it closes over no array. On
    an accelerator all runs are changed together.
    """
    if devices.on_accelerator():
        return lazy_cond(needed, lambda old: change(old, given), old)

    def one_run(needed: Array, old: Pytree, given: Given) -> Pytree:
        return lazy_cond(needed, lambda old: change(old, given), old)

    # the outer one: where no run needs it none is visited
    return lazy_cond(needed, lambda old: sequential_vmap(one_run, needed, old, given), old)


def sequential_vmap(function: Callable[..., Pytree], *args: Any) -> Pytree:
    """function(*args), an array function that closes over no array. Under vmap on a CPU the runs
    are taken one after the other: what works in chunks that fit a cache would otherwise work in
    chunks of all runs, that do not. Where an argument is no pytree of arrays and numbers, which may
    hide an array, all runs are taken together."""
    leaves, tree = jax.tree.flatten(args)
    # numbers are the same for all runs, and keep their (weak) types
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]
    plain = all(isinstance(leaf, Array | np.ndarray | np.generic | float | int) for leaf in leaves)
    if devices.on_accelerator() or not plain:
        return function(*args)

    def whole(*arrays: Array) -> Pytree:
        given = list(leaves)
        for i, array in zip(positions, arrays, strict=True):
            given[i] = array
        return function(*jax.tree.unflatten(tree, given))

    one_run = jax.custom_batching.custom_vmap(whole)

    @one_run.def_vmap
    def _runs(count: int, batched: list[bool], *arrays: Array) -> tuple[Pytree, Pytree]:
        def one(some: list[Array]) -> Pytree:
            found = iter(some)
            return one_run(*(next(found) if b else a for a, b in zip(arrays, batched, strict=True)))

        mapped = [array for array, b in zip(arrays, batched, strict=True) if b]
        # none is mapped where only derivatives are
        out = lax.map(one, mapped) if mapped else whole(*arrays)
        return out, jax.tree.map(lambda _: bool(mapped), out)

    return one_run(*(leaves[i] for i in positions))


def matmul_rows(a: Array, b: Array, rows: Array) -> Array:
    """a [n,k] @ b [k,m] for a whose rows are zero from number `rows` [] on: in blocks, of those
    rows alone."""
    if devices.on_accelerator() or a.shape[0] <= ROWS:
        return matmul(a, b)

    def block(i: Array, product: Array) -> Array:
        # the last block may begin earlier, and write some rows again
        some = matmul(lax.dynamic_slice_in_dim(a, i * ROWS, ROWS), b)
        return lax.dynamic_update_slice_in_dim(product, some, i * ROWS, 0)

    zeros = jnp.zeros((a.shape[0], b.shape[1]), a.dtype)
    return lax.fori_loop(0, (rows + ROWS - 1) // ROWS, block, zeros)


def matmul_upper(a: Array, upper: Array) -> Array:
    """a [n,M] @ upper [M,M], upper triangular: in column blocks that skip the zeros, when M is
    large enough to pay."""
    return jnp.concatenate(_column_blocks(a, upper), axis=1)


def squares_upper(a: Array, upper: Array) -> Array:
    """|a_i @ upper|^2 of the rows of a [n,M], [n], for upper [M,M] upper triangular. The product is
    never put together, which would take a third as long as it does."""
    zeros = jnp.zeros(a.shape[0], a.dtype)
    return sum((jnp.square(block).sum(1) for block in _column_blocks(a, upper)), zeros)


def upper_outer(upper: Array) -> Array:
    """upper @ upper^T, [M,M], for upper [M,M] upper triangular: a third of the flops, without its
    zeros and what symmetry tells."""
    blocks = [
        jnp.pad(
            matmul(upper[:end, begin:], upper[begin:end, begin:].T), ((0, len(upper) - end), (0, 0))
        )
        for begin, end in pairwise(_edges(len(upper)))
    ]
    product = jnp.concatenate(blocks, axis=1)
    return jnp.triu(product) + jnp.triu(product, 1).T


def _edges(size: int) -> list[int]:
    """Where the column blocks of a triangular matrix begin and end."""
    count = 1 if size < UPPER_FROM else UPPER_BLOCKS
    return [size * i // count for i in range(count + 1)]


def _column_blocks(a: Array, upper: Array) -> list[Array]:
    """The columns of a [n,M] @ upper [M,M], upper triangular, in blocks."""
    return [
        matmul(a[:, :end], upper[:end, begin:end]) for begin, end in pairwise(_edges(len(upper)))
    ]


def chunked(size: int, target: int) -> tuple[int, int]:
    """(number of chunks, chunk length) that cover `size` rows in nearly equal pieces of at most
    `target`."""
    count = -(-size // target)
    return count, -(-size // count)


def pad_identity(matrix: Array, size: int) -> Array:
    """A square matrix [M,M] as the first block of one of the given size, the identity below it."""
    slots = jnp.arange(size, dtype=jnp.int32)
    free = (slots >= matrix.shape[0])[None, :] & (slots[:, None] == slots[None, :])
    return jnp.where(free, 1, jnp.pad(matrix, (0, size - matrix.shape[0])))


def running_count(mask: Array) -> Array:
    """Number of true entries up to and including each position of mask [A], [A] int32; what
    `compact` searches."""
    return jnp.cumsum(mask, dtype=jnp.int32)


def compact(running: Array, start: Array | int, size: int) -> tuple[Array, Array]:
    """`size` positions of true entries from the start-th on, in order: (index [size], valid
    [size]).

    running [A] is the mask's `running_count`. Slots after the last true entry are invalid and hold
    index 0. A binary search, because the scatter that `jnp.nonzero` needs is slow on a CPU.
    """
    rank = start + jnp.arange(1, size + 1, dtype=jnp.int32)
    valid = rank <= running[-1]
    index = jnp.searchsorted(running, rank).astype(jnp.int32)
    return jnp.where(valid, index, 0), valid
