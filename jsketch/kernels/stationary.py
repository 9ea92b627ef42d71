"""Kernels of the distance between two points (Gaussian, Matern, rational quadratic) and of their
phases (periodic), and functions for squared distances and lengthscales."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.combined import Operators
from jsketch.numerics import aligned, matmul
from jsketch.struct import in_dtype

# Small tables of distances are computed as sums over inputs, which are exactly zero for equal
# points. For large tables the square is expanded into a matrix product, which is 2 to 5 times as
# fast and has an error of eps |x - mean(y)|^2 (`Stationary.rounding`).
DIRECT_ENTRIES = 1 << 16  # the least number of entries of a large table
DIRECT_DIMENSIONS = 32  # with more inputs, all tables of several rows and columns expand the square
# the sum of a table with more inputs and fewer entries than these is a loop
UNROLLED_DIMENSIONS, UNROLLED_ENTRIES = 2, 1 << 16
DIRECT_POINTS = 4  # with at most this many points on one side, the sum is faster


@jax.custom_jvp
def _direct_squared_distances(x: Array, y: Array) -> Array:
    total = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    if x.shape[1] <= UNROLLED_DIMENSIONS or total.size > UNROLLED_ENTRIES:
        for i in range(x.shape[1]):  # the sums fuse
            total = total + jnp.square(x[:, i, None] - y[None, :, i])
        return total

    # one copy of the step compiles in less time, and a small table stays in the cache
    def add(total: Array, columns: tuple[Array, Array]) -> tuple[Array, None]:
        return total + jnp.square(columns[0][:, None] - columns[1][None, :]), None

    return lax.scan(add, total, (x.T, y.T))[0]


@_direct_squared_distances.defjvp
def _direct_squared_distances_jvp(
    points: tuple[Array, Array], changes: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The derivative as matrix products, 20 times as fast at d = 20 as the derivative of the sum.
    It has an error of eps |x|^2 between equal points, which no mask can remove: a compiled program
    may compute their distance as 0 in one place and as a rounding error in another."""
    (x, y), (dx, dy) = points, changes
    products = (x * dx).sum(1)[:, None] + (y * dy).sum(1)[None, :]
    return _direct_squared_distances(x, y), 2 * (products - matmul(x, dy.T) - matmul(dx, y.T))


def expands_square(n: int, m: int, dimension: int) -> bool:
    """Whether distances of points [n,d] and [m,d] are computed by expanding squares."""
    if dimension > DIRECT_DIMENSIONS:
        return min(n, m) > 1
    return min(n, m) > DIRECT_POINTS and n * m >= DIRECT_ENTRIES


def squared_distances(
    x: Array, y: Array, lengthscale: ArrayLike = 1.0, *, direct: bool = False
) -> Array:
    """|x_i - y_j|^2 / lengthscale^2 >= 0, [n,m], of x [n,d] and y [m,d], lengthscale [] or [d].
    With `direct`, tables of any size are sums over inputs, for kernels that are not smooth at
    distance 0. Raises ValueError if x and y differ in their number of inputs."""
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"points of {x.shape[1]} and of {y.shape[1]} inputs have no distance.")
    y, lengthscale = in_dtype((y, lengthscale), x.dtype)
    one_for_each_input = jnp.ndim(lengthscale) > 0
    if one_for_each_input:
        # Far from zero, x / lengthscale has an error of eps |x|, which in a compiled program may
        # differ for x and y. Without the centre, k(x,y) and k(y,x) would therefore differ.
        centre = lax.stop_gradient(y[:1]) if len(y) else jnp.zeros_like(x[:1])
        x = divide_by_lengthscale(x - centre, lengthscale)
        y = divide_by_lengthscale(y - centre, lengthscale)
    n, m, dimension = len(x), *y.shape
    if min(n, m) == 1 and dimension > DIRECT_DIMENSIONS:
        squared = jnp.square(x - y).sum(1).reshape(n, m)
    elif direct or not expands_square(n, m, dimension):
        squared = _direct_squared_distances(x, y)
    else:
        centre = y.mean(0, keepdims=True)
        x, y = x - centre, y - centre
        squares = jnp.square(x).sum(1)[:, None] + jnp.square(y).sum(1)[None, :]
        squared = jnp.maximum(squares - 2 * matmul(x, y.T), 0)
    if one_for_each_input:
        return squared
    return squared * (1 / jnp.square(lengthscale)).astype(x.dtype)


