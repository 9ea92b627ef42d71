"""Bytes of a run at its largest capacity, from XLA's memory analysis of its program; what would fit
where it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jsketch.loops.arms import advance
from jsketch.loops.arms.rollout import start
from jsketch.planning.timing import QUICKLY
from jsketch.problems.finite import GaussianArms
from jsketch.types import Arms

# traced: an import that computes would come before `distributed.start`
KEY = jax.eval_shape(lambda: jax.random.key(0))


@dataclass(frozen=True)
class Bytes:
    """Of a run."""

    given: int  # problem and hyperparameters, which all runs share
    kept: int  # state and trace
    working: int  # everything else while it runs
    compiling: float  # seconds to compile its program, or to find it compiled

    def of(self, seeds: int, at_once: int) -> int:
        """Of that many runs, `at_once` at a time; when they are over their states and traces are
        stacked."""
        return self.given + at_once * self.working + seeds * self.kept * (2 if seeds > 1 else 1)


def size(tree: Any) -> int:
    """Bytes of the arrays of a pytree, abstract ones too."""
    return sum(
        leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(lambda: tree))
    )


def started(bandit: Any, problem: Any, horizon: int, capacity: int) -> Any:
    """The shapes of the run before its first evaluation, with room for `capacity` inducing
    points."""

    def initial(problem: Any, key: Any) -> Any:
        progress: Any = start(bandit, problem, key, horizon)
        if not capacity or capacity <= bandit.capacity:
            return progress
        return replace(progress, state=bandit.grow(progress.state, capacity))

    return jax.eval_shape(initial, problem, KEY)


def of_program(bandit: Any, problem: Any, horizon: int, capacity: int, quickly: bool) -> Bytes:
    """Compiles the run's program at its shapes and takes no memory for them; `quickly`: as code
    that will not be run."""
    progress = started(bandit, problem, horizon, capacity)
    until = jax.eval_shape(lambda: jnp.asarray(0))
    began = time.perf_counter()
    # as `advance` calls it, down to what is positional: other calls are other programs
    lowered = advance._segment.lower(bandit, problem, KEY, progress, until, horizon)
    used: Any = lowered.compile(compiler_options=QUICKLY if quickly else None).memory_analysis()
    compiling = time.perf_counter() - began
    kept = size(progress)
    given = used.argument_size_in_bytes - kept
    working = used.temp_size_in_bytes + used.output_size_in_bytes - used.alias_size_in_bytes
    return Bytes(given, kept, working, compiling)


def stand_in(
    count: int, dimensions: int, dtype: DTypeLike, rewards: int | None = None
) -> GaussianArms:
    """The shapes of a problem; of the part of one on a device, where all mean rewards, more than
    its arms, are."""
    struct: Any = jax.ShapeDtypeStruct
    means = struct((count if rewards is None else rewards,), dtype)
    return GaussianArms(Arms(struct((count, dimensions), dtype)), means, 1.0)


def check(
    bandit: Any,
    domain: Arms,
    run: Bytes,
    horizon: int,
    capacity: int,
    seeds: int,
    at_once: int,
    memory: float,
    devices: int = 1,
    fewest: Callable[[], int] | None = None,
) -> None:
    """Raises ValueError when the runs need more than `memory` bytes, and says what would fit:
    `fewest()` devices too, for arms that may be spread. `run` and `domain` are those of one of the
    devices."""
    total = run.of(seeds, at_once)
    if total <= memory:
        return
    runs = f"{seeds} runs" if seeds > 1 else "a run"
    kept = "inducing points" if hasattr(bandit, "qbar") else "distinct arms"
    held = f" and room for {capacity:,} {kept}" if capacity else ""
    offers = []
    if seeds > 1 and (count := largest(lambda s: run.of(s, min(s, at_once)) <= memory, seeds)):
        offers.append(f"{count} of its {seeds} seeds in a call")
    offers += _smaller(bandit, domain, run, horizon, capacity, memory)
    if fewest is not None and (count := fewest()):
        offers.append(f"the arms over {count:,} devices of that memory each (Sharded)")
    where = f" on each of {devices} devices" if devices > 1 else ""
    raise ValueError(
        f"{runs} of {type(bandit).__name__} with {domain.count:,} arms{where}{held} would need"
        f" about {total / 1e9:,.2g} GB, and there are {memory / 1e9:,.2g} GB. What would fit:"
        f" {'; '.join(offers) or 'nothing smaller of it fits'}."
    )


def largest(fits: Callable[[int], bool], upper: int) -> int:
    """The largest number up to `upper` that fits, 0 if there is none."""
    low, high = 0, upper
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _smaller(
    bandit: Any, domain: Arms, run: Bytes, horizon: int, capacity: int, memory: float
) -> list[str]:
    """What of a single run would fit; what it works with is taken to shrink as what it keeps."""
    count, dimensions = domain.features.shape
    dtype = domain.features.dtype

    def kept(arms: int, capacity: int, horizon: int, dtype: DTypeLike) -> int:
        # a capacity below the one it starts with is another start
        sized = replace(bandit, capacity=capacity) if capacity else bandit
        problem = stand_in(arms, dimensions, dtype)
        return size(problem) + size(started(sized, problem, horizon, capacity))

    whole = kept(count, capacity, horizon, dtype)

    def fits(
        arms: int = count,
        capacity: int = capacity,
        horizon: int = horizon,
        dtype: DTypeLike = dtype,
    ) -> bool:
        try:
            smaller = kept(arms, min(capacity, arms) if arms < count else capacity, horizon, dtype)
        except ValueError:
            # an algorithm with a table of these arms
            return False
        return run.of(1, 1) * smaller / whole <= memory

    offers = []
    if dtype.itemsize > 4 and fits(dtype=jnp.dtype("float32")):
        offers.append("float32 in place of float64")
    if fits():
        return offers
    exact = capacity > 0 and not hasattr(bandit, "qbar")
    if arms := largest(lambda arms: fits(arms=arms), count - 1):
        offers.append(f"{arms:,} arms at once")
    if most := largest(lambda most: fits(capacity=most), capacity - 1):
        what = "a shorter horizon" if exact else "a smaller qbar or a larger regularization"
        offers.append(f"a capacity of {most:,} ({what})")
    shorter = largest(lambda t: fits(horizon=t), horizon - 1)
    if 2 * shorter >= horizon or (shorter and not offers):
        offers.append(f"a horizon of {shorter:,} evaluations")
    if exact:
        offers.append("BBKB, which keeps no table of its inducing points times the arms")
    return offers
