"""Tuning of classifiers: the data, the nine problems, evaluations that are made once, and Figures 3
to 5 with a function in place of the fits."""

import json
import math
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest

from experiments import cli, redraw
from experiments.data import classifiers, datasets, evaluations
from experiments.data.classifiers import MODELS, PAPER_MODELS
from experiments.go_ucb_2023 import tuning, tuning_runs
from experiments.results import store
from jsketch.box import GPBandit, UniformBox

REAL = {  # rows, inputs, rows of class 1
    "breast_cancer": (683, 9, 239),
    "australian": (690, 14, 307),
    "diabetes": (768, 8, 268),
}
SIZES = {"random_forest": 7, "mlp": 8, "gradient_boosting": 11}


def made_up(rows=60):
    """A data set of two inputs, of which the first tells the class in most rows."""
    random = np.random.default_rng(0)
    features = random.standard_normal((rows, 2))
    target = (features[:, 0] + 0.3 * random.standard_normal(rows) > 0).astype(float)
    return datasets.Dataset("diabetes", features, target, "made up")


@pytest.mark.parametrize("name", REAL)
def test_real_data(real_data, name):
    dataset = classifiers.load(name, real_data)
    rows, inputs, ones = REAL[name]
    assert dataset.features.shape == (rows, inputs) and np.isfinite(dataset.features).all()
    assert set(dataset.target) == {0.0, 1.0} and dataset.target.sum() == ones
    assert str(real_data) not in dataset.source and "checked" in dataset.source


def test_folds_partition_the_rows_and_keep_the_classes():
    target = made_up(53).target
    for partition in (range(5), range(5, 10)):
        tests = [classifiers.split(target, r)[1] for r in partition]
        assert sorted(np.concatenate(tests)) == list(range(53))
        for r, test in zip(partition, tests, strict=True):
            assert set(classifiers.split(target, r)[0]) == set(range(53)) - set(test)
            assert abs(target[test].mean() - target.mean()) < 0.1
    assert set(classifiers.split(target, 0)[1]) != set(classifiers.split(target, 5)[1])


@pytest.mark.parametrize("name", PAPER_MODELS)
@pytest.mark.parametrize("corner", [0.0, 10.0])
def test_both_corners_of_each_space_can_be_fitted(name, corner):
    """Real fits of 48 rows with extreme hyperparameters, which scikit-learn may refuse."""
    space = MODELS[name].space
    assert len(space.names) == SIZES[name]
    hyperparameters = space.decode(np.full(SIZES[name], corner))
    estimator = MODELS[name].build(hyperparameters, 3)
    parameters = estimator.get_params() if name != "mlp" else estimator[-1].get_params()
    used = {
        n: v for n, v in hyperparameters.items() if (name, n) != ("gradient_boosting", "criterion")
    }
    assert {n: parameters[n] for n in used} == used and parameters["random_state"] == 3
    assert 0 <= classifiers.accuracy(name, made_up(), 0, hyperparameters) <= 1


def test_accuracy_is_the_share_of_correct_classes_and_reproducible():
    middle = MODELS["random_forest"].space.decode(np.full(7, 1.0))
    dataset = made_up(100)
    first = classifiers.accuracy("random_forest", dataset, 0, middle)
    assert first == classifiers.accuracy("random_forest", dataset, 0, middle)
    assert first > 0.8 and (20 * first) % 1 == pytest.approx(0, abs=1e-9)  # 20 test rows
    train, test = classifiers.split(dataset.target, 0)
    estimator = classifiers.random_forest(middle, 0).fit(
        dataset.features[train], dataset.target[train]
    )
    assert first == estimator.score(dataset.features[test], dataset.target[test])


# evaluations on disk


def counted(value):
    calls = []

    def evaluate():
        calls.append(value)
        if isinstance(value, Exception):
            raise value
        return value

    return evaluate, calls


@pytest.mark.parametrize(
    ("value", "recorded", "error"),
    [
        (0.5, 0.5, ""),
        (np.float32(0.25), 0.25, ""),
        (math.nan, math.nan, "the value was nan"),
        (-math.inf, math.nan, "the value was -inf"),
        (None, math.nan, "TypeError"),
        (ValueError("no such loss"), math.nan, "ValueError: no such loss"),
        (RuntimeError("diverged"), math.nan, "RuntimeError: diverged"),
    ],
)
def test_each_evaluation_is_made_once(tmp_path, value, recorded, error):
    table = tmp_path / "new" / "table.sqlite"
    evaluate, calls = counted(value)
    first = evaluations.once(table, dict(a=1, b="x"), evaluate)
    second = evaluations.once(table, dict(b="x", a=1), evaluate)
    assert len(calls) == 1
    for outcome in (first, second):
        np.testing.assert_equal(outcome.value, recorded)
        assert error in outcome.error and bool(error) == bool(outcome.error)
    assert first.seconds == second.seconds >= 0
    evaluations.once(table, dict(a=2, b="x"), evaluate)
    assert len(calls) == 2


