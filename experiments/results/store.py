"""Saved files: JSON objects, and npz files of single runs.

A folder of results holds `summary.json`, figures, and `runs/`: a configuration file for each
algorithm and an npz file for each algorithm and seed. Files are replaced atomically and carry a
checksum, and damaged files are refused. JSON files without a checksum are older, and are read
without verification.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.results import environment, files

_ABSENT = "missing"
_CHECKSUM = "checksum"  # the last entry of a JSON object in a file
# the checksum begins with this, so that an entry with a damaged key is still recognized
_SHA256 = "sha256 "


def write_json(path: Path, content: Any) -> None:
    """Writes JSON; an object gets a checksum. Raises ValueError for a NaN or an infinity, which
    JSON cannot hold."""
    if isinstance(content, dict):
        # the object that a reader gets, with lists for tuples and strings for keys
        content = json.loads(json.dumps(content, allow_nan=False))
        content[_CHECKSUM] = _checksum(content)
    files.write(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def write_numbers(path: Path | None, content: dict[str, Any]) -> None:
    """Writes the numbers of a benchmark with their provenance, unless `path` is None."""
    if path is not None:
        write_json(path, dict(environment=environment.provenance(), **content))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, without its checksum. If the file holds anything else, or does not match its
    checksum, the ValueError names the file."""
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged (it is not a JSON object).")
    has_checksum = _CHECKSUM in content or any(
        isinstance(value, str) and value.startswith(_SHA256) for value in content.values()
    )
    if has_checksum and content.pop(_CHECKSUM, None) != _checksum(content):
        raise ValueError(f"{path} is damaged (it does not match its checksum).")
    return content


def _checksum(content: dict[str, Any]) -> str:
    return _SHA256 + hashlib.sha256(json.dumps(content).encode()).hexdigest()


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a compressed npz file with a checksum."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    # the checksum is the comment of the zip file; the last two bytes are the comment's size
    comment_size = len(files.with_checksum(b"", at=0)).to_bytes(2, "little")
    content = buffer.getvalue()[:-2] + comment_size
    files.write(path, files.with_checksum(content, at=len(content)))


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file. Raises ValueError if it is damaged."""
    content = path.read_bytes()
    files.check_checksum(path, content)
    try:
        return dict(np.load(io.BytesIO(content), allow_pickle=False))
    except Exception as error:
        # damaged bytes raise many kinds of errors in zipfile, zlib and numpy
        raise ValueError(f"{path} is damaged ({error or type(error).__name__}).") from error


def record_configuration(folder: Path, name: str, config: dict[str, Any]) -> None:
    """Records that the runs of `name` in `folder` are made with `config`. Raises ValueError, with
    the differences, if another configuration is recorded there."""
    path = folder / "runs" / f"{name}.json"
    if path.exists():
        try:
            before = read_json(path)
        except ValueError as error:
            raise ValueError(
                f"{error} It records how the runs of {name} were made: use another --out, or delete"
                f" {folder / 'runs'} to start over."
            ) from error
        changes = differences(before, json.loads(json.dumps(config)))
        if changes:
            raise ValueError(
                f"{folder} holds runs of {name} made with another configuration:"
                f" {'; '.join(changes)}. Use another --out, or delete that folder to start over."
            )
    write_json(path, config)


def differences(before: Any, after: Any, additions: bool = True, name: str = "") -> list[str]:
    """The differences of two configurations, such as 'bkb horizon was 200, is now 1000'. additions:
    whether entries that only `after` has are differences."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(key for key in after if additions and key not in before)]
        changes = []
        for key in names:
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            changes += differences(old, new, additions, f"{name} {key}".strip())
        return changes
    if before == after:
        return []
    old, new = ("present" if isinstance(value, dict) else value for value in (before, after))
    return [f"{name} was {old}, is now {new}"]


def run_path(folder: Path, name: str, seed: int) -> Path:
    """The file of the run of an algorithm under a seed."""
    return folder / "runs" / f"{name}-{seed:03d}.npz"


def missing(folder: Path, name: str, seeds: int) -> list[int]:
    """The seeds below `seeds` that have no run of the algorithm in the folder."""
    return [seed for seed in range(seeds) if not run_path(folder, name, seed).exists()]


def read_run(folder: Path, name: str, seed: int) -> dict[str, np.ndarray]:
    """The arrays of one finished run. Raises ValueError if the file is damaged."""
    return read_saved(run_path(folder, name, seed))


def read_saved(path: Path) -> dict[str, np.ndarray]:
    """The arrays in the file of a run. Raises ValueError if it is damaged."""
    try:
        return read_npz(path)
    except ValueError as error:
        raise ValueError(
            f"{error} Remove the file, and the same command makes that run again."
        ) from error
