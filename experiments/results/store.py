"""What an experiment leaves behind: a summary that says how it was made, and finished seeds that
can be resumed.

A folder of results holds `summary.json`, figures, and `runs/`: one configuration file per algorithm
and one npz file per algorithm and seed. Every file appears whole or not at all, and carries a
checksum of what it holds, so that a damaged one is refused. JSON files that were written before
they had a checksum are read without verification.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.results import files

_ABSENT = "not there"
_CHECKSUM = "checksum"  # the last entry of a JSON object in a file, of all others
_SHA256 = "sha256 "  # begins its value: no flipped bit hides both, and with them the entry


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all; an object with its checksum. Raises ValueError for a NaN or
    an infinity, which JSON cannot hold."""
    if isinstance(content, dict):
        # as it is read: lists for tuples, words for the numbers that name entries
        content = json.loads(json.dumps(content, allow_nan=False))
        content[_CHECKSUM] = _checksum(content)
    files.write(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, without its checksum. Raises ValueError, naming the file, for anything else,
    and for an object that does not fit its checksum."""
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged (it holds no JSON object).")
    has_checksum = _CHECKSUM in content or any(
        isinstance(value, str) and value.startswith(_SHA256) for value in content.values()
    )
    if has_checksum and content.pop(_CHECKSUM, None) != _checksum(content):
        raise ValueError(f"{path} is damaged (it does not fit its checksum).")
    return content


def _checksum(content: dict[str, Any]) -> str:
    return _SHA256 + hashlib.sha256(json.dumps(content).encode()).hexdigest()


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a compressed npz with a checksum, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    # the checksum is the comment of the zip file, whose size are the last two bytes
    size = len(files.with_checksum(b"", 0)).to_bytes(2, "little")
    content = buffer.getvalue()[:-2] + size
    files.write(path, files.with_checksum(content, len(content)))


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file. Raises ValueError, naming it, for one that is damaged."""
    content = path.read_bytes()
    files.check_checksum(path, content)
    try:
        return dict(np.load(io.BytesIO(content), allow_pickle=False))
    except Exception as error:
        # bytes that are wrong lead anywhere in zipfile, zlib and numpy
        raise ValueError(f"{path} is damaged ({error or type(error).__name__}).") from error


def claim(folder: Path, name: str, config: dict[str, Any]) -> None:
    """Records that the runs of `name` in `folder` are made with `config`. Raises ValueError, naming
    each difference, when another configuration is recorded there."""
    path = folder / "runs" / f"{name}.json"
    if path.exists():
        try:
            before = read_json(path)
        except ValueError as error:
            raise ValueError(
                f"{error} It records how the runs of {name} were made: use another --out, or delete"
                f" {folder / 'runs'} to start over."
            ) from error
        found = differences(before, json.loads(json.dumps(config)))
        if found:
            raise ValueError(
                f"{folder} holds runs of {name} made with another configuration:"
                f" {'; '.join(found)}. Use another --out, or delete that folder to start over."
            )
    write_json(path, config)


def differences(before: Any, now: Any, additions: bool = True, name: str = "") -> list[str]:
    """How two configurations differ, entry by entry: 'bkb horizon was 200, is now 1000'. additions:
    whether entries that only `now` has are differences."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [*before, *(key for key in now if additions and key not in before)]
        return [
            words
            for key in names
            for words in differences(
                before.get(key, _ABSENT), now.get(key, _ABSENT), additions, f"{name} {key}".strip()
            )
        ]
    if before == now:
        return []
    was, is_now = ("there" if isinstance(value, dict) else value for value in (before, now))
    return [f"{name} was {was}, is now {is_now}"]


def run_path(folder: Path, name: str, seed: int) -> Path:
    """Where the run of one algorithm under one seed is kept."""
    return folder / "runs" / f"{name}-{seed:03d}.npz"


def missing(folder: Path, name: str, seeds: int) -> list[int]:
    """Those of the first seeds that lack a finished run of some algorithm in the folder."""
    return [seed for seed in range(seeds) if not run_path(folder, name, seed).exists()]


def read_run(folder: Path, name: str, seed: int) -> dict[str, np.ndarray]:
    """The arrays of one finished run. Raises ValueError for a damaged file."""
    return read_saved(run_path(folder, name, seed))


def read_saved(path: Path) -> dict[str, np.ndarray]:
    """`read_npz` of a run that the same command would make again."""
    try:
        return read_npz(path)
    except ValueError as error:
        raise ValueError(
            f"{error} Remove it, and the same command makes that run again."
        ) from error
