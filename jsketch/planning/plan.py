"""Seconds and bytes of a run before it is made, and a refusal of what cannot fit."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, EpsGreedy, FixedBKB, Uniform
from jsketch.loops.inputs import check_horizon
from jsketch.memory import available
from jsketch.planning import costs, machine, pilot, space
from jsketch.planning.machine import Machine
from jsketch.planning.pilot import Path
from jsketch.types import Arms

SKETCHED, EXACT = (BBKB, BKB, FixedBKB), (GPUCB, EpsGreedy, GPBUCB)
SIDE_BY_SIDE = (
    0.86  # of a core's worth that a run on one of several threads gets (results/bench.json: abalone_seeds)
)
VMAPPED_ON_CPU = 6.0  # times the seconds of separate runs (measured: 24 runs on Abalone)


@dataclass(frozen=True)
class Plan:
    """What a run, or S of them, will take. `str` says it in two lines."""

    algorithm: str
    arms: int
    horizon: int
    seeds: int
    seconds: float  # wall time of all seeds, without compilation
    compile_seconds: float  # rough; a warm persistent cache makes it small
    bytes: int  # at the most, problem included
    rounds: float  # of a run
    dictionary_size: float  # at its end; distinct arms, for an exact posterior
    capacities: tuple[int, ...]  # for which programs are compiled
    parts: dict[str, float]  # seconds by what they go into
    simulated: int  # evaluations of the pilot run; 0 without one

    def __str__(self) -> str:
        size = f" dictionary of about {self.dictionary_size:.0f}," if self.dictionary_size else ""
        runs = f"{self.seeds} x " if self.seeds > 1 else ""
        total = sum(self.parts.values()) or 1.0
        parts = ", ".join(f"{seconds / total:.0%} {name}" for name, seconds in self.parts.items())
        return (
            f"about {said(self.seconds)} (compiling {said(self.compile_seconds)} more) and {self.bytes / 1e9:.2g} GB"
            f" for {runs}{self.algorithm}, {self.horizon:,} evaluations of {self.arms:,} arms;"
            f"\n  {self.rounds:,.0f} rounds,{size} time: {parts}"
        )


def said(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def covers(bandit: Any) -> bool:
    """Whether there is a cost model for this algorithm."""
    return isinstance(bandit, (*SKETCHED, *EXACT, Uniform))


def plan(
    bandit: Any,
    problem: Any,
    horizon: int,
    *,
    seeds: int = 1,
    dictionary_size: int | None = None,
    workers: int | None = None,
    strategy: str | None = None,
    memory: float | None = None,
    speeds: Machine | None = None,
) -> Plan:
    """Estimates what `run_seeds(bandit, problem, keys [seeds], horizon)` takes, before anything of it is compiled.

    problem: with arms and mean rewards, as `run` takes it; or the arms alone (then a random function with the norm that
    the bandit assumes stands in for the rewards). The sketch size, the numbers of distinct arms, of rounds and of
    refreshed scores come from a pilot run on pools of 1,024 arms (`planning.pilot`), a second or two; those of BKB,
    FixedBKB and the exact algorithms are taken from `dictionary_size` where the user knows it (for BBKB it scales the
    pilot's). Operations are counted from the code (`planning.costs`); the speeds are measured once in a process
    (`planning.machine`, about a second) unless given.

    On a CPU with 2 cores within a factor 2 of the benchmarks (scripts/bench prints both); not checked on accelerators.
    workers and strategy: as in `run_seeds`. memory: bytes that may be used, by default what the device has.

    Raises ValueError for an algorithm without a cost model, for static mistakes (as `init` does), and for a run that does
    not fit the memory, with what would fit.
    """
    if not covers(bandit):
        known = ", ".join(kind.__name__ for kind in (*SKETCHED, *EXACT, Uniform))
        raise ValueError(f"there is no cost model for {type(bandit).__name__}: only for {known}.")
    check_horizon(horizon)
    counts = dict(seeds=seeds, dictionary_size=dictionary_size, workers=workers)
    checks.capacity(**{name: count for name, count in counts.items() if count is not None})
    if strategy is not None:
        checks.choice(("vmap", "threads"), strategy=strategy)
    domain = _checked(bandit, problem)
    vmapped = strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu")
    workers = min(seeds, workers or os.cpu_count() or 1)
    path = _path(bandit, problem, domain, horizon, dictionary_size)
    sizes = path.distinct if isinstance(bandit, EXACT) else path.dictionary
    capacities = costs.capacities(bandit, sizes.max(), domain.count)
    arms, dimensions = domain.features.shape
    size = space.Size(
        arms,
        dimensions,
        horizon=horizon,
        capacity=capacities[-1] if capacities else 0,
        seeds=seeds,
        at_once=seeds if vmapped else workers,
        itemsize=domain.features.dtype.itemsize,
    )
    space.check(bandit, size, available() if memory is None else memory)
    parts = _parts(bandit, domain, path, speeds)
    one = sum(parts.values())
    if vmapped:
        seconds = one * seeds * (VMAPPED_ON_CPU if seeds > 1 and jax.default_backend() == "cpu" else 1.0)
    else:
        seconds = one * seeds / max(1.0, SIDE_BY_SIDE * workers)
    return Plan(
        algorithm=type(bandit).__name__,
        arms=domain.count,
        horizon=horizon,
        seeds=seeds,
        seconds=seconds,
        compile_seconds=costs.compile_seconds(bandit, capacities),
        bytes=space.needed(bandit, size),
        rounds=float(path.rounds[-1]),
        dictionary_size=float(sizes[-1]),
        capacities=capacities,
        parts=parts,
        simulated=path.simulated,
    )


def _checked(bandit: Any, problem: Any) -> Arms:
    """The arms. Raises ValueError for static mistakes, as `init` does; its warnings are left to the run."""
    arms = getattr(problem, "arms", problem)
    if not hasattr(arms, "features"):
        raise ValueError(f"a problem, or its arms as Arms(x), is needed; {type(problem).__name__} was given.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        domain = checks.arms(Arms(jnp.asarray(arms.features)))
        if hasattr(bandit, "kernel"):
            checks.model(domain, bandit.kernel, bandit.regularization)
        jax.eval_shape(lambda domain: bandit.init(domain, jax.random.key(0)), domain)
    return domain


def _path(bandit: Any, problem: Any, domain: Any, horizon: int, dictionary_size: int | None) -> Path:
    """How rounds, distinct arms and the dictionary grow."""
    batch = int(getattr(bandit, "batch", 1))
    adaptive = isinstance(bandit, BBKB | GPBUCB)
    if isinstance(bandit, Uniform) or (dictionary_size is not None and not adaptive):
        size = min(dictionary_size or 0, domain.count)
        distinct = size if isinstance(bandit, EXACT) else max(size, min(horizon, domain.count))
        at_end = np.array([[horizon], [1], [costs.LOOKS * horizon], [distinct], [size]], float)
        path = Path(at_end[0], at_end[1], at_end[2], at_end[3], at_end[4], simulated=0)
    else:
        noise = getattr(
            problem, "noise_std", getattr(bandit, "noise_std", float(bandit.regularization) ** 0.5)
        )
        path = pilot.run(bandit, domain, getattr(problem, "mean_reward", None), float(noise), horizon)
        if dictionary_size is not None:
            name = "distinct" if isinstance(bandit, EXACT) else "dictionary"
            sizes = getattr(path, name)
            path = path._replace(**{name: sizes * (min(dictionary_size, domain.count) / sizes[-1])})
    return path if adaptive else path._replace(rounds=np.ceil(path.t / batch))


def _parts(bandit: Any, domain: Any, path: Path, speeds: Machine | None) -> dict[str, float]:
    """Seconds of a run by what they go into, on its own."""
    arms, dimensions = domain.features.shape
    dtype = domain.features.dtype
    speeds = machine.measure(dtype) if speeds is None else speeds
    entry = 0.0 if isinstance(bandit, Uniform) else machine.entry(bandit.kernel, dimensions, dtype)
    parts: dict[str, float] = {}
    before = np.zeros(5)
    for point in np.stack(path[:5], 1):
        made = (point[:3] - before[:3]).tolist()  # evaluations, rounds and looks since the last point
        for name, work in costs.work(bandit, arms, *made, *point[3:]).items():
            parts[name] = parts.get(name, 0.0) + float(work.seconds(speeds, entry, dtype.itemsize))
        before = point
    return parts
