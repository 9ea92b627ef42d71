"""Forecasters with the interfaces of scikit-learn and river. Each of the two packages is imported
when its class is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["RiverRegressor", "SklearnRegressor"]

_MODULES = {"RiverRegressor": "river", "SklearnRegressor": "scikit_learn"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
