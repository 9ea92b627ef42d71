"""Mistakes in the tables of a random sheet, each of which must be refused in every format."""

from typing import NamedTuple

import numpy as np

FEATURES = ("numbers", "category", "categories", "sequence", "bits", "smiles")


class Fault(NamedTuple):
    """The place of a mistake, which the refusal must name."""

    words: str  # a description
    table: str | None = None  # the option that names its file
    row: int | None = None  # from 0; -1 is the header
    column: str | None = None
    options: tuple[str, ...] = ()  # further options of the command


def make_fault(seed, sheet, grids, random):
    """Makes one mistake and returns the Fault. Consecutive seeds have different kinds."""
    for make in (*FAULTS[seed % len(FAULTS) :], *FAULTS):
        fault = make(sheet, grids, random)
        if fault is not None:  # None if the sheet cannot have this fault
            return fault
    raise AssertionError("an id can be missing in every sheet")


def pick(random, choices):
    return choices[random.integers(len(choices))]


def feature(sheet, random, kinds):
    """A random feature column of given kinds, or None."""
    columns = [c for c in sheet.features if (c.option.lstrip("-") or c.kind) in kinds]
    return pick(random, columns) if columns else None


def wrong_cell(words, kinds, cells):
    """A function that puts a wrong cell into a feature column."""

    def make(sheet, grids, random):
        # not the first row, because the other rows are compared with it
        column, row = feature(sheet, random, kinds), int(random.integers(1, sheet.count))
        if column is None:
            return None
        cell = grids["candidates"].columns[column.name][row] = pick(random, cells)
        return Fault(f"{words} {cell!r}", "candidates", row, column.name)

    return make


def wrong_column(words, row, examples):
    """A function that fills a numeric column with one of `examples`. The refusal names `row`."""

    def make(sheet, grids, random):
        column = feature(sheet, random, ("numbers",))
        if column is None:
            return None
        if examples is TWO_MEANINGS:
            grids["candidates"].semicolons = False
        cells = (pick(random, examples) * sheet.count)[: sheet.count]
        grids["candidates"].columns[column.name] = list(cells)
        return Fault(f"{words} {cells[:2]}", "candidates", row, column.name)

    return make


def constant_column(sheet, grids, random):
    name = feature(sheet, random, FEATURES).name
    grids["candidates"].columns[name] = grids["candidates"].columns[name][:1] * sheet.count
    return Fault("a constant column", "candidates", None, name)


def too_many_levels(sheet, grids, random):
    column = feature(sheet, random, ("numbers", "category"))
    if column is None:
        return None
    grids["candidates"].columns[column.name] = [f"name {i}" for i in range(sheet.count)]
    return Fault("too many levels", "candidates", None, column.name)


def wrong_entry(words, table, name_of, cells, rows=None):
    """A function that puts a wrong cell into one of `rows` of the column `name_of(sheet)`."""

    def make(sheet, grids, random):
        name, count = name_of(sheet), len(grids[table])
        possible_rows = np.arange(count) if rows is None else rows(sheet)
        if name is None or not len(possible_rows):
            return None
        row = int(random.choice(possible_rows))
        grids[table].columns[name][row] = pick(random, cells(sheet))
        return Fault(words, table, row, name)

    return make


def repeated_id(sheet, grids, random):
    first_row, second_row = sorted(random.permutation(sheet.count)[:2].tolist())
    ids = grids["candidates"].columns[sheet.id_name]
    ids[second_row] = ids[first_row]
    return Fault("a repeated id", "candidates", second_row, sheet.id_name)


def missing_column(sheet, grids, random):
    places = ("candidates", sheet.id_name), ("observations", sheet.value_name)
    table, name = pick(random, places)
    del grids[table].columns[name]
    return Fault(f"no column '{name}'", table)


def unnamed_column(sheet, grids, random):
    table = pick(random, ["candidates", "observations"])
    name = pick(random, ["", "Unnamed: 0", "__index_level_0__"])  # two are placeholders of pandas
    grids[table].columns[name] = ["x"] * len(grids[table])
    return Fault("a column without a name", table, -1)


def only_header(sheet, grids, random):
    grids["candidates"] = grids["candidates"].rows([])
    return Fault("no rows", "candidates")


def one_candidate(sheet, grids, random):
    grids["candidates"] = grids["candidates"].rows([0])
    return Fault("one candidate")


def only_ids(sheet, grids, random):
    has_options = any(column.option for column in sheet.columns)
    if has_options or sheet.cost_name is not None or sheet.same is not None:
        return None
    grids["candidates"].columns = {sheet.id_name: grids["candidates"].columns[sheet.id_name]}
    return Fault("no features", "candidates")


def two_kinds(sheet, grids, random):
    column = feature(sheet, random, ("sequence", "bits", "smiles"))
    if column is None:
        return None
    return Fault("two kinds of a column", options=("--categories", column.name))


def large_batch(sheet, grids, random):
    return Fault("a batch that is too large", options=("--batch", str(sheet.n_available() + 1)))


NO_NUMBERS = ("many", "<5", "1_000", "inf", "-inf", "nan", "1e400", "1,2,3", "2024-01-05", "1 or 2")
DATES = (("2024-01-05", "2024-02-06"), ("5.1.2024", "6.1.2024"), ("12:30", "13:45"))
TWO_MEANINGS = (("1,500", "2,750"), ("1,5", "2.5"), ("1,500", "2.750"))
UNITS = (("50 C", "60 K"), ("50 %", "60"), ("5 mg", "4 g"))
VALUES = ("many", "inf", "1e400", "1_000", "<5", "nan", 2e300)
FAULTS = (
    wrong_cell("a missing feature", FEATURES, (None, "", "#N/A")),
    wrong_cell("a feature that is not a number", ("numbers",), NO_NUMBERS),
    wrong_cell("a number that is too large", ("numbers",), (1e301, -2e305)),
    wrong_cell("wrong bits", ("bits",), ("0120", "00112233", "abcdefgh")),
    wrong_cell("no molecule", ("smiles",), ("C(", "water", "c1ccc")),
    wrong_cell("an unaligned sequence", ("sequence",), ("ACGTACGT",)),
    wrong_column("dates", 0, DATES),
    wrong_column("two meanings", 0, TWO_MEANINGS),
    wrong_column("two units", 1, UNITS),
    constant_column,
    too_many_levels,
    repeated_id,
    wrong_entry("a missing id", "candidates", lambda s: s.id_name, lambda s: (None,)),
    *(
        wrong_entry("an unknown id", table, lambda s: s.id_name, lambda s: ("nowhere",))
        for table in ("observations", "pending", "exclude")
    ),
    wrong_entry("a wrong value", "observations", lambda s: s.value_name, lambda s: VALUES),
    wrong_entry(
        *("a wrong error", "observations", lambda s: s.error_name),
        lambda s: (-0.5, None, "few", "inf"),
        lambda s: np.flatnonzero(~np.isnan(s.values)),
    ),
    wrong_entry(
        *("a wrong cost", "candidates", lambda s: s.cost_name),
        lambda s: (0.0, -1.0, None, "free", "inf"),
    ),
    missing_column,
    unnamed_column,
    only_header,
    one_candidate,
    only_ids,
    two_kinds,
    large_batch,
)
