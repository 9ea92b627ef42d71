"""Configures JAX: 64-bit floats (unless JAX_ENABLE_X64=0, as in the float32 pass), no implicit
promotion of dtypes or ranks, and flags with which programs compile fast."""

import gc
import os
import sys
import time
from pathlib import Path

# most of the time of tiny problems is compilation
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# set before NumPy and SciPy, whose LAPACK JAX uses, are imported: with several workers on few
# cores, the threads of LAPACK wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jaxlib
import platformdirs
import pytest
from compiled import trim

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# recording the Python lines of every operation takes a twentieth of the time
jax.config.update("jax_traceback_in_locations_limit", 0)
# tracing makes many objects that live long: with Python's defaults, searching them for garbage
# takes a tenth of the time
gc.set_threshold(10_000, 20, 20)
# JAX saves compiled programs outside of the clone, from where later sessions load them. Its keys
# contain the program, the flags and the version; it ignores a file that cannot be read, such as one
# that another process is writing. JSKETCH_CACHE is another folder; if it is empty, no program is
# saved
MAX_CACHE = 1_500_000_000  # bytes, of all versions
CACHE = os.environ.get("JSKETCH_CACHE", platformdirs.user_cache_dir("jsketch"))
if CACHE:
    programs = Path(CACHE, "tests")
    jax.config.update("jax_compilation_cache_dir", str(programs / jaxlib.__version__))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        trim(programs, MAX_CACHE)

# Linux aborts a process with more than 65,530 memory maps. Compiled programs hold them, a thousand
# or two for each test. Counting them takes 50 ms. A worker with MAX_MAPS maps uses 6 GB of memory
MAPS = Path("/proc/self/maps")
MAX_MAPS = 48_000
COUNT_INTERVAL = 5.0  # seconds
last_count = [time.monotonic()]


def pytest_collection_modifyitems(items):
    """Deselects tests marked float32(only=True) in a 64-bit session, unless they are slow."""
    if jax.config.jax_enable_x64:
        marks = [(item, item.get_closest_marker("float32")) for item in items]
        items[:] = [i for i, m in marks if "slow" in i.keywords or not (m and m.kwargs)]


def pytest_collection_finish():
    gc.freeze()  # what is imported stays, and is not searched


@pytest.fixture(autouse=True)
def drop_compiled_programs():
    """Frees compiled programs after a test when they hold more than MAX_MAPS memory maps."""
    yield
    if time.monotonic() - last_count[0] > COUNT_INTERVAL and MAPS.exists():
        last_count[0] = time.monotonic()
        if MAPS.read_bytes().count(b"\n") > MAX_MAPS:
            jax.clear_caches()


@pytest.fixture(params=[False, True], ids=["cpu", "accelerator"])
def accelerator(request, monkeypatch):
    """Runs the test twice: JAX traces the program of a CPU, or the program of an accelerator."""
    from jsketch.loops import advance

    def forget_programs():
        segments = advance.run_segment, advance.run_box_segment
        for program in (advance.start_runs, advance.grow_runs, *segments):
            program.clear_cache()

    monkeypatch.setattr("jsketch.numerics.on_accelerator", lambda: request.param)
    if request.param:
        forget_programs()
    yield request.param
    if request.param:
        forget_programs()


def pytest_unconfigure(config):
    # a worker has reported its results; freeing its programs one by one would take 10 seconds
    if hasattr(config, "workerinput"):
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(0)
