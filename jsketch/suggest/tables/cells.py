"""Reads and writes tables: comma-separated values, Parquet or Excel, by the suffix of the file.

Cells are read the same way from every format: as text without surrounding spaces, and as numbers
where the whole column holds numbers. Every ValueError contains the file, the row and the column as
a spreadsheet counts them (the header is row 1).
"""

from __future__ import annotations

import datetime
import difflib
import io
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jsketch import csv_files
from jsketch.csv_files import EXCEL_ERRORS, FIRST_ROW

LARGEST = 1e300  # predictions from larger numbers could overflow
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
UNNAMED = "name it or remove it"  # what to do with a column without a name
MAX_QUOTED = 3  # largest number of cells in an error message
_AMBIGUOUS_MARK = " A comma or a point in these cells may separate thousands or decimals."

_MINUS = "\u2212\u2013"  # the Unicode minus, and the dash that word processors use for it
_SPACES = "\u00a0\u202f\u2009"  # spaces between groups of digits
# a number with any separators, and a unit
_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>(?:[^\W\d_]|[%‰°€$/])\D*)?"
)
_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WITH_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_SWAP_COMMA_AND_POINT = str.maketrans(",.", ".,")


@dataclass(frozen=True)
class Table:
    """A table from a file. The index of the frame has the numbers of the rows in a spreadsheet. A
    column holds text, or numbers where a Parquet file stores numbers."""

    path: Path
    frame: pd.DataFrame
    # whether semicolons separate the columns, as in countries with decimal commas
    semicolons: bool = False
    # {column: row of its first formula without a saved result}
    unsaved: dict[str, int] = field(default_factory=dict)
    # which sheet of a workbook was read, unless it is the only one
    sheet: str = ""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def notes(self) -> list[str]:
        """A sentence in a list on the sheet that was read; [] without a choice."""
        return [f"{self.path}: the table is {self.sheet}"] if self.sheet else []

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def check_columns(self, names: Sequence[str]) -> None:
        """Raises ValueError for a column that does not exist."""
        for name in names:
            if name not in self.names:
                similar = difflib.get_close_matches(name, self.names, n=1)
                advice = f" (did you mean {similar[0]!r}?)" if similar else ""
                sheet = f" The table is {self.sheet}." if self.sheet else ""
                raise ValueError(
                    f"{self.path} has no column '{name}'{advice}; its columns are:"
                    f" {', '.join(self.names)}.{sheet}"
                )

    def location(self, position: int, column: str) -> str:
        """The location of a cell, for an error message."""
        return f"{self.path}, row {self.frame.index[position]}, column '{column}'"

    def select(self, rows: np.ndarray) -> Table:
        """The table of the rows at which the mask `rows` [n] is true."""
        return replace(self, frame=self.frame[rows])

    def with_rows_of(self, tables: Sequence[Table]) -> Table:
        """This table with the rows of other `tables` below. Raises ValueError if only some of the
        tables have semicolons between the columns, and therefore decimal commas."""
        frames = [self.frame]
        for other in tables:
            if other.semicolons != self.semicolons:
                raise ValueError(
                    f"{self.path} and {other.path} must have the same separator: only one of them"
                    " has semicolons between its columns."
                )
            rows = pd.DataFrame(
                {name: other.text(name) for name in self.names if name in other.names}
            )
            rows.index = pd.Index([f"{row} of {other.path}" for row in other.frame.index])
            frames.append(rows)
        if not tables:
            return self
        frames[0] = pd.DataFrame({name: self.text(name) for name in self.names})
        return replace(self, frame=pd.concat(frames).fillna(""))

    def is_numeric(self, column: str) -> bool:
        """Whether the file stores the column as numbers. Raises ValueError for unsaved formulas."""
        if column in self.unsaved:
            raise ValueError(
                f"{self.path}, row {self.unsaved[column]}, column '{column}': the file lacks the"
                " result of a formula; save it once in Excel or LibreOffice, or paste values."
            )
        return bool(pd.api.types.is_numeric_dtype(self.frame[column].dtype))

    def text(self, column: str) -> pd.Series:
        """The cells as text, which is empty for a missing number."""
        cells = self.frame[column]
        return cells.map(_text_of) if self.is_numeric(column) else cells

    def levels(self, column: str) -> pd.Series:
        """The cells as names of categories: 50 and 50.0 are the same category."""
        cells = self.text(column)
        return cells.map({word: _level_of(word) for word in cells.unique()})

    def numbers(self, column: str) -> np.ndarray:
        """The cells as finite floats [n]. Raises ValueError for cells that are missing, not numbers
        or too large."""
        parsed = self.parse(column)
        bad = np.flatnonzero(~(np.abs(parsed.values) <= LARGEST))
        if bad.size:
            self._raise_unreadable(column, parsed, bad)
        return parsed.values

    def parse(self, column: str) -> ParsedColumn:
        """The cells as numbers, with NaN for other cells."""
        if self.is_numeric(column):
            return ParsedColumn(self.frame[column].to_numpy(float, na_value=np.nan), "numbers")
        return _parse(self.frame[column], self.semicolons)

    def _raise_unreadable(self, column: str, parsed: ParsedColumn, bad: np.ndarray) -> None:
        words = self.text(column).iloc[bad]
        cell, location = words.iloc[0], self.location(int(bad[0]), column)
        other_words = words[words != cell].unique()[: MAX_QUOTED - 1]
        quoted = ", ".join(f"'{word}'" if word else "an empty one" for word in other_words)
        examples = f", also {quoted}" if quoted else ""
        count = f" ({bad.size} such cells in all{examples})" if bad.size > 1 else ""
        if cell == "":
            cure = f'fill it in, or give --value "{column}" if these are the results'
            raise ValueError(f"{location}: the value is missing{count}: {cure}.{parsed.fault}")
        is_finite = np.isfinite(parsed.values[bad[0]])
        problem = f"larger than {LARGEST:g}" if is_finite else "not a finite number"
        raise ValueError(f"{location}: the value is '{cell}', {problem}{count}.{parsed.fault}")


