"""`suggest` with the interface of `skopt.Optimizer` of scikit-optimize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.optimize import OptimizeResult

from jsketch import checks
from jsketch.suggest import Library, library, suggest
from jsketch.suggest.adapters import check_options
from jsketch.suggest.data import LARGEST_VALUE
from jsketch.suggest.mixed import Columns


class PoolOptimizer:
    """Minimises a function over the rows of `candidates`.

        optimizer = PoolOptimizer(candidates)
        x = optimizer.ask()
        result = optimizer.tell(x, f(x))  # result.x, result.fun, result.x_iters, result.func_vals

    candidates   [A, d] numbers; a point is one of the rows, as a list
    columns      kinds of the features, as in `suggest`; None: numbers
    random_state int, the seed of the random choices
    scaling      as in `suggest`
    options      further arguments of `suggest`: acquisition, exclude, same, ...

    `ask` returns the same points until the next `tell`. After this `tell`, the returned points that
    have no value are pending. NaN is a failed evaluation. Raises ValueError for points that are not
    candidates, and if no candidate is left.
    """

    def __init__(
        self,
        candidates: Any,
        columns: Sequence[Columns] | None = None,
        *,
        random_state: int = 0,
        scaling: bool = True,
        **options: Any,
    ):
        if isinstance(candidates, Library):
            raise ValueError(
                "candidates must be a matrix, whose rows are the points; a Library was given, whose"
                " features are scaled."
            )
        check_options(options)
        self.library = library(candidates, columns, scaling=scaling)
        self.points = np.asarray(candidates, float).tolist()
        self.key = checks.one_key(key=jax.random.key(random_state))
        self.options = options
        self.rows: list[int] = []
        self.yi: list[float] = []
        self._pending: list[int] = []
        self._asked: dict[int, list[int]] = {}  # {size of a batch: its rows}
        self._rows_of: dict[tuple[float, ...], list[int]] = {}
        for row, point in enumerate(self.points):
            self._rows_of.setdefault(tuple(point), []).append(row)

    @property
    def Xi(self) -> list[list[float]]:
        """The points that were evaluated."""
        return [self.points[row] for row in self.rows]

    def ask(self, n_points: int | None = None) -> list[Any]:
        """The next point, or a list of `n_points`."""
        count = 1 if n_points is None else n_points
        if count not in self._asked:
            suggestion = suggest(
                self.library,
                self.rows,
                [-y for y in self.yi],
                pending=self._pending,
                batch=count,
                key=jax.random.fold_in(self.key, len(self.rows)),
                **self.options,
            )
            self._asked[count] = suggestion.rows.tolist()
        points = [self.points[row] for row in self._asked[count]]
        return points[0] if n_points is None else points

    def tell(self, x: Any, y: Any) -> OptimizeResult:
        """Adds the value y of a point x, or the values of points; returns the result so far."""
        numbers = np.asarray(checks.real("y", y), float)
        if numbers.ndim > 1:
            raise ValueError(f"y must be one number or a list; its shape is {numbers.shape}.")
        points, numbers = (list(x), numbers) if numbers.ndim else ([x], numbers[None])
        if len(points) != len(numbers):
            raise ValueError(f"there are {len(points)} points and {len(numbers)} values.")
        if (np.abs(numbers) > LARGEST_VALUE).any():
            raise ValueError(
                f"y must be finite, at most {LARGEST_VALUE:g} in size, or NaN where the evaluation"
                " failed."
            )
        asked = [row for rows in self._asked.values() for row in rows]
        pending = list(dict.fromkeys([*self._pending, *asked]))
        rows = []
        for point in points:
            rows.append(self._row(point, pending))
            # the next identical point refers to another row
            pending = [row for row in pending if row != rows[-1]]
        self.rows += rows
        self.yi += numbers.tolist()
        self._pending, self._asked = pending, {}
        return self.get_result()

    def get_result(self) -> OptimizeResult:
        """All points and values, and x and fun of the best value (None and NaN without values)."""
        values = np.asarray(self.yi)
        best = None if np.isnan(values).all() else int(np.nanargmin(values))
        return OptimizeResult(
            x=None if best is None else self.Xi[best],
            fun=np.nan if best is None else float(values[best]),
            x_iters=self.Xi,
            func_vals=values,
        )

    def _row(self, point: Any, pending: list[int]) -> int:
        """The row of a point; of identical candidates, a pending one if there is any."""
        numbers = np.asarray(checks.real("x", point), float)
        rows = self._rows_of.get(tuple(np.ravel(numbers).tolist()), [])
        if not rows:
            raise ValueError(f"{numbers.tolist()} is not a row of the candidates.")
        return next((row for row in rows if row in pending), rows[0])
