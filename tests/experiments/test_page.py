"""The page of `jsketch-suggest`; factors, main effects and grids compared with brute force."""

import itertools
import re
import shlex

import jax
import numpy as np
import oracles
import pandas as pd
import pytest
from scipy import stats
from suggest_command import library, write

from jsketch.suggest import Mixed
from jsketch.suggest.tables import factors, messages, page, pictures
from jsketch.suggest.tables.inputs import goal as goal_of
from jsketch.suggest.tables.inputs import read
from jsketch.suggest.tables.options import parse
from jsketch.suggest.tables.results import compute

BASES, LIGANDS, HEAT = ("KOAc", "CsOAc"), ("XPhos", "PPh3", "PCy3"), (20, 40, 60)


def reactions():
    """All reactions of two categories and a number. Two thirds have a value."""
    rows = list(itertools.product(BASES, LIGANDS, HEAT))
    frame = pd.DataFrame(rows, columns=["Base", "Ligand", "T (C)"])
    frame.insert(0, "id", [f"r{i}" for i in range(len(frame))])
    value = 20 * (frame["Base"] == "KOAc") + 40 * (frame["Ligand"] == "XPhos") + frame["T (C)"] / 9
    return frame.assign(value=value.round(1).astype(object).where(frame.index % 3 != 1))


def compute_results(tmp_path, frame, more=""):
    sheet = write(tmp_path / "sheet.csv", frame)
    options = parse([sheet, "--batch", "3", *shlex.split(more)])
    return compute(options, read(options), jax.random.key(0))


def test_effects_are_averages_over_the_library(tmp_path):
    """The effect of largest range comes first; intervals are those of the joint posterior."""
    results = compute_results(tmp_path, reactions())
    effects = factors.effects(results)
    ranges = [np.ptp(effect.mean) for effect in effects]
    assert effects[0].factor.name == "Ligand" and ranges == sorted(ranges, reverse=True)
    for effect in effects:
        for i, label in enumerate(effect.factor.labels):
            rows = np.flatnonzero(effect.factor.level == i)
            words = reactions()[effect.factor.name].astype(str)[rows]
            assert set(words) == {label} and len(rows) == 18 / len(effect.factor.labels)
            # in a full grid, candidates whose factor is set to this level are copies of these rows
            mean = results.predicted.mean[rows].mean()
            assert effect.mean[i] == pytest.approx(mean, abs=1e-8)
            assert 0 < effect.std[i] < results.predicted.std[rows].mean()
    # the posterior covariance of all candidates, by dense matrices
    inputs, model = results.inputs, results.model
    kernel, features = Mixed(model.lengthscale, inputs.library.columns), inputs.library.features
    gram = np.asarray(kernel.gram(features, features))
    counts = np.bincount(inputs.arms, minlength=len(gram))
    covariance = oracles.exact(gram, counts, counts, model.ratio)[1] * model.scale**2 * model.ratio
    np.testing.assert_allclose(results.predicted.std**2, np.diag(covariance), rtol=1e-6)
    for effect in effects:
        rows = np.flatnonzero(effect.factor.level == 0)
        variance = covariance[np.ix_(rows, rows)].mean()
        assert effect.std[0] == pytest.approx(variance**0.5, rel=1e-6)


def test_intervals_are_as_wide_as_the_errors_of_left_out_values(tmp_path):
    """The quantiles of the intervals are those of Student's distribution."""
    results = compute_results(tmp_path, reactions())
    observed, std = results.left_out.observed, results.left_out.std
    three_off = results.left_out._replace(mean=observed + 3 * std)
    no_error = results.left_out._replace(mean=observed)
    no_error_of_10_000 = no_error._replace(at=np.arange(10_000))
    assert len(no_error.at) == 12
    quantile, normal = stats.t.ppf(0.95, [2, 2499])
    assert normal == pytest.approx(1.645, abs=1e-3)
    cases = (three_off, 3 * quantile), (no_error, quantile), (no_error_of_10_000, normal)
    for left_out, factor in cases:
        mean, low, high = results._replace(left_out=left_out).intervals(np.arange(18))
        half_width = factor * results.predicted.value_std
        np.testing.assert_allclose(mean, results.predicted.mean)
        np.testing.assert_allclose([low, high], [mean - half_width, mean + half_width], rtol=1e-9)


