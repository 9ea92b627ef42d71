"""The maximum of an acquisition function over a box, by projected gradient ascent from many starts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jsketch.types import Box, PRNGKey

TRIED, STARTS, STEPS = 1024, 16, 80  # random points, those of them that are refined, gradient steps
RATE = 0.05  # first step, in units of the box's sides; it decays to zero


def maximise(
    score: Callable[[Array], Array],
    key: PRNGKey,
    box: Box,
    starts: Array | None = None,
) -> tuple[Array, Array]:
    """(point [d], its score []) of the largest score found in the box; never outside it.

    score maps points [n,d] to scores [n] and is differentiable. The best of TRIED random points (and of `starts` [S,d],
    such as points that did well) are refined by Adam in the unit cube, projected after every step.
    """
    sides = box.upper - box.lower
    cube = jax.random.uniform(key, (TRIED, box.lower.shape[0]), box.lower.dtype)
    if starts is not None:
        cube = jnp.concatenate([jnp.clip((starts - box.lower) / sides, 0, 1), cube])

    def value(unit: Array) -> Array:
        return score(box.lower + sides * unit)

    _, best = lax.top_k(value(cube), STARTS)
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    def step(carry: tuple[Array, optax.OptState], _: None) -> tuple[tuple[Array, optax.OptState], None]:
        unit, state = carry
        slope = jax.grad(lambda u: -value(u).sum())(unit)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            updates, state = optimiser.update(slope, state)
        moved = optax.projections.projection_hypercube(optax.apply_updates(unit, updates))
        return (jnp.asarray(moved), state), None

    (refined, _), _ = lax.scan(step, (cube[best], optimiser.init(cube[best])), None, length=STEPS)
    # gradient steps may also lose: the starts stay in the race
    every = jnp.concatenate([refined, cube[best]])
    values = value(every)
    winner = jnp.argmax(values)
    return box.lower + sides * every[winner], values[winner]
