"""Errors for misspelt arguments, with the nearest name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """The function, or the class with its constructor, with a check of the names of arguments: a
    wrong name raises a TypeError with the nearest parameter."""
    if isinstance(function, type):
        function.__init__ = _checked(function.__init__, function.__name__)  # type: ignore[misc]
        return function
    return _checked(function, function.__name__)


def _checked(function: Any, name: str) -> Any:
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for wrong in kwargs.keys() - names:
            nearest = difflib.get_close_matches(wrong, names, 1)
            advice = f": did you mean {nearest[0]}?" if nearest else f"; it has {', '.join(names)}."
            raise TypeError(f"{name} has no argument {wrong}{advice}")
        return function(*args, **kwargs)

    return call
