"""Files that are whole or not at all, and whether one can be written, asked before the work and not
after it."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROBE = bytes(4096)  # what must fit on the disk before anything is computed
_parts: set[Path] = set()  # temporary files of unfinished writes, and scratch folders


def write(path: Path, content: bytes) -> None:
    """Replaces `path` by way of a temporary file beside it, whose name no other writer has: an
    interrupted write leaves the old file, and of several writers at a time one wins. Folders that
    are missing are made.

    A symbolic link stays one: the file that it names is replaced. Devices and pipes (/dev/stdout)
    are written to as they are. Raises OSError that names `path`.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise _about(path, error) from error


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.tmp")
    _parts.add(part)
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        _parts.discard(part)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that goes when the block, or the process, ends."""
    with tempfile.TemporaryDirectory(prefix="jsketch-") as name:
        _parts.add(Path(name))
        try:
            yield Path(name)
        finally:
            _parts.discard(Path(name))


def remove_parts() -> None:
    """Removes the temporary files of unfinished writes and the scratch folders, for a process that
    ends now."""
    for part in tuple(_parts):
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
        raise _about(folder, error) from error
    _probe(folder)


def _probe(folder: Path) -> None:
    """Permissions, read-only and full disks show in a file that is written, and nowhere else."""
    part = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        part.write_bytes(PROBE)
    except OSError as error:
        raise _about(folder, error) from error
    finally:
        part.unlink(missing_ok=True)


def _about(path: Path, error: OSError) -> OSError:
    """The same error, of the file that the caller named and not of a temporary one."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))
