"""Tables of a random sheet as files: three formats, and many dialects and spellings of each.

A cell is a float, a text, or None for an empty one. Every file of a table has the same meaning, so
that a reader must return the same arrays for all of them.
"""

import datetime
import re
from dataclasses import dataclass, field, replace

import numpy as np
import openpyxl
import pandas as pd

ENDINGS = (".csv", ".xlsx", ".parquet")
UNITS = ("%", " %", " °C", " mg/mL", "€", "\u00a0µm")
SPACES = ("\u00a0", "\u202f", "\u2009")
TWO_MEANINGS = re.compile(r"\D?[1-9]\d{0,2}(\.\d{3})+(?![\d.])")
ERRORS = ("#N/A", "#DIV/0!")  # of a spreadsheet
EMPTY = ("", "", "", " ", *ERRORS)


@dataclass
class Grid:
    """A table: cells by column name, all of one length."""

    columns: dict[str, list]
    # columns whose cells are names, so that numbers among them keep their spelling
    names: set[str] = field(default_factory=set)
    # whether semicolons may separate the columns, where a comma in a number is decimal
    semicolons: bool = True

    def __len__(self):
        return len(next(iter(self.columns.values()), []))

    def rows(self, order):
        """Some of the rows in some order."""
        columns = {name: [cells[i] for i in order] for name, cells in self.columns.items()}
        return replace(self, columns=columns)


def write(path, grid, random):
    """Writes the table in a random way. Returns the row number in a spreadsheet of each row of the
    table, or None if the format cannot represent the table."""
    writers = {".csv": _separated, ".xlsx": _excel, ".parquet": _parquet}
    return writers[path.suffix](path, grid, random)


def _has_fraction(cells):
    """Whether some number is below 1, such as 0.5: its comma or point can only be decimal."""
    return any(isinstance(c, float) and 0 < abs(c) < 1 and "e" not in repr(c) for c in cells)


def spell(cells, random, may_have_unit=True):
    """A column of numbers as text, in a random spelling that has only one meaning."""
    clear_styles = ["plain", "fixed", "exponent"]
    style = random.choice([*clear_styles, "comma", "groups", "comma groups", "narrow"])
    style = style if _has_fraction(cells) or style in clear_styles else "plain"
    unit = random.choice(UNITS) if may_have_unit and random.uniform() < 0.3 else ""
    minus = random.choice(["-", "-", "\u2212", "\u2013"])
    plus = random.uniform() < 0.2
    space = random.choice(SPACES)

    def word(cell):
        if not isinstance(cell, float):
            return "" if cell is None else cell
        as_integer = cell.is_integer() and abs(cell) < 1e15 and random.uniform() < 0.7
        number = str(int(cell)) if as_integer else repr(cell)
        if style == "fixed" and float(f"{cell:.9f}") == cell:
            number = f"{cell:.9f}" if random.uniform() < 0.5 else f"{cell:.9f}".rstrip("0")
        elif style == "exponent":
            number = f"{cell:.16{random.choice(['e', 'E'])}}"
        elif style in ("groups", "comma groups", "narrow") and abs(cell) >= 1000:
            number = format(int(cell) if as_integer else cell, ",")
            number = number.replace(",", space) if style == "narrow" else number
        if style in ("comma", "comma groups"):
            number = number.translate(str.maketrans(",.", ".,"))
        if number.startswith("-"):
            number = minus + number[1:]
        elif plus:
            number = "+" + number
        return number + unit

    return [word(cell) for cell in cells]


def _in_words(grid, name, random):
    """The cells of a column as text."""
    cells = grid.columns[name]
    if not any(isinstance(cell, float) for cell in cells):
        return ["" if cell is None else cell for cell in cells]
    if name in grid.names:
        return [_as_name(cell, random) if isinstance(cell, float) else cell or "" for cell in cells]
    return spell(cells, random, all(isinstance(cell, float) or not cell for cell in cells))


def _as_name(cell, random):
    """A number that names a category, where 50 and 50.0 are the same name."""
    return str(int(cell)) if cell.is_integer() and random.uniform() < 0.5 else repr(cell)


def _blank_rows(count, random):
    """For each empty row, the row of the table that follows, or `count` at the end."""
    if random.uniform() < 0.7 or not count:
        return []
    rows = [*random.integers(1, count + 1, random.integers(2)), count, count]
    return sorted(rows[: 1 + random.integers(3)])


def _numbered(count, blank_rows):
    """The row number in a spreadsheet of each row of a table."""
    return [i + 2 + sum(at <= i for at in blank_rows) for i in range(count)]


