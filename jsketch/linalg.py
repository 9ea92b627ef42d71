"""Linear algebra in static shapes: products, padding, compaction, and factorizations that consist
of products."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import devices

Pytree = TypeVar("Pytree")
Args = TypeVar("Args")

MIN_UPPER_SIZE = 96  # the least M for which products skip the zeros of a triangular matrix
# number of column blocks in a product with a triangular matrix; three blocks take 2/3 of the flops
# of a full product and are as fast as six
UPPER_BLOCKS = 3
# entries of a chunk of features in a sweep over all arms: enough for efficient matrix products, and
# few enough for the cache of a CPU
SWEEP_ENTRIES, SWEEP_ENTRIES_ACCELERATOR = 640_000, 16_000_000
ROWS = 64  # rows in a block of `matmul_rows`
BLOCK = 32  # columns in a block of a factorization; within a block they are eliminated one by one
# An accelerator factorizes without pivoting if all eigenvalues exceed MARGIN times the rank cut.
# Large pivots do not suffice: all may exceed 100 times a cut that an eigenvalue does not exceed.
MARGIN = 100.0


# a @ b at full precision: by default accelerators round float32 products, and Gram matrices lose
# positivity
matmul = partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def aligned(vector: ArrayLike, x: Array) -> Array:
    """A vector [d] reshaped to [1, ..., 1, d], with the rank of x [..., d], for sums and products
    with x. A number is unchanged."""
    vector = jnp.asarray(vector)
    return vector if vector.ndim == 0 else lax.expand_dims(vector, range(x.ndim - vector.ndim))


def put(array: Array, index: Array, value: Array) -> Array:
    """The array with array[index] = value, for one index in range. Unlike `.at[].set` this is not a
    scatter, which is slow to compile and to run."""
    return lax.dynamic_update_index_in_dim(array, jnp.asarray(value, array.dtype), index, 0)


def put_if(needed: Array, array: Array, index: Array, value: Array) -> Array:
    """`put` if `needed` [] is true, else the array; the index may then be out of range. Only the
    entry is selected, because under vmap a selection between two arrays would copy them."""
    return put(
        array, index, jnp.where(needed, value, lax.dynamic_index_in_dim(array, index, 0, False))
    )


def lazy_cond(needed: Array, change: Callable[[Pytree], Pytree], old: Pytree) -> Pytree:
    """change(old) if `needed` [] is true, else old; both have the same shapes. Under vmap the
    change is computed only if some run needs it, whereas `lax.cond` would always compute it."""

    def step(carry: tuple[Array, Pytree]) -> tuple[Array, Pytree]:
        return jnp.zeros_like(carry[0]), change(carry[1])

    return lax.while_loop(lambda carry: carry[0], step, (needed, old))[1]


@jax.custom_batching.custom_vmap
def any_over_vmap(flag: Array) -> Array:
    """The flag [] itself; under vmap, whether the flag of any run is true, one value for all runs.

    The value is the condition of loops whose step does not change the runs that have ended. With a
    condition for each run, vmap would copy the carry of every run in every step.
    """
    return flag


@any_over_vmap.def_vmap
def _any_over_vmap(runs: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return any_over_vmap(flag.any(0) if batched[0] else flag), False


def cond_per_run(
    needed: Array, change: Callable[[Pytree, Args], Pytree], old: Pytree, args: Args
) -> Pytree:
    """change(old, args) if `needed` [] is true, else old, as in `lazy_cond`. Under vmap on a CPU
    the runs that need the change are computed one after the other, and the other runs cost nothing;
    on an accelerator all runs are computed together. The change must not close over arrays."""

    def one_run(needed: Array, old: Pytree, args: Args) -> Pytree:
        return lazy_cond(needed, lambda old: change(old, args), old)

    if devices.on_accelerator():
        return one_run(needed, old, args)
    # because of the outer condition, no run is visited if none needs the change
    return lazy_cond(needed, lambda old: sequential_vmap(one_run, needed, old, args), old)


def sequential_vmap(function: Callable[..., Pytree], *args: Any) -> Pytree:
    """function(*args), for a function that closes over no array. Under vmap on a CPU the runs are
    computed one after the other, because chunks that fit the cache for one run do not fit it for
    all. All runs are computed together if a leaf of the arguments is neither an array nor a
    number."""
    leaves, tree = jax.tree.flatten(args)
    is_array = [isinstance(leaf, Array) for leaf in leaves]
    # numbers are the same for all runs and keep their weak types
    numbers = [leaf for leaf in leaves if not isinstance(leaf, Array)]
    if devices.on_accelerator() or not all(
        isinstance(number, np.ndarray | np.generic | float | int) for number in numbers
    ):
        return function(*args)

    # The rule below is kept with the traced program: it must not close over `leaves`, whose
    # tracers would then outlive their trace.
    def on_arrays(*arrays: Array) -> Pytree:
        array, number = iter(arrays), iter(numbers)
        arguments = [next(array) if a else next(number) for a in is_array]
        return function(*jax.tree.unflatten(tree, arguments))

    one_run = jax.custom_batching.custom_vmap(on_arrays)

    @one_run.def_vmap
    def _runs(n_runs: int, batched: list[bool], *arrays: Array) -> tuple[Pytree, Pytree]:
        def run_slices(slices: list[Array]) -> Pytree:
            remaining = iter(slices)
            return one_run(
                *(next(remaining) if b else a for a, b in zip(arrays, batched, strict=True))
            )

        mapped = [array for array, b in zip(arrays, batched, strict=True) if b]
        # a vmap of derivatives only, as in `jax.jacfwd`, maps none of the arrays
        results = lax.map(run_slices, mapped) if mapped else on_arrays(*arrays)
        return results, jax.tree.map(lambda _: bool(mapped), results)

    return one_run(*(leaf for leaf in leaves if isinstance(leaf, Array)))


def matmul_rows(a: Array, b: Array, n_rows: Array) -> Array:
    """a [n,k] @ b [k,m]; the rows of a after the first `n_rows` [] are zero and skipped."""
    if devices.on_accelerator() or a.shape[0] <= ROWS:
        return matmul(a, b)

    def block(i: Array, product: Array) -> Array:
        # the last slice is shifted into the array, and some rows are written twice
        part = matmul(lax.dynamic_slice_in_dim(a, i * ROWS, ROWS), b)
        return lax.dynamic_update_slice_in_dim(product, part, i * ROWS, 0)

    zeros = jnp.zeros((a.shape[0], b.shape[1]), a.dtype)
    return lax.fori_loop(0, (n_rows + ROWS - 1) // ROWS, block, zeros)


def matmul_upper(a: Array, upper: Array) -> Array:
    """a [n,M] @ upper, for upper [M,M] upper triangular, in column blocks that skip the zeros."""
    blocks = []
    for begin, end in _column_blocks(len(upper)):
        blocks.append(matmul(a[:, :end], upper[:end, begin:end]))
    return jnp.concatenate(blocks, axis=1)


def squares_upper(a: Array, upper: Array) -> Array:
    """The squared lengths [n] of the rows of a [n,M] @ upper, for upper [M,M] upper triangular.
    The column blocks are not concatenated, which would take a third of the time of the product."""
    total = jnp.zeros(a.shape[0], a.dtype)
    for begin, end in _column_blocks(len(upper)):
        total = total + jnp.square(matmul(a[:, :end], upper[:end, begin:end])).sum(1)
    return total


def upper_outer(upper: Array) -> Array:
    """upper @ upper^T, [M,M], for upper [M,M] upper triangular. The product skips the zeros and the
    entries that symmetry determines, and takes a third of the flops of a full product."""
    blocks = []
    for begin, end in _column_blocks(len(upper)):
        block = matmul(upper[:end, begin:], upper[begin:end, begin:].T)
        blocks.append(jnp.pad(block, ((0, len(upper) - end), (0, 0))))
    product = jnp.concatenate(blocks, axis=1)
    return jnp.triu(product) + jnp.triu(product, 1).T


def _column_blocks(size: int) -> Iterator[tuple[int, int]]:
    """The (first column, end) of each column block of a triangular matrix with `size` columns."""
    count = 1 if size < MIN_UPPER_SIZE else UPPER_BLOCKS
    return pairwise((size * np.arange(count + 1) // count).tolist())


def map_rows(function: Callable[[Array], Pytree], x: Array, columns: int) -> Pytree:
    """function(x) for x [n,d], computed in equal chunks of rows, the last of which is padded. A
    table with `columns` entries for each row of a chunk has at most SWEEP_ENTRIES entries. Arrays
    that the function returns have n rows in the result; a number becomes an array over chunks."""
    n = x.shape[0]
    entries = SWEEP_ENTRIES_ACCELERATOR if devices.on_accelerator() else SWEEP_ENTRIES
    n_chunks = -(-n // max(entries // columns, 1))
    n_rows = -(-n // n_chunks)
    padded = jnp.pad(x, ((0, n_chunks * n_rows - n), (0, 0)), mode="edge")

    def merge(leaf: Array) -> Array:
        return leaf if leaf.ndim == 1 else leaf.reshape(-1, *leaf.shape[2:])[:n]

    return jax.tree.map(merge, lax.map(function, padded.reshape(n_chunks, n_rows, -1)))


def pad_identity(matrix: Array, size: int) -> Array:
    """The matrix [M,M] in the upper left of an identity matrix with `size` rows."""
    slots = jnp.arange(size, dtype=jnp.int32)
    is_padding = (slots >= matrix.shape[0])[None, :] & (slots[:, None] == slots[None, :])
    return jnp.where(is_padding, 1, jnp.pad(matrix, (0, size - matrix.shape[0])))


# mask [A] -> the number of true entries up to and including each position, [A] int32
running_count = partial(jnp.cumsum, dtype=jnp.int32)


def compact(counts: Array, start: Array | int, size: int) -> tuple[Array, Array]:
    """(index [size], valid [size]): the positions of the true entries of a mask in order, without
    the first `start` true entries.

    counts [A] is the `running_count` of the mask. Slots beyond the last true entry are not valid
    and contain index 0. The binary search is faster on a CPU than the scatter of `jnp.nonzero`.
    """
    rank = start + jnp.arange(1, size + 1, dtype=jnp.int32)
    valid = rank <= counts[-1]
    index = jnp.searchsorted(counts, rank).astype(jnp.int32)
    return jnp.where(valid, index, 0), valid


def largest(scores: Array, count: int) -> tuple[Array, Array]:
    """(ascending positions [count] int32 of the largest scores [A]; the largest other score [], or
    -inf if there is none). A position is repeated if only scores of -inf remain.

    The loop updates the largest score of every block, which is faster than sorting all scores.
    """
    n_scores = scores.shape[0]
    length = math.isqrt(n_scores - 1) + 1
    padded = jnp.pad(scores, (0, -n_scores % length), constant_values=-jnp.inf)
    table = padded.reshape(-1, length)

    def step(i: Array | int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        table, tops, index = carry
        block = jnp.argmax(tops).astype(jnp.int32)
        best = jnp.argmax(table[block]).astype(jnp.int32)
        row = put(table[block], best, jnp.asarray(-jnp.inf, scores.dtype))
        return (
            put(table, block, row),
            put(tops, block, row.max()),
            put(index, jnp.asarray(i), block * length + best),
        )

    start = (table, table.max(1), jnp.zeros(count, jnp.int32))
    _, tops, index = lax.fori_loop(0, count, step, start)
    return jnp.sort(index), jnp.max(tops)


class Rows:
    """Operations over arrays [A, ...] with a row for each arm, for arms that are all on one device.
    `jsketch.scale.shards.Shard` has the same operations for arms on several devices, of which each
    has R rows of an array."""

    # (R) -> the arm numbers of the rows of this device, [R] int32
    arm_numbers: Any = staticmethod(partial(jnp.arange, dtype=jnp.int32))
    # (values [R, ...], arms of any shape) -> the entries of the arms
    take: Any = staticmethod(operator.getitem)
    # (mask [R]) -> for each row, the number of true entries of all arms up to this row, [R] int32
    running_count: Any = staticmethod(running_count)
    # (running_count [R]) -> number of true entries of all arms, [] int32
    total: Any = staticmethod(operator.itemgetter(-1))
    # (running_count [R], start, size) -> (arms [size], valid [size]), as `compact`
    compact: Any = staticmethod(compact)
    # (scores [R], count) -> (arms [count], the largest other score []), as `largest`
    largest: Any = staticmethod(largest)
    # (value of this device) -> sum, maximum (NaN if any is NaN), conjunction over all devices
    sum: Any = staticmethod(jnp.asarray)
    max: Any = staticmethod(jnp.asarray)
    all: Any = staticmethod(jnp.asarray)
    # (key, shape [..., A], dtype) -> the rows [..., R] of random numbers
    uniform: Any = staticmethod(jax.random.uniform)
    normal: Any = staticmethod(jax.random.normal)
    # (values [R, ...], arms [n] in NumPy) -> the entries of the arms, outside of compiled programs
    on_host: Any = staticmethod(operator.getitem)

    def local(self, index: Array, rows: int) -> Array:
        """The rows [n] int32 of arms `index` [n]. For arms of other devices the row is R, at which
        a scatter drops values."""
        return index

    def mask(self, values: Array, fill: float) -> Array:
        """The values [..., R], with `fill` in rows without an arm."""
        return values

    def argmax(self, values: Array) -> Array:
        """The first arm with the largest of values [..., R], [...] int32."""
        return jnp.argmax(values, -1).astype(jnp.int32)

    def add(self, values: Array, index: Array, amount: Array) -> Array:
        """values [R] with `amount` added at one arm `index` []."""
        return put(values, index, values[index] + amount)


ONE_DEVICE = Rows()


class Factor(NamedTuple):
    """A Cholesky factorization L L^T. A compiled program computes only the fields that it uses."""

    inverse: Array  # [M, M], L^-1
    logdet: Array  # [], 2 sum log diag L
    lower: Array  # [M, M], L


def _factor_block(block: Array) -> Factor:
    """`cholesky_inverse` of a block of at most BLOCK columns. Eliminating the identity along with
    the block gives L^-1."""
    size = block.shape[0]
    rows = jnp.arange(size, dtype=jnp.int32)[:, None]

    def column(j: Array, augmented: Array) -> Array:
        row = lax.dynamic_slice_in_dim(augmented, j, 1, 0)
        # By symmetry the column below the pivot equals the rest of its row. The row is used,
        # because the column has other rounding errors, which matter for a nearly singular matrix.
        multipliers = row[:, :size].T / lax.dynamic_slice_in_dim(row, j, 1, 1)
        return augmented - jnp.where(rows > j, multipliers, 0) * row

    augmented = jnp.concatenate([block, jnp.eye(size, dtype=block.dtype)], axis=1)
    augmented = lax.fori_loop(0, size, column, augmented)
    pivots = jnp.diagonal(augmented[:, :size])
    scaled = augmented / jnp.sqrt(pivots)[:, None]
    return Factor(scaled[:, size:], jnp.log(pivots).sum(), jnp.triu(scaled[:, :size]).T)


def cholesky_inverse(matrix: Array) -> Factor:
    """L^-1, the logdet and L of a well-conditioned positive definite matrix [M,M] = L L^T.

    On a CPU the factorization consists of products, because in a compiled program the products
    after a LAPACK call run on fewer cores. An accelerator calls its own library.
    """
    if devices.on_accelerator():
        lower = lax.linalg.cholesky(matrix)
        return Factor(triangular_inverse(lower), 2 * jnp.log(jnp.diagonal(lower)).sum(), lower)
    return _factor_block(matrix) if len(matrix) <= BLOCK else _factor_block_rows(matrix)


def _factor_block_rows(matrix: Array, triangular: bool = False) -> Factor:
    """The factor of A = L L^T, where `matrix` [M,M] is A. If `triangular` is True, it is L, and
    the returned logdet is 0.

    Row i of BLOCK x BLOCK blocks follows from the earlier rows of L^-1: L_ij = A_i (L^-1)_j^T, and
    (L^-1)_i = L_ii^-1 (I_i - sum_j L_ij (L^-1)_j). One loop over the rows compiles in a quarter of
    the time of a recursion by halves, and runs up to twice as long.
    """
    size, dtype = matrix.shape[0], matrix.dtype
    count = -(-size // BLOCK)
    padded = pad_identity(matrix, count * BLOCK)
    identity = jnp.eye(count * BLOCK, dtype=dtype)

    def block_row(i: Array, previous: Factor) -> Factor:
        row = lax.dynamic_slice_in_dim(padded, i * BLOCK, BLOCK)
        unit = lax.dynamic_slice_in_dim(identity, i * BLOCK, BLOCK)

        def subtract_row(j: Array, pair: tuple[Array, Array], width: int) -> tuple[Array, Array]:
            lower, rest = pair
            inverse = lax.dynamic_slice_in_dim(previous.inverse, j * BLOCK, BLOCK)[:, :width]
            if triangular:
                block = lax.dynamic_slice_in_dim(lower, j * BLOCK, BLOCK, 1)
            else:
                block = matmul(row[:, :width], inverse.T)
                lower = lax.dynamic_update_slice_in_dim(lower, block, j * BLOCK, 1)
            remaining = rest[:, :width] - matmul(block, inverse)
            return lower, lax.dynamic_update_slice_in_dim(rest, remaining, 0, 1)

        pair = (row if triangular else jnp.zeros_like(row), unit)
        # the first half of the rows of L^-1 is zero in the second half of the columns
        for first, end in pairwise((0, -(-count // 2), count)):
            step = partial(subtract_row, width=end * BLOCK)
            pair = lax.fori_loop(first, jnp.minimum(i, end), step, pair)
        lower, rest = pair
        block = lax.dynamic_slice_in_dim(row, i * BLOCK, BLOCK, 1)
        if triangular:
            inverse = solve_lower(block, jnp.eye(BLOCK, dtype=dtype))
            factor = Factor(inverse, jnp.zeros((), dtype), block)
        else:
            factor = _factor_block(block - matmul(lower, lower.T))
            lower = lower + matmul(factor.lower, unit)
        inverse = matmul(factor.inverse, rest)
        return Factor(
            inverse=lax.dynamic_update_slice_in_dim(previous.inverse, inverse, i * BLOCK, 0),
            logdet=previous.logdet + factor.logdet,
            lower=lax.dynamic_update_slice_in_dim(previous.lower, lower, i * BLOCK, 0),
        )

    zeros = jnp.zeros_like(padded)
    factor = lax.fori_loop(0, count, block_row, Factor(zeros, jnp.zeros((), dtype), zeros))
    return Factor(factor.inverse[:size, :size], factor.logdet, factor.lower[:size, :size])


def shifted_cholesky(matrix: Array, shift: Array) -> tuple[Array, Array]:
    """(L, s) with L L^T = matrix + s I, for a symmetric matrix [M,M] that rounding may have made
    indefinite. s [] is the first of shift, 10 shift, 100 shift ... with which the sum is positive
    definite. If the matrix is not finite, s is infinite and L is NaN. `shift` must be above 0.
    """
    size = matrix.shape[0]
    identity = jnp.eye(size, dtype=matrix.dtype)
    # by Gershgorin's circles, no finite matrix needs a larger shift
    largest_shift = size * jnp.abs(matrix).max()

    def attempt(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        shift = 10 * carry[1]
        return lax.linalg.cholesky(matrix + shift * identity), shift

    def failed(carry: tuple[Array, Array]) -> Array:
        lower, shift = carry
        return ~jnp.isfinite(jnp.diagonal(lower)).all() & (shift <= largest_shift)

    shift = jnp.asarray(shift, matrix.dtype)
    start = lax.linalg.cholesky(matrix + shift * identity), shift
    lower, shift = lax.while_loop(failed, attempt, start)
    return lower, jnp.where(jnp.isfinite(jnp.diagonal(lower)).all(), shift, jnp.inf)


class _Pivoted(NamedTuple):
    """The state of a pivoted Cholesky factorization."""

    schur: Array  # [M, M], the Schur complement after the previous panels
    diagonal: Array  # [M], diagonal of the current Schur complement; -inf at previous pivots
    panel: Array  # [BLOCK, M], rows of the current panel
    # [M + BLOCK, M]; row k is column k of the factor, with the points in their original order
    lower: Array
    order: Array  # [M] int32, the pivots
    rank: Array  # [] int32, number of pivots so far


_Pivots = tuple[Array, Array, Array, Array, Array]  # diagonal, next pivot, panel, order, count


def _pivot_panel(state: _Pivoted, cut: Array) -> _Pivoted:
    """The state after up to BLOCK pivots and one update of the Schur complement. Each pivot is the
    largest remaining diagonal entry, as long as this entry exceeds the cut."""
    block = state.panel.shape[0]

    def pivot(carry: _Pivots) -> _Pivots:
        diagonal, best, panel, order, j = carry
        root = jnp.sqrt(diagonal[best])
        row = state.schur[best] - matmul(panel[:, best], panel)
        row = put(jnp.where(jnp.isneginf(diagonal), 0, row / root), best, root)
        diagonal = put(diagonal - jnp.square(row), best, jnp.asarray(-jnp.inf))
        panel, order = put(panel, j, row), put(order, state.rank + j, best)
        return diagonal, jnp.argmax(diagonal).astype(jnp.int32), panel, order, j + 1

    def continues(carry: _Pivots) -> Array:
        diagonal, best, _, _, j = carry
        return (j < block) & (diagonal[best] > cut)

    first, zero = jnp.argmax(state.diagonal).astype(jnp.int32), jnp.zeros((), jnp.int32)
    start = state.diagonal, first, jnp.zeros_like(state.panel), state.order, zero
    diagonal, _, panel, order, count = lax.while_loop(continues, pivot, start)
    lower = lax.dynamic_update_slice(state.lower, panel, (state.rank, zero))
    return _Pivoted(
        state.schur - matmul(panel.T, panel), diagonal, panel, lower, order, state.rank + count
    )


def triangular_inverse(lower: Array) -> Array:
    """The inverse of a lower triangular matrix [M,M]."""
    identity = jnp.eye(len(lower), dtype=lower.dtype)
    if devices.on_accelerator():
        return lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    if len(lower) <= BLOCK:
        return solve_lower(lower, identity)
    return _factor_block_rows(lower, triangular=True).inverse


def solve_lower(lower: Array, right: Array) -> Array:
    """lower^-1 @ right, [b,M], for a small lower [b,b], without LAPACK (see `cholesky_inverse`)."""

    def row(i: Array, solution: Array) -> Array:
        return put(solution, i, (right[i] - matmul(lower[i], solution)) / lower[i, i])

    return lax.fori_loop(0, len(lower), row, jnp.zeros_like(right))


class InverseRoot(NamedTuple):
    """A root R of the pseudo-inverse R R^T of the Gram matrix of the points in `order`."""

    order: Array  # [M] int32
    root: Array  # [M, M], R, upper triangular
    features: Array  # [M, M]; row i is k(x_i, points in `order`) @ R


def inverse_root(gram: Array, mask: Array) -> InverseRoot:
    """The inverse root of the Gram matrix [M,M] of the points whose mask [M] is true.

    R comes from a Cholesky factorization with diagonal pivoting, which ends when no pivot exceeds
    the rank cut m eps max(diagonal) for m points. On clustered points, variances would be wrong by
    a factor of 10 without pivoting, and by 10% with a jitter of 1e-10 (THEORY 9.2). Rows and
    columns of R beyond the rank are exactly zero, and `order` is 0 there.

    On an accelerator a pivot takes a dozen kernel launches. Pivoting is therefore used only where
    the smallest eigenvalue, which is at least 1/|R|^2, may be below MARGIN times the cut.
    """
    size, dtype = gram.shape[0], gram.dtype
    gram = jnp.where(mask[:, None] & mask[None, :], gram, 0)
    count = jnp.maximum(mask.sum(dtype=dtype), 1)
    cut = count * jnp.finfo(dtype).eps * jnp.max(jnp.diagonal(gram))
    if not devices.on_accelerator():
        return _pivoted_root(gram, mask, cut)
    order, valid = compact(running_count(mask), 0, size)
    pairs = valid[:, None] & valid[None, :]
    ordered = jnp.where(pairs, gram[order][:, order], jnp.eye(size, dtype=dtype))
    factor = cholesky_inverse(ordered)
    root = jnp.where(pairs, factor.inverse.T, 0)
    # if the factorization failed, the root is NaN and the comparison is false
    well_conditioned = MARGIN * cut * jnp.square(root).sum() < 1
    position = jnp.where(valid, order, size)
    features = jnp.zeros_like(gram).at[position].set(jnp.where(pairs, factor.lower, 0), mode="drop")
    unpivoted = InverseRoot(order, root, features)
    return lazy_cond(~well_conditioned, lambda _: _pivoted_root(gram, mask, cut), unpivoted)


def _pivoted_root(gram: Array, mask: Array, cut: Array) -> InverseRoot:
    """`inverse_root` by Cholesky with diagonal pivoting, down to the cut."""
    size, dtype = gram.shape[0], gram.dtype
    block = min(BLOCK, size)
    # `lower` has `block` additional rows, because a panel is always written as a whole
    start = _Pivoted(
        schur=gram,
        diagonal=jnp.where(mask, jnp.diagonal(gram), -jnp.inf),
        panel=jnp.zeros((block, size), dtype),
        lower=jnp.zeros((size + block, size), dtype),
        order=jnp.zeros(size, jnp.int32),
        rank=jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(lambda s: jnp.max(s.diagonal) > cut, partial(_pivot_panel, cut=cut), start)
    slots = jnp.arange(size, dtype=jnp.int32)
    in_rank = slots < end.rank
    # [M, M]; column k is column k of the factor, and row i is point i
    features = end.lower[:size].T
    pairs = in_rank[:, None] & in_rank[None, :]
    # the triangular factor, with its rows in the order of the pivots
    lower = jnp.tril(jnp.where(pairs, features[end.order], 0))
    lower = jnp.where(~in_rank[None, :] & (slots[:, None] == slots[None, :]), 1, lower)
    inverse = triangular_inverse(lower)
    return InverseRoot(end.order, jnp.where(pairs, inverse.T, 0), features)
