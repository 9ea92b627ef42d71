"""Reads files of separated values in blocks of rows, for `jsketch.chunks` and `jsketch-suggest`.

    open_csv     finds the header and the separator
    CsvFile      the names of the columns, and the rows in blocks of about a megabyte
    check_names  refuses columns without a name and repeated names

The first line that is not ASCII decides whether the text is UTF-8 or cp1252, the encoding of older
spreadsheets; UTF-16 is recognized by its byte order mark. Messages contain the row as a spreadsheet
counts it (the first row is 1), or the line of the file where the rows are not known yet.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

FIRST_ROW = 2  # the header is row 1
BLOCK = 2**20  # number of bytes that are read at a time
LONGEST_LINE = 64 * BLOCK  # in bytes; a longer one is not text
LONGEST_CELL = 4 * BLOCK  # in bytes; a quotation mark of a longer one is not closed
LONGEST_HEADER = 2**16  # number of characters in which the separator is looked for
_NO_SEPARATOR = "\x1f"  # a character that no text contains
# Excel shows these in place of a value that it cannot compute
EXCEL_ERRORS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
# cells without a number, which pandas reads as missing too
MISSING = (
    "", "NA", "N/A", "n/a", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null",
    "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", *EXCEL_ERRORS
)  # fmt: skip
# names by which pandas replaces a missing one in a CSV file and in a Parquet file
_PLACEHOLDER = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(?::\d{2})?"
)
# a first line in which Excel names the separator
_SEPARATOR_LINE = re.compile(r'"?sep=(?P<separator>[,;\t])"?\n')
_TOO_MANY_CELLS = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")

Rows = TypeVar("Rows", bound=Sized)


@dataclass(frozen=True)
class CsvFile:
    """A file of separated values with a header."""

    path: Path
    names: list[str]  # of the columns, without surrounding spaces
    separator: str
    _header_lines: int  # number of lines up to the end of the header

    def read(self, parse: Callable[[int, bytes], Rows]) -> Iterator[tuple[int, bytes, Rows]]:
        """(number of the first row, text in UTF-8, result of `parse`) of blocks of rows. `parse`
        gets that number and that text, and calls `frame` or `words`. Raises ValueError for a row
        with more cells than the header, an open quotation mark, and bytes that are not text."""
        import pandas as pd

        row, held = FIRST_ROW, b""
        for _, lines in _without_lines(_blocks(self.path), self._header_lines):
            block = held + lines
            try:
                rows = parse(row, block)
            except pd.errors.ParserError as error:
                # a quoted cell may go on in the next block
                if "EOF inside string" in str(error) and len(block) <= LONGEST_CELL:
                    held = block
                    continue
                raise self._located(error, row) from error
            yield row, block, rows
            row, held = row + len(rows), b""
        if held:
            try:
                parse(row, held)
            except pd.errors.ParserError as error:
                raise self._located(error, row) from error

    def frame(self, block: bytes, **options: Any) -> Any:
        """A block as a DataFrame whose columns are numbers from 0; `options` of `pandas.read_csv`.
        Empty rows are kept."""
        import pandas as pd

        block = self._with_full_first_row(block)
        return pd.read_csv(
            io.BytesIO(block),
            sep=self.separator,
            header=None,
            names=range(len(self.names)),
            index_col=False,
            skipinitialspace=True,
            skip_blank_lines=False,
            low_memory=False,
            **options,
        )

    def _with_full_first_row(self, block: bytes) -> bytes:
        """The block, whose first row gets empty cells if it has fewer than the header, because
        pandas takes the number of columns from it. Raises ParserError if it has more."""
        from pandas.errors import ParserError

        reader = csv.reader((x.decode() for x in io.BytesIO(block)), **_dialect(self.separator))
        try:
            n_cells = max(len(next(reader, [])), 1)
        except csv.Error:  # a long cell, whose end pandas finds
            return block
        n_columns = len(self.names)
        if n_cells > n_columns:
            raise ParserError(f"Expected {n_columns} fields in line 1, saw {n_cells}")
        if n_cells == n_columns:
            return block
        lines = io.BytesIO(block)
        first = b"".join(lines.readline() for _ in range(reader.line_num))
        return (
            first.rstrip(b"\n")
            + (self.separator * (n_columns - n_cells)).encode()
            + b"\n"
            + lines.read()
        )

    def words(self, block: bytes, columns: Sequence[int] | None = None) -> Any:
        """A block, or some of its columns, as a DataFrame of text without surrounding spaces.
        Excel's error values are empty."""
        table = self.frame(block, dtype=str, keep_default_na=False, usecols=columns)
        table = table.astype(object).fillna("").apply(lambda column: column.str.strip())
        return table.mask(table.isin(EXCEL_ERRORS), "")

    def _located(self, error: Exception, first_row: int) -> ValueError:
        """The error of pandas in a block as a sentence with the row."""
        text = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        too_many = _TOO_MANY_CELLS.search(text)
        if too_many:
            expected, line, found = map(int, too_many.groups())
            return ValueError(
                f"{self.path}, row {first_row + line - 1}: it has {found} cells, more than the"
                f" {expected} names of the header. A cell with the separator {self.separator!r}"
                " needs quotation marks."
            )
        if "EOF inside string" in text:
            row = first_row + int(text.rsplit(" ", 1)[1])
            return ValueError(f"{self.path}, row {row}: a quotation mark is not closed.")
        return ValueError(f"{self.path}, below row {first_row - 1}: {text}.")


