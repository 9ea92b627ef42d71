"""The library of candidates (an id and features) and the evaluations (an id and a value), read from
tables and checked cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.suggest import molecules
from experiments.suggest.cells import Table, read
from jsketch.kernels import Columns
from jsketch.kernels.discrete import pack_bits
from jsketch.suggest import residues

# Columns of the table that is written, beside the ids.
WRITTEN = ("mean", "standard_deviation", "chance_of_success")
# Columns that describe an evaluation and not a candidate: they are not features.
BOOKKEEPING = ("error", "cost", "pending", "status", *WRITTEN)
# Levels of a category. Each is a column of zeros and ones; thousands of levels are names or text.
MOST_LEVELS = 1000
FEW_LEVELS = 20  # so many levels are always accepted


class Kinds(NamedTuple):
    """Names of columns, by what they hold where that is not numbers."""

    categories: Sequence[str] = ()  # beside the columns without any number
    sequences: Sequence[str] = ()  # words of one length: a category at every site
    bits: Sequence[str] = ()  # words of zeros and ones: a fingerprint
    proteins: Sequence[str] = ()  # sequences of amino acids: numbers at every site, too
    smiles: Sequence[str] = ()  # molecules: a fingerprint


class Roles(NamedTuple):
    """Names of columns of the library that are not features."""

    id: str = "id"
    results: Sequence[str] = ("value",)  # values and their errors, where the library holds them
    cost: str | None = None
    ignored: Sequence[str] = ()


class Candidates(NamedTuple):
    """A library of A candidates with d features."""

    ids: np.ndarray  # [A] of str objects
    features: np.ndarray  # [A, d], numbers, categories as zeros and ones, fingerprints as words
    columns: list[Columns]  # the kinds of the features
    names: list[str]  # of the numbers, categories, sites and fingerprints
    same: np.ndarray | None = None  # [A], a batch has one value of this column
    cost: np.ndarray | None = None  # [A], above 0; not a feature
    notes: Sequence[str] = ()  # sentences on how the table was read


class Evaluations(NamedTuple):
    """n measurements; an id may be repeated."""

    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed one
    errors: np.ndarray | None = None  # [n], standard errors of the values


class Feature(NamedTuple):
    """Features from one column of a table, or from one site of a sequence."""

    name: str
    kind: str  # of `Columns`
    values: np.ndarray  # [A, width]


def read_candidates(
    path: Path,
    roles: Roles | None = None,
    kinds: Kinds | None = None,
    same: str | None = None,
) -> Candidates:
    """The library. All columns are features but those of `roles` and of BOOKKEEPING; a column that
    `kinds` names is a feature in any case, and so is `same`.

    Raises ValueError for missing values, ids that are empty or used twice, constant columns, cells
    that are neither numbers nor clearly words, columns that are named and missing or hold something
    else, and fewer than two rows."""
    roles = Roles() if roles is None else roles
    kinds = Kinds() if kinds is None else kinds
    kind_of = [(name, kind) for kind, group in kinds._asdict().items() for name in group]
    named = [name for name, _ in kind_of]
    costs = [] if roles.cost is None else [roles.cost]
    table = read(
        path, [roles.id, *named, *costs, *roles.ignored, *([] if same is None else [same])]
    )
    not_features = [roles.id, *roles.results, *costs, *roles.ignored]
    for name in (*named, *([] if same is None else [same])):
        if named.count(name) > 1 or name in not_features:
            raise ValueError(f"the options give the column '{name}' two meanings.")
    ids = _ids(table, roles.id)
    names, notes = _feature_columns(table, roles, {*named, same})
    if not names:
        raise ValueError(f"{path} has no feature column beside '{roles.id}'.")
    features: list[Feature] = []
    for name in names:
        features += _features(table, name, dict(kind_of).get(name), notes)
    if len(ids) == 1:
        raise ValueError(f"{path} has one candidate only: there is nothing to choose from.")
    matrix = np.hstack([feature.values for feature in features])
    notes += _coincidences(ids, matrix)
    return Candidates(
        ids,
        matrix,
        [Columns(feature.kind, feature.values.shape[1]) for feature in features],
        [feature.name for feature in features],
        None if same is None else _labels(table, same),
        None if roles.cost is None else _costs(table, roles.cost),
        notes,
    )


def _feature_columns(
    table: Table, roles: Roles, asked: set[str | None]
) -> tuple[list[str], list[str]]:
    """(columns that are features, a sentence on those that describe evaluations instead)."""
    other = (roles.id, roles.cost, *roles.ignored)
    about_evaluations = {name.casefold() for name in (*roles.results, *BOOKKEEPING)}
    left = [name for name in table.names if name not in other]
    names = [name for name in left if name in asked or name.casefold() not in about_evaluations]
    left_out = ", ".join(f"'{name}'" for name in left if name not in names)
    return names, [f"{table.path}: not used as features: {left_out}"] if left_out else []


def _features(table: Table, name: str, kind: str | None, notes: list[str]) -> list[Feature]:
    """The features of a column, of a sequence one for every site that varies; `notes` gets a
    sentence where the cells are read in a way that may surprise."""
    if kind in ("sequences", "proteins"):
        return _sites(table, name, kind == "proteins")
    if kind == "smiles":
        return [Feature(name, "bits", _molecules(table, name, notes))]
    if kind == "bits":
        words = _of_one_length(table, name)
        bits = np.array([list(word) for word in words])
        wrong = np.flatnonzero(~np.isin(bits, ("0", "1")).all(1))
        if wrong.size:
            raise ValueError(
                f"{table.place(wrong[0], name)}: the value is not a word of zeros and ones, such as"
                " 0110."
            )
        return [
            Feature(name, "bits", _differing(table, name, pack_bits((bits == "1").astype(int))))
        ]
    read = table.reading(name)
    if kind is None and read.note:
        notes.append(f"{table.path}, column '{name}': read as {read.note}")
    if kind is None and read.kind == "numbers":
        return [Feature(name, "numbers", _varying(table, name))]
    if kind is None and read.kind == "unclear":
        try:
            return [Feature(name, "numbers", _varying(table, name))]
        except ValueError as error:
            raise ValueError(
                f"{error} Write plain numbers such as -1.5 with the unit in the header;"
                f" --categories '{name}' takes the cells as names, --ignore '{name}' leaves the"
                " column out."
            ) from error
    return [Feature(name, "category", _category(table, name, kind is None, notes))]


def _category(table: Table, name: str, guessed: bool, notes: list[str]) -> np.ndarray:
    """One-hot features [A, levels] of a column of words."""
    _check_present(table, name)
    words = table.levels(name)
    levels = words.unique()
    if len(words) > 1 and len(levels) == 1:
        _refuse_constant(table, name, levels[0])
    rare = len(levels) > max(FEW_LEVELS, len(words) / 2) or len(words) == len(levels) > 2
    if (guessed and rare) or len(levels) > MOST_LEVELS:
        raise ValueError(
            f"{table.path}, column '{name}': the {len(words)} rows hold {len(levels)} different"
            " words, too many for a category to be learned. Leave the column out (--ignore), or"
            " name its kind (--sequence, --protein, --smiles, --bits)."
        )
    folded: dict[str, str] = {}
    for level in levels:
        other = folded.setdefault(" ".join(level.casefold().split()), level)
        if other != level:
            notes.append(
                f"{table.path}, column '{name}': '{other}' and '{level}' are different categories"
            )
    return _one_hot(words.to_numpy(object))


def _sites(table: Table, name: str, protein: bool) -> list[Feature]:
    """The letter of every site that varies, and of a protein its amino acid's properties."""
    words = _of_one_length(table, name)
    found: list[Feature] = []
    for i, site in enumerate(np.array([list(word) for word in words]).T):
        label = f"{name}[{i + 1}]"
        if len(np.unique(site)) == 1:
            continue
        found.append(Feature(label, "category", _one_hot(site)))
        if not protein:
            continue
        try:
            properties = residues.properties(site)
        except ValueError as error:
            raise ValueError(f"{table.path}, column '{name}', site {label}: {error}") from error
        for of, column in properties.items():
            found.append(Feature(f"{label} {of}", "numbers", column[:, None]))
    if not found:
        _refuse_constant(table, name, words[0])
    return found


