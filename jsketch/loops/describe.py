"""What a forecaster is, in words that can be written to a file and compared."""

from __future__ import annotations

import dataclasses
import hashlib
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
        return f"{value.__module__}.{value.__qualname__}"
    if " object at 0x" in repr(value):  # an object without a repr of its own
        return f"a {type(value).__module__}.{type(value).__qualname__}"
    return repr(value)
