"""The arrays that a suggestion is made from: checked, in words, and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.kernels.mixed import Columns, Mixed, check_columns
from jsketch.types import Arms

LARGEST = 1e300  # beyond it a prediction may be no number any more
# by how much a squared distance may be multiplied on its way to a kernel value: by 5 in a Matern
# kernel, and by 4 where the square is expanded into a sum
DISTANCES = 64.0
WIDEST = 1e6  # scales; a value with a larger error says as little
FEW = 2  # values that say something of a spread
ENOUGH = 8  # candidates, or half of them, whose values are a measure of all others' spread
MOMENTS = 1000  # steps at the most towards weights and spread that agree
SMALLEST_SIZE = 64


class Library(NamedTuple):
    """A library of A candidates that was checked and scaled once, for many rounds."""

    features: Array  # [A, d]
    columns: tuple[Columns, ...]  # what the features are

    @property
    def lengthscales(self) -> int:
        """L, of a `Mixed` kernel of these columns."""
        return sum(group.lengthscales for group in self.columns)


class Data(NamedTuple):
    """A library of A candidates and what was evaluated of it."""

    library: Library
    arms: np.ndarray  # [n] int, rows of the candidates, those of failed evaluations included
    values: np.ndarray  # [n], NaN for a failed evaluation
    pending: np.ndarray  # [p] int, each row once, and none that was evaluated
    errors: np.ndarray  # [n], standard error of each value that is known, beside the fitted noise

    @property
    def observed(self) -> np.ndarray:
        """[n] bool, evaluations that have a value."""
        return ~np.isnan(self.values)

    def standardized(
        self, centre: float, scale: float, fitted: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """`standardized` observed values and variances of their errors. In a unit that was not
        fitted nothing can be said of errors, and they do not count."""
        errors = self.errors if fitted else np.zeros(len(self.errors))
        return standardized(self.values[self.observed], errors[self.observed], centre, scale)


class Moments(NamedTuple):
    """Of values with errors of their own, in units of the values."""

    centre: float
    spread: float  # 0: all are the same, but for rounding
    weight: np.ndarray  # [m], of each value


def library(
    candidates: Any, columns: Sequence[Columns] | None = None, *, scaling: bool = True
) -> Library:
    """Candidates [A, d] as a `Library`; `columns` say what their features are, None: all numbers.

    With scaling every number is brought to [0, 1]; without they are as they are. Raises ValueError
    as `suggest` does for candidates and columns.
    """
    checks.truth(scaling=scaling)
    if isinstance(candidates, Library):
        if columns is not None or not scaling:
            raise ValueError(
                "candidates are a Library, which has its columns and its scaling already: give them"
                " to library(...)."
            )
        return candidates
    features = _features(candidates)
    groups = (Columns("numbers", features.shape[1]),) if columns is None else columns
    groups = check_columns(groups, features.shape[1])
    # in JAX's floating dtype, in which numbers may be infinite before they are scaled
    with np.errstate(over="ignore"):
        Mixed(np.ones(1), groups).check_inputs(features)
    start = 0
    for group in groups:
        stop = start + group.width
        if group.kind == "numbers" and scaling:
            features[:, start:stop] = in_units(features[:, start:stop], start)
        start = stop
    dtype = jax.dtypes.canonicalize_dtype(float)
    bad = np.argwhere(np.abs(features) > jnp.finfo(dtype).max)
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"candidates must be finite in {dtype.name}; row {row}, column {column} is"
            f" {features[row, column]:g}. Scale them, or use float64 (jax_enable_x64)."
        )
    return Library(jnp.asarray(features, dtype), groups)


@jax.jit
def _ends(features: Array) -> tuple[Array, Array]:
    return features.min(0), features.max(0)


def kernel_of(library: Library, lengthscale: Any) -> Mixed:
    """The kernel of a library's columns with lengthscales [L]. Raises ValueError where they are no
    lengthscales of these columns, or where squared distances are not finite."""
    features, columns = library
    dtype, length = features.dtype, np.asarray(lengthscale, float)
    checks.all_positive(lengthscale=length)
    if length.shape != (library.lengthscales,):
        raise ValueError(
            f"a model of these columns has {library.lengthscales} lengthscales; an array of shape"
            f" {length.shape} was given."
        )
    least, most = (np.asarray(end, float) for end in _ends(features))
    # of each lengthscale: the first of its columns, and whether that is a number
    first: list[int] = []
    number: list[bool] = []
    start = 0
    for group in columns:
        first += range(start, start + group.lengthscales)
        number += [group.kind == "numbers"] * group.lengthscales
        start += group.width
    with np.errstate(over="ignore"):
        # the distance of two categories, or of two fingerprints, is at most 1
        squared = np.square(np.where(number, (most - least)[first], 1) / length)
        total = squared.sum()
    if not total <= float(jnp.finfo(dtype).max) / DISTANCES:
        at = int(np.argmax(squared))
        raise ValueError(
            f"squared distances of the candidates are not finite in {dtype.name}: the largest is"
            f" that of column {first[at]}, from {least[first[at]]:g} to {most[first[at]]:g}, whose"
            f" lengthscale is {length[at]:g}. Scale the candidates, or take a larger lengthscale."
        )
    return Mixed(jnp.asarray(length, dtype), columns)


def checked(
    candidates: Any,
    columns: Sequence[Columns] | None,
    arms: Any,
    values: Any,
    pending: Any,
    scaling: bool,
    errors: Any = None,
) -> Data:
    """The arrays as `Data`. Raises ValueError for what `suggest` says it does."""
    known = library(candidates, columns, scaling=scaling)
    checks.arm_numbers(Arms(known.features), arms=arms, pending=pending)
    # an empty list has no integer dtype of its own
    arms, pending = np.asarray(arms).astype(int), np.asarray(pending).astype(int)
    numbers = _values(values, arms)
    # a row whose evaluation was made, or failed, is pending no more
    return Data(known, arms, numbers, np.setdiff1d(pending, arms), _errors(errors, numbers))


def _features(candidates: Any) -> np.ndarray:
    features = np.array(checks.real("candidates", candidates), float)
    if features.ndim != 2:
        raise ValueError(
            "candidates must be a matrix [A, d], one candidate a row; an array of shape"
            f" {features.shape} was given. A single feature is a column: use x[:, None]."
        )
    if features.size == 0:
        raise ValueError(
            f"candidates have shape {features.shape}: at least one row and one column are needed."
        )
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"candidates must be finite; row {row}, column {column} is {features[row, column]}"
            f" ({len(bad)} such cells in all). Fill them in, or leave those candidates out."
        )
    return features


def _values(values: Any, arms: np.ndarray) -> np.ndarray:
    numbers = np.asarray(checks.real("values", values), float)
    if numbers.shape != arms.shape:
        raise ValueError(
            f"values must hold one number for each of the {arms.size} arms, NaN where the"
            f" evaluation failed; their shape is {numbers.shape}."
        )
    bad = np.flatnonzero(np.abs(numbers) > LARGEST)
    if len(bad):
        raise ValueError(
            f"values must be at most {LARGEST:g} in size, NaN where the evaluation failed; value"
            f" {bad[0]} is {numbers[bad[0]]}."
        )
    return numbers


def _errors(errors: Any, values: np.ndarray) -> np.ndarray:
    """[n], zero where no value is."""
    if errors is None:
        return np.zeros(len(values))
    numbers = np.asarray(checks.real("errors", errors), float)
    if numbers.shape != values.shape:
        raise ValueError(
            f"errors must hold one standard error for each of the {values.size} values; their shape"
            f" is {numbers.shape}."
        )
    there = ~np.isnan(values)
    bad = np.flatnonzero(there & ~((numbers >= 0) & (numbers <= LARGEST)))
    if len(bad):
        raise ValueError(
            f"errors must be standard errors from 0 to {LARGEST:g}; error {bad[0]} is"
            f" {numbers[bad[0]]}."
        )
    return np.where(there, numbers, 0)


def moments(values: np.ndarray, errors: np.ndarray, arms: np.ndarray) -> Moments:
    """Weighted mean and standard deviation of values [m] with standard errors [m], of rows [m].

    A value weighs 1 / (spread^2 + error^2): those without errors, or with equal ones, weigh the
    same. Weights and spread follow from each other until they agree, or until they would rest on
    fewer than ENOUGH candidates, or half of them ((sum w)^2 / sum w^2 of each one's largest weight;
    Kish, 1965): a few exact values among many with errors are no measure of a spread, and repeats
    of one candidate are none at all.
    """
    found = _moments(values, np.ones(len(values)))
    place = np.unique(arms, return_inverse=True)[1]
    # of one candidate alone there is only the spread of its repeats
    place = place if place.any() else np.arange(len(values))
    candidates = int(place.max(initial=0)) + 1
    enough = max(FEW, min(ENOUGH, candidates / 2))
    for _ in range(MOMENTS if errors.any() else 0):
        if found.spread == 0:
            break
        with np.errstate(over="ignore"):
            weight = 1 / (1 + np.square(errors / found.spread))
        most = np.zeros(candidates)
        np.maximum.at(most, place, weight)
        if most.sum() ** 2 < enough * np.square(most).sum():
            break
        last, found = found, _moments(values, weight)
        if abs(found.spread - last.spread) <= 1e-9 * last.spread:
            break
    return found


def _moments(values: np.ndarray, weight: np.ndarray) -> Moments:
    unit, share = float(power_of_two(values)), weight / weight.sum()
    centre = float(share @ (values / unit))
    rest = np.sqrt(share) * (values / unit - centre)
    # squares of tiny differences are no floats
    part = float(power_of_two(rest))
    deviation = part * float(np.sqrt(np.square(rest / part).sum()))
    rounding = 64 * np.finfo(float).eps * abs(centre)
    return Moments(unit * centre, unit * deviation if deviation > rounding else 0.0, weight)


def standardized(
    values: np.ndarray, errors: np.ndarray, centre: float, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """(values less their centre, variances of their errors), [m] both, in units of a scale. A value
    whose error is above WIDEST of them comes nearer to the centre as its error does: it would be no
    float of the features' precision."""
    with np.errstate(over="ignore"):
        known = np.minimum(errors / scale, WIDEST)
        return (values - centre) / np.maximum(scale, errors / WIDEST), np.square(known)


