"""The memory of the default device, compared with an estimate before anything is compiled."""

from __future__ import annotations

import os

import jax


def available() -> int | None:
    """Bytes of the default device, or of this machine for a CPU; None where the system does not
    report it."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check(needed: int, what: str, advice: str) -> None:
    """Raises ValueError when `needed` bytes exceed the memory of the device."""
    found = available()
    if found is not None and needed > found:
        raise ValueError(
            f"{what} need about {needed / 1e9:,.1f} GB, and there are {found / 1e9:,.1f} GB:"
            f" {advice}."
        )
