"""A run that an error ends keeps what it has: the evaluations that were finished go along with the
error."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def attach_partial_run(
    error: BaseException, run: Any, function: str, file: Path | None = None
) -> None:
    """Adds to an error the attribute `driven`, the run so far with its `run.t` evaluations, and a
    note on how `function` resumes it, from `file` if there is one."""
    error.driven = run  # type: ignore[attr-defined]
    if run.t == 0:
        return
    where = f"{function}(..., state=error.driven) resumes from them, where error is this exception"
    if file is not None:
        where = f"they are in {file}, and the same call resumes from it"
    error.add_note(f"{function} had finished {run.t} evaluations before this error: {where}.")
