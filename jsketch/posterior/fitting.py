"""The numbers of a kernel with the largest marginal likelihood, by L-BFGS in bounded log space from
several starts. `jsketch.box.gp.fit` uses the same search."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.posterior import likelihood
from jsketch.posterior.likelihood import Values
from jsketch.show import short_repr
from jsketch.struct import child, numbers_in_dtype
from jsketch.types import PRNGKey, is_traced
from jsketch.warn import warn

LINE_SEARCH_STEPS = 15  # largest number of evaluations in one line search
TOLERANCE = 1e-5  # a search ends when no derivative with respect to a free coordinate is larger
# the largest |sin z| of a start, which is its distance from the middle of its range, in halves of
# the range. At 1 (the bounds) the arcsine has no derivative
MAX_SINE = 0.99
START_SPREAD = 1.5  # standard deviation of the logarithms of the random starts of `fit`
REGULARIZATION = "regularization"


class Fit(NamedTuple):
    """The result of `fit`, or a stack of results.

    kernel                   the kernel with the fitted numbers
    regularization           [], the variance of the noise of a reward
    log_marginal_likelihood  [], of the history at these numbers; -inf if it is not finite at any
                             start, or its gradient is not, and then the numbers are those that
                             were given
    """

    kernel: Any
    regularization: Array
    log_marginal_likelihood: Array

    def __repr__(self) -> str:
        return short_repr(self)


@struct.checked_names
def fit(
    kernel: Any,
    x: ArrayLike,
    y: ArrayLike,
    regularization: ArrayLike,
    *,
    mean: ArrayLike = 0.0,
    counts: ArrayLike | None = None,
    squares: ArrayLike | None = None,
    fixed: tuple[str, ...] = (),
    spread: ArrayLike | None = 2.0,
    factor: ArrayLike = 1e4,
    restarts: int = 3,
    steps: int = 50,
    key: PRNGKey | None = None,
) -> Fit:
    """The kernel and the regularization that a history makes most probable.

    The given numbers are guesses, and the logarithm of each number has a normal prior around its
    guess: with few rewards, the likeliest lengthscales and variances are often 0 or infinite. With
    `spread` None the result is the maximum of the marginal likelihood. The numbers are all positive
    numbers of the kernel; a prior variance is a number of the kernel 1.0 * k. Of kernels of your
    own, all floating point numbers and vectors are fitted. Works under `jit` and `vmap`.

    kernel          a kernel of `jsketch.kernels`, with guesses of its numbers
    x               [n, d], the evaluated points, which may repeat
    y               [n], the reward at each point. A reward that is not finite is not observed
    regularization  a guess of lam, the variance of the noise of a reward
    mean            [], the prior mean, which is not fitted; that of the bandits is 0
    counts          [n], the number of rewards of which y is the average, as in
                    `log_marginal_likelihood`
    squares         [], the sum of the squares of all rewards, which `counts` needs here unless the
                    regularization is fixed
    fixed           names of numbers that are not fitted: "regularization", "lengthscale", or the
                    last parts of a path, as "left.lengthscale" of a `Sum`
    spread          the standard deviation of the prior of a logarithm; None: no prior
    factor          above 1: each number is at most this factor above or below its guess
    restarts        int, random starts besides the guesses
    steps           int, L-BFGS steps from each start
    key             of the random starts; None: jax.random.key(0)

    Raises ValueError for other shapes, for a number that is not above 0 and not fixed, for a name
    in `fixed` that no number has, for counts without squares, and for squares below the sum of
    counts y^2.

    Example:

        fitted = posterior.fit(1.0 * kernels.Gaussian(0.5), features, mean_reward, 0.01)
        bandit = BBKB(fitted.kernel, fitted.regularization)
    """
    values = likelihood.checked_values(
        kernel, x, y, counts, mean=mean, squares=squares, regularization=regularization
    )
    if counts is not None and squares is None and REGULARIZATION not in fixed:
        raise ValueError(
            "the average of several rewards does not show their noise: give squares, the sum of the"
            ' squares of all rewards, or fixed=("regularization",).'
        )
    checks.nonnegative_integer(restarts=restarts)
    checks.positive_integer(steps=steps)
    if spread is not None:
        checks.positive(spread=spread)
    if not is_traced(factor) and not np.all(np.asarray(factor) > 1):
        raise ValueError(f"factor must be above 1; {factor} was given.")
    dtype = values.x.dtype
    kernel = numbers_in_dtype(kernel, dtype)
    guess = dict(kernel=kernel, regularization=jnp.asarray(regularization, dtype))
    is_fitted = _fitted_leaves(guess, fixed)
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    options = [
        None if o is None else jnp.asarray(o, dtype) for o in (mean, squares, spread, factor)
    ]
    result: Fit = _fit(guess, values, key, *options, is_fitted, restarts, steps)
    if not is_traced(result) and np.any(np.isneginf(result.log_marginal_likelihood)):
        warn(
            "the marginal likelihood of the history or its gradient is not finite at any start, so"
            " that fit returns the numbers that were given."
        )
    return result


def _fitted_leaves(guess: dict[str, Any], fixed: Any) -> tuple[bool, ...]:
    """Whether each leaf of the guess is fitted."""
    if isinstance(fixed, str):
        raise ValueError(f'fixed is a tuple of names, such as ("{fixed}",); {fixed!r} was given.')
    names, fitted = [], []
    for path, leaf in jax.tree_util.tree_leaves_with_path(guess):
        parts = [_part(key) for key in path]
        name = ".".join(parts[1:] if parts[0] == "kernel" else parts)
        is_number = parts[0] == REGULARIZATION or _is_number(guess, path, leaf)
        is_fixed = any(name == part or name.endswith(f".{part}") for part in fixed)
        fitted.append(is_number and not is_fixed)
        names += [name] if is_number else []
        if fitted[-1] and not is_traced(leaf) and not _is_positive(np.asarray(leaf)):
            raise ValueError(
                f"fit searches finite positive numbers, and {name} is {np.asarray(leaf)}: give a"
                f' guess above 0, or fixed=("{name}",).'
            )
        if fitted[-1] and parts[-1] == "_unconstrained":
            raise ValueError(
                f"{name} is a parameter of GPJax, which stores a transformed number that fit cannot"
                " search: fit the kernel by GPJax, fix its numbers, or take a kernel of"
                " jsketch.kernels."
            )
    for part in fixed:
        if not any(name == part or name.endswith(f".{part}") for name in names):
            raise ValueError(
                f"fixed contains {part!r}, which no number has; the numbers are {', '.join(names)}."
            )
    return tuple(fitted)


def _is_positive(numbers: np.ndarray) -> bool:
    return bool(np.all((numbers > 0) & np.isfinite(numbers)))


def _part(key: Any) -> str:
    """The name of a key of a pytree."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _is_number(tree: Any, path: Any, leaf: Any) -> bool:
    """Whether a leaf is a number, or a vector of numbers, of a kernel. In classes of this library
    these are the fields with a range; other arrays are data, such as a table of values."""
    if not jnp.issubdtype(jax.dtypes.result_type(leaf), jnp.floating) or jnp.ndim(leaf) > 1:
        return False
    owner = tree
    for key in path[:-1]:
        owner = child(owner, key)
    if not type(owner).__module__.startswith("jsketch."):
        return True
    fields = getattr(owner, "__dataclass_fields__", {})
    name = getattr(path[-1], "name", None)
    return name in fields and "range" in fields[name].metadata


