"""Reads the candidates (ids and features) and the evaluations (ids and values) from tables, and
checks every cell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from jsketch import csv_files
from jsketch.suggest import residues
from jsketch.suggest.discrete import pack_bits
from jsketch.suggest.mixed import Columns
from jsketch.suggest.tables import molecules
from jsketch.suggest.tables.cells import LARGEST, Table, read, without_typography
from jsketch.suggest.tables.options import FAILURE_WORDS, SUGGESTED_COLUMN, WRITTEN_COLUMNS

# columns that describe an evaluation and not a candidate: they are not features
EVALUATION_COLUMNS = (
    "error", "cost", "pending", "status", "mean", "standard_deviation", *WRITTEN_COLUMNS
)  # fmt: skip
# names of the column of ids if none is given; the first one that exists is used
ID_NAMES = ("id", "row", "entry", "no", "no.", "nr", "nr.", "#", "name", "experiment", "sample")
ROW_IDS = "row"  # the name of ids that are numbers of rows
MIN_IDS = 3  # in a shorter table, words that all differ may be a category and not ids
# words in the names of columns that number the rows
NUMBERING_WORDS = (
    "exp", "experiment", "id", "idx", "index", "iteration", "no", "nr", "num", "number", "nummer",
    "order", "priority", "rank", "row", "run", "rxn", "reaction", "sample", "trial", "well", "#"
)  # fmt: skip
MIN_NUMBERED = 4  # in a shorter table, consecutive numbers may be conditions
SMILES = "smiles"  # a column whose name contains this word, in any case, may hold molecules
# cells of a column of values, in lower case, that mean "not measured"
UNMEASURED_WORDS = (
    "-", "--", "\u2013", "n.a.", "tbd", "todo", "pending", "not measured",
    *(word.casefold() for word in csv_files.MISSING)
)  # fmt: skip
MAX_QUOTED = 5  # largest number of cells in an error message
SINGLE_VALUE = re.compile(
    r"(?P<whole>[+-]?\d+)(?:(?P<mark>[.,])(?P<digits>\d+))?(?P<power>[eE][+-]?\d+)?"
    r"\s*(?P<percent>%?)"
)
MAX_LEVELS = 1000  # of a category; each level is a column of zeros and ones
FEW_LEVELS = 20  # number of levels of a category that is accepted in a table of any length
MIN_EARLIER = 3  # smallest number of values of an earlier campaign


class Kinds(NamedTuple):
    """Names of the columns whose kind is not guessed from the cells."""

    categories: Sequence[str] = ()
    sequences: Sequence[str] = ()  # words of one length, in which every site is a category
    bits: Sequence[str] = ()  # words of zeros and ones, each of which is a fingerprint
    proteins: Sequence[str] = ()  # sequences of amino acids, whose properties are features too
    smiles: Sequence[str] = ()  # molecules, each of which is converted to a fingerprint


class Roles(NamedTuple):
    """Names of columns that are not features, and the meaning of special cells."""

    id: str | None = "id"  # None: the first of ID_NAMES, or the numbers of the rows
    results: Sequence[str] = ("value",)  # the column of values and, if any, the column of errors
    cost: str | None = None
    ignored: Sequence[str] = ()
    readings: Mapping[str, str] = {}  # {cell of the column of values: its meaning}, in lower case
    value_needed: bool = False  # whether the table must have the column of values


class Candidates(NamedTuple):
    """A library of A candidates with d features."""

    ids: np.ndarray  # [A] of str objects
    features: np.ndarray  # [A, d], numbers, categories as zeros and ones, fingerprints as words
    columns: list[Columns]  # kinds of the features
    names: list[str]  # a name for each of the columns
    same: np.ndarray | None = None  # [A], labels; all candidates of a batch have the same label
    cost: np.ndarray | None = None  # [A], above 0
    notes: Sequence[str] = ()  # sentences on how the table was read


class Evaluations(NamedTuple):
    """n evaluations; a candidate may be repeated."""

    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed evaluation
    errors: np.ndarray  # [n], standard errors of the values, 0 without a column of errors
    pending: np.ndarray = np.zeros(0, int)  # [p], suggested candidates without a value
    last_batch: int = 0  # the number of the last suggested batch
    notes: Sequence[str] = ()  # sentences on how the values were read
    batch_of: np.ndarray = np.zeros(0, int)  # [n], the number of each evaluation's batch, or 0


class Sheet(NamedTuple):
    """A table of candidates, with the evaluations in it."""

    candidates: Candidates
    table: Table
    candidate_of: np.ndarray  # [rows], the candidate of each row
    id_name: str  # the column of ids; ROW_IDS if the ids are numbers of rows
    evaluations: Evaluations
    # (features [m,d], values [m]) of each earlier campaign
    earlier: Sequence[tuple[np.ndarray, np.ndarray]] = ()

    @property
    def first_row(self) -> np.ndarray:
        """[A], the first row of each candidate."""
        return np.unique(self.candidate_of, return_index=True)[1]

    @property
    def conditions(self) -> list[str]:
        """The columns of conditions. The name of a feature of a site is `column[site]`."""
        names = {part for n in self.candidates.names for part in (n, n.partition("[")[0])}
        return [name for name in self.table.names if name in names]


class Feature(NamedTuple):
    """Features from one column of a table, or from one site of a sequence."""

    name: str
    kind: str  # as in `Columns`
    values: np.ndarray  # [A, width]


def read_sheet(
    path: Path,
    roles: Roles | None = None,
    kinds: Kinds | None = None,
    same: str | None = None,
    also: Sequence[Path] = (),
) -> Sheet:
    """Reads the table of candidates, and the measured rows of the tables `also` of earlier
    campaigns, which must have the same columns. All columns are features except those of `roles`
    and EVALUATION_COLUMNS. The columns of `kinds` and `same` are always features. If the table has
    a column of values, its rows are evaluations too, and may repeat a candidate.

    Raises ValueError for missing values, ids that are empty or repeated, constant columns, cells
    that are neither numbers nor clearly words, named columns that are missing or do not have their
    kind, and fewer than two candidates."""
    roles = Roles() if roles is None else roles
    kinds = Kinds() if kinds is None else kinds
    kind_of = {name: kind for kind, group in kinds._asdict().items() for name in group}
    names_in_kinds = [name for group in kinds for name in group]
    named_features = [*names_in_kinds, *([] if same is None else [same])]
    not_features = [name for name in (roles.id, roles.cost) if name is not None]
    not_features += roles.ignored
    needed_results = roles.results[:1] if roles.value_needed else []
    needed_names = [*needed_results, *not_features, *named_features]
    table = read(path, needed_names, expected=roles.results)
    for name in named_features:
        if names_in_kinds.count(name) > 1 or name in (*not_features, *roles.results):
            raise ValueError(f"the options give the column '{name}' two meanings.")
    notes = table.notes
    id_name = roles.id or _id_column(table, (*not_features, *named_features, *roles.results), notes)
    if id_name in table.names:
        not_features.append(id_name)
        ids = table.text(id_name)
        _check_cells(table, id_name, ids == "", "the id is missing")
    else:
        ids = pd.Series(table.frame.index.astype(str), index=table.frame.index, dtype=object)
    evaluation_columns = {name.casefold() for name in (*roles.results, *EVALUATION_COLUMNS)}
    unused_names = [
        name
        for name in table.names
        if name not in (*not_features, *named_features) and name.casefold() in evaluation_columns
    ]
    names = [name for name in table.names if name not in (*not_features, *unused_names)]
    has_values = roles.results[0] in table.names and roles.results[0] not in roles.ignored
    quoted = [f"'{name}'" for name in unused_names if not (has_values and name in roles.results)]
    if quoted:
        notes.append(f"{path}: not used as conditions unless they are renamed: {', '.join(quoted)}")
    if not names:
        raise ValueError(f"{path} has no column of conditions.")
    candidate_of, is_first = _distinct_candidates(
        table, id_name, ids, names if has_values else None
    )
    distinct = table.select(is_first)
    earlier = [_measured_rows(earlier_path, names, roles, notes) for earlier_path in also]
    joined = distinct.with_rows_of([rows for rows, _ in earlier])
    features: list[Feature] = []
    for name in names:
        features += _features(joined, name, kind_of.get(name), notes)
    notes += _note_on_numbering(distinct, [name for name in names if name not in named_features])
    distinct_ids, cost = ids[is_first].to_numpy(object), None
    if roles.cost is not None:
        cost = distinct.numbers(roles.cost)
        _check_cells(distinct, roles.cost, cost <= 0, "a cost must be above 0")
    if len(distinct_ids) == 1:
        raise ValueError(f"{path} has only one candidate: at least two are needed.")
    ends = np.cumsum([len(distinct_ids), *(len(values) for _, values in earlier)])
    joined_matrix = np.hstack([feature.values for feature in features])
    matrix, *earlier_matrices = np.split(joined_matrix, ends[:-1])
    notes += _note_on_equal_features(distinct_ids, matrix)
    candidates = Candidates(
        ids=distinct_ids,
        features=matrix,
        columns=[Columns(feature.kind, feature.values.shape[1]) for feature in features],
        names=[feature.name for feature in features],
        same=None if same is None else _labels(distinct, same),
        cost=cost,
        notes=notes,
    )
    evaluations = Evaluations(np.zeros(0, int), values=np.zeros(0), errors=np.zeros(0))
    if has_values:
        evaluations = _evaluations(table, candidate_of, roles)
    campaigns = list(zip(earlier_matrices, [values for _, values in earlier], strict=True))
    return Sheet(candidates, table, candidate_of, id_name, evaluations, campaigns)


def _measured_rows(
    path: Path, names: Sequence[str], roles: Roles, notes: list[str]
) -> tuple[Table, np.ndarray]:
    """(rows with a value, their values) of the table of an earlier campaign."""
    table = read(path, [*names, roles.results[0]])
    values, _, read_notes = _values(table, roles.results[0], roles.readings)
    observed = ~np.isnan(values)
    if observed.sum() < MIN_EARLIER:
        raise ValueError(
            f"{path} has {observed.sum()} values in the column '{roles.results[0]}'; an earlier"
            f" campaign needs at least {MIN_EARLIER}."
        )
    source = f"{path}: {observed.sum()} values of an earlier campaign"
    notes += [*table.notes, *read_notes, f"{source} are used for the batch and the predictions"]
    return table.select(observed), values[observed]


def _id_column(table: Table, named_columns: Sequence[str], notes: list[str]) -> str:
    """The column of ids: the first of ID_NAMES, or else the first column of different words that is
    none of the `named_columns` of options, or else ROW_IDS."""
    by_name = {name.casefold(): name for name in reversed(table.names)}
    for name in ID_NAMES:
        cells = table.text(by_name[name]) if name in by_name else None
        if cells is not None and (name == "id" or not cells.duplicated().any()):
            if name != "id":
                notes.append(f"{table.path}: the ids are in the column '{by_name[name]}'")
            return by_name[name]
    other_roles = {name.casefold() for name in (*named_columns, *EVALUATION_COLUMNS)}
    for name in table.names:
        if name.casefold() in other_roles or SMILES in name.casefold():
            continue
        cells = table.text(name)
        if (
            len(cells) >= MIN_IDS
            and not (cells == "").any()
            and not cells.duplicated().any()
            and table.parse(name).kind == "text"
        ):
            notes.append(
                f"{table.path}: the ids are in the column '{name}', whose words all differ"
            )
            return name
    notes.append(f"{table.path}: candidates are named by their rows; --id chooses a column of ids")
    return ROW_IDS


def _distinct_candidates(
    table: Table, id_name: str, ids: pd.Series, conditions: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(candidate of each row [rows], mask [rows] of the first row of each candidate). Raises
    ValueError for a repeated id, unless the rows agree in all `conditions`."""
    codes, _ = pd.factorize(ids)
    is_first = ~ids.duplicated().to_numpy()
    first_row = np.flatnonzero(is_first)[codes]
    for row in np.flatnonzero(~is_first):
        cells, first_cells = table.frame.iloc[row], table.frame.iloc[first_row[row]]
        if conditions is None or any(cells[name] != first_cells[name] for name in conditions):
            raise ValueError(
                f"{table.location(int(row), id_name)}: the id '{ids.iloc[row]}' is already used in"
                f" row {table.frame.index[first_row[row]]}."
            )
    return codes, is_first