def _separated(path, grid, random):
    names, count = list(grid.columns), len(grid)
    words = {name: _in_words(grid, name, random) for name in names}
    separator = str(random.choice([",", ";", "\t"] if grid.semicolons else [",", "\t"]))
    if separator == ";":
        # with semicolons a column of numbers such as 1.500 or 2.750 has two meanings
        for name in names:
            with_point = [word for word in words[name] if "." in word]
            if with_point and all(map(TWO_MEANINGS.match, with_point)):
                separator = ","
    ending = str(random.choice(["\n", "\r\n", "\n", "\r"]))
    quoting = random.choice(["needed", "all", "some"])
    spaces = random.uniform() < 0.3

    def cell(word):
        if word == "" and random.uniform() < 0.2:
            word = str(random.choice(EMPTY))
        needs_quotes = any(c in word for c in (separator, '"', "\n", "\r")) or word != word.strip()
        if needs_quotes or quoting == "all" or (quoting == "some" and random.uniform() < 0.3):
            word = '"' + word.replace('"', '""') + '"'
        if spaces and separator != "\t":
            word = " " * random.integers(3) + word + " " * random.integers(3)
        return word

    lines = [separator.join(cell(name) for name in names)]
    blank_rows = _blank_rows(count, random)
    empty = [separator * (len(names) - 1), "", " " if separator != "\t" else ""]
    for i in range(count + 1):
        lines += [str(random.choice(empty)) for at in blank_rows if at == i]
        if i < count:
            lines.append(separator.join(cell(words[name][i]) for name in names))
    text = ending.join(lines) + (ending if random.uniform() < 0.8 else "")
    encoding = str(random.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
    try:
        raw = text.encode(encoding)
    except UnicodeEncodeError:
        raw = text.encode("utf-8")
    path.write_bytes(raw)
    return _numbered(count, blank_rows)


def _is_whole(word):
    return bool(re.fullmatch(r"-?[1-9]\d{0,14}|0", word))


def _excel(path, grid, random):
    names, count = list(grid.columns), len(grid)
    book = openpyxl.Workbook()
    sheet = book.active
    blank_rows = _blank_rows(count, random)
    rows = _numbered(count, blank_rows)
    for j, name in enumerate(names, 1):
        _put(sheet.cell(1, j), name)
        cells = grid.columns[name]
        if random.uniform() < 0.3:
            cells = _in_words(grid, name, random)
        has_types = random.uniform() < 0.5
        for row, cell in zip(rows, cells, strict=True):
            if isinstance(cell, str) and has_types and _is_whole(cell):
                cell = int(cell)
            elif isinstance(cell, str) and has_types and cell in ("TRUE", "FALSE"):
                cell = cell == "TRUE"
            elif isinstance(cell, str) and has_types and re.fullmatch(r"\d{4}-\d\d-\d\d", cell):
                cell = datetime.datetime.fromisoformat(cell)
            elif isinstance(cell, float) and cell.is_integer() and random.uniform() < 0.3:
                cell = int(cell)
            elif cell in (None, "") and random.uniform() < 0.2:
                cell = str(random.choice(EMPTY))
            _put(sheet.cell(row, j), cell)
    if random.uniform() < 0.2:
        for j in range(1, len(names) + 1):
            _put(sheet.cell(count + len(blank_rows) + 3, j), " ")
    if random.uniform() < 0.2:
        book.create_sheet("notes")["A1"] = "nothing of this is read"
    book.save(path)
    return rows


def _put(place, cell):
    place.value = cell
    if isinstance(cell, str) and cell:
        # text that begins with "=" is marked as text and not as a formula
        place.data_type = "e" if cell in ERRORS else "s"


def _parquet(path, grid, random):
    names, count = list(grid.columns), len(grid)
    if len(set(names)) < len(names):
        return None
    frame = pd.DataFrame(
        {name: _series(grid, name, random) for name in names}, index=range(count), columns=names
    )
    blank_rows = _blank_rows(count, random)
    rows = _numbered(count, blank_rows)
    if blank_rows:
        full = frame.set_axis(rows).reindex(range(2, count + len(blank_rows) + 2))
        # empty rows would change a type without missing values, such as an integer type
        frame = full if all(full[name].isna().sum() >= len(blank_rows) for name in names) else frame
    # Parquet files leave out an index that is a range: a table of one column would lose its rows
    if random.uniform() < 0.2 and len(names) > 1:
        frame = frame.set_index(names[0])
    frame.to_parquet(path, compression=random.choice(["snappy", "zstd", None]))
    return rows if len(frame) > count else list(range(2, count + 2))


def _series(grid, name, random):
    cells = grid.columns[name]
    present = [cell for cell in cells if cell is not None]
    are_numbers = bool(present) and all(isinstance(cell, float) for cell in present)
    if are_numbers and random.uniform() < 0.7:
        values = np.array([np.nan if cell is None else cell for cell in cells])
        are_whole = all(cell.is_integer() and abs(cell) < 2**53 for cell in present)
        if are_whole and random.uniform() < 0.5:
            return pd.Series([None if c is None else int(c) for c in cells], dtype="Int64")
        with np.errstate(over="ignore"):
            fits_float32 = (values.astype(np.float32) == values).all()
        use_float32 = fits_float32 and random.uniform() < 0.5
        return pd.Series(values.astype(np.float32) if use_float32 else values)
    words = _in_words(grid, name, random)
    if all(_is_whole(word) for word in words) and random.uniform() < 0.5:
        return pd.Series([int(word) for word in words])
    if set(words) == {"TRUE", "FALSE"} and random.uniform() < 0.5:
        return pd.Series([word == "TRUE" for word in words])
    are_dates = words and all(re.fullmatch(r"\d{4}-\d\d-\d\d", word) for word in words)
    if are_dates and random.uniform() < 0.5:
        return pd.Series(pd.to_datetime(words))
    if random.uniform() < 0.5:
        empty = [None, *EMPTY][random.integers(len(EMPTY) + 1)]
        words = [empty if word == "" else word for word in words]
    return pd.Series(words, dtype=random.choice([object, "category", "string"]))
