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
    checks.all_positive(lengthscales=_stacked(lengthscales))
    shape = np.shape(lengthscales) if not is_traced(lengthscales) else None
    if shape is not None and (len(shape) != 1 or not shape[0]):
        raise ValueError(f"lengthscales must be a list of at least one; its shape is {shape}.")
    count = len(lengthscales)
    if not is_traced(lengthscales) and (np.diff(np.asarray(lengthscales)) > 0).any():
        raise ValueError(f"lengthscales must have the longest one first; {lengthscales} was given.")
    if norm_bounds is not None:
        checks.all_nonnegative(norm_bounds=_stacked(norm_bounds))
        if len(norm_bounds) != count:
            raise ValueError(
                f"norm_bounds must hold one number for each of the {count} lengthscales;"
                f" it holds {len(norm_bounds)}."
            )
    return count


def _stacked(values: Any) -> Any:
    return values if is_traced(values) else np.asarray(values, float)
