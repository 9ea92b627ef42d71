"""The files of runs and of streams: written whole or not at all, by one writer at a time, and read
only by the run that they belong to.

A file has a line of JSON with its kind, the version of the format and a hash of all that follows;
then a line of JSON, the header; then the arrays of the state as flax serializes them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import jax
import numpy as np
from flax import serialization

from jsketch.loops.describe import describe, differences
from jsketch.warn import warn

SIMULATED_RUN, HOST_RUN, STREAM = "jsketch run", "jsketch run on the host", "jsketch live stream"
VERSION = 3  # of the format
ADVICE = "Name another file, or remove it."
# errors of locking on disks that have no locks, such as some network file systems
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class RunFile(NamedTuple):
    """The file of a run or a stream.

    path     of the file
    kind     SIMULATED_RUN, HOST_RUN or STREAM
    belongs  the description of the run (`describe`); a file of another description is refused
    """

    path: Path
    kind: str
    belongs: dict[str, Any]

    def save(self, state: Any, **header: Any) -> None:
        """Replaces the file; `header` is a few numbers that are readable without the state."""
        lines = json.dumps(dict(belongs=self.belongs) | header).encode() + b"\n"
        content = lines + serialization.to_bytes(state)
        digest = hashlib.sha256(content).hexdigest()
        first = dict(format=self.kind, version=VERSION, sha256=digest)
        write(self.path, json.dumps(first).encode() + b"\n" + content)

    def load(self) -> tuple[dict[str, Any], bytes] | None:
        """(header, state as bytes), None where there is no file. Raises ValueError for a file that
        is damaged or belongs to something else, and names the differences."""
        if not self.path.exists():
            return None
        header, state = parse(self.path, self.path.read_bytes(), self.kind)
        changed = differences(header["belongs"], json.loads(json.dumps(self.belongs)))
        if changed:
            raise ValueError(f"{self.path} holds another run: {'; '.join(changed)}. {ADVICE}")
        return header, state

    def restore(self, like: Any, state: bytes) -> Any:
        """The state of the file, in the form of the tree `like`. Raises ValueError where the fields
        differ."""
        try:
            return serialization.from_bytes(like, state)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} was written by another version of jsketch, whose states had other"
                f" fields ({error}). {ADVICE}"
            ) from error


def parse(path: Path, content: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    """(header, state as bytes) of the content of a file of that kind. Raises ValueError for a file
    that is damaged or of another kind."""
    line, _, rest = content.partition(b"\n")
    try:
        first = json.loads(line)
        kind_and_version = first["format"], first["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved {kind}. {ADVICE}") from error
    if kind_and_version != (kind, VERSION):
        raise ValueError(
            f"{path} is a {kind_and_version[0]}, version {kind_and_version[1]}, and not a {kind},"
            f" version {VERSION}. {ADVICE}"
        )
    if hashlib.sha256(rest).hexdigest() != first.get("sha256"):
        raise ValueError(f"{path} is damaged: its hash is another. {ADVICE}")
    header, _, state = rest.partition(b"\n")
    return json.loads(header), state


def run_file(
    path: str | os.PathLike[str], kind: str, key: jax.Array | None = None, **parts: Any
) -> RunFile:
    """The file of a run of these parts, and of its key if it has one. Raises ValueError unless a
    file can be written at the path, and for arrays that lie over several processes."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint is the path of a file; {path!r} was given.")
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"checkpoint names a file in a folder that exists; {path} was given.")
    for leaf in jax.tree.leaves(parts):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            raise ValueError(
                "the arms lie over several processes, and a run of those has no file: leave"
                " checkpoint out."
            )
    if key is not None:
        data, kind_of_key = np.asarray(jax.random.key_data(key)), str(jax.random.key_impl(key))
        parts |= dict(key=data, key_kind=kind_of_key)
    return RunFile(path, kind, describe(parts))


@contextmanager
def lock_files(files: Iterable[RunFile | None]) -> Iterator[None]:
    """Holds the lock files `path.lock` of several files. Raises ValueError while another process or
    another call in this one holds one of them."""
    with ExitStack() as stack:
        for file in filter(None, files):
            lock = Path(f"{file.path}.lock")
            stack.enter_context(hold(lock, file.path, "name another checkpoint"))
        yield


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces the file at `path` with one of this content, and makes the folders that are missing.

    The content goes to a part file beside the file, which then takes its name: an interrupted write
    leaves the old file, and of several writers at the same time the last one wins. A symbolic link
    stays: the file that it names is replaced. Devices and pipes (/dev/stdout) are written to
    directly. Raises OSError that names `path`.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise error_at(path, error) from error


def error_at(path: Path, error: OSError) -> OSError:
    """The same error, naming the file of the caller in place of the temporary one."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))


@contextmanager
def hold(lock: Path, what: object, advice: str) -> Iterator[None]:
    """Holds the lock file `lock` of `what`, a file or a folder. Raises ValueError, with the advice,
    while another process or another call in this process holds it.

    The operating system releases the lock when the process ends, however it ends; the lock file
    stays, and the next process locks it again. Where the disk has no locks, a warning replaces the
    lock.
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
    # the whole of a long name and the endings would exceed the longest name that disks allow
    part = path.parent / f".{path.name[:40]}.{secrets.token_hex(8)}.part"
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
