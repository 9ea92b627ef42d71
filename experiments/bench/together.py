"""Seeds in one vmapped program beside the same seeds one by one, in CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from jsketch import loops

SEEDS, HORIZONS = 8, (1_000, 10_000)


def _cpu_seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of a second run: nothing is compiled."""
    run()
    began = time.process_time()
    run()
    return time.process_time() - began


def measure(make: Callable[[int], tuple[Any, Any]]) -> dict[str, Any]:
    """Eight seeds of `make`(horizon) = (bandit, problem); target: at most 1.3 times the seconds of
    one by one."""
    rows: dict[str, Any] = {}
    keys = jax.random.split(jax.random.key(0), SEEDS)
    for horizon in HORIZONS:
        run = partial(loops.run_seeds, *make(horizon), keys, horizon)
        alone = _cpu_seconds(partial(run, strategy="threads", workers=1))
        vmapped = _cpu_seconds(partial(run, strategy="vmap"))
        rows[str(horizon)] = dict(one_by_one=alone, vmapped=vmapped)
        print(
            f"vmapped        {SEEDS} seeds, T={horizon}: {vmapped:.1f} CPU s, one by one"
            f" {alone:.1f} ({vmapped / alone:.2f})   [< 1.3]",
            flush=True,
        )
    return rows
