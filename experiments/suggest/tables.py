"""Tables that people bring: candidates (an id and features) and evaluations (an id and a value),
checked cell by cell (`cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.suggest import molecules
from experiments.suggest.cells import numbers, read, text
from jsketch.kernels import Columns
from jsketch.kernels.discrete import pack_bits
from jsketch.suggest import residues


class Kinds(NamedTuple):
    """Columns that are not numbers, by name."""

    categories: Sequence[str] = ()  # beside those without any number in them
    sequences: Sequence[str] = ()  # words of one length: a category at every site
    bits: Sequence[str] = ()  # words of zeros and ones: a fingerprint
    proteins: Sequence[str] = ()  # sequences of amino acids: numbers at every site, too
    smiles: Sequence[str] = ()  # molecules: a fingerprint


class Candidates(NamedTuple):
    """A library of A candidates with d features."""

    ids: np.ndarray  # [A] of str
    features: np.ndarray  # [A, d], numbers, categories as zeros and ones, fingerprints as words
    columns: list[Columns]  # what the features are
    names: list[str]  # of the numbers, categories, sites and fingerprints
    same: np.ndarray | None = None  # [A], the column that a batch has one value of
    cost: np.ndarray | None = None  # [A], above 0; no feature


class Evaluations(NamedTuple):
    """n measurements; an id may be repeated."""

    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed one
    errors: np.ndarray | None = None  # [n], standard errors of the values


def read_candidates(
    path: Path,
    id_column: str = "id",
    kinds: Kinds | None = None,
    same: str | None = None,
    cost: str | None = None,
    table: pd.DataFrame | None = None,
) -> Candidates:
    """The library; the column `same` is a feature too, the column `cost` is none. `table` has the
    cells where they were read before.

    Raises ValueError for missing values, ids that are empty or used twice, constant columns,
    columns that are asked for and not there or hold something else, and fewer than two rows."""
    kinds = Kinds() if kinds is None else kinds
    asked = [name for group in kinds for name in group]
    asked += [] if cost is None else [cost]
    if table is None:
        table = read(path, [id_column, *asked, *([] if same is None else [same])])
    twice_asked = [
        name for name in asked if asked.count(name) > 1 or name == id_column or name == cost == same
    ]
    if twice_asked:
        raise ValueError(f"the column '{twice_asked[0]}' is asked to be two things at once.")
    ids = _ids(path, table, id_column)
    names = [name for name in table.columns if name not in (id_column, cost)]
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
    of_one = None if same is None else _labels(path, table, same)
    price = None if cost is None else _costs(path, table, cost)
    return Candidates(ids, np.hstack(parts), columns, labels, of_one, price)


def _labels(path: Path, table: pd.DataFrame, column: str) -> np.ndarray:
    """Numbers where all are: 50 and 50.0 are one."""
    if pd.to_numeric(table[column], errors="coerce").notna().all():
        return numbers(path, table, column)
    return text(table[column]).to_numpy(str)


def _costs(path: Path, table: pd.DataFrame, column: str) -> np.ndarray:
    costs = numbers(path, table, column)
    wrong = np.flatnonzero(costs <= 0)
    if wrong.size:
        raise ValueError(
            f"{path}, row {table.index[wrong[0]]}, column '{column}': a cost is above 0, and this"
            f" one is {costs[wrong[0]]:g}."
        )
    return costs


def _ids(path: Path, table: pd.DataFrame, id_column: str) -> np.ndarray:
    ids = text(table[id_column])
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
    asked = [column for group in kinds for column in group]
    if name not in asked and pd.api.types.is_numeric_dtype(table[name].dtype):
        return [(name, "numbers", _varying(path, table, name))]
    words = text(table[name])
    if name in kinds.sequences or name in kinds.proteins:
        return _sites(path, table, name, name in kinds.proteins)
    if name in kinds.smiles:
        return [(name, "bits", _molecules(path, table, name))]
    if name in kinds.bits:
        bits = np.array([list(word) for word in _of_one_length(path, table, name)])
        wrong = np.flatnonzero(~np.isin(bits, ("0", "1")).all(1))
        if wrong.size:
            raise ValueError(
                f"{path}, row {table.index[wrong[0]]}, column '{name}': the value is not a word of"
                " zeros and ones, such as 0110."
            )
        return [(name, "bits", _differing(path, name, pack_bits((bits == "1").astype(int))))]
    plain = pd.to_numeric(words, errors="coerce").notna()
    if name not in kinds.categories and (plain.any() or (words == "").all()):
        return [(name, "numbers", _varying(path, table, name))]
    _present(path, table, name)
    levels = words.nunique()
    if len(words) > 1 and levels == 1:
        _same(path, name, words.iloc[0])
    if len(words) > 2 and levels == len(words):
        raise ValueError(
            f"{path}, column '{name}': every value is another word, so that nothing can be learned"
            " of it. Remove it, or say what it is (--sequence, --protein, --smiles, --bits)."
        )
    return [(name, "category", _one_hot(words.to_numpy(str)))]


def _sites(
    path: Path, table: pd.DataFrame, name: str, protein: bool
) -> list[tuple[str, str, np.ndarray]]:
    """Of every site that varies the letter, and of a protein its amino acid's properties."""
    words = _of_one_length(path, table, name)
    parts = []
    for i, site in enumerate(np.array([list(word) for word in words]).T):
        label = f"{name}[{i + 1}]"
        if len(np.unique(site)) == 1:
            continue
        parts.append((label, "category", _one_hot(site)))
        if protein:
            parts += _properties(path, name, label, site)
    return parts or _same(path, name, words[0])


