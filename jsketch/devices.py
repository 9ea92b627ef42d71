"""The device on which programs run. On an accelerator programs have fewer and larger steps than on
a CPU, and compute the same numbers up to rounding."""

import os

import jax


def on_accelerator() -> bool:
    """Whether jax's default device is not a CPU; read while a program is traced."""
    return jax.default_backend() != "cpu"


def memory() -> int | None:
    """Bytes of the default device, or of this machine for a CPU; None where the system does not
    report it."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