@dataclass(frozen=True)
class ParsedColumn:
    """The numbers of a column."""

    values: np.ndarray  # [n], NaN if a cell is not a number
    # "numbers", "text", or "unclear" if cells look like numbers or dates, or all are empty
    kind: str
    note: str = ""  # the interpretation of the cells if it may surprise
    fault: str = ""  # a sentence on why cells that look like numbers are not read


def _parse(cells: pd.Series, semicolons: bool) -> ParsedColumn:
    """The cells, read as numbers if one unit and one meaning of points and commas fit all of them.
    `semicolons` as in `Table`."""
    try:
        values = cells.to_numpy(object).astype(float)
    except ValueError:
        pass
    else:
        # between columns with semicolons, points may separate thousands
        has_points = semicolons and cells.str.contains(".", regex=False).any()
        ambiguous = has_points and not any(np.isnan(_with_comma(word)) for word in cells)
        # float() ignores underscores between digits
        if not ambiguous and not cells.str.contains("_", regex=False).any():
            return ParsedColumn(values, "numbers")
    codes, distinct = pd.factorize(cells)
    words = [without_typography(word) for word in distinct]
    is_date = [csv_files.DATE.fullmatch(word) is not None for word in words]
    matches = [None if d else _NUMBER.fullmatch(w) for w, d in zip(words, is_date, strict=True)]
    n_filled = sum(word != "" for word in words)
    is_number = np.array([match is not None for match in matches])
    values, note, fault = np.full(len(words), np.nan), "", ""
    if is_number.any():
        numbers = [match for match in matches if match is not None]
        values[is_number], note, fault = _values(numbers, semicolons)
    if is_number.sum() == n_filled and not fault:
        return ParsedColumn(values[codes], "numbers" if n_filled else "unclear", note)
    mostly_dates = 2 * sum(is_date) > n_filled
    if mostly_dates:
        fault = " The column seems to hold dates or times."
    any_without_unit = any(match is not None and not match["unit"] for match in matches)
    if mostly_dates or 2 * is_number.sum() > n_filled or any_without_unit:
        return ParsedColumn(values[codes], "unclear", fault=fault)
    n_digits = sum(word[:1].isdigit() for word in words)
    note = "words, although most of them begin with a digit" if 2 * n_digits > n_filled else ""
    return ParsedColumn(values[codes], "text", note)


