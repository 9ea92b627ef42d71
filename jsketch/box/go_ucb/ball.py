"""GO-UCB's confidence ball over the parameters (eqs. 3, 5 and 6) and its squared radius (eqs. 7 and
9).

Sigma = lam I + G^T G, where the rows of G [N, d_w] are the gradients g_i of the N observed points;
rows of zeros change nothing. No d_w x d_w matrix is formed: with A = G / sqrt(lam) and L L^T =
I + A A^T [N,N],

    Sigma^-1 = (I - A^T (L L^T)^-1 A) / lam,

so that a product with a vector costs only O(N d_w + N^2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.numerics import cholesky_inverse, diagonal, matmul


class Displacement(NamedTuple):
    """v = w - w_t and its image under A. With the image, |v|_Sigma costs only O(d_w + N)."""

    v: Array  # [d_w]
    image: Array  # [N], A v


@struct.dataclass
class Ellipsoid:
    """The matrix Sigma with its factors.

    rows            [N, d_w], A = G / sqrt(lam)
    inverse         [N, N], L^-1
    regularization  [], lam
    logdet          [], logdet(Sigma / lam)
    """

    rows: Array
    inverse: Array
    regularization: Array
    logdet: Array

    def solve_dual(self, u: Array) -> Array:
        """(lam I + G G^T)^-1 u = (L L^T)^-1 u / lam for u [N]; at u = A v it is A Sigma^-1 v."""
        return matmul(self.inverse.T, matmul(self.inverse, u)) / self.regularization

    def solve(self, v: Array) -> Displacement:
        """Sigma^-1 v [d_w] of v [d_w], and its image under A."""
        image = self.solve_dual(matmul(self.rows, v))
        return Displacement(v / self.regularization - matmul(image, self.rows), image)

    def squared_norm(self, v: Array, image: Array | None = None) -> Array:
        """|v|_Sigma^2, []; `image` is A v [N] (None: it is computed)."""
        image = matmul(self.rows, v) if image is None else image
        return self.regularization * (jnp.square(v).sum() + jnp.square(image).sum())


def ellipsoid(gradients: Array, regularization: ArrayLike) -> Ellipsoid:
    """Sigma = lam I + sum_i g_i g_i^T (eq. 3) of gradients [N, d_w], whose unused rows are zero."""
    lam = jnp.asarray(regularization, gradients.dtype)
    rows = gradients / jnp.sqrt(lam)
    lower, inverse = cholesky_inverse(jnp.eye(len(rows), dtype=rows.dtype) + matmul(rows, rows.T))
    logdet = 2 * jnp.log(diagonal(lower)).sum()
    return Ellipsoid(rows, inverse, lam, logdet)


def estimate(sigma: Ellipsoid, gradients: Array, targets: Array, w0: Array) -> Array:
    """w_t [d_w] of eq. 5, the minimizer of eq. 4, from targets g_i^T w_i + y_i - f_{x_i}(w_i) [N],
    whose unused rows are zero. It is computed in the dual form
    w_t - w0 = G^T (lam I + G G^T)^-1 (targets - G w0)."""
    residual = targets - matmul(gradients, w0)
    return w0 + matmul(sigma.solve_dual(residual), gradients)


class Step(NamedTuple):
    """The argument of a schedule. A schedule is a callable pytree, schedule(step) -> beta_t [], for
    example `OFUL` or `jax.tree_util.Partial(function)`. beta_t has the dtype of `logdet`."""

    t: Array  # [] int32, the number of the evaluation in phase II, from 1
    horizon: int  # T, the evaluations of phase II
    parameters: int  # d_w, the number of parameters
    regularization: Array  # [], lam
    logdet: Array  # [], logdet(Sigma_t / lam)
    scale: Array  # [], standard deviation of y, which divides values; 1 without standardization


@struct.dataclass
class OFUL(struct.Settings):
    """beta_t = (sqrt(lam) b + sigma sqrt(logdet(Sigma_t/lam) + 2 log 1/delta))^2 of a linear model
    with a prior guess w0 (Abbasi-Yadkori, Pal, Szepesvari 2011; THEORY 8.2).

    norm_bound  b, a bound on |w0 - w*|, for standardized values
    noise_std   sigma, in units of y
    delta       failure probability
    """

    norm_bound: ArrayLike = struct.number(1.0, at_least=0)
    noise_std: ArrayLike = struct.number(0.01, at_least=0)
    delta: ArrayLike = struct.number(0.1, above=0, below=1)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        noise = jnp.asarray(self.noise_std, dtype) / step.scale
        confidence = jnp.sqrt(step.logdet + 2 * jnp.log(1 / jnp.asarray(self.delta, dtype)))
        return jnp.square(jnp.sqrt(step.regularization) * self.norm_bound + noise * confidence)


@struct.dataclass
class Printed(struct.Settings):
    """beta_t = d_w^3 F^4 t / T of Appendix D.1. At F = 1 the ball is so large that it constrains
    nothing (THEORY 8.2).

    range_bound  F >= |f|, for which the paper gives no number
    """

    range_bound: ArrayLike = struct.number(1.0, above=0)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        increment = jnp.asarray(float(step.parameters) ** 3 / step.horizon, dtype)
        return increment * jnp.asarray(self.range_bound, dtype) ** 4 * step.t.astype(dtype)


@struct.dataclass
class Theory(struct.Settings):
    """beta_t = c (d_w sigma^2 + d_w^3 / mu^2 + d_w^3 t / (mu^2 T)), all terms of eq. 7; `Printed`
    has only the last term (THEORY 8.2). The paper gives the order and does not specify c.

    convexity  mu, of the expected loss around w*, for standardized values
    noise_std  sigma, in units of y
    factor     c, the constants and the logarithms of T and 1/delta
    """

    convexity: ArrayLike = struct.number(1.0, above=0)
    noise_std: ArrayLike = struct.number(0.01, at_least=0)
    factor: ArrayLike = struct.number(1.0, above=0)

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        noise = jnp.square(jnp.asarray(self.noise_std, dtype) / step.scale)
        convexity = jnp.asarray(self.convexity, dtype)
        cubic_term = jnp.asarray(float(step.parameters) ** 3, dtype) / jnp.square(convexity)
        order = step.parameters * noise + cubic_term * (1 + step.t.astype(dtype) / step.horizon)
        return jnp.asarray(self.factor, dtype) * order


def printed_regularization(horizon: int) -> float:
    """lam = sqrt(T) log^2 T of Appendix D.1, but at least 1, because it would be 0 at T = 1."""
    return max(math.sqrt(horizon) * math.log(horizon) ** 2, 1.0)


@struct.dataclass
class Ball:
    """Ball_t of eq. 6: |w - w_t|_Sigma^2 <= beta.

    sigma   the `Ellipsoid` of Sigma_t
    centre  [d_w], w_t
    beta    []
    """

    sigma: Ellipsoid
    centre: Array
    beta: Array

    def excess(self, v: Array, image: Array | None = None) -> Array:
        """The number [] by which v = w - w_t [d_w] is divided so that w lies in the ball; 1 if it
        lies there. `image` is A v [N] (None: it is computed)."""
        tiny = jnp.finfo(v.dtype).tiny  # a ball of radius 0 consists of its centre
        length = jnp.sqrt(self.sigma.squared_norm(v, image))
        return jnp.maximum(1, length / jnp.maximum(jnp.sqrt(self.beta), tiny))

    def to_surface(self, gradient: Array) -> Displacement:
        """sqrt(beta) Sigma^-1 g / |g|_Sigma^-1 of a gradient g [d_w] in w: the displacement from
        the centre to the surface, and never beyond, that is steepest to first order."""
        solution = self.sigma.solve(gradient)
        # a gradient whose squares underflow has no direction
        tiny = jnp.finfo(gradient.dtype).tiny
        length = jnp.sqrt(self.sigma.squared_norm(*solution) + tiny)
        radius = jnp.sqrt(self.beta)
        return Displacement(radius * (solution.v / length), radius * (solution.image / length))
