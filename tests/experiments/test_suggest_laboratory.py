"""`scripts/suggest` in a laboratory: constraints, failures, tables of spreadsheet programs, and
what it says in plain words."""

import base64
import re
import sys

import numpy as np
import pandas as pd
import pytest

from experiments.suggest import cells, page, pictures, tables, words
from experiments.suggest import main as suggest
from experiments.suggest.inputs import Inputs
from experiments.suggest.options import parse
from jsketch.kernels import Columns, Mixed
from jsketch.kernels.discrete import pack_bits
from jsketch.suggest import Model, Suggestion, library

A = 60


def laboratory():
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (A, 2))
    frame = pd.DataFrame({"size": x[:, 0].round(3), "heat": np.repeat([20, 40, 60], 20)})
    frame["price"] = 1 + np.arange(A) % 7
    frame.insert(0, "id", [f"c{i}" for i in range(A)])
    return frame, np.cos(2 * x[:, 0]) + frame["heat"].to_numpy() / 40


def written(tmp_path, name, frame):
    path = tmp_path / name
    frame.to_csv(path, index=False)
    return path


def run(tmp_path, *more, done=None, failed=()):
    frame, f = laboratory()
    rows = np.arange(0, A, 7) if done is None else done
    values = pd.DataFrame({"id": frame["id"][rows], "value": f[rows]}).astype({"value": object})
    values.iloc[list(failed), 1] = None
    arguments = [
        *("--candidates", str(written(tmp_path, "library.csv", frame))),
        *("--observations", str(written(tmp_path, "done.csv", values))),
        *("--out", str(tmp_path / "next.csv"), "--batch", "4", "--overwrite"),
    ]
    suggest.run(parse([*arguments, *more]))
    batch = pd.read_csv(tmp_path / "next.csv")
    return batch, batch["id"].str[1:].astype(int).to_numpy()


def test_a_batch_of_one_temperature_within_a_budget(tmp_path, capsys, monkeypatch):
    """And without what is excluded. The cost is no feature; a budget ends a batch."""
    frame, _ = laboratory()
    evaluated = np.arange(0, A, 7)
    out = written(tmp_path, "never.csv", frame[["id"]][45:])
    report = tmp_path / "page.html"
    monkeypatch.setattr(page, "CURVE", 2)
    more = ("--same", "heat", "--exclude", str(out), "--report", str(report))
    batch, rows = run(tmp_path, *more)
    shown = report.read_text()
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', shown)
    assert len(pictures) == 5
    assert all(base64.b64decode(picture)[1:4] == b"PNG" for picture in pictures)
    assert all(f"<td>{name}</td>" in shown for name in batch["id"])
    assert len(set(frame["heat"][rows])) == 1 and not (rows >= 45).any()
    said = capsys.readouterr().out
    assert f"all of the batch has heat = {frame['heat'][rows[0]]}" in said
    assert "certificate: c" in said and "a rule of thumb, no theorem" in said
    spent = frame["price"][evaluated].sum()
    _, rows = run(tmp_path, "--cost", "price", "--budget", str(spent + 3))
    said = capsys.readouterr().out
    cost = frame["price"][rows].sum()
    assert cost <= 3 and len(rows) < 4 and "2 numbers" in said
    assert f"the batch costs {cost} of 3 that are left of {spent + 3}" in said
    assert f"the budget ends it after {len(rows)} of 4" in said


def test_pictures_show_the_names_of_columns_and_not_formulas():
    def drawn(name):
        return pictures.importance([name], np.ones(1))

    assert drawn("$a_b_c$")[1:4] == b"PNG"  # as a formula it has two subscripts
    assert drawn("$a$") != drawn(r"$\mathit{a}$")  # as formulas they look the same


