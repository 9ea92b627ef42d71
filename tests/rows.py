"""Parametrized names, calls that must be refused, and functions that fail."""

import pytest


def by_name(names, slow=()):
    """Parametrises a test over `name`. The names in `slow` are marked slow."""
    rows = [pytest.param(n, marks=[pytest.mark.slow] * (n in slow)) for n in names]
    return pytest.mark.parametrize("name", rows)


def check_refusals(rows):
    """Checks that the call of each row (call, words) raises a ValueError with these words."""
    for number, (call, words) in enumerate(rows):
        with pytest.raises(ValueError, match=words):
            call()
            pytest.fail(f"row {number}: {words}")


def failing(numbers, error, function):
    """Returns a function that calls `function`, but raises `error` in the calls `numbers` (from 1),
    and a list of the first arguments of all calls, or dictionaries of their named arguments."""
    calls = []

    def fail_or_call(*values, **named):
        calls.append(named or values[0])
        if len(calls) in numbers:
            raise error
        return function(*values, **named)

    return fail_or_call, calls