def _values(matches: Sequence[re.Match[str]], semicolons: bool) -> tuple[np.ndarray, str, str]:
    """(values, note, fault) of a `ParsedColumn` of cells that look like numbers. Where their
    formats differ, the values in the rarer formats are NaN."""
    units = Counter((match["unit"] or "").strip() for match in matches)
    unit = units.most_common(1)[0][0]
    notes = [f"numbers in {unit}"] if unit else []
    words = [match["number"] for match in matches]
    point_values = np.array([_with_point(word) for word in words])
    comma_values = np.array([_with_comma(word) for word in words])
    has_commas = any("," in word for word in words)
    values, fault = point_values, ""
    point_fits, comma_fits = not np.isnan(point_values).any(), not np.isnan(comma_values).any()
    differ = point_fits and comma_fits and not np.array_equal(point_values, comma_values)
    # commas are decimal if semicolons separate the columns, and points otherwise
    if differ and semicolons != has_commas:
        values, fault = np.full(len(words), np.nan), _AMBIGUOUS_MARK
    elif comma_fits and (has_commas or not point_fits):
        values = comma_values
        notes.append("numbers with decimal commas")
    elif not point_fits:
        comma_fits_more = np.isnan(point_values).sum() > np.isnan(comma_values).sum()
        values = comma_values if comma_fits_more else point_values
        fault = _AMBIGUOUS_MARK
    elif has_commas:
        notes.append("numbers with commas between thousands")
    if len(units) > 1:
        quoted = ", ".join(sorted(f"'{unit}'" if unit else "none" for unit in units)[:MAX_QUOTED])
        fault = f" The cells have different units: {quoted}."
        has_unit = [(match["unit"] or "").strip() == unit for match in matches]
        values = np.where(has_unit, values, np.nan)
    return values, " and ".join(notes), fault


def _with_point(word: str) -> float:
    """The number of a word with a decimal point and commas between thousands, or NaN."""
    if _PLAIN_NUMBER.fullmatch(word):
        return float(word)
    return float(word.replace(",", "")) if _WITH_THOUSANDS.fullmatch(word) else np.nan


def _with_comma(word: str) -> float:
    """The number of a word with a decimal comma and points between thousands, or NaN."""
    return _with_point(word.translate(_SWAP_COMMA_AND_POINT))


def without_typography(word: str) -> str:
    """The word with a hyphen as minus sign, and without spaces between groups of digits."""
    if word[:1] in _MINUS and word:
        word = "-" + word[1:]
    return re.sub(rf"(?<=\d)[{_SPACES}](?=\d{{3}})", "", word)


def _level_of(word: str) -> str:
    """The word, without the decimal point of a whole number. Leading zeros, as in codes, stay."""
    return re.sub(r"^([+-]?(?:0|[1-9]\d*))\.0*$", r"\1", word)


def _text_of(cell: Any) -> str:
    """The text of a cell in a spreadsheet: whole numbers have no decimal point, truth values are
    TRUE and FALSE, dates have no time of midnight, and Excel's error values are empty."""
    if not pd.api.types.is_scalar(cell):
        raise ValueError(f"a cell holds {type(cell).__name__} and not a single value.")
    if pd.isna(cell):
        return ""
    if isinstance(cell, (bool, np.bool_)):
        return str(cell).upper()
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return str(cell.date())
    if isinstance(cell, (float, np.floating)) and cell.is_integer() and abs(float(cell)) < 2**53:
        return str(int(cell))
    word = str(cell).strip()
    return "" if word in EXCEL_ERRORS else word


def read(
    path: Path, needed: Sequence[str], may_be_empty: bool = False, expected: Sequence[str] = ()
) -> Table:
    """Reads a table without its empty rows. The `expected` columns need not exist, but they help to
    find the separator. Raises ValueError for an empty or damaged file, a missing, repeated or
    unnamed column, a row with more cells than the header, a format whose package is not installed,
    and text in an unknown encoding."""
    check_package(path)
    suffix, separator, sheet, unsaved = path.suffix.lower(), "", "", dict[str, int]()
    if suffix in PARQUET:
        frame = _read_parquet(path, needed)
    elif suffix in EXCEL:
        frame, sheet, unsaved = _read_excel(path, needed)
    else:
        frame, separator = _read_separated(path, {*needed, *expected})
    is_empty = _is_empty(frame.iloc[:, 0])
    if is_empty.any():
        is_empty[is_empty] = frame[is_empty].apply(_is_empty).all(axis=1)
        frame = frame[~is_empty]
    table = Table(path, frame, separator == ";", unsaved, sheet)
    table.check_columns(needed)
    if len(table) == 0 and not may_be_empty:
        raise ValueError(f"{path} has a header and no rows.")
    return table