@partial(jax.jit, static_argnums=(7, 8, 9))
def _fit(
    guess: dict[str, Any],
    values: Values,
    key: PRNGKey,
    mean: Array,
    squares: Array | None,
    spread: Array | None,
    factor: Array,
    is_fitted: tuple[bool, ...],
    restarts: int,
    steps: int,
) -> Fit:
    leaves, tree = jax.tree.flatten(guess)
    dtype = values.x.dtype
    parts = [jnp.ravel(leaf) for leaf, fitted in zip(leaves, is_fitted, strict=True) if fitted]
    centre = jnp.concatenate([*parts, jnp.zeros(0, dtype)])

    def numbers_of(vector: Array) -> dict[str, Any]:
        new, begin = [], 0
        for leaf, fitted in zip(leaves, is_fitted, strict=True):
            size = leaf.size if fitted else 0
            new.append(vector[begin : begin + size].reshape(leaf.shape) if fitted else leaf)
            begin += size
        return jax.tree.unflatten(tree, new)

    def likelihood_of(vector: Array) -> Array:
        new = numbers_of(vector)
        arguments = new["kernel"], new[REGULARIZATION], mean, squares
        return likelihood.of_values(values, *arguments)

    def objective(vector: Array) -> Array:
        value = likelihood_of(vector)
        if spread is None:
            return value
        return value - jnp.square(jnp.log(vector / centre) / spread).sum() / 2

    if not centre.size:
        return Fit(guess["kernel"], guess[REGULARIZATION], likelihood_of(centre))
    limits = Limits(centre / factor, centre * factor)
    normal = jax.random.normal(key, (restarts, centre.size), dtype)
    starts = jnp.concatenate([centre[None], centre[None] * jnp.exp(START_SPREAD * normal)])
    free = jax.vmap(to_free, (0, None))(starts, limits)
    best, highest = maximise(objective, limits, free, steps)
    # without a finite value the result is the guess itself
    best = jnp.where(jnp.isfinite(highest), best, centre)
    new = numbers_of(best)
    value = jnp.where(jnp.isfinite(highest), likelihood_of(best), -jnp.inf)
    return Fit(new["kernel"], new[REGULARIZATION], value)


