"""Named hyperparameters (reals, integers, categories) as points of [0,10]^d.

In GO-UCB's mapping (Liu, Wang. ICML 2023, Appendix D.2) each hyperparameter has one input in
[0,10]. Reals are mapped linearly, and each integer or category has an interval of the same length.
The logarithmic scale is not in the paper. `minimize` and `drive` use a space on the host:

    space = Space(learning_rate=(1e-4, 1.0, "log"), depth=(1, 8, int), loss=["a", "b"])
    objective = space.objective(lambda h: train(h["learning_rate"], h["depth"], h["loss"]))
    run = drive(GPBandit(), objective, space.box, jax.random.key(0), horizon=30)
    space.decode(run.best[0])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jsketch import checks, struct
from jsketch.types import Box, is_traced

SIDE = 10.0  # the length of the box in each input
MARGIN = 1e-6  # the least distance of decoded values from open ends, as a share of the range
# The least number of steps of a range, in units of its rounding error: the margin of an open range
# is then above the rounding error, and random points rarely decode to the same number.
MIN_STEPS = 2.0**24
FINE_STEPS = 2.0**45  # with at least so many, random points practically never do
# the least width of the interval of an integer on a logarithmic scale, in rounding errors
INTERVAL_STEPS = 16


class Hyperparameter(Protocol):
    """A named hyperparameter with maps from [0,1] to its values and back. `encode` raises
    ValueError for other values."""

    @property
    def name(self) -> str: ...

    def decode(self, unit: float) -> Any: ...

    def encode(self, value: Any) -> float: ...


@struct.checked_names
@dataclass(frozen=True)
class Real:
    """A number from low to high on a linear scale, or on a logarithmic one with log=True. With
    open=True the ends are excluded: decoded values are at least a millionth of the range away from
    them. Raises ValueError unless low < high are finite and, with log=True, low > 0; and for a
    range with fewer than 2^24 different numbers in float64, such as (1e16, 1e16 + 1000)."""

    name: str
    low: float
    high: float
    log: bool = False
    open: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            given = getattr(self, name)
            end = _python_number(given)
            if not _is_number(end) or not math.isfinite(_as_float(end)):
                raise ValueError(
                    f"{self.name}: low and high must be finite numbers; {_short(given)} was given."
                )
            object.__setattr__(self, name, end)
        _check_range(self, log_allowed=self.low > 0, log_condition="low > 0")
        if self.log and float(self.low) < sys.float_info.min:
            raise ValueError(
                f"{self.name}: a logarithmic scale needs low >= {sys.float_info.min:.4g}, below"
                f" which float64 loses digits; {self.low!r} was given."
            )
        if self._steps < MIN_STEPS:
            raise ValueError(
                f"{self.name}: the range from {self.low!r} to {self.high!r} has too few different"
                " numbers in float64. Search over the difference from low, or a list of choices."
            )

    @property
    def is_coarse(self) -> bool:
        """Whether two random points may decode to the same number."""
        return self.open or self._steps < FINE_STEPS

    @property
    def _steps(self) -> float:
        """The length of the range in rounding errors."""
        steps = _n_steps(float(self.low), float(self.high))
        return min(steps, _n_steps(*self._ends())) if self.log else steps

    def decode(self, unit: float) -> float:
        """The value at the point `unit` of [0,1]."""
        share, (low, high) = self._clip(unit), self._ends()
        scaled = (1 - share) * low + share * high
        # an exponential of more than the logarithm of `high` could overflow
        value = math.exp(min(scaled, high)) if self.log else scaled
        return min(max(value, float(self.low)), float(self.high))

    def encode(self, value: Any) -> float:
        """The point of [0,1] that decodes to the value. Raises ValueError outside the range."""
        number = _python_number(value)
        is_inside = _is_number(number) and (
            self.low < number < self.high if self.open else self.low <= number <= self.high
        )
        if not is_inside:
            ends = f"({self.low}, {self.high})" if self.open else f"[{self.low}, {self.high}]"
            raise ValueError(f"{self.name} must be a number in {ends}; {value!r} was given.")
        low, high = self._ends()
        # without the divisions by 2, the difference of large floats would overflow
        return self._clip((self._scale(number) / 2 - low / 2) / (high / 2 - low / 2))

    def _ends(self) -> tuple[float, float]:
        return self._scale(self.low), self._scale(self.high)

    def _scale(self, value: float) -> float:
        return math.log(value) if self.log else float(value)

    def _clip(self, unit: float) -> float:
        margin = MARGIN if self.open else 0.0
        return min(max(unit, margin), 1 - margin)


@struct.checked_names
@dataclass(frozen=True)
class Integer:
    """An integer from low to high, both included. All values have intervals of the same length or,
    with log=True, intervals from value - 1/2 to value + 1/2 on a logarithmic scale. Raises
    ValueError unless low < high are integers and, with log=True, low >= 1; for integers that are
    not finite in float64; and for a logarithmic scale on which float64 cannot tell the integers
    apart, such as that of (10**17, 10**17 + 5). An optimiser can propose only about 2^52 different
    integers, and 2^23 in float32."""

    name: str
    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            given = getattr(self, name)
            end = _python_number(given)
            if not _is_integer(end):
                raise ValueError(
                    f"{self.name}: low and high must be integers; {given!r} was given."
                )
            if not math.isfinite(2 * _as_float(end)):
                raise ValueError(
                    f"{self.name}: low and high must lie between -2^1023 and 2^1023, the range of"
                    f" float64; {_short(end)} was given."
                )
            object.__setattr__(self, name, end)
        _check_range(self, log_allowed=self.low >= 1, log_condition="low >= 1")
        if self.log:
            low, high = self._log_ends()
            is_distinct = INTERVAL_STEPS * math.ulp(high) * int(self.high) <= 1
            if not is_distinct and _n_steps(low, high) < MIN_STEPS:
                raise ValueError(
                    f"{self.name}: the logarithms of the integers from {self.low} to {self.high}"
                    ' are too close for float64. Use a linear scale, without "log".'
                )

    def decode(self, unit: float) -> int:
        """The value whose interval contains `unit`; 1 belongs to the last interval."""
        if self.log:
            low, high = self._log_ends()
            value = round(math.exp(min(low + unit * (high - low), high)))
            return min(max(value, int(self.low)), int(self.high))
        return int(self.low) + _interval(unit, self.count)

    def encode(self, value: Any) -> float:
        """A point of the value's interval; without log, the middle. Raises ValueError unless the
        value is an integer from low to high."""
        number = _python_number(value)
        if not _is_integer(number) or not self.low <= number <= self.high:
            raise ValueError(
                f"{self.name} must be an integer in [{self.low}, {self.high}]; {value!r} was given."
            )
        if self.log:
            low, high = self._log_ends()
            return (math.log(int(number)) - low) / (high - low)
        return (int(number) - int(self.low) + 0.5) / self.count

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self.high) - int(self.low) + 1

    def centred(self, units: np.ndarray) -> np.ndarray:
        """`encode` of the value at each of the points `units` [n] of [0,1]."""
        if not self.log:
            return _centred(units, self.count)
        low, high = self._log_ends()
        values = np.rint(np.exp(np.minimum(low + units * (high - low), high)))
        return (np.log(np.clip(values, float(self.low), float(self.high))) - low) / (high - low)

    def _log_ends(self) -> tuple[float, float]:
        return math.log(int(self.low) - 0.5), math.log(int(self.high) + 0.5)


@struct.checked_names
@dataclass(frozen=True)
class Category:
    """One of several choices (strings, numbers, True, False, None), which have intervals of the
    same length. Raises ValueError without choices and for a duplicate; 1 and True are equal."""

    name: str
    choices: Sequence[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.choices, list | tuple) or not self.choices:
            raise ValueError(
                f"{self.name}: choices must be a tuple or a list of at least one choice;"
                f" {self.choices!r} was given."
            )
        for position, choice in enumerate(self.choices):
            if getattr(choice, "ndim", 0):
                raise ValueError(f"{self.name}: a choice is an array: use a name in its place.")
            if choice in self.choices[:position]:
                raise ValueError(
                    f"{self.name}: the choice {choice!r} is given twice in {self.choices}."
                )
        object.__setattr__(self, "choices", tuple(self.choices))

    def decode(self, unit: float) -> Any:
        """The choice whose interval contains `unit`; 1 belongs to the last interval."""
        return self.choices[_interval(unit, self.count)]

    def encode(self, value: Any) -> float:
        """The middle of the interval of a choice. Raises ValueError for other values."""
        if value not in self.choices:
            raise ValueError(f"{self.name} must be one of {self.choices}; {value!r} was given.")
        return (self.choices.index(value) + 0.5) / self.count

    @property
    def count(self) -> int:
        """The number of choices."""
        return len(self.choices)

    def centred(self, units: np.ndarray) -> np.ndarray:
        """The middles of the intervals that contain the points `units` of [0,1]."""
        return _centred(units, self.count)


@dataclass(frozen=True, init=False)
class Space:
    """Named hyperparameters in the order of the inputs. They are given by name,

    Example:

        Space(
            momentum=(0.0, 0.99),               # a number
            learning_rate=(1e-4, 1e-1, "log"),  # a number, on a logarithmic scale
            depth=(1, 12, int),                 # an integer; (1, 1000, int, "log") for large ranges
            booster=["gbtree", "dart"],         # one of a list
        )

    or as objects, `Space(Real("momentum", 0.0, 0.99), ...)`. Raises ValueError without
    hyperparameters, for other objects and ranges, and for duplicate names.
    """

    hyperparameters: tuple[Hyperparameter, ...]

    def __init__(self, *hyperparameters: Hyperparameter, **ranges: Any) -> None:
        hyperparameters += tuple(_from_range(name, value) for name, value in ranges.items())
        if not hyperparameters:
            raise ValueError("a space needs at least one hyperparameter; none was given.")
        names: list[str] = []
        for h in hyperparameters:
            if isinstance(h, type) or not (hasattr(h, "decode") and hasattr(h, "encode")):
                raise ValueError(
                    "a space has ranges by name, Space(depth=(1, 12, int)) or Space(**ranges), or"
                    f" hyperparameters, Space(Real(...), ...); {h!r} was given."
                )
            if not isinstance(h.name, str) or not h.name:
                raise ValueError(
                    f"the name of a hyperparameter must be a string; {h.name!r} was given."
                )
            if h.name in names:
                raise ValueError(f"two hyperparameters have the name {h.name!r}.")
            names.append(h.name)
        object.__setattr__(self, "hyperparameters", hyperparameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(h.name for h in self.hyperparameters)

    @property
    def box(self) -> Box:
        """[0,10]^d, in JAX's default floating point dtype."""
        d = len(self.hyperparameters)
        return Box(jnp.zeros(d), jnp.full(d, SIDE))

    def decode(self, x: ArrayLike) -> dict[str, Any]:
        """The hyperparameters by name at a point x [d]. Raises ValueError for another shape and for
        a point outside the box."""
        point = np.asarray(checks.real("x", x), float)
        if point.shape != (len(self.hyperparameters),):
            raise ValueError(
                f"x must have one number for each of {', '.join(self.names)}, shape"
                f" ({len(self.hyperparameters)},); its shape is {point.shape}."
            )
        for name, value in zip(self.names, point, strict=True):
            if not 0 <= value <= SIDE:
                raise ValueError(f"x must be in [0, {SIDE:g}]; its value for {name} is {value}.")
        return {
            h.name: h.decode(float(value) / SIDE)
            for h, value in zip(self.hyperparameters, point, strict=True)
        }

    def encode(self, values: Mapping[str, Any]) -> np.ndarray:
        """The point x [d], float64, that decodes to values given by name in any order. Raises
        ValueError for missing or unknown names, and for values outside their ranges."""
        if not isinstance(values, Mapping):
            raise ValueError(
                f"hyperparameters must be a mapping from names, {{{self.names[0]!r}: ...}};"
                f" {values!r} was given."
            )
        unknown = [name for name in values if name not in self.names]
        missing = [name for name in self.names if name not in values]
        for problem, names in (("unknown", unknown), ("missing", missing)):
            if names:
                raise ValueError(
                    f"{problem} hyperparameters: {', '.join(map(str, names))}; the space has"
                    f" {', '.join(self.names)}."
                )
        return SIDE * np.array([h.encode(values[h.name]) for h in self.hyperparameters])

    def objective(self, function: Callable[[dict[str, Any]], Any]) -> Callable[[ArrayLike], Any]:
        """The objective x [d] -> function(hyperparameters), for `drive`."""
        return lambda x: function(self.decode(x))


