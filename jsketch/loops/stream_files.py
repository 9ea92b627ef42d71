"""Streams in CSV and Parquet files, for `chunks`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jsketch import csv_files

Pair = tuple[Any, Any]  # (xs, ys)
MAX_QUOTED = 5  # largest number of columns in an error message
PARQUET_ROWS = 65_536  # number of rows of a Parquet file that are read at a time
# how pandas converts a column of dates, times or durations to numbers, for messages
_DATES = (
    "pandas computes days from it by (pandas.to_datetime(column, {}utc=True) -"
    " pandas.Timestamp(2000, 1, 1, tz='UTC')) / pandas.Timedelta(days=1)"
)
DATES = _DATES.format("")
DATES_BY_DAY = (
    _DATES.format("dayfirst=True, ")
    + ", without dayfirst=True if the month comes first, or with the argument format of to_datetime"
)
HOURS = "pandas computes hours from it by {} / pandas.Timedelta(hours=1)"
_TIME = re.compile(r"([+-]?\d+ days?,? )?[+-]?\d{1,2}:\d{2}(?P<seconds>:\d{2}(\.\d+)?)?")
_NUMBER = {
    mark: re.compile(
        rf"[-+]?(([0-9]+[{mark}]?[0-9]*|[{mark}][0-9]+)(e[-+]?[0-9]+)?|inf(inity)?)", re.IGNORECASE
    )
    for mark in ".,"
}
# numbers with a point or a comma, and those in which it may separate thousands
_MARKED = re.compile(r"[-+]?([0-9]+[.,][0-9]*|[.,][0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)
_MAYBE_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}[.,][0-9]{3}")


def reader(
    path: Path, target: str | None, inputs: Sequence[str] | None
) -> Callable[[], Iterator[Pair]]:
    """A function that reads the pairs (xs, ys) of the parts of a file. Raises ValueError if the
    format is another one, a column is missing or a cell of the first part is not a number,
    FileNotFoundError if there is no file, and ImportError without the package of the format."""
    ending = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()
    if ending not in (".parquet", ".pq", ".csv", ".csv.gz", ".tsv"):
        raise ValueError(f"a stream is read from a .parquet or .csv file; {path} was given.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    is_parquet = ending in (".parquet", ".pq")
    package = "pyarrow" if is_parquet else "pandas"
    if find_spec(package) is None:
        raise ImportError(
            f'{path} needs {package}, which is missing: pip install "jsketch[tables]"'
        )
    if is_parquet:
        names = _parquet_names(path)
        read = partial(_read_parquet, path, _Columns.of(path, names, target, inputs))
    else:
        file = csv_files.open_csv(path, [target, *([] if inputs is None else inputs)])
        read = partial(_read_csv, file, _Columns.of(path, file.names, target, inputs))
    if next((True for _, ys in read() if len(ys)), False):
        return read
    raise ValueError(f"{path} has no rows.")


class _Columns(NamedTuple):
    """The columns of a file that are used: their positions, and the target as the last one."""

    path: Path
    names: list[str]
    positions: list[int]

    @classmethod
    def of(
        cls, path: Path, names: list[str], target: str | None, inputs: Sequence[str] | None
    ) -> _Columns:
        """The columns `inputs`, or all others, and `target`. Raises ValueError for a column that
        is missing or repeated, and if inputs is None for a column without a name."""
        header = csv_files.header_of(path)
        listed = ", ".join(names)
        if target is None:
            raise ValueError(f"target must be the column of the labels, one of {listed} in {path}.")
        if isinstance(inputs, str) or (inputs is not None and not len(inputs)):
            raise ValueError(
                f"inputs is a list of columns, such as [{names[0]!r}]; {inputs!r} was given."
            )
        others = list(dict.fromkeys(name for name in names if name != target))
        chosen = others if inputs is None else list(inputs)
        if target in chosen:
            raise ValueError(f"inputs must not contain the target {target}.")
        missing = [name for name in (target, *chosen) if name not in names]
        if missing:
            raise ValueError(
                f"{path} has no column {', '.join(map(str, missing))}; it has {listed}."
            )
        if inputs is None:
            named = [name for name in others if not csv_files.is_unnamed(name)]
            cure = f"name it, or name the inputs with {_choice(named)}" if named else "name it"
            csv_files.check_names(header, names, cure, used=[target])
        csv_files.check_distinct(header, names, [target, *chosen])
        if not chosen:
            raise ValueError(f"{path} has no column besides the target {target}.")
        used = [*chosen, target]
        return cls(path, used, [names.index(name) for name in used])

    def refuse(self, name: str, fault: str, row: int | None = None) -> NoReturn:
        """Raises ValueError for a column that is not numbers."""
        where, cure = "" if row is None else f", row {row}", "convert the column"
        others = [other for other in self.names[:-1] if other != name]
        if others and name != self.names[-1]:
            cure += f", or leave it out with {_choice(others)}"
        raise ValueError(f"{self.path}{where}, column '{name}': {fault}: {cure}.")


def _choice(names: Iterable[str]) -> str:
    """The argument `inputs` with these names, of which the first few are quoted."""
    names = list(names)
    quoted = ", ".join(map(repr, names[:MAX_QUOTED]))
    return f"inputs=[{quoted}{', ...' if len(names) > MAX_QUOTED else ''}]"


def _read_csv(file: csv_files.CsvFile, columns: _Columns) -> Iterator[Pair]:
    """The pairs of the blocks of a file."""
    mark = ""  # the decimal mark, which the first numbers with one determine

    def parse(first_row: int, block: bytes) -> Any:
        nonlocal mark
        options = dict(na_values=csv_files.MISSING, keep_default_na=False)
        table = file.frame(block, decimal=mark or ".", **options)
        if mark or all(table[i].dtype.kind in "biu" for i in columns.positions):
            return table
        if file.separator == "," and b'"' not in block:  # no number has a comma
            mark = "." if b"." in block else ""
            return table
        words = file.words(block, columns.positions)
        mark = _decimal_mark(words, file.separator, columns, first_row)
        return file.frame(block, decimal=mark, **options) if mark == "," else table

    for first_row, block, table in file.read(parse):
        texts = [i for i in columns.positions if table[i].dtype.kind not in "biuf"]
        words = file.words(block, texts) if texts else None
        numbers: list[np.ndarray] = []
        faults: list[tuple[int, str, str]] = []  # (row, column, word)
        for name, i in zip(columns.names, columns.positions, strict=True):
            if words is None or i not in texts:
                column = table[i].to_numpy(float)
            else:
                column, is_wrong = _numbers(words[i], mark or ".")
                if is_wrong.any():
                    row = int(is_wrong.argmax())
                    faults.append((first_row + row, name, words[i].iloc[row]))
            numbers.append(column)
        if faults:
            row, name, word = min(faults, key=lambda fault: fault[0])
            columns.refuse(name, _fault(word, mark), row)
        if _have_a_missing_row(numbers):
            is_row = (file.words(block) != "").any(axis=1).to_numpy()
            numbers = [column[is_row] for column in numbers]
        yield np.stack(numbers[:-1], 1), numbers[-1]


def _have_a_missing_row(columns: Sequence[np.ndarray]) -> bool:
    """Whether all columns [n] are NaN in one of the rows."""
    missing = np.isnan(columns[-1])
    for column in columns:
        if not missing.any():
            return False
        missing &= np.isnan(column)
    return bool(missing.any())


def _numbers(words: Any, mark: str) -> tuple[np.ndarray, np.ndarray]:
    """(numbers [n] of a column of text, mask [n] of the cells that are none)."""
    lowered, numbers = words.str.lower(), np.full(len(words), np.nan)
    is_number = words.str.fullmatch(_NUMBER[mark]).to_numpy(bool)
    numbers[is_number] = words[is_number].str.replace(mark, ".").astype(float)
    numbers[lowered == "true"], numbers[lowered == "false"] = 1.0, 0.0
    return numbers, np.isnan(numbers) & ~words.isin(csv_files.MISSING).to_numpy()


def _fault(word: str, mark: str) -> str:
    """What is wrong with a cell that is not a number."""
    if _MARKED.fullmatch(word):
        if mark:
            return f"{word!r} does not have the decimal mark {mark!r} of the file"
        return f"{word!r} has a decimal comma, or a comma between thousands"
    time = _TIME.fullmatch(word)
    if time:
        cells = "column" if time["seconds"] else "column + ':00'"
        cure = HOURS.format(f"pandas.to_timedelta({cells})")
        return f"{word!r} is a time or a duration and not a number; {cure}"
    if csv_files.DATE.fullmatch(word):
        cure = DATES if re.match(r"\d{4}-", word) else DATES_BY_DAY
        return f"{word!r} is a date and not a number; {cure}"
    return f"{word!r} is not a number"


def _decimal_mark(words: Any, separator: str, columns: _Columns, first_row: int) -> str:
    """The decimal mark of the first number in columns of text with a clear one, or "". A mark
    before three digits may separate thousands. Between semicolons, as in countries with decimal
    commas, commas are decimal and such points are refused; elsewhere points are decimal."""
    first_clear: list[tuple[int, str, str]] = []  # (row, word, column)
    first_unclear: list[tuple[int, str, str]] = []
    for name, i in zip(columns.names, columns.positions, strict=True):
        marked = [word for word in words[i].unique() if _MARKED.fullmatch(word)]
        unclear = [word for word in marked if _MAYBE_THOUSANDS.fullmatch(word)]
        for found, group in (first_unclear, unclear), (first_clear, [*{*marked} - {*unclear}]):
            if group:
                row = int(words[i].isin(group).to_numpy().argmax())
                found.append((row, words[i].iloc[row], name))
    if first_clear:
        return "," if "," in min(first_clear)[1] else "."
    if separator != ";" or not first_unclear:
        return "." if any("." in word for _, word, _ in first_unclear) else ""
    row, word, name = min(first_unclear)
    if "," in word:
        return ","
    raise ValueError(
        f"{columns.path}, row {first_row + row}, column '{name}': the point in {word!r} may be"
        " decimal or separate thousands, because semicolons separate the columns: write the file"
        " with commas between the columns."
    )


def _parquet_names(path: Path) -> list[str]:
    """The names of the columns, without surrounding spaces and without an index of pandas that has
    no name. Raises ValueError for another format."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    unnamed = [name for name in index if isinstance(name, str) and csv_files.is_unnamed(name)]
    return [name.strip() for name in schema.names if name not in unnamed]