def read_ids(path: Path, candidates: Candidates, id_column: str = "id") -> np.ndarray:
    """The rows [n] of the candidates in a table of ids. Raises ValueError for unknown ids."""
    return _rows_of_ids(read(path, [id_column], may_be_empty=True), candidates, id_column)


def read_evaluations(path: Path, sheet: Sheet, roles: Roles | None = None) -> Evaluations:
    """Reads the evaluations; rows without a value are left out. Raises ValueError for unknown ids,
    conditions that differ from those of the candidate, values that cannot be read, and errors below
    0."""
    roles = Roles() if roles is None else roles
    table = read(path, [sheet.id_name, *roles.results], may_be_empty=True)
    arms = _rows_of_ids(table, sheet.candidates, sheet.id_name)
    _check_conditions(table, arms, sheet)
    evaluations = _evaluations(table, arms, roles)
    return evaluations._replace(notes=[*table.notes, *evaluations.notes])


def _check_conditions(table: Table, arms: np.ndarray, sheet: Sheet) -> None:
    """Raises ValueError for a row that has another condition than the candidate of its id."""
    rows = sheet.first_row[arms]
    for name in (name for name in sheet.conditions if name in table.names):
        words = table.levels(name).to_numpy()
        sheet_words = sheet.table.levels(name).iloc[rows].to_numpy()
        is_other = (words != "") & (words != sheet_words)
        if is_other.any():
            numbers = table.parse(name).values, sheet.table.parse(name).values[rows]
            is_other &= ~np.isclose(*numbers, rtol=1e-3, atol=0)  # rounding does not count
        if not is_other.any():
            continue
        row = int(is_other.argmax())
        remedy = "Correct the id or the condition."
        if sheet.id_name == ROW_IDS:
            remedy = (
                "The ids are numbers of rows: if the rows were moved, type the values into"
                f" {sheet.table.path}."
            )
        raise ValueError(
            f"{table.location(row, name)}: it is '{words[row]}', but '{sheet_words[row]}' for the"
            f" candidate '{sheet.candidates.ids[arms[row]]}' in {sheet.table.path}. {remedy}"
        )


