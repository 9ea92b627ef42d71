"""Provenance of results: commit, versions and hardware of this process."""

import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jax", "jaxlib", "numpy", "flax", "jsketch")


def provenance() -> dict[str, Any]:
    """Date, commit, versions and hardware of this process. Paths and host names are omitted."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
        "dtype": str(jax.numpy.zeros(()).dtype),
    }


def commit() -> dict[str, Any]:
    """{"hash": the commit, "dirty": whether the code differs from it}; both are "unknown" outside a
    git checkout."""
    revision = _git("rev-parse", "HEAD")
    if revision is None:
        return {"hash": "unknown", "dirty": "unknown"}
    # only these files can change a result
    changes = _git("status", "--porcelain", "--", "jsketch", "experiments", "pyproject.toml")
    return {"hash": revision, "dirty": bool(changes)}


def commit_name() -> str:
    """The hash of the commit, with the suffix "-dirty" when the code differs from it."""
    state = commit()
    return f"{state['hash']}{'-dirty' if state['dirty'] is True else ''}"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def package_versions(*names: str) -> dict[str, str]:
    """Versions of packages. Raises ValueError if one is not installed."""
    try:
        return {name: importlib.metadata.version(name) for name in names}
    except importlib.metadata.PackageNotFoundError as error:
        raise ValueError(
            f"{error.name} is not installed; this experiment needs: pip install {' '.join(names)}"
        ) from error


def hardware() -> dict[str, Any]:
    """CPU model, cores that this process may use, memory in GB (1e9 bytes), and devices of JAX."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        model = next(models, model)
    has_affinity = hasattr(os, "sched_getaffinity")  # not on macOS
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _git(*arguments: str) -> str | None:
    """The output of a git command in this repository; None if the command fails."""
    try:
        process = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
    except OSError:
        return None
    return process.stdout.strip() if process.returncode == 0 else None
