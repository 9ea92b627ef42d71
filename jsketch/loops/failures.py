"""Failed evaluations of runs over arms.

A failed evaluation, whose reward is NaN, tells an algorithm nothing, and so it would ask for the
same arm again. The loops therefore leave an arm out (`Arms.left_out`) while its failed evaluations
outnumber its successful ones by more than log2(1 + t / A), after t evaluations of A arms: an arm
whose first evaluation failed has its second one after A evaluations of the run, and its third
after 3 A. An arm that always fails is in at most 1 + log2(1 + T / A) rounds of a run, and one that
fails now and then is not left out for long. No reward is invented, and the posterior does not
change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array

from jsketch.numerics import count
from jsketch.types import Arms
from jsketch.warn import warn

MOST_SHOWN = 5  # arms that a warning names


def exceeds_limit(excess: Any, t: Any, n_arms: int) -> Any:
    """Which arms are left out, [A] bool, after t [] evaluations.

    excess  [A] int32, failed evaluations of each arm minus its successful ones
    """
    # 2^excess > 1 + t / A in whole numbers
    return (1 << excess.clip(0, 30)) > 1 + t // n_arms


def without_failing(arms: Arms, excess: Array, t: Array) -> Arms:
    """The arms of the next round after t [] evaluations. If only failing arms are left, those that
    a user has left out stay out."""
    failing = exceeds_limit(arms.on_devices(excess), t, arms.count)
    if arms.left_out is None:
        return replace(arms, left_out=failing)
    is_left = count(arms.candidates & ~failing) > 0
    return replace(arms, left_out=arms.left_out | (failing & is_left))


def excess_of(arm: np.ndarray, reward: np.ndarray, n_rows: int) -> np.ndarray:
    """The excess [n_rows] of failed over successful evaluations, with arms [t] and rewards [t]."""
    signs = np.where(np.isnan(reward), 1, -1)
    return np.bincount(arm, signs, n_rows).astype(np.int32)


def warn_of_failures(arm: Any, reward: Any, n_arms: int) -> None:
    """Warns of arms that were left out after failures in a run with arms [T] and rewards [T], or in
    one of several runs, [S, T]."""
    arms, rewards = np.atleast_2d(np.asarray(arm)), np.atleast_2d(np.asarray(reward))
    failed = np.isnan(rewards) & (arms >= 0)
    left_out: set[int] = set()
    for run in np.flatnonzero(failed.any(1)):
        made = arms[run] >= 0
        arm_of, signs = arms[run][made], np.where(np.isnan(rewards[run][made]), 1, -1)
        for one in np.unique(arms[run][failed[run]]):
            times = np.flatnonzero(arm_of == one)
            # between two evaluations of an arm its excess stays, and the limit grows
            is_out = exceeds_limit(np.cumsum(signs[times]), times + 1, n_arms)
            if is_out[times + 1 < len(arm_of)].any():  # no round follows the last evaluation
                left_out.add(int(one))
    if not left_out:
        return
    shown = ", ".join(map(str, sorted(left_out)[:MOST_SHOWN]))
    rest = f" and {len(left_out) - MOST_SHOWN} more" if len(left_out) > MOST_SHOWN else ""
    warn(
        f"{int(failed.sum())} of {int((arms >= 0).sum())} evaluations failed, and arms that had"
        f" failed more often than they succeeded were left out of some rounds: {shown}{rest}"
        " (jsketch.loops.failures)."
    )
