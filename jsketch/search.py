"""Maximisation over a box: random candidates, then projected gradient ascent from the best of them.

All ascents call `ascend`, also GO-UCB's ascent over pairs of a point and parameters.
`maximise_over_box` returns the best of the first and last points of its ascents, and
`maximise_over_cube` the best point of all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jsketch.types import Box, PRNGKey

CANDIDATES, STARTS, STEPS = 1024, 16, 80  # defaults of `maximise_over_box`
RATE = 0.05  # the first step size of Adam, in sides of the box; it falls to zero as a cosine

Score = Callable[[Array], Array]  # points [n,d] -> scores [n], row by row
# (score, points) -> (scores [K], their gradients with respect to the points)
Differentiate = Callable[[Callable[[Any], Array], Any], tuple[Array, Any]]


class Ascent(NamedTuple):
    """The result of gradient ascent from K starts."""

    best: Any  # [K, ...], the best point of all steps from each start; the start if there is none
    values: Array  # [K], the scores of `best`; -inf where no score on the path is finite
    last: Any  # [K, ...], the last points


def reverse_mode(score: Callable[[Any], Array], points: Any) -> tuple[Array, Any]:
    """(scores [K], their gradients) by reverse-mode differentiation."""

    def total(points: Any) -> tuple[Array, Array]:
        values = score(points)
        return values.sum(), values

    gradients, values = jax.grad(total, has_aux=True)(points)
    return values, gradients


def forward_mode(score: Score, points: Array) -> tuple[Array, Array]:
    """(scores [n], gradients [n,d]) by forward-mode differentiation, which suits few inputs d and
    scores with loops of dynamic length."""

    def derivative(direction: Array) -> Array:
        return jax.jvp(score, (points,), (jnp.broadcast_to(direction, points.shape),))[1]

    gradients = jax.vmap(derivative, out_axes=1)(jnp.eye(points.shape[1], dtype=points.dtype))
    return score(points), gradients


def ascend(
    score: Callable[[Any], Array],
    starts: Any,
    rule: optax.GradientTransformation,
    project: Callable[[Any], Any],
    steps: int,
    differentiate: Differentiate = reverse_mode,
) -> Ascent:
    """Projected gradient ascent from K starts at once.

    score          maps K points, a pytree of arrays [K, ...], to their scores [K]; a score that is
                   not finite is never the best
    starts         K points
    rule           the optax rule of the steps; derivatives that are not finite count as zero
    project        maps K points to the nearest points of the domain, after each step
    steps          int, number of steps
    differentiate  `reverse_mode` or another function (score, points) -> (scores, gradients)
    """

    def update_best(best: tuple[Any, Array], points: Any, values: Array) -> tuple[Any, Array]:
        better = jnp.isfinite(values) & (values > best[1])

        def choose(new: Array, old: Array) -> Array:
            return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(choose, (points, values), best)

    def step(carry: tuple[Any, Any, tuple[Any, Array]], _: None) -> tuple[Any, None]:
        points, state, best = carry
        values, gradients = differentiate(score, points)
        best = update_best(best, points, values)
        downhill = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), -g, 0), gradients)
        # optax counts steps in int32
        with jax.numpy_dtype_promotion("standard"):
            updates, state = rule.update(downhill, state)
        points = project(jax.tree.map(lambda a, b: a + b.astype(a.dtype), points, updates))
        return (points, state, best), None

    leaf = jax.tree.leaves(starts)[0]
    best = (starts, jnp.full(leaf.shape[:1], -jnp.inf, leaf.dtype))
    (last, _, best), _ = lax.scan(step, (starts, rule.init(starts), best), None, steps)
    return Ascent(*update_best(best, last, score(last)), last)


def ascend_cube(
    score: Score, starts: Array, steps: int, differentiate: Differentiate = reverse_mode
) -> Ascent:
    """`ascend` in the unit cube from starts [K,d] with Adam."""
    rule = optax.adam(optax.cosine_decay_schedule(RATE, steps))
    return ascend(score, starts, rule, lambda u: jnp.clip(u, 0, 1), steps, differentiate)


def maximise_over_box(
    score: Score,
    key: PRNGKey,
    box: Box,
    *,
    candidates: int = CANDIDATES,
    starts: int = STARTS,
    steps: int = STEPS,
    differentiate: Differentiate = reverse_mode,
) -> tuple[Array, Array]:
    """(point [d], its score []) of the largest score found in the box.

    score          a differentiable function of points [n,d] that returns scores [n]
    candidates     int, number of uniform random points
    starts         int, number of ascents, which start from the best candidates
    steps          int, number of steps of each ascent
    differentiate  `reverse_mode` or `forward_mode`
    """
    lower, sides = box.lower[None, :], (box.upper - box.lower)[None, :]
    unit_points = jax.random.uniform(key, (candidates, box.lower.shape[0]), box.lower.dtype)

    def value(unit: Array) -> Array:
        return score(lower + sides * unit)

    best = unit_points[lax.top_k(value(unit_points), starts)[1]]
    points = jnp.concatenate([ascend_cube(value, best, steps, differentiate).last, best])
    values = value(points)
    winner = jnp.argmax(values)
    return box.lower + sides[0] * points[winner], values[winner]


def maximise_over_cube(
    score: Score,
    best: Array,
    key: PRNGKey,
    candidates: int,
    starts: int,
    steps: int,
    around_best: bool = True,
) -> tuple[Array, Array]:
    """(point [d], its score []) of the largest score found in the unit cube, ignoring NaN.

    score        as in `maximise_over_box`
    best         [d], the best observed point
    candidates   int, number of random points, half of them uniform and half around `best`
    starts       int, number of ascents from the best candidates of each half
    steps        int, number of steps of each ascent
    around_best  False: all candidates are uniform
    """
    first_key, second_key = jax.random.split(key)
    half = candidates // 2

    def uniform(key: PRNGKey) -> Array:
        return jax.random.uniform(key, (half, *best.shape), best.dtype)

    second = points_around(second_key, best, half) if around_best else uniform(second_key)
    halves = jnp.stack([uniform(first_key), second])

    def value(u: Array) -> Array:
        values = score(u)
        return jnp.where(jnp.isnan(values), -jnp.inf, values)

    def top_k(u: Array) -> Array:
        return u[lax.top_k(value(u), starts)[1]]

    ascent = ascend_cube(value, jnp.concatenate([top_k(halves[0]), top_k(halves[1])]), steps)
    winner = jnp.argmax(ascent.values)
    return ascent.best[winner], ascent.values[winner]


def points_around(key: PRNGKey, u: Array, count: int) -> Array:
    """Random points [count,d] around u [d] in the unit cube. Each point differs from u in a random
    share of the inputs, by normal steps with a random deviation from 0.002 to 0.2."""
    share_key, input_key, deviation_key, step_key = jax.random.split(key, 4)
    shape = (count, u.shape[0])
    share = jax.random.uniform(share_key, (count, 1), u.dtype)
    changes = jax.random.uniform(input_key, shape, u.dtype) < share
    deviation = 0.2 * 10 ** (-2 * jax.random.uniform(deviation_key, (count, 1), u.dtype))
    steps = jnp.where(changes, deviation * jax.random.normal(step_key, shape, u.dtype), 0)
    return jnp.clip(u[None, :] + steps, 0, 1)
