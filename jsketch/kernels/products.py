"""Kernels of the inner product of two points: constant, linear and polynomial."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.combined import Operators
from jsketch.kernels.stationary import WithLengthscale, divide_by_lengthscale
from jsketch.numerics import matmul
from jsketch.struct import in_dtype


@struct.dataclass
class Constant(Operators):
    """The same value for all pairs of points: the prior variance of an unknown mean, which is added
    to another kernel.

    value  a number >= 0

    Example:

        Gaussian(0.5) + Constant(4.0)
    """

    value: ArrayLike = struct.number(1.0, at_least=0)

    def gram(self, x: Array, y: Array) -> Array:
        return jnp.full((x.shape[0], y.shape[0]), self.value, x.dtype)

    def diag(self, x: Array) -> Array:
        return jnp.full(x.shape[0], self.value, x.dtype)

    def check(self, x: Any) -> None:
        checks.settings(self)


@struct.dataclass
class Linear(WithLengthscale):
    """x . y / lengthscale^2, lengthscale [] or [d].

    lengthscale  one number, or one for each input [d]
    """

    def gram(self, x: Array, y: Array) -> Array:
        x, y = (divide_by_lengthscale(points, self.lengthscale) for points in (x, y))
        return matmul(x, y.T)

    def diag(self, x: Array) -> Array:
        return jnp.square(divide_by_lengthscale(x, self.lengthscale)).sum(1)


@struct.dataclass
class Polynomial(WithLengthscale):
    """(x . y / lengthscale^2 + offset)^degree.

    lengthscale  one number, or one for each input [d]
    offset       a number >= 0
    degree       int, static
    """

    offset: ArrayLike = struct.number(1.0, at_least=0)
    degree: int = struct.field(pytree_node=False, default=2)

    def gram(self, x: Array, y: Array) -> Array:
        offset = in_dtype(self.offset, x.dtype)
        return (Linear(self.lengthscale).gram(x, y) + offset) ** self.degree

    def diag(self, x: Array) -> Array:
        offset = in_dtype(self.offset, x.dtype)
        return (Linear(self.lengthscale).diag(x) + offset) ** self.degree

    def check(self, x: Any) -> None:
        super().check(x)
        checks.nonnegative(offset=self.offset)
        checks.positive_integer(degree=self.degree)
