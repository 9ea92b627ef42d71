"""Scaled kernels, and sums and products of kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.struct import in_dtype


@struct.dataclass
class Scaled(struct.Settings):
    """variance * kernel."""

    kernel: Any  # a kernel of `jsketch.kernels`
    variance: ArrayLike = 1.0  # a number >= 0

    def gram(self, x: Array, y: Array) -> Array:
        return in_dtype(self.variance, x.dtype) * self.kernel.gram(x, y)

    def diag(self, x: Array) -> Array:
        return in_dtype(self.variance, x.dtype) * self.kernel.diag(x)

    def check(self, x: Any) -> None:
        checks.nonnegative(variance=self.variance)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The error, in eps k(x,x), of values between points [m,d] and `n_others` other ones."""
        return checks.kernel_rounding(self.kernel, points, n_others)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_inputs(self.kernel, x)


@struct.dataclass
class Pair(struct.Settings):
    """Base class of kernels that combine two kernels on the same inputs."""

    left: Any  # a kernel of `jsketch.kernels`
    right: Any  # a kernel of `jsketch.kernels`

    def check_inputs(self, x: Any) -> None:
        checks.kernel_inputs(self.left, x)
        checks.kernel_inputs(self.right, x)


@struct.dataclass
class Sum(Pair):
    """left + right."""

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) + self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) + self.right.diag(x)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The larger error of the two kernels, in eps k(x,x), which bounds the error of the sum."""
        left, right = (checks.kernel_rounding(k, points, n_others) for k in (self.left, self.right))
        return jnp.maximum(left, right)


@struct.dataclass
class Product(Pair):
    """left * right."""

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) * self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) * self.right.diag(x)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The sum of the errors of the two kernels, because relative errors of factors add."""
        return sum(checks.kernel_rounding(k, points, n_others) for k in (self.left, self.right))
