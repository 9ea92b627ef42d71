"""The default forecaster of a stream, its progress, and the warning about scales."""

import jax
import numpy as np
import pytest

from jsketch import Live, chunks, default_forecaster, online, prequential
from jsketch.sketch import Standardized, Taylor

KEY = jax.random.key(0)


def examples(n):
    """Inputs [n,3] and labels [n] whose means and deviations are far from 1."""
    random = np.random.default_rng(0)
    x = random.normal([20, 101_325, 0.001], [8, 900, 0.0002], (n, 3))
    y = 300 + 40 * np.sin(x[:, 0] / 8) + 0.02 * (x[:, 1] - 101_325) + 5e4 * (x[:, 2] - 0.001)
    return x, y + random.normal(0, 1, n)


def test_the_default_fits_inputs_and_labels_of_any_units(capsys):
    x, y = examples(3_000)
    forecaster = default_forecaster((x, y))
    assert "degree 8" in capsys.readouterr().err
    forecasts, _ = prequential(forecaster, (x, y), KEY)
    # the variance of the labels is 990, and the variance of the noise is 1
    assert np.asarray(forecasts.loss)[1_500:].mean() < 2


def test_the_default_does_not_depend_on_the_chunks_or_on_later_examples(capsys):
    x, y = examples(2_000)
    from_arrays = default_forecaster((x, y), progress=False).features
    stream = chunks(x[:1_100], y[:1_100], size=150)
    from_chunks = default_forecaster(stream, progress=False).features
    assert capsys.readouterr().err == ""
    assert from_arrays.basis.lengthscale == from_chunks.basis.lengthscale
    np.testing.assert_allclose(from_arrays.scale, from_chunks.scale)


def test_missing_labels_and_constant_inputs_are_accepted():
    x, y = examples(1_000)
    x[:, 1] = 7.0
    y[::2] = np.nan
    forecaster = default_forecaster((x, y), progress=False)
    forecasts, _ = prequential(forecaster, (x, y), KEY)
    assert np.isfinite(np.asarray(forecasts.prediction)).all()
    with pytest.raises(ValueError, match="at least 20 labelled examples"):
        default_forecaster((x[:30], y[:30]), progress=False)
    with pytest.raises(FloatingPointError, match="a label is infinite: use NaN"):
        default_forecaster((x, np.where(y > 340, np.inf, y)), progress=False)


def test_the_degree_is_small_for_many_inputs():
    x = np.random.default_rng(1).normal(size=(60, 30))
    assert default_forecaster((x, x[:, 0]), progress=False).features.basis.degree == 1


def test_a_saved_stream_restores_the_default(tmp_path):
    x, y = examples(100)
    live = Live(default_forecaster((x, y), progress=False), inputs=3, key=KEY)
    live.learn_many(x, y)
    live.save(tmp_path / "stream")
    assert Live.load(tmp_path / "stream").predict(x[0]) == live.predict(x[0])


def test_standardized_features_are_those_of_scaled_inputs():
    x = np.random.default_rng(2).normal(size=(5, 2))
    basis = Taylor(inputs=2, degree=3, lengthscale=1.5)
    shift, scale = np.array([1.0, 2.0]), np.array([3.0, 0.5])
    features = Standardized(basis, shift, scale).features(jax.numpy.asarray(x))
    assert (features[:, 0] == 1).all()  # the constant feature
    np.testing.assert_allclose(features[:, 1:], basis.features((x - shift) / scale))


def test_the_represented_share_is_the_squared_length_of_the_features():
    x = np.random.default_rng(3).normal(size=(6, 2)) * 2
    taylor = Taylor(inputs=2, degree=4, lengthscale=1.3)
    lengths = np.square(taylor.features(jax.numpy.asarray(x))).sum(1)
    np.testing.assert_allclose(taylor.represented_share(x), lengths, rtol=1e-6)


def test_inputs_that_are_too_large_for_the_degree_are_warned_of():
    x, y = examples(50)
    forecaster = online.PKAWV(Taylor(inputs=3, degree=6, lengthscale=1.0))
    with pytest.warns(UserWarning, match="scale the inputs"):
        prequential(forecaster, (x, y), KEY)


def test_progress_has_the_error_of_the_whole_stream_so_far(capsys):
    x, y = examples(300)
    forecaster = default_forecaster((x, y), progress=False)
    parts = [part for part, _ in prequential(forecaster, chunks(x, y, 200), KEY, progress=True)]
    lines = capsys.readouterr().err.splitlines()
    loss = np.concatenate([np.asarray(part.loss) for part in parts])
    assert len(lines) == 2 and lines[1].startswith("300 examples, ")
    words = f"mean squared error {loss.mean():.4g}, {loss[200:].mean():.4g} in the last 100"
    assert words in lines[1]
