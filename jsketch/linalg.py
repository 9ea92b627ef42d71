"""Masked linear algebra in static shapes: rank-cut inverse roots, Cholesky inverses, compaction. No GP words here."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

BLOCK = 32  # columns factored at a time; the sequential part works on BLOCK x BLOCK, the rest is matrix-matrix


def matmul(a: Array, b: Array) -> Array:
    """a @ b at full precision. Accelerators otherwise round float32 products until Gram matrices lose positivity."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


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


def _factor_block(block: Array, threshold: Array) -> tuple[Array, Array]:
    """Cholesky of one diagonal block [b,b] that skips pivots below `threshold`: (L [b,b], kept [b]).

    A skipped column is zero below a diagonal of one: the point lies in the span of those before it.
    """
    size = block.shape[0]
    rows = jnp.arange(size)

    def column(j: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        schur, factor, kept = carry
        pivot = schur[j, j]
        keep = pivot > threshold[j]
        root = jnp.sqrt(jnp.where(keep, pivot, 1))
        values = jnp.where(keep & (rows > j), schur[:, j] / root, 0)
        schur = schur - values[:, None] * values[None, :]
        factor = factor.at[:, j].set(jnp.where(rows == j, root, values))
        return schur, factor, kept.at[j].set(keep)

    init = (block, jnp.zeros_like(block), jnp.zeros(size, bool))
    _, factor, kept = lax.fori_loop(0, size, column, init)
    return factor, kept


def inverse_root(gram: Array, mask: Array) -> Array:
    """R [M,M] with R R^T = the pseudo-inverse of the masked Gram matrix, at a rank cut of m eps max(diagonal).

    A blocked Cholesky factorization that skips pivots below the cut instead of adding a jitter: against 60-digit
    arithmetic a jitter of 1e-10 already costs 10% of a variance, because residuals are divided by the regularization
    (design, section 6). Rows of R of masked slots, and columns of masked or skipped ones, are exactly zero.

    gram [M,M], mask [M] of the slots in use. Cost 4 M^3 flops in products plus M sequential steps on BLOCK^2 numbers.
    """
    size = gram.shape[0]
    block = min(BLOCK, size)
    padded = -(-size // block) * block
    gram = jnp.where(mask[:, None] & mask[None, :], gram, 0)
    cut = jnp.maximum(mask.sum(), 1) * jnp.finfo(gram.dtype).eps * jnp.max(jnp.diagonal(gram))
    gram = jnp.pad(gram, (0, padded - size))
    threshold = jnp.pad(jnp.where(mask, cut, jnp.inf), (0, padded - size), constant_values=jnp.inf)
    rows = jnp.arange(padded)

    def panel(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        factor, inverse, kept = carry
        start = i * block
        factor_rows = lax.dynamic_slice(factor, (start, 0), (block, padded))
        inverse_rows = jnp.eye(padded, dtype=gram.dtype)
        inverse_rows = lax.dynamic_slice(inverse_rows, (start, 0), (block, padded))
        columns = lax.dynamic_slice(gram, (0, start), (padded, block)) - matmul(factor, factor_rows.T)
        pivot_block, kept_block = _factor_block(
            lax.dynamic_slice(columns, (start, 0), (block, block)), lax.dynamic_slice(threshold, (start,), (block,))
        )
        pivot_inverse = lax.linalg.triangular_solve(
            pivot_block, jnp.eye(block, dtype=gram.dtype), left_side=True, lower=True
        )
        below = jnp.where((rows >= start + block)[:, None] & kept_block, matmul(columns, pivot_inverse.T), 0)
        below = lax.dynamic_update_slice(below, pivot_block, (start, 0))
        factor = lax.dynamic_update_slice(factor, below, (0, start))
        solved = matmul(pivot_inverse, inverse_rows - matmul(factor_rows, inverse))
        inverse = lax.dynamic_update_slice(inverse, solved, (start, 0))
        return factor, inverse, lax.dynamic_update_slice(kept, kept_block, (start,))

    zeros = jnp.zeros_like(gram)
    init = (zeros, zeros, jnp.zeros(padded, bool))
    _, inverse, kept = lax.fori_loop(0, padded // block, panel, init)
    root = jnp.where(kept[:, None], inverse, 0).T[:size, :size]
    return jnp.where(mask[:, None], root, 0)


def cholesky_inverse(matrix: Array) -> tuple[Array, Array]:
    """(L^-1 [M,M], logdet []) of a well-conditioned positive definite matrix = L L^T."""
    factor = lax.linalg.cholesky(matrix)
    inverse = lax.linalg.triangular_solve(factor, jnp.eye(matrix.shape[0], dtype=matrix.dtype), left_side=True, lower=True)
    return inverse, 2 * jnp.log(jnp.diagonal(factor)).sum()
