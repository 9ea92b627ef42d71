"""Whether a run may resume from a file: no other process writes it, it belongs to the run, and its
state has the run's form."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from flax import serialization

from jsketch.loops.saving import files, processes
from jsketch.loops.saving.describe import differences


def restored(path: Path, start: Any, body: bytes) -> Any:
    """What the bytes of a file hold, in the form of `start`. Raises ValueError when it has not the
    fields of `start`."""
    try:
        return serialization.from_bytes(start, body)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path} was written by another version of jsketch, whose states had other fields"
            f" ({error}). Resume with that version, name another file, or remove it."
        ) from error


@contextmanager
def locked(paths: Iterable[Path]) -> Iterator[None]:
    """Holds the files at these paths. Raises ValueError while another process, or another call in
    this one, is writing one of them."""
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(files.held(Path(f"{path}.lock"), path, "name another checkpoint"))
        yield


@contextmanager
def held(paths: list[Path], over: bool) -> Iterator[None]:
    """`locked`, for a run that may lie over several processes: process 0 holds its files. Raises
    ValueError in all of them where another one is writing."""
    if not over:
        with locked(paths):
            yield
        return
    with ExitStack() as stack:
        refused = None
        try:
            stack.enter_context(locked(paths if processes.writes(over) else []))
        except ValueError as error:
            refused = error
        # all of them learn of it, and none waits for one that has ended
        if bool(processes.from_first(np.array(refused is not None))):
            raise refused or ValueError(f"process 0 cannot write {', '.join(map(str, paths))}.")
        yield


def check_belongs(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises ValueError, and names the differences, unless a file of `before` belongs to what there
    is `now`."""
    changed = differences(before, json.loads(json.dumps(now)))
    if changed:
        raise ValueError(
            f"{path} holds another run: {'; '.join(changed)}. Name another file, or remove it."
        )


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Raises ValueError unless a file can be written there."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint is the path of a file; {path!r} was given.")
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"checkpoint names a file in a folder that exists; {path} was given.")
    return path


def versions() -> dict[str, str]:
    """What decides the numbers of a run: another version may round, and so pick, otherwise."""
    return {name: importlib.metadata.version(name) for name in ("jsketch", "jax", "jaxlib")}