def _read_parquet(path: Path, columns: _Columns) -> Iterator[Pair]:
    """The pairs of the batches of a file."""
    import pyarrow
    from pyarrow import parquet

    n_rows = 0
    try:
        with parquet.ParquetFile(path) as opened:
            stripped = {name.strip(): name for name in opened.schema_arrow.names}
            names = [stripped[name] for name in columns.names]
            for batch in opened.iter_batches(batch_size=PARQUET_ROWS, columns=names):
                numbers = [
                    _arrow_numbers(batch.column(stripped[name]), name, columns)
                    for name in columns.names
                ]
                yield np.stack(numbers[:-1], 1), numbers[-1]
                n_rows += len(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read after {n_rows} rows: {error}") from error


def _arrow_numbers(column: Any, name: str, columns: _Columns) -> np.ndarray:
    """A column of a Parquet file as numbers, NaN where a cell is missing."""
    import pyarrow
    from pyarrow import types

    if types.is_date(column.type) or types.is_timestamp(column.type):
        columns.refuse(name, f"it holds dates and not numbers; {DATES}")
    if types.is_time(column.type):
        cure = HOURS.format("pandas.to_timedelta(column.astype('string'))")
        columns.refuse(name, f"it holds times of day and not numbers; {cure}")
    if types.is_duration(column.type):
        columns.refuse(name, f"it holds durations and not numbers; {HOURS.format('column')}")
    is_number = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    if not any(check(column.type) for check in (*is_number, types.is_null)):
        columns.refuse(name, f"its cells have the type {column.type} and are not numbers")
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
