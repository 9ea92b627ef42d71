"""Warnings that point at the line of the user, outside of jsketch and JAX."""

from __future__ import annotations

import sys
import warnings

LIBRARIES = ("jsketch", "jax", "contextlib")


def warn(message: str) -> None:
    """Warns at the innermost line of the call stack outside of the packages LIBRARIES."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in LIBRARIES:
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