def divide_by_lengthscale(x: Array, lengthscale: ArrayLike, name: str = "lengthscale") -> Array:
    """x / lengthscale, [n,d], lengthscale [] or [d]. `name` is its name in messages."""
    _check_shape(lengthscale, x, name)
    return x / aligned(in_dtype(lengthscale, x.dtype), x)


def _check_shape(lengthscale: ArrayLike, x: Any, name: str) -> None:
    """Raises ValueError unless the lengthscale has shape [], [1] or [d] for inputs x [n,d]."""
    shape, dimension = jnp.shape(lengthscale), jnp.shape(x)[1]
    if shape not in ((), (1,), (dimension,)):
        raise ValueError(
            f"the kernel cannot be evaluated on inputs [n, {dimension}]: its {name} has shape"
            f" {shape}. An ARD kernel needs one {name} for each feature."
        )


def _check_lengths(x: Any, **values: Any) -> None:
    """Raises ValueError unless every named value is positive and one number, or one for each of the
    inputs x [n,d]."""
    for name, value in values.items():
        if isinstance(value, list | tuple):
            raise ValueError(
                f"{name} must be a number or an array, such as np.array({value}): in a list each"
                " number is a separate leaf of the pytree."
            )
        checks.all_positive(**{name: value})
        _check_shape(value, x, name)


@struct.dataclass
class WithLengthscale(Operators):
    """Base of the kernels with a lengthscale."""

    lengthscale: ArrayLike = struct.number(1.0, above=0)  # one number, or one for each input [d]

    def check(self, x: Any) -> None:
        """Raises ValueError unless the lengthscale is positive, has shape [], [1] or [d], and its
        square does not underflow in the dtype of x [n,d]."""
        lengthscale: Any = self.lengthscale
        _check_lengths(x, lengthscale=lengthscale)
        dtype = jnp.result_type(x, float)
        least = float(jnp.finfo(dtype).tiny) ** 0.5
        if np.min(np.asarray(lengthscale, float)) < least:
            raise ValueError(
                f"lengthscale must be at least {least:.2g} in {np.dtype(dtype).name}, where squares"
                f" of smaller numbers underflow; {lengthscale} was given."
            )


@struct.dataclass
class Stationary(WithLengthscale):
    """Base of the kernels of the distance, with k(x,x) = 1."""

    def diag(self, x: Array) -> Array:
        return jnp.ones(x.shape[0], x.dtype)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        """The error [], in units of eps k(x,x), of kernel values between points [m,d] and
        `n_others` other points. It is 1 or, if the square is expanded, 1 + r / 2, where r is the
        largest squared distance in lengthscales between a point and the mean of the points. This
        estimate is too large for isolated points."""
        if not expands_square(n_others, *points.shape):
            return 1.0
        centred = divide_by_lengthscale(points - points.mean(0, keepdims=True), self.lengthscale)
        return 1 + jnp.square(centred).sum(1).max() / 2


@struct.dataclass
class Gaussian(Stationary):
    """exp(-|x-y|^2 / (2 lengthscale^2)), lengthscale [] or [d].

    lengthscale  one number, or one for each input [d]
    """

    def gram(self, x: Array, y: Array) -> Array:
        return jnp.exp(-squared_distances(x, y, self.lengthscale) / 2)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def matern(squared: Array, nu: float, /) -> Array:
    """The Matern kernel of smoothness nu, where `squared` is 2 nu times squared distances. With
    `jax_enable_checks`, JAX does not accept a static argument of a custom derivative by name."""
    scaled = _root(squared)
    polynomials: dict[float, Any] = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + squared / 3}
    return polynomials[nu] * jnp.exp(-scaled)


