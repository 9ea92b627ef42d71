"""Squared distances, and what every kernel with a lengthscale checks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.linalg import aligned, matmul
from jsketch.precision import dtype_of

# small tables sum distances input by input, exactly zero for equal points; large ones expand the
# square into a product, at an error of eps |x|^2 about the mean of y (`rounding`). A sum would be 2
# to 5 times as slow, and a sweep of all arms by 10% at 256 inducing points and 10 inputs, by 40% at
# 64
DIRECT_ENTRIES = 1 << 16
DIRECT_DIMENSIONS = 32
NARROW = 4  # points on one side, for which a sum is the faster one


@jax.custom_jvp
def _direct_squared_distances(x: Array, y: Array) -> Array:
    def add(i: Array | int, total: Array) -> Array:
        return total + jnp.square(x[:, i, None] - y[None, :, i])

    total = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
    if x.shape[1] > DIRECT_DIMENSIONS:
        return lax.fori_loop(0, x.shape[1], add, total)
    # unrolled, so that the sums fuse
    for i in range(x.shape[1]):
        total = add(i, total)
    return total


@_direct_squared_distances.defjvp
def _direct_squared_distances_jvp(
    points: tuple[Array, Array], changes: tuple[Array, Array]
) -> tuple[Array, Array]:
    """In products: the derivative of the sum input by input writes a matrix for each input (20
    times as slow at d = 20).

    They leave eps |x|^2 between equal points. No mask takes it out: compiled, the distance of equal
    points may be zero in one place and a rounding in another, and what one product leaves out the
    other keeps.
    """
    (x, y), (dx, dy) = points, changes
    own = (x * dx).sum(1)[:, None] + (y * dy).sum(1)[None, :]
    return _direct_squared_distances(x, y), 2 * (own - matmul(x, dy.T) - matmul(dx, y.T))


def expands(n: int, m: int, inputs: int) -> bool:
    """Whether distances of points [n, inputs] and [m, inputs] expand the square, unless summed
    directly by request."""
    if inputs > DIRECT_DIMENSIONS:
        return min(n, m) > 1
    return min(n, m) > NARROW and n * m >= DIRECT_ENTRIES


def squared_distances(x: Array, y: Array, *, direct: bool = False) -> Array:
    """|x_i - y_j|^2, [n,m], of x [n,d] and y [m,d]; never negative.

    direct sums input by input whatever the size, for kernels that are not smooth at distance 0.
    Raises ValueError where x and y differ in their number of inputs.
    """
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"points of {x.shape[1]} and of {y.shape[1]} inputs have no distance.")
    if min(x.shape[0], y.shape[0]) == 1 and x.shape[1] > DIRECT_DIMENSIONS:
        return jnp.square(x - y).sum(1).reshape(x.shape[0], y.shape[0])
    if direct or not expands(x.shape[0], y.shape[0], x.shape[1]):
        return _direct_squared_distances(x, y)
    centre = y.mean(0, keepdims=True)
    x, y = x - centre, y - centre
    return jnp.maximum(
        jnp.square(x).sum(1)[:, None] + jnp.square(y).sum(1)[None, :] - 2 * matmul(x, y.T), 0
    )


def rounding(points: Array, others: int, lengthscale: ArrayLike, direct: bool = False) -> ArrayLike:
    """By how many eps k(x,x) a smooth kernel of distances of so many `others` to points [m,d] may
    be off, []: 1, and where the square is expanded 1 + r / 2, r the largest square of a point about
    the mean, in lengthscales.

    Measured in float32, squared distances were off by eps r in the root of the mean square and by 2
    to 5 times that at most; the kernel changes half as much. The others do not count: only close to
    a point the kernel is not flat, and they are then as far from the mean. From it BKB estimates
    the error of its variances: by a factor of 0.4 to 8 for clusters, too large by any factor for
    points that no other is close to.
    """
    if direct or not expands(others, *points.shape):
        return 1.0
    centred = divided(points - points.mean(0, keepdims=True), lengthscale)
    return 1 + jnp.square(centred).sum(1).max() / 2


def scaled_squared_distances(
    x: Array, y: Array, lengthscale: ArrayLike, direct: bool = False
) -> Array:
    """|x_i - y_j|^2 / lengthscale^2, [n,m], lengthscale [] or [d]."""
    check_shape(lengthscale, x)
    if jnp.ndim(lengthscale) == 0:
        return squared_distances(x, y, direct=direct) * (1 / jnp.square(lengthscale)).astype(
            x.dtype
        )
    # far from zero x / lengthscale rounds by eps |x|, and once compiled not alike for x and y: a
    # division may become a product for one of them. k(x,y) and k(y,x) then differ by eps |x|, which
    # small regularizations magnify
    centre = lax.stop_gradient(y[:1]) if len(y) else jnp.zeros_like(x[:1])
    x, y = divided(x - centre, lengthscale), divided(y - centre, lengthscale)
    return squared_distances(x, y, direct=direct)


def divided(x: Array, lengthscale: ArrayLike) -> Array:
    """x / lengthscale, [n,d], lengthscale [] or [d]."""
    return x / aligned(lengthscale, x)


def check_lengthscale(lengthscale: ArrayLike, x: Any) -> None:
    """Raises ValueError unless the lengthscale is positive, with an inverse square in the dtype of
    x [n,d], and one number or one for each input."""
    if isinstance(lengthscale, list | tuple):
        raise ValueError(
            f"lengthscale must be a number or an array, such as np.array({lengthscale}): in a list"
            " every number is a leaf of its own."
        )
    checks.all_positive(lengthscale=lengthscale)
    check_shape(lengthscale, x)
    dtype = dtype_of(x)
    least = float(jnp.finfo(dtype).tiny) ** 0.5
    if np.min(np.asarray(lengthscale, float)) < least:
        raise ValueError(
            f"lengthscale must be at least {least:.2g} in {np.dtype(dtype).name}, whose squares end"
            f" there; {lengthscale} was given."
        )


def check_shape(lengthscale: ArrayLike, x: Any) -> None:
    """Raises ValueError unless there is a lengthscale for all inputs of x [n,d], or for each: [k]
    and [n,1] broadcast."""
    shape, inputs = jnp.shape(lengthscale), jnp.shape(x)[1]
    if shape not in ((), (1,), (inputs,)):
        raise ValueError(
            f"the kernel cannot be evaluated on inputs [n, {inputs}]: its lengthscale has shape"
            f" {shape}. An ARD kernel needs one lengthscale a feature."
        )
