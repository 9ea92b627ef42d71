"""Discounts: the weighted least squares of their definition (THEORY 7.12), and rounding."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from test_online import KEY, examples, steps, with_value

from jsketch import kernels, loops, online, struct
from jsketch.contrib import DiscountedKernelAWV, DiscountedPKAWV
from jsketch.results import Result
from jsketch.sketch.taylor import Taylor

LAM, GAMMA, PART = 0.5, 0.9, 30
TAYLOR = Taylor(2, 3, 0.8)
AWV = DiscountedPKAWV(TAYLOR, LAM, discount=GAMMA)
FORECASTERS = {"plain": AWV, "renew": AWV.replace(renew=True)}
FORECASTERS["ridge"] = AWV.replace(penalize_current=False)
each = pytest.mark.parametrize("name", FORECASTERS)
UNLABELLED = [0, 7, 8, 29, 40]


def weighted_fits(z, ys, lam, gamma, awv=True, renew=False):
    """Predictions of a fit from scratch for every example. The k-th of n labelled examples has the
    weight gamma^(n + 1 - k). A feature that was last renewed after the k-th example, or after k = 0
    without a renewal, has the regularization lam gamma^(n + 1 - k)."""
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


def run_in_parts(forecaster, xs, ys):
    """(predictions, state), PART examples at a time, in blocks of 7."""
    state, predictions = None, []
    for first in range(0, len(ys), PART):
        part = slice(first, first + PART)
        options = dict(state=state, first=first, block=7)
        forecasts, state = loops.prequential(forecaster, (xs[part], ys[part]), KEY, **options)
        predictions.append(forecasts.prediction)
    return np.concatenate(predictions), state


def features_of(forecaster, xs):
    return np.asarray(jax.jit(forecaster.features.features)(jnp.asarray(xs)))


@each
def test_predictions_are_the_weighted_least_squares(name):
    """Both blocks and single examples are compared with fits from scratch."""
    forecaster = FORECASTERS[name]
    xs, ys = examples()
    ys = with_value(ys, UNLABELLED, np.nan)
    z, renew = features_of(forecaster, xs), forecaster.renew
    expected = weighted_fits(z, ys, LAM, GAMMA, forecaster.penalize_current, renew)
    predictions, state = run_in_parts(forecaster, xs, ys)
    np.testing.assert_allclose(predictions, expected, atol=1e-8)
    predictions, states, infos = zip(*steps(forecaster, xs, ys), strict=True)
    np.testing.assert_allclose(predictions, expected, atol=1e-8)
    assert not any(info.result for info in infos)
    chex.assert_trees_all_close(state, states[-1], rtol=1e-7, atol=1e-8)


def test_the_exact_forecaster_is_the_weighted_least_squares():
    """Fits from scratch use the features of an eigendecomposition of the Gram matrix."""
    xs, ys = examples(1)
    ys = with_value(ys, UNLABELLED, np.nan)
    values, vectors = np.linalg.eigh(oracles.gaussian(xs, xs, 0.4))
    z = vectors * np.sqrt(np.maximum(values, 0))
    exact = DiscountedKernelAWV(kernels.Gaussian(0.4), LAM, discount=GAMMA, capacity=64)
    for awv in (True, False):
        predictions, state = run_in_parts(exact.replace(penalize_current=awv), xs, ys)
        np.testing.assert_allclose(predictions, weighted_fits(z, ys, LAM, GAMMA, awv), atol=1e-8)
    assert int(state.used) == len(ys) - len(UNLABELLED)


def test_a_discount_of_one_changes_nothing():
    """The programs may round differently."""
    xs, ys = examples()
    ys = with_value(ys, UNLABELLED, np.nan)
    kernel = kernels.Gaussian(0.4)
    exact = online.KernelAWV(kernel, LAM, capacity=64)
    discounted_exact = DiscountedKernelAWV(kernel, LAM, discount=1.0, capacity=64)
    pairs = (online.PKAWV(TAYLOR, LAM), AWV.replace(discount=1.0)), (exact, discounted_exact)
    for pair in pairs:
        (predictions, state), (discounted, end) = (run_in_parts(one, xs, ys) for one in pair)
        np.testing.assert_allclose(discounted, predictions, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(end.inverse, state.inverse, rtol=1e-12, atol=1e-14)
        single, discounted = ([p for p, _, _ in steps(one, xs[:12], ys[:12])] for one in pair)
        np.testing.assert_allclose(discounted, single, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("calls", ["examples", "blocks"])
def test_traced_discounts_out_of_range_are_flagged(calls):
    xs, ys = (jnp.asarray(values[1:3]) for values in examples())

    def result(discount):
        forecaster = FORECASTERS["renew"].replace(discount=discount)
        state = forecaster.init(xs[0], KEY)
        if calls == "blocks":
            return forecaster.advance(state, xs, ys, 2)[3].result
        return forecaster.update(state, xs[0], ys[0], KEY)[1].result

    results = jax.jit(jax.vmap(result))(jnp.array([0.5, 1.0, 1.5, 0.0, -0.5, jnp.nan]))
    assert results.tolist() == [Result.RUNNING] * 2 + [Result.NOT_FINITE] * 4


@struct.dataclass
class DependentFeatures:
    """Three features of two inputs, one of which is the sum of the others."""

    def features(self, x):
        return jnp.concatenate([x, x.sum(1, keepdims=True)], axis=1)


def test_rounding_differences_of_the_triangles_of_the_inverse_do_not_grow():
    """Without averages of the two triangles of A^-1, predictions would be off by 100."""
    xs, ys = examples(6, 400)

    @jax.jit
    def scan_predictions(forecaster, xs, ys):
        def step(state, example):
            x, y = example
            return forecaster.update(state, x, y, KEY)[0], forecaster.predict(state, x)

        return jax.lax.scan(step, forecaster.init(xs[0], KEY), (xs, ys))[1]

    z = features_of(AWV, xs)
    predictions = scan_predictions(AWV, jnp.asarray(xs), jnp.asarray(ys))
    np.testing.assert_allclose(predictions, weighted_fits(z, ys, LAM, GAMMA), atol=1e-10)


def test_a_forgotten_regularization_stops_the_stream_and_a_renewed_one_does_not():
    xs, ys = examples(4, 600)
    forecaster = DiscountedPKAWV(DependentFeatures(), LAM, discount=GAMMA)
    with pytest.raises(FloatingPointError, match="no longer finite"):
        run_in_parts(forecaster, xs, ys)
    z = np.concatenate([xs, xs.sum(1, keepdims=True)], axis=1)
    predictions, _ = run_in_parts(forecaster, xs[:240], ys[:240])
    np.testing.assert_allclose(predictions, weighted_fits(z[:240], ys[:240], LAM, GAMMA), atol=1e-3)
    renewed, _ = run_in_parts(forecaster.replace(renew=True), xs, ys)
    np.testing.assert_allclose(renewed, weighted_fits(z, ys, LAM, GAMMA, renew=True), atol=1e-10)
