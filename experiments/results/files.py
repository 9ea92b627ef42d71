"""Files and folders of results: whether they can be written, asked before the work and not after
it; one writer to a folder at a time; and checksums. `write` is that of
`jsketch.loops.saving`."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsketch.loops.saving import about, unfinished, write
from jsketch.loops.saving import held as _held

__all__ = [
    "check",
    "check_checksum",
    "check_folder",
    "check_new",
    "held",
    "remove_parts",
    "scratch",
    "with_checksum",
    "write",
]

MARK = b"jsketch sha256 of all other bytes: "  # precedes a checksum in a file
PROBE = bytes(4096)  # what must fit on the disk before anything is computed


def with_checksum(content: bytes, at: int) -> bytes:
    """The content of a file with the checksum of all of it, inserted where readers of the format
    pass over it."""
    return content[:at] + MARK + hashlib.sha256(content).digest() + content[at:]


def check_checksum(path: Path, content: bytes) -> None:
    """Raises ValueError, naming the file, for content that does not fit its checksum. Content
    without one, of files that were written before they had it, is not verified."""
    before, mark, after = content.rpartition(MARK)
    if mark and hashlib.sha256(before + after[32:]).digest() != after[:32]:
        raise ValueError(f"{path} is damaged (it does not fit its checksum).")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds `folder`. Raises ValueError while another process, or another call in this one, holds
    it."""
    lock = folder / "runs" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with _held(lock, folder, "use another --out"):
        yield


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that goes when the block, or the process, ends."""
    with tempfile.TemporaryDirectory(prefix="jsketch-") as name:
        unfinished.add(Path(name))
        try:
            yield Path(name)
        finally:
            unfinished.discard(Path(name))


def remove_parts() -> None:
    """Removes the temporary files of unfinished writes and the scratch folders, for a process that
    ends now."""
    for part in tuple(unfinished):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def check(path: Path) -> None:
    """Raises ValueError or OSError unless a file can be written at `path`: its folder is there, and
    has room."""
    if path.is_dir():
        raise ValueError(f"--out names a file; {path} is a folder.")
    # a device or a pipe
    if path.exists() and not path.is_file():
        return
    parent = Path(os.path.realpath(path)).parent
    if not parent.is_dir():
        raise ValueError(f"--out names a file in a folder that exists; {path} was given.")
    _probe(parent)


def check_new(path: Path | None, overwrite: bool) -> None:
    """`check`, and ValueError for a file that is there already, unless it may be replaced. None is
    no file."""
    if path is None:
        return
    check(path)
    if path.is_file() and not overwrite:
        raise ValueError(
            f"{path} is there already: use another --out, or --overwrite to replace it."
        )


def check_folder(folder: Path) -> None:
    """Makes `folder`. Raises ValueError or OSError, naming what is in the way, unless files can be
    written into it."""
    taken = next((part for part in (folder, *folder.parents) if os.path.lexists(part)), None)
    if taken is not None and not taken.is_dir():
        raise ValueError(f"--out names a folder; {taken} is a file.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise about(folder, error) from error
    _probe(folder)


def _probe(folder: Path) -> None:
    """Permissions, read-only and full disks show in a file that is written, and nowhere else."""
    try:
        # the system removes it when its process ends, however that ends
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(PROBE)
    except OSError as error:
        raise about(folder, error) from error
