"""The cosine and the sine of float64 phases, computed together: on a CPU ten times as fast as by
XLA.

Random Fourier features spend most of their time on them. XLA calls a scalar routine for each number
(1.7 s for 90 million pairs on 2 cores). Here phases are reduced to [-pi/4, pi/4], and two Taylor
polynomials are evaluated there, which the compiler vectorizes (0.18 s).
"""

from __future__ import annotations

import math
from fractions import Fraction

import jax.numpy as jnp
from jax import Array

HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291")
# pi/2 as a sum of three numbers. The first two are so short that their products with an integer of
# 20 bits are exact
HIGH = Fraction(round(HALF_PI * 2**32), 2**32)
MIDDLE = Fraction(round((HALF_PI - HIGH) * 2**64), 2**64)
PARTS = (float(HIGH), float(MIDDLE), float(HALF_PI - HIGH - MIDDLE))
TERMS = 9  # the first omitted Taylor term is below 1e-17 on [-pi/4, pi/4]


def cos_sin(phase: Array) -> tuple[Array, Array]:
    """(cos, sin) of phases of any shape. The error is at most 2e-16 for phases up to a million, and
    that of rounding the phase for larger ones."""
    if phase.dtype != jnp.float64:
        return jnp.cos(phase), jnp.sin(phase)
    quotient = jnp.round(phase / (math.pi / 2))
    rest = phase
    for part in PARTS:
        rest = rest - quotient * part
    # the rounding error of a huge phase exceeds the interval: keep the polynomials bounded
    rest = jnp.clip(rest, -0.8, 0.8)
    square = rest * rest
    cos, sin = _taylor(square, 0), rest * _taylor(square, 1)
    quadrant = quotient - 4 * jnp.floor(quotient / 4)
    swapped = (quadrant == 1) | (quadrant == 3)
    first, second = jnp.where(swapped, sin, cos), jnp.where(swapped, cos, sin)
    negative_first, negative_second = (quadrant == 1) | (quadrant == 2), quadrant >= 2
    return jnp.where(negative_first, -first, first), jnp.where(negative_second, -second, second)


def _taylor(square: Array, odd: int) -> Array:
    """sum_k (-square)^k / (2k + odd)!, by Horner's rule."""
    total = jnp.zeros_like(square)
    for k in reversed(range(TERMS)):
        total = total * square + (-1) ** k / math.factorial(2 * k + odd)
    return total
