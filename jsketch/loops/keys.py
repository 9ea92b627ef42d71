"""Keys of a run: independent roots; every use folds in the number of its evaluation."""

from __future__ import annotations

from typing import NamedTuple

import jax

from jsketch.types import PRNGKey


class Roots(NamedTuple):
    """Independent roots of one run; each use folds in the number of the evaluation."""

    init: PRNGKey
    ask: PRNGKey
    tell: PRNGKey
    problem: PRNGKey


def split_roots(key: PRNGKey) -> Roots:
    """The roots of a run with this key."""
    return Roots(*jax.random.split(key, 4))
