"""A kernel for tables whose columns are of several kinds: numbers, categories and fingerprints.

Every kind has a squared distance that embeds into a Hilbert space (Schoenberg, 1938): the squared
difference of numbers, 0 or 1 for categories, and 1 - T for fingerprints, where the Tanimoto
similarity T is positive semi-definite with T(x,x) = 1. A sum of such distances, each divided by the
square of its lengthscale, embeds as well. A Matern kernel of the sum is a mixture of Gaussian
kernels and thus positive semi-definite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.kernels.combined import Operators
from jsketch.kernels.stationary import matern, squared_distances
from jsketch.numerics import aligned
from jsketch.suggest.discrete import Tanimoto

KINDS = ("numbers", "category", "bits")


class Columns(NamedTuple):
    """Adjacent columns of one kind.

    kind    "numbers": every column has a lengthscale; "category": one category as zeros and ones
            (one-hot), such as a site of a sequence; "bits": one fingerprint as words of `pack_bits`
    width   the number of columns
    """

    kind: str
    width: int

    @property
    def n_lengthscales(self) -> int:
        """The number of lengthscales of the columns."""
        return self.width if self.kind == "numbers" else 1


class Group(NamedTuple):
    """The positions of one `Columns` among the features and among the lengthscales."""

    kind: str
    columns: slice
    lengthscales: slice


def groups_of(columns: Sequence[Columns]) -> Iterator[Group]:
    """Yields the `Group` of each of the columns, from left to right."""
    column = length = 0
    for group in columns:
        next_column, next_length = column + group.width, length + group.n_lengthscales
        yield Group(group.kind, slice(column, next_column), slice(length, next_length))
        column, length = next_column, next_length


def n_lengthscales(columns: Sequence[Columns]) -> int:
    """L, the number of lengthscales of a `Mixed` kernel of these columns."""
    return sum(group.n_lengthscales for group in columns)


def column_kinds(columns: Sequence[Columns]) -> tuple[np.ndarray, np.ndarray]:
    """(kind [d], index of the lengthscale [d]) of every column."""
    widths = [group.width for group in columns]
    kinds = np.repeat([group.kind for group in columns], widths)
    is_first = np.isin(np.arange(len(kinds)), np.cumsum([0, *widths]))
    return kinds, np.cumsum((kinds == "numbers") | is_first) - 1


def is_graded(x: Array, columns: Sequence[Columns]) -> np.ndarray:
    """[L] bool, the lengthscales of numeric columns with more than two different numbers. A column
    of two numbers is a category of two levels: it has no candidates between its ends."""
    kinds, length_index = column_kinds(columns)
    result = np.zeros(n_lengthscales(columns), bool)
    if len(result):
        numbers = np.asarray(x)
        inside = ((numbers > numbers.min(0)) & (numbers < numbers.max(0))).any(0)
        result[length_index[(kinds == "numbers") & inside]] = True
    return result


def spread(x: Array, columns: Sequence[Columns]) -> np.ndarray:
    """The spread of scaled candidates x [A,d] along each lengthscale, [L]: the standard deviation
    of a graded numeric column (`is_graded`), and for a column of two numbers, a category and a
    fingerprint 1, the largest distance."""
    kinds, length_index = column_kinds(columns)
    graded = is_graded(x, columns)
    result = np.ones(len(graded))
    varies = (kinds == "numbers") & graded[length_index]
    result[length_index[varies]] = np.asarray(jnp.std(x, axis=0), float)[varies]
    return result


def check_columns(columns: Sequence[Columns], width: int) -> tuple[Columns, ...]:
    """The columns as a tuple. Raises ValueError unless their kinds are valid and their widths add
    up to `width`."""
    columns = tuple(Columns(*group) for group in columns)
    for group in columns:
        checks.choice(KINDS, kind=group.kind)
        checks.positive_integer(width=group.width)
    total = sum(group.width for group in columns)
    if total != width:
        raise ValueError(f"widths of columns add up to {total}; candidates have {width} columns.")
    return columns


@struct.dataclass
class Mixed(Operators):
    """Matern 5/2 kernel of the distance sqrt(sum of squared distances / lengthscale^2).

    The distance of numbers is their difference. Two different categories have the distance 1, and
    so do two fingerprints without a common bit.

    lengthscale  [L], one for each numeric column, category and fingerprint, in the order of the
                 columns
    columns      the kinds of the inputs, from left to right
    """

    lengthscale: ArrayLike
    columns: tuple[Columns, ...] = struct.field(pytree_node=False)

    def gram(self, x: Array, y: Array) -> Array:
        return self.gram_of(x, y, self.fingerprint_distances(x, y))

    def diag(self, x: Array) -> Array:
        return jnp.ones(x.shape[0], x.dtype)

    def fingerprint_distances(self, x: Array, y: Array) -> list[Array]:
        """The squared distances 1 - Tanimoto [n,m] of every fingerprint, which do not depend on the
        lengthscales."""
        return [
            1 - Tanimoto().gram(x[:, group.columns], y[:, group.columns])
            for group in self._groups("bits")
        ]

    def gram_of(self, x: Array, y: Array, distances: list[Array]) -> Array:
        """The kernel matrix [n,m], given the `fingerprint_distances` of the same points."""
        length = jnp.asarray(self.lengthscale, x.dtype)
        squared = jnp.zeros((x.shape[0], y.shape[0]), x.dtype)
        kinds, length_index = column_kinds(self.columns)
        index = np.flatnonzero(kinds != "bits").astype(np.int32)
        if len(index):
            length_index = length_index[index].astype(np.int32)
            # two one-hot categories are sqrt(2) apart; divided by `unit`, the distance is 1
            unit = np.where(kinds[index] == "category", 2**0.5, 1.0)
            column_length = length[length_index] * aligned(unit.astype(x.dtype), length)
            squared = squared_distances(x[:, index], y[:, index], column_length)
        for distance, group in zip(distances, self._groups("bits"), strict=True):
            squared = squared + distance / jnp.square(length[group.lengthscales.start])
        return matern(5 * squared, 2.5)

    def check(self, x: Any) -> None:
        checks.all_positive(lengthscale=self.lengthscale)
        count = n_lengthscales(self.columns)
        if np.shape(self.lengthscale) != (count,):
            raise ValueError(
                f"a Mixed kernel of these columns has {count} lengthscales; an array of shape"
                f" {np.shape(self.lengthscale)} was given."
            )

    def check_inputs(self, x: Any) -> None:
        """Raises ValueError if the widths do not add up to the number of columns of x, for
        categories that are not one-hot, and for numbers that `pack_bits` cannot have returned."""
        table = np.asarray(x)
        check_columns(self.columns, table.shape[1])
        for group in self._groups("category"):
            part = table[:, group.columns]
            wrong = np.flatnonzero(~np.isin(part, (0, 1)).all(1) | (part.sum(1) != 1))
            if wrong.size:
                raise ValueError(
                    f"columns {group.columns.start} to {group.columns.stop - 1} are a category and"
                    " must have one 1, and zeros otherwise, in every row;"
                    f" row {wrong[0]} is {part[wrong[0]]}."
                )
        for group in self._groups("bits"):
            Tanimoto().check_inputs(table[:, group.columns])

    def _groups(self, kind: str) -> list[Group]:
        return [group for group in groups_of(self.columns) if group.kind == kind]
