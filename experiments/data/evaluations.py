"""A table of expensive evaluations in an SQLite file. No evaluation is repeated, even if runs are
interrupted or several processes share the table."""

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
    """The result of an evaluation."""

    value: float  # NaN for a failure
    error: str  # the reason of a failure, else empty
    seconds: float


def evaluate_once(path: Path, key: dict[str, Any], evaluate: Callable[[], float]) -> Outcome:
    """The outcome of an evaluation, from the table if it is recorded under `key`; otherwise
    evaluate() is called and its outcome recorded. `key` must hold everything that the value depends
    on.

    An evaluation that raises, or whose value is not finite, is recorded as a failure. MemoryError
    and OSError are failures of the machine and are raised. Raises ValueError for a file that is not
    such a table, and for one that another process locks.
    """
    name = json.dumps(key, sort_keys=True)
    rows = _query(path, "SELECT value, error, seconds FROM evaluations WHERE key = ?", (name,))
    if rows:
        value, error, seconds = rows[0]
        return Outcome(math.nan if value is None else value, error, seconds)
    outcome = _evaluate(evaluate)
    value = outcome.value if math.isfinite(outcome.value) else None
    # another process may have recorded the same evaluation in the meantime
    _query(
        path,
        "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?)",
        (name, value, outcome.error, outcome.seconds),
    )
    return outcome


def _evaluate(evaluate: Callable[[], float]) -> Outcome:
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
    """Executes a command in a transaction."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as table, table:
            table.execute(f"CREATE TABLE IF NOT EXISTS evaluations ({COLUMNS})")
            return table.execute(command, values).fetchall()
    except sqlite3.DatabaseError as error:
        # the last byte of an extended code is the primary one; errors of the module have no code
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
        ):
            raise ValueError(
                f"another process has been writing to the table of evaluations {path} for"
                f" {PATIENCE} seconds: wait for it, or use another --table."
            ) from error
        raise ValueError(
            f"the table of evaluations {path} cannot be used ({error}): name another file, or"
            " remove it."
        ) from error
