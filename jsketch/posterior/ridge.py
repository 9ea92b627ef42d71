"""Ridge posterior in a feature space R^M, in whitened coordinates.

With V = lam I + sum_i n_i z_i z_i^T = lam B for n_i pulls of arm i, and B = L L^T, covariances and
means are inner products of the coordinates u(x) = L^-1 z(x) / sqrt(lam): mean(x) = u(x).weights and
e(x,x') = z^T V^-1 z' = u(x).u(x'). `fit` recomputes V^-1 from scratch. The eigenvalues of B are in
[1, 1 + n max k(x,x) / lam] for n pulls, so that explicit inverse factors are safe and
logdet(V/lam) has no cancellation (THEORY 9.3). Variances are in leverage units (divided by lam).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.linalg import cholesky_inverse, matmul, upper_outer

ETA, ETA_GROWTH = 256.0, 4.0  # first eta of `explained_root` in units of eps, and its growth factor


@struct.dataclass
class Ridge:
    """The posterior given the feedback, in whitened coordinates."""

    whiten: Array  # [M, M], upper triangular; u = z @ whiten
    weights: Array  # [M]; mean = u @ weights
    logdet: Array  # [], logdet(V / lam)


def fit(gram: Array, moment: Array, regularization: ArrayLike) -> Ridge:
    """The posterior from gram = sum_i n_i z_i z_i^T [M,M] and moment = sum_i s_i z_i [M], with
    reward sums s_i (BBKB eqs. 1 and 3)."""
    scale = jnp.sqrt(jnp.asarray(regularization, gram.dtype))
    factor = cholesky_inverse(jnp.eye(gram.shape[0], dtype=gram.dtype) + gram / regularization)
    return Ridge(
        whiten=factor.inverse.T / scale,
        weights=matmul(factor.inverse, moment) / scale,
        logdet=factor.logdet,
    )


def explained_root(ridge: Ridge, regularization: ArrayLike) -> Array:
    """An upper triangular matrix F [M,M] with lam sigma^2 = k(x,x) - |z F|^2, where |z F|^2 is the
    variance that the data explain.

    F F^T = I - B^-1/(1 + eta), and the factor 1/(1 + eta) only scales e(x,x). eta = ETA eps keeps
    F F^T positive definite in spite of rounding. If B^-1 has lost more digits (a dictionary of
    unobserved arms and of arms with very many pulls), eta is multiplied by ETA_GROWTH until F F^T
    is positive definite; F is NaN if eta exceeds 1 before that.
    """
    size, dtype = ridge.whiten.shape[0], ridge.whiten.dtype
    inverse = regularization * upper_outer(ridge.whiten)
    identity = jnp.eye(size, dtype=dtype)

    def attempt(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        eta = ETA_GROWTH * carry[1]
        # F F^T = matrix, by Cholesky from the last column to the first
        matrix = identity - inverse / (1 + eta)
        return cholesky_inverse(matrix[::-1, ::-1]).lower[::-1, ::-1], eta

    def failed(carry: tuple[Array, Array]) -> Array:
        root, eta = carry
        return ~jnp.isfinite(jnp.diagonal(root)).all() & (eta < 1)

    nan_root = jnp.full((size, size), jnp.nan, dtype)
    start = (nan_root, jnp.asarray(ETA * jnp.finfo(dtype).eps / ETA_GROWTH, dtype))
    return lax.while_loop(failed, attempt, start)[0]


def bayes_std(variance: Array, regularization: ArrayLike) -> Array:
    """The Bayesian standard deviation sqrt(lam sigma^2) of a variance in leverage units."""
    return jnp.sqrt(regularization * jnp.maximum(variance, 0))


def whitened_gain(covariance: Array, u: Array) -> tuple[Array, Array]:
    """(P u [M], the variance e(x,x) = u.P u []) of a point with coordinates u [M], where
    P [M,M] = (I + sum_s u_s u_s^T)^-1 includes the hallucinated pulls s since `fit`."""
    direction = matmul(covariance, u)
    return direction, jnp.maximum(matmul(u, direction), 0)


def hallucinate(covariance: Array, direction: Array, e: Array) -> Array:
    """P after one more pull, of the arm with P u = direction and u.P u = e (Sherman-Morrison)."""
    return covariance - direction[:, None] * (direction / (1 + e))[None, :]
