"""Tables that people bring: candidates (an id and features) and evaluations (an id and a value),
checked cell by cell.

Every mistake is a ValueError that names the file, the row and the column as a spreadsheet counts
them (the header is row 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from jsketch.kernels import Columns
from jsketch.kernels.discrete import pack_bits

LARGEST = 1e300  # beyond it a prediction may be no number any more
FIRST_ROW = 2  # of the values: the header is row 1


class Kinds(NamedTuple):
    """Columns that are not numbers, by name."""

    categories: Sequence[str] = ()  # beside those without any number in them
    sequences: Sequence[str] = ()  # words of one length: a category at every site
    bits: Sequence[str] = ()  # words of zeros and ones: a fingerprint


class Candidates(NamedTuple):
    """A library of A candidates with d features."""

    ids: np.ndarray  # [A] of str
    features: np.ndarray  # [A, d], numbers, categories as zeros and ones, fingerprints as words
    columns: list[Columns]  # what the features are
    names: list[str]  # of the numbers, categories, sites and fingerprints


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


def read_candidates(path: Path, id_column: str = "id", kinds: Kinds | None = None) -> Candidates:
    """Raises ValueError for missing values, ids that are empty or used twice, constant columns,
    columns of `kinds` that are not there or hold something else, and fewer than two rows."""
    kinds = Kinds() if kinds is None else kinds
    asked = [name for group in kinds for name in group]
    table = _read(path, [id_column, *asked])
    twice_asked = [name for name in asked if asked.count(name) > 1 or name == id_column]
    if twice_asked:
        raise ValueError(f"the column '{twice_asked[0]}' is asked to be two things at once.")
    ids = _ids(path, table, id_column)
    names = [name for name in table.columns if name != id_column]
    if not names:
        raise ValueError(f"{path} has no feature column beside '{id_column}'.")
    if len(ids) == 1:
        _ = [_features(path, table, name, kinds) for name in names]
        raise ValueError(f"{path} has one candidate only: there is nothing to choose from.")
    parts, columns, labels = [], [], []
    for name in names:
        for label, kind, part in _features(path, table, name, kinds):
            parts.append(part)
            labels.append(label)
            columns.append(Columns(kind, part.shape[1]))
    return Candidates(ids, np.hstack(parts), columns, labels)


def _ids(path: Path, table: pd.DataFrame, id_column: str) -> np.ndarray:
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
    return ids.to_numpy(str)


def _features(
    path: Path, table: pd.DataFrame, name: str, kinds: Kinds
) -> list[tuple[str, str, np.ndarray]]:
    """(label, kind, features [A, width]) of a column; of a sequence one for every site that
    varies. A column without any number in it is a category."""
    words = table[name].str.strip()
    if name in kinds.sequences:
        letters = np.array([list(word) for word in _of_one_length(path, table, name)])
        parts = [(f"{name}[{i + 1}]", _one_hot(site)) for i, site in enumerate(letters.T)]
        return [(label, "category", part) for label, part in parts if part.shape[1] > 1] or _same(
            path, name, words.iloc[0]
        )
    if name in kinds.bits:
        bits = np.array([list(word) for word in _of_one_length(path, table, name)])
        wrong = np.flatnonzero(~np.isin(bits, ("0", "1")).all(1))
        if wrong.size:
            raise ValueError(
                f"{path}, row {table.index[wrong[0]]}, column '{name}': the value is not a word of"
                " zeros and ones, such as 0110."
            )
        return [(name, "bits", pack_bits((bits == "1").astype(int)))]
    numbers = pd.to_numeric(words, errors="coerce").notna()
    if name not in kinds.categories and (numbers.any() or (words == "").all()):
        values = _numbers(path, table, name)
        if len(values) > 1 and np.ptp(values) == 0:
            _same(path, name, f"{values[0]:g}")
        return [(name, "numbers", values[:, None])]
    _present(path, table, name)
    levels = words.nunique()
    if len(words) > 1 and levels == 1:
        _same(path, name, words.iloc[0])
    if len(words) > 2 and levels == len(words):
        raise ValueError(
            f"{path}, column '{name}': every value is another word, so that nothing can be learned"
            " from it. Remove it, or say what it is (--sequence, --bits)."
        )
    return [(name, "category", _one_hot(words.to_numpy(str)))]


def _present(path: Path, table: pd.DataFrame, name: str) -> None:
    empty = np.flatnonzero(table[name].str.strip() == "")
    if empty.size:
        raise ValueError(
            f"{path}, row {table.index[empty[0]]}, column '{name}': the value is missing."
        )


def _of_one_length(path: Path, table: pd.DataFrame, name: str) -> list[str]:
    _present(path, table, name)
    words = table[name].str.strip()
    wrong = np.flatnonzero(words.str.len() != len(words.iloc[0]))
    if wrong.size:
        raise ValueError(
            f"{path}, row {table.index[wrong[0]]}, column '{name}': the word has"
            f" {len(words.iloc[wrong[0]])} letters, the first one has {len(words.iloc[0])}. They"
            " must be equally long: align them."
        )
    return words.tolist()


def _same(path: Path, name: str, value: str) -> list[tuple[str, str, np.ndarray]]:
    raise ValueError(
        f"{path}, column '{name}': every value is {value}; a constant column says nothing, remove"
        " it."
    )


def _one_hot(values: np.ndarray) -> np.ndarray:
    """[A, levels], levels in alphabetical order."""
    return (values[:, None] == np.unique(values)[None, :]).astype(float)


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
