"""`scripts/suggest`: the tables that people bring, what is wrong with them, and batches that find
good candidates."""

import jax
import numpy as np
import pandas as pd
import pytest

from experiments.suggest import closed_loop, tables
from experiments.suggest import main as suggest
from experiments.suggest.example import make
from jsketch import kernels
from jsketch.posterior import evidence
from jsketch.suggest import data

A = 60


def library(seed=0, count=A):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (count, 3))
    frame = pd.DataFrame(x, columns=["size", "mass", "charge"])
    frame.insert(0, "id", [f"c{i}" for i in range(count)])
    return frame, np.cos(2 * x[:, 0]) + x[:, 1]


def written(tmp_path, name, frame):
    path = tmp_path / name
    frame.to_csv(path, index=False)
    return path


def run(tmp_path, frame, done=None, *more):
    arguments = [
        "--candidates",
        str(written(tmp_path, "library.csv", frame)),
        "--out",
        str(tmp_path / "next.csv"),
        "--overwrite",
    ]
    if done is not None:
        arguments += ["--observations", str(written(tmp_path, "done.csv", done))]
    suggest.run(suggest.parse([*arguments, *more]))
    return pd.read_csv(tmp_path / "next.csv")


def test_rounds_of_suggestions_find_the_best(tmp_path):
    """Ids may be repeated, evaluated and pending candidates are not suggested, and `--minimize` is
    the same upside down."""
    frame, f = library()
    done = pd.DataFrame({"id": ["c3", "c5", "c3"], "value": f[[3, 5, 3]]})
    for _ in range(2):
        batch = run(tmp_path, frame, done, "--batch", "9")
        assert list(batch.columns) == ["id", "mean", "standard_deviation"]
        assert len(set(batch["id"])) == 9 and not set(batch["id"]) & set(done["id"])
        rows = batch["id"].str[1:].astype(int)
        done = pd.concat([done, pd.DataFrame({"id": batch["id"], "value": f[rows]})])
    assert done["value"].max() >= np.sort(f)[-2]
    upside_down = done.assign(value=-done["value"])
    pending = written(tmp_path, "pending.csv", frame[["id"]][:20])
    options = ("--batch", "4", "--pending", str(pending))
    up = run(tmp_path, frame, done, *options)
    down = run(tmp_path, frame, upside_down, "--minimize", *options)
    assert list(up["id"]) == list(down["id"]) and not set(up["id"]) & set(frame["id"][:20])
    np.testing.assert_allclose(up["mean"], -down["mean"])


def test_a_first_batch_without_observations(tmp_path, capsys):
    frame, _ = library()
    batch = run(tmp_path, frame, None, "--batch", "8")
    assert "0 values are too few" in capsys.readouterr().out
    assert len(set(batch["id"])) == 8


