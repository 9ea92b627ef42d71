"""`suggest.acquisitions` against brute force on a few candidates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jsketch.suggest import acquisitions
from jsketch.suggest.acquisitions import JointPosterior

K, RATIO = 6, 0.1
RANDOM = np.random.default_rng(3)
ROOT = RANDOM.standard_normal((K, K)) / 2
COVARIANCE = ROOT @ ROOT.T
MEAN = RANDOM.standard_normal(K)
FREE = np.arange(K) != 2
# copies: `asarray` may share NumPy's memory
OUTLOOK = JointPosterior(*map(jnp.array, (MEAN, COVARIANCE, FREE, RATIO, 0.2)))
KEY = jax.random.key(0)


@jax.jit
def choose(acquisition, key, outlook):
    """Three picks; the outlook is an argument of the program, as where `suggest` calls it."""
    return acquisition.choose(outlook, 3, key)


@jax.jit
def choose_often(acquisition, keys, outlook):
    return jax.lax.map(lambda key: acquisition.choose(outlook, 3, key), keys)


def improvement(mean, std, best):
    z = (mean - best) / std
    return (mean - best) * stats.norm.cdf(z) + std * stats.norm.pdf(z)


@pytest.mark.parametrize("name", ["ucb", "greedy", "ei", "spread"])
def test_picks_are_conditioned_on(name):
    """Each as if the ones before had brought their means."""
    which = dict(
        ucb=acquisitions.UCB(1.3),
        greedy=acquisitions.UCB(0.0),
        ei=acquisitions.ExpectedImprovement(),
        spread=acquisitions.Spread(),
    )[name]
    picks, covariance, best = [], COVARIANCE.copy(), 0.2
    for _ in range(3):
        std = np.sqrt(np.diagonal(covariance))
        score = dict(
            ucb=MEAN + 1.3 * std, greedy=MEAN, ei=improvement(MEAN, std, best), spread=std
        )[name]
        score = np.where(FREE & ~np.isin(np.arange(K), picks), score, -np.inf)
        arm = int(score.argmax())
        column = covariance[:, arm]
        covariance = covariance - np.outer(column, column) / (covariance[arm, arm] + RATIO)
        picks.append(arm)
        best = max(best, MEAN[arm])
    assert choose(which, KEY, OUTLOOK).tolist() == picks


def test_draws_win_as_often_as_they_are_best():
    """ProbabilityOfBest takes the likeliest winners; Thompson's first pick is a winner as often as
    it is the best; of TopTwo it is the second best half of the time."""
    draws = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 40_000)
    draws[:, ~FREE] = -np.inf
    order = np.argsort(-draws, axis=1)
    rate = np.bincount(order[:, 0], minlength=K) / len(draws)
    second = np.bincount(order[:, 1], minlength=K) / len(draws)
    assert np.diff(np.sort(rate)[::-1][:4]).max() < -0.02  # no ties
    found = choose(acquisitions.ProbabilityOfBest(), KEY, OUTLOOK)
    assert found.tolist() == np.argsort(-rate)[:3].tolist()
    keys = jax.random.split(KEY, 2000)
    for which, expected in (
        (acquisitions.Thompson(), rate),
        (acquisitions.TopTwo(0.5), (rate + second) / 2),
    ):
        picks = np.asarray(choose_often(which, keys, OUTLOOK))
        assert all(len(set(row)) == 3 for row in picks.tolist()) and not (picks == 2).any()
        share = np.bincount(picks[:, 0], minlength=K) / len(keys)
        np.testing.assert_allclose(share, expected, atol=0.04)
