"""Tuning of classifiers: the data, the folds, and evaluations that fail."""

import math

import numpy as np
import pytest

from experiments.data import classifiers, datasets

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


def test_an_evaluation_that_fails_has_a_reason(monkeypatch):
    def evaluate(result):
        def accuracy(*_):
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(classifiers, "accuracy", accuracy)
        return classifiers.evaluate("mlp", generated_dataset(), 0, dict(depth=3))

    assert evaluate(0.5) == (0.5, "")
    value, reason = evaluate(ValueError("no such loss"))
    assert math.isnan(value) and reason == "ValueError: no such loss"
    with pytest.raises(OSError, match="the disk"):
        evaluate(OSError("the disk"))
