"""Reads the library of candidates (an id and features) and the evaluations (an id and a value) from
tables, and checks every cell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from jsketch.suggest import residues
from jsketch.suggest.discrete import pack_bits
from jsketch.suggest.mixed import Columns
from jsketch.suggest.tables import molecules
from jsketch.suggest.tables.cells import LARGEST, Table, read, without_typography

# columns that the command writes
SUGGESTED = "suggested_batch"  # the number of the batch in which a candidate was suggested
PREDICTED = ("predicted", "low_90", "high_90", "chance_of_success")
WRITTEN_COLUMNS = (SUGGESTED, *PREDICTED)
# columns that describe an evaluation and not a candidate: they are not features
EVALUATION_COLUMNS = (
    "error", "cost", "pending", "status", "mean", "standard_deviation", *WRITTEN_COLUMNS
)  # fmt: skip
# names of the column of ids, where none is given; the first one that is there is taken
ID_NAMES = ("id", "row", "entry", "no", "no.", "nr", "nr.", "#", "name", "experiment", "sample")
ROW = "row"  # the name of ids that are numbers of rows
FEWEST_IDS = 2  # different words in so few rows may be a category
SMILES = "smiles"  # in small letters, part of the names of columns of molecules
# cells of a column of values, in small letters
NOT_MEASURED = (
    "", "-", "--", "\u2013", "n/a", "na", "n.a.", "tbd", "todo", "pending", "not measured"
)  # fmt: skip
FAILED = ("failed", "fail", "failure")
SHOWN = 5  # cells that an error message quotes
ONE_VALUE = re.compile(
    r"(?P<whole>[+-]?\d+)(?:(?P<mark>[.,])(?P<digits>\d+))?(?P<power>[eE][+-]?\d+)?"
    r"\s*(?P<percent>%?)"
)
# Each level of a category is a column of zeros and ones; thousands of levels are names or text.
MOST_LEVELS = 1000
FEW_LEVELS = 20  # as many levels are accepted in every table


class Kinds(NamedTuple):
    """Names of columns by their kind, where it is not guessed from the cells."""

    categories: Sequence[str] = ()
    sequences: Sequence[str] = ()  # words of one length: every site is a category
    bits: Sequence[str] = ()  # words of zeros and ones: a fingerprint
    proteins: Sequence[str] = ()  # sequences of amino acids, whose properties are numbers
    smiles: Sequence[str] = ()  # molecules: a fingerprint


class Roles(NamedTuple):
    """Names of columns of the library that are not features."""

    id: str | None = "id"  # None: the first of ID_NAMES, or the numbers of the rows
    results: Sequence[str] = ("value",)  # values and their errors
    needed: bool = False  # the table must have the column of values
    cost: str | None = None
    ignored: Sequence[str] = ()
    readings: Mapping[str, str] = {}  # of cells of values, in small letters


class Candidates(NamedTuple):
    """A library of A candidates with d features."""

    ids: np.ndarray  # [A] of str objects
    features: np.ndarray  # [A, d], numbers, categories as zeros and ones, fingerprints as words
    columns: list[Columns]  # kinds of the features
    names: list[str]  # of the numbers, categories, sites and fingerprints
    same: np.ndarray | None = None  # [A], the column with one value in a batch
    cost: np.ndarray | None = None  # [A], above 0
    notes: Sequence[str] = ()  # sentences on how the table was read


class Evaluations(NamedTuple):
    """n evaluations; an id may be repeated."""

    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed evaluation
    errors: np.ndarray | None = None  # [n], standard errors of the values
    pending: np.ndarray = np.zeros(0, int)  # [p], rows of suggested candidates without a value
    number: int = 0  # of the last suggested batch
    notes: Sequence[str] = ()  # sentences on how the values were read
    batch: np.ndarray = np.zeros(0, int)  # [n], the number of the batch; 0 without one


class Sheet(NamedTuple):
    """A table of candidates, with the evaluations in it."""

    candidates: Candidates
    table: Table  # as it was read
    candidate_of: np.ndarray  # [rows], the candidate of each row: rows may repeat one
    id_name: str  # the column of ids; ROW where ids are numbers of rows
    done: Evaluations


class Feature(NamedTuple):
    """Features from one column of a table, or from one site of a sequence."""

    name: str
    kind: str  # of `Columns`
    values: np.ndarray  # [A, width]


def read_sheet(
    path: Path,
    roles: Roles | None = None,
    kinds: Kinds | None = None,
    same: str | None = None,
) -> Sheet:
    """Reads the table of candidates. All columns are features except those of `roles` and
    EVALUATION_COLUMNS; a column in `kinds`, and `same`, is always a feature. Where the table has
    the column of values, its rows are evaluations too, and may repeat a candidate.

    Raises ValueError for missing values, ids that are empty or repeated, constant columns, cells
    that are neither numbers nor clearly words, named columns that are missing or do not have their
    kind, and fewer than two candidates."""
    roles = Roles() if roles is None else roles
    kinds = Kinds() if kinds is None else kinds
    kind_of = [(name, kind) for kind, group in kinds._asdict().items() for name in group]
    named = [name for name, _ in kind_of]
    features_asked = [*named, *([] if same is None else [same])]
    not_features = [name for name in (roles.id, roles.cost) if name is not None]
    not_features += roles.ignored
    needed = roles.results[:1] if roles.needed else []
    table = read(path, [*needed, *not_features, *features_asked])
    for name in features_asked:
        if named.count(name) > 1 or name in (*not_features, *roles.results):
            raise ValueError(f"the options give the column '{name}' two meanings.")
    notes: list[str] = []
    id_name = roles.id or _find_ids(table, (*not_features, *features_asked, *roles.results), notes)
    if id_name in table.names:
        not_features.append(id_name)
        ids = table.text(id_name)
        _refuse_cells(table, id_name, ids == "", "the id is missing")
    else:
        ids = pd.Series(table.frame.index.astype(str), index=table.frame.index, dtype=object)
    evaluation_columns = {name.casefold() for name in (*roles.results, *EVALUATION_COLUMNS)}
    others = [name for name in table.names if name not in not_features]
    left_out = [
        name
        for name in others
        if name not in features_asked and name.casefold() in evaluation_columns
    ]
    if left_out:
        quoted = ", ".join(f"'{name}'" for name in left_out)
        notes.append(f"{path}: not used as features: {quoted}")
    names = [name for name in others if name not in left_out]
    if not names:
        raise ValueError(f"{path} has no feature column beside '{id_name}'.")
    with_values = roles.results[0] in table.names and roles.results[0] not in roles.ignored
    candidate_of, first = _distinct_candidates(table, id_name, ids, names if with_values else None)
    whole, table = table, table.select(first)
    features: list[Feature] = []
    for name in names:
        features += _features(table, name, dict(kind_of).get(name), notes)
    distinct = ids[first].to_numpy(object)
    if len(distinct) == 1:
        raise ValueError(f"{path} has one candidate only: at least two are needed.")
    matrix = np.hstack([feature.values for feature in features])
    notes += _note_on_equal_features(distinct, matrix)
    candidates = Candidates(
        distinct,
        matrix,
        [Columns(feature.kind, feature.values.shape[1]) for feature in features],
        [feature.name for feature in features],
        None if same is None else _labels(table, same),
        None if roles.cost is None else _costs(table, roles.cost),
        notes,
    )
    done = Evaluations(np.zeros(0, int), np.zeros(0))
    if with_values:
        value, error = (*roles.results, None)[:2]
        done = _evaluations(whole, candidate_of, str(value), error, roles.readings)
    return Sheet(candidates, whole, candidate_of, id_name, done)


def _find_ids(table: Table, named: Sequence[str], notes: list[str]) -> str:
    """The column of ids: by its name, or the first column of different words that no option names;
    else ROW."""
    by_name = {name.casefold(): name for name in reversed(table.names)}
    for name in ID_NAMES:
        cells = table.text(by_name[name]) if name in by_name else None
        if cells is not None and (name == "id" or not cells.duplicated().any()):
            if name != "id":
                notes.append(f"{table.path}: the ids are in the column '{by_name[name]}'")
            return by_name[name]
    taken = {name.casefold() for name in (*named, *EVALUATION_COLUMNS)}
    for name in table.names:
        cells = table.text(name)
        if (
            name.casefold() not in taken
            and SMILES not in name.casefold()
            and len(cells) > FEWEST_IDS
            and not (cells == "").any()
            and not cells.duplicated().any()
            and table.reading(name).kind == "text"
        ):
            notes.append(
                f"{table.path}: the ids are in the column '{name}', whose words all differ"
            )
            return name
    notes.append(f"{table.path}: candidates are named by their rows; --id names another column")
    return ROW


def _distinct_candidates(
    table: Table, id_name: str, ids: pd.Series, conditions: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(candidate of each row [rows], mask [rows] of the first row of each candidate). Raises
    ValueError for a repeated id, unless the rows agree in all `conditions`."""
    codes, _ = pd.factorize(ids)
    first = ~ids.duplicated().to_numpy()
    start = np.flatnonzero(first)[codes]
    for at in np.flatnonzero(~first):
        one, other = table.frame.iloc[start[at]], table.frame.iloc[at]
        if conditions is None or any(one[name] != other[name] for name in conditions):
            raise ValueError(
                f"{table.place(int(at), id_name)}: the id '{ids.iloc[at]}' is that of row"
                f" {table.frame.index[start[at]]} already."
            )
    return codes, first


