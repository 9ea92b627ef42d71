"""Files and folders of results: checks that they can be written, locks, and checksums. `write`
replaces a file atomically (`jsketch.loops.saving`).
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsketch.loops import saving
from jsketch.suggest.tables import command_line

write = saving.write
MARK = b"jsketch sha256 of all other bytes: "  # precedes a checksum in a file


def with_checksum(content: bytes, at: int) -> bytes:
    """The content of a file with its checksum inserted at the offset `at`, where readers of the
    format ignore additional bytes."""
    return content[:at] + MARK + hashlib.sha256(content).digest() + content[at:]


def check_checksum(path: Path, content: bytes) -> None:
    """Raises ValueError if the content does not match its checksum. The content of older files has
    no checksum and is not verified."""
    before, mark, after = content.rpartition(MARK)
    # a SHA-256 has 32 bytes
    if mark and hashlib.sha256(before + after[32:]).digest() != after[:32]:
        raise ValueError(f"{path} is damaged (it does not match its checksum).")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Locks `folder`. Raises ValueError if another process or call holds the lock."""
    lock = folder / "runs" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with saving.hold(lock, folder, "use another --out"):
        yield


def check_folder(folder: Path) -> None:
    """Makes `folder`. Raises ValueError or OSError unless files can be written into it."""
    existing = next((part for part in (folder, *folder.parents) if os.path.lexists(part)), None)
    if existing is not None and not existing.is_dir():
        raise ValueError(f"--out names a folder; {existing} is a file.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise saving.error_at(folder, error) from error
    command_line.probe(folder)
