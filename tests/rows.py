"""Tables of tests: names, some of which are slow, and calls that are refused."""

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
