"""Discounts: the weighted least squares of their definition (THEORY 7.12), from scratch for every
example; rounding; and a target that changes."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from test_online import KEY, changed, examples, steps

from jsketch import kernels, loops, online, struct
from jsketch.contrib import DiscountedKernelAWV, DiscountedPKAWV
from jsketch.sketch import fourier, nystrom
from jsketch.sketch.fourier import RandomFourier
from jsketch.sketch.taylor import Taylor

LAM, GAMMA, PART = 0.5, 0.9, 30
TAYLOR = Taylor(2, 3, 0.8)
PLAIN = DiscountedPKAWV(TAYLOR, LAM, discount=GAMMA)
FORECASTERS = {"plain": PLAIN, "renew": PLAIN.replace(renew=True)}
each = pytest.mark.parametrize("name", FORECASTERS)
MISSING = [0, 7, 8, 29, 40]


def solved(z, ys, lam, gamma, awv=True, renew=False):
    """A fit from scratch for every example: the k-th of n labelled ones counts gamma^(n + 1 - k),
    and so does lam of a feature whose last renewal was after the k-th, k = 0 without one."""
    size, labelled, predictions = z.shape[1], [], []
    for t, row in enumerate(z):
        n = len(labelled)
        renewals = np.zeros(size)
        for k in range(n * renew):
            renewals[k % size] = k + 1
        weights = gamma ** (n - np.arange(n))
        inner = lam * np.diag(gamma ** (n + 1 - renewals)) + (z[labelled].T * weights) @ z[labelled]
        inner = inner + awv * np.outer(row, row)
        predictions.append(row @ np.linalg.solve(inner, z[labelled].T @ (weights * ys[labelled])))
        if np.isfinite(ys[t]):
            labelled.append(t)
    return np.array(predictions)


def in_parts(forecaster, xs, ys):
    """(predictions, state), PART examples at a time, in blocks of 7, so that the last one of a part
    is short."""
    state, predictions = None, []
    for first in range(0, len(ys), PART):
        part = slice(first, first + PART)
        forecasts, state = loops.prequential(
            forecaster, (xs[part], ys[part]), KEY, state=state, first=first, block=7
        )
        predictions.append(forecasts.prediction)
    return np.concatenate(predictions), state


def features_of(forecaster, xs):
    return np.asarray(jax.jit(forecaster.features.features)(jnp.asarray(xs)))


@each
def test_predictions_are_the_weighted_least_squares(name):
    """They are, for blocks and for single examples."""
    forecaster = FORECASTERS[name]
    xs, ys = examples()
    ys = changed(ys, MISSING, np.nan)
    z, renew = features_of(forecaster, xs), forecaster.renew
    oracle = solved(z, ys, LAM, GAMMA, renew=renew)
    predictions, state = in_parts(forecaster, xs, ys)
    np.testing.assert_allclose(predictions, oracle, atol=1e-8)
    alone, states, infos = zip(*steps(forecaster, xs, ys), strict=True)
    np.testing.assert_allclose(alone, oracle, atol=1e-8)
    assert not any(info.nonfinite for info in infos)
    chex.assert_trees_all_close(state, states[-1], rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@each
@pytest.mark.parametrize("kind", ["nystrom", "fourier", "ridge"])
def test_other_features_and_ridge_regression(name, kind):
    xs, ys = examples()
    features = {
        "nystrom": nystrom.feature_map(kernels.Gaussian(0.8), jnp.asarray(xs[:12])),
        "fourier": Drawn(RandomFourier(6).draw(kernels.Gaussian(0.8), 2, KEY, jnp.float64)),
        "ridge": TAYLOR,
    }[kind]
    awv = kind != "ridge"
    forecaster = FORECASTERS[name].replace(features=features, penalize_current=awv)
    z = features_of(forecaster, xs)
    oracle = solved(z, ys, LAM, GAMMA, awv, renew=forecaster.renew)
    np.testing.assert_allclose(in_parts(forecaster, xs, ys)[0], oracle, atol=1e-8)


@struct.dataclass
class Drawn:
    """Fourier features as a map."""

    drawn: object

    def features(self, x):
        return fourier.features(self.drawn, x)


def test_the_exact_forecaster():
    """The oracle uses explicit features of all examples."""
    xs, ys = examples(1)
    ys = changed(ys, MISSING, np.nan)
    values, vectors = np.linalg.eigh(oracles.gaussian(xs, xs, 0.4))
    z = vectors * np.sqrt(np.maximum(values, 0))
    for awv in (True, False):
        forecaster = DiscountedKernelAWV(
            kernels.Gaussian(0.4), LAM, penalize_current=awv, discount=GAMMA, capacity=64
        )
        predictions, state = in_parts(forecaster, xs, ys)
        np.testing.assert_allclose(predictions, solved(z, ys, LAM, GAMMA, awv), atol=1e-8)
    assert int(state.used) == len(ys) - len(MISSING)


def test_a_discount_of_one_changes_nothing():
    """Streams are equal bit for bit; programs of single steps may round the last bit
    differently."""
    xs, ys = examples()
    ys = changed(ys, MISSING, np.nan)
    kernel = kernels.Gaussian(0.4)
    for pair in (
        (online.PKAWV(TAYLOR, LAM), PLAIN.replace(discount=1.0)),
        (
            online.KernelAWV(kernel, LAM, capacity=64),
            DiscountedKernelAWV(kernel, LAM, discount=1.0, capacity=64),
        ),
    ):
        (predictions, state), (discounted, end) = (in_parts(each, xs, ys) for each in pair)
        np.testing.assert_array_equal(discounted, predictions)
        np.testing.assert_array_equal(end.inverse, state.inverse)
        single, discounted = ([p for p, _, _ in steps(each, xs[:12], ys[:12])] for each in pair)
        np.testing.assert_allclose(discounted, single, rtol=1e-12, atol=1e-14)


def test_discounts_sweep_by_vmap():
    """One discount is so small that blocks are cut."""
    xs, ys = examples()
    gammas = np.array([0.5, 0.95, 1.0])
    keeps = FORECASTERS["renew"]
    z = features_of(keeps, xs)

    @jax.jit
    @jax.vmap
    def run(gamma):
        forecaster = keeps.replace(discount=gamma)
        state = forecaster.init(jnp.asarray(xs[0]), KEY)
        return loops.streams.stream(forecaster, state, jnp.asarray(xs), jnp.asarray(ys), KEY)

    runs = run(gammas)
    expected = [solved(z, ys, LAM, gamma, renew=True) for gamma in gammas]
    np.testing.assert_allclose(runs.forecasts.prediction, expected, atol=1e-8)
    assert not runs.nonfinite.any()


@pytest.mark.parametrize("takes", ["examples", "blocks"])
def test_traced_discounts_out_of_range_are_flagged(takes):
    xs, ys = (jnp.asarray(values[1:3]) for values in examples())

    def last(discount):
        forecaster = FORECASTERS["renew"].replace(discount=discount)
        state = forecaster.init(xs[0], KEY)
        if takes == "blocks":
            return forecaster.predict_update(state, xs, ys)[2].nonfinite
        return forecaster.update(state, xs[0], ys[0], KEY)[1].nonfinite

    flags = jax.jit(jax.vmap(last))(jnp.array([0.5, 1.0, 1.5, 0.0, -0.5, jnp.nan]))
    assert flags.tolist() == [False] * 2 + [True] * 4


def test_the_identity_behind_discounted_regret():
    """THEORY 7.12, for several ends T: sum gamma^(T-t) (y - y^)^2 is the least weighted loss of a
    fixed w and the terms that each example adds to it."""
    xs, ys = examples(3)
    ys = np.sign(ys)
    z, predictions = features_of(PLAIN, xs), in_parts(PLAIN, xs, ys)[0]
    for end in (1, 20, len(ys)):
        rows, labels, predicted = z[:end], ys[:end], predictions[:end]
        weights = GAMMA ** (end - 1.0 - np.arange(end))
        inner = (rows.T * weights) @ rows + LAM * GAMMA**end * np.eye(z.shape[1])
        moment = rows.T @ (weights * labels)
        best = weights @ labels**2 - moment @ np.linalg.solve(inner, moment)
        before, after = np.zeros(end), np.zeros(end)
        matrix = LAM * np.eye(z.shape[1])
        for t, row in enumerate(rows):
            matrix = GAMMA * matrix
            before[t] = row @ np.linalg.solve(matrix, row)
            matrix = matrix + np.outer(row, row)
            after[t] = row @ np.linalg.solve(matrix, row)
        loss = weights @ (labels - predicted) ** 2
        added = weights @ (labels**2 * after - predicted**2 * before)
        assert loss == pytest.approx(best + added, rel=1e-8)
        assert loss <= best + weights @ after + 1e-9


@struct.dataclass
class Dependent:
    """Three features of two inputs: no example has a part in the third direction."""

    def features(self, x):
        return jnp.concatenate([x, x.sum(1, keepdims=True)], axis=1)


def test_rounding_between_the_triangles_does_not_grow():
    """Over 400 single steps predictions would be off by 100 if the two triangles were not
    averaged."""
    xs, ys = examples(6, 400)

    @jax.jit
    def scanned(forecaster, xs, ys):
        def step(state, example):
            x, y = example
            return forecaster.update(state, x, y, KEY)[0], forecaster.predict(state, x)

        return jax.lax.scan(step, forecaster.init(xs[0], KEY), (xs, ys))[1]

    z = features_of(PLAIN, xs)
    predictions = scanned(PLAIN, jnp.asarray(xs), jnp.asarray(ys))
    np.testing.assert_allclose(predictions, solved(z, ys, LAM, GAMMA), atol=1e-10)


def test_a_forgotten_regularization_stops_the_stream_and_a_renewed_one_does_not():
    xs, ys = examples(4, 600)
    forecaster = DiscountedPKAWV(Dependent(), LAM, discount=GAMMA)
    with pytest.raises(FloatingPointError, match="no longer finite"):
        in_parts(forecaster, xs, ys)
    z = np.concatenate([xs, xs.sum(1, keepdims=True)], axis=1)
    predictions, _ = in_parts(forecaster, xs[:240], ys[:240])
    np.testing.assert_allclose(predictions, solved(z[:240], ys[:240], LAM, GAMMA), atol=1e-3)
    renewed, _ = in_parts(forecaster.replace(renew=True), xs, ys)
    np.testing.assert_allclose(renewed, solved(z, ys, LAM, GAMMA, renew=True), atol=1e-10)
