"""`suggest.acquisitions`, compared with brute force on a few candidates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jsketch.suggest import acquisitions
from jsketch.suggest.acquisitions import Chance, JointPosterior, Price, Terms, expected_best

K, RATIO, BEST = 6, 0.1, 0.2  # number of candidates, noise ratio, best value so far
RANDOM = np.random.default_rng(3)
ROOT = RANDOM.standard_normal((K, K)) / 2
COVARIANCE = ROOT @ ROOT.T
MEAN = RANDOM.standard_normal(K)
IS_FREE = np.arange(K) != 2
CHANCE, PRICE = np.array([0.9, 0.2, 1.0, 0.6, 0.8, 0.7]), np.array([2.0, 1, 1, 4, 0.5, 3])
WORST, EXPONENT = -1.5, 0.6
KEY = jax.random.key(0)

choose = jax.jit(lambda acquisition, posterior, key: acquisition.choose(posterior, K - 1, key))


def posterior(chance=False, budget=None):
    # copies: `asarray` may share NumPy's memory
    arrays = map(jnp.array, (MEAN, COVARIANCE, IS_FREE, RATIO, BEST))
    chance = Chance(jnp.array(CHANCE), jnp.array(WORST)) if chance else None
    price = None if budget is None else Price(*map(jnp.array, (PRICE, EXPONENT, budget)))
    return JointPosterior(*arrays, Terms(chance, price))


@pytest.mark.parametrize("terms", [dict(), dict(chance=True), dict(chance=True, budget=6.6)])
@pytest.mark.parametrize("name", ["ucb", "greedy", "ei", "variance", "reduction"])
def test_later_picks_are_conditioned_on_earlier_ones(name, terms):
    """In a score, a failure has the value WORST. Costs divide a score."""
    acquisition = dict(
        ucb=acquisitions.UCB(1.3),
        greedy=acquisitions.UCB(0.0),
        ei=acquisitions.ExpectedImprovement(),
        variance=acquisitions.LargestVariance(),
        reduction=acquisitions.VarianceReduction(),
    )[name]
    if "budget" in terms and not hasattr(acquisition, "per_cost"):
        return
    chance = CHANCE if "chance" in terms else 1
    divisor = PRICE**EXPONENT if "budget" in terms else 1
    picks, covariance, best, total_cost = [], COVARIANCE.copy(), BEST, 0.0
    for _ in range(K - 1):
        std = np.sqrt(np.diagonal(covariance))
        z = (MEAN - best) / std
        gain = (MEAN - best) * stats.norm.cdf(z) + std * stats.norm.pdf(z)
        # how much an evaluation lowers the mean variance of the free candidates
        explained = np.square(covariance[IS_FREE]).mean(0) / (std**2 + RATIO)
        score = dict(
            ucb=chance * (MEAN + 1.3 * std) + (1 - chance) * WORST,
            greedy=chance * MEAN + (1 - chance) * WORST,
            ei=chance * gain / divisor,
            variance=chance * std**2 / divisor,
            reduction=chance * explained / divisor,
        )[name]
        allowed = IS_FREE & ~np.isin(np.arange(K), picks)
        allowed &= total_cost + PRICE <= terms.get("budget", np.inf)
        if not allowed.any():
            picks.append(-1)
            continue
        arm = int(np.where(allowed, score, -np.inf).argmax())
        column = covariance[:, arm]
        covariance = covariance - np.outer(column, column) / (covariance[arm, arm] + RATIO)
        picks.append(arm)
        best, total_cost = max(best, MEAN[arm]), total_cost + PRICE[arm]
    assert (-1 in picks) == ("budget" in terms)
    assert choose(acquisition, posterior(**terms), KEY).tolist() == picks


def test_a_design_is_chosen_from_a_random_part_of_the_candidates(monkeypatch):
    """The picks are the best of that part, which depends on the key."""
    monkeypatch.setattr(acquisitions, "MIN_POOL", 1)
    monkeypatch.setattr(acquisitions, "POOL_FACTOR", 3)
    reduction = np.square(COVARIANCE[IS_FREE]).mean(0) / (np.diagonal(COVARIANCE) + RATIO)
    keys = jax.random.split(KEY, 300)
    pick = jax.vmap(lambda key: acquisitions.VarianceReduction().choose(posterior(), 1, key)[0])
    picks = np.bincount(np.asarray(pick(keys)), minlength=K)
    order = [row for row in np.argsort(-reduction) if IS_FREE[row]]
    # of the 10 sets of 3 of the 5 free candidates, 6, 3 and 1 have the best, second, third at best
    expected = np.array([0.6, 0.3, 0.1, 0, 0])
    np.testing.assert_allclose(picks[order] / len(keys), expected, atol=0.1)
    assert picks[order[3:]].sum() == picks[2] == 0


def test_picks_are_as_frequent_as_candidates_are_best_in_draws():
    """ProbabilityOfBest picks the candidates that are most often the best. The first pick of
    Thompson is a candidate as often as this candidate is the best one. The first pick of TopTwo is
    the second best one half of the time."""
    draws = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 40_000)
    draws[:, ~IS_FREE] = -np.inf
    order = np.argsort(-draws, axis=1)
    rate = np.bincount(order[:, 0], minlength=K) / len(draws)
    second_rate = np.bincount(order[:, 1], minlength=K) / len(draws)
    assert np.diff(np.sort(rate)[::-1][:4]).max() < -0.02  # no ties
    picks = choose(acquisitions.ProbabilityOfBest(), posterior(), KEY)
    assert picks.tolist()[:3] == np.argsort(-rate)[:3].tolist()
    # how often a candidate is among the two best of all free and of two evaluated candidates
    evaluated_values = jnp.array([0.9, 0.3])
    with_evaluated = np.hstack([draws, np.broadcast_to(evaluated_values, (len(draws), 2))])
    rate_of_two = (draws >= np.sort(with_evaluated, 1)[:, -2:-1]).mean(0)
    assert np.argsort(-rate_of_two)[:3].tolist() != np.argsort(-rate)[:3].tolist()
    joint = posterior()._replace(evaluated_means=evaluated_values)
    picks = choose(acquisitions.ProbabilityOfBest(top=2), joint, KEY)
    assert picks.tolist()[:3] == np.argsort(-rate_of_two)[:3].tolist()
    keys = jax.random.split(KEY, 2000)
    choose_often = jax.jit(
        lambda acquisition, joint: jax.lax.map(lambda key: acquisition.choose(joint, 3, key), keys)
    )
    for acquisition, expected in (
        (acquisitions.Thompson(), rate),
        (acquisitions.TopTwo(leader=0.5), (rate + second_rate) / 2),
    ):
        picks = np.asarray(choose_often(acquisition, posterior()))
        assert all(len(set(row)) == 3 for row in picks.tolist()) and not (picks == 2).any()
        share = np.bincount(picks[:, 0], minlength=K) / len(keys)
        np.testing.assert_allclose(share, expected, atol=0.04)


def test_draws_contain_failures():
    """`ProbabilityOfBest` and the improvement of a group's batch use draws with failures."""
    random, count = np.random.default_rng(0), 40_000
    values = random.multivariate_normal(MEAN, COVARIANCE, count)
    values = np.where(random.random((count, K)) < CHANCE, values, WORST)
    rate = np.bincount(np.where(IS_FREE, values, -np.inf).argmax(1), minlength=K)
    picks = choose(acquisitions.ProbabilityOfBest(), posterior(chance=True), KEY)
    assert picks.tolist()[:2] == np.argsort(-rate)[:2].tolist()
    gain = jax.jit(expected_best, static_argnums=3)(
        posterior(chance=True, budget=np.inf), jnp.array([4, 5, -1]), jax.random.key(1), 20_000
    )
    expected = np.maximum(values[:, [4, 5]].max(1) - BEST, 0).mean()
    assert float(gain) == pytest.approx(expected / PRICE[[4, 5]].sum() ** EXPONENT, rel=0.03)
