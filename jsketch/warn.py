"""Warnings that point at the user's line, however many of our functions and of jax's lie
between."""

from __future__ import annotations

import sys
import warnings

PASSED = ("jsketch", "jax", "contextlib")


def warn(message: str) -> None:
    """A UserWarning at the innermost line of the call that belongs to neither jsketch nor jax."""
    level, frame = 1, sys._getframe()
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
