"""Tables through the command line: what is read, what is refused, and what is never changed."""

import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.suggest import main as suggest
from experiments.suggest import tables
from experiments.suggest.options import parse

ROOT = Path(__file__).parents[2]
A = 60


def library(seed=0, count=A):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.uniform(-1, 1, (count, 2)), columns=["size", "mass"])
    frame.insert(0, "id", [f"c{i}" for i in range(count)])
    return frame


def evaluations(frame, rows=range(0, A, 4)):
    rows = np.asarray(rows)
    values = np.cos(2 * frame["size"]) + frame["mass"]
    return pd.DataFrame({"id": frame["id"][rows], "value": values[rows]})


def write(path, frame):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_excel(path, index=False)
    return str(path)


def run(tmp_path, candidates, observations=None, *more, ending=".csv", out="next.csv"):
    """The batch of the command on tables that are written to disk."""
    arguments = ["--candidates", write(tmp_path / f"library{ending}", candidates)]
    arguments += ["--out", str(tmp_path / out)]
    if "--batch" not in more:
        arguments += ["--batch", "4"]
    if observations is not None:
        arguments += ["--observations", write(tmp_path / f"done{ending}", observations)]
    suggest.run(parse([*arguments, *more]))
    path = tmp_path / out
    batch = pd.read_csv(path) if path.suffix == ".csv" else pd.read_excel(path)
    path.unlink()
    return batch


@pytest.mark.parametrize("column", ["value", "Value", "error", "status", "pending", "cost", "mean"])
def test_columns_about_evaluations_are_not_features(tmp_path, capsys, column):
    frame = library()
    done = evaluations(frame)
    expected = run(tmp_path, frame, done)
    capsys.readouterr()
    leaked = np.cos(2 * frame["size"]) + frame["mass"]
    found = run(tmp_path, frame.assign(**{column: leaked}), done)
    pd.testing.assert_frame_equal(found, expected)
    assert f"not used as features: '{column}'" in capsys.readouterr().out


def test_an_old_complete_sheet_is_library_and_observations(tmp_path):
    frame = library()
    sheet = frame.assign(**{"Yield (%)": np.cos(2 * frame["size"]) + frame["mass"]})
    done = sheet.iloc[::4]
    names = ("--value-column", "Yield (%)")
    expected = run(tmp_path, frame, done, *names)
    pd.testing.assert_frame_equal(run(tmp_path, sheet, done, *names), expected)


MOLECULES = [
    ("[K+].CC(=O)[O-]", "[Cs+].CC(=O)[O-]"),
    ("C[C@H](O)F", "C[C@@H](O)F"),
    ("F/C=C/F", "F/C=C\\F"),
    ("C", "O"),
    ("O", "[Na+].[Cl-]"),
    ("CC(=O)O", "CC(=O)[O-]"),
    ("C", "[13CH4]"),
    ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
]


@pytest.mark.parametrize(("one", "other"), MOLECULES)
def test_different_molecules_have_different_features(tmp_path, one, other):
    pytest.importorskip("rdkit")
    frame = pd.DataFrame({"id": ["a", "b", "c"], "molecule": [one, other, "CCO"]})
    path = Path(write(tmp_path / "library.csv", frame))
    found = tables.read_candidates(path, kinds=tables.Kinds(smiles=["molecule"]))
    assert (found.features[0] != found.features[1]).any() and not found.notes


def test_candidates_with_equal_features_are_counted(tmp_path, capsys):
    frame = library(count=12)
    frame.loc[[3, 7], ["size", "mass"]] = frame.loc[1, ["size", "mass"]].tolist()
    run(tmp_path, frame)
    said = capsys.readouterr().out
    assert "3 of 12 candidates have the same features as another one ('c1' and 'c3'" in said


NUMBERS = np.round(np.linspace(-3, 7, A), 2)


@pytest.mark.parametrize(
    "spell",
    [
        lambda x: f"{x}".replace(".", ","),  # a decimal comma
        lambda x: f"{x}%",
        lambda x: f"{x} °C",
        lambda x: f"{x}".replace("-", "\u2212"),  # a Unicode minus
        lambda x: f" {x} ",
        lambda x: f"{x:.4f}",
    ],
)
def test_numbers_in_words_are_numbers(tmp_path, spell):
    frame = library().assign(mass=NUMBERS)
    done = evaluations(frame)
    expected = run(tmp_path, frame, done)
    found = run(tmp_path, frame.assign(mass=[spell(x) for x in NUMBERS]), done)
    pd.testing.assert_frame_equal(found, expected)


