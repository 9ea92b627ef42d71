"""Files of runs and of streams. A file is replaced atomically, by one writer at a time, and only a
run with the same description as the writer's can resume from it.

The first line of a file is JSON: the kind of the file, the version of the format and a hash of the
rest. The second line is the header, also JSON. Then come the arrays of the state as flax
serializes them.
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
VERSION = 3  # of the format of files
ADVICE = "Name another file, or remove this one."
# errors of file systems without locks, such as some network file systems
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class RunFile(NamedTuple):
    """The file of a run or a stream.

    path         the path of the file
    kind         SIMULATED_RUN, HOST_RUN or STREAM
    description  `describe` of the run; `load` raises an error for a file with another description
    """

    path: Path
    kind: str
    description: dict[str, Any]

    def save(self, state: Any, **header: Any) -> None:
        """Replaces the file; `header` has values that can be read without the state."""
        header_line = json.dumps(dict(belongs=self.description) | header).encode() + b"\n"
        content = header_line + serialization.to_bytes(state)
        digest = hashlib.sha256(content).hexdigest()
        first_line = dict(format=self.kind, version=VERSION, sha256=digest)
        write(self.path, json.dumps(first_line).encode() + b"\n" + content)

    def load(self) -> tuple[dict[str, Any], bytes] | None:
        """(header, state as bytes); None if there is no file. Raises ValueError for a file that is
        damaged or of another run; the message lists the differences."""
        if not self.path.exists():
            return None
        header, state = parse(self.path, self.path.read_bytes(), self.kind)
        changes = differences(header["belongs"], json.loads(json.dumps(self.description)))
        if changes:
            raise ValueError(f"{self.path} holds another run: {'; '.join(changes)}. {ADVICE}")
        return header, state

    def restore(self, template: Any, state: bytes) -> Any:
        """The state in the bytes. Raises ValueError if `template` has other fields."""
        try:
            return serialization.from_bytes(template, state)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self.path} was written by another version of jsketch, whose states had other"
                f" fields ({error}). {ADVICE}"
            ) from error


def parse(path: Path, content: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    """(header, state as bytes) of the content of a file. Raises ValueError for a file that is
    damaged or not of this kind."""
    line, _, rest = content.partition(b"\n")
    try:
        first_line = json.loads(line)
        kind_and_version = first_line["format"], first_line["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved {kind}. {ADVICE}") from error
    if kind_and_version != (kind, VERSION):
        raise ValueError(
            f"{path} is a {kind_and_version[0]}, version {kind_and_version[1]}, and not a {kind},"
            f" version {VERSION}. {ADVICE}"
        )
    if hashlib.sha256(rest).hexdigest() != first_line.get("sha256"):
        raise ValueError(f"{path} is damaged: its hash does not match. {ADVICE}")
    header, _, state = rest.partition(b"\n")
    return json.loads(header), state


def run_file(
    path: str | os.PathLike[str], kind: str, key: jax.Array | None = None, **parts: Any
) -> RunFile:
    """The file of a run that the parts and the key describe. Raises ValueError if the path is a
    folder or is in a folder that does not exist, and for arrays over several processes."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint is the path of a file; {path!r} was given.")
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"checkpoint is a file in a folder that exists; {path} was given.")
    for leaf in jax.tree.leaves(parts):
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            raise ValueError(
                "the arms are on several processes, and such a run cannot be saved: leave"
                " checkpoint out."
            )
    if key is not None:
        parts |= dict(key=np.asarray(jax.random.key_data(key)))
        parts |= dict(key_kind=str(jax.random.key_impl(key)))
    return RunFile(path, kind, describe(parts))


@contextmanager
def lock_files(files: Iterable[RunFile | None]) -> Iterator[None]:
    """Holds the lock files `path.lock` of several files. Raises ValueError as `hold` does."""
    with ExitStack() as stack:
        for file in filter(None, files):
            lock = Path(f"{file.path}.lock")
            stack.enter_context(hold(lock, file.path, "name another checkpoint"))
        yield


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces the content of the file at `path`; missing folders are made.

    The content is written to a temporary file in the same folder, which is then renamed: an
    interrupted write leaves the old file, and the last of several writers wins. A symbolic link is
    followed. Devices and pipes (/dev/stdout) are written directly. An OSError has the path `path`.
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
    """The error, with the path of the caller in place of the path of the temporary file."""
    return error if error.errno is None else OSError(error.errno, error.strerror, str(path))


@contextmanager
def hold(lock: Path, target: object, advice: str) -> Iterator[None]:
    """Holds the lock file `lock` of `target`, a file or a folder. Raises ValueError, with the
    advice, while another process or another call in this process holds the lock.

    The operating system releases the lock when the process ends; the lock file stays. On a file
    system without locks the function warns instead.
    """
    file_lock = filelock.FileLock(lock, blocking=False, fallback_to_soft=False)
    try:
        file_lock.acquire()
    except filelock.Timeout:
        raise ValueError(
            f"{target} is being written by another process, or by another call in this one: wait"
            f" for it, or {advice}."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ValueError(f"{target} cannot be written: {error}.") from error
        warn(f"{lock} cannot be locked ({error}): a second process could write {target} too.")
    try:
        yield
    finally:
        file_lock.release()


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # a long name with these endings could exceed the limit of the file system
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(8)}.part"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
