"""The format of the files of live streams and of runs.

A file has a line of JSON with its kind, the version of the format and a hash of all that follows;
then a line of JSON, the header, with what the file belongs to; then the numbers of the state.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from jsketch.loops.saving import files

STREAM, RUN = "jsketch live stream", "jsketch run"
ARM_RUN, BOX_RUN = "jsketch run over arms on the host", "jsketch run over a box"
VERSION = 2


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], body: bytes) -> None:
    """Writes a file of a kind, STREAM, RUN, ARM_RUN or BOX_RUN, whole or not at all."""
    content = json.dumps(header).encode() + b"\n" + body
    first = dict(format=kind, version=VERSION, sha256=hashlib.sha256(content).hexdigest())
    files.write(path, json.dumps(first).encode() + b"\n" + content)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], bytes]:
    """(header, body) of a file of that kind. Raises ValueError for a file that is damaged or
    something else."""
    return parts(path, Path(path).read_bytes(), kind)


def parts(path: str | os.PathLike[str], content: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    """`read`, of what the file at that path holds."""
    advice = "Name another file, or remove it."
    line, _, rest = content.partition(b"\n")
    try:
        first = json.loads(line)
        found = first["format"], first["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved {kind}. {advice}") from error
    if found != (kind, VERSION):
        raise ValueError(
            f"{path} is a {found[0]}, version {found[1]}, and not a {kind}, version {VERSION}."
            f" {advice}"
        )
    if hashlib.sha256(rest).hexdigest() != first.get("sha256"):
        raise ValueError(f"{path} is damaged: it does not hold what was saved. {advice}")
    header, _, body = rest.partition(b"\n")
    return json.loads(header), body
