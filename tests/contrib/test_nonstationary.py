"""Discounted and sliding-window BKB compared with dense posteriors, and changing means."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ARMS, KEY

from jsketch import Arms, Query, kernels
from jsketch.bandits import GPUCB, Draw, Extend, Uniform
from jsketch.contrib import DiscountedBKB, WindowBKB
from jsketch.contrib.problems import DriftingArms, play
from jsketch.results import Result
from jsketch.types import Evaluations

LENGTHSCALE, LAM, STEPS, WINDOW = 0.4, 0.05, 24, 9
KERNEL = kernels.Gaussian(LENGTHSCALE)
COMMON = dict(kernel=KERNEL, regularization=LAM, noise_std=0.2, capacity=32, dictionary=Draw())
KEEP_ALL = 1e12  # a qbar that keeps every pulled arm, for any weight
X = np.random.default_rng(0).uniform(0, 2, (ARMS, 2))
DOMAIN = Arms(jnp.asarray(X))
GRAM = oracles.gaussian(X, X, LENGTHSCALE)
PULLED = np.random.default_rng(1).integers(0, 12, STEPS)  # 12 arms, so that pulls repeat
REWARDS = np.random.default_rng(2).standard_normal(STEPS)
REWARDS[[5, 17]] = np.nan  # failures, which are not counted and discount no other reward


@jax.jit
def replay(bandit):
    """(states, results), each stacked over the STEPS observations."""

    def tell_one(state, evaluations):
        arm, y, key = evaluations
        new, info = bandit.tell(state, DOMAIN, Query.of(arm), y[None], key)
        return new, (new, info.result)

    evaluations = jnp.asarray(PULLED, jnp.int32), jnp.asarray(REWARDS), jax.random.split(KEY, STEPS)
    return jax.lax.scan(tell_one, bandit.init(DOMAIN, KEY), evaluations)[1]


def weighted_moments(weights, arms, y):
    """(mean, variance) of all arms from single observations s with noise variances lam / w_s."""
    inner = np.linalg.inv(GRAM[np.ix_(arms, arms)] + LAM * np.diag(1 / weights))
    cross = GRAM[:, arms]
    variance = (np.diag(GRAM) - np.einsum("ij,jk,ik->i", cross, inner, cross)) / LAM
    return cross @ inner @ y, variance


@pytest.mark.parametrize(
    ("bandit", "discount", "window"),
    [
        (DiscountedBKB(**COMMON, discount=0.8), 0.8, STEPS),
        (WindowBKB(**COMMON, window=WINDOW), 1.0, WINDOW),
    ],
    ids=["discounted", "window"],
)
def test_posteriors_match_dense_weighted_ones(bandit, discount, window):
    """THEORY 6.5, for the dictionary of all pulled arms and for a drawn dictionary."""
    exact_states, results = replay(bandit.replace(qbar=KEEP_ALL))
    drawn_states = replay(bandit)[0]
    exact, drawn = exact_states.posterior, drawn_states.posterior
    assert not np.asarray(results).any()
    for step in (0, 5, 8, 16, STEPS - 1):
        steps = np.flatnonzero(np.isfinite(REWARDS[: step + 1]))[-window:]
        arms, y, weights = PULLED[steps], REWARDS[steps], discount ** np.arange(len(steps))[::-1]
        mean, variance = weighted_moments(weights, arms, y)
        np.testing.assert_allclose(exact.mean[step], mean, atol=1e-8)
        np.testing.assert_allclose(exact.variance[step], variance, atol=1e-8 / LAM)
        counts = np.bincount(arms, weights, minlength=ARMS)
        sums = np.bincount(arms, weights * y, minlength=ARMS)
        np.testing.assert_allclose(drawn_states.counts[step], counts, atol=1e-12)
        np.testing.assert_allclose(drawn_states.sums[step], sums, atol=1e-12)
        members = np.flatnonzero(drawn_states.inducing[step])
        mean, full, _, _, logdet = oracles.sketched(GRAM, members, counts, sums, LAM)
        np.testing.assert_allclose(drawn.mean[step], mean, atol=1e-8)
        np.testing.assert_allclose(drawn.variance[step], np.diag(full), atol=1e-8 / LAM)
        assert float(drawn.logdet[step]) == pytest.approx(logdet, abs=1e-8)


@pytest.mark.parametrize("dictionary", [Draw(), Extend(1e9)], ids=["draw", "extend"])
def test_a_warm_start_from_discounted_counts_has_their_posterior(dictionary):
    """The posterior equals that of the run, whose dictionaries contain all pulled arms."""
    bandit = DiscountedBKB(**COMMON | dict(dictionary=dictionary), discount=0.8, qbar=KEEP_ALL)
    end = jax.tree.map(lambda leaf: leaf[-1], replay(bandit)[0])
    restarted = bandit.init(DOMAIN, KEY, data=Evaluations(end.counts, end.sums)).posterior
    np.testing.assert_allclose(restarted.mean, end.posterior.mean, atol=1e-12)
    np.testing.assert_allclose(restarted.variance, end.posterior.variance, atol=1e-12 / LAM)


def test_a_traced_discount_that_is_no_discount_ends_a_run():
    bandit, query = DiscountedBKB(**COMMON, discount=0.8), Query.of(jnp.int32(0))
    state = bandit.init(DOMAIN, KEY)

    def result(discount):
        changed = bandit.replace(discount=discount)
        return changed.tell(state, DOMAIN, query, jnp.ones(1), KEY)[1].result

    results = jax.jit(jax.vmap(result))(jnp.array([0.8, 1.0, 1.1, 0.0, -0.5, jnp.nan]))
    assert results.tolist() == [Result.RUNNING] * 2 + [Result.NOT_FINITE] * 4


def test_a_query_longer_than_the_window_leaves_its_last_observations():
    """Failed evaluations and padding have no place in the window."""
    bandit = WindowBKB(**COMMON, window=3)
    index, y = np.array([4, 7, 7, 2, 9, 1]), np.array([1.0, 2.0, np.nan, 3.0, 4.0, 5.0])
    query = Query(jnp.asarray(index, jnp.int32), jnp.arange(6) < 5)
    state = bandit.init(DOMAIN, KEY)
    tell = jax.jit(lambda state, query, y: bandit.tell(state, DOMAIN, query, y, KEY)[0])
    state = tell(state, query, jnp.asarray(y))
    expected = np.zeros((2, ARMS))
    expected[:, [7, 2, 9]] = [[1, 1, 1], [2, 3, 4]]
    np.testing.assert_array_equal([state.counts, state.sums], expected)
    state = tell(state, Query(jnp.array([9, 9], jnp.int32), jnp.ones(2, bool)), jnp.array([6, 0.5]))
    expected[:, [7, 2, 9]] = [[0, 0, 3], [0, 0, 10.5]]
    np.testing.assert_array_equal([state.counts, state.sums], expected)


ANCHORS = np.array([[0.0, 1.0, -2.0], [4.0, 0.0, 2.0], [4.0, 2.0, -3.0]])
PROBLEM = DriftingArms(Arms(jnp.arange(3.0)[:, None]), jnp.asarray(ANCHORS), 4, noise_std=0.0)


def test_means_move_from_anchor_to_anchor():
    """The means change linearly; with `abrupt` each anchor holds for a period."""
    times = jnp.arange(12)
    smooth = np.asarray(jax.vmap(PROBLEM.mean_reward)(times))
    expected = np.stack([np.interp(times, [0, 4, 8], column) for column in ANCHORS.T], 1)
    np.testing.assert_allclose(smooth, expected, atol=1e-6)
    steps = np.asarray(jax.vmap(PROBLEM.replace(abrupt=True).mean_reward)(times))
    np.testing.assert_array_equal(steps, ANCHORS[np.minimum(np.arange(12) // 4, 2)])


@pytest.mark.parametrize("period", [49, 98, 103])
def test_jumps_are_on_time(period):
    """Compiled code multiplies by 1 / 49, so that 49 j / 49 may be below j."""
    anchors = jnp.arange(50.0)[:, None]
    steps = DriftingArms(Arms(jnp.zeros((1, 1))), anchors, period, noise_std=0.0, abrupt=True)
    times = period * jnp.arange(1, 50)
    mean = jax.jit(jax.vmap(steps.mean_reward))
    np.testing.assert_array_equal(mean(times)[:, 0], np.arange(1, 50))
    np.testing.assert_array_equal(mean(times - 1)[:, 0], np.arange(49))


def test_rewards_and_regrets_follow_the_means_of_their_round():
    """Regrets are relative to the best arm of the round. A restart resets the state."""
    keys = jax.random.split(jax.random.key(3), 2)
    run = play(PROBLEM, Uniform(), 12, keys)
    means = np.asarray(jax.vmap(PROBLEM.mean_reward)(jnp.arange(12)))
    arms = np.asarray(run.action)
    chosen_means = means[np.arange(12), arms]
    np.testing.assert_allclose(run.reward, chosen_means, atol=1e-6)
    np.testing.assert_allclose(run.regret, means.max(1) - chosen_means, atol=1e-6)
    np.testing.assert_allclose(run.uniform_regret[0], means.max(1) - means.mean(1), atol=1e-6)
    assert len(np.unique(arms)) == 3 and (arms[0] != arms[1]).any()
    bandit = GPUCB(kernels.Gaussian(0.1), 0.01, capacity=3)
    restarted = play(PROBLEM, bandit, 12, keys, restart=2)
    # a state has one arm after the first round, and after each restart
    sizes = np.asarray(restarted.dictionary_size)
    assert (sizes[:, ::2] == 1).all() and sizes.max() == 2
