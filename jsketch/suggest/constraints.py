"""What a laboratory asks of a batch beside good values: rows that are out, one value of a column,
costs and a budget, and distance from failures; checked, in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from jsketch import checks
from jsketch.suggest.acquisitions import ExpectedImprovement, Price
from jsketch.suggest.data import Data
from jsketch.types import Arms

ROUNDING = 1e-6  # of a budget, by which it may be exceeded


class Constraints(NamedTuple):
    """Of A candidates, on the host; None: there is none of the kind."""

    excluded: np.ndarray  # [e] int, rows
    label: np.ndarray | None  # [A] int, of G groups from 0 on: a batch is of one
    costs: np.ndarray | None  # [A], above 0
    exponent: float  # of the costs in a score
    left: float  # what the batch may cost; inf without a budget
    failures: bool  # failed evaluations lower the chance of their neighbourhood


class Groups(NamedTuple):
    """A batch is of one of G groups."""

    label: Array  # [A] int
    large: Array  # [G] bool, groups with enough candidates that may be picked


class Limits(NamedTuple):
    """`Constraints` as a compiled choice takes them; None: no program for it."""

    success: Array | None = None  # [A], the chance that an evaluation succeeds
    price: Price | None = None  # of all candidates
    groups: Groups | None = None


def checked(
    data: Data,
    exclude: Any,
    same: Any,
    costs: Any,
    budget: float | None,
    cost_exponent: float | None,
    failures: bool,
) -> Constraints:
    """Raises ValueError for what `suggest` says it does."""
    count = len(data.library.features)
    checks.arm_numbers(Arms(data.library.features), exclude=exclude)
    checks.truth(failures=failures)
    excluded = np.unique(np.asarray(exclude)).astype(int)
    label = None if same is None else _labels(same, count)
    if costs is None and (budget is not None or cost_exponent is not None):
        raise ValueError("a budget and a cost_exponent are of costs, and there are none: give them")
    if costs is None:
        return Constraints(excluded, label, None, 0.0, np.inf, failures)
    numbers = _costs(costs, count)
    exponent, left = 1.0, np.inf
    if budget is not None:
        checks.positive(budget=budget)
        spent = float(numbers[data.arms].sum() + numbers[data.pending].sum())
        left = float(budget) - spent
        out = np.concatenate([data.arms, data.pending, excluded])
        rest = np.delete(numbers, out)
        if rest.size and rest.min() > left + ROUNDING * float(budget):
            raise ValueError(
                f"of the budget of {budget:g} the evaluations made and pending cost {spent:g}:"
                f" {max(left, 0):g} is left, and the cheapest candidate costs {rest.min():g}."
            )
        exponent = max(left, 0.0) / float(budget)
        # ten times 0.1 is not 1: what fits but for rounding fits
        left += ROUNDING * float(budget)
    if cost_exponent is not None:
        checks.nonnegative(cost_exponent=cost_exponent)
        exponent = float(cost_exponent)
    return Constraints(excluded, label, numbers, exponent, left, failures)


def check_acquisition(constraints: Constraints, acquisition: Any) -> None:
    """Raises ValueError for an acquisition that does not know the constraints."""
    if constraints.costs is not None and not hasattr(acquisition, "per_cost"):
        raise ValueError(
            "costs divide an expected improvement: leave the acquisition out, or take"
            f" {ExpectedImprovement.__name__}(); {acquisition!r} was given."
        )
    if constraints.failures and not hasattr(acquisition, "with_failures"):
        raise ValueError(f"the acquisition {acquisition!r} has no with_failures: failures need it.")


def large(constraints: Constraints, free: np.ndarray, batch: int) -> np.ndarray | None:
    """[G] bool, the groups with a batch of candidates that are free [A], at least one that can
    be paid. Raises ValueError where there is none."""
    if constraints.label is None:
        return None
    groups = int(constraints.label.max()) + 1
    sizes = np.bincount(constraints.label[free], minlength=groups)
    if sizes.max() < batch:
        raise ValueError(
            f"batch = {batch} is more than any value of `same` has left: {sizes.max()} at most."
        )
    enough = sizes >= batch
    if constraints.costs is not None:
        paid = free & (constraints.costs <= constraints.left)
        enough = enough & (np.bincount(constraints.label[paid], minlength=groups) > 0)
        if not enough.any():
            raise ValueError(
                f"what is left of the budget pays for no candidate of a value of `same` that has"
                f" batch = {batch} left: ask for a smaller batch."
            )
    return enough


def _labels(same: Any, count: int) -> np.ndarray:
    values = np.asarray(same)
    if values.shape != (count,):
        raise ValueError(
            f"same must hold one value for each of the {count} candidates; its shape is"
            f" {values.shape}."
        )
    listed = values.tolist()
    for row, value in enumerate(listed):
        # a NaN, of floats or of dates, is not itself
        if value is None or value != value:
            raise ValueError(f"same has no value for candidate {row}: it is {value}.")
    try:
        return np.unique(values, return_inverse=True)[1].astype(np.int32)
    except TypeError as error:
        kinds = ", ".join(sorted({type(value).__name__ for value in listed}))
        raise ValueError(
            f"the values of same are of kinds that have no order, {kinds}: give numbers, or text."
        ) from error


def _costs(costs: Any, count: int) -> np.ndarray:
    numbers = np.asarray(checks.real("costs", costs), float)
    if numbers.shape != (count,):
        raise ValueError(
            f"costs must hold one number for each of the {count} candidates; their shape is"
            f" {numbers.shape}."
        )
    bad = np.flatnonzero(~((numbers > 0) & np.isfinite(numbers)))
    if len(bad):
        raise ValueError(
            f"costs must be finite numbers above 0; that of candidate {bad[0]} is"
            f" {numbers[bad[0]]}."
        )
    return numbers
