"""Masked linear algebra in static shapes: rank-cut inverse roots, Cholesky inverses, compaction. No GP words here."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

BLOCK = (
    32  # columns factored at a time; the sequential part works on BLOCK x BLOCK, the rest is matrix-matrix
)
HALVES_FROM = 256  # M from which a factorization is split in two
UPPER_FROM = 256  # M from which the zeros of a triangular matrix are worth skipping
UPPER_BLOCKS = 4  # column blocks of a product with a triangular matrix: 10/16 of the flops of a full one


def matmul(a: Array, b: Array) -> Array:
    """a @ b at full precision. Accelerators otherwise round float32 products until Gram matrices lose positivity."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def put(array: Array, index: Array, value: Array) -> Array:
    """array with array[index] = value for one index in range; `.at[].set` is a scatter, slow to compile and to run."""
    return lax.dynamic_update_index_in_dim(array, jnp.asarray(value, array.dtype), index, 0)


def matmul_upper(a: Array, upper: Array) -> Array:
    """a [n,M] @ upper [M,M], upper triangular: in column blocks that skip the zeros, when M is large enough to pay."""
    size = upper.shape[0]
    if size < UPPER_FROM:
        return matmul(a, upper)
    edges = [size * i // UPPER_BLOCKS for i in range(UPPER_BLOCKS + 1)]
    columns = [matmul(a[:, :end], upper[:end, begin:end]) for begin, end in pairwise(edges)]
    return jnp.concatenate(columns, axis=1)


def chunked(size: int, target: int) -> tuple[int, int]:
    """(number of chunks, chunk length) that cover `size` rows in nearly equal pieces of at most `target`."""
    count = -(-size // target)
    return count, -(-size // count)


def running_count(mask: Array) -> Array:
    """Number of true entries up to and including each position of mask [A], [A] int32; what `compact` searches."""
    return jnp.cumsum(mask, dtype=jnp.int32)


def compact(running: Array, start: Array | int, size: int) -> tuple[Array, Array]:
    """`size` positions of true entries from the start-th on, in order: (index [size], valid [size]).

    running [A] is the mask's `running_count`. Slots past the last true entry are invalid and hold index 0. A binary
    search, because the scatter that `jnp.nonzero` needs is slow on a CPU.
    """
    rank = start + jnp.arange(1, size + 1, dtype=jnp.int32)
    valid = rank <= running[-1]
    index = jnp.searchsorted(running, rank).astype(jnp.int32)
    return jnp.where(valid, index, 0), valid


class Factor(NamedTuple):
    """What a Cholesky factorization L L^T leaves behind."""

    inverse: Array  # [M, M], L^-1
    kept: Array  # [M] bool, false where the pivot was below its threshold and the column was skipped
    logdet: Array  # [], 2 sum log diag L over the kept columns


def _factor_block(block: Array, threshold: Array) -> tuple[Array, Array, Array]:
    """One diagonal block [b,b], column by column: (L^-1 [b,b], pivots [b], kept [b]).

    A skipped column is zero below a diagonal of one: the point lies in the span of those before it. The identity is
    eliminated along with the block, which leaves the inverse.
    """
    size = block.shape[0]
    rows = jnp.arange(size, dtype=jnp.int32)

    def column(j: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        schur, inverse, pivots, kept = carry
        keep = schur[j, j] > threshold[j]
        pivot = jnp.where(keep, schur[j, j], 1)
        below = jnp.where(keep & (rows > j), schur[:, j] / pivot, 0)
        schur = schur - below[:, None] * schur[j]
        inverse = inverse - below[:, None] * inverse[j]
        return schur, inverse, put(pivots, j, pivot), put(kept, j, keep)

    init = (block, jnp.eye(size, dtype=block.dtype), jnp.ones_like(threshold), jnp.zeros(size, bool))
    _, inverse, pivots, kept = lax.fori_loop(0, size, column, init)
    return inverse / jnp.sqrt(pivots)[:, None], pivots, kept


def _factor_panels(matrix: Array, threshold: Array) -> Factor:
    """`factor`, panel by panel: 4 M^3 flops in products, and M sequential steps on BLOCK^2 numbers."""
    size = matrix.shape[0]
    block = min(BLOCK, size)
    padded = -(-size // block) * block
    extra = padded - size
    dtype = matrix.dtype
    matrix = jnp.pad(matrix, (0, extra))
    threshold = jnp.pad(threshold, (0, extra), constant_values=jnp.inf)
    rows = jnp.arange(padded, dtype=jnp.int32)
    identity = jnp.eye(padded, dtype=dtype)

    def panel(i: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        lower, inverse, pivots, kept = carry
        start = i * block
        lower_rows = lax.dynamic_slice(lower, (start, 0), (block, padded))
        columns = lax.dynamic_slice(matrix, (0, start), (padded, block)) - matmul(lower, lower_rows.T)
        block_inverse, block_pivots, block_kept = _factor_block(
            lax.dynamic_slice(columns, (start, 0), (block, block)),
            lax.dynamic_slice(threshold, (start,), (block,)),
        )
        below = jnp.where((rows >= start + block)[:, None] & block_kept, matmul(columns, block_inverse.T), 0)
        lower = lax.dynamic_update_slice(lower, below, (0, start))
        identity_rows = lax.dynamic_slice(identity, (start, 0), (block, padded))
        solved = matmul(block_inverse, identity_rows - matmul(lower_rows, inverse))
        inverse = lax.dynamic_update_slice(inverse, solved, (start, 0))
        pivots = lax.dynamic_update_slice(pivots, block_pivots, (start,))
        return lower, inverse, pivots, lax.dynamic_update_slice(kept, block_kept, (start,))

    # `lower` holds L without its diagonal blocks, which later panels never read
    zeros = jnp.zeros_like(matrix)
    init = (zeros, zeros, jnp.ones(padded, dtype), jnp.zeros(padded, bool))
    _, inverse, pivots, kept = lax.fori_loop(0, padded // block, panel, init)
    return Factor(inverse[:size, :size], kept[:size], jnp.log(pivots).sum())


def factor(matrix: Array, threshold: Array) -> Factor:
    """Blocked Cholesky factorization of a symmetric matrix [M,M] that skips pivots not above threshold [M].

    Written in products rather than with LAPACK because (measured, XLA on a CPU) every product that follows a LAPACK call
    in a compiled program loses a core, which costs more than the call saves. Large matrices are factored in two halves,
    which halves the flops of the panels (their shapes are static, so they multiply zeros).
    """
    size = matrix.shape[0]
    if size < HALVES_FROM:
        return _factor_panels(matrix, threshold)
    half = -(-size // (2 * BLOCK)) * BLOCK
    top = _factor_panels(matrix[:half, :half], threshold[:half])
    cross = jnp.where(top.kept, matmul(matrix[half:, :half], top.inverse.T), 0)
    bottom = _factor_panels(matrix[half:, half:] - matmul(cross, cross.T), threshold[half:])
    corner = -matmul(bottom.inverse, matmul(cross, top.inverse))
    inverse = jnp.block([[top.inverse, jnp.zeros_like(corner.T)], [corner, bottom.inverse]])
    return Factor(inverse, jnp.concatenate([top.kept, bottom.kept]), top.logdet + bottom.logdet)


def inverse_root(gram: Array, mask: Array) -> Array:
    """R [M,M] with R R^T = the pseudo-inverse of the masked Gram matrix, at a rank cut of m eps max(diagonal).

    Skips tiny pivots instead of adding a jitter: against 60-digit arithmetic a jitter of 1e-10 already costs 10% of a
    variance, because residuals are divided by the regularization (design, section 6). gram [M,M], mask [M] of the slots in
    use. Rows of R of masked slots, and columns of masked or skipped ones, are exactly zero.
    """
    gram = jnp.where(mask[:, None] & mask, gram, 0)
    count = jnp.maximum(mask.sum(dtype=gram.dtype), 1)
    cut = count * jnp.finfo(gram.dtype).eps * jnp.max(jnp.diagonal(gram))
    result = factor(gram, jnp.where(mask, cut, jnp.inf))
    return jnp.where(mask[:, None] & result.kept, result.inverse.T, 0)


def cholesky_inverse(matrix: Array) -> tuple[Array, Array]:
    """(L^-1 [M,M], logdet []) of a well-conditioned positive definite matrix = L L^T."""
    result = factor(matrix, jnp.zeros(matrix.shape[0], matrix.dtype))
    return result.inverse, result.logdet
