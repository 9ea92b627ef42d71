"""Provenance of results: commit, versions and hardware of this process."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jax", "jaxlib", "numpy", "flax", "jsketch")


def provenance() -> dict[str, Any]:
    """Date, commit, versions and hardware of this process, without paths and host names."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
        "dtype": str(jax.numpy.zeros(()).dtype),
    }


def commit() -> dict[str, Any]:
    """{"hash": ..., "dirty": whether the code differs from it}; "unknown" outside a git
    checkout."""
    revision = _git("rev-parse", "HEAD")
    if revision is None:
        return {"hash": "unknown", "dirty": "unknown"}
    # only what can change a result
    changes = _git("status", "--porcelain", "--", "jsketch", "experiments", "pyproject.toml")
    return {"hash": revision, "dirty": bool(changes)}


def commit_name() -> str:
    """The commit as one word, with "-dirty" when the code differs from it."""
    now = commit()
    return f"{now['hash']}{'-dirty' if now['dirty'] is True else ''}"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def hardware() -> dict[str, Any]:
    """CPU model, cores this process may use, memory in GB (1e9 bytes), and jax's devices."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        model = next(models, model)
    memory: float | str = "unknown"
    if hasattr(os, "sysconf"):
        memory = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    return {
        "cpu": model,
        "cores": usable_cores(),
        "memory_gb": memory,
        "devices": [f"{device.platform}: {device.device_kind}" for device in jax.devices()],
    }


def peak_memory() -> int:
    """The peak resident memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # on Linux getrusage includes the memory of the parent at the time of the fork
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # not available on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _git(*arguments: str) -> str | None:
    """git's answer in this repository; None without git, repository or commit."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
