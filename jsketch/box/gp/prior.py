"""Priors on the hyperparameters of a GP over the unit cube: what a fit to few points is drawn to.

The likeliest GP of ten or twenty points in six dimensions is often one that they cannot support:
too long a lengthscale, by which all but one hill of the function seems flat, and the hill is
polished to the end of the run.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.box.gp.regression import Hyperparameters
from jsketch.types import is_traced

LOG_ROOT_2PI = math.log(2 * math.pi) / 2


@struct.dataclass
class LogNormal:
    """exp(location + scale Z), Z a standard normal."""

    location: ArrayLike
    scale: ArrayLike

    def log_density(self, value: Array) -> Array:
        """Of value [...] > 0, [...]."""
        location, scale = (
            jnp.asarray(number, value.dtype) for number in (self.location, self.scale)
        )
        logarithm = jnp.log(value)
        return (
            -logarithm
            - jnp.log(scale)
            - LOG_ROOT_2PI
            - jnp.square((logarithm - location) / scale) / 2
        )


# Hvarfner, Hellsten, Nardi. Vanilla Bayesian optimization performs great in high dimensions. ICML
# 2024, section 4, for one input; with d of them, distances and so lengthscales are sqrt(d) times as
# long. Its mode is 0.2 sqrt(d) sides of the box.
LENGTHSCALE = LogNormal(math.sqrt(2), math.sqrt(3))
# The paper's prior of the noise, for values that are known to be noisy: mode 0.0067, in units of
# the variance of y.
NOISE = LogNormal(-4.0, 1.0)


@struct.dataclass
class Prior:
    """Independent densities, in the units of `Bounds`; None leaves a hyperparameter to the
    likelihood.

    `lengthscale` is the density for one input: of d lengthscales, each divided by sqrt(d) has it.
    The noise has none by default: of 40 runs of GP-EI on Hartmann's function, which has no noise, 4
    end more than 0.5 below the maximum with `NOISE`, 1 without it, and 5 without any prior
    (experiments/runs/tail.py).
    """

    lengthscale: Any = LENGTHSCALE
    outputscale: Any = None
    noise: Any = None

    def check(self) -> None:
        """Raises ValueError for a density that is none, and for numbers of a LogNormal not finite
        or a scale <= 0."""
        for name in ("lengthscale", "outputscale", "noise"):
            density = getattr(self, name)
            if isinstance(density, LogNormal):
                checks.positive(**{f"prior.{name}.scale": density.scale})
                if not is_traced(density.location) and not np.isfinite(density.location):
                    raise ValueError(
                        f"prior.{name}.location must be finite; {density.location} was given."
                    )
            elif density is not None and (
                isinstance(density, type) or not hasattr(density, "log_density")
            ):
                raise ValueError(
                    f"prior: {name} needs a density such as LogNormal(location, scale), or None;"
                    f" {density!r} was given."
                )

    def log_density(self, numbers: Hyperparameters) -> Array:
        """Of hyperparameters, []; densities are of the numbers themselves, not of their
        logarithms."""
        d = numbers.lengthscale.shape[0]
        total = jnp.zeros((), numbers.noise.dtype)
        if self.lengthscale is not None:
            one = self.lengthscale.log_density(numbers.lengthscale / math.sqrt(d))
            total = total + one.sum() - d * math.log(d) / 2
        if self.outputscale is not None:
            total = total + self.outputscale.log_density(numbers.outputscale)
        return total if self.noise is None else total + self.noise.log_density(numbers.noise)
