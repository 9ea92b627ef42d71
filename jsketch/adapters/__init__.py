"""Forecasters with the interfaces of scikit-learn and river. Each of the two packages is imported
when its class is first used."""

from __future__ import annotations

from typing import Any

__all__ = ["RiverRegressor", "SklearnRegressor"]


def __getattr__(name: str) -> Any:
    if name == "SklearnRegressor":
        from jsketch.adapters.scikit_learn import SklearnRegressor

        return SklearnRegressor
    if name == "RiverRegressor":
        from jsketch.adapters.river import RiverRegressor

        return RiverRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
