"""Files of live streams and of runs: a line of JSON that says what it is, then the numbers of the
state."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

STREAM, RUN = "jsketch live stream", "jsketch run"
ARM_RUN, BOX_RUN = "jsketch run over arms on the host", "jsketch run over a box"
VERSION = 1


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], body: bytes) -> None:
    """Writes a file of a kind, STREAM, RUN, ARM_RUN or BOX_RUN, whole or not at all."""
    header = dict(format=kind, version=VERSION, sha256=hashlib.sha256(body).hexdigest()) | header
    # another process that writes to the same path has a part of its own: the last one to finish is
    # the file
    part = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(json.dumps(header).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        # a full disk, an interrupt
        part.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], bytes]:
    """(header, body) of a file of that kind. Raises ValueError for a file that is damaged or
    something else."""
    return parts(path, Path(path).read_bytes(), kind)


def parts(path: str | os.PathLike[str], content: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    """`read`, of what the file at that path holds."""
    line, _, body = content.partition(b"\n")
    try:
        header = json.loads(line)
        found = header["format"], header["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a saved {kind}.") from error
    if found != (kind, VERSION):
        raise ValueError(
            f"{path} is a {found[0]}, version {found[1]}; this is {kind}, version {VERSION}."
        )
    if hashlib.sha256(body).hexdigest() != header.get("sha256"):
        raise ValueError(f"{path} is damaged: its numbers are not those that were saved.")
    return header, body
