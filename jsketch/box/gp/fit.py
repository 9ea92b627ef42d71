"""Hyperparameters of a GP: their bounds, their priors, and their maximum a posteriori or maximum
likelihood estimate, which the search of `jsketch.posterior.fitting` finds.

TuRBO (`jsketch.box.turbo`) fits by Adam from one fixed start instead, as in its authors' code.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.box.gp.regression import Data, Hyperparameters, log_marginal_likelihood
from jsketch.posterior.fitting import Limits, maximise, to_free
from jsketch.types import PRNGKey, is_traced

LOG_ROOT_2PI = math.log(2 * math.pi) / 2
Interval = tuple[ArrayLike, ArrayLike]


@struct.dataclass
class Bounds:
    """Intervals of the hyperparameters, with lengthscales in sides of the box and variances in
    units of the variance of y. The defaults are TuRBO's, but allow less noise (THEORY 8.5).

    lengthscale  (low, high), in sides of the box
    outputscale  (low, high), in units of the variance of y
    noise        (low, high) of the variance of the noise, in units of the variance of y
    """

    lengthscale: Interval = (0.005, 2.0)
    outputscale: Interval = (0.05, 20.0)
    noise: Interval = (1e-6, 0.2)

    def check(self) -> None:
        """Raises ValueError unless every interval is finite with 0 < low < high."""
        for name in ("lengthscale", "outputscale", "noise"):
            low, high = getattr(self, name)
            # a comparison of arrays is traced under jit, also if their values are known
            if not is_traced(low, high) and not 0 < float(low) < float(high) < math.inf:
                raise ValueError(
                    f"bounds: {name} needs finite 0 < low < high; ({low}, {high}) was given."
                )


@struct.dataclass
class LogNormal:
    """The distribution of exp(location + scale Z), where Z is standard normal.

    location  the mean of the logarithm
    scale     the standard deviation of the logarithm, above 0
    """

    location: ArrayLike
    scale: ArrayLike

    def log_density(self, value: Array) -> Array:
        """The log density [...] at value [...] > 0."""
        location, scale = (jnp.asarray(p, value.dtype) for p in (self.location, self.scale))
        log = jnp.log(value)
        return -log - jnp.log(scale) - LOG_ROOT_2PI - jnp.square((log - location) / scale) / 2


# Hvarfner, Hellsten, Nardi. Vanilla Bayesian optimization performs great in high dimensions. ICML
# 2024, section 4, for one input. With d inputs, lengthscales are sqrt(d) times as long.
LENGTHSCALE = LogNormal(math.sqrt(2), math.sqrt(3))
NOISE = LogNormal(-4.0, 1.0)  # the paper's prior for noisy values, with mode 0.0067


@struct.dataclass
class Prior:
    """Independent prior densities, in the units of `Bounds`; None is a constant density.

    `lengthscale` is the density for one input. With d inputs, lengthscale/sqrt(d) has this density
    in each input. Without this prior, the likeliest lengthscales for few points are often too long,
    and runs end at a poor local maximum. `NOISE` is a prior of the noise for noisy values.

    lengthscale  `LogNormal` or None
    outputscale  `LogNormal` or None
    noise        `LogNormal` or None
    """

    lengthscale: Any = LENGTHSCALE
    outputscale: Any = None
    noise: Any = None

    def check(self) -> None:
        """Raises ValueError for an object without log_density, and for a LogNormal with a number
        that is not finite or with scale <= 0."""
        for name in ("lengthscale", "outputscale", "noise"):
            density = getattr(self, name)
            if isinstance(density, LogNormal):
                checks.positive(**{f"prior.{name}.scale": density.scale})
                checks.finite(**{f"prior.{name}.location": density.location})
            elif density is not None and not callable(getattr(density, "log_density", None)):
                raise ValueError(
                    f"prior: {name} needs a density such as LogNormal(location, scale), or None;"
                    f" {density!r} was given."
                )

    def log_density(self, numbers: Hyperparameters) -> Array:
        """The log density [] of the hyperparameters (not of their logarithms)."""
        d = numbers.lengthscale.shape[0]
        total = jnp.zeros((), numbers.noise.dtype)
        if self.lengthscale is not None:
            log_densities = self.lengthscale.log_density(numbers.lengthscale / math.sqrt(d))
            total = total + log_densities.sum() - d * math.log(d) / 2
        if self.outputscale is not None:
            total = total + self.outputscale.log_density(numbers.outputscale)
        return total if self.noise is None else total + self.noise.log_density(numbers.noise)


def limits_of(bounds: Bounds, d: int, n_points: int, dtype: DTypeLike) -> Limits:
    """The bounds of the vector [d+2] of lengthscales, outputscale and noise. In float32 the bounds
    of the noise may be raised, so that a covariance of `n_points` points is positive definite."""
    floor = 10 * n_points * jnp.finfo(dtype).eps

    def ends(index: int) -> Array:
        # the upper bound stays above the lower one
        noise = jnp.maximum(jnp.asarray(bounds.noise[index], dtype), (1 + index) * floor)
        variances = jnp.stack([jnp.asarray(bounds.outputscale[index], dtype), noise])
        return jnp.concatenate([jnp.full(d, bounds.lengthscale[index], dtype), variances])

    return Limits(ends(0), ends(1))


def hyperparameters_of(vector: Array) -> Hyperparameters:
    """The hyperparameters in a vector [d+2]."""
    return Hyperparameters(vector[:-2], vector[-2], vector[-1])


def vector_of(numbers: Hyperparameters) -> Array:
    """The hyperparameters as a vector [d+2]."""
    return jnp.concatenate([numbers.lengthscale, jnp.stack([numbers.outputscale, numbers.noise])])


def default_start(bounds: Bounds, d: int, dtype: DTypeLike) -> Hyperparameters:
    """The start of a first fit, clipped to the bounds: lengthscales of half a side, and variances
    of 1 for the signal and 0.01 for the noise of the standardized y."""
    numbers = jnp.asarray([0.5] * d + [1.0, 0.01], dtype)
    return hyperparameters_of(jnp.clip(numbers, *limits_of(bounds, d, n_points=0, dtype=dtype)))


def fit(
    kernel: Any,
    data: Data,
    bounds: Bounds,
    start: Hyperparameters,
    key: PRNGKey,
    restarts: int,
    steps: int,
    prior: Any = None,
) -> tuple[Hyperparameters, Array]:
    """(hyperparameters, their log marginal likelihood []): the best result of L-BFGS from several
    starts, which is at least as good as every start.

    start     hyperparameters of the previous fit, the first start
    restarts  int, number of starts after `start`: `default_start`, then random ones
    steps     int, the largest number of steps from each start
    prior     None, or an object whose log_density(hyperparameters) [] is added to the log
              likelihood
    """
    (n, d), dtype = data.u.shape, data.u.dtype
    limits = limits_of(bounds, d, n, dtype)
    random_starts = jax.random.uniform(key, (restarts, d + 2), dtype, -1, 1) * (jnp.pi / 2)
    given = jnp.stack([vector_of(start), vector_of(default_start(bounds, d, dtype))])
    fixed_starts = jax.vmap(to_free, (0, None))(given, limits)
    # `default_start` is the first of the `restarts` further starts
    starts = jnp.concatenate([fixed_starts, random_starts[1:]])[: restarts + 1]

    def objective(vector: Array) -> Array:
        numbers = hyperparameters_of(vector)
        value = log_marginal_likelihood(kernel, numbers, data)
        return value if prior is None else value + prior.log_density(numbers)

    vector, total = maximise(objective, limits, starts, steps)
    numbers = hyperparameters_of(vector)
    return numbers, total if prior is None else total - prior.log_density(numbers)
