"""Tables that people bring: candidates (an id and features) and evaluations (an id and a value),
checked cell by cell.

Every mistake is a ValueError that names the file, the row and the column as a spreadsheet counts
them (the header is row 1).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

LARGEST = 1e300  # beyond it a prediction may be no number any more
FIRST_ROW = 2  # of the values: the header is row 1


class Candidates(NamedTuple):
    """A library of A candidates with d numeric features."""

    ids: np.ndarray  # [A] of str
    features: np.ndarray  # [A, d]
    names: list[str]  # of the features


class Evaluations(NamedTuple):
    """n measurements; an id may be repeated."""

    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n]


def _read(path: Path, needed: list[str]) -> pd.DataFrame:
    """All cells as text, by their rows in a spreadsheet (the index); empty rows are left out.
    Raises ValueError for an empty file, a missing, repeated or unnamed column, and a row with more
    cells than the header."""
    try:
        # without a header of its own pandas neither renames columns nor takes one of them for row
        # names
        table = pd.read_csv(
            path,
            dtype=str,
            header=None,
            keep_default_na=False,
            skipinitialspace=True,
            skip_blank_lines=False,
        )
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty: it needs a header and at least one row.") from error
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a table of comma-separated values: {str(error).strip()}"
        ) from error
    table = table.fillna("")
    names = [str(name).strip() for name in table.iloc[0]]
    table = table.iloc[1:].set_axis(names, axis=1).set_axis(range(FIRST_ROW, len(table) + 1))
    unnamed = table[table.iloc[:, 0] == ""]
    table = table.drop(index=unnamed.index[(unnamed == "").all(axis=1)])
    if not any(names):
        raise ValueError(f"{path} is empty: it needs a header and at least one row.")
    if "" in names:
        raise ValueError(
            f"{path}, row 1: column {names.index('') + 1} has no name; name it or remove it."
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"{path}, row 1: there are {names.count(twice[0])} columns '{twice[0]}'; their names"
            " must differ."
        )
    for name in needed:
        if name not in names:
            raise ValueError(
                f"{path} has no column '{name}'; its columns are: {', '.join(names)}. Columns are"
                " separated by commas."
            )
    if len(table) == 0:
        raise ValueError(f"{path} has a header and no rows.")
    return table


def _numbers(path: Path, table: pd.DataFrame, column: str) -> np.ndarray:
    """A column as finite floats. Raises ValueError at the first cell that is none, or too large to
    compute with."""
    values = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if bad.size:
        cell = table[column].iloc[bad[0]]
        wrong = f"larger than {LARGEST:g}" if np.isfinite(values[bad[0]]) else "not a finite number"
        what = "is missing" if cell.strip() == "" else f"is '{cell}', {wrong}"
        raise ValueError(f"{path}, row {table.index[bad[0]]}, column '{column}': the value {what}.")
    return values


def read_candidates(path: Path, id_column: str = "id") -> Candidates:
    """Raises ValueError for missing values, ids that are empty or used twice, constant columns and
    fewer than two rows."""
    table = _read(path, [id_column])
    ids = table[id_column].str.strip()
    empty = np.flatnonzero(ids == "")
    if empty.size:
        raise ValueError(
            f"{path}, row {table.index[empty[0]]}, column '{id_column}': the id is missing."
        )
    twice = np.flatnonzero(ids.duplicated())
    if twice.size:
        first = int(np.flatnonzero(ids == ids.iloc[twice[0]])[0])
        raise ValueError(
            f"{path}, row {table.index[twice[0]]}, column '{id_column}': the id"
            f" '{ids.iloc[twice[0]]}' is that of row {table.index[first]} already."
        )
    names = [name for name in table.columns if name != id_column]
    if not names:
        raise ValueError(f"{path} has no feature column beside '{id_column}'.")
    features = np.stack([_numbers(path, table, name) for name in names], axis=1)
    if len(features) == 1:
        raise ValueError(f"{path} has one candidate only: there is nothing to choose from.")
    constant = [
        name for name, spread in zip(names, np.ptp(features, axis=0), strict=True) if spread == 0
    ]
    if constant:
        raise ValueError(
            f"{path}, column '{constant[0]}': every value is"
            f" {features[0, names.index(constant[0])]:g}; a constant column says nothing, remove"
            " it."
        )
    return Candidates(ids.to_numpy(str), features, names)


def read_ids(path: Path, candidates: Candidates, id_column: str = "id") -> np.ndarray:
    """The rows [n] of the candidates that a table names. Raises ValueError for unknown ids."""
    return _rows(path, _read(path, [id_column]), candidates, id_column)


def _rows(path: Path, table: pd.DataFrame, candidates: Candidates, id_column: str) -> np.ndarray:
    rows = pd.Index(candidates.ids).get_indexer(table[id_column].str.strip())
    unknown = np.flatnonzero(rows < 0)
    if unknown.size:
        raise ValueError(
            f"{path}, row {table.index[unknown[0]]}, column '{id_column}': there is no candidate"
            f" '{table[id_column].iloc[unknown[0]]}' ({unknown.size} such rows)."
        )
    return rows


def read_evaluations(
    path: Path, candidates: Candidates, id_column: str = "id", value_column: str = "value"
) -> Evaluations:
    """Raises ValueError for unknown ids and values that are missing or not finite."""
    table = _read(path, [id_column, value_column])
    return Evaluations(
        _rows(path, table, candidates, id_column), _numbers(path, table, value_column)
    )