def test_commas_between_thousands_are_read(tmp_path):
    frame = library().assign(mass=NUMBERS * 1000 + 0.5)
    done = evaluations(frame)
    expected = run(tmp_path, frame, done)
    found = run(tmp_path, frame.assign(mass=[f"{x:,.2f}" for x in frame["mass"]]), done)
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["1,500", "2,750", "3,000"], "may separate thousands or decimals"),
        (["1,5", "2.5", "3,5"], "may separate thousands or decimals"),
        (["50 C", "50 K", "40 C"], "have different units: 'C', 'K'"),
        (["50%", "40", "30"], "have different units: '%', none"),
        (["2024-01-05", "2024-02-05", "2024-03-05"], "dates or times"),
        (["1", "2", "many"], "the value is 'many', not a finite number"),
        (["<5", "7", "8"], "the value is '<5', not a finite number"),
    ],
)
def test_cells_that_only_look_like_numbers_are_refused(tmp_path, words, why):
    frame = library(count=12).assign(mass=np.resize(words, 12))
    with pytest.raises(ValueError, match=why) as caught:
        run(tmp_path, frame)
    assert "--categories 'mass'" in str(caught.value) and "--ignore 'mass'" in str(caught.value)
    run(tmp_path, frame, None, "--categories", "mass")
    run(tmp_path, frame, None, "--ignore", "mass")


def test_categories_are_compared_by_their_numbers_and_spelling_is_mentioned(tmp_path, capsys):
    """50 and 50.0 are one level; THF and thf are two, which a sentence mentions."""
    frame = library(count=12).assign(mass=np.resize(["50", "60"], 12))
    done = pd.DataFrame({"id": ["c0", "c1", "c5"], "value": [0.0, 1.0, 3.0]})
    expected = run(tmp_path, frame, done, "--categories", "mass")
    other = frame.assign(mass=frame["mass"].where(np.arange(12) % 4 != 0, "50.0"))
    found = run(tmp_path, other, done, "--categories", "mass")
    pd.testing.assert_frame_equal(found, expected)
    capsys.readouterr()
    run(tmp_path, frame.assign(mass=np.resize(["THF", "thf", "DMF"], 12)))
    assert "'THF' and 'thf' are different categories" in capsys.readouterr().out
    run(tmp_path, frame.assign(mass=np.resize(["2-MeTHF", "1,4-dioxane"], 12)))
    assert "read as words, although most of them begin with a digit" in capsys.readouterr().out


def test_too_many_levels_are_refused(tmp_path):
    """With one word repeated, 6,000 different words would take 6,000 columns."""
    words = [f"w{i}" for i in range(6000)]
    words[7] = words[3]
    frame = pd.DataFrame({"id": range(6000), "word": words, "x": np.arange(6000.0)})
    for more in ((), ("--categories", "word")):
        tracemalloc.start()
        with pytest.raises(ValueError, match="the 6000 rows hold 5999 different words, too many"):
            run(tmp_path, frame, None, *more)
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()


def test_one_long_id_does_not_widen_all(tmp_path):
    count = 20_000
    ids = [f"c{i}" for i in range(count)]
    ids[5] = "x" * 2000
    frame = pd.DataFrame({"id": ids, "x": np.arange(float(count))})
    tracemalloc.start()
    run(tmp_path, frame)
    assert tracemalloc.get_traced_memory()[1] < 100e6  # 160 MB for text of a fixed width
    tracemalloc.stop()


