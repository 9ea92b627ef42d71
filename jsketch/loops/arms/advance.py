"""One compiled program on the host: segments on the device; growth, files and reports between them.

The program is a run, a bandit under several seeds, or a grid: several bandits, alike but for their
numbers, with a seed each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jsketch.devices import automatic
from jsketch.loops.arms.checkpoint import Checkpoint
from jsketch.loops.arms.rollout import Progress, rollout, start
from jsketch.types import ArmProblem, Bandit, PRNGKey, detach, enlarged

# small capacities grow faster, to compile less; from LARGE_CAPACITY on a refresh costs more than
# compiling saves
CAPACITY_GROWTH, CAPACITY_GROWTH_LARGE = 2.25, 1.125
LARGE_CAPACITY = 256
CAPACITY_MULTIPLE = 16

# What takes XLA and LLVM nearly half of their time, and makes programs no faster that are products
# of matrices (`python -m experiments.bench.bandits --only compile`). The second has come and gone
# with versions, and one that does not know it would stop
COMPILER_OPTIONS: dict[str, Any] = {"xla_llvm_disable_expensive_passes": True}
if jaxlib.__version__.startswith("0.10."):
    COMPILER_OPTIONS["xla_cpu_use_fusion_emitters"] = False

Over = Literal["run", "seeds", "grid"]


@partial(
    jax.jit,
    static_argnames="horizon",
    donate_argnames="progress",
    compiler_options=COMPILER_OPTIONS,
)
def _segment(
    bandit: Bandit[Any],
    problem: ArmProblem,
    key: PRNGKey,
    progress: Progress,
    until: Array,
    horizon: int,
) -> Progress:
    return rollout(bandit, problem, key, horizon, progress, until)


@partial(
    jax.jit,
    static_argnames=("horizon", "over", "mesh"),
    donate_argnames="progress",
    compiler_options=COMPILER_OPTIONS,
)
def _segments(
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    progress: Progress,
    until: Array,
    horizon: int,
    over: Over,
    mesh: Mesh | None = None,
) -> Progress:
    def one(bandit: Bandit[Any], key: PRNGKey, progress: Progress) -> Progress:
        return rollout(bandit, problem, key, horizon, progress, until)

    run = jax.vmap(one, in_axes=(_axis(over), 0, 0))
    if mesh is not None:
        # loops of a device's own: the compiler would let all wait for the longest
        each = P(mesh.axis_names)
        specs = (each if over == "grid" else P(), each, each)
        run = jax.shard_map(
            run, mesh=automatic(mesh), in_specs=specs, out_specs=each, check_vma=False
        )
    return run(bandit, keys, progress)


@partial(jax.jit, static_argnames="horizon")
def _start(bandit: Bandit[Any], problem: ArmProblem, key: PRNGKey, horizon: int) -> Progress:
    return start(bandit, problem, key, horizon)


@partial(jax.jit, static_argnames=("horizon", "over"))
def _starts(
    bandit: Bandit[Any], problem: ArmProblem, keys: PRNGKey, horizon: int, over: Over
) -> Progress:
    def one(bandit: Bandit[Any], key: PRNGKey) -> Progress:
        return start(bandit, problem, key, horizon)

    return jax.vmap(one, in_axes=(_axis(over), 0))(bandit, keys)


def _axis(over: Over) -> int | None:
    """The axis of a bandit's numbers: one bandit for all seeds has none."""
    return 0 if over == "grid" else None


def compiled_programs() -> int:
    """Number of programs that `run`, `run_seeds` and sweeps have compiled in this process; other
    numbers or seeds add none."""
    programs: tuple[Any, ...] = (_segment, _segments, _start, _starts)
    return sum(program._cache_size() for program in programs)


# seeds on several threads need the same program: the first compiles it, the others wait
_compiling = threading.Lock()


