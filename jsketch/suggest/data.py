"""Checks, scaling and padding of the arrays that a suggestion is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, struct
from jsketch.kernels.table import Precomputed, check_table, index_features
from jsketch.show import short_repr
from jsketch.suggest.mixed import Columns, Mixed, check_columns, column_kinds, groups_of, spread
from jsketch.types import Arms

LARGEST_VALUE = 1e300  # predictions from larger values could overflow
# Squared distances times this factor must be finite: a Matern kernel multiplies them by 5, and the
# expansion of a square into a sum by 4.
DISTANCE_FACTOR = 64.0
LARGEST_ERROR = 1e6  # in units of the scale; a value with this error carries no information
MIN_VALUES = 2  # smallest number of values to which a model is fitted
MIN_CANDIDATES = 8  # smallest effective number of candidates in `weighted_moments`
MAX_ITERATIONS = 1000  # of the weights in `weighted_moments`
# The parts of a mixture are at least MIN_PARTS adjacent columns. As parts are rounded, their sums
# may differ by SUM_TOLERANCE times the smallest range of a part. Numbers above LARGEST_PART are no
# parts, and their sums could overflow. COMPARED_ROWS rows are compared before all rows are.
MIN_PARTS, SUM_TOLERANCE, LARGEST_PART, COMPARED_ROWS = 3, 0.05, 1e100, 16
MIN_SLOTS = 64  # smallest `padded_size`


class Library(NamedTuple):
    """A checked and scaled library of A candidates."""

    features: Array  # [A, d]
    columns: tuple[Columns, ...]  # the kinds of the features
    gram: Array | None = None  # [A, A], kernel values; None if the candidates have features
    # [L], the `mixed.spread` of the candidates, to which the prior of the lengthscales is adapted;
    # None: 1 for every lengthscale, for candidates that were not scaled
    spread: np.ndarray | None = None

    def __repr__(self) -> str:
        return short_repr(self)


class Data(NamedTuple):
    """A library of A candidates and its evaluations."""

    library: Library
    arms: np.ndarray  # [n] int, the candidate of each evaluation, failed ones included
    values: np.ndarray  # [n], NaN for a failed evaluation
    pending: np.ndarray  # [p] int, distinct candidates without an evaluation
    errors: np.ndarray  # [n], standard errors of the values; 0 for a failed evaluation

    @property
    def observed(self) -> np.ndarray:
        """[n] bool, evaluations with a value."""
        return ~np.isnan(self.values)

    def clipped(self, limits: tuple[float, float]) -> Data:
        """The data with values clipped to the limits."""
        return self._replace(values=np.clip(self.values, *limits))

    def standardized_values(
        self, centre: float, scale: float, fitted: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """(values, error variances) of the observed evaluations, as `standardize` returns them.
        `errors` are ignored unless the model is `fitted`."""
        errors = self.errors if fitted else np.zeros(len(self.errors))
        return standardize(self.values[self.observed], errors[self.observed], centre, scale)


class Moments(NamedTuple):
    """Weighted mean and standard deviation of m values, in units of the values."""

    centre: float
    deviation: float  # 0 if the values are equal up to rounding
    weight: np.ndarray  # [m], the weights of the values


@struct.checked_names
def library(
    candidates: Any = None,
    columns: Sequence[Columns] | None = None,
    *,
    gram: Any = None,
    scaling: bool = True,
) -> Library:
    """Checks and scales a library once, for many calls of `suggest`. The arguments are those of
    `suggest`; raises what `suggest` raises."""
    checks.boolean(scaling=scaling)
    if gram is not None:
        if candidates is not None or columns is not None:
            raise ValueError("give candidates with their columns, or their gram matrix, not both.")
        return _library_of_gram(gram)
    if candidates is None:
        raise ValueError("candidates [A, d], or their gram matrix [A, A], are needed.")
    if isinstance(candidates, Library):
        if columns is not None or not scaling:
            raise ValueError(
                "candidates are a Library, which already has columns and scaling: pass these"
                " arguments to library(...)."
            )
        return candidates
    features = _check_features(candidates)
    groups = (Columns("numbers", features.shape[1]),) if columns is None else columns
    groups = check_columns(groups, features.shape[1])
    # numbers may overflow JAX's floating dtype until they are scaled
    with np.errstate(over="ignore"):
        Mixed(np.ones(1), groups).check_inputs(features)
    if scaling:
        # The differences of square roots are those of Hellinger's distance between mixtures, in
        # which an absent part differs more from a small one than two large parts differ that are
        # as far apart (experiments/pools/README.md)
        for parts in mixtures(features, column_kinds(groups)[0] == "numbers"):
            features[:, parts] = np.sqrt(features[:, parts])
    for group in groups_of(groups):
        if group.kind == "numbers" and scaling:
            numbers = features[:, group.columns]
            features[:, group.columns] = scaled_to_unit(numbers, group.columns.start)
    dtype = jax.dtypes.canonicalize_dtype(float)
    bad = np.argwhere(np.abs(features) > jnp.finfo(dtype).max)
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"candidates must be finite in {dtype.name}; row {row}, column {column} is"
            f" {features[row, column]:g}. Scale them, or use float64 (jax_enable_x64)."
        )
    scaled = jnp.asarray(features, dtype)
    return Library(scaled, groups, spread=spread(scaled, groups) if scaling else None)


def _library_of_gram(gram: Any) -> Library:
    """The library of a kernel matrix [A, A], which is divided by the mean of its diagonal."""
    table = np.asarray(checks.real("gram", gram), float)
    check_table(table)
    diagonal = np.diagonal(table)
    if not (diagonal > 0).all():
        row = int(np.argmin(diagonal))
        raise ValueError(f"the diagonal of gram must be above 0; entry {row} is {diagonal[row]:g}.")
    dtype = jax.dtypes.canonicalize_dtype(float)
    scaled = jnp.asarray(table / diagonal.mean(), dtype)
    return Library(index_features(scaled), (), scaled)


def kernel_of(library: Library, lengthscale: Any) -> Any:
    """The kernel of a library: `Mixed` with lengthscales [L], or the given kernel matrix. Raises
    ValueError for a wrong number of lengthscales, and if squared distances are not finite."""
    features, columns, gram, _ = library
    dtype, length = features.dtype, np.asarray(lengthscale, float)
    Mixed(length, columns).check(features)
    if gram is not None:
        return Precomputed(gram)
    lowest, highest = (np.asarray(x, float) for x in (features.min(0), features.max(0)))
    kinds, length_index = column_kinds(columns)
    columns_of = np.unique(length_index, return_index=True)[1]  # first column of each lengthscale
    with np.errstate(over="ignore"):
        # the distance between two categories or two fingerprints is at most 1
        ranges = np.where(kinds[columns_of] == "numbers", (highest - lowest)[columns_of], 1)
        squared = np.square(ranges / length)
        total = squared.sum()
    if not total <= float(jnp.finfo(dtype).max) / DISTANCE_FACTOR:
        index = int(np.argmax(squared))
        column = columns_of[index]
        raise ValueError(
            f"squared distances of the candidates are not finite in {dtype.name}: the largest are"
            f" in column {column}, from {lowest[column]:g} to {highest[column]:g}, whose"
            f" lengthscale is {length[index]:g}. Scale the candidates, or use a larger"
            " lengthscale."
        )
    return Mixed(jnp.asarray(length, dtype), columns)


def check_data(
    candidates: Any,
    columns: Sequence[Columns] | None,
    arms: Any,
    values: Any,
    pending: Any,
    scaling: bool,
    errors: Any = None,
) -> Data:
    """The arguments of `suggest` as checked arrays. Raises what `suggest` raises."""
    checked_library = library(candidates, columns, scaling=scaling)
    checks.arm_numbers(Arms(checked_library.features), arms=arms, pending=pending)
    # an empty list becomes an array of floats
    arms, pending = np.asarray(arms).astype(int), np.asarray(pending).astype(int)
    values = check_vector(
        *("values", values, arms.size, "arms, NaN where the evaluation failed"),
        lambda numbers: ~(np.abs(numbers) > LARGEST_VALUE),
        f"at most {LARGEST_VALUE:g} in size, NaN where the evaluation failed",
    )
    failed = np.isnan(values)
    errors = np.zeros(arms.size) if errors is None else errors
    errors = check_vector(
        *("errors", errors, arms.size, "values"),
        lambda numbers: failed | (numbers >= 0) & (numbers <= LARGEST_VALUE),
        f"standard errors from 0 to {LARGEST_VALUE:g}",
    )
    # a candidate with an evaluation, even a failed one, is not pending
    pending = np.setdiff1d(pending, arms)
    return Data(checked_library, arms, values, pending, np.where(failed, 0, errors))


def _check_features(candidates: Any) -> np.ndarray:
    try:
        features = np.array(checks.real("candidates", candidates), float)
    except OverflowError as error:
        raise ValueError("candidates must be finite; one is too large for a float.") from error
    except ValueError as error:
        advice = "Write a category as one column of 0 and 1 for each of its values (`columns`)."
        raise ValueError(f"{error} {advice}") from error
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


def check_vector(
    name: str, value: Any, count: int, owners: str, is_valid: Callable[[np.ndarray], Any], rule: str
) -> np.ndarray:
    """The value as an array [count]. Raises ValueError for another shape, and for numbers that are
    not valid. In the messages, `name` is the name of the argument, `owners` names the things that
    the numbers belong to, and `rule` describes valid numbers."""
    numbers = np.asarray(checks.real(name, value), float)
    if numbers.shape != (count,):
        raise ValueError(
            f"{name} must hold one number for each of the {count} {owners}; their shape is"
            f" {numbers.shape}."
        )
    bad = np.flatnonzero(~is_valid(numbers))
    if len(bad):
        raise ValueError(f"{name} must be {rule}; number {bad[0]} is {numbers[bad[0]]}.")
    return numbers


def unavailable_candidates(
    count: int,
    arms: np.ndarray,
    values: np.ndarray,
    pending: np.ndarray,
    excluded: np.ndarray,
    replicates: bool,
) -> np.ndarray:
    """[A] bool for A = `count` candidates, those that may not be picked: the evaluated ones `arms`
    [n] (with `replicates`, only those whose value is NaN), the pending and the excluded ones."""
    unavailable = np.zeros(count, bool)
    done_arms = arms[np.isnan(values)] if replicates else arms
    for rows in (done_arms, pending, excluded):
        unavailable[rows] = True
    return unavailable


def outlier_limit(values: np.ndarray) -> float:
    """The limit to which smaller values are raised. It is twice as far below the median of the
    values [m] as the largest value is above the median. It is -inf if no value is above the median.

    Poor outliers, such as spikes of an energy, would make the fitted signal variance so large that
    the differences between good candidates would be lost.
    """
    median, best = np.median(values), values.max()
    return float(median - 2 * (best - median)) if best > median else -np.inf


def weighted_moments(values: np.ndarray, errors: np.ndarray, arms: np.ndarray) -> Moments:
    """Weighted mean and standard deviation of values [m] with standard errors [m] at arms [m].

    The weight of a value is proportional to 1 / (deviation^2 + error^2). Weights and deviation are
    iterated until they agree, but only while the effective number of candidates is at least
    max(2, min(MIN_CANDIDATES, half of all candidates)), because a few exact values among many with
    errors, or repeats of one candidate, do not measure the deviation of all values. The effective
    number is (sum w)^2 / sum w^2, where w is the largest weight of each candidate (Kish, 1965).
    """
    moments = _moments(values, np.ones(len(values)))
    candidate = np.unique(arms, return_inverse=True)[1]
    # if there is only one candidate, its repeats count as candidates
    candidate = candidate if candidate.any() else np.arange(len(values))
    count = int(candidate.max(initial=0)) + 1
    min_effective = max(MIN_VALUES, min(MIN_CANDIDATES, count / 2))
    for _ in range(MAX_ITERATIONS if errors.any() else 0):
        if moments.deviation == 0:
            break
        with np.errstate(over="ignore"):
            weight = 1 / (1 + np.square(errors / moments.deviation))
        largest_weight = np.zeros(count)
        np.maximum.at(largest_weight, candidate, weight)
        if largest_weight.sum() ** 2 < min_effective * np.square(largest_weight).sum():
            break
        previous, moments = moments, _moments(values, weight)
        if abs(moments.deviation - previous.deviation) <= 1e-9 * previous.deviation:
            break
    return moments


def _moments(values: np.ndarray, weight: np.ndarray) -> Moments:
    unit, share = float(power_of_two(values)), weight / weight.sum()
    centre = float(share @ (values / unit))
    residual = np.sqrt(share) * (values / unit - centre)
    # squares of tiny differences would underflow
    residual_unit = float(power_of_two(residual))
    deviation = residual_unit * float(np.sqrt(np.square(residual / residual_unit).sum()))
    rounding = 64 * np.finfo(float).eps * abs(centre)  # of the mean, with a margin
    return Moments(unit * centre, unit * deviation if deviation > rounding else 0.0, weight)


def standardize(
    values: np.ndarray, errors: np.ndarray, centre: float, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """(standardized values [m], variances [m] of their errors in units of scale^2). The values are
    (values - centre) / scale. If an error is above LARGEST_ERROR * scale, which could overflow the
    dtype of the features, the error and the value - centre are reduced by the same factor."""
    with np.errstate(over="ignore"):
        relative_error = np.minimum(errors / scale, LARGEST_ERROR)
        unit = np.maximum(scale, errors / LARGEST_ERROR)
        return (values - centre) / unit, np.square(relative_error)


def power_of_two(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The largest power of two that is at most the largest |value| (1 for zeros or no values).
    Division by it is exact, and the squares of the results do not overflow."""
    largest = np.abs(values).max(axis, initial=0.0)
    return np.where(largest > 0, np.exp2(np.frexp(largest)[1] - 1.0), 1.0)


