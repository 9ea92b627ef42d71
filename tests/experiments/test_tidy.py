"""Tables contain every number of the runs, and figures are drawn from them alone."""

import numpy as np
import pytest

from experiments.bbkb_2020 import fig1_regret
from experiments.results import store, tidy


def runs(n_seeds=3, **config):
    """Runs of two algorithms with curves of floats and of integers."""
    random, points = np.random.default_rng(0), 5
    common = dict(problem="tiny", horizon=points, seeds_side_by_side=2, chosen=["t"], limit=None)
    return [
        tidy.Run(
            common | dict(algorithm=name) | config,
            seed,
            dict(
                t=np.arange(1, points + 1),
                regret_ratio=random.uniform(size=points).astype(np.float32),
                simple_regret=random.uniform(size=points),
                batch_size=random.integers(1, 9, points).astype(np.int32),
                seconds=np.linspace(0.1, 1, points),
                final_regret_ratio=np.asarray(random.uniform()),
                batches=np.asarray(3, np.int32),
            ),
        )
        for name in ("uniform", "bkb")
        for seed in range(n_seeds)
    ]


def write_folder(path, made_runs, experiment="bbkb_2020.regret"):
    """Writes the tables of the runs, and returns the path."""
    tidy.write(path, made_runs, experiment, "a title")
    store.write_json(path / tidy.PROVENANCE, dict(seeds=3))
    return path


def test_tables_contain_every_number(tmp_path):
    made_runs = runs()
    table = tidy.load(write_folder(tmp_path, made_runs))
    assert table.provenance == dict(seeds=3)
    attributes = table.curves.attrs
    assert attributes["experiment"] == "bbkb_2020.regret" and attributes["title"] == "a title"
    assert set(attributes["metrics"]) == {"regret_ratio", "simple_regret", "batch_size", "seconds"}
    assert list(table.curves.columns)[:2] == ["problem", "algorithm"]
    assert list(table.curves.columns)[-4:] == ["seed", "t", "metric", "value"]
    assert not {"chosen", "limit"} & set(table.curves.columns)
    assert len(table.summary) == 6 and len(table.curves) == 6 * 4 * 5
    for metric in ("regret_ratio", "simple_regret", "batch_size", "seconds"):
        for name, (t, values) in tidy.lines(table.curves, metric).items():
            arrays = [run.arrays for run in made_runs if run.config["algorithm"] == name]
            np.testing.assert_array_equal(t, arrays[0]["t"])
            np.testing.assert_array_equal(values, np.stack([a[metric] for a in arrays]))
    final_ratios = [float(run.arrays["final_regret_ratio"]) for run in made_runs]
    np.testing.assert_array_equal(table.summary["final_regret_ratio"], final_ratios)
    assert table.summary["batches"].dtype.kind == "i"


def test_all_folders_are_loaded_at_once(tmp_path):
    write_folder(tmp_path / "one", runs(n_seeds=2))
    write_folder(tmp_path / "deep" / "two", runs(n_seeds=1, lengthscale=2.0))
    table = tidy.load_all(tmp_path)
    assert set(table.curves["folder"]) == set(table.provenance) == {"one", "deep/two"}
    assert len(table.summary) == 6 and table.summary["lengthscale"].notna().sum() == 2
    with pytest.raises(FileNotFoundError, match="no results under"):
        tidy.load_all(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="curves.parquet of finished results is missing"):
        tidy.load(tmp_path / "nothing")


def test_figures_are_drawn_from_the_tables_alone(tmp_path):
    folder = write_folder(tmp_path, runs())
    fig1_regret.draw(folder)
    figures = {path.stem for path in folder.glob("*.png")}
    assert figures == {"regret_ratio", "time", "batch_size"}
