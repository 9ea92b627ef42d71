"""One example through a forecaster, whichever methods it has: what hosts of live streams call."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from jsketch.types import ForecastInfo, PRNGKey


def step(forecaster: Any, state: Any, x: Array, y: Array, key: PRNGKey) -> tuple[Any, Array, ForecastInfo]:
    """(state after y [] at x [d], the prediction y^ [] made before, info), in one call where the forecaster shares work."""
    if callable(getattr(forecaster, "step", None)):  # a number of that name is the step of a gradient method
        return forecaster.step(state, x, y, key)
    prediction = forecaster.predict(state, x)
    state, info = forecaster.update(state, x, y, key)
    return state, prediction, info


def look(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> tuple[Array, Array]:
    """(the prediction y^ [] that `step` would make at x [d], whether the state has to grow first [])."""
    _, prediction, info = step(forecaster, state, x, jnp.full((), jnp.nan, x.dtype), key)
    return prediction, info.overflow
