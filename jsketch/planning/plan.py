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
from jsketch.bandits.sharded import rows_on_each
from jsketch.loops.inputs import check_bandit, check_horizon
from jsketch.memory import available
from jsketch.planning import pilot, space, spread, timing
from jsketch.planning.pilot import Path
from jsketch.planning.timing import History
from jsketch.problems.finite import GaussianArms
from jsketch.types import Arms

# of a core's worth that a run on one of several threads gets (results/bench.json: abalone_seeds)
SIDE_BY_SIDE = 0.86
# times the seconds of separate runs (measured: 24 runs on Abalone)
VMAPPED_ON_CPU = 6.0


@dataclass(frozen=True)
class Plan:
    """What a run, or S of them, will take. `str` says it in two lines, and in a third one what it
    takes over devices."""

    algorithm: str
    arms: int
    horizon: int
    seeds: int
    seconds: float  # wall time of all seeds, without compilation
    compile_seconds: float  # rough; a warm persistent cache makes it small
    bytes: int  # at the most, problem included; on each device
    rounds: float  # of a run
    dictionary_size: float  # at its end; distinct arms, for an exact posterior
    capacities: tuple[int, ...]  # of the programs that are compiled
    # seconds of a run: of its rounds whatever their size, and of what every evaluation adds
    parts: dict[str, float]
    simulated: int  # evaluations of the pilot run; 0 without one
    mesh: spread.Devices | None = None  # where `devices` was given

    def __str__(self) -> str:
        size = f" dictionary of about {self.dictionary_size:.0f}," if self.dictionary_size else ""
        runs = f"{self.seeds} x " if self.seeds > 1 else ""
        total = sum(self.parts.values()) or 1.0
        parts = ", ".join(f"{seconds / total:.0%} {name}" for name, seconds in self.parts.items())
        return (
            f"about {said(self.seconds)} (compiling {said(self.compile_seconds)} more) and"
            f" {self.bytes / 1e9:.2g} GB{'' if self.mesh is None else ' a device'}"
            f" for {runs}{self.algorithm}, {self.horizon:,} evaluations of {self.arms:,} arms;"
            f"\n  {self.rounds:,.0f} rounds,{size} time: {parts}"
            + ("" if self.mesh is None else f"\n  {self.mesh}")
        )


