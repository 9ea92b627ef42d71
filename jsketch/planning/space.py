"""Bytes of a run at its largest capacity, and what would fit where they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jsketch.bandits import BBKB, GPBUCB, FixedBKB, Uniform
from jsketch.bandits.core.sketched import SWEEP_ENTRIES

# vectors [A], matrices [M, M] and parts of a sweep that are alive at once
VECTORS, SQUARES, PARTS = 25, 14, 2
TRACE = 7  # columns of a trace


@dataclass(frozen=True)
class Size:
    """What the memory of a run depends on."""

    arms: int
    dimensions: int
    horizon: int
    capacity: int  # at its end
    seeds: int
    at_once: int  # runs that are under way at a time
    itemsize: int  # bytes of a number


def is_exact(bandit: Any) -> bool:
    """Whether a bandit keeps an [N, A] table."""
    return not isinstance(bandit, Uniform) and not hasattr(bandit, "qbar")


def needed(bandit: Any, size: Size) -> int:
    """Bytes of S runs: the problem, what is alive while some of them are under way, and what all of them leave."""
    a, m, d = float(size.arms), float(size.capacity), size.dimensions
    trace = TRACE * size.horizon
    working = 6.0 * getattr(bandit, "max_batch", getattr(bandit, "batch", 1)) + trace
    state = 0.0
    if is_exact(bandit):
        state = a * m + 2 * m**2 + 2 * a
        working += 8 * a  # the tables are changed in place
        if isinstance(bandit, GPBUCB):  # whose batches and overflows need copies
            working += 2 * state + 2 * a * (m + bandit.new_arms)
    elif not isinstance(bandit, Uniform):
        state = 5 * a + 2 * m**2 + m * d
        working += VECTORS * a + SQUARES * m**2 + a * d + PARTS * min(SWEEP_ENTRIES, a * m)
        if isinstance(bandit, FixedBKB):
            rows = bandit.batch + bandit.max_pending
            working += 2 * rows * (rows + 2 * m + d)
        if isinstance(bandit, BBKB) and not bandit.lazy:
            working += 2 * a * m
    # the states of all runs are stacked when they are over
    kept = (2 if size.seeds > 1 else 1) * (state + trace)
    return int(size.itemsize * (a * (d + 4) + size.at_once * working + size.seeds * kept))


def check(bandit: Any, size: Size, memory: float | None) -> None:
    """Raises ValueError when the runs need more than `memory` bytes, and says what would fit."""
    total = needed(bandit, size)
    if memory is None or total <= memory:
        return
    runs = f"{size.seeds} runs" if size.seeds > 1 else "a run"
    kept = "distinct arms" if is_exact(bandit) else "inducing points"
    held = f" and room for {size.capacity:,} {kept}" if size.capacity else ""
    advice = "; ".join(_what_fits(bandit, size, memory)) or "nothing smaller of it fits"
    raise ValueError(
        f"{runs} of {type(bandit).__name__} with {size.arms:,} arms{held} would need about {total / 1e9:,.2g} GB, and"
        f" there are {memory / 1e9:,.2g} GB. What would fit: {advice}."
    )


def _what_fits(bandit: Any, size: Size, memory: float) -> list[str]:
    def largest(change: Callable[[int], Size], upper: int) -> int:
        """The largest number up to `upper` with which it fits, 0 if there is none."""
        low, high = 0, upper
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if needed(bandit, change(middle)) <= memory else (low, middle - 1)
        return low

    def seeds(count: int) -> Size:
        return replace(size, seeds=count, at_once=min(count, size.at_once))

    fits = []
    if size.seeds > 1 and (count := largest(seeds, size.seeds)):
        fits.append(f"{count} of its {size.seeds} seeds in a call")
    if size.itemsize > 4 and needed(bandit, replace(size, itemsize=4)) <= memory:
        fits.append("float32 in place of float64")
    one = seeds(1)
    if needed(bandit, one) <= memory:
        return fits
    if arms := largest(lambda a: replace(one, arms=a, capacity=min(a, size.capacity)), size.arms - 1):
        fits.append(f"{arms:,} arms at once")
    if capacity := largest(lambda m: replace(one, capacity=m), size.capacity - 1):
        what = "a shorter horizon" if is_exact(bandit) else "a smaller qbar or a larger regularization"
        fits.append(f"a capacity of {capacity:,} ({what})")
    horizon = largest(lambda t: replace(one, horizon=t), size.horizon - 1)
    if 2 * horizon >= size.horizon or (horizon and not fits):
        fits.append(f"a horizon of {horizon:,} evaluations")
    if is_exact(bandit):
        fits.append("BBKB, which keeps no table of its inducing points times the arms")
    return fits
