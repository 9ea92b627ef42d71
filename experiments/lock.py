"""One writer to a folder at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds `folder` for this process. Raises ValueError, naming the other one, when another process holds it.

    The kernel lets go of the lock with the process, however it ends: a killed one leaves nothing to clean up.
    """
    path = folder / "runs" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ValueError(
                f"{folder} is being written by process {file.read().strip()}: wait for it, or use another --out."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
