"""Newton coordinates of a dictionary that grows: z(x) = L^-1 k_I(x) with K_II = L L^T.

A point that joins adds one coordinate and changes none of those before, unlike K_II^(-1/2): what has been learned in the
old coordinates stays valid.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from jsketch.linalg import matmul, put

# of k(x,x); below it a point that joins is in the span of the others, and rounding would pass for a coordinate
LEAST_RESIDUAL = 1e-10


def join(basis: Array, slot: Array, z: Array, own: Array) -> tuple[Array, Array]:
    """(L^-1 [M,M] with a point as number `slot`, its new coordinate []) for its z [M] so far and own = k(x,x) [].

    A point in the span of the others gets a row of zeros and the coordinate zero.
    """
    residual = own - jnp.square(z).sum()
    new = residual > LEAST_RESIDUAL * own
    pivot = jnp.sqrt(jnp.where(new, residual, 1))
    row = put(-matmul(z, basis), slot, jnp.ones((), z.dtype)) / pivot
    return put(basis, slot, jnp.where(new, row, 0)), jnp.where(new, pivot, 0)
