"""The maximum of a function over a box, such as an acquisition function: projected gradient ascent
from many starts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jsketch.types import Box, PRNGKey

TRIED, STARTS, STEPS = 1024, 16, 80  # random points, those of them that are refined, gradient steps
RATE = 0.05  # first step, in units of the box's sides; it decays to zero

Score = Callable[[Array], Array]  # points [n,d] to scores [n], a row at a time


def reverse_slope(score: Score) -> Score:
    """Points [n,d] to the gradients [n,d] of their scores, in reverse mode."""
    return jax.grad(lambda x: score(x).sum())


def forward_slope(score: Score) -> Score:
    """The same in forward mode: for few inputs d, and for scores with loops of dynamic length. Zero
    where there is none."""

    def slope(x: Array) -> Array:
        def along(direction: Array) -> Array:
            return jax.jvp(score, (x,), (jnp.broadcast_to(direction, x.shape),))[1]

        slopes = jax.vmap(along, out_axes=1)(jnp.eye(x.shape[1], dtype=x.dtype))
        return jnp.where(jnp.isfinite(slopes), slopes, 0)

    return slope


def maximise_over_box(
    score: Score,
    key: PRNGKey,
    box: Box,
    starts: Array | None = None,
    *,
    tried: int = TRIED,
    refined: int = STARTS,
    steps: int = STEPS,
    slope: Callable[[Score], Score] = reverse_slope,
) -> tuple[Array, Array]:
    """(point [d], its score []) of the largest score found in the box; never outside it.

    score maps points [n,d] to scores [n] and is differentiable. The best `refined` of `tried`
    random points (and of `starts` [S,d], such as points that did well) are refined by Adam in the
    unit cube, projected after every step.
    """
    lower, sides = box.lower[None, :], (box.upper - box.lower)[None, :]
    cube = jax.random.uniform(key, (tried, box.lower.shape[0]), box.lower.dtype)
    if starts is not None:
        cube = jnp.concatenate([jnp.clip((starts - lower) / sides, 0, 1), cube])

    def value(unit: Array) -> Array:
        return score(lower + sides * unit)

    _, best = lax.top_k(value(cube), refined)
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, steps))
    upwards = slope(value)

    def step(
        carry: tuple[Array, optax.OptState], _: None
    ) -> tuple[tuple[Array, optax.OptState], None]:
        unit, state = carry
        # optax mixes dtypes
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(-upwards(unit), state)
        moved = optax.projections.projection_hypercube(optax.apply_updates(unit, updates))
        return (jnp.asarray(moved), state), None

    (climbed, _), _ = lax.scan(step, (cube[best], optimiser.init(cube[best])), None, length=steps)
    # gradient steps may also lose: the starts stay in the race
    every = jnp.concatenate([climbed, cube[best]])
    values = value(every)
    winner = jnp.argmax(values)
    return box.lower + sides[0] * every[winner], values[winner]
