"""Mistakes in the tables of a random sheet, each of which must be refused in every format."""

from typing import NamedTuple

import numpy as np


class Fault(NamedTuple):
    """Where a mistake is: what the refusal must name."""

    words: str
    table: str | None = None  # the name of its option
    row: int | None = None  # of the table, from 0 on
    column: str | None = None
    options: tuple[str, ...] = ()  # in addition


def put(seed, sheet, grids, random):
    """Makes one mistake in the tables, and returns the Fault. Seeds take turns with the kinds."""
    for make in (*FAULTS[seed % len(FAULTS) :], *FAULTS):
        fault = make(sheet, grids, random)
        # None where the sheet has no room for this kind
        if fault is not None:
            return fault
    raise AssertionError("an id can be missing in every sheet")


def _feature(sheet, random, *kinds):
    """A random feature column of some kinds."""
    some = [
        column for column in sheet.features
        if (column.option.lstrip("-") or column.kind) in kinds
    ]  # fmt: skip
    return some[random.integers(len(some))] if some else None


def _cell(sheet, grids, random, kinds, words, why):
    """A wrong cell in a feature column."""
    # other words are compared with the first one
    column, row = _feature(sheet, random, *kinds), int(random.integers(1, sheet.count))
    if column is None:
        return None
    grids["candidates"].columns[column.name][row] = words[random.integers(len(words))]
    word = grids["candidates"].columns[column.name][row]
    return Fault(f"{why} {word!r}", "candidates", row, column.name)


def missing_feature(sheet, grids, random):
    kinds = ("numbers", "category", "categories", "sequence", "bits", "smiles")
    return _cell(sheet, grids, random, kinds, (None, "", "#N/A"), "a missing feature")


def wrong_number(sheet, grids, random):
    words = (
        "many",
        "<5",
        "1_000",
        "inf",
        "-inf",
        "nan",
        "1e400",
        "1,2,3",
        "2024-01-05",
        "12 or 13",
    )
    return _cell(sheet, grids, random, ("numbers",), words, "a feature that is no number")


def large_number(sheet, grids, random):
    return _cell(sheet, grids, random, ("numbers",), (1e301, -2e305), "a number that is too large")


def wrong_word(sheet, grids, random):
    return _cell(sheet, grids, random, ("bits",), ("0120", "00112233", "abcdefgh"), "wrong bits")


def wrong_molecule(sheet, grids, random):
    return _cell(sheet, grids, random, ("smiles",), ("C(", "water", "c1ccc"), "no molecule")


def unaligned(sheet, grids, random):
    return (
        _cell(sheet, grids, random, ("sequence",), ("ACGTACGT",), "an unaligned sequence")
        if (sheet.count > 1)
        else None
    )


def _whole_column(sheet, grids, random, words, row, why):
    """No reading of a column is the one of all its cells."""
    column = _feature(sheet, random, "numbers")
    if column is None:
        return None
    cells = [words[i % len(words)] for i in range(sheet.count)]
    grids["candidates"].columns[column.name] = cells
    return Fault(f"{why} {cells[:2]}", "candidates", row, column.name)


def dates(sheet, grids, random):
    some = (("2024-01-05", "2024-02-06"), ("5.1.2024", "6.1.2024"), ("12:30", "13:45"))
    return _whole_column(sheet, grids, random, some[random.integers(len(some))], 0, "dates")


def two_meanings(sheet, grids, random):
    some = (("1,500", "2,750"), ("1,5", "2.5"), ("1,500", "2.750"))
    words = some[random.integers(len(some))]
    grids["candidates"].semicolons = False
    return _whole_column(sheet, grids, random, words, 0, "two meanings")


def two_units(sheet, grids, random):
    some = (("50 C", "60 K"), ("50 %", "60"), ("5 mg", "4 g"))
    return _whole_column(sheet, grids, random, some[random.integers(len(some))], 1, "two units")


def constant(sheet, grids, random):
    column = _feature(
        sheet, random, "numbers", "category", "categories", "sequence", "bits", "smiles"
    )
    cells = grids["candidates"].columns[column.name]
    grids["candidates"].columns[column.name] = [cells[0]] * sheet.count
    return Fault("a constant column", "candidates", None, column.name)


