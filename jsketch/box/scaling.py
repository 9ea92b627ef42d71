"""The units in which a parametric model sees a problem: inputs in [-1,1], values with mean 0 and standard deviation 1.

f2 of the GO-UCB paper ranges over [-2500, 783]: gradient steps of one size for all problems need one scale for all of them.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import struct
from jax import Array

from jsketch.box.history import History
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
        return (x - self.middle) / self.half

    def points(self, z: Array) -> Array:
        """The inverse of `inputs`."""
        return self.middle + z * self.half

    def values(self, y: Array) -> Array:
        """Values of the objective in the model's units."""
        return (y - self.mean) / self.deviation

    def rewards(self, v: Array) -> Array:
        """The inverse of `values`."""
        return self.mean + v * self.deviation


def identity(box: Box) -> Scaling:
    """No scaling, as in the paper."""
    one = jnp.ones((), box.lower.dtype)
    return Scaling(jnp.zeros_like(box.lower), jnp.ones_like(box.lower), 0 * one, one)


def standard(box: Box, past: History) -> Scaling:
    """Sides of the box to [-1,1], successful values to mean 0 and deviation 1 (only centred while all are equal)."""
    count = jnp.maximum(past.ok.sum(), 1).astype(past.y.dtype)
    mean = jnp.where(past.ok, past.y, 0).sum() / count
    deviation = jnp.sqrt(jnp.where(past.ok, jnp.square(past.y - mean), 0).sum() / count)
    least = 64 * jnp.finfo(past.y.dtype).eps * jnp.abs(mean)  # below it, a deviation is rounding
    deviation = jnp.where(deviation > least, deviation, 1)
    return Scaling((box.lower + box.upper) / 2, (box.upper - box.lower) / 2, mean, deviation)
