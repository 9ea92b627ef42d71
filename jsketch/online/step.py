"""How the loops drive a forecaster, one example through any forecaster, and its info."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.types import ForecastInfo, PRNGKey

TAKES = ("examples", "blocks", "growing blocks")


def takes(forecaster: Any) -> str:
    """How a forecaster is driven: its attribute `takes` (`jsketch.types.Forecaster`), or "examples"
    without one. Raises ValueError for a value that is not in TAKES."""
    declared = getattr(forecaster, "takes", "examples")
    checks.choice(TAKES, takes=declared)
    return declared


def step(
    forecaster: Any, state: Any, x: Array, y: Array, key: PRNGKey
) -> tuple[Any, Array, ForecastInfo]:
    """(state after y [] at x [d], the prediction y^ [] made before, info), in one call where the
    forecaster shares the work of both."""
    if hasattr(forecaster, "step"):
        return forecaster.step(state, x, y, key)
    if takes(forecaster) == "growing blocks":
        state, predictions, _, info = forecaster.advance(state, x[None], jnp.asarray(y)[None], 1)
        return state, predictions[0], info
    prediction = forecaster.predict(state, x)
    state, info = forecaster.update(state, x, y, key)
    return state, prediction, info


def preview(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> tuple[Array, Array]:
    """(the prediction y^ [] that `step` makes at x [d], whether the state has to grow first [])."""
    _, prediction, info = step(forecaster, state, x, jnp.full((), jnp.nan, x.dtype), key)
    return prediction, info.overflow


def preview_all(forecaster: Any, state: Any, xs: Array, key: PRNGKey) -> tuple[Array, Array]:
    """`preview` at every row of xs [n,d] from the same state: (predictions [n], whether the state
    has to grow for any row [])."""

    def one(x: Array) -> tuple[Array, Array]:
        return preview(forecaster, state, x, key)

    # where points join a dictionary, vmap would hold a state for every row
    sequential = takes(forecaster) == "growing blocks"
    predictions, overflow = lax.map(one, xs) if sequential else jax.vmap(one)(xs)
    return predictions, overflow.any()


def info_after(
    size: ArrayLike, y: Array, weights: Array, overflow: ArrayLike = False
) -> ForecastInfo:
    """The info of examples with labels y, after which the forecaster has `size` features or points
    and these weights."""
    nonfinite = jnp.isinf(y).any() | ~jnp.isfinite(weights).all()
    return ForecastInfo(jnp.asarray(size, jnp.int32), jnp.asarray(overflow, bool), nonfinite)