def test_the_evidence_of_all_points_is_the_likelihood():
    """With every point inducing; with fewer the bound is below it, and best where the exact one is
    best."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (40, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * random.standard_normal(40)
    ratios = np.array([1e-3, 1e-2, 0.1])
    exact, log_evidence = [], jax.jit(evidence.log_evidence)
    for length in (0.1, 0.5, 3.0):
        kernel = kernels.Gaussian(length)
        whole = log_evidence(kernel, x, y, x, ratios)
        few = log_evidence(kernel, x, y, x[:15], ratios)
        for r, ratio in enumerate(ratios):
            gram = np.asarray(kernel.gram(x, x)) + ratio * np.eye(40)
            scale = np.sqrt(y @ np.linalg.solve(gram, y) / 40)
            dense = -0.5 * (40 * np.log(2 * np.pi * scale**2) + np.linalg.slogdet(gram)[1] + 40)
            assert float(whole.log_likelihood[r]) == pytest.approx(dense, rel=1e-6)
            assert float(whole.scale[r]) == pytest.approx(scale, rel=1e-6)
            assert float(few.log_likelihood[r]) <= dense + 1e-6
            exact.append(dense)
    assert np.argmax(exact) // 3 == 1


def change(column, row, value):
    def changed(frame):
        frame = frame.astype({column: object})
        frame.loc[row, column] = value
        return frame

    return changed


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (change("mass", 4, None), "row 6, column 'mass': the value is missing"),
        (
            change("mass", 4, "heavy"),
            "row 6, column 'mass': the value is 'heavy', not a finite number",
        ),
        (change("mass", 4, "inf"), "row 6, column 'mass': the value is 'inf'"),
        (
            change("mass", 4, "-1e301"),
            r"row 6, column 'mass': the value is '-1e301', larger than"
            r" 1e\+300",
        ),
        (change("id", 7, ""), "row 9, column 'id': the id is missing"),
        (change("id", 7, "c2"), "row 9, column 'id': the id 'c2' is that of row 4 already"),
        (lambda t: t.assign(charge=1.5), "column 'charge': every value is 1.5"),
        (lambda t: t.assign(charge="red"), "column 'charge': every value is red"),
        (
            lambda t: t.assign(charge=t["id"]),
            "column 'charge': the 60 rows hold 60 different words",
        ),
        (
            lambda t: t.assign(charge=[""] + ["red", "blue", "green"] * 19 + ["red"] * 2),
            "row 2, column 'charge': the value is missing",
        ),
        (lambda t: t[:0], "a header and no rows"),
        (lambda t: t[:1], "one candidate only"),
        (lambda t: t.rename(columns={"mass": "size"}), "row 1: there are 2 columns 'size'"),
        (lambda t: t.rename(columns={"mass": ""}), "row 1: column 3 has no name"),
        (lambda t: t[["id"]], "no feature column"),
        (
            lambda t: t.rename(columns={"id": "name"}),
            "has no column 'id'; its columns are: name, size, mass, charge",
        ),
    ],
)
def test_what_is_wrong_with_a_library(tmp_path, edit, words):
    with pytest.raises(ValueError, match=words):
        tables.read_candidates(written(tmp_path, "library.csv", edit(library()[0])))


def mixed_library():
    frame, _ = library(count=40)
    random = np.random.default_rng(2)
    letters = np.array(list("ACDE"))[random.integers(0, 4, (40, 3))]
    letters[:, 1] = "G"  # a site that never varies
    bits = random.integers(0, 2, (40, 20)).astype(str)
    frame["solvent"] = np.array(["water", "ethanol", "none"])[random.integers(0, 3, 40)]
    frame["protein"] = ["".join(row) for row in letters]
    frame["print"] = ["".join(row) for row in bits]
    frame["lot"] = random.integers(1, 4, 40)
    return frame.drop(columns=["mass", "charge"])


def test_columns_of_every_kind(tmp_path, capsys):
    """Words are categories; sequences, fingerprints and numbers that are names are asked for."""
    frame = mixed_library()
    kinds = tables.Kinds(categories=["lot"], sequences=["protein"], bits=["print"])
    found = tables.read_candidates(written(tmp_path, "library.csv", frame), kinds=kinds)
    expected = ["numbers", "category", "category", "category", "bits", "category"]
    assert [group.kind for group in found.columns] == expected
    assert [group.width for group in found.columns] == [1, 3, 4, 4, 2, 3]
    assert found.names == ["size", "solvent", "protein[1]", "protein[3]", "print", "lot"]
    np.testing.assert_array_equal(
        found.features[:, 1:4].argmax(1) == 2, frame["solvent"] == "water"
    )
    done = pd.DataFrame({"id": frame["id"][:20], "value": frame["size"][:20]})
    done["error"] = 0.1
    more = (
        "--error-column",
        "error",
        "--protein",
        "protein",
        "--bits",
        "print",
        "--categories",
        "lot",
    )
    batch = run(tmp_path, frame, done, "--batch", "5", *more)
    said = capsys.readouterr().out
    # beside the letters at two sites the properties that vary there
    assert "40 candidates, 7 numbers, 4 categories, 1 fingerprints, numbers scaled" in said
    assert "20 evaluations with errors of their own" in said
    assert "the shorter, the more a column matters): size" in said
    assert batch["mean"].max() > done["value"].mean()


@pytest.mark.parametrize(
    ("edit", "kinds", "words"),
    [
        (
            lambda t: t,
            tables.Kinds(bits=["protein"]),
            "row 2, column 'protein': the value is not a word of zeros and ones",
        ),
        (
            change("protein", 3, "ACDEF"),
            tables.Kinds(sequences=["protein"]),
            "row 5, column 'protein': the word has 5 letters, the first one has 3",
        ),
        (
            lambda t: t.assign(print="0110"),
            tables.Kinds(bits=["print"]),
            "column 'print': every fingerprint is the same",
        ),
        (lambda t: t, tables.Kinds(sequences=["dna"]), "has no column 'dna'"),
        (
            change("protein", 3, "XCD"),
            tables.Kinds(proteins=["protein"]),
            r"column 'protein', site protein\[1\]: 'X' is none of the 20 amino acids",
        ),
        (
            lambda t: t,
            tables.Kinds(["print"], (), ["print"]),
            "the options give the column 'print' two meanings",
        ),
        (
            lambda t: t.assign(protein="ACD"),
            tables.Kinds(sequences=["protein"]),
            "column 'protein': every value is ACD",
        ),
    ],
)
def test_what_is_wrong_with_a_kind(tmp_path, edit, kinds, words):
    path = written(tmp_path, "library.csv", edit(mixed_library()))
    with pytest.raises(ValueError, match=words):
        tables.read_candidates(path, kinds=kinds)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "id,x\na,1,2\nb,2,3\n",
            "Expected 2 fields in line 2, saw 3",
        ),  # `a` would be a row name, and 1 the id
        ("id,x\na,1\n\n\nb,two\n", "row 5, column 'x'"),  # empty lines count
        ("id|x\na|1\nb|2\n", r"its columns are: id\|x"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, content, words):
    (tmp_path / "library.csv").write_text(content)
    with pytest.raises(ValueError, match=words):
        tables.read_candidates(tmp_path / "library.csv")


def test_files_of_spreadsheets_are_read(tmp_path):
    """A mark at the beginning, spaces around words, line ends of their own, and rows without
    anything in them."""
    (tmp_path / "library.csv").write_bytes(b"\xef\xbb\xbfid , x\r\n a ,1\r\n\r\nb b, 2\r\n,\r\n")
    found = tables.read_candidates(tmp_path / "library.csv")
    assert found.ids.tolist() == ["a", "b b"] and found.features.tolist() == [[1.0], [2.0]]
    assert found.names == ["x"]


def test_a_table_is_not_overwritten(tmp_path):
    frame, _ = library()
    for out, words in [
        ("library.csv", "is the table of --candidates"),
        ("no/next.csv", "a folder that exists"),
    ]:
        with pytest.raises(ValueError, match=words):
            run(tmp_path, frame, None, "--out", str(tmp_path / out))
    assert len(tables.read_candidates(tmp_path / "library.csv").ids) == A


@pytest.mark.parametrize("unit", [2.0**990, 2.0**-990])  # 1e298
def test_values_of_any_size_are_learned_from(tmp_path, unit):
    """Their squares overflow, or vanish; another unit of the values or the features changes no
    suggestion."""
    frame, f = library()
    rows = [*range(11), 3]  # as many as above: the same programs
    done = pd.DataFrame({"id": frame["id"][rows], "value": f[rows]})
    one = run(tmp_path, frame, done, "--batch", "9")
    large = done.assign(value=done["value"] * unit)
    other = run(tmp_path, frame.assign(size=frame["size"] * unit), large, "--batch", "9")
    assert list(one["id"]) == list(other["id"])
    for name in ("mean", "standard_deviation"):
        np.testing.assert_allclose(other[name], one[name] * unit, rtol=1e-9)


def test_units_round_nothing():
    values = np.random.default_rng(0).standard_normal((50, 3)) * [1e-300, 1.0, 1e290]
    assert (data.power_of_two(values, 0) <= np.abs(values).max(0)).all()
    for x, scaled in zip(values.T, data.in_units(values).T, strict=True):
        unit = data.power_of_two(x)
        np.testing.assert_array_equal(x / unit * unit, x)
        assert scaled.min() == 0 and scaled.max() == 1
    x = 1e5 * values[:, 1:2] ** [1, 3]
    np.testing.assert_array_equal(data.in_units(x), (x - x.min(0)) / np.ptp(x, axis=0))
    assert data.power_of_two(np.zeros(3)) == data.power_of_two(np.zeros(0)) == 1


def test_the_file_behind_a_link_is_replaced(tmp_path):
    frame, _ = library()
    (tmp_path / "kept").mkdir()
    (tmp_path / "next.csv").symlink_to(tmp_path / "kept" / "real.csv")
    batch = run(tmp_path, frame, None, "--batch", "8")
    assert (tmp_path / "next.csv").is_symlink()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "kept" / "real.csv"), batch)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["real.csv"]


def test_what_is_wrong_with_evaluations(tmp_path):
    frame, _ = library()
    candidates = tables.read_candidates(written(tmp_path, "library.csv", frame))
    done = pd.DataFrame({"id": ["c1", "c99", "c98"], "value": [1.0, 2.0, 3.0]})
    with pytest.raises(
        ValueError,
        match=r"row 3, column 'id': there is no candidate 'c99' \(2 such"
        r" rows\)",
    ):
        tables.read_evaluations(written(tmp_path, "done.csv", done), candidates)
    with pytest.raises(ValueError, match="row 2, column 'value': the value is missing"):
        tables.read_evaluations(
            written(tmp_path, "done.csv", change("value", 0, None)(done[:1])), candidates
        )
    (tmp_path / "nothing.csv").write_text("")
    with pytest.raises(ValueError, match=r"nothing.csv is empty"):
        tables.read_evaluations(tmp_path / "nothing.csv", candidates)
    with pytest.raises(
        ValueError, match="--batch 59 is more than what is left: of 60 .* 2 were evaluated"
    ):
        run(
            tmp_path,
            frame,
            pd.DataFrame({"id": ["c1", "c2"], "value": [1.0, 2.0]}),
            "--batch",
            "59",
        )


def test_the_example_is_what_its_script_makes():
    for name, table in make.tables().items():
        pd.testing.assert_frame_equal(pd.read_csv(make.FOLDER / name), table)
    candidates = tables.read_candidates(make.FOLDER / "library.csv")
    done = tables.read_evaluations(make.FOLDER / "done.csv", candidates)
    assert len(np.unique(done.arms)) == len(done.arms) - 1 == make.MEASURED


def test_random_batches_and_simple_regret():
    """What suggestions are compared with in a closed loop: batches without repetition."""
    values = np.arange(50.0)
    found = closed_loop.drawn(values, 5, 10, seed=3)
    assert found.shape == (5, 10) and set(found.ravel()) == set(values)
    regret = closed_loop.simple_regret(np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 0.0]]), 6.0)
    np.testing.assert_array_equal(regret, [3, 3, 1])
