"""Static mistakes, said in plain words on the host. Values that are traced (under jit or vmap) are left to the caller."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.types import Arms, Box, Query, is_traced


def _numbers(value: Any) -> np.ndarray:
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"a number was expected; {value!r} was given.")
    return numbers.astype(float)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def positive(**values: Any) -> None:
    """Raises ValueError unless every named value is a finite number > 0."""
    for name, value in values.items():
        if not is_traced(value) and not np.all(np.isfinite(_numbers(value)) & (_numbers(value) > 0)):
            raise ValueError(f"{name} must be a finite number above 0; {value} was given.")


def nonnegative(**values: Any) -> None:
    """Raises ValueError unless every named value is a finite number >= 0."""
    for name, value in values.items():
        if not is_traced(value) and not np.all(np.isfinite(_numbers(value)) & (_numbers(value) >= 0)):
            raise ValueError(f"{name} must be a finite number, at least 0; {value} was given.")


def probability(**values: Any) -> None:
    """Raises ValueError unless every named value lies strictly between 0 and 1."""
    for name, value in values.items():
        if not is_traced(value) and not np.all((_numbers(value) > 0) & (_numbers(value) < 1)):
            raise ValueError(
                f"{name} is a probability and must lie strictly between 0 and 1; {value} was given."
            )


def fraction(**values: Any) -> None:
    """Raises ValueError unless every named value lies in [0, 1]."""
    for name, value in values.items():
        if not is_traced(value) and not np.all((_numbers(value) >= 0) & (_numbers(value) <= 1)):
            raise ValueError(f"{name} must lie between 0 and 1; {value} was given.")


def at_least_one(**values: Any) -> None:
    """Raises ValueError unless every named value is >= 1."""
    for name, value in values.items():
        if not is_traced(value) and not np.all(_numbers(value) >= 1):
            raise ValueError(f"{name} must be at least 1; {value} was given.")


def confidence(bandit: Any) -> None:
    """The assumptions that all optimistic algorithms share."""
    positive(regularization=bandit.regularization)
    nonnegative(noise_std=bandit.noise_std, norm_bound=bandit.norm_bound)
    probability(delta=bandit.delta)


def arms(domain: Arms) -> Arms:
    """The arms as JAX arrays. Raises ValueError for arms of a wrong rank, an empty set or non-finite features; warns of what
    is likely a mistake."""
    features = domain.features if hasattr(domain.features, "shape") else np.asarray(domain.features)
    if jnp.ndim(features) != 2:
        raise ValueError(
            f"arms must be a matrix [A, d], one candidate a row; an array of shape {jnp.shape(features)} was given."
            " A single feature is a column: use x[:, None]."
        )
    if features.shape[0] == 0 or features.shape[1] == 0:
        raise ValueError(
            f"there is nothing to choose from: arms have shape {features.shape}, need at least one row and column."
        )
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise ValueError(f"arms must be floating point numbers; their dtype is {features.dtype}.")
    if is_traced(features):
        return domain
    table = np.asarray(features)
    finite = np.isfinite(table)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"arms must be finite; arm {row}, feature {column} is {table[row, column]}"
            f" ({(~finite).sum()} such values in all). Remove or impute them."
        )
    _warn_of_degenerate_features(table)
    return Arms(jnp.asarray(features))


def _warn_of_degenerate_features(table: np.ndarray) -> None:
    if table.shape[0] < 2:
        return
    constant = np.flatnonzero(np.ptp(table, axis=0) == 0)
    if constant.size and table.shape[1] > 1:
        warnings.warn(
            f"features {constant.tolist()} have the same value for every arm and carry no information.",
            stacklevel=4,
        )
    # equal rows have equal projections; unequal ones practically never do
    projection = table @ np.random.default_rng(0).standard_normal(table.shape[1])
    repeated = table.shape[0] - np.unique(projection).size
    if repeated:
        warnings.warn(
            f"{repeated} of the {table.shape[0]} arms repeat the features of another: to a kernel they are the same arm.",
            stacklevel=4,
        )


def example(x: Any) -> Array:
    """One example [d]. Raises ValueError unless it is a vector of floating point numbers."""
    if jnp.ndim(x) != 1 or _shape(x)[0] == 0:
        raise ValueError(f"an example is a vector [d] of at least one input; its shape is {_shape(x)}.")
    if not jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating):
        raise ValueError(f"examples must be floating point numbers; their dtype is {jnp.asarray(x).dtype}.")
    return jnp.asarray(x)


def candidates(x: Any, dimension: int) -> None:
    """Raises ValueError unless x is a finite, non-empty matrix [A, dimension]."""
    if jnp.ndim(x) != 2 or _shape(x)[0] == 0 or _shape(x)[1] != dimension:
        raise ValueError(
            f"candidates must be a matrix [A, {dimension}], at least one a row, with the inputs of the history; its shape"
            f" is {_shape(x)}."
        )
    if not is_traced(x) and not np.isfinite(np.asarray(x)).all():
        raise ValueError(f"candidates must be finite; {(~np.isfinite(np.asarray(x))).sum()} values are not.")


def box(domain: Box, dimension: int) -> None:
    """Raises ValueError unless the box is finite, of this dimension, and has lower < upper."""
    for name, value in (("lower", domain.lower), ("upper", domain.upper)):
        if _shape(value) != (dimension,):
            raise ValueError(
                f"the box's {name} must have shape ({dimension},); its shape is {_shape(value)}."
            )
    if not is_traced(domain):
        low, high = _numbers(domain.lower), _numbers(domain.upper)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"a box needs finite lower < upper in every input; {low} and {high} were given.")


def a_kernel(kernel: Any) -> None:
    """Raises ValueError for what is no kernel."""
    if isinstance(kernel, type) or not (hasattr(kernel, "gram") and hasattr(kernel, "diag")):
        raise ValueError(
            f"kernel must be a kernel with its numbers, such as kernels.Gaussian(lengthscale=1.0); {kernel!r} was given."
        )


def model(domain: Arms, kernel: Any, regularization: Any) -> None:
    """Raises ValueError for a kernel that does not fit the arms; warns when float32 cannot resolve variances at this
    regularization (theory.md E1)."""
    a_kernel(kernel)
    if is_traced(domain, kernel):
        return
    # inside somebody's jit even constants are traced, unless evaluated now
    with jax.ensure_compile_time_eval():
        _check_values(domain, kernel)
        _warn_of_precision(domain, kernel, regularization)


def _check_values(domain: Arms, kernel: Any) -> None:
    try:
        value = np.asarray(kernel.gram(domain.features[:1], domain.features[:1]))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the kernel cannot be evaluated on arms with {domain.features.shape[1]} features ({error}). An ARD kernel"
            " needs one lengthscale a feature."
        ) from error
    if not np.isfinite(value).all():
        raise ValueError(
            f"k(x, x) of the first arm is {value[0, 0]}: check the numbers of the kernel {kernel}."
        )


def _warn_of_precision(domain: Arms, kernel: Any, regularization: Any) -> None:
    if is_traced(domain, kernel, regularization) or domain.features.dtype != jnp.float32:
        return
    scale = float(jnp.max(kernel.diag(domain.features[:1])))
    if float(np.min(_numbers(regularization))) < 1e-3 * scale:
        warnings.warn(
            f"regularization {regularization} is too small to be meaningful in float32: residuals carry an error of about"
            f" 1e-5 k(x,x), which is divided by it. Use arms in float64 (jax_enable_x64) or a regularization of at"
            f" least {1e-3 * scale:g}.",
            stacklevel=3,
        )


def capacity(**values: int) -> None:
    """Raises ValueError unless every named static capacity is an integer >= 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1; {value!r} was given.")


