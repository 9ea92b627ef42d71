"""Strict where it helps: 64-bit floats (JAX_ENABLE_X64=0 gives the float32 pass) and no implicit dtype promotion."""

import os
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Every compiled program holds memory maps, of which Linux allows a process 65,530 and aborts it beyond
MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000


@pytest.fixture(autouse=True)
def compiled_programs_are_dropped_in_time():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
