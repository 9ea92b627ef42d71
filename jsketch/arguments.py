"""Misspelt arguments are answered with the nearest name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Callable[..., Any])


def checked(function: Named) -> Named:
    """The function, or the class with its constructor, which raises a TypeError that contains the
    nearest parameter for an argument that does not exist."""
    if isinstance(function, type):
        function.__init__ = _checked(function.__init__, function.__name__)  # type: ignore[misc]
        return function
    return _checked(function, function.__name__)


def _checked(function: Any, name: str) -> Any:
    names = [one for one in inspect.signature(function).parameters if one != "self"]

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        for wrong in named.keys() - names:
            nearest = difflib.get_close_matches(wrong, names, 1)
            advice = f": did you mean {nearest[0]}?" if nearest else f"; it has {', '.join(names)}."
            raise TypeError(f"{name} has no argument {wrong}{advice}")
        return function(*values, **named)

    return call
