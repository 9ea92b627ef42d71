"""jsketch in the shapes that people already use.

Forecasters, each a `loops.Live` under other names:
    SklearnRegressor   scikit-learn: fit, partial_fit, predict; pipelines, searches over any number
                       of the forecaster
    RiverRegressor     river: learn_one, predict_one; pipelines, wrappers, progressive_val_score

`suggest`, the next evaluations of a list of candidates:
    OptunaSampler      Optuna: studies whose trials take a row of the list
    PoolOptimizer      scikit-optimize: ask, tell, the result so far

No package of these is needed by jsketch, nor for another's adapter: each is imported with the class
that needs it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OptunaSampler", "PoolOptimizer", "RiverRegressor", "SklearnRegressor"]


def __getattr__(name: str) -> Any:
    if name == "SklearnRegressor":
        from jsketch.adapters.scikit_learn import SklearnRegressor

        return SklearnRegressor
    if name == "RiverRegressor":
        from jsketch.adapters.river import RiverRegressor

        return RiverRegressor
    if name == "OptunaSampler":
        from jsketch.adapters.optuna_sampler import OptunaSampler

        return OptunaSampler
    if name == "PoolOptimizer":
        from jsketch.adapters.pool_optimizer import PoolOptimizer

        return PoolOptimizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
