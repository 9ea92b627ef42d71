"""One kernel of a table whose columns are of several kinds: numbers, categories and fingerprints.

Every kind has a squared distance that embeds into a Hilbert space (Schoenberg, 1938): the squared
difference of numbers, 0 or 1 for categories, and 1 - T for fingerprints, where T, their Tanimoto
similarity, is positive semi-definite with T(x,x) = 1. The sum over the columns, each divided by the
square of its lengthscale, embeds as well, and a Matern kernel of that distance is positive
semi-definite, as a mixture of Gaussians of the distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.stationary import matern, scaled_squared_distances
from jsketch.linalg import aligned
from jsketch.suggest.discrete import Tanimoto

KINDS = ("numbers", "category", "bits")


class Columns(NamedTuple):
    """Adjacent columns of one kind: `width` numbers, each with a lengthscale; one
    category as `width` zeros and ones (one-hot; a site of a sequence is one); or one fingerprint as
    `width` words of `pack_bits`."""

    kind: str
    width: int

    @property
    def lengthscales(self) -> int:
        return self.width if self.kind == "numbers" else 1


def check_columns(columns: Sequence[Columns], width: int) -> tuple[Columns, ...]:
    """The columns as a tuple. Raises ValueError unless their kinds are valid and `width` in
    all."""
    columns = tuple(Columns(*group) for group in columns)
    for group in columns:
        checks.choice(KINDS, kind=group.kind)
        checks.capacity(width=group.width)
    total = sum(group.width for group in columns)
    if total != width:
        raise ValueError(f"columns name {total} columns in all; the candidates have {width}.")
    return columns


@struct.dataclass
class Mixed:
    """Matern 5/2 of sqrt(sum of squared distances / lengthscale^2), lengthscale [L]: one for each
    number, category and fingerprint, in the order of the columns.

    Distances are in the units of a number, and 1 between different categories and between
    fingerprints without common bits.
    """

    lengthscale: ArrayLike  # [L]
    # the kinds of the inputs, from left to right
    columns: tuple[Columns, ...] = struct.field(pytree_node=False)

    def gram(self, x: Array, y: Array) -> Array:
        return self.gram_of(x, y, self.fingerprint_distances(x, y))

    def diag(self, x: Array) -> Array:
        return jnp.ones(x.shape[0], x.dtype)

    def fingerprint_distances(self, x: Array, y: Array) -> list[Array]:
        """1 - Tanimoto [n,m] of every fingerprint, which does not depend on the lengthscales."""
        return [
            1 - Tanimoto().gram(x[:, start:stop], y[:, start:stop])
            for start, stop, _ in self._slices("bits")
        ]

    def gram_of(self, x: Array, y: Array, distances: list[Array]) -> Array:
        """The kernel's values from the distances of the fingerprints."""
        length = jnp.asarray(self.lengthscale, x.dtype)
        squared = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
        index, owner, unit = self._plain()
        if len(index):
            plain = length[owner] * aligned(unit.astype(x.dtype), length)
            squared = scaled_squared_distances(x[:, index], y[:, index], plain)
        for distance, (_, _, at) in zip(distances, self._slices("bits"), strict=True):
            squared = squared + distance / jnp.square(length[at])
        return matern(5 * squared, 2.5)

    def check(self, x: Any) -> None:
        checks.all_positive(lengthscale=self.lengthscale)
        count = sum(group.lengthscales for group in self.columns)
        if np.shape(self.lengthscale) != (count,):
            raise ValueError(
                f"a Mixed kernel of these columns has {count} lengthscales; an array of shape"
                f" {np.shape(self.lengthscale)} was given."
            )

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError for columns that do not exist, categories that are not zeros and a one,
        and words that are not bits."""
        table = np.asarray(x)
        check_columns(self.columns, table.shape[1])
        for start, stop, _ in self._slices("category"):
            part = table[:, start:stop]
            wrong = np.flatnonzero(~np.isin(part, (0, 1)).all(1) | (part.sum(1) != 1))
            if wrong.size:
                raise ValueError(
                    f"columns {start} to {stop - 1} are a category: one 1 and zeros in every row;"
                    f" row {wrong[0]} is {part[wrong[0]]}."
                )
        for start, stop, _ in self._slices("bits"):
            Tanimoto().check_inputs(table[:, start:stop])

    def _slices(self, kind: str) -> list[tuple[int, int, int]]:
        """(first column, end, its first lengthscale) of every group of a kind."""
        groups, start, at = [], 0, 0
        for group in self.columns:
            if group.kind == kind:
                groups.append((start, start + group.width, at))
            start, at = start + group.width, at + group.lengthscales
        return groups

    def _plain(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(columns, the lengthscale of each, its unit) of numbers and categories; two ones in
        different places are sqrt(2) apart."""
        index: list[int] = []
        owner: list[int] = []
        unit: list[float] = []
        for start, stop, at in self._slices("numbers"):
            index += range(start, stop)
            owner += range(at, at + stop - start)
            unit += [1.0] * (stop - start)
        for start, stop, at in self._slices("category"):
            index += range(start, stop)
            owner += [at] * (stop - start)
            unit += [2**0.5] * (stop - start)
        order = np.argsort(index)
        columns, owners = np.array(index, np.int32)[order], np.array(owner, np.int32)[order]
        return columns, owners, np.array(unit)[order]
