"""The papers' deterministic statements about batches, ratios and confidence (THEORY 4.4 to 5.6),
against oracles."""

import numpy as np
import oracles
import pytest
from small_problems import ARMS, PROBLEMS, Problem, batch_of, bounds

from jsketch.bandits import widths


@pytest.fixture(scope="module")
def random_problems():
    return [Problem(seed) for seed in range(PROBLEMS)]


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_ratio_bounds_hold(random_problems, ratio):
    """The bounds of THEORY 5.2 (Lemma 1), of 5.4 with e, and of 5.3 hold for the true variance
    ratio of every arm at every step of the batch."""
    longest = 0
    for p in random_problems:
        _, _, batch = batch_of(p, ratio, noise_std=0.3, norm_bound=1.0)
        total, _, with_e = bounds(p, batch)
        start = oracles.embedded_after(p.gram, p.keep, p.counts, np.array([], int), p.lam)
        for size in range(1, len(batch) + 1):
            after = oracles.embedded_after(p.gram, p.keep, p.counts, batch[:size], p.lam)
            true = start / after
            assert (true <= total[size - 1] * (1 + 1e-6)).all()
            assert (true <= with_e[size - 1] * (1 + 1e-6)).all()
        assert (total[:-1] <= ratio * (1 + 1e-9)).all()
        assert total[-1] > ratio * (1 - 1e-9) or len(batch) == 60
        longest = max(longest, len(batch))
    assert longest > 1


def test_noiseless_confidence(random_problems):
    """THEORY 4.4: |mu~ - f| <= F (sqrt lam + sqrt rho) sigma~ holds for any dictionary; the `code`
    bias alone is too small."""
    failures = 0
    for p in random_problems:
        random = np.random.default_rng(2)
        weights = random.standard_normal(ARMS)
        f = p.gram @ weights
        norm = np.sqrt(weights @ f)
        assumed = dict(noise_std=0.0, norm_bound=norm, ratio=1.0, width=widths.certified)
        bandit, state = p.state(sums=p.counts * f, **assumed)
        error, sd = np.abs(np.asarray(state.mean) - f), np.sqrt(np.asarray(state.variance))
        assert (error <= float(bandit.confidence_width(state)) * sd * (1 + 1e-6) + 1e-8).all()
        failures += (error > np.sqrt(p.lam) * norm * sd * (1 + 1e-6)).any()
    assert failures > 0