def read_ids(path: Path, candidates: Candidates, id_column: str = "id") -> np.ndarray:
    """The rows [n] of the candidates in a table of ids. Raises ValueError for unknown ids."""
    return _rows(read(path, [id_column], may_be_empty=True), candidates, id_column)


def read_evaluations(
    path: Path,
    candidates: Candidates,
    id_column: str = "id",
    value_column: str = "value",
    error_column: str | None = None,
    readings: Mapping[str, str] | None = None,
) -> Evaluations:
    """Reads the evaluations; rows without a value are left out. `readings` are those of `Roles`.
    Raises ValueError for unknown ids, values that cannot be read, and errors below 0."""
    needed = [id_column, value_column, *([] if error_column is None else [error_column])]
    table = read(path, needed, may_be_empty=True)
    arms = _rows(table, candidates, id_column)
    return _evaluations(table, arms, value_column, error_column, readings)


def _evaluations(
    table: Table,
    arms: np.ndarray,
    value_column: str,
    error_column: str | None = None,
    readings: Mapping[str, str] | None = None,
) -> Evaluations:
    """The evaluations in a table, whose rows are those of candidates `arms` [rows]."""
    values, measured, notes = _values(table, value_column, readings or {})
    pending, numbers = np.zeros(0, int), np.zeros(len(table), int)
    if SUGGESTED in table.names:
        read = table.reading(SUGGESTED).values
        numbers = np.nan_to_num(read).astype(int)
        pending = np.setdiff1d(arms[~np.isnan(read) & ~measured], arms[measured])
    errors = None
    if error_column is not None:
        errors = np.zeros(len(table))
        observed = measured & ~np.isnan(values)
        if observed.any():
            errors[observed] = table.select(observed).numbers(error_column)
        _refuse_cells(table, error_column, errors < 0, "a standard error must be at least 0")
        errors = errors[measured]
    number = int(numbers.max(initial=0))
    return Evaluations(
        *(arms[measured], values[measured], errors, pending, number, notes, numbers[measured])
    )