def too_many_words(sheet, grids, random):
    column = _feature(sheet, random, "numbers", "category")
    if column is None:
        return None
    grids["candidates"].columns[column.name] = [f"name {i}" for i in range(sheet.count)]
    return Fault("too many levels", "candidates", None, column.name)


def repeated_id(sheet, grids, random):
    one, other = sorted(random.permutation(sheet.count)[:2].tolist())
    ids = grids["candidates"].columns[sheet.id_name]
    ids[other] = ids[one]
    return Fault("a repeated id", "candidates", other, sheet.id_name)


def missing_id(sheet, grids, random):
    row = int(random.integers(sheet.count))
    grids["candidates"].columns[sheet.id_name][row] = None
    return Fault("a missing id", "candidates", row, sheet.id_name)


def unknown_id(sheet, grids, random):
    table = str(random.choice(["observations", "pending", "exclude"]))
    if not len(grids[table]):
        return None
    row = int(random.integers(len(grids[table])))
    grids[table].columns[sheet.id_name][row] = "nowhere"
    return Fault("an unknown id", table, row, sheet.id_name)


def wrong_value(sheet, grids, random):
    row = int(random.integers(len(sheet.arms)))
    words = (
        "many",
        "inf",
        "1e400",
        "1_000",
        "<5",
        "nan",
        2e300,
        *([] if sheet.failures else [None, "#N/A"]),
    )
    grids["observations"].columns[sheet.value_name][row] = words[random.integers(len(words))]
    return Fault("a wrong value", "observations", row, sheet.value_name)


def wrong_error(sheet, grids, random):
    known = np.flatnonzero(~np.isnan(sheet.values))
    if sheet.error_name is None or not known.size:
        return None
    row, words = int(random.choice(known)), (-0.5, None, "few", "inf")
    grids["observations"].columns[sheet.error_name][row] = words[random.integers(len(words))]
    return Fault("a wrong error", "observations", row, sheet.error_name)


def wrong_cost(sheet, grids, random):
    if sheet.cost_name is None:
        return None
    row, words = int(random.integers(sheet.count)), (0.0, -1.0, None, "free", "inf")
    grids["candidates"].columns[sheet.cost_name][row] = words[random.integers(len(words))]
    return Fault("a wrong cost", "candidates", row, sheet.cost_name)


def missing_column(sheet, grids, random):
    table, name = (("candidates", sheet.id_name), ("observations", sheet.value_name))[
        random.integers(2)
    ]
    del grids[table].columns[name]
    return Fault(f"no column '{name}'", table)


def unnamed_column(sheet, grids, random):
    table = str(random.choice(["candidates", "observations"]))
    grids[table].columns[""] = ["x"] * len(grids[table])
    return Fault("a column without a name", table, -1)


def only_header(sheet, grids, random):
    table = str(random.choice(["candidates", "observations"]))
    grids[table] = grids[table].rows([])
    return Fault("no rows", table)


def one_candidate(sheet, grids, random):
    grids["candidates"] = grids["candidates"].rows([0])
    return Fault("one candidate")


def only_ids(sheet, grids, random):
    ids = grids["candidates"].columns[sheet.id_name]
    needed = [column for column in sheet.columns if column.option]
    if needed or sheet.cost_name is not None or sheet.same is not None:
        return None
    grids["candidates"].columns = {sheet.id_name: ids}
    return Fault("no features", "candidates")


def two_roles(sheet, grids, random):
    column = _feature(sheet, random, "sequence", "bits", "smiles")
    if column is None:
        return None
    return Fault("two meanings of a column", options=("--categories", column.name))


def large_batch(sheet, grids, random):
    return Fault("a batch that is too large", options=("--batch", str(sheet.left() + 1)))


FAULTS = (
    missing_feature, wrong_number, large_number, wrong_word, wrong_molecule, unaligned, dates,
    two_meanings, two_units, constant, too_many_words, repeated_id, missing_id, unknown_id,
    wrong_value, wrong_error, wrong_cost, missing_column, unnamed_column, only_header,
    one_candidate, only_ids, two_roles, large_batch,
)  # fmt: skip