def scaled_to_unit(features: np.ndarray, first: int = 0) -> np.ndarray:
    """Numbers [A,d] scaled to [0, 1] in every column. Raises ValueError for a constant column; in
    the message, the number of the first column is `first`."""
    features = features / power_of_two(features, axis=0)
    lowest, width = features.min(0), np.ptp(features, axis=0)
    constant = np.flatnonzero(width == 0)
    if len(constant):
        column = first + constant[0]
        raise ValueError(
            f"column {column} of the candidates has the same value in every row: it carries no"
            " information and cannot be scaled. Leave it out."
        )
    return (features - lowest) / width


def mixtures(features: np.ndarray, is_number: np.ndarray) -> list[slice]:
    """The runs of adjacent columns of features [A,d] that are the parts of a mixture: at least
    MIN_PARTS columns of numbers (`is_number` [d]), none below 0, whose sum is the same in every row
    up to rounding. Of runs that overlap, the longest one counts."""
    usable = is_number & (features >= 0).all(0) & (features.max(0) <= LARGEST_PART)
    if usable.sum() < MIN_PARTS:
        return []
    ranges = np.where(usable, np.ptp(features, axis=0), 0)
    # only runs whose sums agree in a few rows are summed in all rows
    few = np.where(usable, features[:: max(1, len(features) // COMPARED_ROWS)], 0)
    before = np.hstack([np.zeros((len(few), 1)), np.cumsum(few, axis=1)])
    least, runs = ranges, list[slice]()
    for length in range(2, len(usable) + 1):
        least = np.minimum(least[:-1], ranges[length - 1 :])  # smallest range in each run
        differences = np.ptp(before[:, length:] - before[:, :-length], axis=0)
        agree = (least > 0) & (differences <= SUM_TOLERANCE * least)
        if length >= MIN_PARTS:
            runs += [slice(begin, begin + length) for begin in np.flatnonzero(agree)]
    found, taken = list[slice](), np.zeros(len(usable), bool)
    for run in reversed(runs):
        is_constant = np.ptp(features[:, run].sum(1)) <= SUM_TOLERANCE * ranges[run].min()
        if is_constant and not taken[run].any():
            found.append(run)
            taken[run] = True
    return found


def padded_size(count: int) -> int:
    """The smallest of 64, 256, 512, 1024, ... that is at least `count`. A program is compiled once
    for each of these sizes, which takes seconds."""
    power = max(MIN_SLOTS, 1 << max(count - 1, 0).bit_length())
    return power if power != 2 * MIN_SLOTS else 4 * MIN_SLOTS


def padded_rows(
    rows: np.ndarray, never_empty: bool = False, at_most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, mask), both padded to `padded_size` slots, but to no more than `at_most` if the rows
    fit. Without rows there is no slot, unless `never_empty`."""
    length = padded_size(len(rows)) if len(rows) or never_empty else 0
    length = length if at_most is None or len(rows) > at_most else min(length, at_most)
    return zero_padded(rows, length), np.arange(length) < len(rows)


def zero_padded(values: np.ndarray, length: int) -> np.ndarray:
    """Values [n] followed by zeros, [length]."""
    return np.append(values, np.zeros(length - len(values), values.dtype))
