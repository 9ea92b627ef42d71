"""Tables of `jsketch-suggest`. tests/fuzz covers formats, dialects and spellings."""

import re
import sys
import tracemalloc

import numpy as np
import openpyxl
import pandas as pd
import pytest
from suggest_command import library, run, write

from jsketch.suggest import Tanimoto
from jsketch.suggest.tables import candidates as tables
from jsketch.suggest.tables import molecules


def read(path, table, ending=".csv", **options):
    """The candidates of a table, or of the text of a file."""
    path = path / f"library{ending}"
    if isinstance(table, str | bytes):
        path.write_bytes(table.encode() if isinstance(table, str) else table)
    else:
        write(path, table)
    return tables.read_sheet(path, **options).candidates


def test_the_refusal_of_a_column_names_two_options_that_accept_it(tmp_path):
    frame = library(12).assign(mass=np.resize(["50 C", "50 K", "40 C"], 12))
    with pytest.raises(ValueError, match="have different units: 'C', 'K'") as error_info:
        run(tmp_path, frame)
    for option in ("--categories", "--ignore"):
        assert f'{option} "mass"' in str(error_info.value)
        run(tmp_path, frame, None, option, "mass")


def test_words_with_too_many_levels_are_refused_in_little_memory(tmp_path):
    """6,000 different words would take 6,000 columns. Here one word is repeated."""
    words = [f"w{i}" for i in range(6000)]
    words[7] = words[3]
    frame = pd.DataFrame({"id": range(6000), "word": words, "x": np.arange(6000.0)})
    for more in ((), ("--categories", "word")):
        tracemalloc.start()
        with pytest.raises(ValueError, match="the 6000 rows hold 5999 different words, too many"):
            run(tmp_path, frame, None, *more)
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()


def test_an_id_that_excel_cannot_hold_is_refused_at_once(tmp_path, capsys):
    frame = library(12)
    frame.loc[3, "id"] = "a\x07b"
    with pytest.raises(ValueError, match="cannot hold the id 'a\\\\x07b'"):
        run(tmp_path, frame, out="next.xlsx")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("cell", [[1.0, 2.0], {"a": 1}])
def test_a_parquet_column_of_lists_is_named(tmp_path, cell):
    frame = library(12).assign(peaks=[cell] * 12)
    with pytest.raises(ValueError, match=r"library.parquet, column 'peaks': a cell holds"):
        read(tmp_path, frame, ".parquet")


def mixed_library():
    """A library with a column of every kind."""
    frame, random = library(40), np.random.default_rng(2)
    letters = np.array(list("ACDE"))[random.integers(0, 4, (40, 3))]
    letters[:, 1] = "G"  # a site that never varies
    frame["solvent"] = np.array(["water", "ethanol", "none"])[random.integers(0, 3, 40)]
    frame["protein"] = ["".join(row) for row in letters]
    frame["print"] = ["".join(row) for row in random.integers(0, 2, (40, 20)).astype(str)]
    frame["lot"] = random.integers(1, 4, 40)
    return frame.drop(columns="mass")


def test_columns_of_every_kind_are_described(tmp_path, capsys):
    """Words are categories; options name the columns of other kinds."""
    frame = mixed_library()
    done = pd.DataFrame({"id": frame["id"][:20], "value": frame["size"][:20], "error": 0.1})
    more = ("--error", "error", "--protein", "protein", "--bits", "print")
    batch = run(tmp_path, frame, done, "--batch", "5", *more, "--categories", "lot")
    printed = capsys.readouterr().out
    # the protein varies at two sites, each with a category and three numbers
    assert "40 candidates, each with 7 numbers, 4 categories, 1 fingerprint; 20 evaluat" in printed
    assert re.search(r"c\d+: size [-.\d]+, \w+, [A-E]G[A-E], [01]{20}, [123]\)", printed)
    assert "20 evaluations with standard errors" in printed
    assert "; the values depend most on size, " in printed
    assert batch["predicted"].max() > done["value"].mean()


@pytest.mark.parametrize(
    ("edit", "kinds", "words"),
    [
        (lambda t: t.rename(columns={"lot": "size"}), {}, "row 1: there are 2 columns 'size'"),
        # `a` would be a row name, and 1 the id
        (
            lambda t: "id,x\na,1,2\nb,2,3\n",
            {},
            "library.csv, row 2: it has 3 cells, more than the 2",
        ),
        (lambda t: "id,x\na,1\n\n\nb,two\n", {}, "row 5, column 'x'"),  # empty lines count
        (lambda t: "id|x\na|1\nb|2\n", {}, r"its columns are: id\|x"),
        (lambda t: "", {}, "library.csv, row 1: it is empty"),
        (lambda t: t, dict(sequences=["dna"]), "has no column 'dna'"),
        (
            lambda t: t.assign(protein=t["protein"].where(t.index != 3, "XCD")),
            dict(proteins=["protein"]),
            r"column 'protein', site protein\[1\]: 'X' is none of the 20 amino acids",
        ),
    ],
)
def test_wrong_libraries_are_refused(tmp_path, edit, kinds, words):
    frame = mixed_library()
    table = edit(frame if kinds else frame.drop(columns=["protein", "print"]))
    with pytest.raises(ValueError, match=words):
        read(tmp_path, table, kinds=tables.Kinds(**kinds))


NUMBERING = (
    "run,new_index,index,Trial,Exp,exp_no,Experiment No.,Sample ID,Rxn,Well,priority,RunOrder,"
    "Number,batch_num,Nummer,Entry No"
)


