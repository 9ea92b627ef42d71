"""The arrays that a suggestion is made from: checked, in words, and scaled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jsketch import checks
from jsketch.types import Arms

LARGEST = 1e300  # beyond it a prediction may be no number any more
SMALLEST_SIZE = 64


class Data(NamedTuple):
    """A library of A candidates and what was evaluated of it."""

    features: np.ndarray  # [A, d], scaled where that was asked for
    arms: np.ndarray  # [n] int, rows of the candidates, those of failed evaluations included
    values: np.ndarray  # [n], NaN for a failed evaluation
    pending: np.ndarray  # [p] int, each row once

    @property
    def observed(self) -> np.ndarray:
        """[n] bool, evaluations that have a value."""
        return ~np.isnan(self.values)


def checked(candidates: Any, arms: Any, values: Any, pending: Any, scaling: bool) -> Data:
    """The arrays as `Data`. Raises ValueError for what `suggest` says it does."""
    checks.truth(scaling=scaling)
    features: Any = _features(candidates)
    checks.arm_numbers(Arms(features), arms=arms, pending=pending)
    # an empty list has no integer dtype of its own
    arms, pending = np.asarray(arms).astype(int), np.unique(np.asarray(pending)).astype(int)
    values = _values(values, arms)
    return Data(standardized(features) if scaling else features, arms, values, pending)


def _features(candidates: Any) -> np.ndarray:
    features = np.asarray(checks.real("candidates", candidates), float)
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


def power_of_two(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The power of two at the largest of the values (1 for zeros and for none): divided by it,
    which rounds nothing, they can be squared."""
    largest = np.abs(values).max(axis, initial=0.0)
    return np.where(largest > 0, np.exp2(np.frexp(largest)[1] - 1.0), 1.0)


def standardized(features: np.ndarray) -> np.ndarray:
    """Features [A,d] with mean 0 and standard deviation 1 in every column. Raises ValueError for a
    constant column."""
    constant = np.flatnonzero(np.ptp(features, axis=0) == 0)
    if len(constant):
        column = constant[0]
        raise ValueError(
            f"column {column} of the candidates is {features[0, column]:g} in every row: it says"
            " nothing and cannot be scaled. Leave it out."
        )
    features = features / power_of_two(features, axis=0)
    return (features - features.mean(0)) / features.std(0)


def padded(size: int) -> int:
    """The next of 64, 96, 128, 192, 256, ...: few sizes to compile; of all but the first at most a
    third is padding."""
    power = 1 << max(size - 1, 0).bit_length()
    return max(SMALLEST_SIZE, 3 * power // 4 if 4 * size <= 3 * power else power)


def lengthened(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows [n, ...], n > 0, with the last one repeated up to `size` of them."""
    return np.concatenate([rows, np.broadcast_to(rows[-1:], (size - len(rows), *rows.shape[1:]))])
