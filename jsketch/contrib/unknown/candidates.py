"""Candidate lengthscales and their norm bounds (Ziomek, Adachi, Osborne, NeurIPS 2024, Section 2
and Definition 3.1)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks
from jsketch.types import is_traced


def lengthscales(longest: float, inputs: int, count: int) -> np.ndarray:
    """theta_0 exp(-i/d) for i = 0 to count - 1, [count], with d = `inputs` (Definition 3.1)."""
    checks.positive(longest=longest)
    checks.capacity(inputs=inputs, count=count)
    return longest * np.exp(-np.arange(count) / inputs)


def norm_bounds(norm_bound: ArrayLike, lengthscales: Array, inputs: int) -> Array:
    """N (theta_0 / theta_g)^(d/2), [G]: if |f| <= that under one lengthscale, so it is under every
    shorter one (Lemma 2.1; THEORY 6.8 has the proof and its kernels)."""
    return jnp.asarray(norm_bound * (lengthscales[0] / lengthscales) ** (inputs / 2))


def introduced(lengthscales: Array, count: Array, start: ArrayLike) -> Array:
    """Which take part after `count` [] observations, [G] bool: theta_g >= theta_0 / g(t), with g(t)
    = max(start, sqrt(t)) as in the paper's experiments. Erratum: line 14 of the listing has <=."""
    growth = jnp.maximum(jnp.asarray(start, lengthscales.dtype), jnp.sqrt(count))
    rounding = 16 * jnp.finfo(lengthscales.dtype).eps
    return lengthscales * growth >= lengthscales[0] * (1 - rounding)


def check(lengthscales: Any, norm_bounds: Any) -> int:
    """G. Raises ValueError unless the lengthscales are positive, the longest first, with as many
    norm bounds."""
    count = _length("lengthscales", lengthscales)
    if not count:
        raise ValueError("lengthscales must be a list of at least one; it is empty.")
    if not is_traced(lengthscales):
        numbers = np.asarray(lengthscales, float)
        checks.all_positive(lengthscales=numbers)
        if (np.diff(numbers) > 0).any():
            raise ValueError(
                f"lengthscales must have the longest one first; {lengthscales} was given."
            )
    if norm_bounds is not None:
        bounds = _length("norm_bounds", norm_bounds)
        if not is_traced(norm_bounds):
            checks.all_nonnegative(norm_bounds=np.asarray(norm_bounds, float))
        if bounds != count:
            raise ValueError(
                f"norm_bounds must hold one number for each of the {count} lengthscales;"
                f" it holds {bounds}."
            )
    return count


def check_rounded(lengthscales: Array, norm_bounds: Array) -> None:
    """Raises ValueError for candidates [G] that are no longer positive and finite in the dtype of
    the arms."""
    if is_traced(lengthscales, norm_bounds):
        return
    bad = np.asarray((lengthscales <= 0) | ~jnp.isfinite(lengthscales) | ~jnp.isfinite(norm_bounds))
    if bad.any():
        g = int(np.argmax(bad))
        raise ValueError(
            f"candidate {g} has lengthscale {lengthscales[g]} and norm bound {norm_bounds[g]} in"
            f" {lengthscales.dtype}: without `norm_bounds` it is norm_bound (longest /"
            " lengthscale)^(d/2) in d features. Give `norm_bounds`, or closer lengthscales."
        )


def _length(name: str, values: Any) -> int:
    """How many there are. Raises ValueError for what is no list of numbers."""
    words = f"{name} must be a list of numbers, one for each candidate"
    try:
        array = jnp.asarray(values) if is_traced(values) else np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{words}; {values!r} was given.") from error
    if array.ndim != 1:
        raise ValueError(f"{words}; its shape is {array.shape}.")
    return int(array.shape[0])