def _from_range(name: str, value: Any) -> Hyperparameter:
    """The hyperparameter of an argument `name=value` of `Space`."""
    if isinstance(value, list):
        return Category(name, value)
    if isinstance(value, tuple) and 2 <= len(value) <= 4:
        low, high, *rest = value
        # at most one type and one "log", in any order
        types = [entry for entry in rest if entry != "log"]
        is_range = types in ([], [float], [int]) and len(rest) - len(types) <= 1
        if is_range and not isinstance(low, str | bool):
            return (Integer if types == [int] else Real)(name, low, high, log="log" in rest)
    raise ValueError(
        f'{name}: a range is (low, high), with int for integers and "log" for a logarithmic scale'
        f' after them, such as (1, 100, int, "log"), or a list of choices; {value!r} was given.'
    )


def _python_number(value: Any) -> Any:
    """A Decimal, a number of JAX or an array without axes as a number of Python; other values are
    unchanged."""
    if isinstance(value, Decimal):
        return math.nan if value.is_snan() else float(value)
    is_array = isinstance(value, np.ndarray | jax.Array) and not is_traced(value)
    return value.item() if is_array and value.ndim == 0 else value


def _is_number(value: Any) -> bool:
    """Whether the value is a real number of Python or NumPy, but no bool."""
    return isinstance(value, RealNumber) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    """Whether the value is an integer of Python or NumPy, but no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_float(value: Any) -> float:
    """The number as a float, infinite if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _short(number: Any) -> str:
    """The number in a message; Python may refuse to write an integer with thousands of digits."""
    if isinstance(number, Integral) and math.isinf(_as_float(number)):
        return f"an integer of {math.floor(math.log10(abs(int(number)))) + 1} digits"
    return repr(number)


def _n_steps(low: float, high: float) -> float:
    """The length of the interval, in units of the larger rounding error of its ends."""
    half = math.ulp(max(abs(low), abs(high))) / 2
    # halves, because the difference of large floats would overflow; the smallest ulp has no half
    return (high / 2 - low / 2) / half if half else high / math.ulp(0.0)


def _check_range(h: Real | Integer, *, log_allowed: bool, log_condition: str) -> None:
    """Raises ValueError unless low < high and, with log=True, `log_allowed`. `log_condition` is the
    condition in words, for the message."""
    if not h.low < h.high:
        raise ValueError(
            f"{h.name}: low must be below high; low = {h.low}, high = {h.high} was given."
        )
    if h.log and not log_allowed:
        raise ValueError(f"{h.name}: a logarithmic scale needs {log_condition}; {h.low} was given.")


def _interval(unit: float, count: int) -> int:
    """The index of the interval that contains `unit`, among `count` equal intervals of [0,1]."""
    return min(max(math.floor(unit * count), 0), count - 1)


def _centred(units: np.ndarray, count: int) -> np.ndarray:
    """The middles of those of `count` equal intervals of [0,1] that contain the points `units`."""
    return (np.clip(np.floor(units * count), 0, count - 1) + 0.5) / count
