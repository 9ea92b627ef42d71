"""Fourier features of stationary kernels, random or by quadrature, with inner products
z(x).z(y) = sum_i w_i cos(omega_i.(x - y)) ~ k(x,y).

Random (RFF): Rahimi and Recht. Random features for large-scale kernel machines. NIPS 2007.
Frequencies are samples of the kernel's spectral density. The estimate is unbiased, with an error of
order 1/sqrt(count).

Quadrature (QFF): Mutny and Krause. Efficient high dimensional Bayesian optimization with additivity
and quadrature Fourier features. NeurIPS 2018. Frequencies are a grid of Gauss-Hermite nodes: the
error falls exponentially with the nodes of one input, but the grid grows exponentially with d.

Both maps have z(x).z(x) = k(x,x), that is, no residual. After observations in M directions, the
variance of a posterior in M features is small at every point (variance starvation).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from jsketch import checks, struct
from jsketch.kernels import Gaussian, Matern
from jsketch.numerics import aligned, matmul
from jsketch.types import PRNGKey

LARGEST_GRID = 100_000  # the largest number of frequencies of a grid
LARGE_MEAN = 16  # `subtract_large_means` subtracts means above this many times the spread
HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291")
# pi/2 as a sum of three numbers; products of the first two with integers of 20 bits are exact
PART_1 = Fraction(round(HALF_PI * 2**32), 2**32)
PART_2 = Fraction(round((HALF_PI - PART_1) * 2**64), 2**64)
HALF_PI_PARTS = (float(PART_1), float(PART_2), float(HALF_PI - PART_1 - PART_2))
TERMS = 9  # the first omitted Taylor term is below 1e-17 on [-pi/4, pi/4]


@struct.dataclass
class Fourier:
    """M/2 frequencies, each with a cosine and a sine feature. The weights sum to k(x,x) = 1.

    frequencies  [M/2, d]
    weights      [M/2]
    """

    frequencies: Array
    weights: Array


def features(fourier: Fourier, x: Array) -> Array:
    """The features z(x) [n,M] of points x [n,d]; |z(x)| = 1."""
    phase = matmul(x, fourier.frequencies.T)
    root = jnp.sqrt(fourier.weights)[None, :]
    cos, sin = cos_sin(phase)
    return jnp.concatenate([root * cos, root * sin], axis=1)


def subtract_large_means(x: Array) -> Array:
    """Points [n,d], minus the means of inputs that are far from zero relative to their spread. This
    reduces the rounding error eps |x| of phases, of which only differences matter."""
    mean = x.mean(0, keepdims=True)
    spread = jnp.abs(x - mean).max(0, keepdims=True)
    return x - jnp.where(jnp.abs(mean) > LARGE_MEAN * spread, mean, 0)


@struct.dataclass
class RandomFourier(struct.Settings):
    """`count` random frequencies, M = 2 count features, for a Gaussian or a Matern kernel.

    count  int, the number of frequencies
    """

    count: int = struct.size(64)

    def draw(self, kernel: Any, inputs: int, key: PRNGKey, dtype: DTypeLike) -> Fourier:
        """Random frequencies for d = `inputs` dimensions (Rahimi and Recht, Alg. 1). Raises
        ValueError for other kernels and for a count below 1."""
        checks.settings(self)
        normal_key, scale_key = jax.random.split(key)
        normal = jax.random.normal(normal_key, (self.count, inputs), dtype)
        if isinstance(kernel, Matern):
            # the spectral density is Student's t with 2 nu = 1, 3 or 5 degrees of freedom
            freedom = round(2 * kernel.nu)
            squares = jnp.square(jax.random.normal(scale_key, (self.count, freedom), dtype)).sum(1)
            normal = normal * jnp.sqrt(freedom / squares)[:, None]
        elif not isinstance(kernel, Gaussian):
            raise ValueError(
                "random Fourier features exist for Gaussian and Matern kernels;"
                f" {type(kernel).__name__} was given."
            )
        frequencies = normal / aligned(jnp.asarray(kernel.lengthscale, dtype), normal)
        return Fourier(frequencies, jnp.full(self.count, 1 / self.count, dtype))


@struct.dataclass
class QuadratureFourier(struct.Settings):
    """A grid of Gauss-Hermite nodes, `nodes` for each input, for a Gaussian kernel. M = nodes^d
    features (+ 1 for odd nodes), because a frequency and its negative have the same features up to
    signs and half of the symmetric grid suffices.

    nodes  int, the number of nodes for each input
    """

    nodes: int = struct.size(16)

    def draw(self, kernel: Any, inputs: int, key: PRNGKey, dtype: DTypeLike) -> Fourier:
        """The grid for d = `inputs` dimensions (Mutny and Krause, Sec. 3); the key is not used.
        Raises ValueError for other kernels, nodes < 1, and more than LARGEST_GRID frequencies."""
        if not isinstance(kernel, Gaussian):
            raise ValueError(
                f"quadrature Fourier features are for Gaussian kernels; {type(kernel).__name__} was"
                " given."
            )
        checks.settings(self)
        if self.nodes**inputs > LARGEST_GRID:
            raise ValueError(
                f"{self.nodes} nodes for each of {inputs} inputs make a grid of"
                f" {self.nodes**inputs} frequencies, more than {LARGEST_GRID}: quadrature features"
                " are for few inputs."
            )
        nodes, weights = np.polynomial.hermite.hermgauss(self.nodes)
        grid = np.stack(np.meshgrid(*[nodes] * inputs, indexing="ij"), -1).reshape(-1, inputs)
        products = np.stack(np.meshgrid(*[weights] * inputs, indexing="ij"), -1)
        products = products.reshape(-1, inputs).prod(1)
        # row i and row -1-i are negatives of each other
        n_half = -(-len(grid) // 2)
        half_weights = np.where(np.arange(n_half) == len(grid) - n_half, 1, 2) * products[:n_half]
        frequencies = jnp.asarray(np.sqrt(2) * grid[:n_half], dtype)
        frequencies = frequencies / aligned(jnp.asarray(kernel.lengthscale, dtype), frequencies)
        return Fourier(frequencies, jnp.asarray(half_weights / half_weights.sum(), dtype))


def cos_sin(phase: Array) -> tuple[Array, Array]:
    """(cos, sin) of phases of any shape, with an error of at most 2e-16 for phases up to a million.

    For float64 on a CPU, XLA calls a scalar routine for each number. Two Taylor polynomials of
    phases reduced to [-pi/4, pi/4] are vectorized and take a tenth of the time.
    """
    if phase.dtype != jnp.float64:
        return jnp.cos(phase), jnp.sin(phase)
    quotient = jnp.round(phase / (math.pi / 2))
    rest = phase
    for part in HALF_PI_PARTS:
        rest = rest - quotient * part
    # rounding errors may put the rest of a huge phase far outside the interval; 0.8 > pi/4
    rest = jnp.clip(rest, -0.8, 0.8)
    square = rest * rest
    cos, sin = _taylor(square, 0), rest * _taylor(square, 1)
    quadrant = quotient - 4 * jnp.floor(quotient / 4)
    swapped = (quadrant == 1) | (quadrant == 3)
    cos, sin = jnp.where(swapped, sin, cos), jnp.where(swapped, cos, sin)
    negative_cos, negative_sin = (quadrant == 1) | (quadrant == 2), quadrant >= 2
    return jnp.where(negative_cos, -cos, cos), jnp.where(negative_sin, -sin, sin)


def _taylor(square: Array, odd: int) -> Array:
    """The sum over k < TERMS of (-square)^k / (2k + odd)!, by Horner's rule."""
    total = jnp.zeros_like(square)
    for k in reversed(range(TERMS)):
        total = total * square + (-1) ** k / math.factorial(2 * k + odd)
    return total
