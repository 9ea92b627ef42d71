"""Timing of compiled programs, and the lines that benchmarks print."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


def seconds(run: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """(median seconds of `repeats` calls, additional seconds of the call before them, which
    compiles)."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - began)
    median = statistics.median(times[1:])
    return median, times[0] - median


def show(name: str, row: Mapping[str, Any]) -> None:
    """Prints the numbers of a row."""
    numbers = [f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, int | float)]
    print(f"{name:24s} {'  '.join(numbers)}", flush=True)
