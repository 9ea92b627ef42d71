"""The trust regions of TuRBO: the candidates of a region (Sobol points of a box around the best
observation), and the rules by which regions grow, shrink and restart (section 2 of the paper that
`turbo` cites; THEORY 8.5).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from jsketch import struct
from jsketch.box.gp.fit import Bounds
from jsketch.box.gp.regression import Data
from jsketch.box.turbo import local_gp
from jsketch.box.turbo.local_gp import Model
from jsketch.types import PRNGKey

FIRST_LENGTH, LARGEST_LENGTH = 0.8, 1.6  # base sides (`Regions.length`)
GROW_AFTER = 3  # a region grows after this many consecutive rounds with a success
IMPROVEMENT = 1e-3  # the least improvement that is a success, as a share of |best value|
MEAN_PERTURBED = 20  # mean number of inputs in which a candidate differs from the best point
BITS = 30  # binary digits of the Sobol points
BOUNDS = Bounds(lengthscale=(0.005, 2.0), outputscale=(0.05, 20.0), noise=(5e-4, 0.2))


@struct.dataclass
class Regions:
    """R trust regions. The data of a region are its evaluations since its last restart."""

    first: Array  # [R] int32, index of the first evaluation after the last restart
    points: Array  # [R, P, d] in the unit cube, the design points of a restart, in reverse order
    design: Array  # [R] int32, the number of design points that are not evaluated yet
    length: Array  # [R], base side, the geometric mean of the sides, in sides of the box
    successes: Array  # [R] int32, consecutive rounds with a success
    failures: Array  # [R] int32, consecutive evaluations without a success
    model: Model  # [R, ...], the last fits


def new_regions(design: Array, first: Array, points: Array, bounds: Bounds) -> Regions:
    """Regions that start after `first` [] evaluations; each region evaluates the first `design` [R]
    of its points [R,P,d]."""
    zero = jnp.zeros_like(design)
    d, dtype = points.shape[2], points.dtype
    model = local_gp.default_model(bounds, d, dtype)
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
    """Points [count,d] of the unit cube, with one uniform point in each of `count` equal intervals
    of every input."""
    order_key, place_key = jax.random.split(key)
    intervals = jnp.arange(count, dtype=dtype)
    keys = jax.random.split(order_key, d)
    order = jax.vmap(jax.random.permutation, (0, None), 1)(keys, intervals)
    return (order + jax.random.uniform(place_key, (count, d), dtype)) / count


@lru_cache(maxsize=16)
def _directions(n_bits: int, d: int) -> np.ndarray:
    """The Sobol direction numbers [n_bits,d], one for each bit of an index, in units of 2^-BITS."""
    # the import takes a third of a second
    from scipy.stats import qmc

    points = qmc.Sobol(d, scramble=False, bits=BITS).random_base2(n_bits)
    points = (points * 2**BITS).astype(np.uint32)
    # in the order of the Gray code, point 2^k is point 2^k - 1 xor the k-th direction number
    powers = 2 ** np.arange(n_bits)
    return points[powers] ^ points[powers - 1]


def sobol(key: PRNGKey, count: int, d: int, dtype: DTypeLike) -> Array:
    """The first `count` scrambled Sobol points [count,d] in [0,1); the function can be traced. The
    binary digits of each input are multiplied by a random lower triangular matrix and shifted
    (Matousek. On the L2-discrepancy for anchored boxes. Journal of Complexity 1998)."""
    n_bits = max(1, (count - 1).bit_length())
    matrix_key, shift_key = jax.random.split(key)
    # row j as a bit mask: digit j from the top becomes the parity of it and of random higher digits
    places = np.uint32(1) << np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    higher_digits = ((1 << BITS) - 1) ^ (2 * places - 1)
    rows = jax.random.bits(matrix_key, (d, BITS), jnp.uint32) & higher_digits[None, :]
    rows |= places[None, :]
    numbers = jnp.asarray(_directions(n_bits, d)).T
    summands = rows[:, :, None] & numbers[:, None, :]  # [d, BITS, n_bits]
    digits = lax.population_count(summands) & 1
    directions = (digits * places[None, :, None]).sum(1, dtype=jnp.uint32)  # [d, n_bits]
    index = np.arange(count)
    gray = ((index ^ (index >> 1))[:, None] >> np.arange(n_bits)) & 1 == 1  # [count, n_bits]
    points = jax.random.bits(shift_key, (d,), jnp.uint32)[None, :] >> (32 - BITS)
    for k in range(n_bits):
        points = points ^ jnp.where(gray[:, k : k + 1], directions[None, :, k], 0)
    return points.astype(dtype) / 2**BITS


def candidates(
    data: Data, members: Array, lengthscale: Array, length: Array, key: PRNGKey, count: int
) -> Array:
    """Candidates [count,d] of one region. About MEAN_PERTURBED inputs of a candidate, and at least
    one, come from a Sobol point of the region's box; the others come from the centre, the best
    observation. `members` [N] bool are the region's slots of the data; if all evaluations of the
    region failed, the first of them is the centre."""
    point_key, perturbed_key, extra_key = jax.random.split(key, 3)
    shape, dtype = (count, data.u.shape[1]), data.u.dtype
    # a failure of this region ranks below all observations and above the slots of other regions
    failed = jnp.where(members, jnp.finfo(dtype).min, -jnp.inf)
    best = data.u[jnp.argmax(jnp.where(data.mask, data.y, failed))]
    logs = jnp.log(lengthscale)
    # the sides are proportional to the lengthscales, and the volume is length^d
    half = jnp.exp(logs - logs.mean()) * length / 2
    low, high = jnp.clip(best - half, 0, 1)[None, :], jnp.clip(best + half, 0, 1)[None, :]
    points = low + sobol(point_key, *shape, dtype) * (high - low)
    perturbed = jax.random.uniform(perturbed_key, shape) * shape[1] < MEAN_PERTURBED
    random_input = jax.random.randint(extra_key, (count, 1), 0, shape[1], jnp.int32)
    inputs = jnp.arange(shape[1], dtype=jnp.int32)[None, :]
    perturbed |= ~perturbed.any(1, keepdims=True) & (random_input == inputs)
    return jnp.where(perturbed, points, best)


def after_round(regions: Regions, best: Array, new_best: Array, evaluated: Array) -> Regions:
    """The regions with new counters and lengths after a round. `evaluated` [R] is the number of
    evaluations for each region in the round, `new_best` [R] is their best value, and `best` [R] is
    the best value before the round (-inf if there is none). An evaluation of a design point is
    neither a success nor a failure."""
    best_or_zero = jnp.where(jnp.isfinite(best), best, 0)
    threshold = best_or_zero + IMPROVEMENT * jnp.abs(best_or_zero)
    success = new_best > jnp.where(jnp.isfinite(best), threshold, -jnp.inf)
    applies = (evaluated > 0) & (regions.design == 0)
    region_count, d = regions.points.shape[0], regions.points.shape[2]
    successes = jnp.where(applies, jnp.where(success, regions.successes + 1, 0), regions.successes)
    failures = jnp.where(
        applies, jnp.where(success, 0, regions.failures + evaluated), regions.failures
    )
    # failures are counted in evaluations, because regions share batches
    max_failures = max(4 if region_count == 1 else 5, d)  # as in the authors' code
    grows, shrinks = successes >= GROW_AFTER, failures >= max_failures
    length = jnp.where(grows, jnp.minimum(2 * regions.length, LARGEST_LENGTH), regions.length)
    return replace(
        regions,
        design=jnp.maximum(regions.design - evaluated, 0),
        length=jnp.where(shrinks, length / 2, length),
        successes=jnp.where(grows, 0, successes),
        failures=jnp.where(shrinks, 0, failures),
    )


def restart(regions: Regions, new: Regions, least_length: ArrayLike) -> tuple[Regions, Array]:
    """(regions, whether each restarts [R]); the regions of `new` replace those with a base side
    below `least_length`."""
    restarts = regions.length < least_length

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(restarts.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return jax.tree.map(choose, new, regions), restarts
