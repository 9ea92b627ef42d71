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
    """(a function that calls `function`, except that call number n raises `error` for each n of
    `numbers`; a list of the calls: the first argument, or a dictionary of named arguments)."""
    calls = []

    def fail_or_call(*values, **named):
        calls.append(named or values[0])
        if len(calls) in numbers:
            raise error
        return function(*values, **named)

    return fail_or_call, calls