def power_of_two(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The power of two at the largest of the values (1 for zeros and for none): divided by it,
    which rounds nothing, they can be squared."""
    largest = np.abs(values).max(axis, initial=0.0)
    return np.where(largest > 0, np.exp2(np.frexp(largest)[1] - 1.0), 1.0)


def in_units(features: np.ndarray, first: int = 0) -> np.ndarray:
    """Numbers [A,d] from 0 to 1 in every column. Raises ValueError for a constant column, counted
    from `first` on."""
    features = features / power_of_two(features, axis=0)
    least, range_ = features.min(0), np.ptp(features, axis=0)
    constant = np.flatnonzero(range_ == 0)
    if len(constant):
        column = first + constant[0]
        raise ValueError(
            f"column {column} of the candidates has the same value in every row: it says"
            " nothing and cannot be scaled. Leave it out."
        )
    return (features - least) / range_


def padded(size: int) -> int:
    """The next of 64, 256, 512, 1024, ...: few sizes to compile, which takes seconds for each."""
    power = max(SMALLEST_SIZE, 1 << max(size - 1, 0).bit_length())
    return power if power != 2 * SMALLEST_SIZE else 4 * SMALLEST_SIZE


def slots(
    rows: np.ndarray, least: int = 0, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, mask) in a padded number of slots; no slot for no row, unless there is to be one, and
    not more than `most` where the rows fit into them."""
    size = padded(len(rows)) if max(len(rows), least) else 0
    size = size if most is None or len(rows) > most else min(size, most)
    return filled(rows, size), np.arange(size) < len(rows)


def filled(values: np.ndarray, size: int) -> np.ndarray:
    """Values [n] with zeros up to `size` of them."""
    return np.append(values, np.zeros(size - len(values), values.dtype))
