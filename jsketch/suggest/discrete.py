"""Kernels for molecules, strings and graphs: similarities of sets (fingerprints) and of counts.

No array of size n x m x d is stored. Features are floating point numbers. `pack_bits` stores 16
bits in each of them, which float32 and float64 represent exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from jsketch import struct
from jsketch.kernels.combined import Operators
from jsketch.numerics import matmul

WORD = 16  # bits in a feature


def pack_bits(table: Any, dtype: DTypeLike = float) -> np.ndarray:
    """Features [A, ceil(L/16)] of bits [A,L], for `Tanimoto(packed=True)`. Raises ValueError for
    entries other than 0 and 1, and for a dtype that cannot hold every word."""
    bits = np.asarray(table)
    if bits.ndim != 2 or not ((bits == 0) | (bits == 1)).all():
        raise ValueError(
            f"pack_bits takes a matrix [A, L] of zeros and ones; the shape given is {bits.shape}."
        )
    if np.finfo(dtype).nmant + 1 < WORD:
        raise ValueError(
            f"{np.dtype(dtype)} cannot hold {WORD} bits exactly; use float32 or float64."
        )
    padded = np.pad(bits.astype(bool, order="C"), ((0, 0), (0, -bits.shape[1] % WORD)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u2").astype(dtype)


def _joined(x: Array) -> Array:
    """The words x [n,w] with four of them (two in 32-bit computations) in one integer: operations
    on fewer and longer integers are faster."""
    dtype = jnp.uint64 if x.dtype.itemsize == 8 else jnp.uint32
    n_joined = 8 * jnp.dtype(dtype).itemsize // WORD
    words = jnp.pad(x.astype(dtype), ((0, 0), (0, -x.shape[1] % n_joined)))
    parts = [words[:, i::n_joined] << jnp.asarray(i * WORD, dtype) for i in range(n_joined)]
    return sum(parts[1:], parts[0])


def _common_bits(x: Array, y: Array) -> Array:
    """[n,m], the number of bits set in both a row of words x [n,w] and a row of words y [m,w]."""
    left, right = _joined(x), _joined(y)

    def add(i: Array, total: Array) -> Array:
        common = lax.population_count(left[:, i, None] & right[None, :, i])
        return total + common.astype(jnp.int32)

    zeros = jnp.zeros((x.shape[0], y.shape[0]), jnp.int32)
    return lax.fori_loop(0, left.shape[1], add, zeros).astype(x.dtype)


def _ratio(common: Array, total: Array) -> Array:
    """common / total, 1 where both sets are empty."""
    return jnp.where(total > 0, common / jnp.where(total > 0, total, 1), 1)


def _check_entries(x: Any, wrong: Callable[[np.ndarray], np.ndarray], valid: str) -> None:
    numbers = np.asarray(x)
    positions = np.argwhere(wrong(numbers))
    if len(positions):
        row, column = positions[0]
        raise ValueError(
            f"this kernel compares {valid}; input [{row}, {column}] is {numbers[row, column]}."
        )


@struct.dataclass
class Tanimoto(Operators):
    """|a and b| / |a or b| of sets of bits, which is positive semi-definite (Jaccard index; Gower
    1971; Ralaivola et al. 2005). Two empty sets have similarity 1.

    packed  True: inputs are words of `pack_bits`. False: zeros and ones [n,L]
    """

    packed: bool = struct.field(pytree_node=False, default=True)

    def gram(self, x: Array, y: Array) -> Array:
        x = jnp.asarray(x)
        y = jnp.asarray(y, x.dtype)  # with one dtype, words of x and y are joined alike
        if self.packed:
            size_x = lax.population_count(x.astype(jnp.int32)).sum(1).astype(x.dtype)
            size_y = lax.population_count(y.astype(jnp.int32)).sum(1).astype(x.dtype)
            common = _common_bits(x, y)
        else:
            size_x, size_y, common = x.sum(1), y.sum(1), matmul(x, y.T)
        return _ratio(common, size_x[:, None] + size_y[None, :] - common)

    def diag(self, x: Array) -> Array:
        return jnp.ones(x.shape[0], x.dtype)

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError for anything but bits, because for counts the ratio is not a kernel."""
        if self.packed:
            valid = f"words of {WORD} bits, from pack_bits"
            _check_entries(x, lambda t: (t < 0) | (t >= 2**WORD) | (t % 1 != 0), valid)
        else:
            valid = "zeros and ones (MinMax compares counts)"
            _check_entries(x, lambda t: ~np.isin(t, (0, 1)), valid)


@struct.dataclass
class MinMax(Operators):
    """sum_i min(a_i, b_i) / sum_i max(a_i, b_i) of counts >= 0, [n,L]: the Tanimoto similarity of
    multisets, which is positive semi-definite. Two empty multisets have similarity 1."""

    def gram(self, x: Array, y: Array) -> Array:
        x, y = jnp.asarray(x), jnp.asarray(y)

        def add(i: Array, common: Array) -> Array:
            return common + jnp.minimum(x[:, i, None], y[None, :, i])

        common = lax.fori_loop(0, x.shape[1], add, jnp.zeros((x.shape[0], y.shape[0]), x.dtype))
        return _ratio(common, x.sum(1)[:, None] + y.sum(1)[None, :] - common)

    def diag(self, x: Array) -> Array:
        return jnp.ones(x.shape[0], x.dtype)

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError for negative numbers, for which the ratio is not a kernel."""
        _check_entries(x, lambda t: t < 0, "numbers of at least 0")