@matern.defjvp
def _matern_jvp(nu: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The derivative in closed form. The chain rule would divide by the distance, which between
    equal points may be a rounding error of 1e-16."""
    (squared,), (change,) = primals, tangents
    scaled = _root(squared)
    # smaller distances may be rounding errors
    distinct = scaled > 4096 * jnp.finfo(scaled.dtype).eps
    inverse = jnp.where(distinct, 1 / jnp.where(distinct, scaled, 1), 0)
    slopes: dict[float, Any] = {0.5: inverse / 2, 1.5: 0.5, 2.5: (1 + scaled) / 6}
    return matern(squared, nu), -slopes[nu] * jnp.exp(-scaled) * change


def _root(squared: Array) -> Array:
    """The square root, with derivative 0 at zero. A selection by `squared > 0` would be unsafe: a
    compiled program may compute `squared` twice, and round it to 0 only once."""
    return jnp.sqrt(jnp.maximum(squared, jnp.finfo(squared.dtype).tiny))


@struct.dataclass
class Matern(Stationary):
    """The Matern kernel of smoothness nu.

    lengthscale  one number, or one for each input [d]
    nu           0.5, 1.5 or 2.5, static
    """

    nu: float = struct.field(pytree_node=False, default=2.5)

    def gram(self, x: Array, y: Array) -> Array:
        self._check_nu()
        # exp(-r) has a kink at r = 0, where an error of eps in r^2 becomes an error of 1e-8 in r
        direct = self.nu == 0.5
        squared = 2 * self.nu * squared_distances(x, y, self.lengthscale, direct=direct)
        return matern(squared, self.nu)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        return 1.0 if self.nu == 0.5 else super().rounding(points, n_others)

    def check(self, x: Any) -> None:
        self._check_nu()
        super().check(x)

    def _check_nu(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"Matern has closed forms for nu = 0.5, 1.5 and 2.5 only; nu = {self.nu} was given."
            )


@struct.dataclass
class RationalQuadratic(Stationary):
    """(1 + |x-y|^2 / (2 alpha lengthscale^2))^-alpha: a scale mixture of Gaussian kernels.

    lengthscale  one number, or one for each input [d]
    alpha        a smaller value gives a heavier tail
    """

    alpha: ArrayLike = struct.number(1.0, above=0)

    def gram(self, x: Array, y: Array) -> Array:
        squared = squared_distances(x, y, self.lengthscale)
        alpha = jnp.asarray(self.alpha, x.dtype)
        return jnp.exp(-alpha * jnp.log1p(squared / (2 * alpha)))

    def check(self, x: Any) -> None:
        super().check(x)
        checks.positive(alpha=self.alpha)


@struct.dataclass
class Periodic(Stationary):
    """exp(-2 sum_i sin^2(pi (x_i - y_i) / period_i) / lengthscale_i^2), for functions that repeat
    along every input (Rasmussen and Williams 2006, eq. 4.31, where the period is 2 pi). The
    lengthscale of GPJax is half of this one, and gamma of tinygp is 2 / lengthscale^2. If a
    function repeats along some inputs only, choose them by `Select`.

    lengthscale  one number, or one for each input [d], without a unit
    period       one number, or one for each input [d], in the units of the inputs

    Example:

        Select(Periodic(1.0, period=24.0), [0]) * Select(Gaussian(0.5), [1, 2])
    """

    period: ArrayLike = struct.number(1.0, above=0)

    def gram(self, x: Array, y: Array) -> Array:
        y = in_dtype(y, x.dtype)
        centre = lax.stop_gradient(y[:1]) if len(y) else jnp.zeros_like(x[:1])
        x, y = (self._on_circles(points, centre) for points in (x, y))
        return self._of_circles().gram(x, y)

    def rounding(self, points: Array, n_others: int) -> ArrayLike:
        on_circles = self._on_circles(points, points[:1])
        return self._of_circles().rounding(on_circles, n_others)

    def check(self, x: Any) -> None:
        super().check(x)
        _check_lengths(x, period=self.period)

    # The squared distance of two points of the unit circle at the angles a and b is
    # 4 sin^2((a - b) / 2). The kernel is therefore a Gaussian kernel of such points, with a circle
    # for each input. As in `squared_distances`, a centre keeps digits far from zero.
    def _on_circles(self, x: Array, centre: Array) -> Array:
        angles = 2 * jnp.pi * divide_by_lengthscale(x - centre, self.period, "period")
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1)

    def _of_circles(self) -> Gaussian:
        is_one = jnp.size(self.lengthscale) == 1
        return Gaussian(self.lengthscale if is_one else jnp.tile(self.lengthscale, 2))
