"""Will it fit? Estimates of memory are compared with what the device has before anything is
compiled."""

from __future__ import annotations

import os

import jax


def available() -> int | None:
    """Bytes of the default device, or of this machine for a CPU; None where the system does not
    say."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check(needed: int, what: str, advice: str) -> None:
    """Raises ValueError when `needed` bytes are more than there are."""
    there = available()
    if there is not None and needed > there:
        raise ValueError(
            f"{what} need about {needed / 1e9:,.1f} GB, and there are {there / 1e9:,.1f} GB:"
            f" {advice}."
        )
