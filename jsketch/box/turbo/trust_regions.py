"""Trust regions of TuRBO: where they lie, what they sample, when they grow, shrink and start anew.

Eriksson, Pearce, Gardner, Turner, Poloczek. Scalable global optimization via local Bayesian
optimization. NeurIPS 2019, section 2; the numbers are those of THEORY 8.5.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import struct
from jsketch.box.gp.fit import Bounds
from jsketch.box.gp.regression import Data
from jsketch.box.turbo import local_gp
from jsketch.box.turbo.local_gp import Model
from jsketch.box.turbo.sobol import sobol
from jsketch.types import PRNGKey

FIRST_LENGTH, MOST_LENGTH = 0.8, 1.6  # base sides, in sides of the box
GROW_AFTER = 3  # rounds with a success in a row
IMPROVEMENT = 1e-3  # of the best value's size: less is no success
PERTURBED = 20  # inputs that a candidate changes on average, if there are so many
BOUNDS = Bounds(lengthscale=(0.005, 2.0), outputscale=(0.05, 20.0), noise=(5e-4, 0.2))


@struct.dataclass
class Regions:
    """R trust regions. Each knows only what was evaluated for it since it was last started."""

    first: Array  # [R] int32, number of the evaluation before which it was started
    # [R, P, d], of the unit cube: its design when it starts anew, the last ones first
    points: Array
    design: Array  # [R] int32, points of the design that it still wants
    length: Array  # [R], base side
    successes: Array  # [R] int32, rounds with a success in a row
    failures: Array  # [R] int32, evaluations without a success in a row
    model: Model  # [R, ...], last fits


def started(design: Array, first: Array, points: Array, bounds: Bounds) -> Regions:
    """Regions at their start, with design [R] of the points [R,P,d] to come after `first` []
    evaluations."""
    zero = jnp.zeros_like(design)
    d, dtype = points.shape[2], points.dtype
    model = local_gp.default(bounds, d, dtype)
    return Regions(
        first=zero + first,
        points=points,
        design=design,
        length=jnp.full(design.shape, FIRST_LENGTH, dtype),
        successes=zero,
        failures=zero,
        model=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, design.shape + leaf.shape), model),
    )


def latin_hypercube(key: PRNGKey, count: int, d: int, dtype: DTypeLike) -> Array:
    """Points [count,d] of the unit cube: in every input, one in each of `count` intervals, uniform
    there."""
    order_key, place_key = jax.random.split(key)
    intervals = jnp.arange(count, dtype=dtype)
    order = jax.vmap(jax.random.permutation, (0, None), 1)(
        jax.random.split(order_key, d), intervals
    )
    return (order + jax.random.uniform(place_key, (count, d), dtype)) / count


def candidates(
    data: Data, mine: Array, lengthscale: Array, length: Array, key: PRNGKey, count: int
) -> Array:
    """Points [count,d] of one region: Sobol points of its box around the best observation; each
    takes about PERTURBED inputs, and at least one, and the rest from the best. While all of its
    evaluations, mine [N] of the data's slots, have failed, the first of them stands for the best.
    """
    point_key, which_key, one_key = jax.random.split(key, 3)
    shape, dtype = (count, data.u.shape[1]), data.u.dtype
    # a failure of its own is below all that is observed, and above the slots of other regions
    failed = jnp.where(mine, jnp.finfo(dtype).min, -jnp.inf)
    best = data.u[jnp.argmax(jnp.where(data.mask, data.y, failed))]
    logs = jnp.log(lengthscale)
    # long where f varies slowly; the volume is length^d
    half = jnp.exp(logs - logs.mean()) * length / 2
    low, high = jnp.clip(best - half, 0, 1)[None, :], jnp.clip(best + half, 0, 1)[None, :]
    points = low + sobol(point_key, *shape, dtype) * (high - low)
    taken = jax.random.uniform(which_key, shape) * shape[1] < PERTURBED
    one = jax.random.randint(one_key, (count, 1), 0, shape[1], jnp.int32)
    taken |= ~taken.any(1, keepdims=True) & (one == jnp.arange(shape[1], dtype=jnp.int32)[None, :])
    return jnp.where(taken, points, best)


def after_round(regions: Regions, best: Array, found: Array, evaluated: Array) -> Regions:
    """Counters and lengths after a round of evaluated [R] evaluations for each region, the best of
    them found [R]; the best of the region before was best [R] (-inf: none). Points of a design are
    neither success nor failure."""
    known = jnp.where(jnp.isfinite(best), best, 0)
    success = found > jnp.where(jnp.isfinite(best), known + IMPROVEMENT * jnp.abs(known), -jnp.inf)
    counts = (evaluated > 0) & (regions.design == 0)
    count, d = regions.points.shape[0], regions.points.shape[2]
    successes = jnp.where(counts, jnp.where(success, regions.successes + 1, 0), regions.successes)
    failures = jnp.where(
        counts, jnp.where(success, 0, regions.failures + evaluated), regions.failures
    )
    # counted in evaluations, so that batches that regions share mean the same: ceil(max(4, d) / B)
    # rounds of B
    grows, shrinks = successes >= GROW_AFTER, failures >= max(4 if count == 1 else 5, d)
    length = jnp.where(grows, jnp.minimum(2 * regions.length, MOST_LENGTH), regions.length)
    return replace(
        regions,
        design=jnp.maximum(regions.design - evaluated, 0),
        length=jnp.where(shrinks, length / 2, length),
        successes=jnp.where(grows, 0, successes),
        failures=jnp.where(shrinks, 0, failures),
    )


def restarted(regions: Regions, fresh: Regions, least_length: ArrayLike) -> tuple[Regions, Array]:
    """(regions, too small [R]): those with a side below `least_length` are taken from `fresh`."""
    small = regions.length < least_length

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(small.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return jax.tree.map(choose, fresh, regions), small
