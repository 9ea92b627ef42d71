"""Random points of a box that ascent starts from: uniform ones, and moves of the best observed
point."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jsketch.types import PRNGKey


def nearby(key: PRNGKey, u: Array, count: int) -> Array:
    """Points around u [d] in the unit cube, [count,d]; each moves a random share of its inputs by
    0.2 to 0.002 of a side."""
    share_key, which_key, size_key, move_key = jax.random.split(key, 4)
    shape = (count, u.shape[0])
    share = jax.random.uniform(share_key, (count, 1), u.dtype)
    moved = jax.random.uniform(which_key, shape, u.dtype) < share
    size = 0.2 * 10 ** (-2 * jax.random.uniform(size_key, (count, 1), u.dtype))
    return jnp.clip(
        u[None, :] + jnp.where(moved, size * jax.random.normal(move_key, shape, u.dtype), 0), 0, 1
    )


def uniform_and_moved(key: PRNGKey, best: Array, lower: Array, upper: Array, count: int) -> Array:
    """The point `best` [d], then `count` points of the box from `lower` to `upper` [d]: half of
    them uniform, half `best` moved in every input by normal steps of a tenth of its side; [1 +
    count, d]."""
    uniform_key, move_key = jax.random.split(key)
    half = count // 2
    lower, upper = lower[None, :], upper[None, :]
    uniform = jax.random.uniform(uniform_key, (count - half, *best.shape), best.dtype)
    moves = 0.1 * (upper - lower) * jax.random.normal(move_key, (half, *best.shape), best.dtype)
    around = jnp.clip(best[None, :] + moves, lower, upper)
    return jnp.concatenate([best[None], lower + uniform * (upper - lower), around])
