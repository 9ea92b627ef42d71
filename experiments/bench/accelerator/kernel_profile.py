"""What an accelerator did in a stretch of a program: its kernels, how often each was started, and
how long it was idle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from experiments.results import files

TOP = 12  # kernels that are named
NAME = 60  # characters of a kernel's name


def profiled(call: Callable[[], Any]) -> dict[str, Any]:
    """The profile of one call: `span_ms` from the first kernel to the end of the last, `busy_ms` in
    kernels and copies, `launches`, and the `top` of them by time. {} where the device tells nothing
    (a CPU)."""
    with files.scratch() as folder:
        with jax.profiler.trace(str(folder)):
            jax.block_until_ready(call())
        return _summary([event for path in folder.rglob("*.xplane.pb") for event in _events(path)])


def _events(path: Path) -> list[tuple[str, float, float]]:
    """(name, begin, duration) in nanoseconds of what ran on the device's streams."""
    planes = jax.profiler.ProfileData.from_file(str(path)).planes
    lines = [line for plane in planes if plane.name.startswith("/device:") for line in plane.lines]
    return [
        (e.name, e.start_ns, e.duration_ns)
        for line in lines
        if "Stream" in line.name
        for e in line.events
    ]


def _summary(events: list[tuple[str, float, float]]) -> dict[str, Any]:
    if not events:
        return {}
    launches: dict[str, int] = defaultdict(int)
    spent: dict[str, float] = defaultdict(float)
    for name, _, duration in events:
        launches[name[:NAME]] += 1
        spent[name[:NAME]] += duration / 1e6
    begin, end = min(e[1] for e in events), max(e[1] + e[2] for e in events)
    top = sorted(spent, key=lambda name: -spent[name])[:TOP]
    return dict(
        span_ms=(end - begin) / 1e6,
        busy_ms=sum(spent.values()),
        launches=len(events),
        top=[dict(kernel=name, launches=launches[name], ms=spent[name]) for name in top],
    )