def _evaluations(table: Table, arms: np.ndarray, roles: Roles) -> Evaluations:
    """The evaluations in a table, whose rows belong to the candidates `arms` [rows]."""
    value_column, *error_columns = roles.results
    values, measured, notes = _values(table, value_column, roles.readings)
    pending, batches = np.zeros(0, int), np.zeros(len(table), int)
    if SUGGESTED_COLUMN in table.names:
        suggested = table.parse(SUGGESTED_COLUMN).values
        batches = np.nan_to_num(suggested).astype(int)
        pending = np.setdiff1d(arms[~np.isnan(suggested) & ~measured], arms[measured])
    errors = np.zeros(len(table))
    for error_column in error_columns:
        observed = measured & ~np.isnan(values)
        if observed.any():
            errors[observed] = table.select(observed).numbers(error_column)
        _check_cells(table, error_column, errors < 0, "a standard error must be at least 0")
    arrays = arms[measured], values[measured], errors[measured]
    last_batch = int(batches.max(initial=0))
    return Evaluations(*arrays, pending, last_batch, notes, batch_of=batches[measured])


def _values(
    table: Table, column: str, readings: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(values [rows], mask [rows] of measured rows, notes). The value of a failed evaluation is
    NaN. Raises a ValueError that quotes the cells that cannot be read."""
    words = table.text(column)
    meaning = words.str.casefold()
    has_reading = meaning.isin(readings).to_numpy()
    meaning = meaning.map(lambda word: readings.get(word, word))
    measured = (~meaning.isin(UNMEASURED_WORDS)).to_numpy()
    values = np.full(len(table), np.nan)
    has_value = measured & ~meaning.isin(FAILURE_WORDS).to_numpy()
    values[has_value & has_reading] = meaning[has_value & has_reading].astype(float)
    to_parse = has_value & ~has_reading
    rows = np.flatnonzero(to_parse)
    if not rows.size:
        return values, measured, []
    parsed = table.select(to_parse).parse(column)
    values[rows] = np.where(np.abs(parsed.values) <= LARGEST, parsed.values, np.nan)
    place = f"{table.path}, column '{column}'"
    notes = [f"{place}: read as {parsed.note}"] * bool(parsed.note)
    unparsed = rows[np.isnan(values[rows])]
    percent = words.iloc[rows].str.endswith("%").to_numpy()
    # percent signs in only some cells are unambiguous if the header has one too
    ambiguous_percent = percent.any() and not percent.all() and "%" not in column
    if unparsed.size and not ambiguous_percent:
        values[unparsed] = [
            _unambiguous_number(word, table.semicolons, "%" in column or percent.all())
            for word in words.iloc[unparsed]
        ]
        if not np.isnan(values[unparsed]).all():
            quoted = [f"'{words.iloc[row]}' as {values[row]:g}" for row in unparsed[:MAX_QUOTED]]
            notes.append(f"{place}: read {', '.join(quoted)}")
    bad = rows[np.isnan(values[rows])]
    if bad.size:
        quoted = [f"'{words.iloc[row]}' (row {table.frame.index[row]})" for row in bad[:MAX_QUOTED]]
        more = f" and {bad.size - MAX_QUOTED} more" if bad.size > MAX_QUOTED else ""
        examples = [f'"{word}=..."' for word in words.iloc[bad].unique()[:MAX_QUOTED]]
        raise ValueError(
            f"{place}: these cells cannot be read as values: {', '.join(quoted)}{more}; write a"
            " number such as 45.3 (0 if nothing was found), 'failed' if the experiment gave no"
            " result, or nothing if it was not measured; or state what these cells mean with"
            f" --read {' '.join(examples)}, where ... is a number, 'failed' or nothing."
        )
    return values, measured, notes


def _unambiguous_number(word: str, semicolons: bool, percent_allowed: bool) -> float:
    """The number in a word; NaN if a comma, or with `semicolons` a point, may mark thousands."""
    match = SINGLE_VALUE.fullmatch(without_typography(word))
    if match is None or (match["percent"] and not percent_allowed):
        return np.nan
    mark, digits = match["mark"] or "", match["digits"] or ""
    may_be_thousands = mark == "," or (mark == "." and semicolons)
    if may_be_thousands and len(digits) == 3 and match["whole"].lstrip("+-") != "0":
        return np.nan
    number = float(f"{match['whole']}.{digits or 0}{match['power'] or ''}")
    return number if abs(number) <= LARGEST else np.nan


def _rows_of_ids(table: Table, candidates: Candidates, id_column: str) -> np.ndarray:
    rows = pd.Index(candidates.ids).get_indexer(table.text(id_column))
    _check_cells(table, id_column, rows < 0, "there is no candidate with this id")
    return rows


def _labels(table: Table, column: str) -> np.ndarray:
    """The cells as numbers if all are numbers (50 and 50.0 are equal), or else as words."""
    parsed = table.parse(column)
    if parsed.kind == "numbers" and not np.isnan(parsed.values).any():
        return parsed.values
    return table.levels(column).to_numpy(str)


def _features(table: Table, name: str, kind: str | None, notes: list[str]) -> list[Feature]:
    """The features of a column, or of each varying site of a column of sequences. `kind` is a field
    of `Kinds`; None: it is guessed. `notes` gets a sentence if the reading may surprise."""
    if kind in ("sequences", "proteins"):
        return _sites(table, name, protein=kind == "proteins")
    if kind in ("smiles", "bits"):
        packed = _molecules(table, name, notes) if kind == "smiles" else _bits(table, name)
        if len(packed) > 1 and (packed == packed[0]).all():
            _raise_constant(table, name, "the same fingerprint")
        return [Feature(name, "bits", packed)]
    parsed = table.parse(name)
    if kind is None and parsed.note:
        notes.append(f"{table.path}, column '{name}': read as {parsed.note}")
    if kind == "categories" or parsed.kind == "text":
        one_hot = _category(table, name, guessed=kind is None, notes=notes)
        if kind is None and SMILES in name.casefold():
            notes.append(
                f"{table.path}, column '{name}': the words are read as a category;"
                f' --smiles "{name}" reads them as molecules'
            )
        return [Feature(name, "category", one_hot)]
    try:
        values = table.numbers(name)
        if len(values) > 1 and np.ptp(values) == 0:
            _raise_constant(table, name, f"{values[0]:g}")
    except ValueError as error:
        if parsed.kind == "numbers":
            raise
        raise ValueError(
            f"{error} Write plain numbers such as -1.5 with the unit in the header;"
            f' --categories "{name}" reads the cells as names, --ignore "{name}" leaves the column'
            " out."
        ) from error
    return [Feature(name, "numbers", values[:, None])]


def _category(table: Table, name: str, guessed: bool, notes: list[str]) -> np.ndarray:
    """One-hot features [A, levels] of a column of words."""
    _check_present(table, name)
    words = table.levels(name)
    levels = words.unique()
    if len(words) > 1 and len(levels) == 1:
        _raise_constant(table, name, levels[0])
    # words that differ in most rows, or in all of them, are probably not a category
    too_many = len(levels) > max(FEW_LEVELS, len(words) / 2) or len(words) == len(levels) > 2
    if (guessed and too_many) or len(levels) > MAX_LEVELS:
        raise ValueError(
            f"{table.path}, column '{name}': the {len(words)} rows hold {len(levels)} different"
            f" words, too many for a category. {_advice(name)}"
        )
    spellings: dict[str, str] = {}
    for level in levels:
        first = spellings.setdefault(" ".join(level.casefold().split()), level)
        if first != level:
            notes.append(
                f"{table.path}, column '{name}': '{first}' and '{level}' are read as different"
                " categories"
            )
    return _one_hot(words.to_numpy(object))


def _advice(name: str) -> str:
    """The options that read a column with too many words for a category."""
    if SMILES in name.casefold():
        return f'--smiles "{name}" reads them as molecules.'
    return (
        f'--id "{name}" reads them as ids, --ignore "{name}" leaves the column out, and'
        " --sequence, --protein, --smiles and --bits read other kinds."
    )


def _bits(table: Table, name: str) -> np.ndarray:
    """Packed fingerprints of words of zeros and ones."""
    bits = np.array([list(word) for word in _words_of_one_length(table, name)])
    wrong = ~np.isin(bits, ("0", "1")).all(1)
    _check_cells(table, name, wrong, "the value must be a word of zeros and ones")
    return pack_bits((bits == "1").astype(int))


def _sites(table: Table, name: str, protein: bool) -> list[Feature]:
    """The features of sequences: the letter of every site that varies, and for proteins also the
    properties of the amino acid."""
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
            where = f"{table.path}, column '{name}', site {label}"
            raise ValueError(f"{where}: {error} Use --sequence, not --protein.") from error
        for property_name, column in properties.items():
            features.append(Feature(f"{label} {property_name}", "numbers", column[:, None]))
    if not features:
        _raise_constant(table, name, words[0])
    return features


def _molecules(table: Table, name: str, notes: list[str]) -> np.ndarray:
    """Packed fingerprints of molecules."""
    _check_present(table, name)
    # a molecule such as a solvent, which is repeated in many rows, is parsed once
    codes, words = pd.factorize(table.text(name))
    fingerprints = molecules.fingerprints(list(words))
    packed, wrong = fingerprints.packed, ~fingerprints.readable[codes]
    _check_cells(table, name, wrong, "RDKit cannot read the value as a molecule")
    # only spellings of one molecule should have the same fingerprint
    distinct = pd.DataFrame(packed).assign(canonical=fingerprints.canonical, word=words)
    distinct = distinct.drop_duplicates("canonical")
    equal = distinct.duplicated(list(range(packed.shape[1])), keep=False)
    if equal.any():
        examples = ", ".join(f"'{word}'" for word in distinct["word"][equal][:3])
        notes.append(
            f"{table.path}, column '{name}': {equal.sum()} of {len(distinct)} molecules have the"
            f" fingerprint of another one ({examples})"
        )
    return packed[codes]


def _note_on_numbering(table: Table, names: Sequence[str]) -> list[str]:
    """A sentence in a list on those of the columns that seem to number the rows, unless they are
    all conditions; [] otherwise. Their whole numbers increase by 1 from row to row, or all differ
    below a name such as `Run`, but not `Number of cycles`."""
    found = []
    for name in names:
        values = table.parse(name).values
        if len(values) < 2 or np.isnan(values).any() or (values % 1 != 0).any():
            continue
        steps = np.diff(values)
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|#", name)
        words = [word.casefold() for word in words]
        has_word = "of" not in words and any(word in NUMBERING_WORDS for word in words)
        increases = (steps == 1).all() and len(values) >= MIN_NUMBERED
        if increases or (has_word and len(np.unique(values)) == len(values)):
            found.append(name)
    if not found or len(found) == len(names):
        return []
    listed = ", ".join(f"'{name}'" for name in found)
    option = "--ignore " + " ".join(f'"{name}"' for name in found)
    if len(found) == 1:
        cure = f"the condition {listed} seems to number the rows; if so, {option} leaves it out"
    else:
        cure = f"the conditions {listed} seem to number the rows; if so, {option} leaves them out"
    return [f"{table.path}: {cure}"]


def _note_on_equal_features(ids: np.ndarray, features: np.ndarray) -> list[str]:
    """A sentence in a list if some candidates have equal features; [] otherwise."""
    hashes = pd.util.hash_pandas_object(pd.DataFrame(features), index=False)
    equal = hashes.duplicated(keep=False).to_numpy()
    if not equal.any():
        return []
    first, second = np.flatnonzero(hashes == hashes[int(equal.argmax())])[:2]
    return [
        f"{equal.sum()} of {len(ids)} candidates have the same features as another one"
        f" ('{ids[first]}' and '{ids[second]}', for instance): the model cannot distinguish them"
    ]


def _check_present(table: Table, name: str) -> None:
    fault = f'the value is missing; --ignore "{name}" leaves the column out'
    _check_cells(table, name, table.text(name) == "", fault)


def _words_of_one_length(table: Table, name: str) -> list[str]:
    _check_present(table, name)
    words = table.text(name)
    wrong = np.flatnonzero(words.str.len() != len(words.iloc[0]))
    if wrong.size:
        raise ValueError(
            f"{table.location(wrong[0], name)}: the word has {len(words.iloc[wrong[0]])} letters,"
            f" the first word has {len(words.iloc[0])}. Align the words to one length."
        )
    return words.tolist()


def _check_cells(table: Table, name: str, wrong: np.ndarray | pd.Series, fault: str) -> None:
    """Raises ValueError for the first cell of the column at which `wrong` [n] is true."""
    rows = np.flatnonzero(wrong)
    if rows.size:
        word = table.text(name).iloc[rows[0]]
        quoted = f"; it is '{word}'" if word else ""
        count = f" ({rows.size} such cells in all)" if rows.size > 1 else ""
        raise ValueError(f"{table.location(rows[0], name)}: {fault}{quoted}{count}.")


def _raise_constant(table: Table, name: str, value: str) -> None:
    raise ValueError(
        f"{table.path}, column '{name}': every value is {value}; remove the column, because it"
        " cannot distinguish candidates."
    )


def _one_hot(values: np.ndarray) -> np.ndarray:
    """Zeros and ones [A, levels], with a column for each level, in alphabetical order."""
    return pd.get_dummies(values, dtype=float).to_numpy()
