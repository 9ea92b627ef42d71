"""What is chosen from: arms, candidates, boxes; and single examples."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch.checks.scalars import numbers_of, shape_of
from jsketch.types import Arms, Box, is_traced
from jsketch.warn import warn


def arms(domain: Arms) -> Arms:
    """The arms as JAX arrays. Raises ValueError for what is no `Arms`, for arms of a wrong rank, an
    empty set or non-finite features; warns of what is likely a mistake."""
    if not isinstance(domain, Arms):
        raise ValueError(
            "arms are given as Arms(features), features [A, d], one candidate a row; what was given"
            f" is a {type(domain).__name__}."
        )
    if domain.shard is not None and not is_traced(domain.features):
        raise ValueError(
            "these arms lie over the devices of a mesh, and this algorithm expects them whole: wrap"
            " it, as in Sharded(bandit, mesh), or give it the arms before place(...)."
        )
    features = rows_of_arms(domain.features)
    return domain if is_traced(features) else Arms(jnp.asarray(features))


def rows_of_arms(features: Any) -> Any:
    """The features of arms as an array [A, d], where it is. Raises and warns as `arms`."""
    features = table(features)
    if jnp.ndim(features) != 2:
        raise ValueError(
            "arms must be a matrix [A, d], one candidate a row; an array of shape"
            f" {jnp.shape(features)} was given. A single feature is a column: use x[:, None]."
        )
    if features.shape[0] == 0 or features.shape[1] == 0:
        raise ValueError(
            f"there is nothing to choose from: arms have shape {features.shape}, need at least one"
            " row and column."
        )
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise ValueError(
            "arms must be floating point numbers, such as x.astype(float); their dtype is"
            f" {features.dtype}."
        )
    if is_traced(features):
        return features
    numbers = np.asarray(features)
    finite = np.isfinite(numbers)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise ValueError(
            f"arms must be finite; arm {row}, feature {column} is {numbers[row, column]}"
            f" ({(~finite).sum()} such values in all). Remove or impute them."
        )
    _warn_of_degenerate_features(numbers)
    return features


def table(features: Any) -> Any:
    """An array as it is; a DataFrame, or lists of numbers, as a floating point array. Raises
    ValueError for what holds anything but real numbers."""
    if isinstance(features, np.ndarray | jax.Array):
        return features
    try:
        numbers = np.asarray(features)
        return numbers if numbers.dtype.kind in "fcV" else numbers.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features must be a matrix of numbers: {error}.") from error


def _warn_of_degenerate_features(table: np.ndarray) -> None:
    if table.shape[0] < 2:
        return
    constant = np.flatnonzero(np.ptp(table, axis=0) == 0)
    if constant.size and table.shape[1] > 1:
        warn(
            f"features {constant.tolist()} have the same value for every arm and carry no"
            " information."
        )
    # equal rows have equal projections; unequal ones practically never do
    projection = table @ np.random.default_rng(0).standard_normal(table.shape[1])
    repeated = table.shape[0] - np.unique(projection).size
    if repeated:
        warn(
            f"{repeated} of the {table.shape[0]} arms repeat the features of another: to a kernel"
            " they are the same arm."
        )


def example(x: Any) -> Array:
    """One example [d]. Raises ValueError unless it is a vector of floating point numbers."""
    if jnp.ndim(x) != 1 or shape_of(x)[0] == 0:
        raise ValueError(
            f"an example is a vector [d] of at least one input; its shape is {shape_of(x)}."
        )
    if not jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating):
        raise ValueError(
            f"examples must be floating point numbers; their dtype is {jnp.asarray(x).dtype}."
        )
    return jnp.asarray(x)


def candidates(x: Any, dimension: int) -> None:
    """Raises ValueError unless x is a finite, non-empty matrix [A, dimension]."""
    if jnp.ndim(x) != 2 or shape_of(x)[0] == 0 or shape_of(x)[1] != dimension:
        raise ValueError(
            f"candidates must be a matrix [A, {dimension}], at least one a row, with the inputs of"
            f" the history; its shape is {shape_of(x)}."
        )
    if not is_traced(x) and not np.isfinite(np.asarray(x)).all():
        raise ValueError(
            f"candidates must be finite; {(~np.isfinite(np.asarray(x))).sum()} values are not."
        )


def box(domain: Box, dimension: int) -> None:
    """Raises ValueError unless the box is finite, of this dimension, and has lower < upper."""
    for name, value in (("lower", domain.lower), ("upper", domain.upper)):
        if shape_of(value) != (dimension,):
            raise ValueError(
                f"the box's {name} must have shape ({dimension},); its shape is {shape_of(value)}."
            )
    if not is_traced(domain):
        low, high = numbers_of(domain.lower), numbers_of(domain.upper)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(
                f"a box needs finite lower < upper in every input; {low} and {high} were given."
            )


def arm_numbers(domain: Arms, **values: Any) -> None:
    """Raises ValueError unless every named value is a vector of arm numbers in [0, A)."""
    for name, value in values.items():
        if is_traced(value):
            continue
        numbers = np.asarray(value)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise ValueError(
                f"{name} must be a vector of arm numbers; its shape is {numbers.shape}, its dtype"
                f" {numbers.dtype}."
            )
        outside = numbers[(numbers < 0) | (numbers >= domain.count)]
        if outside.size:
            raise ValueError(
                f"{name} names arm {outside[0]}; the arms are 0 to {domain.count - 1}."
            )
