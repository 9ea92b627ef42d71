"""Strict where it helps: 64-bit floats (JAX_ENABLE_X64=0 gives the float32 pass) and no implicit
promotion of dtypes or ranks."""

import os
import sys
import time
from collections import defaultdict
from pathlib import Path

# most of the time goes into compiling: tiny problems need no optimized machine code
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# before NumPy and SciPy are imported, whose LAPACK is JAX's too: where workers share few cores, its
# threads wait for each other and burn what the others need
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# the lines of Python that every operation comes from: to write them down takes a twentieth of all
# the time
jax.config.update("jax_traceback_in_locations_limit", 0)
# the next run of the tests finds its programs compiled; a folder for each worker, so that none
# reads what another writes. With JSKETCH_KEEP=0 nothing is written, which saves a twentieth of all
# the time where no next run follows
WORKER = os.environ.get("PYTEST_XDIST_WORKER", os.environ.get("JSKETCH_SESSION", "alone"))
FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "compiled" / WORKER
if os.environ.get("JSKETCH_KEEP") != "0":
    jax.config.update("jax_compilation_cache_dir", str(FOLDER))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# Every compiled program holds memory maps, of which Linux allows a process 65,530 and aborts it
# beyond; a test adds a thousand or two. To drop them takes a quarter of a millisecond each, and to
# count them 50 milliseconds in all, too much for every test. At the limit a worker holds 6 GB
MAPS = Path("/proc/self/maps")
MOST_MAPS = 48_000
SECONDS = 5.0  # between two counts: some thousand maps
counted = [time.monotonic()]


@pytest.fixture(autouse=True)
def compiled_programs_are_dropped_in_time():
    yield
    if time.monotonic() - counted[0] > SECONDS and MAPS.exists():
        counted[0] = time.monotonic()
        if MAPS.read_bytes().count(b"\n") > MOST_MAPS:
            jax.clear_caches()


def pytest_unconfigure(config):
    # a worker has reported by now; to take its programs down one by one would take it 10 seconds
    if hasattr(config, "workerinput"):
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(0)


def pytest_addoption(parser):
    parser.addoption(
        "--compilations",
        action="store_true",
        help="CPU seconds and compiled programs of every file at the end (without xdist's workers)",
    )


def pytest_configure(config):
    if config.getoption("--compilations"):
        config.pluginmanager.register(Compilations())


class Compilations:
    """Where the time goes: for each file its tests, its CPU seconds, the programs it compiled and
    the seconds that took."""

    def __init__(self):
        self.compiled = [0, 0.0]
        self.files = defaultdict(lambda: [0, 0.0, 0, 0.0])
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            self.compiled[0] += 1
            self.compiled[1] += seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        began, before = time.process_time(), list(self.compiled)
        result = yield
        row = self.files[item.nodeid.split("::")[0]]
        spent = (
            1,
            time.process_time() - began,
            *(a - b for a, b in zip(self.compiled, before, strict=True)),
        )
        row[:] = [a + b for a, b in zip(row, spent, strict=True)]
        return result

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("compilations")
        terminalreporter.line("tests  CPU s  programs  compiled in s  file")
        for name, row in sorted(self.files.items(), key=lambda entry: -entry[1][1]):
            terminalreporter.line(f"{row[0]:5d} {row[1]:6.1f} {row[2]:9d} {row[3]:14.1f}  {name}")
