"""Files that are whole or not at all, and one writer to a file or a folder at a time."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import filelock

from jsketch.warn import warn

# what a disk without locks answers: some network file systems
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
unfinished: set[Path] = set()  # the part files that this process is writing


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces the file at `path` with one of this content, and makes the folders that are missing.

    The content goes to a part file beside the file, which then takes its name: an interrupted write
    leaves the old file, and of several writers at the same time the last one wins. The next write
    of the file removes the part files that killed processes have left. A symbolic link stays one:
    the file that it names is replaced. Devices and pipes (/dev/stdout) are written to directly.
    Raises OSError that names `path`.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise about(path, error) from error


def about(path: Path, error: OSError) -> OSError:
    """The same error, with the file that the caller named in place of a temporary one."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))


@contextmanager
def held(lock: Path, what: object, advice: str) -> Iterator[None]:
    """Holds the lock file `lock` of `what`, a file or a folder. Raises ValueError, with the advice,
    while another process or another call in this process holds it.

    The operating system releases the lock when the process ends, however it ends; the lock file
    stays, and the next process locks it again. On a disk that has no locks a warning takes the
    place of the lock.
    """
    holder = filelock.FileLock(lock, blocking=False, fallback_to_soft=False)
    try:
        holder.acquire()
    except filelock.Timeout:
        raise ValueError(
            f"{what} is being written by another process, or by another call in this one: wait for"
            f" it, or {advice}."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ValueError(f"{what} cannot be written: {error}.") from error
        warn(f"{lock} cannot be locked ({error}): a second process could write {what} too.")
    try:
        yield
    finally:
        holder.release()


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # a long name and the endings would be longer than a name may be
    beginning = f".{path.name[:40]}."
    for part in path.parent.glob(f"{glob.escape(beginning)}*.part"):
        _remove_abandoned(part)
    part, file = _new_part(path.parent, beginning)
    unfinished.add(part)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if path.exists():
                shutil.copymode(path, part)
            if os.name == "nt":
                # Windows renames no open file, and removes none either
                file.close()
            # elsewhere the part file takes the name before it is closed, which ends its lock
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        unfinished.discard(part)


def _new_part(folder: Path, beginning: str) -> tuple[Path, BinaryIO]:
    """A new part file, open and locked for as long as it is open."""
    while True:
        part = folder / f"{beginning}{secrets.token_hex(8)}.part"
        file = part.open("xb")
        with suppress(OSError):  # a disk that has no locks
            filelock.lock_descriptor(file.fileno())
        if part.exists():
            return part, file
        # another writer has removed it as abandoned, before it was locked
        file.close()


def _remove_abandoned(part: Path) -> None:
    """Removes a part file unless a process that is alive holds its lock."""
    with suppress(OSError), part.open("r+b") as file:
        if filelock.lock_descriptor(file.fileno(), blocking=False):
            part.unlink()