def test_a_hostile_folder_runs_nothing(tmp_path):
    """Modules in the folder of the data are not imported."""
    (tmp_path / "pandas.py").write_text("open('executed', 'w')\nraise SystemExit(3)\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise SystemExit(4)\n")
    write(tmp_path / "library.csv", library())
    command = [ROOT / "scripts" / "suggest", "--candidates", "library.csv", "--batch", "2"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert not (tmp_path / "executed").exists()
    assert len(pd.read_csv(tmp_path / "next.csv")) == 2


def test_a_pending_row_that_is_observed_counts_once(tmp_path):
    frame = library().assign(cost=1 + np.arange(A) % 5)
    done = evaluations(frame)
    pending = frame["id"][[1, 2]]
    costs = ("--cost", "cost", "--budget", str(frame["cost"][done.index].sum() + 9))
    for more in ((), costs):
        path = write(tmp_path / "pending.csv", pending.to_frame())
        expected = run(tmp_path, frame, done, "--pending", path, *more)
        both = pd.concat([pending, done["id"]])
        path = write(tmp_path / "pending.csv", both.to_frame())
        found = run(tmp_path, frame, done, "--pending", path, *more)
        pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("word", ["NA", "None", "n/a", "nan", "NULL", "#1"])
def test_formats_read_the_same_words(tmp_path, word):
    """An id and a category that some readers take for an empty cell."""
    frame = library(count=12).assign(solvent=np.resize([word, "water", "DMF"], 12))
    frame.loc[3, "id"] = word
    done = evaluations(frame, [0, 4, 8])
    exclude = frame[["id"]].iloc[[3, 5]]
    found = [
        run(
            tmp_path,
            frame,
            done,
            *("--exclude", write(tmp_path / f"exclude{ending}", exclude), "--batch", "7"),
            ending=ending,
        )
        for ending in (".csv", ".xlsx", ".parquet")
    ]
    for other in found:
        pd.testing.assert_frame_equal(other, found[0])
        assert word not in other["id"].astype(str).tolist() and len(other) == 7


@pytest.mark.parametrize(
    ("column", "more"), [("size", ("--no-scaling",)), ("none", ("--lengthscale", "1e-300"))]
)
def test_no_batch_holds_nan(tmp_path, column, more):
    frame = library()
    done = evaluations(frame)
    frame = frame.assign(size=frame["size"] * 1e200) if column == "size" else frame
    try:
        batch = run(tmp_path, frame, done, *more)
    except ValueError:
        assert not (tmp_path / "next.csv").exists()
    else:
        assert np.isfinite(batch[["mean", "standard_deviation"]].to_numpy()).all()


def test_ids_in_excel_stay_text(tmp_path):
    import openpyxl

    frame = library(count=12)
    frame["id"] = [f"=A{i}" for i in range(12)]
    arguments = ["--candidates", write(tmp_path / "library.csv", frame), "--batch", "3"]
    suggest.run(parse([*arguments, "--out", str(tmp_path / "next.xlsx")]))
    sheet = openpyxl.load_workbook(tmp_path / "next.xlsx").active
    assert [row[0].data_type for row in sheet.iter_rows(min_row=2)] == ["s"] * 3
    more = ["--out", str(tmp_path / "after.xlsx"), "--pending", str(tmp_path / "next.xlsx")]
    suggest.run(parse([*arguments, *more]))
    one, other = (pd.read_excel(tmp_path / f"{name}.xlsx")["id"] for name in ("next", "after"))
    assert not set(one) & set(other) and set(one) <= set(frame["id"])


def test_an_id_that_excel_cannot_hold_is_refused_at_once(tmp_path, capsys):
    frame = library(count=12)
    frame.loc[3, "id"] = "a\x07b"
    with pytest.raises(ValueError, match="cannot hold the id 'a\\\\x07b'"):
        run(tmp_path, frame, out="next.xlsx")
    assert capsys.readouterr().out == ""


def test_results_typed_into_a_batch_are_kept(tmp_path):
    frame = library()
    arguments = ["--candidates", write(tmp_path / "library.csv", frame), "--batch", "3"]
    out, page = tmp_path / "next.csv", tmp_path / "page.html"
    files = ["--out", str(out), "--report", str(page)]
    page.write_text("notes")
    with pytest.raises(ValueError, match=r"page.html is there already: .*--overwrite"):
        suggest.run(parse([*arguments, *files]))
    assert page.read_text() == "notes" and not out.exists()
    page.unlink()
    out.write_text("id,value\nc1,3.5\n")
    with pytest.raises(ValueError, match=r"next.csv is there already: .*--overwrite"):
        suggest.run(parse([*arguments, *files]))
    assert out.read_text() == "id,value\nc1,3.5\n"
    suggest.run(parse([*arguments, *files, "--overwrite"]))
    assert len(pd.read_csv(out)) == 3


def test_semicolons_and_decimal_commas(tmp_path):
    frame = library()
    done = evaluations(frame)
    expected = run(tmp_path, frame, done)
    for name, table in (("library.csv", frame), ("done.csv", done)):
        table.to_csv(tmp_path / name, index=False, sep=";", decimal=",", encoding="cp1252")
    arguments = ["--candidates", str(tmp_path / "library.csv"), "--batch", "4"]
    arguments += ["--observations", str(tmp_path / "done.csv"), "--out", str(tmp_path / "next.csv")]
    suggest.run(parse(arguments))
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "next.csv"), expected)