def open_csv(path: Path, needed: Collection[Any] = ()) -> CsvFile:
    """The file, whose separator (comma, semicolon or tab) is the one with which the header has the
    most of the `needed` names. As in Excel, a first line such as `sep=;` determines the separator
    and is no row. Raises ValueError for an empty file, for an empty first row and for bytes that
    are not text."""
    _, block = next(_blocks(path), (1, b""))
    text = block.decode()
    line = _SEPARATOR_LINE.match(text)
    text = text if line is None else text[line.end() :]
    separator = _separator_of(text, needed) if line is None else line["separator"]
    reader = csv.reader(io.StringIO(text), **_dialect(separator))
    try:
        names = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise ValueError(f"{path}, row 1: {error}.") from error
    if not any(names):
        raise ValueError(f"{path}, row 1: it is empty; it needs the column names.")
    return CsvFile(path, names, separator, reader.line_num + (line is not None))


def header_of(path: Path) -> str:
    """The location of the names of the columns, for an error message."""
    return str(path) if path.suffix.lower() in (".parquet", ".pq") else f"{path}, row 1"


def is_unnamed(name: str) -> bool:
    """Whether the name is empty or a placeholder of pandas."""
    return name == "" or _PLACEHOLDER.fullmatch(name) is not None


def check_names(header: str, names: Sequence[str], cure: str, used: Collection[str] = ()) -> None:
    """Raises ValueError for a column without a name, such as the index that pandas writes, and for
    repeated names. The columns `used`, which an option names, may have any name, but only once.
    The sentence begins with `header`, the location of the names; that on a column without a name
    ends with `cure`."""
    for number, name in enumerate(names, 1):
        if name in used or not is_unnamed(name):
            continue
        origin = f" ('{name}' is how pandas calls such a column)" if name else ""
        raise ValueError(f"{header}: column {number} has no name{origin}; {cure}.")
    check_distinct(header, names)


def check_distinct(header: str, names: Sequence[str], used: Collection[str] | None = None) -> None:
    """Raises ValueError if one of the columns `used`, or of all columns, has the name of another
    one; `header` as in `check_names`."""
    for name, count in Counter(names).items():
        if count > 1 and (used is None or name in used):
            raise ValueError(
                f"{header}: there are {count} columns '{name}'; their names must differ."
            )


