"""Warnings that point at the line of the user, below any number of functions of jsketch and JAX."""

from __future__ import annotations

import sys
import warnings

SKIPPED = ("jsketch", "jax", "contextlib")


def warn(message: str) -> None:
    """A UserWarning at the innermost line of the call that belongs to neither jsketch nor JAX."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in SKIPPED:
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
