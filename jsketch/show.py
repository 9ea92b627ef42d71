"""Short texts of values: arrays by dtype and shape, functions by name.

`short_repr` is the repr of objects of `struct.dataclass` classes. It shows the fields in at most
LINES lines. If the class has a method `summary`, which returns {name: value}, the repr shows these
values in place of the fields, and a notebook displays them as a table. Fields that equal their
defaults are left out if the fields do not all fit into one line.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

LINES, WIDTH = 10, 100  # a repr has at most LINES lines of at most WIDTH characters
MAX_ENTRIES = 6  # the largest size of an array, tuple, list or dict whose entries are shown
DEPTH = 3  # levels of nested objects that are shown


def short_repr(value: Any) -> str:
    """The repr of an object: one line if it fits, or else a line for each of the first fields."""
    for fields in (_summary(value), _without_defaults(value, _summary(value))):
        texts = [
            f"{key}={_cut(text(field), WIDTH - len(key) - 4)}" for key, field in fields.items()
        ]
        line = f"{type(value).__name__}({', '.join(texts)})"
        if len(line) <= WIDTH:
            return line
    # the name, the names of the other fields and the last bracket take a line each
    if len(texts) > LINES - 2:
        rest = _cut(", ".join(list(fields)[LINES - 3 :]), WIDTH - 20)
        texts = [*texts[: LINES - 3], f"... {len(fields) - LINES + 3} more: {rest}"]
    return "\n  ".join([f"{type(value).__name__}(", *texts]) + "\n)"


def full_repr(value: Any) -> str:
    """All fields of an object on one line, for files of results."""
    method: Any = type(value).__repr__
    if method is not short_repr:
        return repr(value)
    texts = (f"{name}={full_repr(field)}" for name, field in _fields(value).items())
    return f"{type(value).__qualname__}({', '.join(texts)})"


def html_table(value: Any) -> str:
    """The summary of an object, or its fields, as an HTML table for notebooks."""
    template = "<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>"
    rows = "".join(
        template.format(html.escape(key), html.escape(_cut(text(field), 4 * WIDTH)))
        for key, field in _summary(value).items()
    )
    return f"<table><caption>{type(value).__name__}</caption>{rows}</table>"


def text(value: Any, depth: int = DEPTH) -> str:
    """The value on one line."""
    name = type(value).__name__
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _array(value)
    if isinstance(value, functools.partial):
        return f"partial({text(value.func)})"
    if hasattr(value, "__qualname__"):
        return value.__qualname__.rpartition(".")[2].lstrip("_")
    if type(value) in (tuple, list, dict):
        return _collection(value, depth)
    if hasattr(value, "__dataclass_fields__") or hasattr(value, "_fields"):
        if depth == 0:
            return f"{name}(...)"
        texts = (f"{key}={text(field, depth - 1)}" for key, field in _fields(value).items())
        return f"{name}({', '.join(texts)})"
    method: Any = type(value).__repr__
    return name if method is object.__repr__ else " ".join(repr(value).split())


def _array(value: Any) -> str:
    # NumPy arrays have no `is_deleted`, and then `bool`, the default, returns False
    concrete = not isinstance(value, jax.core.Tracer) and not getattr(value, "is_deleted", bool)()
    if concrete and value.size <= MAX_ENTRIES and value.ndim <= 1 and value.dtype.kind in "biuf":
        entries = np.ravel(value).tolist()
        texts = [f"{x:.4g}" if isinstance(x, float) else str(x) for x in entries]
        return f"[{', '.join(texts)}]" if value.ndim else texts[0]
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _collection(value: Any, depth: int) -> str:
    if len(value) > MAX_ENTRIES or depth == 0:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        entries = (f"{key!r}: {text(entry, depth - 1)}" for key, entry in value.items())
        return "{" + ", ".join(entries) + "}"
    texts = ", ".join(text(entry, depth - 1) for entry in value)
    if isinstance(value, list):
        return f"[{texts}]"
    return f"({texts},)" if len(value) == 1 else f"({texts})"


def _summary(value: Any) -> Mapping[str, Any]:
    """The summary of an object, or its fields if the class has no `summary` or if `summary` fails,
    as it does for fields that are not arrays (an object may contain the axes of a vmap)."""
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


def _without_defaults(value: Any, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an object that differ from their default."""
    if not dataclasses.is_dataclass(value):
        return fields
    defaults = {field.name: field.default for field in dataclasses.fields(value)}
    types = bool | int | float | str | tuple
    return {
        name: field
        for name, field in fields.items()
        if field is not defaults.get(name)
        and not (isinstance(field, types) and field == defaults.get(name))
    }


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."