def _separator_of(text: str, needed: Collection[Any]) -> str:
    """The separator with which the header of the text has the most of the needed names. Of several
    such separators, it is one with which the header has the most columns."""
    header = text[:LONGEST_HEADER]

    def column_counts(separator: str) -> tuple[int, int]:
        cells = next(csv.reader(io.StringIO(header), **_dialect(separator)), [])
        return sum(name in [cell.strip() for cell in cells] for name in needed), len(cells)

    return max(f"{_NO_SEPARATOR},;\t", key=column_counts)


def _dialect(separator: str) -> dict[str, Any]:
    return dict(delimiter=separator, skipinitialspace=True)


def _without_lines(blocks: Iterator[tuple[int, bytes]], count: int) -> Iterator[tuple[int, bytes]]:
    """The blocks without the first `count` lines, which are in the first block."""
    for line, block in blocks:
        if line == 1:
            lines = io.BytesIO(block)
            for _ in range(count):
                lines.readline()
            block = lines.read()
        if block:
            yield line, block


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, text in UTF-8) of blocks of whole lines, which end with \\n."""
    line, rest, encoding = 1, b"", ""
    for raw, is_first, is_last in _parts(path):
        if is_first and raw.startswith(codecs.BOM_UTF8):
            raw, encoding = raw.removeprefix(codecs.BOM_UTF8), "utf-8"
        text = rest + raw
        if b"\r" in text:
            # the last \r of a part may belong to a \n of the next one
            held = b"\r" if text.endswith(b"\r") and not is_last else b""
            text = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        end = len(text) if is_last else text.rfind(b"\n") + 1
        block, rest = text[:end], text[end:]
        if b"\0" in raw or len(rest) > LONGEST_LINE:
            number = line + text.partition(b"\0")[0].count(b"\n")
            raise ValueError(
                f"{path}, line {number}: it is not text. Comma-separated values are needed"
                " (Excel files end with .xlsx, Parquet files with .parquet)."
            )
        if not block.isascii():
            block, encoding = _in_utf8(path, line, block, encoding)
        if block:
            yield line, block
            line += _count_lines(block)


def _count_lines(block: bytes) -> int:
    """The number of line ends, several times as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))


def _parts(path: Path) -> Iterator[tuple[bytes, bool, bool]]:
    """(bytes, whether they are the first, whether they are the last) of parts of a file. UTF-16 is
    converted to UTF-8 with a byte order mark. Raises ValueError for a damaged file."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    is_first, utf16 = True, None
    with opened(path, "rb") as file:
        while True:
            try:
                raw = file.read(BLOCK)
                if is_first and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    utf16 = codecs.getincrementaldecoder("utf-16")()
                is_last = not raw
                if utf16 is not None:
                    raw = utf16.decode(raw, final=is_last).encode()
                    raw = codecs.BOM_UTF8 + raw if is_first else raw
            except (EOFError, UnicodeError, zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(f"{path} is damaged: {error}.") from error
            yield raw, is_first, is_last
            if is_last:
                return
            is_first = False


def _in_utf8(path: Path, line: int, block: bytes, encoding: str) -> tuple[bytes, str]:
    """(the block in UTF-8, its encoding). An `encoding` of "" is determined from the first line
    that is not ASCII."""
    if not encoding:
        first = re.search(rb"[^\n]*[\x80-\xff][^\n]*", block)
        assert first is not None
        try:
            first[0].decode()
            encoding = "utf-8"
        except UnicodeDecodeError:
            encoding = "cp1252"
    try:
        text = block.decode(encoding)
    except UnicodeDecodeError as error:
        number = line + block.count(b"\n", 0, error.start)
        raise ValueError(
            f"{path}, line {number}: the byte 0x{block[error.start]:02x} is not text in the"
            f" encoding of the file, {encoding}. Save the file in UTF-8."
        ) from error
    return (block if encoding == "utf-8" else text.encode()), encoding
