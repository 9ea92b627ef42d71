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
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import jax
import numpy as np
from flax import serialization

from jsketch import struct
from jsketch.loops.describe import describe, differences
from jsketch.online.standardized import LATE_EXAMPLES
from jsketch.results import Result
from jsketch.warn import warn

SIMULATED_RUN, HOST_RUN, STREAM = "jsketch run", "jsketch run on the host", "jsketch live stream"
VERSION = 5  # of the format of files
ADVICE = "Name another file, or remove this one."
# Fields of the states of jsketch whose values `RunFile.restore` checks: numbers of arms, and values
# that are never negative, never infinite or never above a number.
ARM_NUMBERS = ("arm", "arms", "index", "members", "pulled")
NONNEGATIVE = (
    "count",
    "counts",
    "due",
    "information",
    "received",
    "result",
    "round",
    "scale",
    "t",
    "used",
    "variance",
    "varied",
)
FINITE = (
    "count",
    "counts",
    "dual",
    "information",
    "inverse",
    "late",
    "logdet",
    "mean",
    "middle",
    "points",
    "root",
    "scale",
    "solved",
    "sums",
    "variance",
    "weights",
)
MOST = {"due": 3, "result": max(Result), "varied": LATE_EXAMPLES}
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
        belongs = self.entry(header, "belongs", lambda value: isinstance(value, dict), "an object")
        changes = differences(belongs, json.loads(json.dumps(self.description)))
        if changes:
            raise ValueError(f"{self.path} holds another run: {'; '.join(changes)}. {ADVICE}")
        return header, state

    def entry(
        self, header: dict[str, Any], name: str, valid: Callable[[Any], bool], words: str
    ) -> Any:
        """The entry of the header with this name. Raises ValueError if it is missing, or not valid
        and so not what the `words` say."""
        if name not in header:
            raise self.invalid(name, "is missing")
        if not valid(header[name]):
            raise self.invalid(name, f"is {header[name]!r:.60}, and not {words}")
        return header[name]

    def whole_number(self, header: dict[str, Any], name: str, most: float = np.inf) -> int:
        """The entry of the header with this name, an integer from 0 to `most`, as `entry`."""
        words = "a whole number" + ("" if most == np.inf else f" of at most {most}")
        return self.entry(header, name, lambda n: type(n) is int and 0 <= n <= most, words)

    def invalid(self, name: str, problem: str) -> ValueError:
        """The error for an entry of the file that no run writes."""
        return ValueError(
            f"{self.path} is not as it was saved: its entry {name} {problem}. {ADVICE}"
        )

    def restore(
        self, template: Any, state: bytes, n_arms: int | None = None, may_grow: bool = False
    ) -> Any:
        """The state in the bytes. Raises ValueError unless its entries have the names, the shapes
        and the dtypes of those of `template`, and valid values. In states that are not of jsketch,
        the values are not checked, and the shapes and dtypes only if a compiled run continues.

        n_arms      the number of arms of the run; None: the run is not over arms
        may_grow    whether an array may be larger than that of the template
        """
        try:
            restored = serialization.from_bytes(template, state)
        except Exception as error:  # msgpack raises errors of many classes
            raise ValueError(
                f"{self.path} was written by another version of jsketch, whose states had other"
                f" fields ({error}). {ADVICE}"
            ) from error
        expected = jax.tree_util.tree_leaves_with_path(template)
        entries = dict(jax.tree_util.tree_leaves_with_path(restored))
        for path, old in expected:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            if path not in entries:
                raise self.invalid(name, "is not an array")
            owner = template
            for key in path[:-1]:
                owner = struct.child(owner, key)
            in_jsketch = type(owner).__module__.startswith("jsketch.")
            # between compiled rounds on the host, other states may change their shapes and dtypes
            if not in_jsketch and not isinstance(owner, dict) and self.kind != SIMULATED_RUN:
                continue
            new, old = np.asarray(entries[path]), np.asarray(old)
            fits = new.shape == old.shape or (
                may_grow and new.ndim == old.ndim and np.greater_equal(new.shape, old.shape).all()
            )
            if not fits or new.dtype != old.dtype:
                was, is_now = (f"{a.dtype}{list(a.shape)}" for a in (new, old))
                raise self.invalid(name, f"is {was}, and the run has {is_now}")
            if in_jsketch:  # what the numbers of other states mean is not known
                self._check_values(name, name.rpartition(".")[2], new, old, n_arms)
        return restored

    def _check_values(
        self, name: str, field: str, new: np.ndarray, old: np.ndarray, n_arms: int | None
    ) -> None:
        """Raises ValueError unless the values of a field are possible. The values `old` of the
        template, such as the number in free slots, are possible."""
        conditions = []
        if field in ARM_NUMBERS and n_arms is not None:
            words = f"which is not the number of one of {n_arms} arms"
            conditions.append(((new >= 0) & (new < n_arms), words))
        if field in FINITE and new.dtype.kind == "f":
            conditions.append((np.isfinite(new), "which is not finite"))
        if field in NONNEGATIVE:
            conditions.append((~(new < 0), "which is negative"))
        if field in MOST:
            conditions.append((~(new > MOST[field]), f"which is above {MOST[field]}"))
        for valid, words in conditions:
            wrong = new[~valid]
            wrong = wrong[~np.isin(wrong, old) & ~(np.isnan(wrong) & np.isnan(old).any())]
            if wrong.size:
                raise self.invalid(name, f"has the value {wrong[0]}, {words}")


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
    header_line, _, state = rest.partition(b"\n")
    try:
        header = json.loads(header_line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{path} is not a saved {kind}: its second line is no header. {ADVICE}")
    return header, state


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
