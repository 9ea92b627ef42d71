"""What an experiment leaves behind: a summary that says how it was made, and finished seeds that can be resumed.

A folder of results holds `summary.json`, figures, and `runs/`: one configuration file per algorithm and one
npz file per algorithm and seed. Every file appears whole or not at all.
"""

import importlib.metadata
import io
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.results import files

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jax", "jaxlib", "numpy", "flax", "jsketch")


def ci95(values: Sequence[float] | np.ndarray) -> float:
    """Half width of the 95% interval of the mean over runs: 1.96 sd / sqrt(n), sd the sample one (n - 1).

    The normal quantile is the papers' convention; for 10 runs Student's would be 2.26. NaN for a single run.
    """
    values = np.asarray(values, dtype=float)
    return float(1.96 * values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def describe(values: Sequence[float] | np.ndarray, ci: bool = False) -> dict[str, Any]:
    """{mean, values} over seeds, with ci95 when asked for (null in the file for a single seed)."""
    values = np.asarray(values, dtype=float)
    interval = {"ci95": ci95(values) if values.size > 1 else None} if ci else {}
    return {"mean": float(values.mean()), **interval, "values": values.tolist()}


def log_slope(x: np.ndarray, y: np.ndarray, decades: float = 1.0) -> float:
    """Slope of log y on log x over the last decades of x, by least squares: the power of x that y grows with.

    Points where x or y is not above 0 are left out. NaN for fewer than two.
    """
    kept = (x >= x.max() / 10**decades) & (x > 0) & (y > 0)
    return float(np.polyfit(np.log(x[kept]), np.log(y[kept]), 1)[0]) if kept.sum() > 1 else float("nan")


def environment() -> dict[str, Any]:
    """Day, commit, versions and hardware of this process, for the summary. Holds no path and no host name."""
    day = datetime.now(UTC).date().isoformat()
    return {
        "date": day,
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
        "dtype": _float_dtype(),
    }


def commit() -> dict[str, Any]:
    """{"hash": ..., "dirty": whether the code differs from it}; "unknown" outside a git checkout."""
    revision = _git("rev-parse", "HEAD")
    if revision is None:
        return {"hash": "unknown", "dirty": "unknown"}
    # Only what can change a result counts; the results of an earlier run lying about do not.
    changes = _git("status", "--porcelain", "--", "jsketch", "experiments", "pyproject.toml")
    return {"hash": revision, "dirty": bool(changes)}


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
        model = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model
        )
    try:
        memory: float | str = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    except (AttributeError, ValueError, OSError):  # not every system can say
        memory = "unknown"
    return {
        "cpu": model,
        "cores": usable_cores(),
        "memory_gb": memory,
        "devices": [f"{device.platform}: {device.device_kind}" for device in jax.devices()],
    }


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def code() -> str:
    """The commit in one word; "-dirty" when the code differs from it."""
    now = commit()
    return f"{now['hash']}{'-dirty' if now['dirty'] is True else ''}"


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all. Raises ValueError for a NaN or an infinity, which JSON cannot hold."""
    files.write(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ValueError, naming the file, for anything else."""
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged (it holds no JSON object).")
    return content


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a compressed npz, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    files.write(path, buffer.getvalue())


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file. Raises ValueError, naming it, for one that is damaged."""
    with path.open("rb") as file:
        try:
            return dict(np.load(file, allow_pickle=False))
        except Exception as error:  # bytes that are wrong lead anywhere in zipfile, zlib and numpy
            raise ValueError(f"{path} is damaged ({error or type(error).__name__}).") from error


def claim(folder: Path, name: str, config: dict[str, Any]) -> None:
    """Say that the runs of `name` in `folder` are made with `config`, or check that they are.

    Raises ValueError, naming each difference, when runs there were made with another configuration.
    """
    path = folder / "runs" / f"{name}.json"
    if path.exists():
        try:
            before = read_json(path)
        except ValueError as error:
            raise ValueError(
                f"{error} It says how the runs of {name} were made: use another --out, or delete {folder / 'runs'} to start"
                " over."
            ) from error
        differences = compare(before, json.loads(json.dumps(config)))
        if differences:
            raise ValueError(
                f"{folder} holds runs of {name} made with another configuration: {'; '.join(differences)}. "
                "Use another --out, or delete that folder to start over."
            )
    write_json(path, config)


def compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences of two configurations in words: 'horizon was 200, is now 1000'."""
    missing = "not set"
    return [
        f"{field} was {before.get(field, missing)}, is now {now.get(field, missing)}"
        for field in sorted(before.keys() | now.keys())
        if before.get(field, missing) != now.get(field, missing)
    ]


def run_path(folder: Path, name: str, seed: int) -> Path:
    """Where the run of one algorithm under one seed is kept."""
    return folder / "runs" / f"{name}-{seed:03d}.npz"


def read_run(folder: Path, name: str, seed: int) -> dict[str, np.ndarray]:
    """The arrays of one finished run. Raises ValueError for a damaged file."""
    return read_saved(run_path(folder, name, seed))


def read_saved(path: Path) -> dict[str, np.ndarray]:
    """`read_npz` of a run that the same command would make again."""
    try:
        return read_npz(path)
    except ValueError as error:
        raise ValueError(f"{error} Remove it, and the same command makes that run again.") from error


def _git(*arguments: str) -> str | None:
    """git's answer in this repository, or None when there is no git, no repository or no commit."""
    try:
        answer = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _float_dtype() -> str:
    return str(jax.numpy.zeros(()).dtype)
