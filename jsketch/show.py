"""Short texts of values: arrays by dtype and shape, functions by name.

`struct.dataclass` makes `short_repr` the repr of its classes, in at most LINES lines. A class with
a method `summary`, which returns {name: value}, shows those values in place of its fields, and is a
table in a notebook. Where the fields do not fit into a line, those with their default are left out.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

LINES, WIDTH = 10, 100
NUMBERS = 6  # entries of the longest array, tuple or dict that is shown entry by entry
DEPTH = 3  # of objects within objects on a line


def short_repr(value: Any) -> str:
    """The repr of an object: a line, or a line for each of its first fields."""
    for parts in (_parts(value), _changed(value, _parts(value))):
        texts = [f"{key}={_cut(text(part), WIDTH - len(key) - 4)}" for key, part in parts.items()]
        line = f"{type(value).__name__}({', '.join(texts)})"
        if len(line) <= WIDTH:
            return line
    most = LINES - 2
    if len(texts) > most:
        rest = _cut(", ".join(list(parts)[most - 1 :]), WIDTH - 20)
        texts = [*texts[: most - 1], f"... {len(parts) - most + 1} more: {rest}"]
    return "\n  ".join([f"{type(value).__name__}(", *texts]) + "\n)"


def full_repr(value: Any) -> str:
    """All fields on one line, for records."""
    method: Any = type(value).__repr__
    if method is not short_repr:
        return repr(value)
    parts = (f"{name}={full_repr(part)}" for name, part in _fields(value).items())
    return f"{type(value).__qualname__}({', '.join(parts)})"


def html_table(value: Any) -> str:
    """The fields of an object, or its summary, as a table in HTML, for notebooks."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(key))}</th>"
        f"<td style='text-align:left'>{html.escape(_cut(text(part), 4 * WIDTH))}</td></tr>"
        for key, part in _parts(value).items()
    )
    return f"<table><caption>{type(value).__name__}</caption>{rows}</table>"


def text(value: Any, depth: int = DEPTH) -> str:
    """The value on one line."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, functools.partial):
        return f"partial({text(value.func)})"
    if hasattr(value, "__qualname__"):
        return value.__qualname__.rpartition(".")[2].lstrip("_")
    if type(value) in (tuple, list, dict):
        return _collection(value, depth)
    if hasattr(value, "__dataclass_fields__") or hasattr(value, "_fields"):
        name = type(value).__name__
        if depth == 0:
            return f"{name}(...)"
        parts = (f"{key}={text(part, depth - 1)}" for key, part in _fields(value).items())
        return f"{name}({', '.join(parts)})"
    method: Any = type(value).__repr__
    if method is object.__repr__:
        return type(value).__name__
    return " ".join(repr(value).split())


def _array(value: Any) -> str:
    concrete = not isinstance(value, jax.core.Tracer) and not getattr(value, "is_deleted", bool)()
    if concrete and value.size <= NUMBERS and value.ndim <= 1 and value.dtype.kind in "biuf":
        numbers = [_number(one) for one in np.ravel(value).tolist()]
        return f"[{', '.join(numbers)}]" if value.ndim else numbers[0]
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _collection(value: Any, depth: int) -> str:
    if len(value) > NUMBERS or depth == 0:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        entries = (f"{key!r}: {text(part, depth - 1)}" for key, part in value.items())
        return "{" + ", ".join(entries) + "}"
    parts = [text(one, depth - 1) for one in value]
    if isinstance(value, list):
        return f"[{', '.join(parts)}]"
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _parts(value: Any) -> Mapping[str, Any]:
    """The summary of an object, or its fields. An object may hold other values than arrays, as
    under the axes of a vmap, for which `summary` fails."""
    if hasattr(value, "summary"):
        try:
            return value.summary()
        except (TypeError, ValueError, AttributeError, IndexError):
            pass
    return _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None)
    if names is None:
        names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name, None) for name in names}


def _changed(value: Any, parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parts without the fields that have their default."""
    if not dataclasses.is_dataclass(value):
        return parts
    default = {field.name: field.default for field in dataclasses.fields(value)}
    return {
        name: part
        for name, part in parts.items()
        if part is not default.get(name)
        and not (isinstance(part, bool | int | float | str | tuple) and part == default.get(name))
    }


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."
