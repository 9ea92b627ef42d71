"""The experts of a mixture: a grid of numbers of one forecaster, and their weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp
from jax.typing import DTypeLike


def floating(grid: dict[str, Any], dtype: DTypeLike) -> dict[str, Any]:
    """The grid in the floating type of the examples."""

    def cast(leaf: Any) -> Array:
        return jnp.asarray(
            leaf, dtype if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else None
        )

    return jax.tree.map(cast, grid)


def count(forecaster: Any, grid: dict[str, Any]) -> int:
    """The number G of experts. Raises ValueError for a grid that does not fit the forecaster."""
    numbers = [
        f.name for f in dataclasses.fields(forecaster) if f.metadata.get("pytree_node", True)
    ]
    for name in grid:
        if name not in numbers:
            raise ValueError(
                f"the grid names {name!r}; the numbers of a {type(forecaster).__name__} are"
                f" {numbers}."
            )
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(grid)]
    lengths = {shape[:1] for shape in shapes}
    if len(lengths) != 1 or lengths & {(), (0,)}:
        raise ValueError(
            "every number in the grid needs a leading axis with one entry for each of the G >= 1"
            f" experts; their shapes are {shapes}."
        )
    return shapes[0][0]


def normalized(log_weights: Array) -> Array:
    """Log weights [G] that sum to one; as they are where none is left."""
    # at every step: cumulative losses would outgrow the precision of their differences
    total = logsumexp(log_weights)
    return log_weights - jnp.where(jnp.isneginf(total), 0, total)


def vector(name: str, values: Any, example: str) -> np.ndarray:
    """The numbers [G] that one field takes. Raises ValueError for what is no vector of them."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.size == 0:
        raise ValueError(
            f"{name} must be a vector of at least one number, such as {example}; its shape is"
            f" {numbers.shape}."
        )
    return numbers


def over(forecaster: Any, name: str, values: np.ndarray) -> dict[str, Array]:
    """The grid of one field. Raises ValueError where the forecaster has no such number."""
    grid = {name: jnp.asarray(values, float)}
    count(forecaster, grid)
    return grid
