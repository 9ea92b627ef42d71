"""Hyperparameters of a GP by maximum marginal likelihood, or a posteriori under a prior: L-BFGS in
bounded log space, from several starts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import struct
from jsketch.box.gp.regression import Data, Hyperparameters, log_marginal_likelihood
from jsketch.types import PRNGKey, is_traced

Interval = tuple[ArrayLike, ArrayLike]
LINE_SEARCH_STEPS = 15  # evaluations that one step may take
# largest derivative of the log likelihood, in free coordinates, that counts as zero
TOLERANCE = 1e-5
# of the half range: the transform has no derivative on the bound itself, so nothing starts there
INSIDE = 0.99


@struct.dataclass
class Bounds:
    """Where hyperparameters are searched; lengthscales in sides of the box, variances in units of
    the variance of y.

    The defaults are TuRBO's (THEORY 8.5), but for less noise: test functions have none.
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


class _Range(NamedTuple):
    """log bounds of a flat vector of hyperparameters [d+2]: lengthscales, outputscale, noise."""

    low: Array
    high: Array


def _range(bounds: Bounds, data: Data) -> _Range:
    capacity, d = data.u.shape
    dtype = data.u.dtype
    # the Gram matrix must stay positive definite in this precision: matters in float32 only
    floor = 10 * capacity * jnp.finfo(dtype).eps

    def row(side: int) -> Array:
        noise = jnp.maximum(jnp.asarray(bounds.noise[side], dtype), (1 + side) * floor)
        ends = jnp.stack([jnp.asarray(bounds.outputscale[side], dtype), noise])
        return jnp.log(jnp.concatenate([jnp.full(d, bounds.lengthscale[side], dtype), ends]))

    return _Range(row(0), row(1))


def _flat(numbers: Hyperparameters) -> Array:
    """[d+2], logarithms."""
    ends = jnp.stack([numbers.outputscale, numbers.noise])
    return jnp.log(jnp.concatenate([numbers.lengthscale, ends]))


def _to_free(numbers: Hyperparameters, limits: _Range) -> Array:
    """The free coordinates z [d+2] of hyperparameters: log = middle + half range * sin z.

    A sine reaches its bounds, and smoothly, where a logistic curve would leave the search creeping
    towards infinity.
    """
    low, high = limits
    return jnp.arcsin(jnp.clip((2 * _flat(numbers) - low - high) / (high - low), -INSIDE, INSIDE))


def _from_free(free: Array, limits: _Range) -> Hyperparameters:
    low, high = limits
    values = jnp.exp((low + high) / 2 + (high - low) / 2 * jnp.sin(free))
    return Hyperparameters(values[:-2], values[-2], values[-1])


def default(bounds: Bounds, d: int, dtype: DTypeLike) -> Hyperparameters:
    """Where a first fit starts: half a side of the box, the variance of y, 1% noise; or the bounds'
    nearest."""

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
    """(hyperparameters, log marginal likelihood []) by at most `steps` of L-BFGS from `start` (a
    warm start: the last fit) and from `restarts` further points: the default, then random ones.
    With a `prior` (log_density(hyperparameters) -> []), likelihood times prior is maximised;
    without, the likelihood. Never worse than any of its starts."""
    limits = _range(bounds, data)
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

    ends, losses = each(lambda free: minimise(loss, free, steps), starts)
    winner = jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))
    numbers = _from_free(ends[winner], limits)
    value = -losses[winner]
    return numbers, value if prior is None else value - prior.log_density(numbers)


def each(function: Callable[..., Any], *arguments: Any) -> Any:
    """function over the leading axis of its arguments: vmapped on an accelerator, in turn on a CPU,
    where batched products of small matrices are slow (four fits of 200 points together took 60
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
    best: Array  # [p], the best point met
    least: Array  # [], its value
    steps: Array  # [] int32


def minimise(loss: Callable[[Array], Array], start: Array, steps: int) -> tuple[Array, Array]:
    """(the best point met, its loss) of at most `steps` L-BFGS steps from start [p]; the start, if
    no loss is finite."""
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