def test_an_empty_value_is_a_failure_if_asked(tmp_path, capsys):
    with pytest.raises(ValueError, match="row 3, column 'value': the value is missing .*failures"):
        run(tmp_path, failed=[1])
    capsys.readouterr()
    batch, rows = run(tmp_path, "--failures", "--explain", failed=[1, 4])
    said = capsys.readouterr().out
    assert "9 evaluations, 2 of them failed" in said
    assert not np.isin(rows, np.arange(0, A, 7)).any()
    assert ((batch["chance_of_success"] > 0) & (batch["chance_of_success"] < 1)).all()
    chance = round(100 * batch["chance_of_success"][0])
    assert f"succeeds with a chance of {chance}%" in said


def test_reasons_name_the_neighbour_and_the_column(tmp_path, capsys):
    """Of a candidate beside the best one; before there is any value there is none."""
    frame, _ = laboratory()
    frame.loc[1, ["size", "heat"]] = frame.loc[0, ["size", "heat"]]
    frame.loc[1, "size"] += 0.01
    frame = frame.drop(columns="price")
    path = written(tmp_path, "library.csv", frame)
    done = written(tmp_path, "done.csv", pd.DataFrame({"id": ["c0", "c59"], "value": [-9.0, 3.0]}))
    arguments = ("--candidates", str(path), "--batch", "1", "--out", str(tmp_path / "n.csv"))
    others = written(tmp_path, "others.csv", frame[["id"]][2:])
    more = ("--exclude", str(others), "--observations", str(done), "--minimize", "--explain")
    suggest.run(parse([*arguments, *more]))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("c1:"))
    assert "than the best value so far (-9, c0); much is known there" in line
    assert "; most like c0 (-9), from which it differs most in size" in line
    report = tmp_path / "page.html"
    suggest.run(parse([*arguments, "--overwrite", "--explain", "--report", str(report)]))
    assert report.read_text().count("data:image/png") == 1  # the map
    assert "nothing is known yet" in capsys.readouterr().out


def test_distances_are_the_kernels():
    """And those of the map, but for fingerprints; two axes hold all of a plane."""
    random = np.random.default_rng(1)
    level, bits = random.integers(0, 3, 8), pack_bits(random.integers(0, 2, (8, 40)))
    x = np.hstack([random.random((8, 2)), np.eye(3)[level], bits])
    columns = (Columns("numbers", 2), Columns("category", 3), Columns("bits", bits.shape[1]))
    known = library(x, columns, scaling=False)
    lengths = np.array([0.5, 1.0, 2.0, 0.7])
    squared = words.distances(known, x[0], x[1])
    r = np.sqrt(5 * (squared / lengths**2).sum())
    kernel = Mixed(lengths, columns).gram(known.features[:1], known.features[1:2])
    at = page.weighted(known, lengths, np.arange(8))[:, :5]
    apart = np.square(at[0] - at[1]).sum()
    assert apart == pytest.approx((squared / lengths**2)[:3].sum(), rel=1e-12)
    plane = x[:, :2] @ random.standard_normal((2, 5))
    points, share = page.projected(plane)
    assert share == pytest.approx(1)
    np.testing.assert_allclose(
        np.linalg.norm(points[0] - points[1:], axis=1),
        np.linalg.norm(plane[0] - plane[1:], axis=1),
    )
    model = Model(lengths, 0.1, 1.0, 0.0, True)
    names = ["a", "b", "c", "d"]
    inputs = Inputs(
        tables.Candidates(np.arange(8).astype(str), x, list(columns), names),
        known,
        np.array([1, 5]),
        np.array([0.2, 0.1]),
        *[np.zeros(0, int)] * 2,
    )
    found = Suggestion(np.array([0]), np.array([0.3]), np.array([0.1]), model, 2)
    (line,) = words.reasons(parse(["--candidates", "l.csv"]), inputs, found)
    best = "0: predicted 0.3 +- 0.1, better than the best value so far (0.2, 1); much is known"
    assert line.startswith(best)
    assert float(kernel[0, 0]) == pytest.approx((1 + r + r * r / 3) * np.exp(-r), rel=1e-9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--same", "cold"), "has no column 'cold'"),
        (
            ("--cost", "price", "--same", "price"),
            "the options give the column 'price' two meanings",
        ),
        (("--cost", "size"), "column 'size': a cost must be above 0; it is -"),
        (("--cost", "price", "--budget", "3"), "of the budget of 3 the evaluations made"),
        (("--report", "OUT/next.csv"), "are both"),
        (("--report", "OUT/library.csv"), "--report .* is the table of --candidates"),
    ],
)
def test_what_is_wrong_with_a_request(tmp_path, more, words):
    with pytest.raises(ValueError, match=words):
        run(tmp_path, *(part.replace("OUT", str(tmp_path)) for part in more))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--observations", "x.csv", "--error-column", "value"), "value, value"),
        (("--budget", "3"), "name their column with --cost"),
        (("--id-column", "mean"), "--id-column mean is a column of the table that is written"),
        (("--cost", "price", "--acquisition", "ucb"), "leave --acquisition and --width out"),
        (("--cost", "price", "--budget", "inf"), "--budget must be a finite number"),
        (("--cost", "price", "--cost-exponent", "-1"), "--cost-exponent must be a finite number"),
    ],
)
def test_what_is_wrong_with_options(more, words, capsys):
    with pytest.raises(SystemExit):
        parse(["--candidates", "library.csv", *more])
    assert words in capsys.readouterr().err