def _molecules(table: Table, name: str, notes: list[str]) -> np.ndarray:
    """Packed fingerprints."""
    _check_present(table, name)
    # salts and solvents repeat: each is read once
    codes, words = pd.factorize(table.text(name))
    if len(codes) > 1 and len(words) == 1:
        _refuse_constant(table, name, words[0])
    found = molecules.fingerprints(list(words))
    wrong = np.flatnonzero(~found.readable[codes])
    if wrong.size:
        raise ValueError(
            f"{table.place(wrong[0], name)}: RDKit cannot read '{words[codes[wrong[0]]]}' as a"
            f" molecule ({wrong.size} such rows)."
        )
    # spellings of one molecule have one fingerprint, different molecules should not
    distinct = pd.DataFrame(found.packed).assign(canonical=found.canonical, word=words)
    distinct = distinct.drop_duplicates("canonical")
    alike = distinct.duplicated(list(range(found.packed.shape[1])), keep=False)
    if alike.any():
        some = ", ".join(f"'{word}'" for word in distinct["word"][alike][:3])
        notes.append(
            f"{table.path}, column '{name}': {alike.sum()} of {len(distinct)} molecules have the"
            f" fingerprint of another one ({some})"
        )
    return _differing(table, name, found.packed[codes])


def _coincidences(ids: np.ndarray, features: np.ndarray) -> list[str]:
    """A sentence on candidates with equal features, which a model cannot distinguish."""
    hashed = pd.util.hash_pandas_object(pd.DataFrame(features), index=False)
    alike = hashed.duplicated(keep=False).to_numpy()
    if not alike.any():
        return []
    first = int(alike.argmax())
    second = int(np.flatnonzero(hashed == hashed[first])[1])
    return [
        f"{alike.sum()} of {len(ids)} candidates have the same features as another one"
        f" ('{ids[first]}' and '{ids[second]}', for instance): the model cannot distinguish them"
    ]


