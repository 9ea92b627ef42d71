"""Poor outliers are raised to a limit: twice as far below the median as the best value is above."""

import jax
import numpy as np
import pytest

from jsketch.suggest import fit, leave_one_out, library, predict, stopping, suggest
from jsketch.suggest.data import outlier_limit

RANDOM = np.random.default_rng(0)
LIBRARY = library(RANDOM.uniform(size=(80, 2)))
FEATURES = np.asarray(LIBRARY.features)
ARMS = RANDOM.permutation(80)[:25]
TRUTH = np.sin(4 * FEATURES[:, 0]) + FEATURES[:, 1]
VALUES = TRUTH[ARMS]
KEY = jax.random.key(3)


def with_spikes(depth):
    """Values of which the three poorest are lower by `depth`."""
    values = VALUES.copy()
    values[np.argsort(VALUES)[:3]] -= depth
    return values


def test_the_limit_is_twice_as_far_below_the_median_as_the_best_value_is_above():
    assert outlier_limit(np.array([0.0, 5.0, 7.0, 8.0, 9.0])) == 3.0
    assert outlier_limit(np.array([1.0, 4.0])) == -0.5
    # no value is above the median
    assert outlier_limit(np.array([0.0, 1.0, 1.0])) == outlier_limit(np.array([2.0])) == -np.inf


@pytest.mark.parametrize("depth", [1e2, 1e9])
def test_the_depth_of_a_spike_changes_nothing(depth):
    """All results are those of the values in which the spikes are raised to the limit."""
    spiked, limit = with_spikes(depth), outlier_limit(with_spikes(depth))
    limited = np.maximum(spiked, limit)
    expected, actual = (suggest(LIBRARY, ARMS, y, batch=6, key=KEY) for y in (limited, spiked))
    model = actual.model
    assert actual.rows.tolist() == expected.rows.tolist()
    assert model.scale == expected.model.scale and model.limits == (limit, np.inf)
    for function in (predict, leave_one_out):
        expected, actual = (function(LIBRARY, ARMS, y, model) for y in (limited, spiked))
        np.testing.assert_array_equal(actual.mean, expected.mean)
        np.testing.assert_array_equal(actual.std, expected.std)
    gains = [stopping.possible_gain(LIBRARY, ARMS, y, model).of_any for y in (limited, spiked)]
    np.testing.assert_array_equal(*gains)
    assert stopping.tolerance(spiked) == stopping.tolerance(limited)


def test_spikes_do_not_hide_the_other_values():
    """Without the limit the model fits the spikes, and predicts other values badly."""
    spiked = with_spikes(50.0)
    other_rows = np.setdiff1d(np.arange(80), ARMS)
    errors = []
    for limits in (None, (-np.inf, np.inf)):
        model = fit(LIBRARY, ARMS, spiked, limits=limits)
        mean = predict(LIBRARY, ARMS, spiked, model).mean[other_rows]
        errors.append(np.median(np.abs(mean - TRUTH[other_rows])))
    assert 4 * errors[0] < errors[1]


def test_given_limits_clip_small_and_large_values():
    model = fit(LIBRARY, ARMS, VALUES, limits=(0.2, 0.9))
    expected = fit(LIBRARY, ARMS, np.clip(VALUES, 0.2, 0.9), limits=(-np.inf, np.inf))
    assert model.limits == (0.2, 0.9)
    np.testing.assert_array_equal(model.lengthscale, expected.lengthscale)
    for field in ("scale", "centre", "ratio"):
        assert getattr(model, field) == getattr(expected, field)
