"""What `OptunaSampler` and `PoolOptimizer` pass on to `jsketch.suggest`, checked where they are
made."""

from __future__ import annotations

import inspect
from typing import Any

from jsketch.suggest import suggest

# what an adapter says itself, or has no values for
OWN = "candidates", "arms", "values", "columns", "errors", "pending", "batch", "scaling", "key"
TAKEN = [name for name in inspect.signature(suggest).parameters if name not in OWN]


def check(options: dict[str, Any]) -> None:
    """Raises ValueError for what is no option of `suggest`, or not one to give here."""
    for name in options:
        if name not in TAKEN:
            raise ValueError(f"{name} is no option here; those of suggest are: {', '.join(TAKEN)}.")
