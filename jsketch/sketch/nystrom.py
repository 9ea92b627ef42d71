"""Nystrom features of a dictionary S: z(x) = (K_S^+)^{1/2} k_S(x) (BKB eq. 3). z is defined up to a
rotation, on which posteriors do not depend (THEORY 9.2)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.numerics import inverse_root, matmul, take


@struct.dataclass
class Nystrom:
    """The points of a dictionary and the inverse root of their Gram matrix.

    points  [M, d], in the order of their pivots; beyond the rank, arbitrary points of S
    root    [M, M], upper triangular; rows and columns beyond the rank are zero
    """

    points: Array
    root: Array


def build(kernel: Any, points: Array, mask: Array) -> Nystrom:
    """The Nystrom map of the points [M,d] whose mask [M] is true, possibly linearly dependent.

    Example:

        sketch = build(kernels.Gaussian(1.0), points, jnp.ones(len(points), bool))
        z = features(sketch, kernels.Gaussian(1.0), x)  # z(x).z(x') is about k(x,x')
    """
    order, rank, root, _ = inverse_root(kernel.gram(points, points), mask)
    in_rank = jnp.arange(len(mask), dtype=jnp.int32) < rank
    return Nystrom(take(points, order), jnp.where(in_rank[:, None], take(root, order), 0))


def features(nystrom: Nystrom, kernel: Any, x: Array) -> Array:
    """The features z(x) [n,M] of points x [n,d]."""
    return matmul(kernel.gram(x, nystrom.points), nystrom.root)
