"""The estimate of time and memory that experiments and sweeps print before their runs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import jsketch
from jsketch.loops.planning import Plan

TINY = 1_000_000  # no plan is made for fewer arms times evaluations of all runs
SAMPLE = 3  # number of planned configurations, if they differ only in their numbers


def announce(
    bandits: Sequence[Any],
    problem: Any,
    horizon: int,
    runs: int,
    parallel_runs: int,
    **options: Any,
) -> Plan | None:
    """Prints the planned time and memory of `runs` runs, `parallel_runs` at a time, of algorithms
    that differ only in their numbers; prints nothing for tiny runs. Raises ValueError, with a
    number of runs that fits, if the memory is too small."""
    arms = getattr(problem, "arms", problem).count
    if not runs or arms * horizon * runs < TINY:
        return None
    parallel = min(parallel_runs, runs)
    # the ends of a grid need the most memory
    rows = np.unique(np.linspace(0, len(bandits) - 1, SAMPLE).astype(int))
    sample = [bandits[i] for i in rows]
    plans = [jsketch.plan(bandit, problem, horizon, seeds=parallel, **options) for bandit in sample]
    slowest = max(plans, key=lambda plan: plan.seconds)
    mean = sum(plan.seconds for plan in plans) / len(plans)
    whole = dataclasses.replace(
        slowest, seconds=mean * runs / parallel, seeds=runs, bytes=max(plan.bytes for plan in plans)
    )
    print(f"plan: {whole}", flush=True)
    return whole