@pytest.mark.parametrize("failure", [MemoryError(), FileNotFoundError("gone"), KeyboardInterrupt()])
def test_failures_of_the_machine_are_raised_and_not_recorded(tmp_path, failure):
    def evaluate():
        raise failure

    with pytest.raises(type(failure)):
        evaluations.once(tmp_path / "table.sqlite", dict(a=1), evaluate)
    assert evaluations.once(tmp_path / "table.sqlite", dict(a=1), lambda: 0.5).value == 0.5


def test_a_table_to_which_another_process_is_writing(tmp_path, monkeypatch):
    path = tmp_path / "table.sqlite"
    evaluations.once(path, dict(a=1), lambda: 0.5)
    monkeypatch.setattr(evaluations, "PATIENCE", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ValueError, match=r"another process has been writing .*table.sqlite"):
            evaluations.once(path, dict(a=2), lambda: 0.5)
        other.execute("ROLLBACK")
    assert evaluations.once(path, dict(a=1), pytest.fail).value == 0.5


def test_the_key_holds_what_the_accuracy_depends_on(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(classifiers, "accuracy", lambda *arguments: calls.append(arguments) or 0.5)
    table, point = tmp_path / "table.sqlite", dict(depth=3)

    def evaluate(model="mlp", repetition=0, point=point):
        return classifiers.evaluate(model, made_up(), repetition, point, table)

    evaluate()
    evaluate()
    assert len(calls) == 1
    evaluate(model="random_forest")
    evaluate(repetition=1)
    evaluate(point=dict(depth=4))
    assert len(calls) == 4
    monkeypatch.setattr(classifiers.sklearn, "__version__", "another")
    evaluate()
    monkeypatch.setattr(classifiers, "PROTOCOL", ["another"])
    evaluate()
    assert len(calls) == 6


# the experiment, with a function of the point in place of a fit


@pytest.fixture
def stand_in(monkeypatch):
    """Calls of a stand-in for the fits, by their arguments; the tenth raises what `interrupt`
    holds."""
    calls, interrupt = [], []

    def accuracy(model, dataset, repetition, hyperparameters):
        if interrupt and len(calls) == 9:
            raise interrupt.pop()
        calls.append((model, dataset.name, repetition, tuple(hyperparameters.values())))
        if hyperparameters["max_depth"] == 2:
            raise ValueError("this depth never works")
        return 0.9 - abs(hyperparameters["max_depth"] - 7) / 20 + repetition / 100

    monkeypatch.setattr(classifiers, "accuracy", accuracy)
    monkeypatch.setattr(classifiers, "load", lambda name, data_dir=None: made_up())
    monkeypatch.setattr(cli, "set_up_jax", lambda: None)
    monkeypatch.setattr(tuning_runs, "T", 3)
    monkeypatch.setattr(tuning, "PAPER_BEND", tuning_runs.N + 2)
    tiny = GPBandit(initial=tuning_runs.N, candidates=20, starts=2, steps=5, fit_steps=3)
    optimizers = {"uniform": lambda n: UniformBox(initial=n), "go_ucb": lambda n: tiny}
    monkeypatch.setattr(tuning_runs, "OPTIMIZERS", optimizers)
    return calls, interrupt


def command(monkeypatch, folder, *more):
    words = ["tuning", "--models", "random_forest", "--data", "diabetes", "--repetitions", "2"]
    words += ["--algorithms", "uniform", "go_ucb", "--out", str(folder / "out")]
    monkeypatch.setattr(sys, "argv", [*words, "--table", str(folder / "table.sqlite"), *more])
    tuning.main()


def test_the_experiment(tmp_path, monkeypatch, stand_in, capsys):
    command(monkeypatch, tmp_path)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    part = summary["problems"]["random_forest-diabetes"]
    out, names = tmp_path / "out", ("uniform", "go_ucb")
    runs = {
        n: [store.read_run(out, f"random_forest-diabetes-{n}", r) for r in range(2)] for n in names
    }
    for r in range(2):
        rows = [runs[name][r] for name in runs]
        (first, later), (same, other) = (np.split(row["x"], [tuning_runs.N]) for row in rows)
        np.testing.assert_allclose(first, same, rtol=1e-12)
        assert not np.array_equal(later, other)
        values = np.stack([np.nan_to_num(row["accuracy"]) for row in rows])
        assert part["f_star"][r] == values.max()
        for name, accuracies in zip(runs, values, strict=True):
            row, regret = part["algorithms"][name], (values.max() - accuracies).sum()
            assert row["cumulative_regret"]["values"][r] == pytest.approx(regret)
            assert row["best_accuracy"]["values"][r] == accuracies.max()
    assert not np.array_equal(runs["uniform"][0]["x"], runs["uniform"][1]["x"])
    assert max(row["met_the_best"] for row in part["algorithms"].values()) >= 1
    failed = sum(np.isnan(row["accuracy"]).sum() for rows in runs.values() for row in rows)
    assert failed == sum(row["failed"] for row in part["algorithms"].values())
    assert summary["versions"]["scikit-learn"] and summary["config"]["chosen"]
    assert (tmp_path / "out" / "figure5.png").stat().st_size > 10_000
    table = capsys.readouterr().out
    assert "best accuracy" in table and "GO-UCB" in table
    figure = out / "figure5.png"
    before = figure.read_bytes()
    figure.unlink()
    assert redraw.redraw(out) and figure.read_bytes() == before


def test_a_killed_run_resumes_without_evaluating_anything_twice(tmp_path, monkeypatch, stand_in):
    calls, interrupt = stand_in
    interrupt.append(KeyboardInterrupt())
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, tmp_path)
    assert ended.value.code == 130 and len(calls) == 9
    command(monkeypatch, tmp_path)
    assert len(calls) == len(set(calls))
    with sqlite3.connect(tmp_path / "table.sqlite") as table:
        assert table.execute("SELECT COUNT(*) FROM evaluations").fetchone() == (len(calls),)
    table.close()
    before = len(calls)
    whole = json.loads((tmp_path / "out" / "summary.json").read_text())["problems"]
    command(monkeypatch, tmp_path, "--out", str(tmp_path / "again"))
    assert len(calls) == before
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["problems"] == whole


