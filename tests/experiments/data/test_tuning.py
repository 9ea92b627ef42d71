"""Tuning of classifiers: the data, and evaluations that are made once."""

import math

import numpy as np
import pytest

from experiments.data import classifiers, datasets, evaluations

REAL = {  # rows, inputs, rows of class 1
    "breast_cancer": (683, 9, 239),
    "australian": (690, 14, 307),
    "diabetes": (768, 8, 268),
}


def generated_dataset(rows=60):
    """A data set of two inputs, the first of which determines the class in most rows."""
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
    target = generated_dataset(53).target
    for partition in (range(5), range(5, 10)):
        tests = [classifiers.split(target, r)[1] for r in partition]
        assert sorted(np.concatenate(tests)) == list(range(53))
        for r, test in zip(partition, tests, strict=True):
            assert set(classifiers.split(target, r)[0]) == set(range(53)) - set(test)
            assert abs(target[test].mean() - target.mean()) < 0.1
    assert set(classifiers.split(target, 0)[1]) != set(classifiers.split(target, 5)[1])


# evaluations on disk


def count_calls(value):
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
    evaluate, calls = count_calls(value)
    first = evaluations.evaluate_once(table, dict(a=1, b="x"), evaluate)
    second = evaluations.evaluate_once(table, dict(b="x", a=1), evaluate)
    assert len(calls) == 1
    for outcome in (first, second):
        np.testing.assert_equal(outcome.value, recorded)
        assert error in outcome.error and bool(error) == bool(outcome.error)
    assert first.seconds == second.seconds >= 0
    evaluations.evaluate_once(table, dict(a=2, b="x"), evaluate)
    assert len(calls) == 2


def test_the_key_holds_what_the_accuracy_depends_on(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(classifiers, "accuracy", lambda *arguments: calls.append(arguments) or 0.5)
    table, point = tmp_path / "table.sqlite", dict(depth=3)

    def evaluate(model="mlp", repetition=0, point=point):
        return classifiers.evaluate(model, generated_dataset(), repetition, point, table)

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