def _is_empty(cells: pd.Series) -> pd.Series:
    return cells.isna() if pd.api.types.is_numeric_dtype(cells.dtype) else cells == ""


def content(path: Path, table: pd.DataFrame, like: Table | None = None) -> bytes:
    """The bytes of a file with this table, in the format of the suffix of `path`. Separated values
    have the separator and the decimal mark of the table `like`."""
    buffer, suffix = io.BytesIO(), path.suffix.lower()
    if suffix in PARQUET:
        table.to_parquet(buffer)
    elif suffix in EXCEL:
        with pd.ExcelWriter(buffer, engine="openpyxl") as writer:
            table.map(_number_of).to_excel(writer, index=False)
            for row in writer.book.active.iter_rows():
                for cell in row:
                    if cell.data_type == "f":  # text that begins with "=" is not a formula
                        cell.data_type, cell.quotePrefix = "s", True
    else:
        dialect: Any = dict(sep=";", decimal=",") if like is not None and like.semicolons else {}
        # a byte order mark lets spreadsheets read the text as UTF-8
        return table.to_csv(index=False, **dialect).encode("utf-8-sig")
    return buffer.getvalue()


def changed_copy(
    path: Path,
    table: Table,
    changes: dict[str, dict[int, Any]],
    added_rows: Sequence[dict[str, Any]] = (),
) -> bytes:
    """The bytes of a copy of a table with changed cells, {column: {row of the spreadsheet: cell}},
    and `added_rows` below. Columns that the table lacks are added. The copy of an Excel file keeps
    formats and further sheets. A formula becomes its saved result, or empty if it has none."""
    if table.path.suffix.lower() not in EXCEL or path.suffix.lower() not in EXCEL:
        frame = table.frame.copy()
        for name, cells in changes.items():
            old_words = table.text(name) if name in table.names else pd.Series("", frame.index)
            words = {row: _cell_text(cell, table.semicolons) for row, cell in cells.items()}
            frame[name] = [words.get(row, old_words[row]) for row in frame.index]
        if added_rows:
            rows = pd.DataFrame(list(added_rows)).reindex(columns=frame.columns)
            for name in changes:
                rows[name] = [_cell_text(cell, table.semicolons) for cell in rows[name]]
            frame = pd.concat([frame, rows.astype(frame.dtypes)])
        return content(path, frame, table)
    import openpyxl

    book = openpyxl.load_workbook(table.path, data_only=True)
    sheet, names = book.worksheets[0], list(table.names)
    for name, cells in changes.items():
        names += [name] * (name not in names)
        column = names.index(name) + 1
        sheet.cell(1, column).value = name
        for row, cell in cells.items():
            sheet.cell(row, column).value = cell
    for row, new_row in enumerate(added_rows, sheet.max_row + 1):
        for name, cell in new_row.items():
            value = None if cell == "" else _number_of(cell)
            sheet.cell(row, names.index(name) + 1).value = value
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _cell_text(cell: Any, semicolons: bool) -> str:
    """A cell as text, with a decimal comma if semicolons separate the columns."""
    word = str(cell)
    return word.replace(".", ",") if semicolons and isinstance(cell, float) else word


def _number_of(cell: Any) -> Any:
    """The number that a spreadsheet would show as this text, or the cell itself."""
    if isinstance(cell, str) and _PLAIN_NUMBER.fullmatch(cell) and _text_of(float(cell)) == cell:
        return float(cell) if "." in cell else int(cell)
    return cell


def check_ids(path: Path, ids: np.ndarray) -> None:
    """Raises ValueError for ids that a file in the format of `path` cannot hold."""
    if path.suffix.lower() not in EXCEL:
        return
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    wrong = [name for name in ids if ILLEGAL_CHARACTERS_RE.search(name)]
    if wrong:
        raise ValueError(
            f"{path}: an Excel file cannot hold the id {wrong[0]!r}, which has a control character."
            " Write a .csv file instead."
        )


def check_package(path: Path) -> None:
    """Raises ValueError for a format whose package is not installed."""
    package_of = {**dict.fromkeys(PARQUET, "pyarrow"), **dict.fromkeys(EXCEL, "openpyxl")}
    name = package_of.get(path.suffix.lower())
    if name is not None and find_spec(name) is None:
        raise ValueError(
            f"{path} needs the package {name} (pip install {name}). Install it, or use"
            " comma-separated values."
        )