def _properties(
    path: Path, name: str, label: str, site: np.ndarray
) -> list[tuple[str, str, np.ndarray]]:
    try:
        found = residues.properties(site)
    except ValueError as error:
        raise ValueError(f"{path}, column '{name}', site {label}: {error}") from error
    return [(f"{label} {of}", "numbers", column[:, None]) for of, column in found.items()]


def _molecules(path: Path, table: pd.DataFrame, name: str) -> np.ndarray:
    """Packed fingerprints."""
    _present(path, table, name)
    # salts and mixtures repeat: each is read once
    codes, words = pd.factorize(text(table[name]))
    if len(codes) > 1 and len(words) == 1:
        _same(path, name, words[0])
    packed, there = molecules.fingerprints(list(words))
    wrong = np.flatnonzero(~there[codes])
    if wrong.size:
        raise ValueError(
            f"{path}, row {table.index[wrong[0]]}, column '{name}': '{words[codes[wrong[0]]]}' is"
            f" no molecule that RDKit can read ({wrong.size} such rows)."
        )
    return _differing(path, name, packed[codes])


def _differing(path: Path, name: str, packed: np.ndarray) -> np.ndarray:
    """Packed fingerprints, as they are. Raises ValueError where all are the same."""
    if len(packed) > 1 and (packed == packed[0]).all():
        raise ValueError(
            f"{path}, column '{name}': every fingerprint is the same, which says nothing: remove"
            " the column."
        )
    return packed


def _varying(path: Path, table: pd.DataFrame, name: str) -> np.ndarray:
    """Numbers as a column [A, 1]."""
    values = numbers(path, table, name)
    if len(values) > 1 and np.ptp(values) == 0:
        _same(path, name, f"{values[0]:g}")
    return values[:, None]


def _present(path: Path, table: pd.DataFrame, name: str) -> None:
    empty = np.flatnonzero(text(table[name]) == "")
    if empty.size:
        raise ValueError(
            f"{path}, row {table.index[empty[0]]}, column '{name}': the value is missing."
        )


def _of_one_length(path: Path, table: pd.DataFrame, name: str) -> list[str]:
    _present(path, table, name)
    words = text(table[name])
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
    return _rows(path, read(path, [id_column]), candidates, id_column)


def _rows(path: Path, table: pd.DataFrame, candidates: Candidates, id_column: str) -> np.ndarray:
    rows = pd.Index(candidates.ids).get_indexer(text(table[id_column]))
    unknown = np.flatnonzero(rows < 0)
    if unknown.size:
        raise ValueError(
            f"{path}, row {table.index[unknown[0]]}, column '{id_column}': there is no candidate"
            f" '{text(table[id_column]).iloc[unknown[0]]}' ({unknown.size} such rows)."
        )
    return rows


def read_evaluations(
    path: Path,
    candidates: Candidates,
    id_column: str = "id",
    value_column: str = "value",
    failures: bool = False,
    error_column: str | None = None,
) -> Evaluations:
    """Raises ValueError for unknown ids and values that are not finite, or missing: with `failures`
    a missing one is an evaluation that failed. Standard errors of values are at least 0."""
    table = read(path, [id_column, value_column, *([] if error_column is None else [error_column])])
    arms = _rows(path, table, candidates, id_column)
    there = np.ones(len(table), bool)
    if failures:
        there = (text(table[value_column]) != "").to_numpy()
    values = np.full(len(table), np.nan)
    if there.any():
        values[there] = numbers(path, table[there], value_column, "--failures")
    errors = None if error_column is None else np.zeros(len(table))
    if errors is not None and there.any():
        errors[there] = numbers(path, table[there], str(error_column))
        below = np.flatnonzero(errors < 0)
        if below.size:
            raise ValueError(
                f"{path}, row {table.index[below[0]]}, column '{error_column}': a standard error is"
                f" at least 0, and this one is {errors[below[0]]:g}."
            )
    return Evaluations(arms, values, errors)
