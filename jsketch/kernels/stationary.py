"""Kernels of the distance between two points: Gaussian, Matern and rational quadratic."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.distances import check_lengthscale, rounding, scaled_squared_distances
from jsketch.precision import one_dtype


def _ones(x: Array) -> Array:
    return jnp.ones(x.shape[0], x.dtype)


@struct.dataclass
@one_dtype
class Gaussian:
    """exp(-|x-y|^2 / (2 lengthscale^2)), lengthscale [] or [d]."""

    lengthscale: ArrayLike = 1.0

    def gram(self, x: Array, y: Array) -> Array:
        return jnp.exp(-scaled_squared_distances(x, y, self.lengthscale) / 2)

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def rounding(self, points: Array, others: int) -> ArrayLike:
        return rounding(points, others, self.lengthscale)

    def check(self, x: Any) -> None:
        check_lengthscale(self.lengthscale, x)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _matern(squared: Array, nu: float) -> Array:
    scaled = _root(squared)
    polynomials: dict[float, Any] = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + squared / 3}
    return polynomials[nu] * jnp.exp(-scaled)


@_matern.defjvp
def _matern_jvp(nu: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """In closed form: by the chain rule it is a difference divided by the distance, which between a
    point and itself may be rounded to 1e-16 in place of 0, and then leaves anything."""
    (squared,), (change,) = primals, tangents
    scaled = _root(squared)
    # of points as close as this the distance may be rounding alone, and what is left out is at most
    # the distance
    apart = scaled > 4096 * jnp.finfo(scaled.dtype).eps
    inverse = jnp.where(apart, 1 / jnp.where(apart, scaled, 1), 0)
    slopes: dict[float, Any] = {0.5: inverse / 2, 1.5: 0.5, 2.5: (1 + scaled) / 6}
    return _matern(squared, nu), -slopes[nu] * jnp.exp(-scaled) * change


def _root(squared: Array) -> Array:
    """The square root, with derivative 0 at an exact zero.

    No choice by `squared > 0`: a compiled program may work out the square once for the choice and
    once for the root, and round it to 0 in the one and to 1e-33 in the other.
    """
    return jnp.sqrt(jnp.maximum(squared, jnp.finfo(squared.dtype).tiny))


@struct.dataclass
@one_dtype
class Matern:
    """Matern kernel of smoothness nu = 1/2, 3/2 or 5/2 (static), lengthscale [] or [d]."""

    lengthscale: ArrayLike = 1.0
    nu: float = struct.field(pytree_node=False, default=2.5)

    def gram(self, x: Array, y: Array) -> Array:
        self._check_nu()
        # exp(-r) has a kink at 0, where the square root turns an error of eps in the square into
        # one of 1e-8
        squared = (
            2 * self.nu * scaled_squared_distances(x, y, self.lengthscale, direct=self.nu == 0.5)
        )
        return _matern(squared, self.nu)

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def rounding(self, points: Array, others: int) -> ArrayLike:
        return rounding(points, others, self.lengthscale, direct=self.nu == 0.5)

    def check(self, x: Any) -> None:
        self._check_nu()
        check_lengthscale(self.lengthscale, x)

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
        squared = scaled_squared_distances(x, y, self.lengthscale)
        alpha = jnp.asarray(self.alpha, x.dtype)
        return jnp.exp(-alpha * jnp.log1p(squared / (2 * alpha)))

    def diag(self, x: Array) -> Array:
        return _ones(x)

    def rounding(self, points: Array, others: int) -> ArrayLike:
        return rounding(points, others, self.lengthscale)

    def check(self, x: Any) -> None:
        check_lengthscale(self.lengthscale, x)
        checks.positive(alpha=self.alpha)
