"""What GO-UCB maximises: three ways to write max_{w in Ball_t} f_w(x), each as a value of (x, p)
with p a position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.box.go_ucb.ellipsoid import Ellipsoid
from jsketch.linalg import matmul
from jsketch.sketch.tangent import Flat


@struct.dataclass
class Ball:
    """Ball_t of eq. 6: |w - centre|_Sigma^2 <= beta."""

    sigma: Ellipsoid
    centre: Array  # [d_w], w_t
    beta: Array  # []

    def move(self, u: Array) -> Array:
        """sqrt(beta) Sigma^-1/2 u, [d_w]: the ball around zero, of u in the unit ball."""
        return jnp.sqrt(self.beta) * self.sigma.half(u)


class Search(NamedTuple):
    """One of the three."""

    value: Callable[[Array, Any], Array]  # (x [d], p) -> f_w(x), or its linearization, []
    # the p to start with, of the gradient of f_w(x) by w at w_t [d_w]
    start: Callable[[Array], Any]
    uphill: Callable[[Any], Any]  # the direction of rising p, of the gradient of `value` by p
    project: Callable[[Any], Any]  # p back to where w lies in the ball
    move: Callable[[Array, Any], Array]  # (x, p) -> w - w_t, [d_w]


class Move(NamedTuple):
    """w - w_t with its image, which makes lengths cheap."""

    w: Array  # [d_w]
    image: Array  # [T], A (w - w_t) with the ball's A


def _unmoved(p: Any) -> Any:
    return p


def first_order(model: Flat, ball: Ball, x: Array) -> tuple[Array, Array]:
    """The maximum over the ball of the linearization at w_t, f_x(w_t) + sqrt(beta) |g|_Sigma^-1 [],
    and the u [d_w] of the unit ball where it is attained, for x [d]."""
    value, gradient = jax.value_and_grad(model.value)(ball.centre, x)
    whitened = ball.sigma.half_transposed(gradient)
    # a gradient that vanishes has no direction, and must not spoil derivatives
    length = jnp.sqrt(jnp.square(whitened).sum() + jnp.finfo(x.dtype).tiny)
    return value + jnp.sqrt(ball.beta) * length, whitened / length


def linearized(model: Flat, ball: Ball) -> Search:
    """The first-order form: nothing but x is searched for, the position is empty."""
    return Search(
        value=lambda x, p: first_order(model, ball, x)[0],
        start=lambda gradient: gradient[:0],
        uphill=_unmoved,
        project=_unmoved,
        move=lambda x, p: ball.move(first_order(model, ball, x)[1]),
    )


def whitened(model: Flat, ball: Ball) -> Search:
    """w = w_t + sqrt(beta) W u with |u| <= 1 and W W^T = Sigma^-1; the position is sqrt(beta) W u,
    a `Move`.

    To first order f rises fastest along the unit vector u = W^T g / |g|_Sigma^-1, g its gradient by
    w, which moves w by sqrt(beta) Sigma^-1 g / |g|_Sigma^-1. So steps in u are taken without u and
    without W, for half of the products: with the image carried along, A g and a combination of A's
    rows are all of a step that grows with d_w T.
    """
    sigma, radius, tiny = ball.sigma, jnp.sqrt(ball.beta), jnp.finfo(ball.centre.dtype).tiny

    def length(p: Move) -> Array:
        return jnp.sqrt(sigma.squared_norm(p.w, p.image))

    def uphill(gradient: Array) -> Move:
        """From the centre to the border of the ball, and never beyond it."""
        image = sigma.image_of_solution(gradient)
        natural = Move(gradient / sigma.regularization - matmul(image, sigma.rows), image)
        # a gradient that vanishes, or whose squares do, has no direction
        unit = jnp.sqrt(sigma.squared_norm(natural.w, natural.image) + tiny)
        return Move(radius * (natural.w / unit), radius * (natural.image / unit))

    def project(p: Move) -> Move:
        # a ball of radius 0 is its centre
        outside = jnp.maximum(1, length(p) / jnp.maximum(radius, tiny))
        return Move(p.w / outside, p.image / outside)

    return Search(
        value=lambda x, p: model.value(ball.centre + p.w, x),
        start=uphill,
        # the value does not depend on the image
        uphill=lambda gradient: uphill(gradient.w),
        project=project,
        move=lambda x, p: p.w,
    )


def plain(model: Flat, ball: Ball) -> Search:
    """The paper's: the position is w - w_t itself, starts at zero, and is shortened when it leaves
    the ball."""

    def project(p: Array) -> Array:
        return p / jnp.maximum(1, jnp.sqrt(ball.sigma.squared_norm(p) / ball.beta))

    return Search(
        value=lambda x, p: model.value(ball.centre + p, x),
        start=jnp.zeros_like,
        uphill=_unmoved,
        project=project,
        move=lambda x, p: p,
    )
