"""Forecasters as regressors of scikit-learn and river, with the checks of both packages."""

import copy
import pickle
import sys
from contextlib import nullcontext
from unittest import SkipTest

import jax
import numpy as np
import pandas as pd
import pytest
from river import checks
from rows import check_refusals
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from test_online import examples

import jsketch.adapters
from jsketch import kernels, loops, online
from jsketch.adapters import RiverRegressor, SklearnRegressor
from jsketch.sketch.taylor import Taylor

KEY = jax.random.key(0)
TAYLOR = online.PKAWV(Taylor(2, 4), 0.1)
EXACT = online.KernelAWV(kernels.Gaussian(0.8), 0.1, capacity=64)
both_forecasters = pytest.mark.parametrize("forecaster", [TAYLOR, EXACT])


# scikit-learn

RIDGE = SklearnRegressor(
    online.KernelAWV(kernels.Gaussian(3.0), 0.1, penalize_current=False, capacity=256)
)
ERRORS_OF_CHECKS = {
    # a NaN label counts as missing and is accepted
    "check_supervised_y_no_nan": AssertionError,
    # arrays of other libraries need a variable that is set before SciPy is imported
    "check_array_api_input": SkipTest,
}


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, id=check.func.__name__) for _, check in estimator_checks_generator(RIDGE)],
)
def test_checks_of_scikit_learn(check):
    error = ERRORS_OF_CHECKS.get(check.func.__name__)
    with pytest.raises(error) if error else nullcontext():
        check(RIDGE)


@both_forecasters
def test_partial_fit_has_the_predictions_of_prequential(forecaster):
    xs, ys = examples(n=48)
    ys[3] = np.nan
    forecasts, _ = loops.prequential(forecaster, (xs, ys), KEY)
    model, predictions = SklearnRegressor(forecaster), []
    for begin in range(0, 48, 12):
        model.partial_fit(xs[begin : begin + 12], ys[begin : begin + 12])
        predictions.append(model.forecasts_.prediction)
    predictions = np.concatenate(predictions)
    np.testing.assert_allclose(predictions, forecasts.prediction, rtol=1e-9, atol=1e-9)
    stream = loops.Live(forecaster, 2, KEY)
    stream.learn_many(xs, ys)
    expected = [stream.predict(x) for x in xs[:5]]
    np.testing.assert_allclose(model.predict(xs[:5]), expected, rtol=1e-9, atol=1e-9)
    refitted = SklearnRegressor(forecaster).fit(xs[20:], ys[20:]).fit(xs, ys)
    np.testing.assert_allclose(refitted.predict(xs), model.predict(xs), rtol=1e-9, atol=1e-9)
    has_label = np.isfinite(ys)
    for weights in (np.ones(48), np.linspace(1, 2, 48)):
        expected = r2_score(
            ys[has_label], model.predict(xs)[has_label], sample_weight=weights[has_label]
        )
        assert model.score(xs, ys, weights) == pytest.approx(expected)
    assert model.score(xs, ys) == pytest.approx(model.score(xs, ys, np.ones(48)))


def test_a_refused_table_changes_nothing_and_constant_labels_have_a_score():
    """Constant labels have the score 0 of scikit-learn."""
    xs, ys = examples(n=48)
    table = pd.DataFrame(xs, columns=["a", "b"])
    model = SklearnRegressor(TAYLOR).fit(table, ys)
    with pytest.raises(ValueError, match="in the same order"):
        model.partial_fit(table[["b", "a"]], ys)
    assert model.live_.received == 48
    assert model.score(table, np.ones(48)) == 0.0


def test_parameters_are_set_by_their_nested_names():
    model = SklearnRegressor(EXACT, seed=4)
    assert model.get_params(deep=False) == {"forecaster": EXACT, "seed": 4}
    names = ("forecaster__regularization", "forecaster__kernel__lengthscale")
    assert [model.get_params()[name] for name in names] == [0.1, 0.8]
    updated_model = model.set_params(**dict(zip(names, (0.5, 2.0), strict=True)), seed=5)
    assert updated_model is model and model.seed == 5
    assert model.forecaster.regularization == 0.5 and model.forecaster.kernel.lengthscale == 2.0
    assert EXACT.regularization == 0.1 and EXACT.kernel.lengthscale == 0.8
    assert "seed=5" in repr(model)
    # a new forecaster is set before its fields
    copied = clone(model).set_params(forecaster__features__degree=3, forecaster=TAYLOR)
    assert copied.forecaster.features.degree == 3 and model.forecaster.kernel.lengthscale == 2.0
    for prefix in ("", "forecaster__", "forecaster__kernel__", names[0] + "__", "seed__"):
        message = f"'{prefix}lam' is no parameter; the parameters are .*kernel__lengthscale"
        with pytest.raises(ValueError, match=message):
            model.set_params(seed=6, **{f"{prefix}lam": 1})
    assert model.seed == 5


# river

