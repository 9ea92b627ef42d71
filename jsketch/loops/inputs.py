"""Mistakes in what the loops are called with, said in plain words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsketch.types import PRNGKey


def check_horizon(horizon: Any) -> None:
    """Raises ValueError unless the horizon is an integer of at least 1."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ValueError(
            f"horizon counts evaluations and must be an integer of at least 1; {horizon!r} was given."
        )


def check_keys(keys: Any, rank: int, wanted: str) -> PRNGKey:
    """`keys` as typed keys of that rank (old-style uint32 pairs are taken too). Raises ValueError for anything else."""
    if isinstance(keys, jax.Array) and keys.dtype == jnp.uint32 and keys.ndim == rank + 1:
        keys = jax.random.wrap_key_data(keys)
    if (
        not (isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key))
        or keys.ndim != rank
    ):
        raise ValueError(f"{wanted}; {keys!r} was given.")
    return keys
