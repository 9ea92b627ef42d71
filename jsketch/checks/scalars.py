"""Numbers that a user gives: signs, ranges, kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.types import is_traced


def numbers_of(value: Any) -> np.ndarray:
    """The value as floating point numbers. Raises ValueError for what is no number."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"a number was expected; {value!r} was given.")
    return numbers.astype(float)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape, also of a list or a tracer."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _hold(
    values: dict[str, Any],
    holds: Callable[[np.ndarray], np.ndarray],
    words: str,
    scalar: bool = True,
) -> None:
    for name, value in values.items():
        if scalar and shape_of(value) != ():
            raise ValueError(
                f"{name} must be one number; an array of shape {shape_of(value)} was given. To try"
                " several, use jax.vmap."
            )
        if is_traced(value):
            continue
        try:
            numbers = numbers_of(value)
        except ValueError as error:
            raise ValueError(f"{name} {words}: {error}") from error
        if not np.all(holds(numbers)):
            raise ValueError(f"{name} {words}; {value} was given.")


def _is_positive(numbers: np.ndarray) -> np.ndarray:
    return np.isfinite(numbers) & (numbers > 0)


def _is_nonnegative(numbers: np.ndarray) -> np.ndarray:
    return np.isfinite(numbers) & (numbers >= 0)


def one_number(**values: Any) -> None:
    """Raises ValueError unless every named value, traced or not, is one real number."""
    for name, value in values.items():
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
        real = jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)
        if not real or shape_of(value) != ():
            raise ValueError(f"{name} must be one real number, shape (); it is {value!r}.")


def positive(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number > 0."""
    _hold(values, _is_positive, "must be a finite number above 0")


def nonnegative(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number >= 0."""
    _hold(values, _is_nonnegative, "must be a finite number, at least 0")


def all_positive(**values: Any) -> None:
    """Raises ValueError unless every number of every named array is finite and > 0."""
    _hold(values, _is_positive, "must be a finite number above 0", scalar=False)


def all_nonnegative(**values: Any) -> None:
    """Raises ValueError unless every number of every named array is finite and >= 0."""
    _hold(values, _is_nonnegative, "must be a finite number, at least 0", scalar=False)


def finite(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number."""
    _hold(values, np.isfinite, "must be a finite number")


def one_key(**values: Any) -> Array:
    """The one named value as a typed key (an old-style uint32 pair is taken too). Raises ValueError
    for anything else."""
    ((name, value),) = values.items()
    pair = isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32
    if pair and value.shape == (2,):
        value = jax.random.wrap_key_data(jnp.asarray(value))
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if not typed or value.ndim:
        raise ValueError(f"{name} must be one key, such as jax.random.key(0); {value!r} was given.")
    return value


def keys(**values: Any) -> Array:
    """The one named value as typed keys [S], S >= 1 (old-style uint32 pairs [S, 2] are taken too).
    Raises ValueError for anything else."""
    ((name, value),) = values.items()
    pairs = isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32
    if pairs and value.ndim == 2 and value.shape[1] == 2:
        value = jax.random.wrap_key_data(jnp.asarray(value))
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    if not typed or value.ndim != 1 or not value.shape[0]:
        raise ValueError(
            f"{name} must be keys [S], one a run, such as jax.random.split(key, 10); {value!r} was"
            " given."
        )
    return value


def probability(**values: Any) -> None:
    """Raises ValueError unless every named value is one number strictly between 0 and 1."""
    _hold(
        values,
        lambda p: (p > 0) & (p < 1),
        "is a probability and must lie strictly between 0 and 1",
    )


def fraction(**values: Any) -> None:
    """Raises ValueError unless every named value is one number in [0, 1]."""
    _hold(values, lambda p: (p >= 0) & (p <= 1), "must lie between 0 and 1")


def at_least_one(**values: Any) -> None:
    """Raises ValueError unless every named value is one finite number >= 1."""
    _hold(values, lambda x: np.isfinite(x) & (x >= 1), "must be at least 1")


def confidence(bandit: Any) -> None:
    """The assumptions that all optimistic algorithms share."""
    positive(regularization=bandit.regularization)
    nonnegative(noise_std=bandit.noise_std, norm_bound=bandit.norm_bound)
    probability(delta=bandit.delta)
    a_width(bandit.width)


def a_width(width: Any) -> None:
    """Raises ValueError for what is no callable pytree, a plain function among them, and for
    numbers that make no width."""
    if not callable(width) or jax.tree_util.all_leaves([width]):
        raise ValueError(
            "width must be a width, such as widths.bbkb_paper or widths.Bayesian(2.0); a function"
            " of (evidence, confidence)"
            f" is wrapped: widths.Formula(function). {width!r} was given."
        )
    if hasattr(width, "check"):
        width.check()


def function_of(name: str, function: Any, arguments: str) -> None:
    """Raises ValueError unless it can be called with the arguments that `arguments` names."""
    if not callable(function):
        raise ValueError(
            f"{name} must be a function of ({arguments}); {type(function).__name__} is none."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # not everything that can be called says with what
        return
    try:
        signature.bind(*[None] * (arguments.count(",") + 1))
    except TypeError as error:
        raise ValueError(
            f"{name} must be a function of ({arguments}); its arguments are {signature}."
        ) from error


def truth(**values: Any) -> None:
    """Raises ValueError unless every named value is True or False."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False; {value!r} was given.")


def choice(choices: tuple[str, ...], **values: Any) -> None:
    """Raises ValueError unless every named value is one of the choices."""
    for name, value in values.items():
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name} must be one of {choices}; {value!r} was given.")


def floating(**values: Any) -> Any:
    """The one named value as a floating dtype. Raises ValueError for anything else."""
    ((name, value),) = values.items()
    try:
        dtype = jnp.dtype(value)
    except TypeError as error:
        raise ValueError(f"{name} must be a floating dtype; {value!r} was given.") from error
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"{name} must be a floating dtype; {value!r} was given.")
    return dtype


def real(name: str, value: Any) -> Any:
    """The named value as an array of real numbers: NumPy's, or JAX's where it was one. Raises
    ValueError for complex ones and for what is no number."""
    try:
        array = (
            value
            if isinstance(value, jax.Array)
            else jnp.asarray(value)
            if is_traced(value)
            else np.asarray(value)
        )
        # numbers of Python, perhaps
        array = array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be real numbers: {error}.") from error
    # the small floats that NumPy has no letter for are known to jax; asking it first would cost
    # more than an example
    if array.dtype.kind not in "fiub" and not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name} must be real numbers; their dtype is {array.dtype}.")
    return array
