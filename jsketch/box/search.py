"""What GO-UCB maximises: three ways to write max_{w in Ball_t} f_w(x), each as a value of (x, p) with p [P] a position."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from jsketch.box.ellipsoid import Ellipsoid
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

    value: Callable[[Array, Array], Array]  # (x [d], p [P]) -> f_w(x), or its linearization, []
    project: Callable[[Array], Array]  # p back to where w lies in the ball
    start: Callable[[Array], Array]  # p of a point u of the unit ball
    move: Callable[[Array, Array], Array]  # (x, p) -> w - w_t, [d_w]


def first_order(model: Flat, ball: Ball, x: Array) -> tuple[Array, Array]:
    """The maximum over the ball of the linearization at w_t, f_x(w_t) + sqrt(beta) |g|_Sigma^-1 [], and the u [d_w] of
    the unit ball where it is attained, for x [d]."""
    value, gradient = jax.value_and_grad(model.value)(ball.centre, x)
    whitened = ball.sigma.half_transposed(gradient)
    # a gradient that vanishes has no direction, and must not spoil derivatives
    length = jnp.sqrt(jnp.square(whitened).sum() + jnp.finfo(x.dtype).tiny)
    return value + jnp.sqrt(ball.beta) * length, whitened / length


def linearized(model: Flat, ball: Ball) -> Search:
    """The first-order form: nothing but x is searched for, P = 0."""
    return Search(
        value=lambda x, p: first_order(model, ball, x)[0],
        project=lambda p: p,
        start=lambda u: u[:0],
        move=lambda x, p: ball.move(first_order(model, ball, x)[1]),
    )


def whitened(model: Flat, ball: Ball) -> Search:
    """w = w_t + sqrt(beta) Sigma^-1/2 u with |u| <= 1; the position is u."""
    return Search(
        value=lambda x, p: model.value(ball.centre + ball.move(p), x),
        project=lambda p: p / jnp.maximum(1, jnp.sqrt(jnp.square(p).sum())),
        start=lambda u: u,
        move=lambda x, p: ball.move(p),
    )


def plain(model: Flat, ball: Ball) -> Search:
    """The paper's: the position is w - w_t itself, starts at zero, and is shortened when it leaves the ball."""

    def project(p: Array) -> Array:
        return p / jnp.maximum(1, jnp.sqrt(ball.sigma.squared_norm(p) / ball.beta))

    return Search(
        value=lambda x, p: model.value(ball.centre + p, x),
        project=project,
        start=jnp.zeros_like,
        move=lambda x, p: p,
    )
