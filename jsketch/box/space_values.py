"""Values of hyperparameters: what they are, and which interval they belong to."""

from __future__ import annotations

import math
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any


def is_number(value: Any) -> bool:
    """A real number, also NumPy's; no bool."""
    return isinstance(value, RealNumber) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Neither infinite, nor NaN, nor beyond all floats."""
    try:
        return math.isfinite(value)
    except OverflowError:
        # an integer that no float can hold
        return False


def is_same(choice: Any, value: Any) -> bool:
    """Equal, or both NaN, which is not equal to itself. What cannot be compared, such as an array,
    is nothing's equal."""
    try:
        return bool(choice is value or choice == value or (choice != choice and value != value))
    except (TypeError, ValueError):
        return False


def is_integer(value: Any) -> bool:
    """A whole number, also NumPy's; no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_order(name: str, low: float, high: float) -> None:
    """Raises ValueError unless low < high, the ends of the hyperparameter of that name."""
    if not low < high:
        raise ValueError(f"{name}: low must be below high; low = {low}, high = {high} was given.")


def interval(unit: float, count: int) -> int:
    """Which of `count` equal intervals of [0,1] unit is in."""
    return min(max(math.floor(unit * count), 0), count - 1)
