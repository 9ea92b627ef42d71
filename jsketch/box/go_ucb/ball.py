"""GO-UCB's confidence ball over the parameters (eqs. 3, 5 and 6), its squared radius (eqs. 7 and
9), and the optimistic value of a point, the maximum of f_w(x) over w in the ball.

Sigma = lam I + G^T G, where the rows of G [N, d_w] are the gradients g_i of the N observed points;
rows of zeros change nothing. No d_w x d_w matrix is formed: a product with a vector costs only
O(N d_w + N^2). With A = G / sqrt(lam) and L L^T = I + A A^T [N,N],

    Sigma^-1 = (I - A^T (L L^T)^-1 A) / lam = W W^T,
    W = (I - A^T X A) / sqrt(lam),  X = L^-T (I + L)^-1,

because X + X^T - X A A^T X^T = (L L^T)^-1. W needs no eigenvectors and has no cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box.go_ucb.model import FlatModel
from jsketch.linalg import cholesky_inverse, matmul, triangular_inverse


@struct.dataclass
class Ellipsoid:
    """The matrix Sigma with its factors."""

    rows: Array  # [N, d_w], A = G / sqrt(lam)
    inverse: Array  # [N, N], L^-1
    root: Array  # [N, N], X
    regularization: Array  # [], lam
    logdet: Array  # [], logdet(Sigma / lam)

    def solve_dual(self, v: Array) -> Array:
        """(lam I + G G^T)^-1 v = (L L^T)^-1 v / lam for v [N]; at v = A u it is A Sigma^-1 u."""
        return matmul(self.inverse.T, matmul(self.inverse, v)) / self.regularization

    def inverse_root(self, u: Array) -> Array:
        """W u, [d_w], which is Sigma^-1/2 u up to a rotation; |W u|_Sigma = |u|."""
        inner = matmul(self.root, matmul(self.rows, u))
        return (u - matmul(inner, self.rows)) / jnp.sqrt(self.regularization)

    def inverse_root_transposed(self, v: Array) -> Array:
        """W^T v, [d_w]; |W^T v| = |v|_Sigma^-1."""
        inner = matmul(matmul(self.rows, v), self.root)
        return (v - matmul(inner, self.rows)) / jnp.sqrt(self.regularization)

    def squared_norm(self, v: Array, image: Array | None = None) -> Array:
        """|v|_Sigma^2, []; `image` is A v [N] (None: it is computed)."""
        image = matmul(self.rows, v) if image is None else image
        return self.regularization * (jnp.square(v).sum() + jnp.square(image).sum())


def ellipsoid(gradients: Array, regularization: ArrayLike) -> Ellipsoid:
    """Sigma = lam I + sum_i g_i g_i^T of gradients [N, d_w], whose unused rows are zero."""
    lam = jnp.asarray(regularization, gradients.dtype)
    rows = gradients / jnp.sqrt(lam)
    identity = jnp.eye(rows.shape[0], dtype=rows.dtype)
    gram = identity + matmul(rows, rows.T)
    factor = cholesky_inverse(gram)
    lower = jnp.tril(matmul(gram, factor.inverse.T))
    root = matmul(factor.inverse.T, triangular_inverse(identity + lower))
    return Ellipsoid(rows, factor.inverse, root, lam, factor.logdet)


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
    with a prior guess w0 (Abbasi-Yadkori, Pal, Szepesvari 2011; THEORY 8.2)."""

    norm_bound: ArrayLike = 1.0  # b, a bound on |w0 - w*|, for standardized values
    noise_std: ArrayLike = 0.01  # sigma, in units of y
    delta: ArrayLike = 0.1

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        noise = jnp.asarray(self.noise_std, dtype) / step.scale
        confidence = jnp.sqrt(step.logdet + 2 * jnp.log(1 / jnp.asarray(self.delta, dtype)))
        return jnp.square(jnp.sqrt(step.regularization) * self.norm_bound + noise * confidence)


@struct.dataclass
class Printed(struct.Settings):
    """beta_t = d_w^3 F^4 t / T of Appendix D.1. At F = 1 the ball is so large that it constrains
    nothing (THEORY 8.2)."""

    range_bound: ArrayLike = 1.0  # F >= |f|, for which the paper gives no number

    def __call__(self, step: Step) -> Array:
        dtype = step.logdet.dtype
        increment = jnp.asarray(float(step.parameters) ** 3 / step.horizon, dtype)
        return increment * jnp.asarray(self.range_bound, dtype) ** 4 * step.t.astype(dtype)


