"""Sketches of fixed size for linear kernels: frequent directions, and a Gaussian projection.

Frequent directions: Ghashami, Liberty, Phillips, Woodruff. Frequent directions: simple and
deterministic matrix sketching. SIAM Journal on Computing, 2016. With A the matrix of the points
appended so far and A_k its best rank-k approximation, the sketch S [m,d] satisfies for every k <= m

    0 <= x^T (A^T A - S^T S) x <= shrunk |x|^2,      shrunk <= |A - A_k|_F^2 / (m + 1 - k).

A new point is added as row m + 1 before energies are subtracted, so that the sketch is exact as
long as the points span at most m dimensions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.numerics import matmul
from jsketch.types import PRNGKey


@struct.dataclass
class FrequentDirections:
    """The sketch S, with S^T S = sum_i energies_i directions_i directions_i^T <= A^T A."""

    directions: Array  # [m, d], orthonormal rows; zero where the energy is zero
    energies: Array  # [m], squared singular values of S, descending
    shrunk: Array  # [], the sum of the subtracted energies; >= lambda_max(A^T A - S^T S)


def empty(size: int, inputs: int, dtype: jnp.dtype) -> FrequentDirections:
    """The sketch of no points, with m = `size` directions in d = `inputs` dimensions."""
    return FrequentDirections(
        jnp.zeros((size, inputs), dtype), jnp.zeros(size, dtype), jnp.zeros((), dtype)
    )


def _split(sketch: FrequentDirections, x: Array) -> tuple[Array, Array]:
    """(coordinates [m] of x [d] along the directions, the orthogonal part [d] of x)."""
    coordinates = matmul(sketch.directions, x)
    rest = x - matmul(coordinates, sketch.directions)
    # the second pass removes rounding errors of the first
    correction = matmul(sketch.directions, rest)
    return coordinates + correction, rest - matmul(correction, sketch.directions)


def append(sketch: FrequentDirections, x: Array) -> FrequentDirections:
    """The sketch after one more point x [d]; O(m^2 d + m^3).

    In the basis of the directions and the orthogonal part of x, S^T S + x x^T is a diagonal matrix
    of size m + 1 plus a rank-one matrix. The eigenvectors of the sum rotate the directions, and its
    smallest eigenvalue is subtracted from all eigenvalues.
    """
    size, dtype = sketch.energies.shape[0], x.dtype
    eps = jnp.finfo(dtype).eps
    projected, rest = _split(sketch, x)
    length = jnp.sqrt(jnp.square(rest).sum())
    is_new = length > x.shape[0] * eps * jnp.sqrt(jnp.square(x).sum())
    rest = jnp.where(is_new, rest / jnp.where(is_new, length, 1), 0)
    basis = jnp.concatenate([sketch.directions, rest[None]])
    coordinates = jnp.append(projected, jnp.where(is_new, length, 0))
    diagonal = jnp.diag(jnp.append(sketch.energies, jnp.zeros((), dtype)))
    core = diagonal + coordinates[:, None] * coordinates[None, :]
    values, vectors = jnp.linalg.eigh(core)
    # smaller eigenvalues are rounding errors
    cut = (size + 1) * eps * values[-1]
    loss = jnp.where(values[0] > cut, values[0], 0)
    energies = jnp.flip(values[1:]) - loss
    nonzero = energies > cut
    directions = jnp.flip(matmul(vectors[:, 1:].T, basis), 0)
    return FrequentDirections(
        directions=jnp.where(nonzero[:, None], directions, 0),
        energies=jnp.where(nonzero, energies, 0),
        shrunk=sketch.shrunk + loss,
    )


def power(
    sketch: FrequentDirections, x: Array, regularization: ArrayLike, exponent: float
) -> Array:
    """The product (lam I + S^T S)^exponent x, [d], for a vector x [d]; O(m d)."""
    coordinates, rest = _split(sketch, x)
    lam = jnp.asarray(regularization, x.dtype)
    projected = matmul((sketch.energies + lam) ** exponent * coordinates, sketch.directions)
    return projected + lam**exponent * rest


def variance(sketch: FrequentDirections, x: Array, regularization: ArrayLike) -> Array:
    """The variances x^T (lam I + S^T S)^-1 x, [n], of points x [n,d]; O(n m d)."""
    squares = jnp.square(matmul(x, sketch.directions.T))
    rest = jnp.maximum(jnp.square(x).sum(1) - squares.sum(1), 0)
    return rest / regularization + matmul(squares, 1 / (sketch.energies + regularization))


def logdet(sketch: FrequentDirections, regularization: ArrayLike) -> Array:
    """The log-determinant of I + S^T S / lam, []."""
    return jnp.log1p(sketch.energies / regularization).sum()


def gaussian(key: PRNGKey, inputs: int, size: int, dtype: jnp.dtype) -> Array:
    """A projection R [d,m] with independent entries N(0, 1/m): E[(x R).(y R)] = x.y (Johnson and
    Lindenstrauss, 1984)."""
    return jax.random.normal(key, (inputs, size), dtype) / jnp.sqrt(jnp.asarray(size, dtype))