def said(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
    devices: int | None = None,
) -> Plan:
    """Estimates what `run_seeds(bandit, problem, keys [seeds], horizon)` takes.

    bandit           any algorithm that `run` takes
    problem          with arms and mean rewards, as `run` takes it; or the arms alone: then a random
                     function with the norm that the bandit assumes stands in for the rewards
    horizon          int, evaluations of a run
    seeds            int, runs
    dictionary_size  int, inducing points at the end of a run, where the user knows it; it scales
                     the pilot's. None: the pilot's
    workers          int, threads, as in `run_seeds`
    strategy         "vmap" or "threads", as in `run_seeds`
    memory           bytes that may be used, on each device; None: what the device has
    devices          int, devices like this one that share the arms (`bandits.Sharded`), or 1:
                     bytes and seconds are those of each, without messages, and `Plan.mesh` says
                     what it holds, its messages, the most arms and the fewest devices that fit.
                     None: all arms on one, and nothing more is asked

    Where the numbers come from:
    - rounds and sketch size: a pilot run on pools of 1,024 arms (`planning.pilot`), a second or
      two; without a kernel to pilot with, the rounds that were timed;
    - bytes: XLA's memory analysis of the run's program at its real shapes, which takes no memory
      (`planning.space`);
    - seconds: the run's program, timed for a moment at one or two capacities of at most 256, from
      states with the pilot's data (`planning.timing`). A power law goes between the capacities and
      beyond; more than 4,000,000 arms times capacity are timed with fewer arms.
    What is compiled at all of the arms and at a capacity of at most 256 is what the run compiles:
    it finds it done.

    Planned over measured, one run each, on a CPU with 2 cores, in seconds of CPU (other programs
    kept the cores busy): BBKB 0.83 and GPUCB 0.75 (1,000 evaluations of 4,000 arms in the plane),
    BBKB 1.28 (10,000 on Abalone), GPBUCB 1.28 (2,000 on Abalone), Uniform 0.93 (20,000 of 4,000
    arms); rounds and dictionaries within 8%. Seconds on a busy machine are those of a busy machine.
    Extrapolation in arms and capacity was not checked, nor were accelerators. The pilot knows no
    `max_dictionary`: one that binds makes for more rounds than are planned. Bytes are the
    compiler's for the program of a run; for seeds they are multiplied, and within a factor 2 of
    those of three seeds in one program.

    Raises ValueError for static mistakes (as `init` does), and for a run that does not fit the
    memory, with what would fit.
    """
    check_bandit(bandit)
    check_horizon(horizon)
    counts = dict(seeds=seeds, dictionary_size=dictionary_size, workers=workers, devices=devices)
    checks.capacity(**{name: count for name, count in counts.items() if count is not None})
    if strategy is not None:
        checks.choice(("vmap", "threads"), strategy=strategy)
    if memory is not None and memory != np.inf:
        checks.positive(memory=memory)
    bandit, parts = spread.of_bandit(bandit, devices)
    domain = _checked(bandit, problem)
    own = rows_on_each(domain.count, parts)
    vmapped = strategy == "vmap" or (strategy is None and jax.default_backend() != "cpu")
    workers = min(seeds, workers or os.cpu_count() or 1)
    if parts > 1:
        # programs that wait for each other's devices run in turn
        vmapped, workers = False, 1
    path = _path(bandit, problem, domain, horizon, dictionary_size)
    sizes = None if path is None else path.dictionary if hasattr(bandit, "qbar") else path.distinct
    if sizes is not None:
        sizes = np.minimum(sizes, timing.largest_dictionary(bandit))
    capacities = timing.capacities(bandit, 0 if sizes is None else sizes.max(), domain.count)
    capacity = capacities[-1] if capacities else 0
    problem = _with_rewards(problem, domain, path)
    timed = timing.timed(capacities)
    whole = timed[0] == capacity and timing.fewer_arms(own, capacity) == domain.count
    held = problem if parts == 1 else spread.on_a_device(domain, parts)
    used = space.of_program(bandit, held, horizon, capacity, quickly=not whole)
    memory = available() if memory is None else memory
    at_once = seeds if vmapped else workers
    fits = spread.Fitting(bandit, domain, horizon, capacity, parts, memory, seeds, at_once)
    if memory is not None:
        fewest = fits.fewest if seeds == 1 else None
        space.check(
            bandit,
            domain if parts == 1 else held.arms,
            used,
            horizon,
            capacity,
            seeds,
            at_once,
            memory,
            parts,
            fewest,
        )
    rates = _rates(bandit, problem, horizon, timed, path, own)
    # a program that was compiled for its memory is found compiled when it is timed
    compiling = [
        r.compiling + (used.compiling if whole and i == 0 else 0.0) for i, r in enumerate(rates)
    ]
    if path is None or rates[0].fixed:
        path = pilot.with_batches(path, rates[0].fixed or rates[0].batch, horizon)
    spent = _parts(path, sizes, rates, timed, capacities, domain.count)
    one = sum(spent.values())
    if vmapped:
        seconds = (
            one * seeds * (VMAPPED_ON_CPU if seeds > 1 and jax.default_backend() == "cpu" else 1.0)
        )
    else:
        seconds = one * seeds / max(1.0, SIDE_BY_SIDE * workers)
    return Plan(
        algorithm=type(bandit).__name__,
        arms=domain.count,
        horizon=horizon,
        seeds=seeds,
        seconds=seconds,
        compile_seconds=float(np.interp(capacities or (0,), timed[::-1], compiling[::-1]).sum()),
        bytes=used.of(seeds, at_once),
        rounds=float(path.rounds[-1]),
        dictionary_size=float(sizes[-1])
        if capacities and sizes is not None
        else rates[0].dictionary_size,
        capacities=capacities,
        parts=spent,
        simulated=path.simulated,
        mesh=None if devices is None and parts == 1 else fits.said(),
    )