def mixed():
    frame, _ = laboratory()
    return frame.assign(solvent=np.where(np.arange(A) % 2, "water", "none"), lot=np.arange(A) % 3)


def same_as_csv(tmp_path, path):
    kinds = tables.Kinds(categories=["lot"])
    expected = tables.read_candidates(
        written(tmp_path, "l.csv", mixed()), tables.Roles(cost="price"), kinds, "heat"
    )
    found = tables.read_candidates(path, tables.Roles(cost="price"), kinds, "heat")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_parquet_tables_are_read(tmp_path):
    path = tmp_path / "l.parquet"
    path.write_bytes(cells.content(path, mixed()))
    same_as_csv(tmp_path, path)
    mixed().set_index("id").to_parquet(path)
    assert tables.read_candidates(path).ids[:2].tolist() == ["c0", "c1"]
    frame = mixed()
    frame.loc[3, "size"] = np.nan
    frame.to_parquet(path)
    with pytest.raises(ValueError, match="l.parquet, row 5, column 'size': the value is missing"):
        tables.read_candidates(path)
    frame.assign(id=np.arange(A)).to_parquet(path)
    assert tables.read_ids(path, expected_ids(tmp_path)).tolist() == list(range(A))
    path.write_text("id,x\n")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        tables.read_candidates(path)


def expected_ids(tmp_path):
    path = written(tmp_path, "numbered.csv", mixed().assign(id=np.arange(A)))
    return tables.read_candidates(path, kinds=tables.Kinds(categories=["lot"]))


def test_excel_tables_are_read(tmp_path):
    pytest.importorskip("openpyxl", reason="Excel tables need openpyxl: pip install openpyxl")
    path = tmp_path / "l.xlsx"
    path.write_bytes(cells.content(path, mixed()))
    same_as_csv(tmp_path, path)
    frame = mixed().astype(object)
    frame.loc[3, "size"] = None
    frame.to_excel(path, index=False)
    with pytest.raises(ValueError, match="l.xlsx, row 5, column 'size': the value is missing"):
        tables.read_candidates(path)
    path.write_text("id,x\n")
    with pytest.raises(ValueError, match="is not an Excel file"):
        tables.read_candidates(path)


def test_no_workbook_with_macros_is_written(tmp_path):
    with pytest.raises(ValueError, match="next.xlsm: a workbook with macros is not written"):
        run(tmp_path, "--out", str(tmp_path / "next.xlsm"))


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ValueError, match="l.xlsx needs the package openpyxl"):
        tables.read_ids(tmp_path / "l.xlsx", None)
    with pytest.raises(ValueError, match="next.xlsx needs the package openpyxl"):
        run(tmp_path, "--out", str(tmp_path / "next.xlsx"))