class Limits(NamedTuple):
    """Bounds of a vector of positive numbers."""

    low: Array  # [p]
    high: Array  # [p]


def to_free(vector: Array, limits: Limits) -> Array:
    """The free coordinates z [p], such that log(number) = middle + half_range * sin(z) in the range
    between the logarithms of its bounds. With a logistic curve in place of the sine, the search
    might diverge, because the curve does not attain its bounds."""
    low, high = (jnp.log(end) for end in limits)
    position = (2 * jnp.log(vector) - low - high) / (high - low)
    return jnp.arcsin(jnp.clip(position, -MAX_SINE, MAX_SINE))


def from_free(free: Array, limits: Limits) -> Array:
    """The inverse of `to_free`."""
    low, high = (jnp.log(end) for end in limits)
    return jnp.exp((low + high) / 2 + (high - low) / 2 * jnp.sin(free))


def maximise(
    objective: Callable[[Array], Array], limits: Limits, starts: Array, steps: int
) -> tuple[Array, Array]:
    """(the vector [p] within the limits, its value []) with the largest objective that searches
    from `starts` [k,p], in free coordinates, find. It is at least as good as every start; the value
    is -inf if none is finite."""

    def loss(free: Array) -> Array:
        return -objective(from_free(free, limits))

    solutions, losses = map_or_vmap(lambda free: minimise(loss, free, steps), starts)
    winner = jnp.argmin(jnp.where(jnp.isnan(losses), jnp.inf, losses))
    return from_free(solutions[winner], limits), -losses[winner]


def map_or_vmap(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function mapped over the leading axis of its arguments: by vmap on an accelerator, but by
    a loop on a CPU, where batched products of small matrices are slow."""
    if jax.default_backend() == "cpu":
        return lax.map(lambda row: function(*row), arguments)
    return jax.vmap(function)(*arguments)


class _Search(NamedTuple):
    """The state of an L-BFGS search."""

    point: Array  # [p]
    value: Array  # [], the loss at the point
    gradient: Array  # [p], at the point
    solver: Any
    best: Array  # [p], the best point so far
    best_value: Array  # [], the loss at the best point
    steps: Array  # [] int32


def minimise(loss: Callable[[Array], Array], start: Array, steps: int) -> tuple[Array, Array]:
    """(the best point [p], its loss []) of at most `steps` L-BFGS steps from start [p]; if no loss
    is finite, or the gradient at the start is not, (start, infinity)."""
    import optax  # here, because a third of the time of importing a bandit would be its

    line_search = optax.scale_by_zoom_linesearch(LINE_SEARCH_STEPS, initial_guess_strategy="one")
    solver = optax.lbfgs(linesearch=line_search)

    def step(search: _Search) -> _Search:
        point, value, gradient, state, best, best_value, count = search
        # optax mixes integer types
        with jax.numpy_dtype_promotion("standard"):
            updates, state = solver.update(
                gradient, state, point, value=value, grad=gradient, value_fn=loss
            )
        point = optax.apply_updates(point, updates)
        # the line search ends with an evaluation at the new point
        value, gradient = optax.tree.get(state, "value"), optax.tree.get(state, "grad")
        is_better = value < best_value
        best = jnp.where(is_better, point, best)
        best_value = jnp.where(is_better, value, best_value)
        return _Search(point, value, gradient, state, best, best_value, count + 1)

    def unfinished(search: _Search) -> Array:
        return (search.steps < steps) & (jnp.max(jnp.abs(search.gradient)) > TOLERANCE)

    value, gradient = jax.value_and_grad(loss)(start)
    # without a gradient there is no search, and its start must not pass for its result
    is_finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
    best_value = jnp.where(is_finite, value, jnp.inf)
    first = _Search(
        start, value, gradient, solver.init(start), start, best_value, jnp.zeros((), jnp.int32)
    )
    last = lax.while_loop(unfinished, step, first)
    return last.best, last.best_value