def _checked(bandit: Any, problem: Any) -> Arms:
    """The arms. Raises ValueError for static mistakes, as `init` does; its warnings are left to the
    run."""
    arms = getattr(problem, "arms", problem)
    if getattr(arms, "shard", None) is not None:
        raise ValueError(
            "these arms lie over the devices of a mesh: give plan the arms before place(...), and"
            " the number of devices, plan(bandit, problem, horizon, devices=4)."
        )
    if not hasattr(arms, "features"):
        raise ValueError(
            f"a problem, or its arms as Arms(x), is needed; {type(problem).__name__} was given."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        domain = checks.arms(Arms(jnp.asarray(arms.features)))
        if hasattr(bandit, "kernel"):
            checks.model(domain, bandit.kernel, bandit.regularization)
        jax.eval_shape(lambda domain: bandit.init(domain, jax.random.key(0)), domain)
    return domain


def _path(
    bandit: Any, problem: Any, domain: Arms, horizon: int, dictionary_size: int | None
) -> Path | None:
    """How rounds, distinct arms and the dictionary grow; None for an algorithm whose kernel no
    pilot can use."""
    if not hasattr(bandit, "kernel") or not hasattr(bandit, "regularization"):
        return None
    noise = getattr(
        problem, "noise_std", getattr(bandit, "noise_std", float(bandit.regularization) ** 0.5)
    )
    path = pilot.run(bandit, domain, getattr(problem, "mean_reward", None), float(noise), horizon)
    if dictionary_size is None:
        return path
    size = min(dictionary_size, domain.count)
    return path._replace(
        distinct=path.distinct * size / path.distinct[-1],
        dictionary=path.dictionary * size / path.dictionary[-1],
    )


def _with_rewards(problem: Any, domain: Arms, path: Path | None) -> Any:
    """The problem as `run` takes it; for arms alone one with the rewards that the pilot met, which
    programs are timed on."""
    if hasattr(problem, "mean_reward"):
        return problem
    rewards = np.zeros(domain.count)
    if path is not None:
        rewards[path.arms] = path.rewards
    return GaussianArms(domain, jnp.asarray(rewards, domain.features.dtype), 0.1)


def _rates(
    bandit: Any,
    problem: Any,
    horizon: int,
    timed: tuple[int, ...],
    path: Path | None,
    count: int,
) -> list[timing.Rates]:
    """Rates at the capacities that are timed, for `count` of the arms (those of a device), with so
    many or as many as are timed; the larger capacity from the pilot's data."""
    found = []
    for capacity in timed:
        history = None
        if path is not None and capacity == timed[0]:
            middle = int(np.interp(path.rounds[-1] / 2, path.rounds, path.t))
            history = History(path.arms, path.rewards, middle)
        some, fewer = problem, timing.fewer_arms(count, capacity)
        if fewer < problem.arms.count:
            some, history = timing.part_of(problem, fewer, history)
        rates = timing.rates(bandit, some, horizon, capacity, history)
        more = count / fewer
        found.append(rates._replace(round=more * rates.round, evaluation=more * rates.evaluation))
    return found


def _parts(
    path: Path,
    sizes: np.ndarray | None,
    rates: list[timing.Rates],
    timed: tuple[int, ...],
    capacities: tuple[int, ...],
    arms: int,
) -> dict[str, float]:
    """Seconds of a run on its own: of its rounds, and of what every evaluation adds to them."""
    scale = np.ones(len(path.t))
    if len(timed) > 1 and sizes is not None:
        fitting = np.array(
            [capacities[np.searchsorted(capacities, min(size, arms))] for size in sizes]
        )
        scale = (fitting / timed[0]) ** timing.power(rates[0], rates[1], timed[0] / timed[1])
    rounds, evaluations = (
        float(np.diff(column, prepend=0.0) @ scale) for column in (path.rounds, path.t)
    )
    return {"rounds": rates[0].round * rounds, "evaluations": rates[0].evaluation * evaluations}