def test_the_verdict_names_the_best_measured_candidate(tmp_path):
    """The value of a repeated candidate is its mean. A verdict to stop names the candidate with
    the best prediction, and the candidate with the largest value."""
    results = compute_results(tmp_path, reactions())
    inputs = results.inputs
    assert inputs.arms[inputs.goals.argmax()] == 2  # KOAc, XPhos at 60 C
    with_repeats = inputs._replace(
        arms=np.append(inputs.arms, [6, 6, 7]),
        goals=np.append(inputs.goals, [90.0, 10.0, 70.0]),
        measured=np.append(inputs.measured, [90.0, 10.0, 70.0]),
    )
    gain = dict(of_any=np.full(9, 5.0), of_batch=np.full(9, 4.0), best=2)
    results = results._replace(inputs=with_repeats, gain=results.gain._replace(**gain))
    assert messages.verdict(results).startswith("Continue: the best is 70 (r7: KOAc, ")
    assert "expected to gain 4 (90% interval: 4 to 4)." in messages.verdict(results)
    results.options.tolerance = 6.0
    words = messages.verdict(results)
    assert words.startswith("Stop: the best is 66.7 (r2: KOAc, XPhos, T (C) 60);")
    assert words.endswith(" The better value of r7, 70, seems to be chance.")


def test_every_kind_of_column_has_its_factors(tmp_path):
    """Numbers are cut into ranges. A column of words with too many levels is no factor."""
    frame = library(60).assign(seq=["".join("ACDEF"[i * k % 5] for k in (1, 2)) for i in range(60)])
    frame["print"] = [f"{i:06b}" for i in range(60)]
    options = parse([write(tmp_path / "l.csv", frame), "--protein", "seq", "--bits", "print"])
    by_name = {factor.name: factor for factor in factors.factors(read(options))}
    assert set(by_name) == {"size", "mass", "seq[1]", "seq[2]"}
    size, site = by_name["size"], by_name["seq[2]"]
    assert len(size.labels) <= factors.RANGES and " to " in size.labels[0]
    low, high = (float(word) for word in size.labels[0].split(" to "))
    numbers = frame["size"][size.level == 0]
    assert low - 0.01 <= numbers.min() and numbers.max() <= high + 0.01
    assert site.labels == list("ACDEF") and len(site.columns) == 5 + 3
    assert [site.labels[i] for i in site.level[:3]] == ["A", "D", "F"]


@pytest.mark.parametrize(("goal", "best"), [("", 7.0), ("--minimize", 2.0), ("--target 4.4", 5.0)])
def test_cells_of_a_grid_hold_the_best_values(goal, best):
    values = np.array([2.0, 7.0, 5.0, 1.0])
    options = parse(["x.csv", *goal.split()])
    goals = goal_of(options, values)
    row, column = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 0])
    cells = pictures._best_of_cells(row, column, values, goals, (2, 2))
    np.testing.assert_array_equal(cells, [[np.nan, best], [1.0, np.nan]])


def test_pictures_stay_within_bounds(tmp_path, monkeypatch):
    """Means below the lower bound, which lie outside the axes, are drawn at the bound."""
    figures = []
    monkeypatch.setattr(pictures, "_png", figures.append)
    results = compute_results(tmp_path, reactions(), "--bounds 0 70")
    effects = [e._replace(mean=e.mean - 100) for e in factors.effects(results)]
    predicted, left_out = results.predicted, results.left_out
    results = results._replace(
        predicted=predicted._replace(mean=predicted.mean - 100),
        left_out=left_out._replace(mean=left_out.mean - 100),
    )
    for effect in effects:
        pictures.effect(results, effect, (0, 70), "")
    pictures.leave_one_out(results)
    pictures.grid(results, *(effect.factor for effect in effects[:2]))
    *plots, grid = (figure.axes[0] for figure in figures)
    ligand, base, heat, parity = (axes.dataLim for axes in plots)
    assert ligand.x0 == base.x0 == heat.y0 == parity.x0 == grid.images[0].get_array().min() == 0


