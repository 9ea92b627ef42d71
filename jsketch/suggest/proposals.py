"""The next points of a search over a `Space`, or over a list of candidates.

The first points are a design: a Latin hypercube of the space (McKay, Beckman, Conover.
Technometrics 1979), or random candidates of the list. Then a Gaussian process is fitted to the
values, and `suggest` chooses the candidates with the largest expected improvement. A space has new
candidates in every round: half of them are uniform, and half differ from one of the best points in
some of its hyperparameters. A failed evaluation gets the worst value so far.

Larger values are better here. A point is a vector of the unit cube, or the index of a candidate.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks
from jsketch.box.space import SIDE, Category, Space
from jsketch.suggest.acquisitions import ExpectedImprovement
from jsketch.suggest.batch import suggest
from jsketch.suggest.data import Library, check_data, power_of_two
from jsketch.suggest.mixed import Columns, spread
from jsketch.suggest.model import Model, fit_data

CANDIDATES = 1024  # smallest number of candidates of a space in a round
# the design has EXTRA_INITIAL more points than there are hyperparameters, but at most MAX_INITIAL
EXTRA_INITIAL, MAX_INITIAL = 3, 10
# Half of the new candidates are copies of one of the BEST_POINTS best points, in which each
# hyperparameter changes with probability CHANGE_PROBABILITY: a category to a random one, a number
# by a normal draw whose standard deviation is one of CHANGE_SCALES, in units of the range.
BEST_POINTS, CHANGE_PROBABILITY, CHANGE_SCALES = 4, 0.5, (0.3, 0.1, 0.03, 0.01)
MAX_LEVELS = 1000  # of a category of a list; each level is a column of zeros and ones
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
REFIT_GROWTH = 1.2  # the model is refitted when the number of values has grown by this factor


class CandidateSet(NamedTuple):
    """The library of one round. Its first rows are the evaluated and the pending points."""

    library: Library  # of A candidates
    points: np.ndarray  # [A, ...]
    excluded: np.ndarray  # [e] int, rows that repeat an earlier row


class SpaceDomain:
    """The points [d] of the unit cube, which a space decodes to hyperparameters. Integers and
    categories lie in the middle of their intervals, so that equal candidates are equal points."""

    def __init__(self, space: Space):
        self.space = space
        self.columns = tuple(
            Columns("category", h.count) if isinstance(h, Category) else Columns("numbers", 1)
            for h in space.hyperparameters
        )

    def design(self, count: int, random: np.random.Generator) -> np.ndarray:
        """`count` initial points, or fewer if some of them coincide."""
        d = len(self.columns)
        order = random.permuted(np.tile(np.arange(count), (d, 1)), axis=1).T
        points = self.centre((order + random.random((count, d))) / count)
        return points[np.sort(self._first_rows(points))]

    def draw(
        self, points: np.ndarray, best: np.ndarray, random: np.random.Generator
    ) -> CandidateSet:
        """The candidates of a round: the evaluated and pending `points`, whose rows `best` have the
        largest values, and random new points."""
        n_candidates = CANDIDATES
        while n_candidates < 2 * len(points):
            n_candidates *= 2
        shape = n_candidates - len(points), len(self.columns)
        new_points = random.random(shape)
        if len(best):
            n_copies = shape[0] // 2
            origin = points[random.choice(best, n_copies)]
            scale = random.choice(CHANGE_SCALES, (n_copies, 1))
            moved = np.clip(origin + scale * random.standard_normal(origin.shape), 0, 1)
            is_category = [group.kind == "category" for group in self.columns]
            moved = np.where(is_category, new_points[:n_copies], moved)
            is_changed = random.random(origin.shape) < CHANGE_PROBABILITY
            new_points[:n_copies] = np.where(is_changed, moved, origin)
        points = np.concatenate([points.reshape(-1, shape[1]), self.centre(new_points)])
        repeated_rows = np.setdiff1d(np.arange(n_candidates), self._first_rows(points))
        return CandidateSet(self._library(points), points, repeated_rows)

    def has_point(self, coordinates: Any) -> bool:
        """Whether coordinates, read from a file, are those of a point."""
        try:
            point = np.asarray(coordinates, float)
        except (ValueError, TypeError):
            return False
        return point.shape == (len(self.columns),) and bool(((point >= 0) & (point <= 1)).all())

    def candidate(self, point: np.ndarray) -> dict[str, Any]:
        """The argument of the objective at a point."""
        return self.space.decode(SIDE * point)

    def point(self, values: dict[str, Any]) -> np.ndarray:
        """The point of these hyperparameters, {name: value}."""
        return self.centre(self.space.encode(values)[None] / SIDE)[0]

    def _first_rows(self, points: np.ndarray) -> np.ndarray:
        """The first row of each candidate among the points."""
        points = points.copy()
        for column, h in zip(points.T, self.space.hyperparameters, strict=True):
            if getattr(h, "is_coarse", False):  # different points may be the same number
                column[:] = [h.decode(unit) for unit in column]
        return np.unique(points, axis=0, return_index=True)[1]

    def centre(self, points: np.ndarray) -> np.ndarray:
        """Points with integers and categories in the middle of their intervals."""
        points = points.copy()
        for column, hyperparameter in zip(points.T, self.space.hyperparameters, strict=True):
            if hasattr(hyperparameter, "centred"):
                column[:] = hyperparameter.centred(column)
        return points

    def _library(self, points: np.ndarray) -> Library:
        parts = []
        for column, group in zip(points.T, self.columns, strict=True):
            if group.kind == "category":
                parts.append(np.eye(group.width)[(column * group.width).astype(int)])
            else:
                parts.append(column[:, None])
        return _library_of_parts(parts, self.columns)


class ListDomain:
    """The indices of a list. Its candidates are dicts or tuples of one length, numbers, texts, or
    the rows of an array or a DataFrame. A part whose values are all numbers, or all dates, is a
    number (`numbers_of`); other parts are categories. Raises ValueError for a missing value of a
    DataFrame and for NaN; None in a list is one of the categories."""

    def __init__(self, candidates: Any):
        if hasattr(candidates, "isna"):
            _check_present(candidates)
        if hasattr(candidates, "columns"):
            candidates = candidates.to_dict("records")
        self.space = list(candidates)
        if not self.space:
            raise ValueError("the list of candidates is empty.")
        # the elements of a JAX array are arrays, which are slow to read one by one
        is_array = isinstance(candidates, jax.Array) and checks.is_real(candidates.dtype)
        rows = np.asarray(candidates) if is_array else self.space
        self.library = _library_of_list([_parts_by_name(candidate) for candidate in rows])
        self.columns = self.library.columns

    def design(self, count: int, random: np.random.Generator) -> np.ndarray:
        return random.permutation(len(self.space))[:count]

    def draw(
        self, points: np.ndarray, best: np.ndarray, random: np.random.Generator
    ) -> CandidateSet:
        indices = np.arange(len(self.space))
        rows = np.concatenate([points, np.setdiff1d(indices, points)]).astype(int)
        library = self.library._replace(features=self.library.features[rows])
        return CandidateSet(library, rows, excluded=indices[:0])

    def has_point(self, coordinates: Any) -> bool:
        """Whether coordinates, read from a file, are those of a point."""
        return type(coordinates) is int and 0 <= coordinates < len(self.space)

    def candidate(self, point: Any) -> Any:
        return self.space[int(point)]

    def point(self, value: Any) -> int:
        """The index of the first element that equals a value. Raises ValueError if none does."""
        parts = _parts_by_name(value)
        for index, candidate in enumerate(self.space):
            others = _parts_by_name(candidate)
            if parts.keys() == others.keys() and all(
                np.array_equal(parts[name], others[name]) for name in parts
            ):
                return index
        raise ValueError(f"{value!r} is not an element of the list of candidates.")


def _check_present(table: Any) -> None:
    """Raises ValueError for a missing value in a DataFrame, a Series or an array of pandas,
    in a column of any dtype, because pandas returns it as None, NaN, NaT or NA."""
    for row, *column in np.argwhere(np.asarray(table.isna())):
        where = f" in column {table.columns[column[0]]!r}" if column else ""
        raise ValueError(
            f"candidates must have no missing values; the value of row {row}{where} is missing."
            " Fill it in, with a text such as 'none' if it is a category."
        )


def _parts_by_name(candidate: Any) -> dict[Any, Any]:
    """The parts of a candidate, {name or position: value}."""
    if isinstance(candidate, dict):
        return candidate
    if isinstance(candidate, tuple | list) or np.ndim(candidate):
        return dict(enumerate(candidate))
    return {0: candidate}


def _library_of_list(candidates: list[dict[Any, Any]]) -> Library:
    """The library of candidates {name of a part: value}. Raises ValueError if their parts differ,
    and for numbers that are not finite."""
    features, columns = [np.zeros((len(candidates), 0))], []
    for index, candidate in enumerate(candidates):
        if candidate.keys() != candidates[0].keys():
            raise ValueError(
                "all candidates must have the same parts: candidate 0 has the parts"
                f" {list(candidates[0])}, candidate {index} has {list(candidate)}."
            )
    for name in candidates[0]:
        values = [_scalar(candidate[name]) for candidate in candidates]
        numbers = numbers_of(name, values)
        if numbers is not None:
            if not np.isfinite(numbers).all():
                bad = int(np.flatnonzero(~np.isfinite(numbers))[0])
                raise ValueError(
                    f"candidates must be finite; part {name!r} of candidate {bad} is"
                    f" {reprlib.repr(candidates[bad][name])}."
                )
            scaled = numbers / float(power_of_two(numbers))  # the range could overflow
            scaled = (scaled - scaled.min()) / (np.ptp(scaled) or 1.0)
            features.append(scaled[:, None])
            columns.append(Columns("numbers", 1))
        elif any(getattr(value, "ndim", 0) for value in values):
            raise ValueError(f"part {name!r} of a candidate is an array: use numbers or texts.")
        elif any(isinstance(value, float) and np.isnan(value) for value in values):
            bad = next(i for i, v in enumerate(values) if isinstance(v, float) and np.isnan(v))
            raise ValueError(
                f"candidates must have no missing values; part {name!r} of candidate {bad} is nan."
            )
        else:
            try:  # the index of the first value that is equal to v
                index_of = {v: i for i, v in reversed(list(enumerate(values)))}
                indices = [index_of[v] for v in values]
            except TypeError:  # a value without a hash
                indices = [values.index(v) for v in values]
            unique, levels = np.unique(indices, return_inverse=True)
            if len(unique) > MAX_LEVELS:
                raise ValueError(
                    f"part {name!r} of the candidates has {len(unique)} different values that are"
                    f" not numbers; at most {MAX_LEVELS} are possible. Use numbers instead."
                )
            features.append(np.eye(len(unique))[levels])
            columns.append(Columns("category", len(unique)))
    result = _library_of_parts(features, tuple(columns))
    return result._replace(spread=spread(result.features, result.columns))


def _scalar(value: Any) -> Any:
    """A number of NumPy or JAX, or an array of one number without axes, as a Python float or a
    NumPy scalar; other values are unchanged."""
    if not isinstance(value, np.ndarray | np.generic | jax.Array) or value.ndim:
        return value
    if jnp.issubdtype(value.dtype, jnp.floating):
        return float(value)  # NumPy does not count bfloat16 as a real number
    return np.asarray(value)[()] if checks.is_real(value.dtype) else value


def numbers_of(name: Any, values: list[Any]) -> np.ndarray | None:
    """The values [n] of part `name` of the candidates as floats, or None for a category. Numbers
    are

    - real numbers of any type: of Python, NumPy or JAX, Decimal and Fraction, but not bool;
    - dates, times with a date, and time differences of Python, pandas or NumPy, as the time since
      the first of them;
    - texts that are numbers as JSON writes them, such as "0.1", "-3" or "1e-4". Codes such as
      "007", in which a zero leads, are not such numbers.

    If one value of a part is not a number, such as None or "auto", the part is a category. Raises
    ValueError for a missing value of pandas (NaT or NA), and for dates that cannot be compared,
    such as those with and without a time zone.
    """
    for index, value in enumerate(values):
        if type(value).__name__ in ("NaTType", "NAType"):
            raise ValueError(
                f"candidates must have no missing values; part {name!r} of candidate {index} is"
                f" {value}."
            )

    def all_are(*types: type) -> bool:
        return all(isinstance(v, types) and not isinstance(v, bool) for v in values)

    try:
        if all_are(np.datetime64) or all_are(np.timedelta64):
            times = np.array(values)  # in one unit
            since = (times - times[0]).astype("timedelta64").astype(float)
            return np.where(np.isnat(times), np.nan, since)
        if all_are(date):
            values = [v - values[0] for v in values]
        if all_are(timedelta):
            return np.array([v / timedelta(microseconds=1) for v in values], float)
    except TypeError as error:
        raise ValueError(
            f"the dates of part {name!r} of the candidates cannot be compared: {error}."
        ) from error
    if all_are(Integral):
        least = int(min(values))  # the differences of large integers are exact
        return np.array([_float(int(v) - least) for v in values])
    if all_are(RealNumber, Decimal):
        return np.array([_float(v) for v in values])
    if all_are(str) and all(map(JSON_NUMBER.fullmatch, values)):
        return np.asarray(values, float)
    return None


def _float(number: Any) -> float:
    """The number as a float, infinite if it is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return np.inf
    except ValueError:  # a signaling NaN of Decimal
        return np.nan


