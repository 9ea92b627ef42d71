"""A table of expensive evaluations in one SQLite file: each is made once, whatever is interrupted
or runs beside it."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

COLUMNS = "key TEXT PRIMARY KEY, value REAL, error TEXT NOT NULL, seconds REAL NOT NULL"
PATIENCE = 60  # seconds to wait for another process that writes


class Outcome(NamedTuple):
    """What one evaluation gave."""

    value: float  # NaN for a failure
    error: str  # why it failed; empty for a success
    seconds: float  # that it took


def once(path: Path, key: dict[str, Any], evaluate: Callable[[], float]) -> Outcome:
    """The outcome recorded under `key`, which must hold all that the value depends on; else
    evaluate(), recorded.

    An evaluation that raises, or whose value is not finite, has failed and is recorded as such.
    Lack of memory and files that cannot be read are the machine's failures, not the evaluation's:
    they are raised. Raises ValueError for a file that is no such table, and for one that another
    process writes all the time.
    """
    name = json.dumps(key, sort_keys=True)
    rows = _query(path, "SELECT value, error, seconds FROM evaluations WHERE key = ?", (name,))
    if rows:
        value, error, seconds = rows[0]
        return Outcome(math.nan if value is None else value, error, seconds)
    outcome = _measured(evaluate)
    value = outcome.value if math.isfinite(outcome.value) else None
    # two processes may have made the same evaluation at the same time
    _query(
        path,
        "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?)",
        (name, value, outcome.error, outcome.seconds),
    )
    return outcome


def _measured(evaluate: Callable[[], float]) -> Outcome:
    begin = time.perf_counter()
    try:
        value, error = float(evaluate()), ""
    except (MemoryError, OSError):
        raise
    except Exception as failure:
        value, error = math.nan, f"{type(failure).__name__}: {failure}"
    if not error and not math.isfinite(value):
        value, error = math.nan, f"the value was {value}"
    return Outcome(value, error, time.perf_counter() - begin)


def _query(path: Path, command: str, values: tuple) -> list[tuple]:
    """A transaction of its own, so that what was recorded stays recorded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as table, table:
            table.execute(f"CREATE TABLE IF NOT EXISTS evaluations ({COLUMNS})")
            return table.execute(command, values).fetchall()
    except sqlite3.DatabaseError as error:
        # extended codes have the primary one in their last byte; what is not SQLite's own has none
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
        ):
            raise ValueError(
                f"another process is writing to the table of evaluations {path}, for {PATIENCE}"
                " seconds by now: wait for it, or use another --table."
            ) from error
        raise ValueError(
            f"the table of evaluations {path} cannot be used ({error}): name another file, or"
            " remove it."
        ) from error
