"""Measured exponents of PKAWV's Figure 1, and its closed forms (THEORY 7.11)."""

import numpy as np
import pytest

from experiments.pkawv_2019 import rates


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