def _library_of_parts(parts: list[np.ndarray], columns: tuple[Columns, ...]) -> Library:
    dtype = jax.dtypes.canonicalize_dtype(float)
    return Library(jnp.asarray(np.hstack(parts), dtype), columns)


Domain = SpaceDomain | ListDomain


def domain_of(space: Any) -> Domain:
    """The domain of a space or a list. Raises ValueError for other arguments."""
    if isinstance(space, Space):
        return SpaceDomain(space)
    is_list = hasattr(space, "__len__") and getattr(space, "ndim", 1) > 0
    if isinstance(space, str | dict | type) or not is_list:
        raise ValueError(
            "space must be a Space, such as Space(depth=(1, 12, int)), or a list of candidates;"
            f" {space!r} was given."
        )
    return ListDomain(space)


def n_initial_points(domain: Domain) -> int:
    """The number of points of the design of a domain."""
    return min(EXTRA_INITIAL + len(domain.columns), MAX_INITIAL)


class Proposer:
    """Proposes points of a domain: first `n_initial` points of a design, then those that `suggest`
    chooses. Runs with the same seed and values propose the same points."""

    def __init__(self, domain: Domain, seed: int, n_initial: int):
        self.domain, self.seed = domain, seed
        self.design = domain.design(n_initial, np.random.default_rng([seed, 0]))
        self._models: dict[int, Model] = {}  # {number of values: the model fitted to them}

    def propose(
        self,
        points: Sequence[Any],
        values: Sequence[float],
        pending: Sequence[Any],
        count: int,
        index: int,
    ) -> list[Any]:
        """`count` new points, or fewer if the domain has no more, given the evaluated `points` with
        their `values` (NaN for a failed evaluation) and the `pending` points. `index` is the index
        of the first new point in the run; the random choices depend on it."""
        used = [*points, *pending]
        unused = [p for p in self.design[index:] if not any(np.array_equal(p, u) for u in used)]
        if unused:
            return unused[:count]
        n, n_used = len(points), len(used)
        y = np.asarray(values, float)
        random = np.random.default_rng([self.seed, index, 1])
        succeeded = np.flatnonzero(~np.isnan(y))
        best = succeeded[np.argsort(-y[succeeded], kind="stable")][:BEST_POINTS]
        candidates = self.domain.draw(np.asarray(used), best, random)
        # only new rows count: `excluded` also has evaluated points that repeat each other
        n_new = len(np.setdiff1d(np.arange(n_used, len(candidates.points)), candidates.excluded))
        if n_new <= 0:
            return []
        suggestion = suggest(
            candidates.library,
            np.arange(n),
            _replace_failures(y),
            pending=np.arange(n, n_used),
            exclude=candidates.excluded,
            batch=min(count, n_new),
            acquisition=ExpectedImprovement(),
            model=self._model(candidates.library, y),
            key=jax.random.fold_in(jax.random.key(self.seed), index),
        )
        return list(candidates.points[suggestion.rows])

    def _model(self, library: Library, values: np.ndarray) -> Model:
        """The model fitted to the first n values, where n is the last number of values at which
        it was refitted (REFIT_GROWTH)."""
        model: Model | None = None
        n = min(len(self.design), len(values))
        while model is None or n <= len(values):
            if n not in self._models:
                y = _replace_failures(values[:n])
                data = check_data(library, None, np.arange(n), y, pending=(), scaling=True)
                self._models[n] = fit_data(data, lengthscale=None, key=None, start=model)
            model, n = self._models[n], max(n + 1, int(n * REFIT_GROWTH))
        return model


def _replace_failures(values: np.ndarray) -> np.ndarray:
    """The values with the worst one in place of NaN, unless all are NaN."""
    failed = np.isnan(values)
    return values if failed.all() else np.where(failed, values[~failed].min(), values)
