"""The device on which programs run. Programs for an accelerator have fewer and larger steps than
programs for a CPU, and compute the same numbers up to rounding."""

import os

import jax


def on_accelerator() -> bool:
    """Whether the default device of JAX is not a CPU; evaluated when a program is traced."""
    return jax.default_backend() != "cpu"


def memory() -> int | None:
    """The bytes of memory of the default device, or of the machine for a CPU; None if unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
