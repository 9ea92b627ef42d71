"""Forecasters as scikit-learn and river regressors: the numbers of `prequential` under other names."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import kernels, loops, online
from jsketch.adapters import RiverRegressor, SklearnRegressor
from jsketch.sketch.taylor import Taylor

KEY = jax.random.key(0)
TAYLOR = online.PKAWV(Taylor(2, 4), 0.1)
EXACT = online.KernelAWV(kernels.Gaussian(0.8), 0.1, capacity=32)
both = pytest.mark.parametrize("forecaster", [TAYLOR, EXACT])


def examples(n=48):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (n, 2))
    return x, np.sin(3 * x.sum(1))


@both
def test_partial_fit_is_prequential(forecaster):
    xs, ys = examples()
    ys[3] = np.nan
    forecasts, _ = loops.prequential(forecaster, xs, ys, KEY)
    model, made = SklearnRegressor(forecaster), []
    for begin in range(0, 48, 12):
        model.partial_fit(xs[begin : begin + 12], ys[begin : begin + 12])
        made.append(model.forecasts_.prediction)
    np.testing.assert_allclose(np.concatenate(made), forecasts.prediction, rtol=1e-9, atol=1e-9)
    stream = loops.Live(forecaster, 2, KEY)
    stream.learn_many(xs, ys)
    ahead = [stream.predict(x) for x in xs[:5]]
    np.testing.assert_allclose(model.predict(xs[:5]), ahead, rtol=1e-9, atol=1e-9)
    again = SklearnRegressor(forecaster).fit(xs[20:], ys[20:]).fit(xs, ys)
    np.testing.assert_allclose(again.predict(xs), model.predict(xs), rtol=1e-9, atol=1e-9)
    known = np.isfinite(ys)
    errors, spread = (model.predict(xs) - ys)[known], ys[known] - ys[known].mean()
    assert model.score(xs, ys) == pytest.approx(1 - (errors @ errors) / (spread @ spread))


def test_parameters():
    model = SklearnRegressor(TAYLOR, seed=4)
    assert model.get_params(deep=False) == {"forecaster": TAYLOR, "seed": 4}
    assert model.get_params()["forecaster__regularization"] == 0.1
    assert model.set_params(forecaster__regularization=0.5, seed=5) is model
    assert model.forecaster.regularization == 0.5 and model.seed == 5 and TAYLOR.regularization == 0.1
    assert "seed=5" in repr(model)


def test_fitted_models_pickle():
    xs, ys = examples()
    model = SklearnRegressor(EXACT).fit(xs, ys)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copied.partial_fit(xs, ys).predict(xs), model.partial_fit(xs, ys).predict(xs)
    )


def test_scikit_learn_takes_it_for_its_own():
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_regressor
    from sklearn.metrics import r2_score
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    xs, ys = examples()
    scaled = StandardScaler().fit_transform(5 + 3 * xs)
    alone = SklearnRegressor(TAYLOR).fit(scaled, ys)
    pipeline = make_pipeline(StandardScaler(), SklearnRegressor(TAYLOR)).fit(5 + 3 * xs, ys)
    np.testing.assert_allclose(pipeline.predict(5 + 3 * xs), alone.predict(scaled), atol=1e-9)
    assert pipeline.score(5 + 3 * xs, ys) == pytest.approx(r2_score(ys, alone.predict(scaled)))
    assert is_regressor(alone) and is_regressor(pipeline)
    assert not hasattr(clone(alone), "live_") and "SklearnRegressor" in repr(pipeline)
    assert cross_val_score(pipeline, xs, ys, cv=3).min() > 0.5
    grid = {"sklearnregressor__forecaster__regularization": [1e-3, 1e3]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(xs, ys)
    assert search.best_estimator_[-1].forecaster.regularization == 1e-3


@both
def test_learn_one_is_prequential(forecaster):
    xs, ys = examples(24)
    forecasts, _ = loops.prequential(forecaster, xs, ys, KEY)
    model, predictions = RiverRegressor(forecaster), []
    for t, ((a, b), y) in enumerate(zip(xs, ys, strict=True)):
        x = {"a": a, "b": b} if t % 2 == 0 else {"b": b, "a": a}
        predictions.append(model.predict_one(x))
        assert model.learn_one(x, y) is None
    np.testing.assert_allclose(predictions, forecasts.prediction, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda x, y: SklearnRegressor(TAYLOR).predict(x), "nothing was learned yet"),
        (lambda x, y: SklearnRegressor(TAYLOR).fit(x[:, :1], y), "of 2 inputs; 1 were given"),
        (lambda x, y: SklearnRegressor(TAYLOR).fit(x[0], y), "of 2 inputs; 1 were given"),
        (lambda x, y: SklearnRegressor(EXACT).fit(x[0], y), "a matrix"),
        (lambda x, y: SklearnRegressor(TAYLOR).fit(x, y[1:]), "a vector"),
        (lambda x, y: SklearnRegressor(TAYLOR).fit(x, y).predict(x[:, :1]), "these have 1"),
        (lambda x, y: SklearnRegressor(TAYLOR).fit(x, y).partial_fit(x * np.nan, y), "must be finite"),
        (
            lambda x, y: SklearnRegressor(TAYLOR).fit(x, y).set_params(forecaster=EXACT).partial_fit(x, y),
            "changed after learning began",
        ),
        (lambda x, y: SklearnRegressor(TAYLOR).set_params(lam=1), "'lam' is not a parameter"),
        (lambda x, y: river().predict_one({"a": 1.0}), r"missing \['b'\], new \[\]"),
        (lambda x, y: river().learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, 1.0), r"missing \[\], new \['c'\]"),
        (lambda x, y: river().learn_one({"a": 1.0, "b": "high"}, 1.0), "must hold 2 numbers"),
        (lambda x, y: RiverRegressor(TAYLOR).predict_one({}), "inputs counts"),
    ],
)
def test_mistakes_are_explained(action, words):
    with pytest.raises(ValueError, match=words):
        action(*examples())


def river():
    model = RiverRegressor(TAYLOR)
    model.learn_one({"a": 1.0, "b": 2.0}, 0.5)
    return model


@pytest.mark.float32
def test_float32():
    xs, ys = (a.astype(np.float32) for a in examples())
    forecaster = online.PKAWV(Taylor(2, 3), 0.5)
    model = SklearnRegressor(forecaster).fit(xs, ys)
    assert np.isfinite(model.predict(xs)).all() and 0 < model.score(xs, ys) < 1
    assert jax.config.jax_enable_x64 or model.predict(xs).dtype == jnp.float32