def _differing(table: Table, name: str, packed: np.ndarray) -> np.ndarray:
    """The packed fingerprints. Raises ValueError where all are equal."""
    if len(packed) > 1 and (packed == packed[0]).all():
        raise ValueError(
            f"{table.path}, column '{name}': every fingerprint is the same; remove the column."
        )
    return packed


def _varying(table: Table, name: str) -> np.ndarray:
    """Numbers as a column [A, 1]."""
    values = table.numbers(name)
    if len(values) > 1 and np.ptp(values) == 0:
        _refuse_constant(table, name, f"{values[0]:g}")
    return values[:, None]


def _check_present(table: Table, name: str) -> None:
    empty = np.flatnonzero(table.text(name) == "")
    if empty.size:
        count = f" ({empty.size} such cells in all)" if empty.size > 1 else ""
        raise ValueError(f"{table.place(empty[0], name)}: the value is missing{count}.")


def _of_one_length(table: Table, name: str) -> list[str]:
    _check_present(table, name)
    words = table.text(name)
    wrong = np.flatnonzero(words.str.len() != len(words.iloc[0]))
    if wrong.size:
        raise ValueError(
            f"{table.place(wrong[0], name)}: the word has {len(words.iloc[wrong[0]])} letters, the"
            f" first one has {len(words.iloc[0])}. They must be equally long: align them."
        )
    return words.tolist()


def _refuse_constant(table: Table, name: str, value: str) -> None:
    raise ValueError(
        f"{table.path}, column '{name}': every value is {value}; remove the column, which cannot"
        " distinguish candidates."
    )


def _one_hot(values: np.ndarray) -> np.ndarray:
    """[A, levels], levels in alphabetical order."""
    levels, at = np.unique(values, return_inverse=True)
    found = np.zeros((len(values), len(levels)))
    found[np.arange(len(values)), at] = 1
    return found


def _ids(table: Table, column: str) -> np.ndarray:
    ids = table.text(column)
    empty = np.flatnonzero(ids == "")
    if empty.size:
        raise ValueError(f"{table.place(empty[0], column)}: the id is missing.")
    twice = np.flatnonzero(ids.duplicated())
    if twice.size:
        first = int(np.flatnonzero(ids == ids.iloc[twice[0]])[0])
        raise ValueError(
            f"{table.place(twice[0], column)}: the id '{ids.iloc[twice[0]]}' is that of row"
            f" {table.frame.index[first]} already."
        )
    return ids.to_numpy(object)


def _labels(table: Table, column: str) -> np.ndarray:
    """Numbers where all cells are numbers, so that 50 and 50.0 are one, and words otherwise."""
    read = table.reading(column)
    if read.kind == "numbers" and not np.isnan(read.values).any():
        return read.values
    return table.levels(column).to_numpy(str)


def _costs(table: Table, column: str) -> np.ndarray:
    costs = table.numbers(column)
    wrong = np.flatnonzero(costs <= 0)
    if wrong.size:
        raise ValueError(
            f"{table.place(wrong[0], column)}: a cost must be above 0; it is {costs[wrong[0]]:g}."
        )
    return costs


def read_ids(path: Path, candidates: Candidates, id_column: str = "id") -> np.ndarray:
    """The rows [n] of the candidates that a table names. Raises ValueError for unknown ids."""
    return _rows(read(path, [id_column]), candidates, id_column)


def _rows(table: Table, candidates: Candidates, id_column: str) -> np.ndarray:
    ids = table.text(id_column)
    rows = pd.Index(candidates.ids).get_indexer(ids)
    unknown = np.flatnonzero(rows < 0)
    if unknown.size:
        raise ValueError(
            f"{table.place(unknown[0], id_column)}: there is no candidate"
            f" '{ids.iloc[unknown[0]]}' ({unknown.size} such rows)."
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
    arms = _rows(table, candidates, id_column)
    there = np.ones(len(table), bool)
    if failures:
        there = (table.text(value_column) != "").to_numpy()
    values = np.full(len(table), np.nan)
    if there.any():
        values[there] = table.part(there).numbers(value_column, "--failures")
    errors = None if error_column is None else np.zeros(len(table))
    if errors is not None and error_column is not None and there.any():
        errors[there] = table.part(there).numbers(error_column)
        below = np.flatnonzero(errors < 0)
        if below.size:
            raise ValueError(
                f"{table.place(below[0], error_column)}: a standard error is at least 0, and this"
                f" one is {errors[below[0]]:g}."
            )
    return Evaluations(arms, values, errors)
