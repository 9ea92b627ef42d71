"""Orthonormal coordinates of a growing dictionary: z(x) = basis k_I(x), where |z|^2 is the part of
k(x,x) in the span of the dictionary.

A point that joins usually adds one coordinate and changes no other one, as in a Newton basis.
The residual k(x,x) - |z(x)|^2, the pivot, has an error of eps (1 + |K_II^-1 k_I(x)|^2) k(x,x). If
the stream is a random walk, the second factor reaches 1e10, and the features would be wrong in the
second digit. The basis is therefore rebuilt if the error is too large: diagonal pivoting selects a
better set of points with the same span. Both bases are orthonormal: a posterior is only rotated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jsketch.numerics import inverse_root, lazy_cond, matmul, put, put_if

# A point counts as outside the span of the earlier points if its residual, divided by k(x,x),
# exceeds LEAST_RESIDUAL and LEAST_EPS machine epsilons. In float32 the second limit is larger.
LEAST_RESIDUAL, LEAST_EPS = 1e-10, 512


class Coordinates(NamedTuple):
    """The coordinates of a dictionary after `join`."""

    basis: Array  # [M, M]; rows of zeros add no coordinate
    direction: Array  # [M], the unit vector of the new coordinate; zero if there is none
    dual: Array  # [M], basis^T direction: the coordinate of x along `direction` is dual . k_I(x)
    state: Any  # the argument `state` of `join` in the new coordinates
    rebuilt: Array  # [] bool, whether the basis was rebuilt by diagonal pivoting


def join(
    basis: Array,
    slot: Array,
    z: Array,
    diag: Array,
    kernel: Any,
    points: Array,
    state: Any,
    rotate: Callable[[Any, Array], Any],
    joins: Array,
) -> Coordinates:
    """The coordinates after a point joins in position `slot`, if `joins` [] is true. If the point
    is in the span of the earlier points, its row of the basis is zero.

    z, diag  [M] and [], the old coordinates of the point, and k(x,x)
    points   [M,d], with the new point in row `slot`; later rows are ignored
    state    arrays in the old coordinates, such as a posterior
    rotate   rotate(state, rows) is the same state in new coordinates z_new = rows z_old, where
             `rows` [M,M] is a partial isometry, and zero beyond the number of new coordinates
    """
    eps = float(jnp.finfo(z.dtype).eps)
    least = max(LEAST_RESIDUAL, LEAST_EPS * eps)
    residual = diag - jnp.square(z).sum()
    dual = lazy_cond(joins, lambda _: matmul(z, basis), jnp.zeros_like(z))
    error = eps * (1 + jnp.square(dual).sum()) * diag
    is_new = residual > least * diag
    is_accurate = jnp.where(is_new, error < math.sqrt(eps) * residual, error < least * diag)

    adds = joins & is_accurate & is_new
    row = put(-dual, slot, jnp.ones((), z.dtype)) / jnp.sqrt(jnp.where(is_new, residual, 1))
    before_rebuild = Coordinates(
        basis=put_if(adds, basis, slot, row),
        direction=put_if(adds, jnp.zeros_like(z), slot, jnp.ones((), z.dtype)),
        dual=jnp.where(adds, row, 0),
        state=state,
        rebuilt=joins & ~is_accurate,
    )

    def rebuild(old: Coordinates) -> Coordinates:
        table = kernel.gram(points, points)
        # the root of the points up to the new one, by diagonal pivoting
        mask = jnp.arange(len(table), dtype=jnp.int32) <= slot
        new_basis = inverse_root(table, mask).root.T
        rows = matmul(matmul(new_basis, table), old.basis.T)
        # one Newton-Schulz step towards the nearest partial isometry: no singular value of Q then
        # exceeds 1, so that I - Q Q^T is positive semi-definite, as `rotate` needs
        rows = 1.5 * rows - 0.5 * matmul(matmul(rows, rows.T), rows)
        direction = _new_direction(rows, matmul(new_basis, table[slot]))
        dual, state = matmul(direction, new_basis), rotate(old.state, rows)
        return Coordinates(new_basis, direction, dual, state, old.rebuilt)

    return lazy_cond(before_rebuild.rebuilt, rebuild, before_rebuild)


def _new_direction(rows: Array, z: Array) -> Array:
    """The unit vector [M] along the part of z [M] outside the span of the old coordinates; zero if
    there is no such part."""

    def unit(v: Array) -> Array:
        v = v - matmul(rows, matmul(v, rows))
        length = jnp.sqrt(jnp.square(v).sum())
        return v / jnp.where(length > 0, length, 1)

    direction = unit(unit(z))
    # without such a part the direction is rounding errors within the span, and the share is near 0
    share = jnp.square(direction).sum() - jnp.square(matmul(direction, rows)).sum()
    return jnp.where(share > 0.5, direction, 0)
