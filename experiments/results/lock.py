"""One writer to a folder at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsketch.loops.saving import lock


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds `folder` for this process. Raises ValueError, naming the other one, when another
    process holds it.

    A killed process lets go of the folder, and leaves nothing to clean up (`jsketch.loops.lock`).
    """
    file = folder / "runs" / "lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with lock.held(file, folder, "use another --out", keep=True):
        yield
