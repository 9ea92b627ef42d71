"""Strict where it helps: 64-bit floats (JAX_ENABLE_X64=0 gives the float32 pass) and no implicit dtype promotion."""

import os
from pathlib import Path

# most of the time goes into compiling: tiny problems need no optimized machine code
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# the next run of the tests finds its programs compiled; a folder for each worker, so that none reads what another writes
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "compiled" / WORKER
jax.config.update("jax_compilation_cache_dir", str(FOLDER))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# Every compiled program holds memory maps, of which Linux allows a process 65,530 and aborts it beyond
MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000


@pytest.fixture(autouse=True)
def compiled_programs_are_dropped_in_time():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
