"""`suggest` with the interfaces of other packages.

    OptunaSampler      Optuna: the parameters of a study, or a row of a list
    PoolOptimizer      scikit-optimize: ask and tell

The module of a class is imported when the class is first used, because Optuna is optional.
"""

from __future__ import annotations

import inspect
from typing import Any

from jsketch import lazy
from jsketch.suggest import suggest

__all__ = ["OptunaSampler", "PoolOptimizer"]

_MODULES = {"OptunaSampler": "optuna_sampler", "PoolOptimizer": "pool_optimizer"}

# arguments of `suggest` that an adapter sets itself, or for which it has no values
_RESERVED = {
    *("candidates", "arms", "values", "columns", "errors", "pending", "batch", "scaling", "key")
}


def check_options(options: dict[str, Any]) -> None:
    """Raises ValueError for an option that an adapter does not pass on to `suggest`."""
    allowed = [name for name in inspect.signature(suggest).parameters if name not in _RESERVED]
    for name in options:
        if name not in allowed:
            raise ValueError(
                f"{name} is not an option here; options of suggest are {', '.join(allowed)}."
            )


__getattr__, __dir__ = lazy.attach(__name__, _MODULES)
