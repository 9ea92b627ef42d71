"""Taylor features of the Gaussian kernel: an orthonormal basis of its space up to a degree.

Jezequel, Gaillard, Rudi. Efficient online learning with kernels for adversarial large scale
problems. NeurIPS 2019, Section 3.1. The C(d + M, M) multi-indices k with |k| <= M have the features
g_k(x) = exp(-|x|^2 / (2 l^2)) prod_i x_i^k_i / (l^k_i sqrt(k_i!)). For |x|, |y| <= R the inner
product of the features of x and y differs from k(x,y) by at most (R/l)^(2M+2) / (M+1)! (Lemma 11).
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.numerics import aligned

MAX_FEATURES = 20_000
# bounds of standardized inputs: of all together, of each, and of linear features
REACH, ONE_INPUT_REACH, LINEAR_REACH = 3.0, 8.0, 100.0
ONE_INPUT_LENGTHSCALE = 4.0


def basis_size(inputs: int, degree: int) -> int:
    """The number C(d + M, M) of features."""
    return math.comb(inputs + degree, degree)


def theorem_degree(horizon: int, radius: float, lengthscale: float, regularization: float) -> int:
    """The degree M = ceil(max(8 R^2 / l^2, 2 log(n / min(lam, 1)))) of Theorem 4, for n = `horizon`
    examples with |x| <= R."""
    least = 2 * math.log(horizon / min(regularization, 1.0))
    return math.ceil(max(8 * (radius / lengthscale) ** 2, least))


@struct.dataclass
class Taylor:
    """The Taylor features of the Gaussian kernel up to a degree.

    inputs       int, the number d of inputs
    degree       int, the degree M
    lengthscale  l, one number
    """

    inputs: int = struct.field(pytree_node=False)
    degree: int = struct.field(pytree_node=False)
    lengthscale: ArrayLike = 1.0

    @property
    def size(self) -> int:
        """The number r = C(d + M, M) of features. Raises ValueError for d < 1, M < 0, r > 20000."""
        if self.inputs < 1 or self.degree < 0:
            raise ValueError(
                f"Taylor features need at least one input and a degree M >= 0; d = {self.inputs}"
                f" and M = {self.degree} were given."
            )
        checks.positive_integer(inputs=self.inputs)
        checks.nonnegative_integer(degree=self.degree)
        size = basis_size(self.inputs, self.degree)
        if size > MAX_FEATURES:
            raise ValueError(
                f"C(d + M, M) = C({self.inputs + self.degree}, {self.degree}) = {size:,} Taylor"
                f" features are too many (at most {MAX_FEATURES:,}): use a smaller degree M or"
                " Nystrom features."
            )
        return size

    def represented_share(self, x: Array | np.ndarray) -> np.ndarray:
        """The share |z(x)|^2, [n], of k(x,x) = 1 that the degrees up to M represent at x [n,d]: the
        probability that a Poisson number of mean |x|^2 / l^2 is at most M."""
        rate = np.square(np.asarray(x, float) / float(np.asarray(self.lengthscale))).sum(1)
        from scipy import special  # a tenth of a second that most scripts do not need

        return special.pdtr(self.degree, rate)

    def features(self, x: Array) -> Array:
        """The features z(x) [n,r] of points x [n,d], O(n r). Raises ValueError for another d."""
        size = self.size
        if x.shape[1] != self.inputs:
            raise ValueError(
                f"these Taylor features have {self.inputs} inputs; {x.shape[1]} were given."
            )
        scaled = (x / aligned(jnp.asarray(self.lengthscale, x.dtype), x)).T  # [d, n]
        level = jnp.exp(-0.5 * jnp.square(scaled).sum(0))[None]
        levels = [level]
        for factors in _recurrence(self.inputs, self.degree):
            level = jnp.concatenate(
                [
                    (scaled[i][None, :] * jnp.asarray(factor, x.dtype)[:, None])
                    * level[: len(factor)]
                    for i, factor in enumerate(factors)
                ]
            )
            levels.append(level)
        features = jnp.concatenate(levels)
        assert features.shape[0] == size
        return features.T


def bounded(z: Array, reach: float) -> Array:
    """z up to |z| = reach / 2, and beyond it a smooth increasing function with values in
    (-reach, reach)."""
    linear = reach / 2
    excess = jnp.abs(z) - linear
    tail = jnp.sign(z) * linear * (1 + jnp.tanh(excess / linear))
    return jnp.where(excess > 0, tail, z)


@struct.dataclass
class Bounded:
    """Features of d standardized inputs of any size.

    The Taylor features of all inputs, which are bounded by 3, because one large input makes all of
    them vanish. Such an input can only harm its own features, which therefore have wider bounds:
    Taylor features of each input, bounded by 8, and the inputs, bounded by 100. Values above half
    of a bound are compressed.

    basis   a `Taylor`
    degree  int, the degree of the Taylor features of each input; 0 for none

    Example:

        features = WithConstant(Bounded(Taylor(inputs=2, degree=4, lengthscale=2.0), degree=8))
    """

    basis: Any
    degree: int = struct.field(pytree_node=False, default=8)

    def features(self, x: Array) -> Array:
        """The features [n, r + d (degree + 1)] of points x [n,d]."""
        checks.nonnegative_integer(degree=self.degree)
        one_input = Taylor(1, self.degree, ONE_INPUT_LENGTHSCALE)
        of_each = one_input.features(bounded(x, ONE_INPUT_REACH).reshape(-1, 1))
        of_each = of_each[:, 1:].reshape(len(x), -1)  # not the feature of degree 0
        linear = bounded(x, LINEAR_REACH) / ONE_INPUT_LENGTHSCALE
        return jnp.concatenate([self.basis.features(bounded(x, REACH)), of_each, linear], axis=1)


@struct.dataclass
class WithConstant:
    """Features and a constant feature, with which a forecaster learns the mean of the labels.

    basis  a feature map
    """

    basis: Any

    def features(self, x: Array) -> Array:
        varying = self.basis.features(x)
        return jnp.concatenate([jnp.ones((len(x), 1), x.dtype), varying], axis=1)


def _recurrence(inputs: int, degree: int) -> list[list[np.ndarray]]:
    """The factors 1/sqrt(k_i), by degree and input i, of the monomials that are x_i times a
    monomial of the previous degree.

    The monomials of a degree are ordered by the largest number of their inputs, so that monomials
    without an input above i come first. Each monomial of the next degree with largest input i is
    x_i times one of these.
    """
    exponents = np.zeros((1, inputs), int)
    largest = np.zeros(1, int)
    levels = []
    for _ in range(degree):
        factors, rows, largest_inputs = [], [], []
        for i in range(inputs):
            parents = exponents[largest <= i]
            children = parents.copy()
            children[:, i] += 1
            factors.append(1 / np.sqrt(children[:, i]))
            rows.append(children)
            largest_inputs.append(np.full(len(children), i))
        exponents, largest = np.concatenate(rows), np.concatenate(largest_inputs)
        levels.append(factors)
    return levels
