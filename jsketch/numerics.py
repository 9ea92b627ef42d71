"""Numerical algorithms in static shapes: products over the slots in use, the pivoted inverse root,
positions of true entries, largest entries, and sweeps over all arms.

A dictionary has M slots, of which a run uses the first m. Masks are exactly neutral: an unused slot
has a zero row and column in every factor, so that results do not depend on M, and loops over blocks
of slots visit only those in use.

The loops of runs call no LAPACK. In a compiled program on a CPU the threads of OpenBLAS and those
of XLA compete: a Cholesky factorization of 512 columns takes 3.6 ms with one thread of OpenBLAS,
9 ms with all threads of an idle machine, and 340 ms on a busy one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

Pytree = TypeVar("Pytree")

BLOCK = 64  # slots of the dictionary that a product with few columns visits together
TRIANGULAR_BLOCKS = 4  # blocks of columns of a product with a triangular matrix
PANEL = 32  # pivots between two updates of the whole matrix in an elimination
# Entries of a chunk in a sweep over all arms: enough for efficient matrix products, and few enough
# for the cache of a CPU
ENTRIES, ENTRIES_ACCELERATOR = 640_000, 16_000_000

# a @ b at full precision: by default accelerators round float32 products, and Gram matrices lose
# positivity
matmul = partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def on_accelerator() -> bool:
    """Whether the default device of JAX is not a CPU; evaluated when a program is traced. Programs
    for an accelerator have fewer and larger steps, and compute the same numbers up to rounding."""
    return jax.default_backend() != "cpu"


# Reductions. Those of integers and bools take four times as long to compile as those of floats


def count(mask: Array, axis: int | None = None) -> Array:
    """The number of true entries of a mask, int32, over all entries or along an axis."""
    exact = jnp.float32 if mask.size < 2**24 else jnp.int32
    return mask.sum(axis, dtype=exact).astype(jnp.int32)


def all_true(mask: Array) -> Array:
    """Whether all entries of a mask are true, []."""
    return jnp.min(mask.astype(jnp.float32)) > 0


def all_finite(values: Array) -> Array:
    """Whether all values are finite, []."""
    return (0 * values).sum() == 0


# Loops


@jax.custom_batching.custom_vmap
def trip_count(count: Array) -> Array:
    """The number [] itself; under vmap the largest number of all runs.

    It is the trip count of loops whose further steps change nothing. With a number for each run,
    vmap would select between the old and the new carry of every run in every step, which copies it.
    """
    return count


@trip_count.def_vmap
def _largest_trip_count(n_runs: int, batched: list[bool], count: Array) -> tuple[Array, bool]:
    return trip_count(count.max(0) if batched[0] else count), False


def one_after_another(function: Callable[..., Pytree], *args: Any) -> Pytree:
    """function(*args), for a function that closes over no array. Under vmap on a CPU the runs are
    computed one after the other, as by `lax.map`; on an accelerator all runs are computed together.

    A vmapped loop takes as many steps as its longest run, and in each of them it computes, or at
    least copies, the carry of all runs. With rounds of different kinds the runs wait for each
    other: eight runs of BBKB took three times as long as one after the other. All runs are computed
    together if a leaf of the arguments is neither an array nor a number.
    """
    leaves, tree = jax.tree.flatten(args)
    is_array = [isinstance(leaf, Array) for leaf in leaves]
    # numbers are the same for all runs and keep their weak types
    numbers = [leaf for leaf in leaves if not isinstance(leaf, Array)]
    if on_accelerator() or not all(
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


def while_any(
    condition: Callable[[Pytree], Array], step: Callable[[Pytree], Pytree], start: Pytree
) -> Pytree:
    """`lax.while_loop`, for steps that change nothing where the condition [] is false; under vmap
    it ends when no run goes on (`trip_count`)."""

    def goes_on(carry: Pytree) -> Array:
        return trip_count(condition(carry).astype(jnp.int32)) > 0

    return lax.while_loop(goes_on, step, start)


def lazy_cond(needed: Array, change: Callable[[Pytree], Pytree], old: Pytree) -> Pytree:
    """change(old) if `needed` [] is true, else old; both have the same shapes. Under vmap the
    change is computed only if some run needs it, whereas `lax.cond` would always compute it."""

    def step(carry: tuple[Array, Pytree]) -> tuple[Array, Pytree]:
        return jnp.zeros_like(carry[0]), change(carry[1])

    return lax.while_loop(lambda carry: carry[0], step, (needed, old))[1]


def skip_on_cpu(needed: Array, change: Callable[[Pytree], Pytree], old: Pytree) -> Pytree:
    """change(old), which equals old unless `needed` [] is true; a CPU skips it then. On an
    accelerator a condition costs more than a small change."""
    return change(old) if on_accelerator() else lazy_cond(needed, change, old)


def aligned(vector: ArrayLike, x: Array) -> Array:
    """A vector [d] reshaped to [1, ..., 1, d], with the rank of x [..., d], for sums and products
    with x. A number is unchanged."""
    vector = jnp.asarray(vector)
    return vector if vector.ndim == 0 else lax.expand_dims(vector, range(x.ndim - vector.ndim))


def pad_identity(matrix: Array, size: int) -> Array:
    """The matrix [M,M] in the upper left of an identity matrix [size, size]."""
    slots = jnp.arange(size, dtype=jnp.int32)
    is_padding = (slots >= matrix.shape[0])[None, :] & (slots[:, None] == slots[None, :])
    return jnp.where(is_padding, 1, jnp.pad(matrix, (0, size - matrix.shape[0])))


def take(array: Array, index: Array) -> Array:
    """array[index] for positions in range, without the code for negative ones."""
    return array.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def diagonal(matrix: Array) -> Array:
    """The diagonal [M] of a matrix [M,M], as a slice and not as a gather."""
    size = len(matrix)
    return lax.slice(matrix.reshape(-1), (0,), (size * size,), (size + 1,))


def entry(array: Array, index: Array, axis: int = 0) -> Array:
    """The entry at position `index` [] of an axis, in range."""
    return lax.dynamic_index_in_dim(array, index, axis, False, allow_negative_indices=False)


def put(array: Array, index: Array | int, value: ArrayLike, axis: int = 0) -> Array:
    """The array with `value` at position `index` [] of an axis, for positions in range."""
    value = jnp.asarray(value, array.dtype)  # which may be a number
    return lax.dynamic_update_index_in_dim(array, value, index, axis, allow_negative_indices=False)


def part(array: Array, begin: Array, size: int) -> Array:
    """The `size` entries of an array from position `begin` [] on, all of them in range."""
    return lax.dynamic_slice_in_dim(array, begin, size, allow_negative_indices=False)


def put_part(array: Array, begin: Array, entries: Array) -> Array:
    """The array with these entries from position `begin` [] on, all of them in range."""
    return lax.dynamic_update_slice_in_dim(
        array, entries, begin, axis=0, allow_negative_indices=False
    )


def put_if(needed: Array, array: Array, index: Array, value: Array, axis: int = 0) -> Array:
    """The array with `value` at position `index` [] of an axis if `needed` [] is true. Otherwise
    the index may be out of range. Only the entry is selected, and the array is changed in place."""
    index = jnp.minimum(index, array.shape[axis] - 1)
    return put(array, index, jnp.where(needed, value, entry(array, index, axis)), axis)


# Positions in vectors of length A, without a vector of this length in a message between devices


def table_length(size: int) -> int:
    """The length of the rows of a table of `size` entries: a power of two, about sqrt(size).

    If the rows fill the table and the devices divide the rows, as for arms that `scale.place`
    distributes, then every device has whole rows, and a table needs no message."""
    return 1 << (size.bit_length() // 2)


def _as_table(values: Array, fill: Any) -> Array:
    """The values [A] in about sqrt(A) rows, the last of which is padded."""
    length = table_length(len(values))
    return jnp.pad(values, (0, -len(values) % length), constant_values=fill).reshape(-1, length)


def positions(mask: Array, size: int, start: Array | int = 0) -> Array:
    """The positions [size] int32 of the true entries of a mask [A] in order, without the first
    `start` [] of them; A in slots beyond the last true entry.

    Example:

        positions(jnp.array([False, True, True]), 3)  # [1, 2, 3]
    """
    exact = jnp.float32 if len(mask) < 2**24 else jnp.int32
    table = _as_table(mask, False).astype(exact)
    rows, length = table.shape
    sums = table.sum(1)
    ends = matmul(sums, _ones_above(rows, exact))
    rank = (start + jnp.arange(size, dtype=jnp.int32)).astype(exact)
    row = count(ends[None, :] <= rank[:, None], axis=1)
    in_table = jnp.minimum(row, rows - 1)
    counts = matmul(take(table, in_table), _ones_above(length, exact))
    column = count(counts <= (rank - take(ends - sums, in_table))[:, None], axis=1)
    return jnp.where(rank < ends[-1], row * length + column, len(mask))


def _ones_above(size: int, dtype: Any) -> Array:
    """A matrix [size, size] with ones on and above its diagonal: vector @ matrix is a running sum,
    which compiles in a fifth of the time of `jnp.cumsum`."""
    numbers = jnp.arange(size, dtype=jnp.int32)
    return (numbers[:, None] <= numbers[None, :]).astype(dtype)


def largest(values: Array, count: int) -> tuple[Array, Array]:
    """(ascending positions [count] int32 of the largest of the values [A]; the largest other value
    [], or -inf if there is none). Of equal values those at the lowest positions are taken. A
    position is repeated if only values of -inf remain.

    They are in the count + 1 rows of a table with the largest maxima. A loop that keeps the maxima
    of these rows is faster than a sort.
    """
    table = _as_table(values, -jnp.inf)
    length = table.shape[1]
    _, rows = lax.top_k(table.max(1), min(count + 1, len(table)))
    rows = jnp.sort(rows)
    # read from the values, because a gather from the table would copy the table
    position = rows[:, None] * length + jnp.arange(length, dtype=jnp.int32)[None, :]
    candidates = values.at[position].get(
        mode="fill", fill_value=-jnp.inf, wrap_negative_indices=False
    )

    def take_one(i: Array | int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        table, tops, index = carry
        row = jnp.argmax(tops).astype(jnp.int32)
        entries = take(table, row)
        column = jnp.argmax(entries).astype(jnp.int32)
        entries = jnp.where(jnp.arange(length, dtype=jnp.int32) == column, -jnp.inf, entries)
        return (
            put(table, row, entries),
            put(tops, row, entries.max()),
            put(index, i, take(position, row)[0] + column),
        )

    start = (candidates, candidates.max(1), jnp.zeros(count, jnp.int32))
    _, tops, index = lax.fori_loop(0, count, take_one, start)
    return jnp.sort(index), jnp.max(tops)


def sum_over(
    mask: Array, size: int, add: Callable[[Array, Array], Pytree], start: Pytree
) -> Pytree:
    """`start` plus the sum of add(index [size], valid [size]) over chunks of the true entries of a
    mask [A]. Slots that are not valid have index 0."""
    n_true = count(mask)

    def chunk(i: Array, total: Pytree) -> Pytree:
        index = positions(mask, size, i * size)
        valid = index < len(mask)
        return jax.tree.map(jnp.add, total, add(jnp.where(valid, index, 0), valid))

    return lax.fori_loop(0, trip_count(-(-n_true // size)), chunk, start)


def sweep(function: Callable[[Array], Pytree], x: Array, columns: int) -> Pytree:
    """function(x) for x [A,d], whose results have A rows, in chunks. A table with `columns`
    entries for each row of a chunk fits the cache.

    Chunk c has the rows c, c + n, c + 2 n, ..., so that every device has a part of each chunk if
    the rows are distributed over several devices. The number n of chunks is a power of two, because
    every device then has equally many rows of each chunk (`scale.place`).
    """
    n_rows = len(x)
    entries = ENTRIES_ACCELERATOR if on_accelerator() else ENTRIES
    n_chunks = -(-n_rows // max(entries // columns, 1))
    n_chunks = 1 << (n_chunks - 1).bit_length()
    if n_chunks == 1:
        return function(x)
    padded = jnp.pad(x, ((0, -n_rows % n_chunks), (0, 0)), mode="edge")
    chunks = padded.reshape(-1, n_chunks, x.shape[1]).swapaxes(0, 1)

    def merge(leaf: Array) -> Array:
        return leaf.swapaxes(0, 1).reshape(-1, *leaf.shape[2:])[:n_rows]

    return jax.tree.map(merge, lax.map(function, chunks))


# Products over the slots in use


def _blocks(array: Array, size: int, mode: Any) -> Array:
    """An array of M rows in blocks, [M/size, size, ...], the last of which `jnp.pad` completes."""
    width = min(size, len(array))
    padding = [(0, -len(array) % width)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array, padding, mode=mode).reshape(-1, width, *array.shape[1:])


def gram_product(kernel: Any, x: Array, points: Array, columns: Array, used: Array) -> Array:
    """k(x, points) @ columns, [n,c], for points [M,d] and columns [M,c] whose rows from number
    `used` [] on are zero. Kernel values of blocks of unused points are not computed."""
    points, columns = _blocks(points, BLOCK, "edge"), _blocks(columns, BLOCK, "constant")

    def add(i: Array, product: Array) -> Array:
        return product + matmul(kernel.gram(x, entry(points, i)), entry(columns, i))

    start = jnp.zeros((len(x), columns.shape[2]), x.dtype)
    return lax.fori_loop(0, trip_count(-(-used // points.shape[1])), add, start)


def squared_norms(rows: Array, upper: Array, used: Array) -> Array:
    """|row @ upper|^2 for each of the rows [n,M], for an upper triangular matrix [M,M] whose
    columns from number `used` [] on are zero. Most zeros below the diagonal, and blocks of unused
    columns, take no time."""
    size = len(upper)
    width = -(-size // TRIANGULAR_BLOCKS)
    total = jnp.zeros(len(rows), rows.dtype)
    for begin in range(0, size, width):
        end = min(begin + width, size)

        def add(total: Array, begin: int = begin, end: int = end) -> Array:
            return total + jnp.square(matmul(rows[:, :end], upper[:end, begin:end])).sum(1)

        total = lax.cond(used > begin, add, lambda total: total, total)
    return total


# Factorizations


class InverseRoot(NamedTuple):
    """A root R of the pseudo-inverse R R^T of a positive semi-definite matrix, and the factor of
    the matrix that belongs to it."""

    order: Array  # [M] int32, the pivots; 0 beyond the rank
    rank: Array  # [] int32
    root: Array  # [M, M], R: R[order] is upper triangular; columns beyond the rank are zero
    factor: Array  # [M, M], matrix @ R; factor[order] is lower triangular


def inverse_root(matrix: Array, mask: Array) -> InverseRoot:
    """The inverse root of a positive semi-definite matrix [M,M], restricted to the rows and columns
    of a mask [M].

    Cholesky elimination of [matrix | I] with diagonal pivoting: each pivot is the largest remaining
    diagonal entry, down to the rank cut m eps max(diagonal) for m points. On clustered points,
    variances would be wrong by a factor of 10 without pivoting, and by 10% with a jitter of 1e-10
    (THEORY 9.2). The whole matrix is updated once for PANEL pivots.
    """
    size, dtype = len(matrix), matrix.dtype
    width, n_points = min(PANEL, size), count(mask)
    pairs = mask[:, None] & mask[None, :]
    matrix = jnp.where(pairs, matrix, 0)
    cut = n_points.astype(dtype) * jnp.finfo(dtype).eps * jnp.max(diagonal(matrix))
    table = jnp.concatenate([matrix, jnp.eye(size, dtype=dtype)], axis=1)
    # the diagonal of the Schur complement, -inf at former pivots
    rest = jnp.where(mask, diagonal(matrix), -jnp.inf)

    def goes_on(rest: Array, n: Array) -> Array:
        # `~(<=)` continues where values are NaN, which the caller then finds in the result
        return (n < n_points) & ~(jnp.max(rest) <= cut)

    def panel_of_pivots(carry: Any) -> Any:
        table, rest, rows, order, n_before = carry

        def pivot(carry: Any) -> Any:
            panel, rest, order, n = carry
            live, best = goes_on(rest, n), jnp.argmax(rest).astype(jnp.int32)
            row = take(table, best) - matmul(entry(panel, best, 1), panel)
            is_done = jnp.pad(jnp.isneginf(rest), (0, size))
            row = jnp.where(live & ~is_done, row / jnp.sqrt(take(rest, best)), 0)
            rest = rest - jnp.square(row[:size])
            return (
                put(panel, n - n_before, row),
                put_if(live, rest, best, jnp.asarray(-jnp.inf, dtype)),
                put_if(live, order, n, best),
                n + live.astype(jnp.int32),
            )

        panel, rest, order, n = while_any(
            lambda c: goes_on(c[1], c[3]) & (c[3] - n_before < width),
            pivot,
            (jnp.zeros((width, 2 * size), dtype), rest, order, n_before),
        )
        table = table - matmul(panel[:, :size].T, panel)
        return table, rest, put_part(rows, n_before, panel), order, n

    # `rows` has further rows, because a panel is written as a whole
    zeros, none = jnp.zeros((size + width, 2 * size), dtype), jnp.zeros((), jnp.int32)
    start = table, rest, zeros, jnp.zeros(size, jnp.int32), none
    _, _, rows, order, rank = while_any(lambda c: goes_on(c[1], c[4]), panel_of_pivots, start)
    return InverseRoot(order, rank, root=rows[:size, size:].T, factor=rows[:size, :size].T)


def cholesky_inverse(matrix: Array, used: Array | None = None) -> tuple[Array, Array]:
    """(L, L^-1), [M,M] each, for a positive definite matrix [M,M] = L L^T.

    used  number [] of rows and columns that have a meaning (default: all). The others are zero
          outside the diagonal, in the results too, and take no time

    Example:

        lower, inverse = cholesky_inverse(gram + noise * jnp.eye(len(gram)))
    """
    size = len(matrix)
    rows = _eliminate(matrix, jnp.eye(size, dtype=matrix.dtype), 0.0, end=used)
    return rows[:, :size].T, rows[:, size:]


def upper_factor(matrix: Array, least_pivot: ArrayLike, used: Array | None = None) -> Array:
    """An upper triangular U [M,M] with U U^T = matrix. A pivot that rounding has made smaller than
    `least_pivot` is replaced by it. `used` is as in `cholesky_inverse`."""
    nothing, size = jnp.zeros((len(matrix), 0), matrix.dtype), len(matrix)
    begin = 0 if used is None else size - used
    return _eliminate(matrix[::-1, ::-1], nothing, least_pivot, begin).T[::-1, ::-1]


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


def _eliminate(
    matrix: Array,
    right: Array,
    least_pivot: ArrayLike,
    begin: Array | int = 0,
    end: Array | None = None,
) -> Array:
    """[L^T | L^-1 right], [M, M + c], for a positive definite matrix [M,M] = L L^T and right [M,c],
    which is the identity or has no columns. Panels without a row from `begin` [] to `end` [] (None:
    M) are left as they are. The rows are eliminated in panels of w = PANEL rows; within a panel,
    only a block is. The columns of a panel that are zero take no time."""
    size, dtype = len(matrix), matrix.dtype
    width = min(PANEL, size)
    padding = -size % width
    added = jnp.eye(size + padding, dtype=dtype)[size:]
    square = jnp.concatenate([jnp.pad(matrix, ((0, 0), (0, padding))), added])
    table = jnp.concatenate([square, jnp.pad(right, ((0, padding), (0, 0)))], axis=1)
    columns = jnp.arange(table.shape[1], dtype=jnp.int32)
    # under vmap all runs have the panels of all runs
    first_panel = begin if isinstance(begin, int) else -trip_count(-(begin // width))
    end_panel = len(table) // width if end is None else trip_count(-(-end // width))
    # the columns of a panel that are not zero begin at its diagonal, and end M + w columns later
    window = min(len(columns), size + padding + width)

    def panel(i: Array, table: Array) -> Array:
        rows = part(table, i * width, width)
        block = lax.dynamic_slice_in_dim(rows, i * width, width, 1, allow_negative_indices=False)
        rows = matmul(_inverse_factor(block, least_pivot), rows)
        # the columns before the diagonal are zero up to rounding
        diagonal = i * width + jnp.arange(width, dtype=jnp.int32)
        rows = jnp.where(columns[None, :] >= diagonal[:, None], rows, 0)
        first = jnp.minimum(i * width, len(columns) - window).astype(jnp.int32)
        nonzero = lax.dynamic_slice_in_dim(rows, first, window, 1, allow_negative_indices=False)

        def subtract(j: Array, table: Array) -> Array:
            head = lax.dynamic_slice_in_dim(rows, j * width, width, 1, allow_negative_indices=False)
            place = ((j * width).astype(jnp.int32), first)
            below = lax.dynamic_slice(table, place, nonzero.shape)
            return lax.dynamic_update_slice(table, below - matmul(head.T, nonzero), place)

        return lax.fori_loop(i + 1, end_panel, subtract, put_part(table, i * width, rows))

    table = lax.fori_loop(first_panel, end_panel, panel, table)
    return jnp.concatenate([table[:size, :size], table[:size, size + padding :]], axis=1)


def _inverse_factor(block: Array, least_pivot: ArrayLike) -> Array:
    """L^-1 for a block [w,w] = L L^T: eliminating the identity along with the block gives it."""
    width = len(block)
    numbers = jnp.arange(width, dtype=jnp.int32)

    def column(j: Array, table: Array) -> Array:
        row = entry(table, j)
        # By symmetry the column below the pivot equals the rest of its row. The row is used,
        # because the column has other rounding errors, which matter for a nearly singular matrix.
        multipliers = row[:width] / jnp.maximum(take(row, j), least_pivot)
        return table - jnp.where(numbers > j, multipliers, 0)[:, None] * row[None, :]

    table = jnp.concatenate([block, jnp.eye(width, dtype=block.dtype)], axis=1)
    table = lax.fori_loop(0, width, column, table)
    pivots = jnp.maximum(diagonal(table[:, :width]), least_pivot)
    return table[:, width:] / jnp.sqrt(pivots)[:, None]