def _values(
    table: Table, column: str, readings: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(values [rows], mask [rows] of measured rows, notes). The value of a failed evaluation is
    NaN. Raises ValueError that quotes all cells that cannot be read, and names their cure."""
    words = table.text(column)
    small = words.str.casefold()
    by_reading = small.isin(readings).to_numpy()
    small = small.map(lambda word: readings.get(word, word))
    measured, failed = (~small.isin(NOT_MEASURED)).to_numpy(), small.isin(FAILED).to_numpy()
    values, filled = np.full(len(table), np.nan), measured & ~failed
    values[filled & by_reading] = small[filled & by_reading].astype(float)
    filled &= ~by_reading
    rows = np.flatnonzero(filled)
    if not rows.size:
        return values, measured, []
    reading = table.select(filled).reading(column)
    values[rows] = np.where(np.abs(reading.values) <= LARGEST, reading.values, np.nan)
    notes = [f"{table.path}, column '{column}': read as {reading.note}"] * bool(reading.note)
    left = rows[np.isnan(values[rows])]
    percent = words.iloc[rows].str.endswith("%").to_numpy()
    # a percent sign in some cells only is clear where the header has it
    mixed = percent.any() and not percent.all() and "%" not in column
    if left.size and not mixed:
        values[left] = [
            _one_value(word, table.semicolons, "%" in column or percent.all())
            for word in words.iloc[left]
        ]
        if not np.isnan(values[left]).all():
            quoted = ", ".join(f"'{words.iloc[at]}' as {values[at]:g}" for at in left[:SHOWN])
            notes.append(f"{table.path}, column '{column}': read {quoted}")
    wrong = rows[np.isnan(values[rows])]
    if wrong.size:
        shown = [f"'{words.iloc[at]}' (row {table.frame.index[at]})" for at in wrong[:SHOWN]]
        more = f" and {wrong.size - SHOWN} more" if wrong.size > SHOWN else ""
        cures = " ".join(f"'{word}=...'" for word in words.iloc[wrong].unique()[:SHOWN])
        raise ValueError(
            f"{table.path}, column '{column}': these cells are not clear as values:"
            f" {', '.join(shown)}{more}; write a number such as 45.3 (0 where nothing was found),"
            " 'failed' where the experiment gave no result, and nothing where it was not measured;"
            f" or state with --read {cures} what they mean, where ... is a number, 'failed' or"
            " nothing."
        )
    return values, measured, notes


def _one_value(word: str, semicolons: bool, percent: bool) -> float:
    """A number whose comma or point can only be decimal, or NaN."""
    found = ONE_VALUE.fullmatch(without_typography(word))
    if found is None or (found["percent"] and not percent):
        return np.nan
    mark, digits = found["mark"] or "", found["digits"] or ""
    thousands = mark == "," or (mark == "." and semicolons)
    if thousands and len(digits) == 3 and found["whole"].lstrip("+-") != "0":
        return np.nan
    number = float(f"{found['whole']}.{digits or 0}{found['power'] or ''}")
    return number if abs(number) <= LARGEST else np.nan


def _rows(table: Table, candidates: Candidates, id_column: str) -> np.ndarray:
    rows = pd.Index(candidates.ids).get_indexer(table.text(id_column))
    _refuse_cells(table, id_column, rows < 0, "there is no candidate with this id")
    return rows


def _labels(table: Table, column: str) -> np.ndarray:
    """Numbers where all cells are numbers, so that 50 and 50.0 are equal, and words otherwise."""
    read = table.reading(column)
    if read.kind == "numbers" and not np.isnan(read.values).any():
        return read.values
    return table.levels(column).to_numpy(str)


def _costs(table: Table, column: str) -> np.ndarray:
    costs = table.numbers(column)
    _refuse_cells(table, column, costs <= 0, "a cost must be above 0")
    return costs


def _features(table: Table, name: str, kind: str | None, notes: list[str]) -> list[Feature]:
    """The features of a column, of a sequence one for every site that varies. A sentence is added
    to `notes` where the reading may surprise."""
    if kind in ("sequences", "proteins"):
        return _sites(table, name, kind == "proteins")
    if kind == "smiles":
        return [Feature(name, "bits", _molecules(table, name, notes))]
    if kind == "bits":
        bits = np.array([list(word) for word in _words_of_one_length(table, name)])
        wrong = ~np.isin(bits, ("0", "1")).all(1)
        _refuse_cells(table, name, wrong, "the value must be a word of zeros and ones")
        packed = pack_bits((bits == "1").astype(int))
        return [Feature(name, "bits", _check_fingerprints(table, name, packed))]
    read = table.reading(name)
    if kind is None and read.note:
        notes.append(f"{table.path}, column '{name}': read as {read.note}")
    if kind == "categories" or read.kind == "text":
        return [Feature(name, "category", _category(table, name, kind is None, notes))]
    try:
        values = table.numbers(name)
        if len(values) > 1 and np.ptp(values) == 0:
            _refuse_constant(table, name, f"{values[0]:g}")
    except ValueError as error:
        if read.kind == "numbers":
            raise
        raise ValueError(
            f"{error} Write plain numbers such as -1.5 with the unit in the header;"
            f" --categories '{name}' takes the cells as names, --ignore '{name}' leaves the"
            " column out."
        ) from error
    return [Feature(name, "numbers", values[:, None])]


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
            f" words, too many for a category. {_cure(name)}"
        )
    spellings: dict[str, str] = {}
    for level in levels:
        other = spellings.setdefault(" ".join(level.casefold().split()), level)
        if other != level:
            notes.append(
                f"{table.path}, column '{name}': '{other}' and '{level}' are different categories"
            )
    return _one_hot(words.to_numpy(object))


def _cure(name: str) -> str:
    """What to do about a column of too many words."""
    if SMILES in name.casefold():
        return f"--smiles '{name}' reads them as molecules."
    return (
        f"--id '{name}' takes them as ids, --ignore '{name}' leaves the column out, and"
        " --sequence, --protein, --smiles and --bits name other kinds."
    )


def _sites(table: Table, name: str, protein: bool) -> list[Feature]:
    """The letter of every site that varies, and of a protein the properties of its amino acid."""
    words = _words_of_one_length(table, name)
    features: list[Feature] = []
    for i, site in enumerate(np.array([list(word) for word in words]).T):
        label = f"{name}[{i + 1}]"
        if len(np.unique(site)) == 1:
            continue
        features.append(Feature(label, "category", _one_hot(site)))
        if not protein:
            continue
        try:
            properties = residues.properties(site)
        except ValueError as error:
            raise ValueError(f"{table.path}, column '{name}', site {label}: {error}") from error
        for of, column in properties.items():
            features.append(Feature(f"{label} {of}", "numbers", column[:, None]))
    if not features:
        _refuse_constant(table, name, words[0])
    return features


def _molecules(table: Table, name: str, notes: list[str]) -> np.ndarray:
    """Packed fingerprints."""
    _check_present(table, name)
    # salts and solvents are repeated: each is parsed once
    codes, words = pd.factorize(table.text(name))
    if len(codes) > 1 and len(words) == 1:
        _refuse_constant(table, name, words[0])
    found = molecules.fingerprints(list(words))
    wrong = ~found.readable[codes]
    _refuse_cells(table, name, wrong, "RDKit cannot read the value as a molecule")
    # spellings of one molecule have one fingerprint, and different molecules should not
    distinct = pd.DataFrame(found.packed).assign(canonical=found.canonical, word=words)
    distinct = distinct.drop_duplicates("canonical")
    equal = distinct.duplicated(list(range(found.packed.shape[1])), keep=False)
    if equal.any():
        examples = ", ".join(f"'{word}'" for word in distinct["word"][equal][:3])
        notes.append(
            f"{table.path}, column '{name}': {equal.sum()} of {len(distinct)} molecules have the"
            f" fingerprint of another one ({examples})"
        )
    return _check_fingerprints(table, name, found.packed[codes])


def _note_on_equal_features(ids: np.ndarray, features: np.ndarray) -> list[str]:
    """A sentence on candidates with equal features, if there are any."""
    hashed = pd.util.hash_pandas_object(pd.DataFrame(features), index=False)
    equal = hashed.duplicated(keep=False).to_numpy()
    if not equal.any():
        return []
    first = int(equal.argmax())
    second = int(np.flatnonzero(hashed == hashed[first])[1])
    return [
        f"{equal.sum()} of {len(ids)} candidates have the same features as another one"
        f" ('{ids[first]}' and '{ids[second]}', for instance): the model cannot distinguish them"
    ]


def _check_fingerprints(table: Table, name: str, packed: np.ndarray) -> np.ndarray:
    """The packed fingerprints. Raises ValueError where all are equal."""
    if len(packed) > 1 and (packed == packed[0]).all():
        raise ValueError(
            f"{table.path}, column '{name}': every fingerprint is the same; remove the column."
        )
    return packed


def _check_present(table: Table, name: str) -> None:
    fault = f"the value is missing; --ignore '{name}' leaves the column out"
    _refuse_cells(table, name, table.text(name) == "", fault)


def _words_of_one_length(table: Table, name: str) -> list[str]:
    _check_present(table, name)
    words = table.text(name)
    wrong = np.flatnonzero(words.str.len() != len(words.iloc[0]))
    if wrong.size:
        raise ValueError(
            f"{table.place(wrong[0], name)}: the word has {len(words.iloc[wrong[0]])} letters, the"
            f" first one has {len(words.iloc[0])}. Align the words to one length."
        )
    return words.tolist()


def _refuse_cells(table: Table, name: str, wrong: np.ndarray | pd.Series, fault: str) -> None:
    """Raises ValueError that quotes the first wrong cell of a column, if any is wrong [n]."""
    rows = np.flatnonzero(wrong)
    if rows.size:
        word = table.text(name).iloc[rows[0]]
        quoted = f"; it is '{word}'" if word else ""
        count = f" ({rows.size} such cells in all)" if rows.size > 1 else ""
        raise ValueError(f"{table.place(rows[0], name)}: {fault}{quoted}{count}.")


def _refuse_constant(table: Table, name: str, value: str) -> None:
    raise ValueError(
        f"{table.path}, column '{name}': every value is {value}; remove the column, which cannot"
        " distinguish candidates."
    )


def _one_hot(values: np.ndarray) -> np.ndarray:
    """[A, levels], levels in alphabetical order."""
    levels, at = np.unique(values, return_inverse=True)
    features = np.zeros((len(values), len(levels)))
    features[np.arange(len(values)), at] = 1
    return features
