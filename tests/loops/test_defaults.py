"""The default forecaster of a stream, its progress, and the warnings about scales."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Live, chunks, default_forecaster, kernels, online, prequential
from jsketch.loops import streams
from jsketch.loops.streams import stream
from jsketch.online import PKAWV, Standardized
from jsketch.sketch import Bounded, Taylor, WithConstant
from jsketch.sketch.kors import Sampling
from jsketch.sketch.taylor import bounded

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
    from_arrays = default_forecaster((x, y), progress=False)
    from_chunks = default_forecaster(chunks(x[:1_100], y[:1_100], size=150), progress=False)
    assert capsys.readouterr().err == ""
    lengthscales = [
        f.forecaster.features.basis.basis.lengthscale for f in (from_arrays, from_chunks)
    ]
    assert lengthscales[0] == lengthscales[1]
    np.testing.assert_allclose(from_arrays.scales, from_chunks.scales)


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
    forecaster = default_forecaster((x, x[:, 0]), progress=False)
    assert forecaster.forecaster.features.basis.basis.degree == 1


def test_a_saved_stream_restores_the_default(tmp_path):
    x, y = examples(100)
    live = Live(default_forecaster((x, y), progress=False), inputs=3, key=KEY)
    live.learn_many(x, y)
    live.save(tmp_path / "stream")
    assert Live.load(tmp_path / "stream").predict(x[0]) == live.predict(x[0])


def small(shifts, scales, label_shift=0.0):
    """A forecaster with 1 + C(d + 2, 2) + 3 d features for d standardized inputs."""
    features = WithConstant(Bounded(Taylor(inputs=len(shifts), degree=2, lengthscale=1.5), 2))
    pkawv = PKAWV(features, 0.1, penalize_current=False)
    return Standardized(pkawv, np.asarray(shifts, float), np.asarray(scales, float), label_shift)


def test_standardized_is_the_forecaster_of_scaled_inputs_and_shifted_labels():
    x = np.random.default_rng(2).uniform(-4, 4, (150, 2))
    y = 7 + x[:, 0]
    forecaster = small([1.0, -2.0], [3.0, 2.5], label_shift=7.0)
    found, state = prequential(forecaster, (x, y), KEY)
    z = (x - [1.0, -2.0]) / [3.0, 2.5]
    expected, inner = prequential(forecaster.forecaster, (z, y - 7), KEY)
    np.testing.assert_allclose(found.prediction, expected.prediction + 7, rtol=1e-9)
    np.testing.assert_allclose(state.forecaster.weights, inner.weights, rtol=1e-9)


def test_standardized_has_any_forecaster():
    """The blocks of this forecaster end early, its capacity grows, and the second input is scaled
    within the stream."""
    random = np.random.default_rng(5)
    x = np.c_[random.uniform(-1, 1, 150), np.r_[np.full(20, 5.0), random.uniform(5, 9, 130)]]
    y = 7 + np.sin(3 * x[:, 0])
    kors = online.NystromAWV(kernels.Gaussian(1.0), 0.1, Sampling(0.1), capacity=16)
    forecaster = Standardized(kors, np.asarray([0.0, 5.0]), np.asarray([1.0, 0.0]), 7.0)
    found, state = prequential(forecaster, (x, y), KEY)
    scale, median = float(state.scale[1]), float(state.middle[1])
    assert state.varied.tolist() == [50, 50] and median < 2 * scale  # no gap is compressed
    z = np.c_[x[:, 0], np.where(np.arange(150) < 70, 0, (x[:, 1] - 5) / scale)]
    start = kors.init(jnp.asarray(z[0]), jax.random.split(KEY)[0])
    expected, inner = prequential(kors, (z, y - 7), KEY, state=start)
    np.testing.assert_allclose(found.prediction, expected.prediction + 7, rtol=1e-9)
    np.testing.assert_array_equal(found.dictionary_size, expected.dictionary_size)
    assert state.forecaster.basis.shape == inner.basis.shape != (16, 16)
    live = Live(forecaster, 2, KEY)
    one_by_one = [live.predict_learn(*example) for example in zip(x[:90], y[:90], strict=True)]
    np.testing.assert_allclose(one_by_one, found.prediction[:90], rtol=1e-9)


def test_standardized_inputs_are_increasing_and_bounded():
    z = jnp.linspace(-4, 4, 801)
    values = np.asarray(bounded(z, 3.0))
    inside = np.abs(z) <= 1.5
    assert (values[inside] == z[inside]).all() and np.abs(values).max() < 3
    steps = np.diff(values)
    assert (steps > 0).all() and (steps <= 0.01 + 1e-6).all()  # no jump
    assert np.abs(bounded(jnp.asarray([-1e30, 1e30]), 3.0)).tolist() == [3, 3]


def test_a_late_input_is_scaled_by_its_first_fifty_differences(tmp_path):
    random = np.random.default_rng(3)
    x = np.c_[random.normal(size=300), np.full(300, 5.0)]
    x[100::2, 1] = random.uniform(300, 400, 100)
    x[102, 1] = 1e9  # one of many changes little
    y = x[:, 0] + random.normal(size=300)
    y[110] = np.nan  # does not count
    forecaster = small([0.0, 5.0], [1.0, 0.0])
    forecasts, state = prequential(forecaster, (x, y), KEY)
    late = [t for t in range(100, 300, 2) if t != 110][:50]
    assert state.varied.tolist() == [50, 50]
    low, median, high = np.sort(x[late, 1])[[12, 25, 37]]
    assert state.scale[1] == (high - low) / 1.349 and state.middle.tolist() == [0, median - 5]
    # until then the input changes nothing, and then it does
    constant, _ = prequential(forecaster, (np.c_[x[:, 0], np.full(300, 5.0)], y), KEY)
    difference = np.abs(np.asarray(forecasts.prediction) - constant.prediction)
    assert (difference[: late[-1] + 1] == 0).all() and difference[late[-1] + 2] > 0
    # block by block and one by one
    for block in (1, 7):
        other, end = prequential(forecaster, (x, y), KEY, block=block)
        np.testing.assert_allclose(other.prediction, forecasts.prediction, atol=1e-9)
        assert end.scale.tolist() == state.scale.tolist()
        assert end.middle.tolist() == state.middle.tolist()
    live = Live(forecaster, 2, KEY)
    for t in range(230):
        if t == 150:  # its scale is not yet known
            live.save(tmp_path / "stream")
            live = Live.load(tmp_path / "stream")
        assert abs(live.predict_learn(x[t], y[t]) - forecasts.prediction[t]) < 1e-9


def test_a_gap_before_a_late_input_is_compressed():
    forecaster = small([5.0], [0.0])
    for unit in (1, -1):
        x = 5 + unit * np.r_[np.zeros(5), np.linspace(290, 310, 80)]
        _, state = prequential(forecaster, (x[:, None], x), KEY)
        scale, median = float(state.scale[0]), float(state.middle[0])
        near = median + unit * scale * np.linspace(-1.75, 3, 20)
        points = np.r_[unit * np.asarray([-scale, 0]), near]
        z = np.asarray(forecaster._learn_scales(state, jnp.asarray(5 + points)[:, None], x[:22])[0])
        expected = np.r_[-1, 0, np.linspace(0.25, 5, 20)]
        np.testing.assert_allclose(z[:, 0], unit * expected, atol=1e-9)
        # the range is that of the values that scaled the input
        ends = 3 * scale * np.asarray([-1.01, -0.99, 0.99, 1.01])
        for centre in (5, 5 + median):
            outside = forecaster.outside(state, jnp.asarray(centre + ends)[:, None])[:, 0]
            assert outside.tolist() == [True, False, False, True]


def test_standardized_runs_under_vmap_and_in_float32():
    random = np.random.default_rng(4)
    x = np.c_[random.normal(size=(4, 300, 1)), random.normal(size=(4, 300, 1)) > 0.5]
    y = x.sum(2)
    forecaster = small([0.0, 0.0], [1.0, 0.0])

    def last_prediction(x, y):
        run = stream(forecaster, forecaster.init(x[0], KEY), x, y, KEY)
        return run.forecasts.prediction[-1], run.state.scale

    together, scales = jax.jit(jax.vmap(last_prediction))(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(scales, [[1, 0.5]] * 4)
    for i in range(4):
        forecasts, state = prequential(
            forecaster, (x[i].astype(np.float32), y[i].astype(np.float32)), KEY
        )
        assert forecasts.prediction.dtype == state.scale.dtype == np.float32
        assert abs(float(forecasts.prediction[-1]) - float(together[i])) < 1e-3


def test_standardized_refuses_what_does_not_fit():
    x = jnp.zeros(2)
    for wrong, words in (
        (small([0.0], [1.0]), "one number for each of the 2 inputs"),
        (small([0.0, 0.0], [1.0, -1.0]), "scales must be"),
        (small([np.nan, 0.0], [1.0, 1.0]), "shifts must be finite"),
        (small([0.0, 0.0], [1.0, 1.0], np.inf), "label_shift must be"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong.init(x, KEY)


@pytest.mark.slow
def test_irrelevant_inputs_beside_three_relevant_ones_cost_at_most_a_fifth():
    random, n = np.random.default_rng(1), 6_000
    x, t = random.uniform(-1, 1, (n, 3)), np.arange(n)
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=n)
    late = t >= 1_500
    others = {
        "a running number": t,
        "5, later 5 to 300": np.where(late, random.uniform(5, 300, n), 5),
        "0, later an hour": np.where(late, random.integers(0, 24, n), 0),
        "sd 1, later 10": random.normal(size=n) * np.where(late, 10, 1),
        "mean 0, later 8": random.normal(size=n) + 8 * late,
        "a time stamp": 1.6e9 + np.cumsum(random.exponential(30, n)),
        "0, later sd 50": 50 * random.normal(size=n) * late,
    }

    def last_error(x):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "inputs .* have left the range")
            forecasts, _ = prequential(default_forecaster((x, y), progress=False), (x, y), KEY)
        return np.asarray(forecasts.loss)[-2_000:].mean()

    alone = last_error(x)
    ratios = {name: last_error(np.c_[x, other]) / alone for name, other in others.items()}
    assert max(ratios.values()) <= 1.2, ratios


N_EVENTS = 3_000


def events(late):
    """Inputs [n,2] and labels of which the second input is irrelevant, and `late` from number 750
    on."""
    random = np.random.default_rng(5)
    x = random.normal(size=N_EVENTS)
    y = np.sin(x) + 0.1 * random.normal(size=N_EVENTS)
    return np.c_[x, late(random, np.arange(N_EVENTS), np.arange(N_EVENTS) >= 750)], y


IRRELEVANT = {
    "a running number": (lambda r, t, late: t, True),
    "5, later 5 to 300": (lambda r, t, late: np.where(late, r.uniform(5, 300, N_EVENTS), 5), False),
    "0, later an hour": (lambda r, t, late: np.where(late, r.integers(0, 24, N_EVENTS), 0), False),
    "sd 1, later 10": (lambda r, t, late: r.normal(size=N_EVENTS) * np.where(late, 10, 1), True),
    "mean 0, later 8": (lambda r, t, late: r.normal(size=N_EVENTS) + 8 * late, True),
    "a time stamp": (lambda r, t, late: 1.6e9 + np.cumsum(r.exponential(30, N_EVENTS)), True),
    "0, later sd 50": (lambda r, t, late: 50 * r.normal(size=N_EVENTS) * late, False),
}


@pytest.mark.parametrize("name", IRRELEVANT)
def test_an_irrelevant_input_that_leaves_its_first_range_does_no_harm(name):
    late, leaves = IRRELEVANT[name]
    x, y = events(late)
    forecaster = default_forecaster((x, y), first=500, progress=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = [part for part, _ in prequential(forecaster, chunks(x, y, 1_000), KEY)]
    # the variance of the noise is 0.01
    assert np.asarray(parts[2].loss).mean() < 0.012
    # one warning for all chunks, and none of an input that has no scale yet
    assert len(caught) == leaves
    assert not leaves or "inputs [1] have left the range" in str(caught[0].message)


def relevant(name):
    """Inputs [n,3] and labels whose noise has the variance 0.01, or none; they depend on values
    beyond the range of the first inputs."""
    random, slopes = np.random.default_rng(8), np.asarray([1, -0.8, 0.4])
    if name == "no noise":
        x = random.normal(size=(N_EVENTS, 3))
        return x, x @ slopes
    noise = 0.1 * random.normal(size=N_EVENTS)
    if name == "heavy tails":
        x = random.standard_t(3, (N_EVENTS, 3))
        return x, x @ slopes + noise
    x = random.uniform(-1, 1, (N_EVENTS, 3))
    x[750:, 0] *= 10 if name == "linear, ten times" else 3
    effect = x[:, 0] if name == "linear, ten times" else np.sin(3 * x[:, 0])
    return x, effect + x[:, 1] * x[:, 2] + noise


@pytest.mark.parametrize(
    "name, most",
    [
        ("no noise", 1e-6),
        ("heavy tails", 0.03),
        ("linear, ten times", 0.015),
        ("a sine, three times", 0.03),
    ],
)
def test_a_relevant_input_that_leaves_its_first_range_is_learned(name, most):
    x, y = relevant(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "inputs .* have left the range")
        forecaster = default_forecaster((x, y), first=500, progress=False)
        forecasts, _ = prequential(forecaster, (x, y), KEY)
    assert np.asarray(forecasts.loss)[-1_000:].mean() < most


@pytest.mark.parametrize(
    "late, jump",
    [
        (lambda b, t: b, 0),
        (lambda b, t: np.where(t < 760, 1e4, b), 0),
        (lambda b, t: 300 + 5 * b, 0),
        (lambda b, t: 300 + 5 * b, 2),
    ],
)
def test_a_relevant_input_that_starts_late_is_learned(late, jump):
    """The input is 0 before number 750; `jump` is a change of the labels at that number."""
    random, t = np.random.default_rng(9), np.arange(N_EVENTS)
    a, b = random.uniform(-1, 1, (2, N_EVENTS))
    effect = np.where(t >= 750, jump + np.sin(3 * b), 0)
    y = np.sin(3 * a) + effect + 0.1 * random.normal(size=N_EVENTS)
    x = np.c_[a, np.where(t >= 750, late(b, t), 0)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "inputs .* have left the range")
        forecaster = default_forecaster((x, y), first=500, progress=False)
        forecasts, _ = prequential(forecaster, (x, y), KEY)
    # the variance of the noise is 0.01
    assert np.asarray(forecasts.loss)[-1_000:].mean() < 0.015


def test_bounded_features_distinguish_inputs_far_from_zero():
    z = np.asarray([[0.0, 0.0], [7.0, 0.0], [29.0, 0.0], [1e30, 0.0], [1e30, 1.0]])
    taylor = Taylor(inputs=2, degree=2, lengthscale=2.0)
    values = np.asarray(Bounded(taylor, degree=3).features(jnp.asarray(z)))
    assert values.shape == (5, 6 + 2 * 4) and np.isfinite(values).all()
    assert (np.abs(np.diff(values, axis=0)).max(1) > 0.1).all()
    # only the product features of an input at 0 depend on the other one
    assert (values[:4, [7 + 3, 8 + 3]] == 0).all()
    # the inputs are the last features, up to a factor
    np.testing.assert_allclose(values[:2, -2:] * 4, z[:2])


def test_live_warns_once_of_an_input_that_leaves_its_range():
    x = np.random.default_rng(6).uniform(-2, 2, (300, 2))
    beyond = x + np.asarray([0, 20])
    live = Live(small([0.0, 0.0], [1.0, 1.0]), 2, KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live.learn_many(x, x[:, 0])
        for row in [*x[:100], *beyond[:24]]:
            live.predict(row)
            live.learn(row, row[0])
        # an example that is only predicted does not count
        live.predict_many(beyond)
        for _ in range(25):
            live.predict(beyond[0])
    with pytest.warns(UserWarning, match=r"inputs \[1\] have left the range") as caught:
        live.predict_learn(beyond[0], 0.0)
        live.learn_many(beyond, x[:, 0])
    assert len(caught) == 1 and "(up to example 425)" in str(caught[0].message)


def test_live_converts_a_forecaster_once(monkeypatch):
    live = Live(small([0.0, 0.0], [1.0, 1.0]), 2, KEY)
    monkeypatch.setattr(streams, "in_dtype", pytest.fail)
    live.predict_learn(np.ones(2), 1.0)


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_labels_in_another_unit_have_exactly_the_predictions_in_this_unit(unit):
    x, y = examples(400)
    choices, predictions = [], []
    for labels in (y, y * unit):
        forecaster = default_forecaster((x, labels), first=200, progress=False)
        choices.append((forecaster.forecaster.regularization, forecaster.label_shift / labels[0]))
        predictions.append(prequential(forecaster, (x, labels), KEY)[0].prediction)
    assert choices[0] == choices[1]
    np.testing.assert_array_equal(predictions[0] * unit, predictions[1])


@pytest.mark.parametrize("offset, unit", [(1e2, 1), (1e6, 1), (0, 1e-9), (0, 1e9), (1e6, 1e-3)])
def test_offsets_and_units_change_no_relative_error(offset, unit):
    random = np.random.default_rng(7)
    x = random.uniform(-1, 1, (1_500, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1] ** 2

    def error(x, y):
        forecaster = default_forecaster((x, y), first=400, progress=False)
        loss = np.asarray(prequential(forecaster, (x, y), KEY)[0].loss)
        return loss[500:].mean() / y.var()

    expected = error(x, y)
    assert expected < 1e-4
    assert error(x, y * unit + offset) == pytest.approx(expected, rel=0.1)
    assert error(x * unit + offset, y) == pytest.approx(expected, rel=0.1)


@pytest.mark.float32
def test_inputs_that_float32_does_not_distinguish_are_named():
    random, n = np.random.default_rng(10), 100
    stamps = 1.6e9 + np.arange(n) * 72.0
    x = np.c_[random.normal(size=n), stamps, np.full(n, 1e9), 1e6 + random.normal(size=n)]
    y = x[:, 0]
    # given in float32, in which the constant has no deviation; or in float64, converted to float32
    given = [(x.astype(np.float32), y.astype(np.float32))]
    if not jax.config.jax_enable_x64:
        given.append((x, y))
    for pair in given:
        with pytest.warns(UserWarning, match=r"inputs \[1, 3\] vary .* for float32 numbers"):
            default_forecaster(pair, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = x - [0, stamps[0], 0, 1e6]
        default_forecaster((near.astype(np.float32), y.astype(np.float32)), progress=False)
        if jax.config.jax_enable_x64:
            default_forecaster((x, y), progress=False)


@pytest.mark.parametrize("unit, words", [(1e20, "above the largest"), (1e-30, "below the least")])
def test_labels_whose_squared_errors_are_no_float32_numbers_are_warned_of(unit, words):
    x, y = (values.astype(np.float32) for values in (np.ones((9, 2)), np.linspace(1, 2, 9)))
    forecaster = small([0.0, 0.0], [1.0, 1.0])
    with pytest.warns(UserWarning, match=f"squared errors .* {words} number of float32: use"):
        prequential(forecaster, (x, y * np.float32(unit)), KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prequential(forecaster, (x, y), KEY)
        prequential(forecaster, (x.astype(float), y.astype(float) * unit), KEY)
        prequential(forecaster, (x, 0 * y), KEY)


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
    # the features are those of the standardized inputs
    wide, narrow = (
        Standardized(
            online.PKAWV(Taylor(3, degree=6, lengthscale=unit)), x.mean(0), x.std(0), y.mean()
        )
        for unit in (2.0, 0.4)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prequential(wide, (x, y), KEY)
    with pytest.warns(UserWarning, match="scale the inputs"):
        prequential(narrow, (x, y), KEY)


def test_progress_has_the_error_of_the_whole_stream_so_far(capsys):
    x, y = examples(300)
    forecaster = default_forecaster((x, y), progress=False)
    parts = [part for part, _ in prequential(forecaster, chunks(x, y, 200), KEY, progress=True)]
    lines = capsys.readouterr().err.splitlines()
    loss = np.concatenate([np.asarray(part.loss) for part in parts])
    assert len(lines) == 2 and lines[1].startswith("300 examples, ")
    words = f"mean squared error {loss.mean():.4g}, {loss[200:].mean():.4g} in the last 100"
    assert words in lines[1]