@struct.dataclass
class Theory(struct.Settings):
    """beta_t = c (d_w sigma^2 + d_w^3 / mu^2 + d_w^3 t / (mu^2 T)), all terms of eq. 7; `Printed`
    has only the last term (THEORY 8.2). The paper gives the order and does not specify c."""

    convexity: ArrayLike = 1.0  # mu, of the expected loss around w*, for standardized values
    noise_std: ArrayLike = 0.01  # sigma, in units of y
    factor: ArrayLike = 1.0  # c, the constants and the logarithms of T and 1/delta

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
    """Ball_t of eq. 6: |w - centre|_Sigma^2 <= beta."""

    sigma: Ellipsoid
    centre: Array  # [d_w], w_t
    beta: Array  # []

    def displacement(self, u: Array) -> Array:
        """sqrt(beta) Sigma^-1/2 u, [d_w]: w - centre for a point u [d_w] of the unit ball."""
        return jnp.sqrt(self.beta) * self.sigma.inverse_root(u)


class Form(NamedTuple):
    """A parametrization of the ball by pytrees p: value(x, p) has the same maximum over p as f_w(x)
    has over w in the ball."""

    value: Callable[[Array, Any], Array]  # (x [d], p) -> []
    start: Callable[[Array], Any]  # gradient [d_w] of f_w(x) in w at w_t -> the first p
    direction: Callable[[Any], Any]  # gradient of `value` in p -> the ascent direction of p
    project: Callable[[Any], Any]  # p -> the nearest p whose w lies in the ball
    displacement: Callable[[Array, Any], Array]  # (x, p) -> w - w_t, [d_w]


class Displacement(NamedTuple):
    """w - w_t and its image under A. With the image, |w - w_t|_Sigma costs only O(d_w + N)."""

    w: Array  # [d_w], w - w_t
    image: Array  # [N], A (w - w_t)


def first_order(model: FlatModel, ball: Ball, x: Array) -> tuple[Array, Array]:
    """(maximum [], u [d_w]) at x [d]. The maximum over the ball of f_w(x) linearized at w_t is
    f_w_t(x) + sqrt(beta) |g|_Sigma^-1, and u is the point of the unit ball where it is attained."""
    value, gradient = jax.value_and_grad(model.value)(ball.centre, x)
    whitened = ball.sigma.inverse_root_transposed(gradient)
    # without `tiny`, the length of a zero gradient would have no derivative
    length = jnp.sqrt(jnp.square(whitened).sum() + jnp.finfo(x.dtype).tiny)
    return value + jnp.sqrt(ball.beta) * length, whitened / length


def linearized_form(model: FlatModel, ball: Ball) -> Form:
    """The linearization in w, whose maximum over the ball is `first_order`; p is empty."""
    return Form(
        value=lambda x, p: first_order(model, ball, x)[0],
        start=lambda gradient: gradient[:0],
        direction=lambda gradient: gradient,
        project=lambda p: p,
        displacement=lambda x, p: ball.displacement(first_order(model, ball, x)[1]),
    )


def whitened_form(model: FlatModel, ball: Ball) -> Form:
    """w = w_t + sqrt(beta) W u with |u| <= 1 and W W^T = Sigma^-1; p is the `Displacement`
    sqrt(beta) W u.

    To first order f increases fastest along the unit vector u = W^T g / |g|_Sigma^-1, where g is
    the gradient of f in w. This u displaces w by sqrt(beta) Sigma^-1 g / |g|_Sigma^-1. A step
    therefore needs neither u nor W, and only two products of size d_w N.
    """
    sigma, radius, tiny = ball.sigma, jnp.sqrt(ball.beta), jnp.finfo(ball.centre.dtype).tiny

    def length(p: Displacement) -> Array:
        return jnp.sqrt(sigma.squared_norm(p.w, p.image))

    def to_surface(gradient: Array) -> Displacement:
        """The steepest displacement from the centre to the surface of the ball, never beyond."""
        image = sigma.solve_dual(matmul(sigma.rows, gradient))
        solution = Displacement(gradient / sigma.regularization - matmul(image, sigma.rows), image)
        # a gradient whose squares underflow has no direction
        norm = jnp.sqrt(sigma.squared_norm(solution.w, solution.image) + tiny)
        return Displacement(radius * (solution.w / norm), radius * (solution.image / norm))

    def project(p: Displacement) -> Displacement:
        # a ball of radius 0 consists of its centre
        divisor = jnp.maximum(1, length(p) / jnp.maximum(radius, tiny))
        return Displacement(p.w / divisor, p.image / divisor)

    return Form(
        value=lambda x, p: model.value(ball.centre + p.w, x),
        start=to_surface,
        # the value does not depend on the image
        direction=lambda gradient: to_surface(gradient.w),
        project=project,
        displacement=lambda x, p: p.w,
    )


def plain_form(model: FlatModel, ball: Ball) -> Form:
    """The paper's form, in which p is w - w_t. The ascent starts at p = 0. When p leaves the ball,
    `project` scales p back to the surface."""

    def project(p: Array) -> Array:
        return p / jnp.maximum(1, jnp.sqrt(ball.sigma.squared_norm(p) / ball.beta))

    return Form(
        value=lambda x, p: model.value(ball.centre + p, x),
        start=jnp.zeros_like,
        direction=lambda gradient: gradient,
        project=project,
        displacement=lambda x, p: p,
    )