def test_conditions_that_number_the_rows_are_mentioned(tmp_path):
    """They increase by 1 from row to row, or all differ below a name such as Run."""

    def notes(name, cells, **options):
        rows = [f"{cell},DMF,{heat}" for cell, heat in zip(cells, [60, 80, 60, 90], strict=True)]
        text = "\n".join([f"{name},solvent,T", *rows, f"{2 * cells[-1] - cells[-2]},MeCN,60"])
        found = read(tmp_path, text, roles=tables.Roles(id=None, **options)).notes
        return [note for note in found if "number the rows" in note]

    for name in NUMBERING.split(","):
        for cells in ([1, 2, 3, 4], [3, 1, 2, 4], [9, 8, 7, 6], [10, 20, 30, 40]):
            words = (
                f"the condition '{name}' seems to number the rows; if so, --ignore \"{name}\" lea"
            )
            assert [words in note for note in notes(name, cells)] == [True], name
    assert notes("heat", [5, 6, 7, 8]) and not notes("heat", [5, 8, 7, 20])
    for cells in ([20, 40, 60, 80], [5, 7, 8, 20], [8, 7, 6, 5]):
        assert not notes("heat", cells), cells
    assert not notes("Number of cycles", [10, 20, 30, 40])
    assert not notes("heat", [0.5, 1.25, 2.5, 3.0]) and not notes("Run", [1, 1, 2, 2])
    assert not notes("no", [1, 2, 3, 4]) and not notes("Run", [1, 2, 3, 4], ignored=["Run"])
    two = read(tmp_path, "run,exp,T\n1,1,60\n2,2,80\n3,3,60\n", roles=tables.Roles(id=None))
    assert "the conditions 'run', 'exp' seem to number the rows; if so," in two.notes[-1]
    assert two.notes[-1].endswith('--ignore "run" "exp" leaves them out')
    only = read(tmp_path, "run\n1\n2\n3\n4\n", roles=tables.Roles(id=None))
    assert not any("number the rows" in note for note in only.notes)


def test_the_name_of_a_column_of_molecules_is_mentioned(tmp_path):
    text = "id,Solvent_SMILES,T\na,CCO,60\nb,CCN,80\nc,CCO,80\n"
    words = (
        "column 'Solvent_SMILES': the words are read as a category; --smiles \"Solvent_SMILES\" r"
    )
    assert [words in note for note in read(tmp_path, text).notes] == [True]
    named = tables.Kinds(categories=["Solvent_SMILES"])
    assert read(tmp_path, text, kinds=named).notes == []


@pytest.mark.parametrize(
    ("sheets", "hidden", "words"),
    [
        (["data"], False, None),
        (["data", "more"], False, "the sheet 'data', the first of 2"),
        (["data", "more"], True, "the sheet 'data', the first of 2, which is hidden"),
    ],
)
def test_the_sheet_of_a_workbook_is_named(tmp_path, sheets, hidden, words):
    book = openpyxl.Workbook()
    book.active.title = sheets[0]
    for name in sheets[1:]:
        book.create_sheet(name)
    for row in (["id", "T"], ["a", 60], ["b", 80]):
        book.worksheets[0].append(row)
    book.worksheets[0].sheet_state = "hidden" if hidden else "visible"
    path = tmp_path / "book.xlsx"
    book.save(path)
    notes = tables.read_sheet(path).candidates.notes
    assert notes == ([] if words is None else [f"{path}: the table is {words}"])
    ending = "" if words is None else f" The table is {words}."
    with pytest.raises(ValueError, match=f"no column 'y'; its columns are: id, T.{ending}$"):
        tables.read_sheet(path, tables.Roles(results=("y",), value_needed=True))


SMILES = ["CCO", "CCN", "c1ccccc1O", "OCC", "[Na+].[Cl-]"]


def read_molecules(path, words):
    frame = pd.DataFrame({"id": np.arange(len(words)), "molecule": words})
    return read(path, frame, kinds=tables.Kinds(smiles=["molecule"]))


def test_a_missing_rdkit_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    words = r'--smiles needs RDKit, .* pip install "jsketch\[smiles\]"'
    with pytest.raises(ValueError, match=words):
        read_molecules(tmp_path, SMILES)


def test_molecules_are_read_as_fingerprints(tmp_path, monkeypatch):
    """Two spellings of ethanol are one molecule. Blocks do not change fingerprints."""
    pytest.importorskip("rdkit")
    candidates = read_molecules(tmp_path, SMILES)
    assert [group.kind for group in candidates.columns] == ["bits"]
    assert candidates.names == ["molecule"]
    similarity = np.asarray(Tanimoto().gram(candidates.features, candidates.features))
    assert similarity[0, 3] == 1 > similarity[0, 1] > similarity[0, 2]
    # C-C, C-O at one bond and C-O at two: three pairs, each counted once
    assert sum(int(word).bit_count() for word in candidates.features[0]) == 3
    monkeypatch.setattr(molecules, "BLOCK", 2)
    np.testing.assert_array_equal(molecules.fingerprints(SMILES).packed, candidates.features)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[K+].CC(=O)[O-]", "[Cs+].CC(=O)[O-]"),
        ("C[C@H](O)F", "C[C@@H](O)F"),
        ("F/C=C/F", "F/C=C\\F"),
        ("C", "O"),
        ("O", "[Na+].[Cl-]"),
        ("CC(=O)O", "CC(=O)[O-]"),
        ("C", "[13CH4]"),
        ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
    ],
)
def test_different_molecules_have_different_features(tmp_path, one, other):
    pytest.importorskip("rdkit")
    candidates = read_molecules(tmp_path, [one, other, "CCO"])
    assert (candidates.features[0] != candidates.features[1]).any() and not candidates.notes
