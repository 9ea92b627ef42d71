"""Earlier evaluations as lists of arms and rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from jsketch import checks
from jsketch.types import Arms, Evaluations


def of_evaluations(domain: Arms, arms: Any, rewards: Any, dictionary: Any = None) -> Evaluations:
    """The argument `data` of `init` for observed evaluations.

    arms        arm numbers [n]
    rewards     [n]; NaN is a failed evaluation, which is not counted
    dictionary  as in `Evaluations`

    Raises ValueError for arms that do not exist, for infinite rewards, and if `arms` and `rewards`
    have different shapes.
    """
    checks.arm_numbers(domain, arms=arms)
    arms, rewards = np.asarray(arms), np.asarray(checks.real("rewards", rewards), float)
    if rewards.shape != arms.shape:
        raise ValueError(
            f"there are {arms.size} arms and rewards of shape {rewards.shape}: give one reward for"
            " each evaluation."
        )
    if np.isinf(rewards).any():
        raise ValueError(
            f"the reward of arm {arms[np.isinf(rewards)][0]} is infinite; a failed evaluation is"
            " NaN."
        )
    is_failed, arms = np.isnan(rewards), arms.astype(int)  # an empty list has a floating dtype
    failed = arms[is_failed] if is_failed.any() else None
    arms, rewards = arms[~is_failed], rewards[~is_failed]
    counts = np.bincount(arms, minlength=domain.count).astype(float)
    sums = np.bincount(arms, rewards, minlength=domain.count)
    return Evaluations(counts, sums, dictionary, failed)
