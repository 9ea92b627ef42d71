"""When a run has found enough: a bound on what is still to be gained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jsketch import checks


def gap(bandit: Any, state: Any) -> float:
    """The largest upper confidence bound of all arms less the largest lower one, in units of the
    rewards: where the bounds hold, the simple regret of the arm with the largest lower bound is at
    most this (of every arm's best, whatever was evaluated).

    With `width=widths.certified` and a norm_bound, noise_std and delta that hold this is a theorem,
    at all rounds together with probability 1 - delta (THEORY 2.4, 4.4); with the authors' widths
    (`*_code`), and with algorithms that forget (at single rounds only, THEORY 6.5), it is a
    heuristic. Raises ValueError for an algorithm without bounds of every arm.
    """
    belief = _belief(state)
    if belief is None or not hasattr(bandit, "confidence_width"):
        raise ValueError(
            f"{type(bandit).__name__} has no confidence bounds of all arms: give `stop` a function"
            " of the run instead of a number."
        )
    return float(_gap(belief.mean, belief.variance, bandit.confidence_width(state)))


@jax.jit
def _gap(mean: Array, variance: Array, width: Array) -> Array:
    reach = width * jnp.sqrt(variance)
    return jnp.max(mean + reach) - jnp.max(mean - reach)


def _belief(state: Any) -> Any:
    """What has the mean [A] and the variance [A] of all arms; None: nothing has."""
    for part in (state, getattr(state, "sketch", None), getattr(state, "posterior", None)):
        if hasattr(part, "mean") and hasattr(part, "variance"):
            return part
    return None


def rule(bandit: Any, state: Any, stop: Any) -> Callable[[Any], bool]:
    """A function of the run so far that says whether it is to end. Raises ValueError for a `stop`
    that is neither None, nor a number above 0 with bounds that it can be compared with, nor a
    function of the run."""
    if stop is None:
        return lambda driven: False
    if callable(stop):
        checks.function_of("stop", stop, "driven")
        return lambda driven: bool(stop(driven))
    checks.positive(stop=stop)
    gap(bandit, state)
    return lambda driven: gap(bandit, driven.state) < stop
