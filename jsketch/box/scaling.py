"""Units of a parametric model: inputs in [-1,1], values with mean 0 and standard deviation 1.

f2 of the GO-UCB paper ranges over [-2500, 783]: gradient steps of one size for all problems need
one scale for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jsketch import struct
from jsketch.box.history import History
from jsketch.linalg import aligned
from jsketch.types import Box


@struct.dataclass
class Scaling:
    """An invertible affine map of inputs and values."""

    middle: Array  # [d]
    half: Array  # [d], half the sides
    mean: Array  # []
    deviation: Array  # []

    def inputs(self, x: Array) -> Array:
        """Points x [..., d] in the model's units."""
        return (x - aligned(self.middle, x)) / aligned(self.half, x)

    def points(self, z: Array) -> Array:
        """The inverse of `inputs`."""
        return aligned(self.middle, z) + z * aligned(self.half, z)

    def values(self, y: Array) -> Array:
        """Values of the objective in the model's units."""
        # eighths: the largest floats have no difference, nor an inverse that is not rounded to zero
        return (y / 8 - self.mean / 8) / (self.deviation / 8)

    def rewards(self, v: Array) -> Array:
        """The inverse of `values`."""
        return self.mean + v * self.deviation


def identity(box: Box) -> Scaling:
    """No scaling, as in the paper."""
    one = jnp.ones((), box.lower.dtype)
    return Scaling(jnp.zeros_like(box.lower), jnp.ones_like(box.lower), 0 * one, one)


class Moments(NamedTuple):
    """Mean and standard deviation of values, both in units of `unit`."""

    unit: Array  # [], a power of two: a value divided by it has lost nothing
    mean: Array  # []
    deviation: Array  # []


def moments(y: Array, ok: Array) -> Moments:
    """Of the values y [N] with ok [N]; 0 and 0 without any. A deviation that is only rounding, as
    of equal values, is 0.

    The unit is within a factor of 8 of the largest |y|: of values near 1e200 no float holds the
    squares, nor of values near 1e-200.
    """
    largest = jnp.max(jnp.where(ok, jnp.abs(y), 0))
    largest = jnp.where(largest >= 16 * jnp.finfo(y.dtype).tiny, largest, 1)
    # not the largest power of two, whose inverse is rounded to zero
    unit = largest / (8 * jnp.frexp(largest)[0])
    count = jnp.maximum(ok.sum(), 1).astype(y.dtype)
    scaled = jnp.where(ok, y / unit, 0)
    mean = scaled.sum() / count
    deviation = jnp.sqrt(jnp.where(ok, jnp.square(scaled - mean), 0).sum() / count)
    rounding = 64 * jnp.finfo(y.dtype).eps * jnp.abs(mean)
    return Moments(unit, mean, jnp.where(deviation > rounding, deviation, 0))


def standard(box: Box, past: History) -> Scaling:
    """Sides of the box to [-1,1], successful values to mean 0 and deviation 1 (only centred while
    all are equal)."""
    found = moments(past.y, past.ok)
    deviation = jnp.where(found.deviation > 0, found.unit * found.deviation, 1)
    mean = found.unit * found.mean
    return Scaling((box.lower + box.upper) / 2, (box.upper - box.lower) / 2, mean, deviation)
