"""Orthonormal coordinates of a dictionary that grows: z(x) = basis k_I(x), with |z|^2 the part of
k(x,x) in its span.

A point that joins usually adds one coordinate and changes none of those before, as a Newton basis
does. Its pivot, the residual k(x,x) - |z(x)|^2, carries an error of eps (1 + |K_II^-1 k_I(x)|^2)
k(x,x): on a random walk the second factor reaches 1e10, and features of the arrival order are then
wrong in the second digit. For such a point the basis is computed again with diagonal pivoting,
which selects a better set of points with the same span. Both bases are orthonormal, so that a
posterior in the old one is only rotated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch.linalg import cond_per_run, inverse_root, lazy_cond, matmul, matmul_rows, put, put_if

# a share of k(x,x). A smaller residual counts as a rounding error: the point is in the span of the
# others
LEAST_RESIDUAL, LEAST_EPS = 1e-10, 512  # the second in units of the machine's, which float32 needs


class Rotation(NamedTuple):
    """From old coordinates to new ones."""

    rows: Array  # [M, M] partial isometry Q, z_new = Q z_old
    rank: Array  # [] int32, number of new coordinates; the rows behind them are zero


class Joined(NamedTuple):
    """A dictionary after a point has joined, or has not."""

    basis: Array  # [M, M]; rows of zeros add no coordinate
    # [M], the unit vector of the new coordinate; zero where the span is the same
    direction: Array
    dual: Array  # [M], basis^T direction: the new coordinate of x is dual . k_I(x)
    carried: Any  # the argument `carried` in the new coordinates
    rebuilt: Array  # [] bool, whether the basis was computed again


def join(
    basis: Array,
    slot: Array,
    z: Array,
    diag: Array,
    kernel: Any,
    points: Array,
    carried: Any,
    rotated: Callable[[Any, Rotation], Any],
    joins: ArrayLike = True,
) -> Joined:
    """The coordinates after a point has joined in position `slot`, if it `joins` []; z [M] are its
    coordinates before, and diag [] is k(x,x).

    points [M,d] contains the new point; the rows after it are ignored. `carried` is a state in the
    old coordinates, and rotated(carried, rotation) the same state in new ones; it closes over no
    array (`cond_per_run`). A point in the span of the others gets a row of zeros.
    """
    joins = jnp.asarray(joins)
    eps = float(jnp.finfo(z.dtype).eps)
    least = max(LEAST_RESIDUAL, LEAST_EPS * eps)
    residual = diag - jnp.square(z).sum()
    dual = lazy_cond(joins, lambda _: matmul(z, basis), jnp.zeros_like(z))
    error = eps * (1 + jnp.square(dual).sum()) * diag
    new = residual > least * diag
    certain = jnp.where(new, error < math.sqrt(eps) * residual, error < least * diag)

    adds = joins & certain & new
    row = put(-dual, slot, jnp.ones((), z.dtype)) / jnp.sqrt(jnp.where(new, residual, 1))
    bordered = Joined(
        basis=put_if(adds, basis, slot, row),
        direction=put_if(adds, jnp.zeros_like(z), slot, jnp.ones((), z.dtype)),
        dual=jnp.where(adds, row, 0),
        carried=carried,
        rebuilt=joins & ~certain,
    )

    def rebuilt(old: Joined, given: tuple[Any, Array, Array]) -> Joined:
        kernel, points, slot = given
        table = kernel.gram(points, points)
        new_basis, rank = _pivoted(table, slot)
        rows = matmul_rows(matmul_rows(new_basis, table, rank), old.basis.T, rank)
        rotation = Rotation(_nearest_isometry(rows, rank), rank)
        direction = _outside(rotation.rows, matmul(new_basis, table[slot]))
        dual, carried = matmul(direction, new_basis), rotated(old.carried, rotation)
        return Joined(new_basis, direction, dual, carried, old.rebuilt)

    return cond_per_run(bordered.rebuilt, rebuilt, bordered, (kernel, points, slot))


def join_first(
    basis: Array,
    slot: Array,
    k: Array,
    x: Array,
    kernel: Any,
    points: Array,
    carried: Any,
    rotated: Callable[[Any, Rotation], Any],
    joins: Array,
) -> tuple[Joined, Array]:
    """(`join` of x [d], the first of a block, if it `joins` []; z [B,M] of the block after that),
    for k = k_I [B,M] of the block, I the dictionary with x in it if it joined."""
    # the column of a point that has just joined is still zero in the basis
    z = matmul(k, basis.T)
    diag = kernel.diag(x[None])[0]
    joined = join(basis, slot, z[0], diag, kernel, points, carried, rotated, joins)
    z = z + matmul(k, joined.dual)[:, None] * joined.direction[None, :]
    return joined, lazy_cond(joined.rebuilt, lambda z: matmul(k, joined.basis.T), z)


def _pivoted(gram: Array, last: Array) -> tuple[Array, Array]:
    """(the basis [M,M] of the points up to number `last`, by diagonal pivoting, its columns in the
    order of the points; its rank [] int32). Rows beyond the rank are zero."""
    order, root, _ = inverse_root(gram, jnp.arange(gram.shape[0], dtype=jnp.int32) <= last)
    # no transpose of the result: XLA would keep the basis by columns, and turn it over in every
    # step of a stream
    basis = jnp.zeros_like(root).at[:, order].add(root.T)
    return basis, basis.any(1).sum(dtype=jnp.int32)


def _nearest_isometry(rows: Array, rank: Array) -> Array:
    """One step of Newton and Schulz towards the nearest partial isometry. After it no singular
    value exceeds 1: curvatures do not increase, and precisions stay positive."""
    return 1.5 * rows - 0.5 * matmul_rows(matmul_rows(rows, rows.T, rank), rows, rank)


def _outside(rows: Array, z: Array) -> Array:
    """The unit vector [M] along the part of z [M] outside the span of the old coordinates; zero
    where there is no such part."""

    def unit(v: Array) -> Array:
        v = v - matmul(rows, matmul(v, rows))
        length = jnp.sqrt(jnp.square(v).sum())
        return v / jnp.where(length > 0, length, 1)

    direction = unit(unit(z))
    # rounding errors alone give a direction too, within the span of the old coordinates
    share = jnp.square(direction).sum() - jnp.square(matmul(direction, rows)).sum()
    return jnp.where(share > 0.5, direction, 0)
