"""`jsketch-suggest`: batches, constraints, messages, the page, and files that are not replaced."""

import base64
import re
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import jax
import numpy as np
import openpyxl
import pandas as pd
import pytest
from rows import check_refusals
from suggest_command import A, evaluations, library, run, truth, write

from jsketch import kernels
from jsketch.suggest import Columns, Mixed, data, posterior
from jsketch.suggest import library as suggest_library
from jsketch.suggest.discrete import pack_bits
from jsketch.suggest.tables import candidates as tables
from jsketch.suggest.tables import inputs, messages, pictures
from jsketch.suggest.tables import outputs as command
from jsketch.suggest.tables.options import parse

ROOT = Path(__file__).parents[2]


def rows_of(batch):
    return batch["id"].str[1:].astype(int).to_numpy()


def test_rounds_of_suggestions_find_the_best(tmp_path, capsys):
    """`--minimize` suggests the same candidates for negated values. Observed ids may repeat."""
    frame = library()
    batch = run(tmp_path, frame, None, "--batch", "8")
    printed = capsys.readouterr().out
    assert printed.startswith("Continue: nothing was measured yet; this batch is spread over")
    assert printed.count("spread over") == 1 and len(set(batch["id"])) == 8
    done = evaluations(frame, [3, 5, 3])
    for _ in range(2):
        batch = run(tmp_path, frame, done, "--batch", "9")
        assert list(batch.columns) == ["id", "predicted", "low_90", "high_90"]
        assert len(set(batch["id"])) == 9 and not set(batch["id"]) & set(done["id"])
        done = pd.concat([done, evaluations(frame, rows_of(batch))])
    assert done["value"].max() >= np.sort(truth(frame))[-2]
    options = ("--pending", write(tmp_path / "pending.csv", frame[["id"]][:20]))
    maximized = run(tmp_path, frame, done, *options)
    minimized = run(tmp_path, frame, done.assign(value=-done["value"]), "--minimize", *options)
    assert list(maximized["id"]) == list(minimized["id"])
    assert not set(maximized["id"]) & set(frame["id"][:20])
    np.testing.assert_allclose(maximized["predicted"], -minimized["predicted"])


