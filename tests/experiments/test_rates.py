"""PKAWV's experiments: exponents of Figure 1 against the closed forms that the paper prints, where
these are right (THEORY 7.11); measured ones; uniform dictionaries."""

import jax
import numpy as np
import oracles
import pytest

from experiments.pkawv_2019 import growing_degree, kors_rates, rates, settings
from jsketch import loops


@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.4])
def test_exponents(gamma):
    optimal, enough = gamma / (1 + gamma), 2 * gamma / (1 - gamma**2)
    for a in (0.3 * enough, 0.8 * enough):  # Corollary 7, small dictionaries
        assert rates.exponent("pkawv", gamma, a)[1] == pytest.approx(1 + a * (0.5 - 0.5 / gamma))
    assert rates.exponent("pkawv", gamma, 1.01 * enough)[1] == pytest.approx(optimal)
    before = 2 * gamma / (1 + gamma)  # Corollary 8
    assert rates.exponent("beforehand", gamma, before)[1] == pytest.approx(optimal)
    assert rates.exponent("beforehand", gamma, 0.9 * before)[1] > optimal + 1e-3
    assert rates.exponent("sketched_kons", gamma, 1.0)[1] == pytest.approx(optimal)
    # not 4 gamma / (1 + gamma)^2, as printed
    best = gamma * (3 + gamma) / (1 + gamma) ** 2
    assert rates.exponent("pros_n_kons", gamma, 2 * gamma / (1 + gamma) ** 2)[1] == pytest.approx(
        best
    )
    assert rates.curve("pros_n_kons", gamma).min() >= best - 1e-12


def test_the_slope_of_a_power_and_its_error():
    """Mean regrets 3 n^0.4 have the exponent 0.4, with no error when all seeds agree."""
    counts = [256, 512, 1024]
    agreed = 3 * np.power(counts, 0.4)[:, None] * np.ones(4)
    assert rates.slope(counts, agreed) == pytest.approx((0.4, 0.0), abs=1e-12)
    # seeds that grow as n^0.2 and n^0.6: their mean's exponent is between, and not certain
    mixed = 3 * np.power(np.array(counts)[:, None], [0.2, 0.2, 0.6, 0.6])
    exponent, error = rates.slope(counts, mixed)
    assert 0.2 < exponent < 0.6 and error > 0.02


def test_the_kernel_of_the_rates_has_their_features():
    """k(x,x') = sum_i 2 i^(-1/gamma) cos(pi i x) cos(pi i x'), and its diagonal."""
    x, y = np.array([[0.1], [0.7], [0.35]]), np.array([[0.9], [0.2]])
    number = np.arange(1, rates.FEATURES + 1)
    kernel = jax.jit(kors_rates.CosineKernel(rates.scales(0.4)).gram)
    cosines = [np.cos(np.pi * number * points) for points in (x, y)]
    expected = 2 * (cosines[0] * number ** (-1 / 0.4)) @ cosines[1].T
    np.testing.assert_allclose(kernel(x, y), expected, atol=1e-12)
    diag = kors_rates.CosineKernel(rates.scales(0.4)).diag(x)
    np.testing.assert_allclose(diag, np.diag(kernel(x, x)), rtol=1e-12)


def test_the_streams_have_noise_around_a_function_of_norm_one():
    """The labels' noise, and the norm of the weights that the values are made of."""
    xs, mean, ys = rates.stream(jax.random.key(0), 0.4, 4096)
    assert np.std(ys - mean) == pytest.approx(rates.NOISE_STD, rel=0.05)
    features = np.asarray(rates.Cosines(rates.scales(0.4)).features(xs))[:, :40]
    weights = np.linalg.lstsq(features, np.asarray(mean), rcond=None)[0]
    number = np.arange(1, rates.FEATURES + 1) ** -0.55
    np.testing.assert_allclose(
        np.abs(weights[:8]), number[:8] / np.sqrt(np.square(number).sum()), rtol=0.1
    )


def test_a_uniform_dictionary_of_all_inputs_is_kernel_ridge_regression():
    """`settings`: predictions on a dictionary that is drawn beforehand; with every input in it,
    those of the exact forecaster, example by example."""
    random = np.random.default_rng(0)
    xs, ys = random.uniform(size=(12, 2)), random.standard_normal(12)
    config = dict(seed=0, lengthscale=0.5, regularization=0.3, awv=False)
    forecaster = settings.uniform_nystrom(xs, 12, config)
    forecasts, _ = loops.prequential(forecaster, (xs, ys), jax.random.key(0))
    gram = oracles.gaussian(xs, xs, 0.5)
    exact = [
        gram[t, :t] @ np.linalg.solve(gram[:t, :t] + 0.3 * np.eye(t), ys[:t]) for t in range(12)
    ]
    np.testing.assert_allclose(forecasts.prediction, exact, atol=1e-9)


def test_a_growing_degree_against_the_exact_forecaster_by_hand():
    """`growing_degree`: regrets of Kernel-AWV, whose prediction is ridge regression's where the
    current label is 0, and of degree 32, which is as good; and Theorem 4's bound."""
    table = growing_degree.run(1, 2.0, [5, 9], 1)
    key = jax.random.fold_in(jax.random.key(0), 0)
    xs, mean, ys = map(np.asarray, growing_degree.stream(key, 1, 2.0, 9))
    gram = oracles.gaussian(xs, xs, 1.0)
    exact = [
        gram[t, : t + 1] @ np.linalg.solve(gram[: t + 1, : t + 1] + np.eye(t + 1), [*ys[:t], 0.0])
        for t in range(9)
    ]
    regret = np.cumsum((exact - ys) ** 2 - (ys - mean) ** 2)[[4, 8]]
    np.testing.assert_allclose(table["kernel_awv"][0], regret, atol=1e-9)
    np.testing.assert_allclose(table["growing"][0], regret, atol=1e-9)
    assert abs(table["taylor_2"][0] - regret).max() > 1e-2
    eigenvalues = np.linalg.eigvalsh(gram)
    bound = 9 + 1.5 * abs(ys).max() ** 2 * np.log1p(eigenvalues).sum()
    np.testing.assert_allclose(table["bound"][0][1], bound, rtol=1e-9)
    assert growing_degree.degrees_of(1.0, [64, 1024]) == [9, 14]
