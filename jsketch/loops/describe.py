"""What a forecaster or a run is, in words that can be written to a file and compared."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import types
from typing import Any

import jax
import numpy as np

FEW = 16  # numbers of an array that are listed; longer ones are named by a digest


def describe(value: Any, name: str = "") -> dict[str, Any]:
    """Every class, choice and number within a pytree of dataclasses by its dotted name: {"kernel": "Gaussian", ...}."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {name: type(value).__qualname__}
        parts: list[tuple[str, Any]] = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, dict):
        found, parts = {}, sorted(value.items())
    elif isinstance(value, functools.partial):
        found, parts = {name: "partial"}, [(of, getattr(value, of)) for of in ("func", "args", "keywords")]
    elif isinstance(value, list | tuple):
        found, parts = {name: f"{len(value)} parts"}, [(str(i), part) for i, part in enumerate(value)]
    else:
        return {name: _leaf(value)}
    for part, inner in parts:
        found |= describe(inner, f"{name}.{part}" if name else part)
    return found


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """'kernel.lengthscale was 0.5, is 0.7' for every name where two descriptions differ."""
    missing = "not there"
    return [
        f"{name or 'the class'} was {before.get(name, missing)}, is {now.get(name, missing)}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name, missing) != now.get(name, missing)
    ]


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | np.generic | np.ndarray | jax.Array):
        numbers = np.asarray(value)
        if numbers.size <= FEW:
            return numbers.tolist()
        digest = hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()
        return f"{numbers.dtype}{list(numbers.shape)} {digest}"
    if hasattr(value, "__qualname__"):  # a function or a class: its repr would name an address
        return _named(value)
    if " object at 0x" in repr(value):  # an object without a repr of its own
        return f"a {type(value).__module__}.{type(value).__qualname__}"
    return repr(value)


def _named(function: Any, within: tuple[Any, ...] = ()) -> str:
    """The name of a function or a class. Two lambdas may have the same: then, and within another function or a script, a
    digest of what it does and of the values that it was made with."""
    name = f"{function.__module__}.{function.__qualname__}"
    inner = inspect.unwrap(function)
    script = "<" in name or function.__module__ == "__main__"
    if not script or not isinstance(inner, types.FunctionType) or inner in within:
        return name
    held = [*(inner.__defaults__ or ()), *sorted((inner.__kwdefaults__ or {}).items())]
    held += [cell.cell_contents for cell in inner.__closure__ or () if cell != types.CellType()]
    words = [_instructions(inner.__code__)]
    for value in held:
        is_function = isinstance(value, types.FunctionType)
        words.append(_named(value, (*within, inner)) if is_function else str(describe(value)))
    told = re.sub(r" at 0x[0-9a-f]+", "", " ".join(words))  # objects that say no more than where they are
    return f"{name} {hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _instructions(code: types.CodeType) -> str:
    """What a function does, the same in every process of one version of Python."""
    constants = [
        _instructions(value)
        if isinstance(value, types.CodeType)
        else str(sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value))
        for value in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
