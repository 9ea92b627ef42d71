"""PKAWV's figures: exponents of Figure 1 (THEORY 7.11), the search of Figure 3, and a tiny run."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import common
from experiments.pkawv_2019 import fig1_rates, fig3_adversary, theorems
from experiments.results import store, tidy


@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.4])
def test_exponents_are_those_of_the_closed_forms(gamma):
    optimal, threshold = gamma / (1 + gamma), 2 * gamma / (1 - gamma**2)
    for a in (0.3 * threshold, 0.8 * threshold):  # Corollary 7, small dictionaries
        exponent = fig1_rates.exponent("pkawv", gamma, a)[1]
        assert exponent == pytest.approx(1 + a * (0.5 - 0.5 / gamma))
    assert fig1_rates.exponent("pkawv", gamma, 1.01 * threshold)[1] == pytest.approx(optimal)
    threshold = 2 * gamma / (1 + gamma)  # Corollary 8
    assert fig1_rates.exponent("beforehand", gamma, threshold)[1] == pytest.approx(optimal)
    assert fig1_rates.exponent("beforehand", gamma, 0.9 * threshold)[1] > optimal + 1e-3
    assert fig1_rates.exponent("sketched_kons", gamma, 1.0)[1] == pytest.approx(optimal)
    # the paper states the exponent 4 gamma / (1 + gamma)^2
    best = gamma * (3 + gamma) / (1 + gamma) ** 2
    exponent = fig1_rates.exponent("pros_n_kons", gamma, 2 * gamma / (1 + gamma) ** 2)[1]
    assert exponent == pytest.approx(best)
    assert fig1_rates.curve("pros_n_kons", gamma).min() >= best - 1e-12


def test_the_slope_of_a_power_is_its_exponent_with_its_error():
    """Mean regrets 3 n^0.4 have the exponent 0.4, with no error when all seeds agree."""
    counts = np.array([256, 512, 1024])
    regrets = 3 * np.ones((4, 1)) * np.power(counts, 0.4)
    assert fig1_rates.slope(counts, regrets) == pytest.approx((0.4, 0.0), abs=1e-12)
    # for seeds that grow as n^0.2 and n^0.6 the exponent of the mean is between, and has an error
    regrets = 3 * np.power(counts, np.array([0.2, 0.2, 0.6, 0.6])[:, None])
    exponent, half = fig1_rates.slope(counts, regrets)
    assert 0.2 < exponent < 0.6 and half > 0.04


def test_the_interval_of_an_exponent_has_students_quantile(tmp_path):
    """Two sizes, n and e n, of which the first is 1 in all seeds: the exponent is the logarithm of
    the mean of the second, here of 1, ..., 8. Saved standard errors have the same quantile."""
    values = np.arange(1.0, 9)
    regrets = np.stack([np.ones(8), values], axis=1)
    exponent, half = fig1_rates.slope(np.array([1.0, np.e]), regrets)
    left_out = np.log((values.sum() - values) / 7)
    error = np.sqrt(7 / 8 * np.square(left_out - left_out.mean()).sum())
    assert exponent == pytest.approx(np.log(4.5))
    assert half == pytest.approx(2.364624 * error, rel=1e-6)
    assert np.isnan(fig1_rates.slope(np.array([1.0, np.e]), regrets[:1])[1])
    measured = {
        f"{g:.3f}": [dict(a=0.5, exponent=0.7, standard_error=0.1)] for g in fig1_rates.GAMMAS
    }
    store.write_json(tmp_path / tidy.PROVENANCE, dict(config=dict(seeds=8), measured=measured))
    found = fig1_rates.exponents(tmp_path)[0.25, 0.5]
    assert found == pytest.approx((0.7, 0.2364624), rel=1e-6)


@pytest.mark.parametrize(
    ("regret", "points", "word"),
    [(0.2, 0.1, "confirmed"), (0.3, 0.1, "differs"), (0.1, 0.2, "differs")],
)
def test_the_rule_of_corollary_7_allows_logarithms(tmp_path, regret, points, word):
    """Two logarithms, 0.292, for the regret of small dictionaries, and one, 0.146, for the
    points, of runs whose exponents exceed the bounds by these numbers."""
    counts, runs = np.array(fig1_rates.COUNTS), []
    for gamma in fig1_rates.GAMMAS:
        for a in fig1_rates.RUNS[fig1_rates.KORS]["sizes"]:
            b = fig1_rates.exponent("pkawv", gamma, a)[1]
            config = dict(problem="made up", algorithm="pkawv", gamma=gamma, a=a)
            arrays = dict(t=counts, regret=counts ** (b + regret), size=counts ** (a + points))
            runs += tidy.runs_of(config, [arrays] * 2)
    tidy.write(tmp_path / fig1_rates.KORS, runs, "made up", "made up")
    store.write_json(tmp_path / fig1_rates.KORS / tidy.PROVENANCE, {})
    assert common.judge(fig1_rates.corollary_7, tmp_path).word == word


def test_both_adversaries_play_the_same_first_round():
    """Before any example the prediction is 0, so that the largest regret is 1 - (1/2)^2 at every
    input with a label of -1 or 1: the squared loss minus that of ridge regression, y / 2."""
    settings = dict(tried=4, rounds=1, seeds=2)
    for play in (fig3_adversary.games_of_ascent, fig3_adversary.games_of_lbfgsb):
        regrets, sizes = play(settings, "taylor_2")
        np.testing.assert_allclose(regrets, 0.75)
        assert (sizes == 21).all()  # C(5 + 2, 2)


def test_the_regret_of_the_theorems_is_relative_to_the_best_penalized_function():
    """With one example (x, y), min_f (y - f(x))^2 + lam f(x)^2 / k(x,x) is lam y^2 / (1 + lam)."""
    found = theorems.numbers(np.zeros((1, 1)), np.array([0.5]), np.array([0.25]), 3.0)
    assert found["t"].tolist() == [1]
    assert found["regret"] == pytest.approx(0.25 - 3 / 4 * 0.25)
    assert found["logdet"] == pytest.approx(np.log(1 + 1 / 3))
    assert found["proposition_2"] == pytest.approx(np.log(np.e + np.e / 3) / 4)


def test_a_tiny_figure_is_run_drawn_and_judged(tmp_path, capsys):
    options = common.Options(out=tmp_path, quick=True, only=(fig1_rates.BEFOREHAND,))
    common.make(fig1_rates, options)
    folder = tmp_path / fig1_rates.BEFOREHAND
    assert (folder / "rates.png").exists()
    exponents = fig1_rates.exponents(folder)
    assert len(exponents) == 2 * len(fig1_rates.GAMMAS)
    assert np.isfinite(list(exponents.values())).all()
    assert "not results" in capsys.readouterr().out
    assert jnp.zeros(()).dtype == float  # a command computes in float64
