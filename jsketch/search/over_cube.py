"""The maximum of a score over the unit cube, such as an acquisition function of a Gaussian
process."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jsketch.search.candidates import nearby
from jsketch.types import PRNGKey

Score = Callable[[Array], Array]  # points u [q,d] of the unit cube -> [q]


def ascend(score: Score, starts: Array, steps: int, rate: float = 0.05) -> tuple[Array, Array]:
    """(points [R,d], scores [R]): the best that each of `starts` [R,d] met in projected gradient
    ascent in the unit cube.

    Adam with a step that falls to zero along a cosine. Never below the starts.
    """
    solver = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def total(u: Array) -> tuple[Array, Array]:
        values = score(u)
        return -values.sum(), values

    slope = jax.grad(total, has_aux=True)

    def keep(best: tuple[Array, Array], u: Array, values: Array) -> tuple[Array, Array]:
        better = values > best[1]
        return jnp.where(better[:, None], u, best[0]), jnp.where(better, values, best[1])

    def step(
        carry: tuple[Array, optax.OptState, tuple[Array, Array]], _: None
    ) -> tuple[tuple, None]:
        u, state, best = carry
        gradient, values = slope(u)
        best = keep(best, u, values)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0)
        # the schedule counts in int32
        with jax.numpy_dtype_promotion("standard"):
            updates, state = solver.update(gradient, state)
        return (jnp.clip(u + updates.astype(u.dtype), 0, 1), state, best), None

    best = (starts, jnp.full(starts.shape[:1], -jnp.inf, starts.dtype))
    (u, _, best), _ = lax.scan(step, (starts, solver.init(starts), best), None, steps)
    return keep(best, u, score(u))


def maximise_over_cube(
    score: Score,
    best: Array,
    key: PRNGKey,
    candidates: int,
    starts: int,
    steps: int,
    around_best: bool = True,
) -> tuple[Array, Array]:
    """(point [d], score []) of the largest score met over the unit cube.

    Scores `candidates` random points, half of them uniform and half around the best observed point
    `best` [d], or, with around_best=False, uniform too; ascends from the best `starts` of each
    half. A score that is not a number is never the largest.
    """
    uniform_key, other_key = jax.random.split(key)
    half = candidates // 2

    def uniform(key: PRNGKey) -> Array:
        return jax.random.uniform(key, (half, *best.shape), best.dtype)

    other = nearby(other_key, best, half) if around_best else uniform(other_key)
    halves = jnp.stack([uniform(uniform_key), other])

    def number(u: Array) -> Array:
        values = score(u)
        return jnp.where(jnp.isnan(values), -jnp.inf, values)

    def top(u: Array) -> Array:
        return u[lax.top_k(number(u), starts)[1]]

    points, values = ascend(number, jnp.concatenate([top(halves[0]), top(halves[1])]), steps)
    winner = jnp.argmax(values)
    return points[winner], values[winner]
