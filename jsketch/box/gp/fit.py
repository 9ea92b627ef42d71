"""Hyperparameters of a GP: their bounds, their priors, and their maximum a posteriori or maximum
likelihood estimate by L-BFGS in bounded log space, from several starts.

TuRBO has another fit (`jsketch.box.turbo`), Adam from one fixed start as in its authors' code:
with this one its points would be others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks, struct
from jsketch.box.gp.regression import Data, Hyperparameters, log_marginal_likelihood
from jsketch.types import PRNGKey, is_traced

LOG_ROOT_2PI = math.log(2 * math.pi) / 2
Interval = tuple[ArrayLike, ArrayLike]
LINE_SEARCH_STEPS = 15  # evaluations that one step may take
# the search ends where all derivatives of the log likelihood, in free coordinates, are below this
TOLERANCE = 1e-5
# Starts lie within this share of the half range, as the transform has no derivative at the bounds.
INSIDE = 0.99


@struct.dataclass
class Bounds:
    """Intervals of the hyperparameters; lengthscales in sides of the box, variances in units of the
    variance of y.

    The defaults are TuRBO's (THEORY 8.5), except for less noise, because test functions have none.
    """

    lengthscale: Interval = (0.005, 2.0)
    outputscale: Interval = (0.05, 20.0)
    noise: Interval = (1e-6, 0.2)

    def check(self) -> None:
        """Raises ValueError unless every interval is finite with 0 < low < high."""
        for name in ("lengthscale", "outputscale", "noise"):
            low, high = getattr(self, name)
            if not is_traced(low, high) and not 0 < low < high < float("inf"):
                raise ValueError(
                    f"bounds: {name} needs finite 0 < low < high; ({low}, {high}) was given."
                )


@struct.dataclass
class LogNormal:
    """The distribution of exp(location + scale Z), Z standard normal."""

    location: ArrayLike
    scale: ArrayLike

    def log_density(self, value: Array) -> Array:
        """The log density [...] at value [...] > 0."""
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
# 2024, section 4, for one input. With d inputs, distances and therefore lengthscales are sqrt(d)
# times as long; the mode is 0.2 sqrt(d) sides of the box.
LENGTHSCALE = LogNormal(math.sqrt(2), math.sqrt(3))
# The paper's prior of the noise, for noisy values: mode 0.0067, in units of the variance of y.
NOISE = LogNormal(-4.0, 1.0)


@struct.dataclass
class Prior:
    """Independent prior densities, in the units of `Bounds`; None is a constant density.

    The maximum likelihood lengthscales of ten or twenty points in six dimensions are often too
    long: the function seems flat except for one hill, and the run ends on it.

    `lengthscale` is the density for one input; with d inputs, it is the density of each lengthscale
    divided by sqrt(d). The noise has no prior by default: of 40 runs of GP-EI on Hartmann's
    function, which has no noise, 4 end more than 0.5 below the maximum with `NOISE`, 1 without it,
    and 5 without any prior.
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
            one = self.lengthscale.log_density(numbers.lengthscale / math.sqrt(d))
            total = total + one.sum() - d * math.log(d) / 2
        if self.outputscale is not None:
            total = total + self.outputscale.log_density(numbers.outputscale)
        return total if self.noise is None else total + self.noise.log_density(numbers.noise)


class Limits(NamedTuple):
    """Bounds of the vector [d+2] of lengthscales, outputscale and noise."""

    low: Array
    high: Array


def limits_of(bounds: Bounds, d: int, points: int, dtype: DTypeLike) -> Limits:
    """The bounds as vectors. The noise keeps a covariance of `points` points positive definite, a
    limit that is active in float32 only."""
    floor = 10 * points * jnp.finfo(dtype).eps

    def row(side: int) -> Array:
        noise = jnp.maximum(jnp.asarray(bounds.noise[side], dtype), (1 + side) * floor)
        ends = jnp.stack([jnp.asarray(bounds.outputscale[side], dtype), noise])
        return jnp.concatenate([jnp.full(d, bounds.lengthscale[side], dtype), ends])

    return Limits(row(0), row(1))


def hyperparameters_of(vector: Array) -> Hyperparameters:
    """The hyperparameters in a vector [d+2]."""
    return Hyperparameters(vector[:-2], vector[-2], vector[-1])


def _to_free(numbers: Hyperparameters, limits: Limits) -> Array:
    """The free coordinates z [d+2] of hyperparameters: log = middle + half range * sin z.

    A sine attains its bounds smoothly; with a logistic curve the search would drift towards
    infinity.
    """
    low, high = (jnp.log(end) for end in limits)
    ends = jnp.stack([numbers.outputscale, numbers.noise])
    logs = jnp.log(jnp.concatenate([numbers.lengthscale, ends]))
    return jnp.arcsin(jnp.clip((2 * logs - low - high) / (high - low), -INSIDE, INSIDE))