FOURIER = online.FOGD(kernels.Gaussian(3.0), 0.05, count=20)
RIVER = RiverRegressor(FOURIER)  # its random features depend on the order of the inputs
KINDS = ("emerging", "disappearing", "radically_disappearing")
CHECKS_THAT_CHANGE_FEATURES = {f"check_{kind}_features" for kind in KINDS}


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=check.__name__) for check in checks.yield_checks(RIVER)]
)
def test_checks_of_river(check):
    """A kernel compares points with the same inputs, so that changed features are refused."""
    refusal = pytest.raises(ValueError, match="must have the features of the first")
    with refusal if check.__name__ in CHECKS_THAT_CHANGE_FEATURES else nullcontext():
        check(RIVER.clone())


@both_forecasters
def test_learn_one_has_the_predictions_of_prequential(forecaster):
    xs, ys = examples(n=24)
    forecasts, _ = loops.prequential(forecaster, (xs, ys), KEY)
    model, predictions = RiverRegressor(forecaster), []
    for t, ((a, b), y) in enumerate(zip(xs, ys, strict=True)):
        x = {"a": a, "b": b} if t % 2 == 1 else {"b": b, "a": a}  # in any order
        predictions.append(model.predict_one(x))
        assert model.learn_one(x, y) is None
    np.testing.assert_allclose(predictions, forecasts.prediction, rtol=1e-9, atol=1e-9)


def test_copies_are_independent():
    """`Live.learn` donates the buffers of its state, and a copy does not share them."""
    stream = [({"a": a, "b": b}, y) for (a, b), y in zip(*examples(n=12), strict=True)]
    model = RiverRegressor(EXACT)
    for x, y in stream[:6]:
        model.learn_one(x, y)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for x, y in stream[6:]:
        model.learn_one(x, -y)
    for copied in copies:
        assert copied.live.received == 6
        for x, y in stream[6:]:
            copied.learn_one(x, -y)
        assert copied.predict_one(stream[0][0]) == model.predict_one(stream[0][0])


def test_a_refused_example_does_not_fix_the_features():
    model = RiverRegressor(EXACT)
    examples = [({"a": 1.0}, np.inf), ({"a": np.nan}, 1.0), ({"c": "x", "d": 1.0}, 1.0), ({}, 1.0)]
    for x, y in examples:
        with pytest.raises(ValueError):
            model.learn_one(x, y)
    assert model.predict_one({"z": 1.0}) == 0  # a prediction does not fix the features either
    model.learn_one({"b": 2.0, "a": 1.0}, 0.5)
    assert model.names == ["a", "b"] and model.live.received == 1
    mixed_names = RiverRegressor(EXACT)
    mixed_names.learn_one({1: 2.0, "a": 1.0}, None)  # names of two types, and a missing label
    assert mixed_names.names == [1, "a"]


# both adapters


def test_mistakes_have_messages():
    x, y = examples(n=48)
    fitted, reset = (SklearnRegressor(TAYLOR).fit(x, y) for _ in range(2))
    reset.set_params(forecaster=EXACT)
    river = RiverRegressor(TAYLOR)
    river.learn_one({"a": 1.0, "b": 2.0}, 0.5)
    rows = (
        (lambda: SklearnRegressor(TAYLOR).fit(x[:, :1], y), "have 2 inputs; 1 were given"),
        (lambda: SklearnRegressor(EXACT).fit(x[0], y), "Expected 2D array"),
        (lambda: SklearnRegressor(TAYLOR).fit(x, y[1:]), "inconsistent numbers of samples"),
        (lambda: fitted.predict(x[:, :1]), "expecting 2 features"),
        (lambda: fitted.partial_fit(x * np.nan, y), "contains NaN"),
        (lambda: reset.partial_fit(x, y), "changed after"),
        (lambda: river.predict_one({"a": 1.0}), r"missing \['b'\], new \[\]"),
        (lambda: river.learn_one({"a": 1.0, "b": "high"}, 1.0), "must be real numbers"),
        (lambda: RiverRegressor(TAYLOR).predict_one({}), "inputs must be an integer"),
    )
    check_refusals(rows)


@pytest.mark.parametrize(
    ("package", "adapter", "other_adapter"),
    [
        ("river", "RiverRegressor", "SklearnRegressor"),
        ("sklearn.base", "SklearnRegressor", "RiverRegressor"),
    ],
)
def test_each_adapter_needs_its_own_package_only(monkeypatch, package, adapter, other_adapter):
    monkeypatch.setitem(sys.modules, package, None)  # the package then cannot be imported
    for module in ("river", "scikit_learn"):
        monkeypatch.delitem(sys.modules, f"jsketch.adapters.{module}")
    with pytest.raises(ImportError, match=f"{adapter} needs .*pip install"):
        getattr(jsketch.adapters, adapter)
    assert getattr(jsketch.adapters, other_adapter).__name__ == other_adapter
    with pytest.raises(ImportError, match="cannot import name 'TorchRegressor'"):
        from jsketch.adapters import TorchRegressor  # noqa: F401
