"""Tables of results: what goes in comes out, whole or not at all, and figures are drawn from them
alone."""

import numpy as np
import pandas as pd
import pytest

from experiments import redraw
from experiments.results import store, tidy


def runs(seeds=3, points=5, **config):
    """Runs of two algorithms with curves of floats and of integers."""
    random = np.random.default_rng(0)
    t = np.arange(1, points + 1)
    return [
        tidy.Run(
            dict(
                problem="tiny",
                algorithm=name,
                horizon=points,
                seeds_side_by_side=2,
                chosen=["t"],
                limit=None,
            )
            | config,
            seed,
            dict(
                t=t,
                regret_ratio=random.uniform(size=points).astype(np.float32),
                simple_regret=random.uniform(size=points),
                batch_size=random.integers(1, 9, points).astype(np.int32),
                seconds=np.linspace(0.1, 1, points),
                final_regret_ratio=np.asarray(random.uniform()),
                batches=np.asarray(3, np.int32),
            ),
        )
        for name in ("uniform", "bkb")
        for seed in range(seeds)
    ]


def folder_of(path, made, experiment="bbkb_2020.regret"):
    tidy.write(path, made, experiment, "a title")
    store.write_json(path / tidy.PROVENANCE, dict(seeds=3))
    return path


def test_every_number_comes_back(tmp_path):
    made = runs()
    found = tidy.load(folder_of(tmp_path, made))
    assert found.provenance == dict(seeds=3)
    assert list(found.curves.columns)[:2] == ["problem", "algorithm"]
    assert list(found.curves.columns)[-4:] == ["seed", "t", "metric", "value"]
    assert not {"chosen", "limit"} & set(found.curves.columns)
    assert len(found.summary) == 6 and len(found.curves) == 6 * 4 * 5
    for metric in ("regret_ratio", "simple_regret", "batch_size", "seconds"):
        for name, (t, values) in tidy.lines(found.curves, metric).items():
            kept = [run.arrays for run in made if run.config["algorithm"] == name]
            np.testing.assert_array_equal(t, kept[0]["t"])
            np.testing.assert_array_equal(values, np.stack([a[metric] for a in kept]))
    np.testing.assert_array_equal(
        found.summary["final_regret_ratio"],
        [float(run.arrays["final_regret_ratio"]) for run in made],
    )
    assert found.summary["batches"].dtype.kind == "i"


def test_tables_say_what_they_hold(tmp_path):
    attributes = tidy.load(folder_of(tmp_path, runs())).curves.attrs
    assert attributes["experiment"] == "bbkb_2020.regret" and attributes["title"] == "a title"
    assert set(attributes["metrics"]) == {"regret_ratio", "simple_regret", "batch_size", "seconds"}


def test_runs_that_cannot_be_told_apart_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the same configuration and seed"):
        tidy.write(tmp_path, [*runs(), runs()[0]], "x", "x")
    with pytest.raises(ValueError, match="at least one run"):
        tidy.write(tmp_path, [], "x", "x")


def test_a_write_that_fails_leaves_the_old_table(tmp_path, monkeypatch):
    before = tidy.load(folder_of(tmp_path, runs())).curves

    def full(path, target):
        raise OSError("no space left on the disk")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="no space left"):
        tidy.write(tmp_path, runs(points=9), "x", "x")
    monkeypatch.undo()
    pd.testing.assert_frame_equal(tidy.load(tmp_path).curves, before)


def test_all_folders_at_once(tmp_path):
    folder_of(tmp_path / "one", runs(seeds=2))
    folder_of(tmp_path / "deep" / "two", runs(seeds=1, lengthscale=2.0))
    found = tidy.load_all(tmp_path)
    assert set(found.curves["folder"]) == set(found.provenance) == {"one", "deep/two"}
    assert len(found.summary) == 6 and found.summary["lengthscale"].notna().sum() == 2
    with pytest.raises(FileNotFoundError, match="no results under"):
        tidy.load_all(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="curves.parquet of finished results is missing"):
        tidy.load(tmp_path / "nothing")


def test_figures_are_drawn_from_the_tables_alone(tmp_path):
    folder = folder_of(tmp_path, runs())
    assert redraw.redraw(folder)
    assert {p.name for p in folder.glob("*.png")} == {
        "regret_ratio.png",
        "time.png",
        "batch_size.png",
    }
    assert not redraw.redraw(folder_of(tmp_path / "other", runs(), "nobody"))
