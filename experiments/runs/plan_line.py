"""The line that experiments, sweeps and suggestions print first: how long, and how much memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import jsketch
from jsketch.loops.planning import Plan

# arms times evaluations of all runs, below which a plan takes longer than it is worth
TINY = 1_000_000
SAMPLE = 3  # configurations that are planned, of those that differ in their numbers only


def announce(
    bandits: Sequence[Any],
    problem: Any,
    horizon: int,
    runs: int,
    at_once: int,
    what: str = "plan",
    **options: Any,
) -> Plan | None:
    """Prints the plan of some runs, `at_once` side by side, of algorithms that differ in their
    numbers; nothing when they are tiny. Raises ValueError, with what would fit, when they do not
    fit the memory."""
    arms = getattr(problem, "arms", problem).count
    if not runs or arms * horizon * runs < TINY:
        return None
    together = min(at_once, runs)
    # the ends of a grid need the most
    at = np.unique(np.linspace(0, len(bandits) - 1, SAMPLE).astype(int))
    chosen = [bandits[i] for i in at]
    plans = [jsketch.plan(bandit, problem, horizon, seeds=together, **options) for bandit in chosen]
    slowest = max(plans, key=lambda plan: plan.seconds)
    mean = sum(plan.seconds for plan in plans) / len(plans)
    whole = dataclasses.replace(
        slowest, seconds=mean * runs / together, seeds=runs, bytes=max(plan.bytes for plan in plans)
    )
    print(f"{what}: {whole}", flush=True)
    return whole