def _from_free(free: Array, limits: Limits) -> Hyperparameters:
    low, high = (jnp.log(end) for end in limits)
    return hyperparameters_of(jnp.exp((low + high) / 2 + (high - low) / 2 * jnp.sin(free)))


def default(bounds: Bounds, d: int, dtype: DTypeLike) -> Hyperparameters:
    """The start of a first fit: half a side of the box, the variance of y, 1% noise, clipped to the
    bounds."""

    def near(value: float, bound: Interval) -> Array:
        return jnp.clip(
            jnp.asarray(value, dtype), jnp.asarray(bound[0], dtype), jnp.asarray(bound[1], dtype)
        )

    lengthscale = near(0.5, bounds.lengthscale)
    return Hyperparameters(
        jnp.full(d, lengthscale), near(1, bounds.outputscale), near(0.01, bounds.noise)
    )


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
    starts, never worse than any of them.

    start     hyperparameters of the previous fit, the first start
    restarts  int, further starts: `default`, then random ones
    steps     int, the most steps from each start
    prior     its log_density(hyperparameters) -> [] is added to the log likelihood; None adds
              nothing
    """
    limits = limits_of(bounds, data.u.shape[1], data.u.shape[0], data.u.dtype)
    random = jax.random.uniform(key, (restarts, data.u.shape[1] + 2), data.u.dtype, -1, 1) * (
        jnp.pi / 2
    )
    first = jnp.stack(
        [_to_free(start, limits), _to_free(default(bounds, data.u.shape[1], data.u.dtype), limits)]
    )
    starts = jnp.concatenate([first, random[1:]])[: restarts + 1]

    def loss(free: Array) -> Array:
        numbers = _from_free(free, limits)
        value = log_marginal_likelihood(kernel, numbers, data)
        return -(value if prior is None else value + prior.log_density(numbers))

    ends, losses = map_or_vmap(lambda free: minimise(loss, free, steps), starts)
    winner = jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))
    numbers = _from_free(ends[winner], limits)
    value = -losses[winner]
    return numbers, value if prior is None else value - prior.log_density(numbers)


def map_or_vmap(function: Callable[..., Any], *arguments: Any) -> Any:
    """function over the leading axis of its arguments: vmapped on an accelerator, sequentially on a
    CPU, where batched products of small matrices are slow (four vmapped fits of 200 points took 60
    times as long as one)."""
    if jax.default_backend() == "cpu":
        return lax.map(lambda row: function(*row), arguments)
    return jax.vmap(function)(*arguments)


class _Search(NamedTuple):
    """An unfinished L-BFGS search."""

    point: Array  # [p]
    value: Array  # [], at the point
    gradient: Array  # [p]
    solver: optax.OptState
    best: Array  # [p], the best point so far
    least: Array  # [], its value
    steps: Array  # [] int32


def minimise(loss: Callable[[Array], Array], start: Array, steps: int) -> tuple[Array, Array]:
    """(the best point, its loss) of at most `steps` L-BFGS steps from start [p]; the start where no
    loss is finite."""
    line_search = optax.scale_by_zoom_linesearch(LINE_SEARCH_STEPS, initial_guess_strategy="one")
    solver = optax.lbfgs(linesearch=line_search)

    def step(search: _Search) -> _Search:
        # optax mixes integer types
        with jax.numpy_dtype_promotion("standard"):
            updates, state = solver.update(
                search.gradient,
                search.solver,
                search.point,
                value=search.value,
                grad=search.gradient,
                value_fn=loss,
            )
        point = optax.apply_updates(search.point, updates)
        # the line search ends with an evaluation at the new point
        value, gradient = optax.tree.get(state, "value"), optax.tree.get(state, "grad")
        better = value < search.least
        best, least = jnp.where(better, point, search.best), jnp.where(better, value, search.least)
        return _Search(point, value, gradient, state, best, least, search.steps + 1)

    def unfinished(search: _Search) -> Array:
        return (search.steps < steps) & (jnp.max(jnp.abs(search.gradient)) > TOLERANCE)

    value, gradient = jax.value_and_grad(loss)(start)
    least = jnp.where(jnp.isfinite(value), value, jnp.inf)
    first = _Search(
        start, value, gradient, solver.init(start), start, least, jnp.zeros((), jnp.int32)
    )
    last = lax.while_loop(unfinished, step, first)
    return last.best, last.least