class Clock:
    """Wall time, with compilation apart, and progress reports from several threads."""

    def __init__(self, on_progress: Callable[[int, float], None] | None):
        self.began = time.perf_counter()
        self.compile_seconds = 0.0
        self.on_progress = on_progress
        self.done = 0
        self.lock = threading.Lock()

    @property
    def run_seconds(self) -> float:
        return time.perf_counter() - self.began - self.compile_seconds

    def compile(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a jitted function that has nothing to do, so that all the time it takes is
        compilation."""
        with _compiling:
            began = time.perf_counter()
            result = jax.block_until_ready(function(*args))
            self.compile_seconds += time.perf_counter() - began
        return result

    def report(self, evaluations: int) -> None:
        with self.lock:
            self.done += evaluations
            if self.on_progress is not None:
                self.on_progress(self.done, self.run_seconds)


def next_capacity(capacity: int, arms: int) -> int:
    """The capacity to continue with when `capacity` is too small: more than twice as
    large or, from LARGE_CAPACITY on, an eighth larger; never needlessly over A."""
    growth = CAPACITY_GROWTH if capacity < LARGE_CAPACITY else CAPACITY_GROWTH_LARGE
    grown = -(-int(capacity * growth) // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
    return max(min(grown, arms), capacity + 1)


def larger_capacity(capacity: int, arms: int) -> int:
    """`next_capacity` after an overflow. Raises RuntimeError where every arm has room already:
    growing would never end."""
    if capacity >= arms:
        raise RuntimeError(
            f"the algorithm says that {capacity} inducing points are too few for {arms} arms: its"
            " `tell` sets"
            " info.overflow where a larger capacity is of no use."
        )
    return next_capacity(capacity, arms)


def advance(
    bandit: Bandit[Any],
    problem: ArmProblem,
    keys: PRNGKey,
    state: Any,
    horizon: int,
    over: Over,
    clock: Clock,
    steps: int,
    kept: Checkpoint | None = None,
    mesh: Mesh | None = None,
) -> Progress:
    """One program to its horizon: segments on the device, growth and files between them.

    bandit    its numbers are [], or [R] each for a grid
    keys      [], or [R] over seeds and for a grid
    state     to start from, [R] of it where there are R keys; None: `init` is called for every key
    over      "run", "seeds" or "grid": what the keys count
    steps     segments of a run, a progress report after each
    kept      the file of the run; None: it has none
    mesh      whose devices share the runs, as many on each; None: one device has them all

    A run that `nonfinite` or `exhausted` is set for has ended before its horizon. In a grid the
    others continue to theirs; over seeds, which are one result, everything ends with it.
    """
    vmapped = over != "run"
    length = max(1, horizon // steps) if kept is None else min(max(1, horizon // steps), kept.every)

    def grow(state: Any, capacity: int) -> Any:
        def one(bandit: Bandit[Any], state: Any) -> Any:
            return enlarged(bandit, state, capacity)

        return (jax.vmap(one, in_axes=(_axis(over), 0)) if vmapped else one)(bandit, state)

    begin: Any = partial(_starts, over=over) if vmapped else _start
    segment: Any = partial(_segments, over=over, mesh=mesh) if vmapped else _segment
    progress = clock.compile(begin, bandit, problem, keys, horizon)
    if state is not None:
        # a copy: the program below takes over the memory of what it is given
        progress = replace(progress, state=jax.tree.map(jnp.copy, detach(state)))
    if kept is not None:
        progress = kept.load(progress, grow, capacity_of(progress.state, vmapped))
    progress = clock.compile(segment, bandit, problem, keys, progress, jnp.asarray(0), horizon)
    seeds = keys.shape[0] if vmapped else 1
    until = reported = 0
    while True:
        done = int(np.min(progress.t))
        until = min(horizon, max(until, done) + length)
        progress = jax.block_until_ready(
            segment(bandit, problem, keys, progress, jnp.asarray(until), horizon)
        )
        ended = np.asarray(progress.nonfinite | progress.exhausted)
        if over != "grid" and ended.any():
            return progress
        if bool(np.any(progress.overflow)):
            capacity = capacity_of(progress.state, vmapped)
            state = grow(progress.state, larger_capacity(capacity, problem.arms.count))
            progress = replace(progress, state=state, overflow=jnp.zeros_like(progress.overflow))
            progress = clock.compile(
                segment, bandit, problem, keys, progress, jnp.asarray(0), horizon
            )
            continue
        if kept is not None:
            kept.save(progress, capacity_of(progress.state, vmapped))
        now = int(np.sum(np.where(ended, horizon, np.minimum(progress.t, horizon))))
        clock.report(now - reported)
        reported = now
        if now == seeds * horizon:
            return progress


def capacity_of(state: Any, batched: bool) -> int:
    """Inducing points that a state has room for; 0 for an algorithm without."""
    shape = jax.eval_shape(lambda s: jax.tree.map(lambda leaf: leaf[0], s) if batched else s, state)
    return getattr(shape, "capacity", 0)