def count(**values: int) -> None:
    """Raises ValueError unless every named static count is an integer >= 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"{name} must be an integer, at least 0; {value!r} was given.")


def choice(choices: tuple[str, ...], **values: Any) -> None:
    """Raises ValueError unless every named value is one of the choices."""
    for name, value in values.items():
        if value not in choices:
            raise ValueError(f"{name} must be one of {choices}; {value!r} was given.")


def rewards(query: Query, y: Any) -> Array:
    """The rewards as floating point numbers. Raises ValueError unless there is one for each slot of the query."""
    if _shape(y) != query.index.shape:
        raise ValueError(
            f"y must hold one reward for each slot of the query, shape {query.index.shape}, NaN where nothing was observed;"
            f" its shape is {_shape(y)}."
        )
    y = jnp.asarray(y)
    return y if jnp.issubdtype(y.dtype, jnp.floating) else y.astype(jnp.zeros(()).dtype)


def arm_numbers(domain: Arms, **values: Any) -> None:
    """Raises ValueError unless every named value is a vector of arm numbers in [0, A)."""
    for name, value in values.items():
        if is_traced(value):
            continue
        numbers = np.asarray(value)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise ValueError(
                f"{name} must be a vector of arm numbers; its shape is {numbers.shape}, its dtype {numbers.dtype}."
            )
        outside = numbers[(numbers < 0) | (numbers >= domain.count)]
        if outside.size:
            raise ValueError(f"{name} names arm {outside[0]}; the arms are 0 to {domain.count - 1}.")


def history(domain: Arms, pull_counts: Any, reward_sums: Any) -> None:
    """Raises ValueError unless past evaluations are finite vectors [A] with counts >= 0."""
    for name, value in (("pull_counts", pull_counts), ("reward_sums", reward_sums)):
        if _shape(value) != (domain.count,):
            raise ValueError(
                f"{name} must hold one number for each of the {domain.count} arms; its shape is {_shape(value)}."
            )
    if not is_traced(pull_counts, reward_sums):
        nonnegative(pull_counts=pull_counts)
        if not np.isfinite(_numbers(reward_sums)).all():
            raise ValueError("reward_sums must be finite.")
