"""The next points of a search over a `Space`, or over a list of candidates.

The first points are a design and need no compilation: a Latin hypercube of the space (McKay,
Beckman, Conover. Technometrics 1979), or random candidates of the list. Then a Gaussian process is
fitted to the values, and `suggest` chooses the candidates of the largest expected improvement. A
space has new candidates in every round: half of them are uniform, and half differ from one of the
best points in some of its hyperparameters. A failed evaluation has the worst value so far.

Larger values are better here. A point is a vector of the unit cube, or the number of a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real as RealNumber
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch.box.space import SIDE, Category, Space
from jsketch.suggest.acquisitions import ExpectedImprovement
from jsketch.suggest.batch import suggest
from jsketch.suggest.data import Library, check_data
from jsketch.suggest.mixed import Columns
from jsketch.suggest.model import Model, fit_data

CANDIDATES = 1024  # a space has at least so many candidates in a round
# the design has INITIAL more points than there are hyperparameters, at most MOST_INITIAL
INITIAL, MOST_INITIAL = 3, 10
# Half of the candidates are near one of the BEST best points: each hyperparameter changes with the
# probability CHANGED, by a normal number whose standard deviation is one of SCALES, in shares of
# its range.
BEST, CHANGED, SCALES = 4, 0.5, (0.3, 0.1, 0.03, 0.01)
GROWTH = 1.2  # the model is refitted when the number of values has grown by this factor


class Drawn(NamedTuple):
    """The library of one round. Its first rows are the evaluated and the pending points."""

    library: Library  # of A candidates
    points: np.ndarray  # [A, ...]
    excluded: np.ndarray  # [e] int, rows that repeat an earlier row


class OverSpace:
    """The points [d] of the unit cube that a space decodes. Integers and categories lie in the
    middle of their intervals, so that equal candidates are equal points."""

    def __init__(self, space: Space):
        self.space = space
        self.columns = tuple(
            Columns("category", one.count) if isinstance(one, Category) else Columns("numbers", 1)
            for one in space.hyperparameters
        )

    def design(self, count: int, random: np.random.Generator) -> np.ndarray:
        """`count` initial points, or fewer where there are no more."""
        d = len(self.columns)
        order = random.permuted(np.tile(np.arange(count), (d, 1)), axis=1).T
        points = self._centred((order + random.random((count, d))) / count)
        return points[np.sort(np.unique(points, axis=0, return_index=True)[1])]

    def draw(self, points: np.ndarray, best: np.ndarray, random: np.random.Generator) -> Drawn:
        """The candidates of a round after these points, of which `best` have the largest values."""
        size = CANDIDATES
        while size < 2 * len(points):
            size *= 2
        shape = size - len(points), len(self.columns)
        drawn = random.random(shape)
        if len(best):
            near = shape[0] // 2
            origin = points[random.choice(best, near)]
            scale = random.choice(SCALES, (near, 1))
            moved = np.clip(origin + scale * random.standard_normal(origin.shape), 0, 1)
            is_category = [group.kind == "category" for group in self.columns]
            moved = np.where(is_category, drawn[:near], moved)
            changed = random.random(origin.shape) < CHANGED
            drawn[:near] = np.where(changed, moved, origin)
        every = np.concatenate([points, self._centred(drawn)])
        first = np.unique(every, axis=0, return_index=True)[1]
        repeated = np.setdiff1d(np.arange(size), first)
        return Drawn(self._library(every), every, repeated)

    def candidate(self, point: np.ndarray) -> dict[str, Any]:
        """The argument of the objective at a point."""
        return self.space.decode(SIDE * point)

    def point(self, values: dict[str, Any]) -> np.ndarray:
        """The point of hyperparameters."""
        return self._centred(self.space.encode(values)[None] / SIDE)[0]

    def _centred(self, points: np.ndarray) -> np.ndarray:
        points = points.copy()
        for column, one in zip(points.T, self.space.hyperparameters, strict=True):
            if hasattr(one, "centred"):
                column[:] = one.centred(column)
        return points

    def _library(self, points: np.ndarray) -> Library:
        parts = []
        for column, one in zip(points.T, self.space.hyperparameters, strict=True):
            if isinstance(one, Category):
                parts.append(np.eye(one.count)[(column * one.count).astype(int)])
            else:
                parts.append(column[:, None])
        dtype = jax.dtypes.canonicalize_dtype(float)
        return Library(jnp.asarray(np.hstack(parts), dtype), self.columns)


class OverList:
    """The numbers of the candidates of a list: dicts or tuples of the same length, numbers, texts,
    or the rows of an array or a DataFrame. Parts that are no numbers are categories."""

    def __init__(self, candidates: Any):
        if hasattr(candidates, "to_dict"):
            candidates = candidates.to_dict("records")
        self.space = list(candidates)
        if not self.space:
            raise ValueError("the list of candidates is empty.")
        self.library = _library_of([_cells(one) for one in self.space])
        self.columns = self.library.columns

    def design(self, count: int, random: np.random.Generator) -> np.ndarray:
        return random.permutation(len(self.space))[:count]

    def draw(self, points: np.ndarray, best: np.ndarray, random: np.random.Generator) -> Drawn:
        every = np.arange(len(self.space))
        rows = np.concatenate([points, np.setdiff1d(every, points)]).astype(int)
        library = self.library._replace(features=self.library.features[rows])
        return Drawn(library, rows, every[:0])

    def candidate(self, point: Any) -> Any:
        return self.space[int(point)]


def _cells(candidate: Any) -> dict[Any, Any]:
    """The parts of a candidate by name or position."""
    if isinstance(candidate, dict):
        return candidate
    if isinstance(candidate, tuple | list | np.ndarray) and np.ndim(candidate):
        return dict(enumerate(candidate))
    return {0: candidate}


def _library_of(rows: list[dict[Any, Any]]) -> Library:
    """The features of candidates. Raises ValueError where their parts differ, and for numbers that
    are not finite."""
    parts, columns = [np.zeros((len(rows), 0))], []
    for at, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise ValueError(
                f"all candidates must have the same parts: candidate 0 has the parts"
                f" {list(rows[0])}, candidate {at} has {list(row)}."
            )
    for name in rows[0]:
        cells = [row[name] for row in rows]
        if all(isinstance(one, RealNumber) and not isinstance(one, bool) for one in cells):
            numbers = np.asarray(cells, float)
            if not np.isfinite(numbers).all():
                at = int(np.flatnonzero(~np.isfinite(numbers))[0])
                raise ValueError(
                    f"candidates must be finite; part {name!r} of candidate {at} is {cells[at]}."
                )
            scaled = (numbers - numbers.min()) / (np.ptp(numbers) or 1.0)
            parts.append(scaled[:, None])
            columns.append(Columns("numbers", 1))
        else:
            # a cell may have no hash
            kinds = [one for at, one in enumerate(cells) if cells.index(one) == at]
            parts.append(np.eye(len(kinds))[[kinds.index(one) for one in cells]])
            columns.append(Columns("category", len(kinds)))
    dtype = jax.dtypes.canonicalize_dtype(float)
    return Library(jnp.asarray(np.hstack(parts), dtype), tuple(columns))


Domain = OverSpace | OverList


def domain_of(space: Any) -> Domain:
    """The domain of a space or a list. Raises ValueError for other arguments."""
    if isinstance(space, Space):
        return OverSpace(space)
    if isinstance(space, str | dict | type) or not hasattr(space, "__len__"):
        raise ValueError(
            "space must be a Space, such as Space(depth=(1, 12, int)), or a list of candidates;"
            f" {space!r} was given."
        )
    return OverList(space)


def initial_points(domain: Domain) -> int:
    """The number of points of the design of a domain."""
    return min(INITIAL + len(domain.columns), MOST_INITIAL)


class Proposer:
    """Chooses points of a domain, after `initial` points of a design. The same seed, points and
    values give the same choice."""

    def __init__(self, domain: Domain, seed: int, initial: int):
        self.domain, self.seed = domain, seed
        self.start = domain.design(initial, np.random.default_rng([seed, 0]))
        self._models: dict[int, Model] = {}  # by the number of values

    def propose(
        self,
        points: Sequence[Any],
        values: Sequence[float],
        pending: Sequence[Any],
        count: int,
        number: int,
    ) -> list[Any]:
        """At most `count` new points, fewer where the domain has no more, after evaluated `points`
        with their values, NaN for a failed evaluation, and `pending` points. `number` is that of
        the first new point in the run; random choices depend on it."""
        before = [*points, *pending]
        if number < len(self.start):
            return list(self.start[number : number + count])
        observed = np.asarray(values, float)
        random = np.random.default_rng([self.seed, number, 1])
        succeeded = np.flatnonzero(~np.isnan(observed))
        best = succeeded[np.argsort(-observed[succeeded], kind="stable")][:BEST]
        drawn = self.domain.draw(np.asarray(before), best, random)
        left = len(drawn.points) - len(before) - len(drawn.excluded)
        if left <= 0:
            return []
        arms = np.arange(len(points))
        found = suggest(
            drawn.library,
            arms,
            _with_failures(observed),
            pending=np.arange(len(points), len(before)),
            exclude=drawn.excluded,
            batch=min(count, left),
            acquisition=ExpectedImprovement(),
            model=self._model(drawn.library, arms, observed),
            key=jax.random.fold_in(jax.random.key(self.seed), number),
        )
        return list(drawn.points[found.rows])

    def _model(self, library: Library, arms: np.ndarray, values: np.ndarray) -> Model:
        """The model of the first n values, where n is the last number at which it is refitted."""
        model: Model | None = None
        size = min(len(self.start), len(values))
        while model is None or size <= len(values):
            if size not in self._models:
                first = _with_failures(values[:size])
                data = check_data(library, None, arms[:size], first, (), True)
                self._models[size] = fit_data(data, None, None, model)
            model, size = self._models[size], max(size + 1, int(size * GROWTH))
        return model


def _with_failures(values: np.ndarray) -> np.ndarray:
    """The values with the worst one in place of NaN, where there is a value."""
    failed = np.isnan(values)
    return values if failed.all() else np.where(failed, values[~failed].min(), values)
