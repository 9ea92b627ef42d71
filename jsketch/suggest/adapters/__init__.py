"""`suggest` with the interfaces of other packages.

    OptunaSampler      Optuna: studies whose trials take a row of the list
    PoolOptimizer      scikit-optimize: ask, tell, the result so far

Each package is imported with the class that needs it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OptunaSampler", "PoolOptimizer"]


def __getattr__(name: str) -> Any:
    if name == "OptunaSampler":
        from jsketch.suggest.adapters.optuna_sampler import OptunaSampler

        return OptunaSampler
    if name == "PoolOptimizer":
        from jsketch.suggest.adapters.pool_optimizer import PoolOptimizer

        return PoolOptimizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