def test_another_configuration_does_not_mix(tmp_path, monkeypatch, stand_in):
    command(monkeypatch, tmp_path)
    monkeypatch.setattr(tuning_runs, "T", 4)
    before = (tmp_path / "out" / "curves.parquet").read_bytes()
    words = r"other finished results \(.*T was 3, is now 4.*--overwrite"
    with pytest.raises(SystemExit, match=words):
        command(monkeypatch, tmp_path)
    assert (tmp_path / "out" / "curves.parquet").read_bytes() == before
    command(monkeypatch, tmp_path, "--overwrite")
    with pytest.raises(SystemExit, match=r"seeds was 2, is now 1"):
        command(monkeypatch, tmp_path, "--repetitions", "1")


def test_no_success_at_all_is_an_error(tmp_path, monkeypatch, stand_in):
    def accuracy(*arguments):
        raise TypeError("unexpected keyword")

    monkeypatch.setattr(classifiers, "accuracy", accuracy)
    words = "every evaluation failed; the first one: TypeError: unexpected"
    with pytest.raises(SystemExit, match=words):
        command(monkeypatch, tmp_path)


def test_failures_count_as_no_accuracy():
    accuracy = np.full(tuning_runs.N + tuning_runs.T, 0.5)
    accuracy[[1, 2]] = np.nan, 0.75
    x = np.zeros((tuning_runs.N + tuning_runs.T, 2))
    x[2], x[-1] = [4, 4], [4, 9]
    row = dict(accuracy=accuracy, errors=np.array(["diverged"]), x=x)
    part, regret = tuning.summarise({"uniform": [row]})
    assert part["f_star"] == [0.75]
    np.testing.assert_array_equal(regret["uniform"][0, :4], [0.25, 0.75, 0, 0.25])
    row = part["algorithms"]["uniform"]
    assert row["failed"] == 1 and row["met_the_best"] == 1 and row["more_than_go_ucb"] is None
    assert row["improved_on_phase_one"] == 0 and row["distance_from_phase_one"]["mean"] == 5
    total = 0.75 + 0.25 * (tuning_runs.N + tuning_runs.T - 2)
    assert row["cumulative_regret"]["mean"] == pytest.approx(total)
