"""Forecasters with the interfaces of other packages; each is a `loops.Live` under other names.

    SklearnRegressor   scikit-learn: fit, partial_fit, predict; pipelines, searches over any number
                       of the forecaster
    RiverRegressor     river: learn_one, predict_one; pipelines, wrappers, progressive_val_score

Each package is imported with the class that needs it.
"""

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
