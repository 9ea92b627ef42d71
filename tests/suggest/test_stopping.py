"""Predictions of the whole library, and the rule that ends a campaign."""

import numpy as np
import pytest
from oracles import matern_52
from scipy.stats import multivariate_normal

from jsketch.suggest import leave_one_out, library, predict, stopping, suggest


def problem(seed, peak=False):
    """data = (library of 200 candidates, 20 arms, their noisy values); f [200] without noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=(200, 2))
    f = 0.3 * np.sin(3 * x[:, 0])
    f = f + 3 * np.exp(-np.square(x - 0.5).sum(1) / 0.0098) if peak else f + x[:, 1]
    arms = random.permutation(200)[:20]
    return (library(x), arms, f[arms] + 0.1 * random.normal(size=20)), f


def test_predictions_of_the_library_are_those_of_the_batch():
    data, _ = problem(0)
    batch = suggest(*data, batch=5)
    predicted = predict(*data, batch.model)
    np.testing.assert_allclose(predicted.mean[batch.rows], batch.mean, rtol=1e-9)
    np.testing.assert_allclose(predicted.std[batch.rows], batch.std, rtol=1e-6)
    noise = batch.model.noise_std
    np.testing.assert_allclose(predicted.value_std**2, predicted.std**2 + noise**2)


def test_a_narrow_peak_is_no_reason_to_stop():
    """`gain.best` is evaluated, and the rule does not stop before the peak is evaluated."""
    for seed in range(4):
        data, f = problem(seed, peak=True)
        _, arms, values = data
        batch = suggest(*data, batch=5)
        gain = stopping.possible_gain(*data, batch.model, batch=batch.rows)
        assert gain.best in arms
        of_batch, of_any = (np.quantile(draws, 0.95) for draws in (gain.of_batch, gain.of_any))
        assert of_batch <= of_any + 1e-9
        tolerance = stopping.tolerance(values)
        too_early = np.delete(f, arms).max() - f[gain.best] > tolerance
        assert not (stopping.should_stop(gain, tolerance) and too_early)


def test_nothing_is_gained_above_a_bound():
    data, _ = problem(1)
    upper = float(data[2].min()) - 1.0
    model, bounds = suggest(*data, batch=5).model, (upper - 10.0, upper)
    gain = stopping.possible_gain(*data, model, bounds=bounds)
    assert gain.of_any.max() == 0 and stopping.should_stop(gain, 0.0)
    # fewer than MIN_VALUES values are enough if one of them reaches the bound
    gain = gain._replace(observed=stopping.MIN_VALUES - 1)
    assert stopping.should_stop(gain, tolerance=0.0)
    assert not stopping.should_stop(gain._replace(limit=1.0), tolerance=0.0)
    assert not stopping.should_stop(None, tolerance=1.0)


@pytest.mark.parametrize("values", [[100.0], [100.0, 100.0, np.nan]])
def test_values_that_fit_no_model_may_reach_the_bound(values):
    data = problem(0)[0][0], np.arange(len(values)), values
    model = suggest(*data, batch=5).model
    assert not model.fitted and stopping.possible_gain(*data, model) is None
    for bound, stops in ((100.0, True), (150.0, False)):
        gain = stopping.possible_gain(*data, model, bounds=(0.0, bound), batch=[7])
        assert gain.of_any.tolist() == gain.of_batch.tolist() == [bound - 100]
        assert gain.best == 0 and stopping.should_stop(gain, 1.0) == stops


def test_the_last_candidate_has_the_gain_of_its_batch():
    """All other candidates are evaluated or excluded."""
    data, _ = problem(2)
    model, arms = suggest(*data, batch=5).model, data[1]
    row, *excluded = np.setdiff1d(np.arange(200), arms)
    gain = stopping.possible_gain(*data, model, exclude=excluded, batch=[row])
    predicted = predict(*data, model)
    assert gain.best == arms[np.argmax(predicted.mean[arms])]
    np.testing.assert_allclose(gain.of_any, gain.of_batch, atol=0.15 * predicted.std[row])


def test_the_gain_of_a_model_that_is_too_smooth_is_that_of_a_rougher_one(monkeypatch):
    """The lengthscales are too long by a factor in LENGTHSCALE_DIVISORS. The possible gain is the
    one of the model with the right lengthscales, unless the likelihood rules this model out."""
    data, _ = problem(3)
    model = suggest(*data, batch=5).model
    model = model._replace(lengthscale=np.ones(2), ratio=0.01, scale=model.scale / 2)
    right_fit = leave_one_out(*data, model)
    assert np.mean(np.square((right_fit.observed - right_fit.mean) / right_fit.std)) > 1
    smooth_model = model._replace(lengthscale=1.4 * model.lengthscale)
    monkeypatch.setattr(stopping, "LENGTHSCALE_DIVISORS", ())
    expected, gain_if_smooth = (stopping.possible_gain(*data, m) for m in (model, smooth_model))
    monkeypatch.setattr(stopping, "LENGTHSCALE_DIVISORS", (1.4,))
    gain = stopping.possible_gain(*data, smooth_model)
    assert gain.best == expected.best
    np.testing.assert_allclose(gain.of_any, expected.of_any, atol=1e-6)
    assert np.quantile(gain_if_smooth.of_any, 0.95) < np.quantile(gain.of_any, 0.95)
    rough_model = smooth_model._replace(lengthscale=smooth_model.lengthscale / 30)
    likelihood = [leave_one_out(*data, m).log_likelihood for m in (rough_model, smooth_model)]
    assert likelihood[0] < likelihood[1] - stopping.LIKELIHOOD_MARGIN
    monkeypatch.setattr(stopping, "LENGTHSCALE_DIVISORS", (30.0,))
    gain = stopping.possible_gain(*data, smooth_model)
    np.testing.assert_array_equal(gain.of_any, gain_if_smooth.of_any)


def test_the_likelihood_of_left_out_values_is_that_of_a_normal_distribution():
    """With the scale that maximises them, the two likelihoods differ by a constant."""
    data, _ = problem(4)
    candidates, arms, values = data
    model = suggest(*data, batch=5).model
    actual, expected = [], []
    for divisor in (1.0, 2.0):
        rescaled = model._replace(lengthscale=model.lengthscale / divisor)
        gram = matern_52(np.asarray(candidates.features)[arms], rescaled.lengthscale)
        gram = gram + rescaled.ratio * np.eye(20)
        y = values - model.centre
        scale = y @ np.linalg.solve(gram, y) / 20
        expected.append(multivariate_normal.logpdf(y, cov=scale * gram))
        actual.append(leave_one_out(*data, rescaled).log_likelihood)
    assert np.diff(actual) == pytest.approx(np.diff(expected), rel=1e-6)


def test_a_value_at_its_bound_is_a_reason_to_stop():
    """The rule stops although the value may be the result of noise."""
    (candidates, arms, values), _ = problem(5)
    values = values + 0.5 * np.random.default_rng(0).normal(size=20)
    model = suggest(candidates, arms, values, batch=5).model
    unbounded = stopping.possible_gain(candidates, arms, values, model)
    bounds = (-10.0, float(values.max()) + 0.01)
    gain = stopping.possible_gain(candidates, arms, values, model, bounds=bounds)
    assert gain.of_any.max() == pytest.approx(0.01) and stopping.should_stop(gain, 0.02)
    assert not stopping.should_stop(unbounded, 0.02)
