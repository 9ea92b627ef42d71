"""Factorizations in static shapes, out of products: pivoted inverse roots and Cholesky inverses. No
GP words here."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import devices
from jsketch.linalg import compact, lazy_cond, matmul, pad_identity, put, running_count

BLOCK = 32  # columns factored one by one; the rest is products
# times the rank cut: while all eigenvalues are above, an accelerator does without pivots. Pivots do
# not say so themselves: 20 sorted points of a line have all of them above 100 cuts, an eigenvalue
# below one, and a posterior that is off by a percent
MARGIN = 100.0


class Factor(NamedTuple):
    """What a Cholesky factorization L L^T leaves behind."""

    inverse: Array  # [M, M], L^-1
    logdet: Array  # [], 2 sum log diag L
    lower: Array  # [M, M], L; what is not read of the three is not computed


def _factor_block(block: Array) -> Factor:
    """`cholesky_inverse` of a block of at most BLOCK columns: the identity is eliminated along with
    it, which leaves L^-1.

    One array and one expression a column: what XLA fuses into one loop takes 0.3 microseconds, in
    pieces twice that.
    """
    size = block.shape[0]
    rows = jnp.arange(size, dtype=jnp.int32)[:, None]

    def column(j: Array, both: Array) -> Array:
        row = lax.dynamic_slice_in_dim(both, j, 1, 0)
        # the column's entries below are the row's, by symmetry; taken from the column they part
        # by rounding, and the factor of a nearly singular matrix with them
        below = row[:, :size].T / lax.dynamic_slice_in_dim(row, j, 1, 1)
        return both - jnp.where(rows > j, below, 0) * row

    both = jnp.concatenate([block, jnp.eye(size, dtype=block.dtype)], axis=1)
    both = lax.fori_loop(0, size, column, both)
    pivots = jnp.diagonal(both[:, :size])
    scaled = both / jnp.sqrt(pivots)[:, None]
    return Factor(scaled[:, size:], jnp.log(pivots).sum(), jnp.triu(scaled[:, :size]).T)


def cholesky_inverse(matrix: Array) -> Factor:
    """L^-1, the logdet and L of a well-conditioned positive definite matrix [M,M] = L L^T, by
    halves.

    Written in products rather than with LAPACK because (measured, XLA on a CPU) every product that
    follows a LAPACK call in a compiled program loses a core, which costs more than the call saves.
    On an accelerator, where each column would be a launch, it is the library's.
    """
    if devices.on_accelerator():
        lower = lax.linalg.cholesky(matrix)
        return Factor(triangular_inverse(lower), 2 * jnp.log(jnp.diagonal(lower)).sum(), lower)
    size = matrix.shape[0]
    if size <= BLOCK:
        return _factor_block(matrix)
    half = -(-size // (2 * BLOCK)) * BLOCK
    return _by_halves(matrix[:half, :half], matrix[half:])


def inverse_root_by_lapack(matrix: Array) -> Array:
    """L^-1 of a positive definite matrix L L^T, for programs that factorize a few times.

    `cholesky_inverse` is faster but takes a second to compile for each size. LAPACK's threads wait
    busily for one another: on a machine that does other work as well a matrix of 64 rows took 20
    ms, too long for the fit's loop (`suggest.hyperparameters`).
    """
    identity = jnp.eye(len(matrix), dtype=matrix.dtype)
    root = lax.linalg.cholesky(matrix)
    return lax.linalg.triangular_solve(root, identity, left_side=True, lower=True)


def _by_halves(top: Array, strip: Array) -> Factor:
    """`cholesky_inverse` of a matrix given by its first block [h,h] and all of its rows [M-h,M]
    below."""
    half = top.shape[0]
    upper = cholesky_inverse(top)
    cross = matmul(strip[:, :half], upper.inverse.T)
    lower = cholesky_inverse(strip[:, half:] - matmul(cross, cross.T))
    corner = -matmul(lower.inverse, matmul(cross, upper.inverse))
    nothing = jnp.zeros_like(corner.T)
    return Factor(
        inverse=jnp.block([[upper.inverse, nothing], [corner, lower.inverse]]),
        logdet=upper.logdet + lower.logdet,
        lower=jnp.block([[upper.lower, nothing], [cross, lower.lower]]),
    )


def upper_root(matrix: Array) -> Array:
    """F [M,M] upper triangular with F F^T = a positive definite matrix [M,M]: Cholesky from the
    last column to the first."""
    return cholesky_inverse(matrix[::-1, ::-1]).lower[::-1, ::-1]


def shifted_cholesky(matrix: Array, shift: Array) -> tuple[Array, Array]:
    """(L, s): L L^T = matrix + s I for a symmetric matrix [M,M] that rounding may have made
    indefinite, s [] the first of shift, 10 shift, 100 shift ... that makes it positive definite;
    infinite, and L NaN, for a matrix that is not finite. shift must be above 0.
    """
    size = matrix.shape[0]
    identity = jnp.eye(size, dtype=matrix.dtype)
    # by Gershgorin's circles
    enough = size * jnp.abs(matrix).max()

    def attempt(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        shift = 10 * carry[1]
        return lax.linalg.cholesky(matrix + shift * identity), shift

    def failed(carry: tuple[Array, Array]) -> Array:
        lower, shift = carry
        return ~jnp.isfinite(jnp.diagonal(lower)).all() & (shift <= enough)

    shift = jnp.asarray(shift, matrix.dtype)
    lower, shift = lax.while_loop(
        failed, attempt, (lax.linalg.cholesky(matrix + shift * identity), shift)
    )
    return lower, jnp.where(jnp.isfinite(jnp.diagonal(lower)).all(), shift, jnp.inf)


class _Pivoted(NamedTuple):
    """An unfinished pivoted Cholesky factorization. Row k of `lower` is the column l_k of the
    factor, points in their own order; pivots are chosen in the order `order`."""

    schur: Array  # [M, M], after the panels that are finished
    diagonal: Array  # [M], of the current Schur complement; -inf where a point is spent
    panel: Array  # [BLOCK, M], rows of the current panel
    lower: Array  # [M, M]
    order: Array  # [M] int32
    rank: Array  # [] int32


_Pivots = tuple[Array, Array, Array, Array, Array]  # diagonal, next pivot, panel, order, count


def _pivot_panel(state: _Pivoted, cut: Array) -> _Pivoted:
    """Up to BLOCK pivots, each the largest diagonal entry that is left, down to the cut; then one
    Schur update."""
    block = state.panel.shape[0]

    def pivot(carry: _Pivots) -> _Pivots:
        diagonal, best, panel, order, j = carry
        root = jnp.sqrt(diagonal[best])
        row = state.schur[best] - matmul(panel[:, best], panel)
        row = put(jnp.where(jnp.isneginf(diagonal), 0, row / root), best, root)
        diagonal = put(diagonal - jnp.square(row), best, jnp.asarray(-jnp.inf))
        panel, order = put(panel, j, row), put(order, state.rank + j, best)
        return diagonal, jnp.argmax(diagonal).astype(jnp.int32), panel, order, j + 1

    def more(carry: _Pivots) -> Array:
        diagonal, best, _, _, j = carry
        return (j < block) & (diagonal[best] > cut)

    first = jnp.argmax(state.diagonal).astype(jnp.int32)
    start = (
        state.diagonal,
        first,
        jnp.zeros_like(state.panel),
        state.order,
        jnp.zeros((), jnp.int32),
    )
    diagonal, _, panel, order, count = lax.while_loop(more, pivot, start)
    lower = lax.dynamic_update_slice(state.lower, panel, (state.rank, jnp.zeros((), jnp.int32)))
    return _Pivoted(
        state.schur - matmul(panel.T, panel), diagonal, panel, lower, order, state.rank + count
    )


def triangular_inverse(lower: Array) -> Array:
    """L^-1 of a lower triangular matrix [M,M]: the diagonal blocks side by side, the rest in
    products, by halves."""
    size = lower.shape[0]
    if devices.on_accelerator():
        identity = jnp.eye(size, dtype=lower.dtype)
        return lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    count = -(-size // BLOCK)
    padded = pad_identity(lower, count * BLOCK)
    edges = range(0, count * BLOCK, BLOCK)
    blocks = jnp.stack([padded[i : i + BLOCK, i : i + BLOCK] for i in edges])
    inverses = jax.vmap(_small_triangular_inverse)(blocks)

    def merged(begin: int, end: int) -> Array:
        """The inverse of the blocks begin to end."""
        if end - begin == 1:
            return inverses[begin]
        middle = (begin + end) // 2
        top, bottom = merged(begin, middle), merged(middle, end)
        corner = padded[middle * BLOCK : end * BLOCK, begin * BLOCK : middle * BLOCK]
        corner = -matmul(bottom, matmul(corner, top))
        return jnp.block([[top, jnp.zeros_like(corner.T)], [corner, bottom]])

    return merged(0, count)[:size, :size]


def _small_triangular_inverse(lower: Array) -> Array:
    """L^-1, row by row."""
    identity = jnp.eye(lower.shape[0], dtype=lower.dtype)

    def row(i: Array, inverse: Array) -> Array:
        return put(inverse, i, (identity[i] - matmul(lower[i], inverse)) / lower[i, i])

    return lax.fori_loop(0, lower.shape[0], row, jnp.zeros_like(lower))


class InverseRoot(NamedTuple):
    """R R^T = the pseudo-inverse of the Gram matrix of the points in `order`."""

    order: Array  # [M] int32
    root: Array  # [M, M], R, upper triangular
    # [M, M], Z: row i is k(x_i, points in `order`) @ R of point i, Z Z^T the Gram matrix
    own: Array


def inverse_root(gram: Array, mask: Array) -> InverseRoot:
    """The inverse root of the Gram matrix [M,M] of points, those whose mask [M] is true.

    Cholesky with diagonal pivoting that ends at a rank cut of m eps max(diagonal). Without pivoting
    the factor of a numerically singular matrix is garbage (variances off by a factor 10 on
    clustered points, tests/posterior/test_linalg.py), and a jitter of 1e-10 already costs 10% of a
    variance, because residuals are divided by the regularization (THEORY 9.2). Rows and columns of
    R past the rank are exactly zero, and `order` points at slot 0 there.

    On an accelerator, where each pivot is a dozen launches, that is only done where the smallest
    eigenvalue, at least 1/|R|^2, may be within MARGIN of the cut. A CPU would gain a tenth of a
    round, and lose digits: explicit inverses of unpivoted factors are off by eps times their
    condition, of clusters by 6 times what rounding has to cost (tests/fuzz, arms 2099).
    """
    size, dtype = gram.shape[0], gram.dtype
    gram = jnp.where(mask[:, None] & mask[None, :], gram, 0)
    count = jnp.maximum(mask.sum(dtype=dtype), 1)
    cut = count * jnp.finfo(dtype).eps * jnp.max(jnp.diagonal(gram))
    if not devices.on_accelerator():
        return _pivoted_root(gram, mask, cut)
    order, used = compact(running_count(mask), 0, size)
    both = used[:, None] & used[None, :]
    ordered = jnp.where(both, gram[order][:, order], jnp.eye(size, dtype=dtype))
    factor = cholesky_inverse(ordered)
    root = jnp.where(both, factor.inverse.T, 0)
    # a factorization that failed is NaN, which is not below
    well = MARGIN * cut * jnp.square(root).sum() < 1
    own = jnp.zeros_like(gram).at[jnp.where(used, order, size)]
    found = InverseRoot(order, root, own.set(jnp.where(both, factor.lower, 0), mode="drop"))
    return lazy_cond(~well, lambda _: _pivoted_root(gram, mask, cut), found)


def _pivoted_root(gram: Array, mask: Array, cut: Array) -> InverseRoot:
    """`inverse_root` by Cholesky with diagonal pivoting, down to the cut."""
    size, dtype = gram.shape[0], gram.dtype
    block = min(BLOCK, size)
    # rows to spare: a panel is written whole, wherever it begins
    start = _Pivoted(
        schur=gram,
        diagonal=jnp.where(mask, jnp.diagonal(gram), -jnp.inf),
        panel=jnp.zeros((block, size), dtype),
        lower=jnp.zeros((size + block, size), dtype),
        order=jnp.zeros(size, jnp.int32),
        rank=jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(lambda s: jnp.max(s.diagonal) > cut, lambda s: _pivot_panel(s, cut), start)
    slots = jnp.arange(size, dtype=jnp.int32)
    used = slots < end.rank
    # column k of the triangular factor, its rows in pivot order
    own = end.lower[:size].T
    lower = jnp.where(used[None, :] & used[:, None], own[end.order], 0)
    lower = jnp.where(~used[None, :] & (slots[:, None] == slots[None, :]), 1, lower)
    lower = jnp.where(slots[:, None] >= slots[None, :], lower, 0)
    inverse = triangular_inverse(lower)
    return InverseRoot(end.order, jnp.where(used[:, None] & used[None, :], inverse.T, 0), own)
