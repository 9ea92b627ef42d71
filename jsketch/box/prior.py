"""A prior on the hyperparameters of a GP on the unit cube, by which a fit to few points does not believe the likeliest GP."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.box.gp import Hyperparameters


@struct.dataclass
class LogNormal:
    """exp(location + scale Z) with Z standard normal."""

    location: ArrayLike
    scale: ArrayLike

    def log_density(self, value: Array) -> Array:
        """log of the density at value [...] > 0, [...]."""
        logarithm = jnp.log(value)
        z = (logarithm - self.location) / self.scale
        return -logarithm - jnp.log(jnp.asarray(self.scale, value.dtype)) - z * z / 2 - math.log(2 * math.pi) / 2


@struct.dataclass
class Prior:
    lengthscale: Any = LogNormal(math.sqrt(2), math.sqrt(3))
    outputscale: Any = None
    noise: Any = LogNormal(-4.0, 1.0)

    def log_density(self, numbers: Hyperparameters) -> Array:
        d = numbers.lengthscale.shape[0]
        total = jnp.zeros((), numbers.noise.dtype)
        if self.lengthscale is not None:
            total += self.lengthscale.log_density(numbers.lengthscale / math.sqrt(d)).sum()
        if self.outputscale is not None:
            total += self.outputscale.log_density(numbers.outputscale)
        if self.noise is not None:
            total += self.noise.log_density(numbers.noise)
        return total