def read_features(tmp_path, words, ending=".csv", **more):
    """The features of a library whose only column holds these words."""
    frame = pd.DataFrame({"id": [f"c{i}" for i in range(len(words))], "x": words})
    path = tmp_path / f"library{ending}"
    if ending == ".csv":
        frame.to_csv(path, index=False, **more)
    else:
        write(path, frame)
    found = tables.read_candidates(path)
    return found.columns[0].kind, found.features[:, 0].tolist()


@pytest.mark.parametrize("ending", [".csv", ".xlsx", ".parquet"])
def test_an_underscore_is_no_separator_of_thousands(tmp_path, ending):
    with pytest.raises(ValueError, match="row 4, column 'x': the value is '1_000', not a finite"):
        read_features(tmp_path, ["1", "2", "1_000", "3"], ending)
    assert read_features(tmp_path, ["1_1", "1_2", "1_1", "1_2"], ending)[0] == "category"


def test_points_between_thousands_are_read_beside_decimal_commas(tmp_path):
    words, values = ["0,5", "2.048", "16", "1,5e-07", "2e-07"], [0.5, 2048, 16, 1.5e-7, 2e-7]
    assert read_features(tmp_path, words) == ("numbers", values)
    # 1500 and 2.75, or 1.5 and 2750
    with pytest.raises(ValueError, match="may separate thousands or decimals"):
        read_features(tmp_path, ["1,500", "2.750"])


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (["0.5", "1.5", "1,2,3", "7"], 4),
        (["0,5", "1,5", "1,2,3", "7"], 4),
        (["1 C", "2 C", "3 K"], 4),
    ],
)
def test_the_cell_that_differs_from_the_others_is_named(tmp_path, words, row):
    with pytest.raises(ValueError, match=f"row {row}, column 'x': the value is '{words[row - 2]}'"):
        read_features(tmp_path, words)


@pytest.mark.parametrize("ids", [["a;1", "b;2"], ["1,4-dioxane", "b"], ["a\t1", "b"]])
def test_ids_alone_may_hold_any_separator(tmp_path, ids):
    (tmp_path / "ids.csv").write_text("\n".join(["id", *ids]))
    found = tables.read(tmp_path / "ids.csv", ["id"])
    assert found.text("id").tolist() == ids


@pytest.mark.parametrize("name", ["sample, no", "a;b"])
def test_lines_may_end_with_a_carriage_return(tmp_path, name):
    (tmp_path / "ids.csv").write_bytes(f"{name}\rc1\rc2\r".encode())
    assert tables.read(tmp_path / "ids.csv", [name]).text(name).tolist() == ["c1", "c2"]
    (tmp_path / "done.csv").write_bytes(b"id;value\rc1;1,5\rc2;2\r")
    found = tables.read(tmp_path / "done.csv", ["id", "value"])
    assert found.numbers("value").tolist() == [1.5, 2.0]


@pytest.mark.parametrize("ending", [".xlsx", ".parquet"])
def test_damaged_files_are_refused_in_a_sentence(tmp_path, ending):
    path = Path(write(tmp_path / f"library{ending}", library()))
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for at in random.integers(0, len(whole), 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        try:
            tables.read_candidates(path)
        except ValueError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize("ending", [".csv", ".xlsx", ".parquet"])
def test_empty_rows_are_left_out(tmp_path, ending):
    frame = library(count=4).round(6)
    empty = frame.reindex([0, 1, 9, 2, 3, 9])
    path = Path(write(tmp_path / f"library{ending}", empty.set_axis(range(6))))
    found = tables.read_candidates(path)
    assert found.ids.tolist() == frame["id"].tolist()
    assert (found.features == frame[["size", "mass"]]).all(axis=None)


def test_a_name_in_the_header_may_have_two_lines(tmp_path):
    (tmp_path / "done.csv").write_text('"size\n(mm)";id\n1,5;c1\n')
    assert tables.read(tmp_path / "done.csv", ["id"]).names == ["size\n(mm)", "id"]


@pytest.mark.parametrize("number", ["0.5", "0,5", "\u22120,5"])
def test_a_number_among_words_is_refused_in_any_spelling(tmp_path, number):
    with pytest.raises(ValueError, match="row 3, column 'x': the value is 'many'"):
        read_features(tmp_path, [number, "many", "few", "many"])
