"""A kernel that is given by a table of its values, for arms that are not vectors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import struct
from jsketch.kernels.combined import Operators
from jsketch.struct import in_dtype

ROWS = 1024  # rows of a table that are checked at a time
ASYMMETRY = 1e-4  # the largest accepted asymmetry, relative to the largest k(x,x)


@struct.dataclass
class Precomputed(Operators):
    """A table of kernel values for arms that are not vectors. The features of the arms are
    `index_features(table)`. Kernel values of a feature that is not a row number of the table are
    NaN; on the host `check_inputs` raises ValueError for such a feature.

    table  [A, A], symmetric positive semi-definite
    """

    table: Array

    def gram(self, x: Array, y: Array) -> Array:
        return self._values(x[:, :1], y[None, :, 0])

    def diag(self, x: Array) -> Array:
        return self._values(x[:, 0], x[:, 0])

    def _values(self, x: Array, y: Array) -> Array:
        table = jnp.asarray(in_dtype(self.table, x.dtype))
        values = table[x.astype(jnp.int32), y.astype(jnp.int32)]
        return jnp.where(_is_row(x, len(table)) & _is_row(y, len(table)), values, jnp.nan)

    def check(self, x: Any) -> None:
        check_table(self.table)

    def check_inputs(self, x: Any) -> None:
        n_rows = len(self.table)
        if jnp.shape(x)[1] != 1:
            raise ValueError(
                "a Precomputed kernel takes features [A, 1], such as index_features(table); their"
                f" shape is {jnp.shape(x)}."
            )
        invalid = np.flatnonzero(~_is_row(np.asarray(x)[:, 0], n_rows))
        if invalid.size:
            raise ValueError(
                f"the feature of arm {invalid[0]} is {np.asarray(x)[invalid[0], 0]}, but the rows"
                f" of the table are 0 to {n_rows - 1}."
            )


def _is_row(x: Any, n_rows: int) -> Any:
    return (x >= 0) & (x < n_rows) & (x % 1 == 0)


def check_table(table: Any) -> None:
    """Raises ValueError unless the table is square, finite and symmetric up to rounding; O(A^2)."""
    values = np.asarray(table)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(
            f"a table of kernel values is a square matrix [A, A]; its shape is {values.shape}."
        )
    if not np.issubdtype(values.dtype, np.floating):
        raise ValueError(
            f"a table of kernel values must be floating point numbers; its dtype is {values.dtype}."
        )
    tolerance = ASYMMETRY * max(float(np.abs(values.diagonal()).max()), 0.0)
    for begin in range(0, len(values), ROWS):
        part, mirrored = values[begin : begin + ROWS], values[:, begin : begin + ROWS].T
        if not np.isfinite(part).all():
            raise ValueError("a table of kernel values must be finite; some are not.")
        asymmetric = np.argwhere(np.abs(part - mirrored) > tolerance)
        if len(asymmetric):
            row, column = asymmetric[0] + [begin, 0]
            raise ValueError(
                f"a table of kernel values must be symmetric: entry [{row}, {column}] is"
                f" {values[row, column]}, entry [{column}, {row}] is {values[column, row]}."
            )


def index_features(table: Array) -> Array:
    """Features [A,1], the row numbers of a `Precomputed` table [A,A]."""
    return jnp.arange(table.shape[0], dtype=table.dtype)[:, None]
