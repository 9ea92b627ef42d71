"""The device on which programs run: its memory, and how XLA compiles for it."""

import os
from typing import Any

import jax
import jaxlib

# Options of `jax.jit`. XLA raises an error for one that its version does not have
EMITTERS: dict[str, Any] = {}
if jaxlib.__version__.startswith("0.10."):
    EMITTERS["xla_cpu_use_fusion_emitters"] = False
# of a program that runs once on few numbers, and takes less time than its optimization
RUN_ONCE = EMITTERS | {"xla_backend_optimization_level": 0}


def memory() -> int | None:
    """The bytes of memory of the default device, or of the machine for a CPU; None if unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
