"""How the loops pass examples to a forecaster, previews of its predictions, and its info."""

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
    """The attribute `takes` of a forecaster (`jsketch.types.Forecaster`). Raises ValueError for a
    value that is not in TAKES."""
    checks.choice(TAKES, takes=forecaster.takes)
    return str(forecaster.takes)


def preview(forecaster: Any, state: Any, x: Array, key: PRNGKey) -> tuple[Array, Array]:
    """(the prediction y^ [] that `step` makes at x [d], whether the state has to grow first [])."""
    _, prediction, info = forecaster.step(state, x, jnp.full((), jnp.nan, x.dtype), key)
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
