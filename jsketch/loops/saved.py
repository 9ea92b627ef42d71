"""Files of live streams: a line of JSON that says what it is, then the numbers of the state."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

FORMAT, VERSION = "jsketch live stream", 1


def write(path: str | os.PathLike[str], header: dict[str, Any], body: bytes) -> None:
    """Writes a file, whole or not at all."""
    header = dict(format=FORMAT, version=VERSION, sha256=hashlib.sha256(body).hexdigest()) | header
    part = Path(f"{os.fspath(path)}.part")
    with part.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + body)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """(header, body). Raises ValueError for a file that is damaged or something else."""
    line, _, body = Path(path).read_bytes().partition(b"\n")
    try:
        header = json.loads(line)
        kind = header["format"], header["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a saved live stream.") from error
    if kind != (FORMAT, VERSION):
        raise ValueError(f"{path} is a {kind[0]}, version {kind[1]}; this is {FORMAT}, version {VERSION}.")
    if hashlib.sha256(body).hexdigest() != header["sha256"]:
        raise ValueError(f"{path} is damaged: its numbers are not those that were saved.")
    return header, body