def _read_parquet(path: Path, needed: Collection[str]) -> pd.DataFrame:
    import pyarrow

    # pandas would read a folder of this name as one data set
    with path.open("rb") as file:
        try:
            table = pd.read_parquet(file, engine="pyarrow")
        except Exception as error:  # a damaged file raises errors of many kinds
            raise ValueError(f"{path} is not a Parquet file: {str(error).strip()}") from error
    table = table.reset_index() if table.index.names != [None] else table
    table = table.set_axis([str(name).strip() for name in table.columns], axis=1)
    csv_files.check_names(csv_files.header_of(path), list(table.columns), UNNAMED, used=needed)
    for name in table.columns:
        dtype = table[name].dtype
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            try:
                table[name] = table[name].astype(object).map(_text_of, na_action=None)
            except (ValueError, pyarrow.ArrowException) as error:
                raise ValueError(f"{path}, column '{name}': {error}") from error
    return table.set_axis(range(FIRST_ROW, len(table) + FIRST_ROW))


def _with_header(path: Path, table: pd.DataFrame, needed: Collection[str]) -> pd.DataFrame:
    """A table of text whose first row becomes the header."""
    names = list(table.iloc[0])
    if not any(names):
        raise ValueError(f"{path}, row 1: it is empty; it needs the column names.")
    csv_files.check_names(csv_files.header_of(path), names, UNNAMED, used=needed)
    return table.iloc[1:].set_axis(names, axis=1).set_axis(range(FIRST_ROW, len(table) + 1))


def _read_separated(path: Path, needed: Collection[str]) -> tuple[pd.DataFrame, str]:
    """(table of text, separator)."""
    if path.suffix.lower() == ".gz":
        raise ValueError(f"{path} is compressed: decompress it, because the outputs are not.")
    file = csv_files.open_csv(path, needed)
    csv_files.check_names(csv_files.header_of(path), file.names, UNNAMED, used=needed)
    blocks = file.read(lambda row, block: file.words(block))
    empty = pd.DataFrame(columns=range(len(file.names)), dtype=object)
    table = pd.concat([empty, *(words for _, _, words in blocks)])
    table = table.set_axis(file.names, axis=1).set_axis(range(FIRST_ROW, len(table) + FIRST_ROW))
    return table, file.separator


def _read_excel(path: Path, needed: Collection[str]) -> tuple[pd.DataFrame, str, dict[str, int]]:
    """(the first sheet as text, `Table.sheet`, `Table.unsaved`)."""
    with path.open("rb") as file:
        try:
            with pd.ExcelFile(file, engine="openpyxl") as book:
                sheets = book.book.worksheets
                table = pd.read_excel(book, header=None, dtype=object, na_filter=False)
            unsaved = _unsaved_formulas(path)
        except Exception as error:  # a damaged file raises errors of many kinds
            raise ValueError(f"{path} is not an Excel file: {str(error).strip()}") from error
    first, hidden = sheets[0].title, sheets[0].sheet_state != "visible"
    sheet = f"the sheet '{first}', the first of {len(sheets)}" if hidden or len(sheets) > 1 else ""
    sheet += ", which is hidden" if hidden else ""
    words = table.map(_text_of) if len(table) else pd.DataFrame([[""]])
    table = _with_header(path, words, needed)
    rows = {name: unsaved[i] for i, name in enumerate(table.columns) if i in unsaved}
    return table, sheet, rows


def _unsaved_formulas(path: Path) -> dict[int, int]:
    """{index of a column: row of its first formula without a saved result}. A file that no
    spreadsheet program has saved has such formulas."""
    import openpyxl

    with zipfile.ZipFile(path) as file:
        sheets = [name for name in file.namelist() if name.startswith("xl/worksheets/")]
        if not any(re.search(rb"<(\w+:)?f[ />]", file.read(name)) for name in sheets):
            return {}
    books = [openpyxl.load_workbook(path, data_only=results) for results in (False, True)]
    rows: dict[int, int] = {}
    for cells in zip(*(book.worksheets[0].iter_rows() for book in books), strict=True):
        for i, (formula, result) in enumerate(zip(*cells, strict=True)):
            # an empty text that is saved as a result has the type "str"
            if formula.data_type == "f" and result.value is None and result.data_type != "str":
                rows.setdefault(i, formula.row)
    return rows
