"""Nystrom features of a dictionary S: z(x) = K_S^{+/2} k_S(x), and the residual k(x,x) - |z(x)|^2 (BKB eq. 3).

z is defined up to a rotation; only posteriors, never z, are comparable between implementations (theory.md E2).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import struct
from jax import Array

from jsketch.factor import inverse_root
from jsketch.linalg import matmul_upper


@struct.dataclass
class Nystrom:
    """The points of a dictionary and the inverse root of their Gram matrix."""

    points: Array  # [M, d], in the order of their pivots; past the rank any point of the dictionary
    root: Array  # [M, M], upper triangular; rows and columns past the rank are zero


def build(kernel: Any, points: Array, mask: Array) -> Nystrom:
    """The Nystrom map of the points [M,d] whose mask [M] is true. Dependent points cost nothing (rank cut)."""
    order, root = inverse_root(kernel.gram(points, points), mask)
    return Nystrom(points=points[order], root=root)


def features(nystrom: Nystrom, kernel: Any, x: Array) -> Array:
    """z(x), [n,M], of x [n,d]."""
    return matmul_upper(kernel.gram(x, nystrom.points), nystrom.root)


def residual(diag: Array, z: Array) -> Array:
    """k(x,x) - |z(x)|^2 >= 0, [n]: what the dictionary cannot represent. diag [n] is k(x,x)."""
    return jnp.maximum(diag - jnp.square(z).sum(-1), 0)


@struct.dataclass
class NystromFeatures:
    """A dictionary known beforehand as a feature map, for forecasters (PKAWV, Corollary 8)."""

    kernel: Any
    nystrom: Nystrom

    def features(self, x: Array) -> Array:
        """z(x), [n, M]."""
        return features(self.nystrom, self.kernel, x)


def feature_map(kernel: Any, points: Array) -> NystromFeatures:
    """The Nystrom features of points [M,d]."""
    return NystromFeatures(kernel, build(kernel, points, jnp.ones(points.shape[0], bool)))
