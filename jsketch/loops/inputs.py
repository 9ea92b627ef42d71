"""Mistakes in what the loops are called with, said in plain words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from jsketch import checks, devices
from jsketch.types import PRNGKey


def check_horizon(horizon: Any) -> None:
    """Raises ValueError unless the horizon is an integer of at least 1."""
    if not checks.is_integer(horizon, 1):
        raise ValueError(
            f"horizon counts evaluations and must be an integer of at least 1; {horizon!r} was"
            " given."
        )
    if horizon > checks.MOST:
        raise ValueError(
            f"horizon can be at most {checks.MOST:,} evaluations; {horizon!r} was given."
        )


def check_keys(keys: Any, rank: int, wanted: str) -> PRNGKey:
    """`keys` as typed keys of that rank (old-style uint32 pairs are taken too). Raises ValueError
    for anything else."""
    if isinstance(keys, jax.Array) and keys.dtype == jnp.uint32 and keys.ndim == rank + 1:
        keys = jax.random.wrap_key_data(keys)
    if (
        not (isinstance(keys, jax.Array) and jnp.issubdtype(keys.dtype, jax.dtypes.prng_key))
        or keys.ndim != rank
    ):
        raise ValueError(f"{wanted}; {keys!r} was given.")
    return keys


def check_objective(objective: Callable[..., Any], *arguments: Any) -> None:
    """Raises ValueError unless objective(x [d], key), given as `arguments`, is one real number; and
    likewise its method `value` of x, if it has one. Traces both, compiles nothing."""
    _check_number("the objective must be a function of a point and a key", objective, *arguments)
    value = getattr(objective, "value", None)
    if value is not None:
        _check_number("the objective's value must be a function of a point", value, arguments[0])


def _check_number(wanted: str, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # not everything that can be called says with what
        signature = None
    try:
        if signature is not None:
            signature.bind(*arguments)
    except TypeError as error:
        raise ValueError(f"{wanted}; its arguments are {signature}.") from error

    def checked(*arguments: Any) -> None:
        y = function(*arguments)
        dtype = y.dtype if hasattr(y, "dtype") else np.asarray(y).dtype if np.isscalar(y) else None
        real = dtype is not None and any(
            jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, bool)
        )
        if not real or np.shape(y) != ():
            what = (
                f"an array of shape {y.shape} and dtype {dtype}" if hasattr(y, "dtype") else repr(y)
            )
            raise ValueError(f"{wanted} that returns one number, shape (); {what} was returned.")

    jax.eval_shape(checked, *arguments)


def check_stream(xs: Any, ys: Any, dtype: DTypeLike | None = None) -> tuple[Array, Array]:
    """Examples [n,d] and labels [n] as arrays of the floating `dtype`; without one, of that of the
    examples.

    Raises ValueError for an empty stream, shapes that do not fit, what is not a real number and
    inputs that are not finite in that dtype; labels may be NaN.
    """
    xs, ys = checks.real("examples", xs), checks.real("labels", ys)
    if xs.ndim != 2 or ys.shape != xs.shape[:1]:
        raise ValueError(
            "a stream is a matrix [n, d] of examples and a vector [n] of labels; the shapes are"
            f" {xs.shape} and {ys.shape}."
        )
    if xs.shape[0] == 0 or xs.shape[1] == 0:
        raise ValueError(
            f"the stream is empty: its examples have shape {xs.shape}, need at least one row and"
            " column."
        )
    if dtype is None:
        dtype = jax.dtypes.canonicalize_dtype(
            xs.dtype if jnp.issubdtype(xs.dtype, jnp.floating) else float
        )
    with np.errstate(over="ignore"):  # said below
        xs, ys = (
            jnp.asarray(xs.astype(dtype, copy=False)),
            jnp.asarray(ys.astype(dtype, copy=False)),
        )
    # on an accelerator, where they are now: they would have to come back for NumPy
    finite = (
        np.asarray(jnp.isfinite(xs).all(1))
        if devices.on_accelerator()
        else np.isfinite(np.asarray(xs)).all(1)
    )
    if not finite.all():
        raise ValueError(
            f"inputs must be finite; example {np.flatnonzero(~finite)[0]} is not ({(~finite).sum()}"
            " such examples in all)."
        )
    return xs, ys
