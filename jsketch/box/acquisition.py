"""Acquisition functions of a Gaussian posterior, and their maximisation over the unit cube.

Expected improvement in logarithms, so that neither it nor its gradient vanishes far from the data: Ament, Daulton,
Eriksson, Balandat, Bakshy. Unexpected improvements to expected improvement for Bayesian optimization. NeurIPS 2023. The far
tail is written here with Laplace's continued fraction of Mills' ratio, which has no cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from jsketch.types import PRNGKey

LOG_ROOT_2PI = math.log(2 * math.pi) / 2
TAIL = -5.0  # below it, the continued fraction; above it, cancellation costs less than two digits
TERMS = 20  # of the continued fraction: relative error 1e-13 at TAIL, less beyond


def _tail(z: Array) -> tuple[Array, Array, Array]:
    """(z below, t, c) with Mills' ratio (1 - Phi(t)) / phi(t) = 1 / (t + c) at t = -z >= -TAIL."""
    below = z < TAIL
    t = jnp.where(below, -z, -TAIL)
    c = t
    for k in range(TERMS, 1, -1):
        c = t + k / c
    return below, t, 1 / c


def log_normal_cdf(z: Array) -> Array:
    """log Phi(z), exact to rounding in both tails, and so is its gradient."""
    below, t, c = _tail(z)
    far = -t * t / 2 - LOG_ROOT_2PI - jnp.log(t + c)
    return jnp.where(below, far, jnp.log(ndtr(jnp.where(below, 0, z))))


def _log_expected_excess(z: Array) -> Array:
    """log E (Z + z)_+ = log(phi(z) + z Phi(z)) of a standard normal Z."""
    below, t, c = _tail(z)
    # phi(t) - t (1 - Phi(t)) = phi(t) c / (t + c)
    far = -t * t / 2 - LOG_ROOT_2PI + jnp.log(c) - jnp.log(t + c)
    near = jnp.where(below, 0, z)
    density = jnp.exp(-near * near / 2 - LOG_ROOT_2PI)
    return jnp.where(below, far, jnp.log(density + near * ndtr(near)))


def log_expected_improvement(mean: Array, variance: Array, threshold: ArrayLike) -> Array:
    """log E max(f - threshold, 0) for f ~ N(mean, variance)."""
    deviation = jnp.sqrt(variance)
    return jnp.log(deviation) + _log_expected_excess((mean - threshold) / deviation)


def expected_improvement(mean: Array, variance: Array, threshold: ArrayLike) -> Array:
    """E max(f - threshold, 0): zero, with its gradient, where its logarithm is below what a float can hold."""
    return jnp.exp(log_expected_improvement(mean, variance, threshold))


def log_probability_of_improvement(mean: Array, variance: Array, threshold: ArrayLike) -> Array:
    """log P(f > threshold)."""
    return log_normal_cdf((mean - threshold) / jnp.sqrt(variance))


def upper_confidence_bound(mean: Array, variance: Array, width: ArrayLike) -> Array:
    """mean + width * standard deviation."""
    return mean + width * jnp.sqrt(variance)


Score = Callable[[Array], Array]  # points u [q,d] of the unit cube -> [q]


def ascend(score: Score, starts: Array, steps: int, rate: float = 0.05) -> tuple[Array, Array]:
    """(points [R,d], scores [R]): the best that each of `starts` [R,d] met in projected gradient ascent in the unit cube.

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

    def step(carry: tuple[Array, optax.OptState, tuple[Array, Array]], _: None) -> tuple[tuple, None]:
        u, state, best = carry
        gradient, values = slope(u)
        best = keep(best, u, values)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0)
        with jax.numpy_dtype_promotion("standard"):  # the schedule counts in int32
            updates, state = solver.update(gradient, state)
        return (jnp.clip(u + updates.astype(u.dtype), 0, 1), state, best), None

    best = (starts, jnp.full(starts.shape[:1], -jnp.inf, starts.dtype))
    (u, _, best), _ = lax.scan(step, (starts, solver.init(starts), best), None, steps)
    return keep(best, u, score(u))


def nearby(key: PRNGKey, u: Array, count: int) -> Array:
    """Points around u [d] in the unit cube, [count,d]; each moves a random share of its inputs by 0.2 to 0.002 of a side."""
    share_key, which_key, size_key, move_key = jax.random.split(key, 4)
    shape = (count, u.shape[0])
    share = jax.random.uniform(share_key, (count, 1), u.dtype)
    moved = jax.random.uniform(which_key, shape, u.dtype) < share
    size = 0.2 * 10 ** (-2 * jax.random.uniform(size_key, (count, 1), u.dtype))
    return jnp.clip(u + jnp.where(moved, size * jax.random.normal(move_key, shape, u.dtype), 0), 0, 1)


def maximise(
    score: Score, best: Array, key: PRNGKey, candidates: int, starts: int, steps: int
) -> tuple[Array, Array]:
    """(point [d], score []) of the largest score met over the unit cube.

    Scores `candidates` random points, half of them uniform and half around the best observed point `best` [d], and ascends
    from the best `starts` of each half. A score that is not a number is never the largest.
    """
    uniform_key, near_key = jax.random.split(key)
    half = candidates // 2
    halves = jnp.stack(
        [jax.random.uniform(uniform_key, (half, *best.shape), best.dtype), nearby(near_key, best, half)]
    )

    def number(u: Array) -> Array:
        values = score(u)
        return jnp.where(jnp.isnan(values), -jnp.inf, values)

    def top(u: Array) -> Array:
        return u[lax.top_k(number(u), starts)[1]]

    points, values = ascend(number, jnp.concatenate([top(halves[0]), top(halves[1])]), steps)
    winner = jnp.argmax(values)
    return points[winner], values[winner]
