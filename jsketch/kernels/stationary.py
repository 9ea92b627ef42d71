"""Kernels, each a frozen pytree whose numbers are leaves: `vmap` sweeps a lengthscale and another value compiles nothing.

Two methods make a kernel: `gram(x [n,d], y [m,d]) -> [n,m]` and `diag(x [n,d]) -> [n]`; they combine by
`Scaled`, `Sum` and `Product`. Lengthscales are one number or one per input (ARD, [d]), in the units of the inputs.
Two more are optional, and called on the host, where values are known: `check(x)` raises ValueError for numbers that make no
kernel of inputs x [n,d], and `check_inputs(x)` for inputs that it is not defined for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.discrete_kernels import MinMax, Tanimoto
from jsketch.linalg import matmul
from jsketch.precision import one_dtype
from jsketch.tables import Precomputed, index_features

__all__ = [
    "Gaussian",
    "Linear",
    "Matern",
    "MinMax",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "Tanimoto",
    "index_features",
    "squared_distances",
]

# small tables sum distances input by input, exactly zero for equal points; large ones expand the square into a product,
# 2 to 3 times as fast, at an error of eps |x|^2 about the mean of y
DIRECT_ENTRIES = 1 << 16
DIRECT_DIMENSIONS = 32


@jax.custom_jvp
def _direct_squared_distances(x: Array, y: Array) -> Array:
    def add(i: Array | int, total: Array) -> Array:
        return total + jnp.square(x[:, i, None] - y[None, :, i])

    total = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    if x.shape[1] > DIRECT_DIMENSIONS:
        return lax.fori_loop(0, x.shape[1], add, total)
    for i in range(x.shape[1]):  # unrolled, so that the sums fuse
        total = add(i, total)
    return total


@_direct_squared_distances.defjvp
def _direct_squared_distances_jvp(
    points: tuple[Array, Array], changes: tuple[Array, Array]
) -> tuple[Array, Array]:
    """In products: the derivative of the sum input by input writes a matrix for each input (20 times as slow at d = 20)."""
    (x, y), (dx, dy) = points, changes
    own = (x * dx).sum(1)[:, None] + (y * dy).sum(1)
    return _direct_squared_distances(x, y), 2 * (own - matmul(x, dy.T) - matmul(dx, y.T))


def squared_distances(x: Array, y: Array, *, direct: bool = False) -> Array:
    """|x_i - y_j|^2, [n,m], of x [n,d] and y [m,d]; never negative.

    direct sums input by input whatever the size, for kernels that are not smooth at distance 0. Raises ValueError where x
    and y differ in their number of inputs.
    """
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"points of {x.shape[1]} and of {y.shape[1]} inputs have no distance.")
    if direct or (x.shape[0] * y.shape[0] < DIRECT_ENTRIES and x.shape[1] <= DIRECT_DIMENSIONS):
        return _direct_squared_distances(x, y)
    centre = y.mean(0)
    x, y = x - centre, y - centre
    return jnp.maximum(jnp.square(x).sum(1)[:, None] + jnp.square(y).sum(1) - 2 * matmul(x, y.T), 0)


def _scaled_squared_distances(x: Array, y: Array, lengthscale: ArrayLike, direct: bool = False) -> Array:
    if jnp.ndim(lengthscale) == 0:
        return squared_distances(x, y, direct=direct) * (1 / jnp.square(lengthscale)).astype(x.dtype)
    return squared_distances(x / lengthscale, y / lengthscale, direct=direct)


def _check_lengthscale(lengthscale: ArrayLike, x: Any) -> None:
    checks.all_positive(lengthscale=lengthscale)
    shape, inputs = jnp.shape(lengthscale), jnp.shape(x)[1]
    if shape not in ((), (1,), (inputs,)):
        raise ValueError(
            f"the kernel cannot be evaluated on inputs [n, {inputs}]: its lengthscale has shape {shape}. An ARD kernel needs"
            " one lengthscale a feature."
        )


def _ones(x: Array) -> Array:
    return jnp.ones(x.shape[0], x.dtype)


@struct.dataclass
@one_dtype
class Gaussian:
    """exp(-|x-y|^2 / (2 lengthscale^2)), lengthscale [] or [d]."""

    lengthscale: ArrayLike = 1.0

    def gram(self, x: Array, y: Array) -> Array:
        return jnp.exp(-_scaled_squared_distances(x, y, self.lengthscale) / 2)

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def check(self, x: Any) -> None:
        _check_lengthscale(self.lengthscale, x)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _matern(squared: Array, nu: float) -> Array:
    scaled = _root(squared)
    polynomials: dict[float, Any] = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + squared / 3}
    return polynomials[nu] * jnp.exp(-scaled)


@_matern.defjvp
def _matern_jvp(nu: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """In closed form: by the chain rule it is a difference divided by the distance, which between a point and itself may be
    rounded to 1e-16 in place of 0, and then leaves anything."""
    (squared,), (change,) = primals, tangents
    scaled = _root(squared)
    # of points as close as this the distance may be rounding alone, and what is left out is at most the distance
    apart = scaled > 4096 * jnp.finfo(scaled.dtype).eps
    inverse = jnp.where(apart, 1 / jnp.where(apart, scaled, 1), 0)
    slopes: dict[float, Any] = {0.5: inverse / 2, 1.5: 0.5, 2.5: (1 + scaled) / 6}
    return _matern(squared, nu), -slopes[nu] * jnp.exp(-scaled) * change


def _root(squared: Array) -> Array:
    """The square root; an exact zero has no derivative: step around it."""
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0)


@struct.dataclass
@one_dtype
class Matern:
    """Matern kernel of smoothness nu = 1/2, 3/2 or 5/2 (static), lengthscale [] or [d]."""

    lengthscale: ArrayLike = 1.0
    nu: float = struct.field(pytree_node=False, default=2.5)

    def gram(self, x: Array, y: Array) -> Array:
        self._check_nu()
        # exp(-r) has a kink at 0, where the square root turns an error of eps in the square into one of 1e-8
        squared = 2 * self.nu * _scaled_squared_distances(x, y, self.lengthscale, direct=self.nu == 0.5)
        return _matern(squared, self.nu)

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def check(self, x: Any) -> None:
        self._check_nu()
        _check_lengthscale(self.lengthscale, x)

    def _check_nu(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"Matern has closed forms for nu = 0.5, 1.5 and 2.5 only; nu = {self.nu} was given."
            )


@struct.dataclass
@one_dtype
class RationalQuadratic:
    """(1 + |x-y|^2 / (2 alpha lengthscale^2))^-alpha: a scale mixture of Gaussian kernels."""

    lengthscale: ArrayLike = 1.0
    alpha: ArrayLike = 1.0

    def gram(self, x: Array, y: Array) -> Array:
        squared = _scaled_squared_distances(x, y, self.lengthscale)
        alpha = jnp.asarray(self.alpha, x.dtype)
        return jnp.exp(-alpha * jnp.log1p(squared / (2 * alpha)))

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def check(self, x: Any) -> None:
        _check_lengthscale(self.lengthscale, x)
        checks.positive(alpha=self.alpha)


@struct.dataclass
@one_dtype
class Linear:
    """x . y / lengthscale^2, lengthscale [] or [d]."""

    lengthscale: ArrayLike = 1.0

    def gram(self, x: Array, y: Array) -> Array:
        return matmul(x / self.lengthscale, (y / self.lengthscale).T)

    def diag(self, x: Array) -> Array:
        return jnp.square(x / self.lengthscale).sum(1)

    def check(self, x: Any) -> None:
        _check_lengthscale(self.lengthscale, x)


@struct.dataclass
@one_dtype
class Polynomial:
    """(x . y / lengthscale^2 + offset)^degree, degree static, offset >= 0."""

    lengthscale: ArrayLike = 1.0
    offset: ArrayLike = 1.0
    degree: int = struct.field(pytree_node=False, default=2)

    def gram(self, x: Array, y: Array) -> Array:
        return (Linear(self.lengthscale).gram(x, y) + self.offset) ** self.degree

    def diag(self, x: Array) -> Array:
        return (Linear(self.lengthscale).diag(x) + self.offset) ** self.degree

    def check(self, x: Any) -> None:
        _check_lengthscale(self.lengthscale, x)
        checks.nonnegative(offset=self.offset)
        checks.capacity(degree=self.degree)


@struct.dataclass
@one_dtype
class Scaled:
    """variance * kernel."""

    kernel: Any
    variance: ArrayLike = 1.0

    def gram(self, x: Array, y: Array) -> Array:
        return self.variance * self.kernel.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.variance * self.kernel.diag(x)

    def check(self, x: Any) -> None:
        checks.nonnegative(variance=self.variance)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_on(self.kernel, x)


@struct.dataclass
@one_dtype
class Sum:
    """left + right."""

    left: Any
    right: Any

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) + self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) + self.right.diag(x)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_on(self.left, x)
        checks.kernel_on(self.right, x)


@struct.dataclass
@one_dtype
class Product:
    """left * right."""

    left: Any
    right: Any

    def gram(self, x: Array, y: Array) -> Array:
        return self.left.gram(x, y) * self.right.gram(x, y)

    def diag(self, x: Array) -> Array:
        return self.left.diag(x) * self.right.diag(x)

    def check_inputs(self, x: Any) -> None:
        checks.kernel_on(self.left, x)
        checks.kernel_on(self.right, x)