@pytest.mark.parametrize(("goal", "sign"), [("", 1), ("--minimize", -1)])
def test_values_that_the_model_clips_are_drawn_as_measured_and_named(
    tmp_path, monkeypatch, goal, sign
):
    frame = reactions()
    frame.loc[[0, 3], "value"] = [-5000.0 * sign, -400.0 * sign]
    results = compute_results(tmp_path, frame, f"{goal} --report {tmp_path / 'page.html'}")
    limit = results.batch.model.limits[0]
    assert limit > -400 and np.isclose(np.min(sign * results.left_out.observed), limit)
    words = f"the model uses {sign * limit:.4g} in place of values far"
    words += (
        f" {'below' if sign > 0 else 'above'} the others: {-5000 * sign} (r0), {-400 * sign} (r3)"
    )
    assert words in messages.describe_batch(results)
    page.write(results)
    assert f"<p>{words}</p>" in (tmp_path / "page.html").read_text()
    figures = []
    monkeypatch.setattr(pictures, "_png", figures.append)
    _, note = pictures.leave_one_out(results)
    drawn = figures[0].axes[0].containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, frame["value"].dropna())
    left_out = results.left_out
    share = np.mean(np.abs(drawn - left_out.mean) <= 2 * left_out.std)
    assert f"{100 * share:.0f}% of the values are within two" in note and share <= 10 / 12
    results.options.target = 60.0
    target_words = f"uses {-limit:.4g} as the distance from the target of values that are farther"
    assert target_words in " ".join(messages.describe_batch(results))
    few = results._replace(inputs=results.inputs._replace(goals=results.inputs.goals * 0))
    assert "the choice of the batch uses" not in " ".join(messages.describe_batch(few))


def test_a_page_of_categories_has_a_grid_and_effects(tmp_path):
    """The page has no map. Without values it has neither predictions nor effects."""
    more = f"--report {tmp_path / 'page.html'} --same 'T (C)'"
    results = compute_results(tmp_path, reactions(), more)
    page.write(results)
    html = (tmp_path / "page.html").read_text()
    assert "<p>The model explains" in html and "<p>the whole batch has T (C) = " in html
    titles = re.findall(r"<figure[^>]*><h2>([^<]*)", html)
    assert titles[0] == "Ligand and Base" and "Map of the library" not in html
    assert titles[1:4] == ["Effect of Ligand", "Effect of Base", "Effect of T (C)"]
    assert f"<h1>{messages.verdict(results)}</h1>" in html
    for row in results.batch.rows:
        line = re.search(rf"<td[^>]*>r{row}</td>(.*)", html)[1]
        assert reactions()["Ligand"][row] in line and " to " in line
    report = f"--report {tmp_path / 'first.html'}"
    results = compute_results(tmp_path, reactions().assign(value=""), report)
    page.write(results)
    html = (tmp_path / "first.html").read_text()
    assert re.findall(r"<figure[^>]*><h2>([^<]*)", html) == ["Ligand and Base"]
    assert "predicted" not in html and "variance" not in html


def test_molecules_are_drawn(tmp_path):
    pytest.importorskip("rdkit")
    words = ["CCO", "CCN", "c1ccccc1O", "C[N+](C)(C)C", "OCC=C", "CCCl"]
    frame = pd.DataFrame({"molecule": words, "value": [1.0, 2.0, "", "", "", ""]})
    results = compute_results(
        tmp_path, frame, f"--smiles molecule --batch 3 --report {tmp_path / 'page.html'}"
    )
    page.write(results)
    html = (tmp_path / "page.html").read_text()
    titles = re.findall(r"<svg[^>]*><title>([^<]*)</title>", html)
    assert titles == [words[row] for row in results.batch.rows] and "&lt;svg" not in html
