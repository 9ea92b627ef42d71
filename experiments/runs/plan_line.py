"""An estimate of time and memory, which experiments and sweeps print before their runs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import jsketch
from jsketch.loops.planning import Plan

TINY = 1_000_000  # arms times evaluations of all runs, below which no plan is made
SAMPLE = 3  # configurations that are planned, if they differ only in their numbers


def announce(
    bandits: Sequence[Any],
    problem: Any,
    horizon: int,
    runs: int,
    at_once: int,
    **options: Any,
) -> Plan | None:
    """Prints the planned time and memory of `runs` runs, `at_once` at a time, of algorithms that
    differ only in their numbers; prints nothing for tiny runs. Raises ValueError, with a number of
    runs that fits, if the memory is too small."""
    arms = getattr(problem, "arms", problem).count
    if not runs or arms * horizon * runs < TINY:
        return None
    together = min(at_once, runs)
    # the ends of a grid need the most memory
    at = np.unique(np.linspace(0, len(bandits) - 1, SAMPLE).astype(int))
    chosen = [bandits[i] for i in at]
    plans = [jsketch.plan(bandit, problem, horizon, seeds=together, **options) for bandit in chosen]
    slowest = max(plans, key=lambda plan: plan.seconds)
    mean = sum(plan.seconds for plan in plans) / len(plans)
    whole = dataclasses.replace(
        slowest, seconds=mean * runs / together, seeds=runs, bytes=max(plan.bytes for plan in plans)
    )
    print(f"plan: {whole}", flush=True)
    return whole