def test_the_evidence_of_all_points_is_the_likelihood():
    """With fewer inducing points the evidence is smaller. It is largest at the lengthscale 0.5."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, (40, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * random.standard_normal(40)
    ratios = np.array([1e-3, 1e-2, 0.1])
    likelihoods, evidence_bound = [], jax.jit(posterior.evidence_bound)
    for lengthscale in (0.1, 0.5, 3.0):
        kernel = kernels.Gaussian(lengthscale)
        with_all_points = evidence_bound(kernel, x, y, x, ratios)
        with_15_points = evidence_bound(kernel, x, y, x[:15], ratios)
        for r, ratio in enumerate(ratios):
            gram = np.asarray(kernel.gram(x, x)) + ratio * np.eye(40)
            scale = np.sqrt(y @ np.linalg.solve(gram, y) / 40)
            dense = -0.5 * (40 * np.log(2 * np.pi * scale**2) + np.linalg.slogdet(gram)[1] + 40)
            assert float(with_all_points.log_likelihood[r]) == pytest.approx(dense, rel=1e-6)
            assert float(with_all_points.scale[r]) == pytest.approx(scale, rel=1e-6)
            assert float(with_15_points.log_likelihood[r]) <= dense + 1e-6
            likelihoods.append(dense)
    # three ratios for each lengthscale
    assert np.argmax(likelihoods) // 3 == 1


def test_scaling_by_powers_of_two_is_exact():
    values = np.random.default_rng(0).standard_normal((50, 3)) * [1e-300, 1.0, 1e290]
    assert (data.power_of_two(values, 0) <= np.abs(values).max(0)).all()
    for x, column in zip(values.T, data.scaled_to_unit(values).T, strict=True):
        unit = data.power_of_two(x)
        np.testing.assert_array_equal(x / unit * unit, x)
        assert column.min() == 0 and column.max() == 1
    x = 1e5 * values[:, 1:2] ** [1, 3]
    np.testing.assert_array_equal(data.scaled_to_unit(x), (x - x.min(0)) / np.ptp(x, axis=0))
    assert data.power_of_two(np.zeros(3)) == data.power_of_two(np.zeros(0)) == 1


def priced_library():
    heat = np.repeat([20, 40, 60], 20)
    return library().assign(heat=heat, price=1 + np.arange(A) % 7)


EVALUATED_ROWS = range(0, A, 7)  # rows with evaluations


def test_batches_of_one_temperature_and_within_a_budget(tmp_path, capsys):
    """Excluded candidates are not suggested, the cost is no feature, and the budget ends a
    batch."""
    frame = priced_library()
    done, report = evaluations(frame, EVALUATED_ROWS), tmp_path / "page.html"
    excluded = write(tmp_path / "never.csv", frame[["id"]][45:])
    more = ("--same", "heat", "--exclude", excluded, "--report", str(report))
    batch = run(tmp_path, frame, done, *more)
    html, rows = report.read_text(), rows_of(batch)
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(images) == 8  # a grid, the map, four effects, the best so far and the fit
    assert all(base64.b64decode(picture)[1:4] == b"PNG" for picture in images)
    assert all(f">{name}</td>" in html for name in batch["id"])
    assert len(set(frame["heat"][rows])) == 1 and not (rows >= 45).any()
    printed = capsys.readouterr().out
    assert f"the whole batch has heat = {frame['heat'][rows[0]]}" in printed
    assert printed.startswith("Continue: the best is ") and "expected to gain" in html
    budget = frame["price"][list(EVALUATED_ROWS)].sum() + 3
    rows = rows_of(run(tmp_path, frame, done, "--cost", "price", "--budget", str(budget)))
    printed, cost = capsys.readouterr().out, frame["price"][rows].sum()
    assert cost <= 3 and len(rows) < 4 and "3 numbers" in printed
    assert f"the batch costs {cost}; 3 of the budget of {budget} was left" in printed
    assert f", enough for {len(rows)} of 4 candidates" in printed


def test_pictures_show_the_names_of_columns_and_not_formulas():
    def draw_title(name):
        return pictures.importance([name], np.ones(1)).png

    assert draw_title("$a_b_c$")[1:4] == b"PNG"  # a formula with two subscripts is an error
    assert draw_title("$a$") != draw_title(r"$\mathit{a}$")  # as formulas they look the same


def test_a_failed_evaluation_lowers_the_chance_of_others(tmp_path, capsys):
    frame = priced_library()
    done = evaluations(frame, EVALUATED_ROWS).astype({"value": object})
    done.iloc[[1, 4], 1] = ["failed", "Failed"]
    batch = run(tmp_path, frame, done, "--explain")
    printed = capsys.readouterr().out
    assert "9 evaluations, 2 of them failed" in printed
    assert not np.isin(rows_of(batch), EVALUATED_ROWS).any()
    assert ((batch["chance_of_success"] > 0) & (batch["chance_of_success"] < 1)).all()
    chance = round(100 * batch["chance_of_success"][0])
    assert f"Its chance of success is {chance}%" in printed


def test_files_have_few_digits_and_conditions_as_in_the_sheet(tmp_path, monkeypatch, capsys):
    """A batch with conditions of 17 digits is read as the candidates that were chosen."""
    frame = chemistry().astype({"Yield (%)": object})
    frame.loc[5, "Yield (%)"] = "failed"
    frame.to_csv(tmp_path / "sheet.csv", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.csv", "--all-scores", "all.csv")
    assert "not used as conditions" not in capsys.readouterr().out
    sheet, batch, scores = (
        pd.read_csv(tmp_path / name, dtype=str).set_index("Entry")
        for name in ("sheet.csv", "next.csv", "all.csv")
    )
    for name in ("size", "mass", "T (C)"):
        assert (batch[name] == sheet[name][batch.index]).all() and sheet[
            "mass"
        ].str.len().max() > 17
    for name in ("predicted", "low_90", "high_90", "chance_of_success"):
        assert batch[name].str.len().max() <= 5, name
    for name in ("predicted", "low_90", "high_90"):
        assert scores[name].str.len().max() <= 5, name
    assert scores["score"].str.lstrip("-0.").str.len().max() <= 7
    batch.assign(**{"Yield (%)": "61.5"}).to_csv(tmp_path / "next.csv")
    suggest_in(tmp_path, monkeypatch, "sheet-batch1.csv", "--observations", "next.csv")
    assert "16 evaluations, 1 of them failed" in capsys.readouterr().out


def test_reasons_name_the_closest_measured_candidate_and_the_column(tmp_path, capsys):
    """c1 is close to the best candidate, c0. Without values a reason names no candidate."""
    frame = priced_library().drop(columns="price")
    frame.loc[1, ["size", "mass", "heat"]] = frame.loc[0, ["size", "mass", "heat"]]
    frame.loc[1, "size"] += 0.01
    done = pd.DataFrame({"id": ["c0", "c59"], "value": [-9.0, 3.0]})
    others = write(tmp_path / "others.csv", frame[["id"]][2:])
    more = ("--batch", "1", "--exclude", others, "--minimize", "--explain")
    run(tmp_path, frame, done, *more)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("c1:"))
    assert line.startswith("c1: the prediction with its 90% interval is ")
    assert " It tests size 0.2839 instead of 0.2739 against c0 (-9)." in line
    report = tmp_path / "page.html"
    run(tmp_path, frame, None, "--explain", "--report", str(report))
    assert report.read_text().count("data:image/png") == 1  # the map
    printed = capsys.readouterr().out
    assert printed.startswith("Continue: nothing was measured yet; ")
    assert "the prediction" not in printed
    assert "It differs much from the other candidates." in printed


def test_distances_in_reasons_and_maps_are_those_of_the_kernel():
    """Maps have these distances too, except for fingerprints. Points of a plane need two axes."""
    random = np.random.default_rng(1)
    level, bits = random.integers(0, 3, 8), pack_bits(random.integers(0, 2, (8, 40)))
    x = np.hstack([random.random((8, 2)), np.eye(3)[level], bits])
    columns = (Columns("numbers", 2), Columns("category", 3), Columns("bits", bits.shape[1]))
    scaled_library = suggest_library(x, columns, scaling=False)
    lengths = np.array([0.5, 1.0, 2.0, 0.7])
    squared = messages.squared_distances(scaled_library, x[0], x[1])
    r = np.sqrt(5 * (squared / lengths**2).sum())
    kernel = Mixed(lengths, columns).gram(scaled_library.features[:1], scaled_library.features[1:2])
    assert float(kernel[0, 0]) == pytest.approx((1 + r + r * r / 3) * np.exp(-r), rel=1e-9)
    scaled_features = pictures.features_over_lengthscale(scaled_library, lengths, np.arange(8))
    on_map = np.square(scaled_features[0, :5] - scaled_features[1, :5]).sum()
    assert on_map == pytest.approx((squared / lengths**2)[:3].sum(), rel=1e-12)
    plane = x[:, :2] @ random.standard_normal((2, 5))
    points, share = pictures.principal_components(plane)
    assert share == pytest.approx(1)
    distances = [np.linalg.norm(x[0] - x[1:], axis=1) for x in (points, plane)]
    np.testing.assert_allclose(*distances)


def test_requests_that_cannot_be_met_are_refused(tmp_path):
    """--same takes the column in which all candidates of a batch are equal."""
    frame, out = priced_library(), str(tmp_path)
    rows = [
        (("--same", "cold"), "has no column 'cold'"),
        (("--cost", "price", "--same", "price"), "give the column 'price' two meanings"),
        (("--cost", "size"), "column 'size': a cost must be above 0; it is '-0"),
        (("--cost", "price", "--budget", "3"), "evaluations cost .* of the budget of 3: "),
        (("--batch", "59"), "59 is more than the 51 candidates .*: of 60 .* 9 were evaluated"),
        (("--report", f"{out}/next.csv"), "--report and --out are both .*: name two files"),
        (("--all-scores", f"{out}/next.csv"), "--out and --all-scores are both"),
        (("--all-scores", f"{out}/library.csv"), "--all-scores .* is also the file of the sheet"),
        (("--out", f"{out}/no/next.csv"), "next.csv cannot be written: its folder does not exist"),
        (("--out", f"{out}/next.xlsm"), "next.xlsm: workbooks with macros .*, but not written"),
    ]
    request = partial(run, tmp_path, frame, evaluations(frame, EVALUATED_ROWS))
    check_refusals((partial(request, *more), words) for more, words in rows)
    assert len(pd.read_csv(tmp_path / "library.csv")) == A  # the sheet is not replaced


def test_errors_about_columns_suggest_a_name_or_an_option(tmp_path):
    """The column of values is misspelt or not named; a column of remarks is mostly empty."""
    text = "solvent,heat,Yield [%],remark\nDMF,60,12,\nDMF,80,,\nMeCN,60,31,dark\nMeCN,80,,\n"
    (tmp_path / "sheet.csv").write_text(text)
    call = [str(tmp_path / "sheet.csv"), "--out", str(tmp_path / "next.csv"), "--value"]
    with pytest.raises(ValueError, match=r"no column 'Yield \(%\)' \(did you mean 'Yield \[%\]'\?"):
        inputs.read(parse([*call, "Yield (%)"]))
    with pytest.raises(ValueError, match=r'missing .*, or give --value "Yield \[%\]" if these are'):
        inputs.read(parse(call[:-1]))
    (tmp_path / "blank.csv").write_text(f"\n{text}")
    with pytest.raises(ValueError, match="blank.csv, row 1: it is empty; it needs the column"):
        inputs.read(parse([str(tmp_path / "blank.csv"), *call[1:], "Yield [%]"]))
    words = "'remark': the value is missing; --ignore \"remark\" leaves"
    with pytest.raises(ValueError, match=words):
        inputs.read(parse([*call, "Yield [%]"]))
    assert len(inputs.read(parse([*call, "Yield [%]", "--ignore", "remark"])).goals) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--batch", "0"), "--batch: must be at least 1; 0 was given"),
        (("--error", "value"), "must be different columns; given are value, value"),
        (("--budget", "3"), "name their column with --cost"),
        (("--id", "predicted"), "--id predicted is a column that the command writes"),
        (("--cost", "price", "--acquisition", "ucb"), "leave --acquisition out"),
        (("--seed", "99999999999999999999"), "--seed: must be from 0 to 2^63 - 1"),
        (("--cost", "price", "--budget", "inf"), "--budget: must be a finite number"),
        (("--top", "5", "--acquisition", "ei"), "omit --acquisition and --cost"),
        (("--read", "n.d."), "--read: must be CELL=VALUE, such as n.d.=failed; 'n.d.' was"),
        (("--read", "n.d.=nan"), "--read: must be a finite number; nan was given"),
    ],
)
def test_wrong_options_are_refused_in_two_lines(more, words, capsys):
    with pytest.raises(SystemExit):
        parse(["library.csv", *more])
    usage, error = capsys.readouterr().err.splitlines()
    assert "SHEET --value COLUMN" in usage and words in error


def test_modules_in_the_folder_of_the_data_are_not_imported(tmp_path):
    (tmp_path / "pandas.py").write_text("open('executed', 'w')\nraise SystemExit(3)\n")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("raise SystemExit(4)\n")
    write(tmp_path / "library.csv", library())
    arguments = [ROOT / "scripts" / "suggest", "library.csv", "--batch", "2"]
    subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True)
    assert not (tmp_path / "executed").exists()
    assert len(pd.read_csv(tmp_path / "next.csv")) == 2


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ValueError, match="l.xlsx needs the package openpyxl"):
        tables.read_ids(tmp_path / "l.xlsx", None)
    with pytest.raises(ValueError, match="next.xlsx needs the package openpyxl"):
        run(tmp_path, library(), None, out="next.xlsx")


def test_the_example_tables_are_read():
    folder = ROOT / "experiments" / "suggest" / "example"
    done = tables.read_evaluations(folder / "done.csv", tables.read_sheet(folder / "library.csv"))
    assert len(np.unique(done.arms)) == len(done.arms) - 1 == 24


def chemistry():
    """A sheet of 60 reactions, 12 of which are measured."""
    frame = priced_library().drop(columns="price").rename(columns={"id": "Entry", "heat": "T (C)"})
    values = (60 + 12 * truth(frame)).round(1).astype(object)
    values[np.arange(A) % 5 != 0] = None
    return frame.assign(**{"Yield (%)": values})


VALUE = ("--value", "Yield (%)")


def suggest_in(tmp_path, monkeypatch, *arguments):
    """Runs the command in a folder. The outputs have their default names."""
    monkeypatch.chdir(tmp_path)
    command.run(parse([*arguments, *VALUE, "--batch", "4"]))


def test_a_completed_batch_is_read_and_copied_into_the_sheet(tmp_path, monkeypatch, capsys):
    frame = chemistry()
    frame.to_excel(tmp_path / "sheet.xlsx", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.xlsx")
    batch = pd.read_excel(tmp_path / "next.xlsx")
    assert batch["Yield (%)"].isna().all() and {"T (C)", "predicted", "low_90"} <= set(batch)
    rows = batch["Entry"].str[1:].astype(int)
    assert not (rows % 5 == 0).any()
    pd.testing.assert_series_equal(batch["size"], frame["size"][rows], check_index=False)
    marked = pd.read_excel(tmp_path / "sheet-batch1.xlsx")
    np.testing.assert_array_equal(np.flatnonzero(marked["suggested_batch"] == 1), np.sort(rows))
    # two of four were measured
    batch["Yield (%)"] = np.array(["71,5", None, "failed", None], object)
    batch.to_excel(tmp_path / "next.xlsx", index=False)
    capsys.readouterr()
    suggest_in(tmp_path, monkeypatch, "sheet-batch1.xlsx", "--observations", "next.xlsx")
    assert "14 evaluations, 1 of them failed" in capsys.readouterr().out
    second = pd.read_excel(tmp_path / "next2.xlsx")
    assert (second["suggested_batch"] == 2).all() and not set(second["Entry"]) & set(batch["Entry"])
    marked = pd.read_excel(tmp_path / "sheet-batch2.xlsx").set_index("Entry")
    assert marked["Yield (%)"][batch["Entry"][0]] == 71.5
    assert marked["Yield (%)"][batch["Entry"][2]] == "failed"
    # the copy has all values, and suffices alone
    suggest_in(tmp_path, monkeypatch, "sheet-batch2.xlsx")
    printed = capsys.readouterr().out
    assert "14 evaluations, 1 of them failed" in printed
    step = "\nNext: type the results into the column 'Yield (%)' of sheet-batch3.xlsx, and run the"
    assert f"{step} command again with sheet-batch3.xlsx as the sheet; for results in" in printed


@pytest.mark.parametrize("has_ids", [True, False])
def test_conditions_that_differ_from_those_of_the_sheet_are_refused(tmp_path, monkeypatch, has_ids):
    """Without ids, the row numbers of a batch are those of other candidates in a sorted sheet."""
    frame = chemistry() if has_ids else chemistry().drop(columns="Entry")
    frame.to_excel(tmp_path / "sheet.xlsx", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.xlsx")
    batch = pd.read_excel(tmp_path / "next.xlsx").assign(**{"Yield (%)": [50, 51, 52, 53]})
    batch.to_excel(tmp_path / "next.xlsx", index=False)
    marked = pd.read_excel(tmp_path / "sheet-batch1.xlsx").sort_values("mass")
    marked.to_excel(tmp_path / "sheet-batch1.xlsx", index=False)
    next_call = "sheet-batch1.xlsx", "--observations", "next.xlsx"
    if not has_ids:
        words = "row 2, column 'size': it is .* if the rows were moved"
        with pytest.raises(ValueError, match=words):
            suggest_in(tmp_path, monkeypatch, *next_call)
        return
    suggest_in(tmp_path, monkeypatch, *next_call)
    batch.assign(size=batch["size"] + [0, 0.1, 0, 0]).to_excel(tmp_path / "next.xlsx", index=False)
    with pytest.raises(ValueError, match="row 3, column 'size': it is .* Correct the id or"):
        suggest_in(tmp_path, monkeypatch, *next_call, "--overwrite")


def test_values_are_copied_in_the_dialect_of_the_sheet(tmp_path, monkeypatch):
    """A point would separate thousands in a table of semicolons and decimal commas."""
    frame = chemistry().rename(columns={"Entry": "id"})
    frame["Yield (%)"] = frame["Yield (%)"].map(
        lambda v: "" if v is None else f"{v:.3f}".replace(".", ",")
    )
    frame.to_csv(tmp_path / "sheet.csv", index=False, sep=";", decimal=",")
    suggest_in(tmp_path, monkeypatch, "sheet.csv")
    batch = pd.read_csv(tmp_path / "next.csv", sep=";", dtype=str)
    batch["Yield (%)"] = ["2,125", "31,5", "60", "failed"]
    batch.to_csv(tmp_path / "next.csv", index=False, sep=";")
    suggest_in(tmp_path, monkeypatch, "sheet-batch1.csv", "--observations", "next.csv")
    sheet = tables.read_sheet(tmp_path / "sheet-batch2.csv", tables.Roles(results=VALUE[1:]))
    evaluated = sheet.candidates.ids[sheet.evaluations.arms]
    done = dict(zip(evaluated, sheet.evaluations.values, strict=True))
    assert len(done) == 16
    np.testing.assert_array_equal([done[i] for i in batch["id"]], [2.125, 31.5, 60, np.nan])


def save_as_excel_does(book, path):
    """Saves a workbook with the results of its formulas, each of which copies a cell."""
    book.save(path)
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}

    def with_result(match):
        value = book.active[match[2].removeprefix("=")].value
        kind, result = (' t="str"', "") if value is None else ("", value)
        return f"{match[1]}{kind}><f>{match[2]}</f><v>{result}</v></c>"

    part = "xl/worksheets/sheet1.xml"
    pattern = r"(<c [^>]*)><f>([^<]*)</f><v */?>(?:</v>)?</c>"
    parts[part] = re.sub(pattern, with_result, parts[part].decode()).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)


def test_results_of_formulas_are_read_and_copied(tmp_path, monkeypatch, capsys):
    """A file that lacks the result of a formula is refused, unless its column is not used."""
    chemistry().assign(raw=chemistry()["Yield (%)"]).to_excel(tmp_path / "a.xlsx", index=False)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    sheet = book.active
    assert [cell.value for cell in sheet[1]][4:] == ["Yield (%)", "raw"]
    for row in range(2, A + 2):  # an empty text is the result where nothing was measured
        sheet.cell(row, 5).value = f"=F{row}"
    sheet["A2"].font, sheet.column_dimensions["B"].width = openpyxl.styles.Font(bold=True), 33
    save_as_excel_does(book, tmp_path / "sheet.xlsx")
    for i, name in enumerate(("sheet.xlsx", "sheet-batch1.xlsx", "sheet-batch2.xlsx"), 1):
        suggest_in(tmp_path, monkeypatch, name, "--ignore", "raw")
        assert f"12 evaluations{'; ' * (i > 1)}" in capsys.readouterr().out
    copy = openpyxl.load_workbook(tmp_path / "sheet-batch3.xlsx").active
    assert copy["A2"].font.bold and copy.column_dimensions["B"].width == 33
    book.save(tmp_path / "b.xlsx")
    refusal = r"b.xlsx, row 2, column 'Yield \(%\)': the file lacks the result of a formula; save"
    for files in (("b.xlsx",), ("a.xlsx", "--observations", "b.xlsx")):
        with pytest.raises(ValueError, match=refusal):
            suggest_in(tmp_path, monkeypatch, *files, "--ignore", "raw")
    for row in range(2, A + 2):
        sheet.cell(row, 5).value, sheet.cell(row, 6).value = sheet.cell(row, 6).value, f"=E{row}"
    book.save(tmp_path / "c.xlsx")
    suggest_in(tmp_path, monkeypatch, "c.xlsx", "--ignore", "raw", "--overwrite")
    assert "12 evaluations" in capsys.readouterr().out


def test_every_call_finds_the_same_separator(tmp_path, monkeypatch):
    """The header has as many commas as semicolons."""
    frame = chemistry().rename(columns={"Entry": "id", "T (C)": "T, C", "mass": "mass, g"})
    frame = frame.drop(columns="size").rename(columns={"Yield (%)": "Yield, %"})
    frame.to_csv(tmp_path / "sheet.csv", index=False, sep=";", decimal=",")
    frame[:10].to_csv(tmp_path / "done.csv", index=False, sep=";", decimal=",")
    monkeypatch.chdir(tmp_path)
    call = ["sheet.csv", "--value", "Yield, %"]
    read = [inputs.read(parse([*call, *more])) for more in ((), ("--observations", "done.csv"))]
    assert [i.candidates.names for i in read] == [["mass, g", "T, C"]] * 2
    assert [len(i.goals) for i in read] == [12, 12]


@pytest.mark.parametrize("separator", [",", ";"])
def test_csv_outputs_begin_with_a_byte_order_mark(tmp_path, monkeypatch, separator):
    """Without a byte order mark Excel shows °C as Â°C."""
    frame = chemistry().rename(columns={"T (C)": "T (°C)"})
    decimal = "," if separator == ";" else "."
    frame.to_csv(tmp_path / "sheet.csv", index=False, sep=separator, decimal=decimal)
    suggest_in(tmp_path, monkeypatch, "sheet.csv", "--all-scores", "all.csv")
    for name in ("next.csv", "sheet-batch1.csv", "all.csv"):
        assert (tmp_path / name).read_bytes().startswith(b"\xef\xbb\xbf")
        names = list(pd.read_csv(tmp_path / name, sep=separator))
        assert "Entry" in names and ("T (°C)" in names) == (name != "all.csv")
    suggest_in(tmp_path, monkeypatch, "sheet-batch1.csv", "--observations", "next.csv")
    assert next(iter(pd.read_csv(tmp_path / "sheet-batch2.csv", sep=separator))) == "Entry"


@pytest.mark.parametrize(("more", "n_candidates"), [((), 5), (("--same", "heat"), 3)])
def test_the_last_candidates_are_a_smaller_batch(tmp_path, capsys, more, n_candidates):
    """With --batch, more candidates than are left are an error."""
    frame = priced_library().drop(columns="price")
    rows = np.setdiff1d(np.arange(A), [3, 4, 50, 51, 52, 53])
    pending = write(tmp_path / "pending.csv", frame[["id"]][53:54])
    call = [write(tmp_path / "sheet.csv", frame), "--pending", pending, *more]
    call += ["--observations", write(tmp_path / "done.csv", evaluations(frame, rows))]
    call += ["--out", str(tmp_path / "next.csv")]
    command.run(parse(call))
    assert len(pd.read_csv(tmp_path / "next.csv")) == n_candidates
    assert f"the size of the batch is {n_candidates}, because" in capsys.readouterr().out
    with pytest.raises(ValueError, match="batch = 8 is "):
        command.run(parse([*call, "--batch", "8", "--overwrite"]))


@pytest.mark.parametrize("ending", [".csv", ".xlsx", ".parquet"])
def test_repeats_are_suggested_and_kept(tmp_path, monkeypatch, ending):
    """A repeat with an equal value counts too, and has a row in the copy of the sheet."""
    frame = library(12)
    frame["Yield (%)"] = np.round(truth(frame) + [0.5, -0.5] * 6, 1)
    write(tmp_path / f"sheet{ending}", frame)
    suggest_in(tmp_path, monkeypatch, f"sheet{ending}", "--replicates")
    batch = command.cells.read(tmp_path / f"next{ending}", ["id"]).frame
    old_values = frame.set_index("id")["Yield (%)"][batch["id"]].tolist()
    values = [old_values[0], 1.25, "failed", ""]
    filled = batch.assign(**{"Yield (%)": [str(value) for value in values]})
    write(tmp_path / f"next{ending}", filled)
    more = ("--observations", f"next{ending}", "--replicates")
    suggest_in(tmp_path, monkeypatch, f"sheet-batch1{ending}", *more)
    sheet = tables.read_sheet(tmp_path / f"sheet-batch2{ending}", tables.Roles(results=VALUE[1:]))
    done = sheet.evaluations
    assert len(sheet.candidates.ids) == 12 and len(done.arms) == 15
    names = sheet.candidates.ids[done.arms[12:]].tolist()
    assert names == batch["id"].tolist()[:3]
    np.testing.assert_array_equal(done.values[12:], [old_values[0], 1.25, np.nan])


def test_scores_of_all_candidates_are_written(tmp_path):
    frame = library()
    done, path = evaluations(frame), tmp_path / "all.parquet"
    pending = write(tmp_path / "pending.csv", frame[["id"]][1:2])
    more = ("--pending", pending, "--all-scores", str(path))
    batch = run(tmp_path, frame, done, *more).set_index("id")
    scores = pd.read_parquet(path).set_index("id")
    assert scores.index.tolist() == frame["id"].tolist() and scores["state"]["c1"] == "pending"
    assert set(scores.index[scores["state"] == "measured"]) == set(done["id"])
    assert set(scores.index[scores["state"] == "suggested"]) == set(batch.index)
    for name in ("predicted", "low_90", "high_90"):
        np.testing.assert_allclose(scores[name][batch.index], batch[name], atol=0.01)
    assert scores["score"][scores["state"] == ""].max() <= scores["score"][batch.index[0]]
    with pytest.raises(ValueError, match=r"all.parquet exists"):
        run(tmp_path, frame, done, *more)


def test_a_batch_for_the_top_has_several_of_the_best_candidates(tmp_path):
    """With --top 10 a batch has at least five of the ten best, and no fewer than without it."""
    frame = library()
    done, top_ten, counts = evaluations(frame, range(0, A, 5)), np.argsort(-truth(frame))[:10], []
    for more in ((), ("--top", "10")):
        rows = rows_of(run(tmp_path, frame, done, "--batch", "8", *more))
        counts.append(np.isin(rows, top_ten).sum())
    assert counts[1] >= max(counts[0], 5)


def test_a_first_batch_predicts_nothing(tmp_path, monkeypatch):
    """The sheet has no values, or the files of --observations and --pending have no rows."""
    chemistry().assign(**{"Yield (%)": ""}).to_csv(tmp_path / "sheet.csv", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.csv")
    assert "predicted" not in pd.read_csv(tmp_path / "next.csv")
    frame = library()
    pending = write(tmp_path / "pending.csv", frame[["id"]][:0])
    batch = run(tmp_path, frame, evaluations(frame)[:0], "--pending", pending, out="other.csv")
    assert len(batch) == 4 and "predicted" not in batch


def test_cells_of_values_are_read_or_refused_together(tmp_path, monkeypatch, capsys):
    cells = ["45%", "45,3", "44.1", "failed", "n/a", ""]
    frame = library(12).assign(**{"Yield (%)": cells * 2})
    frame.to_csv(tmp_path / "sheet.csv", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.csv")
    assert "8 evaluations, 2 of them failed" in capsys.readouterr().out
    other = frame.assign(**{"Yield (%)": ["<5", "n.d.", "1,500", "45 or 46", "7", ""] * 2})
    other.to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match=r"'<5' \(row 2\), 'n.d.' \(row 3\), .* and 3 more; write"):
        suggest_in(tmp_path, monkeypatch, "other.csv")
    # the message has one option for all cells, quoted for every shell
    with pytest.raises(ValueError, match='--read "<5=..." "n.d.=..." "1,500=..." "45 or 46=..."'):
        suggest_in(tmp_path, monkeypatch, "other.csv")
    readings = ("--read", "<5=2.5", "N.D.=failed", "--read", "1,500=1500", "45 or 46=")
    suggest_in(tmp_path, monkeypatch, "other.csv", *readings, "--out", "read.csv")
    assert "8 evaluations, 2 of them failed" in capsys.readouterr().out
    roles = tables.Roles(results=VALUE[1:], readings=parse(["s.csv", *readings]).read)
    done = tables.read_sheet(tmp_path / "other.csv", roles).evaluations
    np.testing.assert_array_equal(done.arms, [0, 1, 2, 4, 6, 7, 8, 10])
    np.testing.assert_array_equal(done.values, [2.5, np.nan, 1500, 7] * 2)


def test_a_complete_sheet_is_refused_without_other_observations(tmp_path, monkeypatch, capsys):
    frame = library().assign(**{"Yield (%)": 1.0 + np.arange(A)})
    frame.to_csv(tmp_path / "sheet.csv", index=False)
    with pytest.raises(ValueError, match=r"none is left .* The best is c59 with 60\."):
        suggest_in(tmp_path, monkeypatch, "sheet.csv")
    # with --observations the values in sheet.csv are neither used nor counted
    frame[:9].to_csv(tmp_path / "done.csv", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.csv", "--observations", "done.csv")
    batch = pd.read_csv(tmp_path / "next.csv")
    assert not set(batch["id"]) & set(frame["id"][:9])
    assert [path.name for path in tmp_path.glob("*batch*")] == []
    batch["Yield (%)"] = [1.0, 2.0, 3.0, "failed"]
    batch.to_csv(tmp_path / "next.csv", index=False)
    capsys.readouterr()
    suggest_in(tmp_path, monkeypatch, "sheet.csv", "--observations", "done.csv", "next.csv")
    printed = capsys.readouterr().out
    assert "13 evaluations, 1 of them failed" in printed
    assert "run the command again with next2.csv added to --observations" in printed


def test_unusual_columns_and_values_are_mentioned(tmp_path, capsys):
    frame, done = library(), evaluations(library())
    area = np.exp(truth(frame))
    outlier = done.assign(value=done["value"].where(done.index != 8, 1e9))
    for columns, observations, *words in [
        (dict(cost=np.arange(A)), None, "unless they are renamed: 'cost'", "each with 2 numbers;"),
        # without --value the column of yields would silently be a condition
        ({"Yield (%)": np.arange(A)}, None, "no column 'value', so that no value was read"),
        ({"HPLC area": area}, done, "WARNING: the column 'HPLC area'", '--ignore "HPLC area"'),
        ({}, outlier, "WARNING: 1e+09 is more than 1000 times as far"),
        (dict(size=frame["size"].where(frame.index != 4, 1e6)), done, "90% of the column 'size'"),
        (dict(mass=np.resize(["THF", "thf", "DMF"], A)), None, "'THF' and 'thf' are read as diff"),
        (dict(mass=np.resize(["2-MeTHF", "1,4-dioxane"], A)), None, "most of them begin with a di"),
    ]:
        run(tmp_path, frame.assign(**columns), observations)
        printed = capsys.readouterr().out
        assert all(word in printed for word in words) and printed.count("WARNING") <= 1, words
    run(tmp_path, frame.assign(value=""))
    assert "no column" not in capsys.readouterr().out


def test_a_value_at_a_bound_ends_the_campaign(tmp_path, monkeypatch, capsys):
    """The value may differ from the bound by --tolerance."""
    frame = chemistry()
    frame["Yield (%)"] = frame["Yield (%)"].where(frame["Yield (%)"].isna(), 100.0)
    frame.loc[[0, 5], "Yield (%)"] = [99.9, 99.8]
    frame.to_csv(tmp_path / "sheet.csv", index=False)
    suggest_in(tmp_path, monkeypatch, "sheet.csv", "--bounds", "0", "100")
    printed = capsys.readouterr().out
    assert re.match(r"Stop: the best is 100 \(.*\), the largest value that is possible\.", printed)
    assert "\nIf you go on: type the results into" in printed
    frame["Yield (%)"] = (frame["Yield (%)"] - 95).where(frame["Yield (%)"] == 99.8)
    frame.to_csv(tmp_path / "one.csv", index=False)
    more = ("one.csv", "--bounds", "0", "5", "--out", "a.csv")
    suggest_in(tmp_path, monkeypatch, *more, "--tolerance", "0.3")  # one value of 4.8
    assert "), within 0.3 of 5, the largest value that is" in capsys.readouterr().out
    suggest_in(tmp_path, monkeypatch, *more, "--tolerance", "0.1", "--overwrite")
    assert capsys.readouterr().out.startswith("Continue: ")


@pytest.mark.parametrize(("target", "stops"), [(1.2, False), (None, True)])
def test_a_value_at_the_target_ends_the_campaign(tmp_path, capsys, target, stops):
    frame = library()
    done = evaluations(frame, range(0, A, 6))
    target = done["value"][18] + 1e-4 if target is None else target
    run(tmp_path, frame, done, "--target", str(target))
    printed = capsys.readouterr().out
    assert re.match(r"Stop: the best is \S+ \(c18: " if stops else "Continue: the best is", printed)
    assert "of the target of" in printed if stops else "from the target" in printed


def test_a_target_changes_the_candidates_but_not_their_predictions(tmp_path):
    """Predictions equal those without a target, and candidates have values near the target."""
    frame = library()
    done = evaluations(frame, range(0, A, 2))
    batch = run(tmp_path, frame, done, "--target", "1.2")
    distance = np.abs(truth(frame) - 1.2)[rows_of(batch)]
    assert distance.mean() < np.abs(truth(frame) - 1.2).mean() / 2
    np.testing.assert_allclose(batch["predicted"], truth(frame)[rows_of(batch)], atol=0.2)
    no_target = run(tmp_path, frame, done, "--batch", "30").set_index("id").loc[batch["id"]]
    for name in ("predicted", "low_90", "high_90"):
        np.testing.assert_allclose(batch[name], no_target[name], atol=0.01)


@pytest.mark.parametrize("goal", [(), ("--minimize",), ("--target", "1.2")])
def test_the_distance_of_a_poor_outlier_changes_no_batch(tmp_path, goal):
    """The goals are the largest value, the smallest one, and a value near 1.2."""
    frame, batches = library(), []
    for distance in (20.0, 800.0):
        done = evaluations(frame, range(0, A, 3))
        done.iloc[4, 1] = distance if goal else -distance
        batches.append(run(tmp_path, frame, done, *goal))
    assert list(batches[0]["id"]) == list(batches[1]["id"])
    if "--target" not in goal:
        pd.testing.assert_frame_equal(*batches)


def test_the_first_column_of_different_words_is_the_id(tmp_path, capsys):
    frame = library().rename(columns={"id": "Reaction"})
    frame["solvent"] = np.resize(["water", "DMF"], A)
    arguments = [write(tmp_path / "sheet.csv", frame), "--batch", "3"]
    arguments += ["--out", str(tmp_path / "next.csv")]
    command.run(parse(arguments))
    assert "the ids are in the column 'Reaction'" in capsys.readouterr().out
    assert set(pd.read_csv(tmp_path / "next.csv")["Reaction"]) <= set(frame["Reaction"])
    # an option that names a column determines its kind
    with pytest.raises(ValueError, match="column 'Reaction': the word has 3 letters"):
        command.run(parse([*arguments, "--overwrite", "--sequence", "Reaction", "--id", "size"]))
