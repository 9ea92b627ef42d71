"""Checks of candidates that change from round to round, on the host."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jsketch.types import is_traced


def check_candidates(x: Any, dimension: int) -> None:
    """Raises ValueError unless the candidates are a finite, non-empty matrix [A, dimension]."""
    if jnp.ndim(x) != 2 or np.shape(x)[0] == 0 or np.shape(x)[1] != dimension:
        cause = f"the shape is {np.shape(x)}"
        raise ValueError(f"candidates must be a matrix [A, {dimension}], A >= 1; {cause}.")
    if not is_traced(x) and not np.isfinite(np.asarray(x)).all():
        raise ValueError("candidates must be finite.")


def floating_dtype(dtype: Any) -> Any:
    """The dtype as a JAX dtype; None is JAX's default. Raises ValueError unless it is floating."""
    try:
        found = jnp.dtype(jnp.zeros(()).dtype if dtype is None else dtype)
    except TypeError:
        found = jnp.dtype(bool)
    if not jnp.issubdtype(found, jnp.floating):
        raise ValueError(f"dtype must be a floating dtype; {dtype!r} was given.")
    return found
