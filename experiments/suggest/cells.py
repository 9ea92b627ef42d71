"""The cells of a table: comma-separated values, Parquet or Excel, by the end of the file's name.

Every mistake is a ValueError that names the file, the row and the column as a spreadsheet counts
them (the header is row 1).
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LARGEST = 1e300  # beyond it a prediction may be no number any more
FIRST_ROW = 2  # of the values: the header is row 1
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
AT_ONCE = 2**16  # rows of a Parquet file that are read together, where not all are wanted


def read(
    path: Path, needed: list[str], piece: Callable[[int], slice] | None = None
) -> pd.DataFrame:
    """All cells by their rows in a spreadsheet (the index), as text; columns of numbers of a
    Parquet file are numbers. Empty rows are left out.

    piece: which rows are wanted, of so many; a Parquet file then is read no further than that.

    Raises ValueError for an empty file, a missing, repeated or unnamed column, a row with more
    cells than the header, and a format whose package is missing."""
    check_package(path)
    kind = path.suffix.lower()
    table = _parquet(path, piece) if kind in PARQUET else _with_header(path, kind)
    names = list(table.columns)
    for name in needed:
        if name not in names:
            raise ValueError(
                f"{path} has no column '{name}'; its columns are: {', '.join(names)}."
                + (" Columns are separated by commas." if kind not in (*PARQUET, *EXCEL) else "")
            )
    if len(table) == 0:
        raise ValueError(f"{path} has a header and no rows.")
    return table if piece is None or kind in PARQUET else table.iloc[piece(len(table))].copy()


def content(path: Path, table: pd.DataFrame) -> bytes:
    """What a file of that name holds."""
    buffer, kind = io.BytesIO(), path.suffix.lower()
    if kind in PARQUET:
        table.to_parquet(buffer)
    elif kind in EXCEL:
        table.to_excel(buffer, index=False, engine="openpyxl")
    else:
        return table.to_csv(index=False).encode()
    return buffer.getvalue()


def check_package(path: Path) -> None:
    """Raises ValueError for a format whose package is missing."""
    package = {**dict.fromkeys(PARQUET, "pyarrow"), **dict.fromkeys(EXCEL, "openpyxl")}
    name = package.get(path.suffix.lower())
    try:
        if name is not None:
            importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"{path} needs the package {name} (pip install {name}). Install it, or take"
            " comma-separated values."
        ) from error


def text(column: pd.Series) -> pd.Series:
    """The cells as words without spaces around them; a missing number is no word."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        column = column.map(_word)
    return column.str.strip()


def numbers(path: Path, table: pd.DataFrame, column: str, failed: str = "") -> np.ndarray:
    """A column as finite floats. Raises ValueError at the first cell that is none, or too large to
    compute with; `failed` is the option that would take a missing one."""
    values = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if bad.size:
        cell = text(table[column].iloc[bad[:1]]).iloc[0]
        wrong = f"larger than {LARGEST:g}" if np.isfinite(values[bad[0]]) else "not a finite number"
        what = f"is '{cell}', {wrong}"
        if cell == "":
            what = "is missing" + (f" (of a failed evaluation: {failed})" if failed else "")
        raise ValueError(f"{path}, row {table.index[bad[0]]}, column '{column}': the value {what}.")
    return values


def _word(cell: Any) -> str:
    """A whole number without a decimal point, as a spreadsheet shows it."""
    if pd.isna(cell):
        return ""
    whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    return str(int(cell)) if whole else str(cell)


def _parquet(path: Path, piece: Callable[[int], slice] | None) -> pd.DataFrame:
    import pyarrow

    first = FIRST_ROW
    try:
        # `read_parquet` of a single file: a folder would be a data set of many
        with path.open("rb") as file:
            if piece is None:
                table = pd.read_parquet(file, engine="pyarrow")
            else:
                table, begin = _piece_of_parquet(file, piece)
                first += begin
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a Parquet file: {str(error).strip()}") from error
    named = table.index.names != [None]
    table = table.reset_index() if named else table
    _check_names(path, [str(name).strip() for name in table.columns])
    table = table.set_axis([str(name).strip() for name in table.columns], axis=1)
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name].dtype):
            table[name] = table[name].map(_word).astype(str)
    return table.set_axis(range(first, len(table) + first))


def _piece_of_parquet(file: Any, piece: Callable[[int], slice]) -> tuple[pd.DataFrame, int]:
    """(some rows, the number of the first); row groups before and after them are not read."""
    import pyarrow
    from pyarrow import parquet

    whole = parquet.ParquetFile(file)
    sizes = [whole.metadata.row_group(i).num_rows for i in range(whole.num_row_groups)]
    wanted = piece(sum(sizes))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    groups = np.flatnonzero((begins < wanted.stop) & (ends > wanted.start))
    at, kept = int(begins[groups[0]]) if groups.size else 0, []
    for rows in whole.iter_batches(AT_ONCE, groups.tolist()):
        low, high = max(wanted.start - at, 0), min(wanted.stop - at, len(rows))
        if low < high:
            kept.append(rows.slice(low, high - low))
        at += len(rows)
        if at >= wanted.stop:
            break
    table = pyarrow.Table.from_batches(kept, whole.schema_arrow).to_pandas()
    for index in (whole.schema_arrow.pandas_metadata or {}).get("index_columns", ()):
        # a range is no column of the file, and pandas drops one of another length
        if isinstance(index, dict) and index["name"] is not None:
            first, step = index["start"] + wanted.start * index["step"], index["step"]
            stop = first + len(table) * step
            table.index = pd.RangeIndex(first, stop, step, name=index["name"])
    return table, wanted.start


def _with_header(path: Path, kind: str) -> pd.DataFrame:
    """A table whose first row is its header, as text."""
    table = _excel(path) if kind in EXCEL else _separated(path)
    names = [str(name).strip() for name in table.iloc[0]]
    table = table.iloc[1:].set_axis(names, axis=1).set_axis(range(FIRST_ROW, len(table) + 1))
    unnamed = table[table.iloc[:, 0] == ""]
    table = table.drop(index=unnamed.index[(unnamed == "").all(axis=1)])
    _check_names(path, names)
    return table


def _separated(path: Path) -> pd.DataFrame:
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
            f"{path} is not a table of comma-separated values: {str(error).strip()} (Excel files"
            f" end with {EXCEL[0]}, Parquet files with {PARQUET[0]})"
        ) from error
    return table.fillna("")


def _excel(path: Path) -> pd.DataFrame:
    """The first sheet."""
    from zipfile import BadZipFile

    try:
        table = pd.read_excel(path, header=None, dtype=object, engine="openpyxl")
    except (BadZipFile, KeyError) as error:
        raise ValueError(f"{path} is not an Excel file: {str(error).strip()}") from error
    if table.empty:
        raise ValueError(f"{path} is empty: it needs a header and at least one row.")
    return table.map(_word)


def _check_names(path: Path, names: list[str]) -> None:
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
