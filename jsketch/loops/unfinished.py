"""A run that an error ends keeps what it has: the evaluations that were finished go along with the
error."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def keep_with(error: BaseException, run: Any, function: str, file: Path | None = None) -> None:
    """Gives an error, of whatever kind, the attribute `driven` (the run so far, of `run.t`
    evaluations) and says how `function` resumes it. The run is in `file` too, if there is one."""
    error.driven = run  # type: ignore[attr-defined]
    if run.t == 0:
        return
    where = f"{function}(..., state=error.driven) resumes from them, where error is this exception"
    if file is not None:
        where = f"they are in {file}, and the same call resumes from it"
    error.add_note(f"{function} had finished {run.t} evaluations before this error: {where}.")
