"""One writer to a file or a folder at a time, among all processes that see the same disk."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jsketch.warn import warn

if sys.platform != "win32":  # there calls of one process are kept apart, processes are not
    import fcntl

# held by this process: the system's locks do not exclude its own calls
_ours: set[str] = set()
_guard = threading.Lock()


@contextmanager
def held(file: Path, what: object, advice: str, keep: bool = False) -> Iterator[None]:
    """Holds the lock `file` of `what`. Raises ValueError when another process holds it, with its
    number and the advice, and when the file cannot be written.

    The system lets go of the lock with the process, however it ends: a killed one leaves a file
    that blocks no other. Disks of a network that keep locks keep this one; where a disk keeps none,
    a warning says so. keep: the file stays afterwards.
    """
    path = os.path.realpath(file)
    with _guard:
        if path in _ours:
            raise ValueError(_words(what, f"{os.getpid()} {socket.gethostname()}", advice))
        _ours.add(path)
    try:
        if sys.platform == "win32":
            yield
            return
        descriptor = _locked(path, what, advice)
        try:
            yield
        finally:
            if not keep:
                Path(path).unlink(missing_ok=True)
            os.close(descriptor)
    finally:
        _ours.discard(path)


def _locked(path: str, what: object, advice: str) -> int:
    """The descriptor of the lock file, which is this process's as long as it is open."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ValueError(f"{what} cannot be written: {error}.") from error
        try:
            # the lock of a process, not of an open file, which its children would hold on to
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            owner = os.read(descriptor, 1000).decode(errors="replace")
            os.close(descriptor)
            raise ValueError(_words(what, owner, advice)) from None
        except OSError as error:
            warn(
                f"{path} cannot be locked ({error}): nothing keeps a second process from {what}.",
            )
        if _is_at(descriptor, path):
            break
        # its holder removed it after we opened it
        os.close(descriptor)
    # a full disk: the lock is held without saying by whom
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}".encode())
    return descriptor


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _words(what: object, owner: str, advice: str) -> str:
    process, _, host = owner.strip().partition(" ")
    here = host == socket.gethostname()
    if here and process == str(os.getpid()):
        writer = "another call in this process"
    else:
        writer = (
            (f"process {process}" if here else f"process {process} on {host}")
            if host
            else "another process"
        )
    return f"{what} is being written by {writer}: wait for it, or {advice}."
