"""The benchmark of time and memory against T, A and m."""

import argparse
import json

import pytest

from experiments import cli
from experiments.bench import scaling
from experiments.results import store

ROW = dict(compile_seconds=1.0, rounds=3, regret_ratio=0.5, peak_gigabytes=0.5)


def power_law(method, exponent, values=(10, 100, 1_000, 10_000)):
    """Rows whose seconds are a power of x, but for the smallest, which takes longer."""
    rows = [ROW | dict(method=method, x=x, inducing_points=x, seconds=x**exponent) for x in values]
    rows[0]["seconds"] *= 50
    return rows


def test_exponents_are_those_of_the_largest_two_decades():
    rows = power_law("g = 0.25", 1.1) + power_law("every batch", 0.5) + power_law("one", 1, [10])
    found = scaling.exponents(scaling.AXES["horizon"], rows)
    assert found == pytest.approx({"g = 0.25": 1.1, "every batch": 0.5})


def test_the_picture_has_a_column_for_each_axis(tmp_path):
    names = ["horizon", "sketch"]
    measured = {name: power_law("g = 0.25", 1.0) + power_law(scaling.AUTHORS, 2) for name in names}
    axes = scaling.AXES
    measured["exponents"] = {n: scaling.exponents(axes[n], measured[n]) for n in names}
    scaling.draw(measured, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_saved_rows_of_several_files_are_drawn_together(tmp_path, monkeypatch):
    files = [tmp_path / f"{name}.json" for name in ("horizon", "sketch")]
    for path in files:
        rows = power_law("g = 0.25", 1.0)
        store.write_numbers(path, {"exponents": {path.stem: {"g = 0.25": 1.0}}, path.stem: rows})
    drawn = []
    monkeypatch.setattr(scaling, "draw", lambda measured, path: drawn.append((measured, path)))
    monkeypatch.setattr(cli, "set_up_jax", lambda *_: None)
    picture = tmp_path / "scaling.png"
    command = ["scaling", "--saved", *map(str, files), "--figure", str(picture)]
    monkeypatch.setattr("sys.argv", command)
    scaling.main()
    ((measured, path),) = drawn
    assert measured.keys() == measured["exponents"].keys() | {"exponents"} and path == picture
    assert set(measured["exponents"]) == {"horizon", "sketch"}
    monkeypatch.setattr("sys.argv", command[:-2])
    with pytest.raises(SystemExit):
        scaling.main()


def test_exact_gp_ucb_is_measured():
    point = json.dumps(["arms", 120, scaling.EXACT])  # without a data set
    row = scaling.measure(argparse.Namespace(point=point, small=True, data_dir=None))
    assert 0 < row["inducing_points"] <= 20 and row["rounds"] == 20 and row["seconds"] > 0


def test_a_run_among_generated_arms_is_measured():
    point = json.dumps(["arms", 120, "g = 0.25"])
    row = scaling.measure(argparse.Namespace(point=point, small=True, data_dir=None))
    assert row["x"] == 120 and row["method"] == "g = 0.25"
    assert 0 < row["inducing_points"] <= 20 and row["rounds"] <= 20
    assert row["seconds"] > 0 and row["peak_gigabytes"] > 0.05
