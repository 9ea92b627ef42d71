"""`scripts/suggest`: batches, constraints, messages, the page, and files that are kept."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from suggest_command import A, evaluations, library, run, truth, write

from experiments.suggest import closed_loop, messages, page, tables
from experiments.suggest import main as command
from experiments.suggest.example import make
from experiments.suggest.inputs import Inputs
from experiments.suggest.options import parse
from jsketch import kernels
from jsketch.kernels import Columns, Mixed
from jsketch.kernels.discrete import pack_bits
from jsketch.posterior import evidence
from jsketch.suggest import Model, Suggestion, data
from jsketch.suggest import library as scaled

ROOT = Path(__file__).parents[2]


def rows_of(batch):
    return batch["id"].str[1:].astype(int).to_numpy()


def test_rounds_of_suggestions_find_the_best(tmp_path, capsys):
    """Ids may be repeated, evaluated and pending candidates are not suggested, and `--minimize`
    suggests the same candidates for negated values."""
    frame = library()
    first = run(tmp_path, frame, None, "--batch", "8")
    assert "0 values are too few" in capsys.readouterr().out and len(set(first["id"])) == 8
    f = truth(frame)
    done = evaluations(frame, [3, 5, 3])
    for _ in range(2):
        batch = run(tmp_path, frame, done, "--batch", "9")
        assert list(batch.columns) == ["id", "mean", "standard_deviation"]
        assert len(set(batch["id"])) == 9 and not set(batch["id"]) & set(done["id"])
        done = pd.concat([done, evaluations(frame, rows_of(batch))])
    assert done["value"].max() >= np.sort(f)[-2]
    options = ("--pending", write(tmp_path / "pending.csv", frame[["id"]][:20]))
    up = run(tmp_path, frame, done, *options)
    down = run(tmp_path, frame, done.assign(value=-done["value"]), "--minimize", *options)
    assert list(up["id"]) == list(down["id"]) and not set(up["id"]) & set(frame["id"][:20])
    np.testing.assert_allclose(up["mean"], -down["mean"])


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


@pytest.mark.parametrize("unit", [2.0**990, 2.0**-990])  # 1e298
def test_values_of_any_size_are_learned_from(tmp_path, unit):
    """Their squares overflow, or vanish; another unit of the values or the features changes no
    suggestion."""
    frame = library()
    done = evaluations(frame, [*range(11), 3])  # as many as above: the same programs
    one = run(tmp_path, frame, done, "--batch", "9")
    large = done.assign(value=done["value"] * unit)
    other = run(tmp_path, frame.assign(size=frame["size"] * unit), large, "--batch", "9")
    assert list(one["id"]) == list(other["id"])
    for name in ("mean", "standard_deviation"):
        np.testing.assert_allclose(other[name], one[name] * unit, rtol=1e-9)


def test_units_are_exact():
    values = np.random.default_rng(0).standard_normal((50, 3)) * [1e-300, 1.0, 1e290]
    assert (data.power_of_two(values, 0) <= np.abs(values).max(0)).all()
    for x, column in zip(values.T, data.scaled_to_unit(values).T, strict=True):
        unit = data.power_of_two(x)
        np.testing.assert_array_equal(x / unit * unit, x)
        assert column.min() == 0 and column.max() == 1
    x = 1e5 * values[:, 1:2] ** [1, 3]
    np.testing.assert_array_equal(data.scaled_to_unit(x), (x - x.min(0)) / np.ptp(x, axis=0))
    assert data.power_of_two(np.zeros(3)) == data.power_of_two(np.zeros(0)) == 1


def laboratory():
    heat = np.repeat([20, 40, 60], 20)
    return library().assign(heat=heat, price=1 + np.arange(A) % 7)


DONE = range(0, A, 7)


def test_a_batch_of_one_temperature_within_a_budget(tmp_path, capsys, monkeypatch):
    """And without excluded candidates. The cost is not a feature; a budget ends a batch."""
    frame = laboratory()
    done, report = evaluations(frame, DONE), tmp_path / "page.html"
    monkeypatch.setattr(page, "POINTS", 2)
    never = write(tmp_path / "never.csv", frame[["id"]][45:])
    more = ("--same", "heat", "--exclude", never, "--report", str(report))
    batch = run(tmp_path, frame, done, *more)
    html, rows = report.read_text(), rows_of(batch)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(pictures) == 5
    assert all(base64.b64decode(picture)[1:4] == b"PNG" for picture in pictures)
    assert all(f"<td>{name}</td>" in html for name in batch["id"])
    assert len(set(frame["heat"][rows])) == 1 and not (rows >= 45).any()
    printed = capsys.readouterr().out
    assert f"all of the batch has heat = {frame['heat'][rows[0]]}" in printed
    assert "certificate: c" in printed and "a rule of thumb, no theorem" in printed
    budget = frame["price"][list(DONE)].sum() + 3
    rows = rows_of(run(tmp_path, frame, done, "--cost", "price", "--budget", str(budget)))
    printed, cost = capsys.readouterr().out, frame["price"][rows].sum()
    assert cost <= 3 and len(rows) < 4 and "3 numbers" in printed
    assert f"the batch costs {cost}; 3 of the budget of {budget} was left" in printed
    assert f"ends the batch after {len(rows)} of 4 candidates" in printed


def test_pictures_show_the_names_of_columns_and_not_formulas():
    def drawn(name):
        return page._importance([name], np.ones(1)).png

    assert drawn("$a_b_c$")[1:4] == b"PNG"  # as a formula it has two subscripts
    assert drawn("$a$") != drawn(r"$\mathit{a}$")  # as formulas they look the same


def test_an_empty_value_is_a_failure_with_the_option(tmp_path, capsys):
    frame = laboratory()
    done = evaluations(frame, DONE).astype({"value": object})
    done.iloc[[1, 4], 1] = None
    with pytest.raises(ValueError, match="row 3, column 'value': the value is missing .*failures"):
        run(tmp_path, frame, done)
    capsys.readouterr()
    batch = run(tmp_path, frame, done, "--failures", "--explain")
    printed = capsys.readouterr().out
    assert "9 evaluations, 2 of them failed" in printed
    assert not np.isin(rows_of(batch), DONE).any()
    assert ((batch["chance_of_success"] > 0) & (batch["chance_of_success"] < 1)).all()
    chance = round(100 * batch["chance_of_success"][0])
    assert f"succeeds with a chance of {chance}%" in printed


def test_reasons_name_the_neighbour_and_the_column(tmp_path, capsys):
    """For a candidate close to the best one; without values there is neither."""
    frame = laboratory().drop(columns="price")
    frame.loc[1, ["size", "mass", "heat"]] = frame.loc[0, ["size", "mass", "heat"]]
    frame.loc[1, "size"] += 0.01
    done = pd.DataFrame({"id": ["c0", "c59"], "value": [-9.0, 3.0]})
    others = write(tmp_path / "others.csv", frame[["id"]][2:])
    more = ("--batch", "1", "--exclude", others, "--minimize", "--explain")
    run(tmp_path, frame, done, *more)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("c1:"))
    assert "(certain), " in line and "than the best value so far (-9, c0)" in line
    assert "; most similar to c0 (-9), from which it differs most in size" in line
    report = tmp_path / "page.html"
    run(tmp_path, frame, None, "--explain", "--report", str(report))
    assert report.read_text().count("data:image/png") == 1  # the map
    assert "there are no values yet" in capsys.readouterr().out


def test_distances_are_those_of_the_kernel():
    """And those of the map, but for fingerprints; two axes hold all of a plane."""
    random = np.random.default_rng(1)
    level, bits = random.integers(0, 3, 8), pack_bits(random.integers(0, 2, (8, 40)))
    x = np.hstack([random.random((8, 2)), np.eye(3)[level], bits])
    columns = (Columns("numbers", 2), Columns("category", 3), Columns("bits", bits.shape[1]))
    known = scaled(x, columns, scaling=False)
    lengths = np.array([0.5, 1.0, 2.0, 0.7])
    squared = messages.distances(known, x[0], x[1])
    r = np.sqrt(5 * (squared / lengths**2).sum())
    kernel = Mixed(lengths, columns).gram(known.features[:1], known.features[1:2])
    assert float(kernel[0, 0]) == pytest.approx((1 + r + r * r / 3) * np.exp(-r), rel=1e-9)
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
    empty = np.zeros(0, int)
    candidates = tables.Candidates(np.arange(8).astype(str), x, list(columns), list("abcd"))
    inputs = Inputs(candidates, known, np.array([1, 5]), np.array([0.2, 0.1]), empty, empty)
    model = Model(lengths, 0.1, 1.0, 0.0, True)
    found = Suggestion(np.array([0]), np.array([0.3]), np.array([0.1]), model, 2)
    (line,) = messages.reasons(parse(["--candidates", "l.csv"]), inputs, found)
    assert line.startswith(
        "0: predicted 0.3 +- 0.1 (certain), better than the best value so far (0"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--same", "cold"), "has no column 'cold'"),
        (("--cost", "price", "--same", "price"), "the options give the column 'price' two meaning"),
        (("--cost", "size"), "column 'size': a cost must be above 0; it is '-"),
        (("--cost", "price", "--budget", "3"), "of the budget of 3 the evaluations made"),
        (("--batch", "59"), "batch = 59 is more than what is left: of 60 .* 9 were evaluated"),
        (("--report", "OUT/next.csv"), "are both"),
        (("--report", "OUT/library.csv"), "--report .* is the table of --candidates"),
        (("--out", "OUT/library.csv"), "is the table of --candidates"),
        (("--out", "OUT/no/next.csv"), "a folder that exists"),
        (("--out", "OUT/next.xlsm"), "next.xlsm: workbooks with macros are read only"),
    ],
)
def test_refusals_of_requests(tmp_path, more, words):
    frame = laboratory()
    with pytest.raises(ValueError, match=words):
        run(
            tmp_path,
            frame,
            evaluations(frame, DONE),
            *(part.replace("OUT", str(tmp_path)) for part in more),
        )
    assert len(pd.read_csv(tmp_path / "library.csv")) == A


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--observations", "x.csv", "--error-column", "value"), "value, value"),
        (("--budget", "3"), "name their column with --cost"),
        (("--id-column", "mean"), "--id-column mean is a column of the table that is written"),
        (("--cost", "price", "--acquisition", "ucb"), "leave --acquisition and --width out"),
        (("--cost", "price", "--budget", "inf"), "--budget: must be a finite number"),
        (("--cost", "price", "--cost-exponent", "-1"), "--cost-exponent: must be a finite number"),
    ],
)
def test_refusals_of_options(more, words, capsys):
    with pytest.raises(SystemExit):
        parse(["--candidates", "library.csv", *more])
    assert words in capsys.readouterr().err


def test_the_file_behind_a_link_is_replaced(tmp_path):
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "real.csv", tmp_path / "next.csv"
    link.symlink_to(target)
    candidates = write(tmp_path / "library.csv", library())
    command.run(parse(["--candidates", candidates, "--batch", "4", "--out", str(link)]))
    assert link.is_symlink() and len(pd.read_csv(target)) == 4
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["real.csv"]


def test_results_typed_into_a_batch_are_kept(tmp_path):
    out, report = tmp_path / "next.csv", tmp_path / "page.html"
    arguments = ["--candidates", write(tmp_path / "library.csv", library()), "--batch", "3"]
    arguments += ["--out", str(out), "--report", str(report)]
    report.write_text("notes")
    with pytest.raises(ValueError, match=r"page.html is there already: .*--overwrite"):
        command.run(parse(arguments))
    assert report.read_text() == "notes" and not out.exists()
    report.unlink()
    out.write_text("id,value\nc1,3.5\n")
    with pytest.raises(ValueError, match=r"next.csv is there already: .*--overwrite"):
        command.run(parse(arguments))
    assert out.read_text() == "id,value\nc1,3.5\n"
    command.run(parse([*arguments, "--overwrite"]))
    assert len(pd.read_csv(out)) == 3


@pytest.mark.parametrize(
    ("factor", "more"), [(1e200, ("--no-scaling",)), (1, ("--lengthscale", "1e-300"))]
)
def test_no_batch_holds_nan(tmp_path, factor, more):
    frame = library()
    done = evaluations(frame)
    try:
        batch = run(tmp_path, frame.assign(size=frame["size"] * factor), done, *more)
    except ValueError:
        assert not (tmp_path / "next.csv").exists()
    else:
        assert np.isfinite(batch[["mean", "standard_deviation"]].to_numpy()).all()


def test_a_hostile_folder_runs_nothing(tmp_path):
    """Modules in the folder of the data are not imported."""
    (tmp_path / "pandas.py").write_text("open('executed', 'w')\nraise SystemExit(3)\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise SystemExit(4)\n")
    write(tmp_path / "library.csv", library())
    arguments = [ROOT / "scripts" / "suggest", "--candidates", "library.csv", "--batch", "2"]
    subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True)
    assert not (tmp_path / "executed").exists()
    assert len(pd.read_csv(tmp_path / "next.csv")) == 2


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ValueError, match="l.xlsx needs the package openpyxl"):
        tables.read_ids(tmp_path / "l.xlsx", None)
    with pytest.raises(ValueError, match="next.xlsx needs the package openpyxl"):
        run(tmp_path, library(), None, out="next.xlsx")


def test_the_example_is_what_its_script_makes():
    for name, table in make.tables().items():
        pd.testing.assert_frame_equal(pd.read_csv(make.FOLDER / name), table)
    candidates = tables.read_candidates(make.FOLDER / "library.csv")
    done = tables.read_evaluations(make.FOLDER / "done.csv", candidates)
    assert len(np.unique(done.arms)) == len(done.arms) - 1 == make.MEASURED


def test_random_batches_and_simple_regret():
    """Random batches of the closed loop repeat no candidate."""
    values = np.arange(50.0)
    found = closed_loop.random_values(values, 5, 10, seed=3)
    assert found.shape == (5, 10) and set(found.ravel()) == set(values)
    regret = closed_loop.simple_regret(np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 0.0]]), 6.0)
    np.testing.assert_array_equal(regret, [3, 3, 1])
