"""GO-UCB's confidence ball over the parameters (eqs. 3, 5 and 6), in O(t d_w + t^2): no d_w x d_w
matrix is formed.

Sigma = lam I + G^T G with the gradients g_i of the T observed choices as rows of G [T, d_w]; unused
rows are zero, which is exactly neutral. With A = G / sqrt(lam) and L L^T = I + A A^T [T,T],

    Sigma^-1 = (I - A^T (L L^T)^-1 A) / lam = W W^T,
    W = (I - A^T X A) / sqrt(lam),  X = L^-T (I + L)^-1.

W W^T is right because X + X^T - X A A^T X^T = (L L^T)^-1; it needs no eigenvectors and subtracts
nothing close.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.linalg import cholesky_inverse, matmul, triangular_inverse


@struct.dataclass
class Ellipsoid:
    """Sigma, ready to be multiplied and solved with."""

    rows: Array  # [T, d_w], A = G / sqrt(lam)
    inverse: Array  # [T, T], L^-1
    root: Array  # [T, T], X
    regularization: Array  # [], lam
    logdet: Array  # [], logdet(Sigma / lam)

    def image_of_solution(self, v: Array) -> Array:
        """A Sigma^-1 v = (L L^T)^-1 A v / lam, [T]."""
        return (
            matmul(self.inverse.T, matmul(self.inverse, matmul(self.rows, v))) / self.regularization
        )

    def solve(self, v: Array) -> Array:
        """Sigma^-1 v, [d_w]."""
        return v / self.regularization - matmul(self.image_of_solution(v), self.rows)

    def half(self, u: Array) -> Array:
        """W u, [d_w]: Sigma^-1/2 up to a rotation, so that |W u|_Sigma = |u|."""
        return (u - matmul(matmul(self.root, matmul(self.rows, u)), self.rows)) / jnp.sqrt(
            self.regularization
        )

    def half_transposed(self, v: Array) -> Array:
        """W^T v, [d_w], so that |W^T v| = |v|_Sigma^-1."""
        inner = matmul(matmul(self.rows, v), self.root)
        return (v - matmul(inner, self.rows)) / jnp.sqrt(self.regularization)

    def squared_norm(self, v: Array, image: Array | None = None) -> Array:
        """|v|_Sigma^2, []; image is A v [T], if it is known."""
        image = matmul(self.rows, v) if image is None else image
        return self.regularization * (jnp.square(v).sum() + jnp.square(image).sum())

    def inverse_squared_norm(self, v: Array) -> Array:
        """|v|_Sigma^-1 ^2, []."""
        return jnp.square(self.half_transposed(v)).sum()


def ellipsoid(gradients: Array, regularization: ArrayLike) -> Ellipsoid:
    """Sigma = lam I + sum_i g_i g_i^T of gradients [T, d_w], zero where unused."""
    lam = jnp.asarray(regularization, gradients.dtype)
    rows = gradients / jnp.sqrt(lam)
    identity = jnp.eye(rows.shape[0], dtype=rows.dtype)
    gram = identity + matmul(rows, rows.T)
    factor = cholesky_inverse(gram)
    lower = jnp.tril(matmul(gram, factor.inverse.T))
    root = matmul(factor.inverse.T, triangular_inverse(identity + lower))
    return Ellipsoid(rows, factor.inverse, root, lam, factor.logdet)


def estimate(sigma: Ellipsoid, gradients: Array, targets: Array, w0: Array) -> Array:
    """w_t [d_w] of eq. 5, the minimizer of eq. 4, of targets g_i^T w_i + y_i - f_{x_i}(w_i) [T],
    zero where unused.

    In its dual form: w_t - w0 = G^T (lam I + G G^T)^-1 (targets - G w0).
    """
    surprise = targets - matmul(gradients, w0)
    dual = matmul(sigma.inverse.T, matmul(sigma.inverse, surprise)) / sigma.regularization
    return w0 + matmul(dual, gradients)
