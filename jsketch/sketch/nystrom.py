"""Nystrom features of a dictionary S: z(x) = K_S^{+/2} k_S(x), and the residual k(x,x) - |z(x)|^2
(BKB eq. 3).

z is defined up to a rotation: compare posteriors between implementations, not z (THEORY 9.2).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import struct
from jsketch.linalg import inverse_root, matmul, matmul_upper

PROBES = 4  # random directions that estimate a norm
POINTS = 64  # inducing points of one product of `dual_products`


@struct.dataclass
class Nystrom:
    """The points of a dictionary and the inverse root of their Gram matrix."""

    # [M, d], in the order of their pivots; beyond the rank, any point of the dictionary
    points: Array
    root: Array  # [M, M], upper triangular; rows and columns beyond the rank are zero


def build(kernel: Any, points: Array, mask: Array) -> Nystrom:
    """The Nystrom map of the points [M,d] whose mask [M] is true, which may be linearly dependent
    (rank cut)."""
    return build_with_features(kernel, points, mask)[0]


def build_with_features(kernel: Any, points: Array, mask: Array) -> tuple[Nystrom, Array]:
    """`build`, and the features z [M,M] of the points themselves, zero where the mask is false.
    They are read from the factor, more exactly than `features` computes them."""
    order, root, z = inverse_root(kernel.gram(points, points), mask)
    return Nystrom(points=points[order], root=root), z


def features(nystrom: Nystrom, kernel: Any, x: Array) -> Array:
    """z(x), [n,M], of x [n,d]."""
    return matmul_upper(kernel.gram(x, nystrom.points), nystrom.root)


def dual_products(kernel: Any, x: Array, points: Array, columns: Array, used: Array) -> Array:
    """k(x, points) @ columns, [n,c], of points [M,d] and columns [M,c] that are zero from number
    `used` [] on: kernel values of free slots are not computed."""
    width = min(POINTS, len(points))
    spare = ((0, -len(points) % width), (0, 0))
    points, columns = jnp.pad(points, spare, mode="edge"), jnp.pad(columns, spare)

    def some(i: Array, product: Array) -> Array:
        k = kernel.gram(x, lax.dynamic_slice_in_dim(points, i * width, width))
        return product + matmul(k, lax.dynamic_slice_in_dim(columns, i * width, width))

    start = jnp.zeros((len(x), columns.shape[1]), x.dtype)
    return lax.fori_loop(0, -(-used // width), some, start)


def residual(diag: Array, z: Array) -> Array:
    """k(x,x) - |z(x)|^2 >= 0, [n]: the part of the prior variance k(x,x) = diag [n] that the
    dictionary does not represent."""
    return jnp.maximum(diag - jnp.square(z).sum(-1), 0)


def probes(nystrom: Nystrom) -> Array:
    """[M, PROBES], K_S^-1/2 times the random directions of `sensitivity`: fixed normals, the same
    for a point at every capacity."""
    normal = np.random.default_rng(0).standard_normal((nystrom.root.shape[0], PROBES))
    features = matmul(nystrom.root.T, jnp.asarray(normal, nystrom.root.dtype))
    return matmul(nystrom.root, features)


def sensitivity(probed: Array) -> Array:
    """An estimate of 1 + max |K_S^-1 k_S(x)|^2, [], over points x; `probed` [n, PROBES]
    is k_S(x)^T @ probes.

    Errors E of K_S and e of k_S(x) change |z|^2 by 2 a^T e - a^T E a with a = K_S^-1 k_S(x) = root
    z, so that kernel values rounded to eps leave an error of about eps (1 + |a|^2) in residuals,
    for any factorization of K_S: large where the dictionary has near-duplicates and x is far from
    them. Variances have that error where the data determine f along a. Compared with long double
    arithmetic on 300 random problems, a third with near-duplicates, errors from 1e-16 to 6% of the
    largest variance were overestimated by a factor of 0.5 to 29 in nine of ten, by 2 in the median;
    none of the nine errors above 0.1% was missed.
    """
    return 1 + jnp.square(probed).mean(1).max()


@struct.dataclass
class NystromFeatures:
    """A fixed dictionary as a feature map, for forecasters (PKAWV, Corollary 8)."""

    kernel: Any
    nystrom: Nystrom

    def features(self, x: Array) -> Array:
        """z(x), [n, M]."""
        return features(self.nystrom, self.kernel, x)


def feature_map(kernel: Any, points: Array) -> NystromFeatures:
    """The Nystrom features of points [M,d]."""
    return NystromFeatures(kernel, build(kernel, points, jnp.ones(points.shape[0], bool)))
