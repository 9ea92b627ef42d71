"""EK-UCB, K-UCB, CBKB and CBBKB by dense matrices, and problems with contexts."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from forecasts import kors_probabilities
from rows import by_name
from small_problems import ASK, KEY, SCORES, TELL, after_each

from jsketch import kernels
from jsketch.contrib import CBBKB, EKUCB, KUCB
from jsketch.contrib.problems import ContextualArms
from jsketch.contrib.problems.contextual import Squares, StepDiagonal
from jsketch.results import Result
from jsketch.sketch import kors
from jsketch.sketch.kors import Sampling

LENGTHSCALE, LAM, STEPS = 0.4, 0.05, 24
COMMON = dict(
    kernel=kernels.Gaussian(LENGTHSCALE), regularization=LAM, noise_std=0.2, max_history=32
)
MU, BETA, EPS = 0.3, 0.6, 0.5
CASES = {
    "k_ucb": KUCB(**COMMON),
    "ek_ucb": EKUCB(**COMMON, sampling=Sampling(mu=MU, beta=BETA, eps=EPS), capacity=32),
    "cbkb": CBBKB(**COMMON, ratio=1.0, qbar=0.5, max_batch=8, capacity=32),
    "cbbkb": CBBKB(**COMMON, ratio=4.0, qbar=0.5, max_batch=8, capacity=32),
}
X = np.random.default_rng(0).uniform(0, 1.5, (STEPS, 2))
X[20] = X[3]  # a duplicate
REWARDS = np.random.default_rng(1).standard_normal(STEPS)
REWARDS[[4, 11]] = np.nan  # failures
NEW = np.random.default_rng(2).uniform(0, 1.5, (6, 2))
ALL = np.concatenate([X, NEW])
GRAM = oracles.gaussian(ALL, ALL, LENGTHSCALE)

run_steps = jax.jit(lambda bandit: after_each(bandit, X, REWARDS, NEW))


@pytest.fixture(scope="module")
def runs():
    return {name: run_steps(bandit) for name, bandit in CASES.items()}


def rewarded_points(step):
    """Indices of the points with a finite reward, up to and including a step."""
    return np.flatnonzero(np.isfinite(REWARDS[: step + 1]))


def sketched_moments(dictionary, step):
    """(mean, variance) of all points after a step, on a dictionary of points."""
    rewarded = rewarded_points(step)
    mean, full, *_ = oracles.of_observations(GRAM, dictionary, rewarded, REWARDS, LAM)
    return mean, np.diag(full)


def kors_joins(draws):
    """Yields (step, whether its point joins the dictionary) for each reward."""
    rewarded, joined = rewarded_points(STEPS), []
    for number, step in enumerate(rewarded):
        gram = GRAM[np.ix_(rewarded[: number + 1], rewarded[: number + 1])]
        probabilities = kors_probabilities(gram, joined, MU, BETA, EPS, authors_code=False)
        joins = draws[number] < probabilities[-1]
        joined += [number] * bool(joins)
        yield step, joins


def test_ek_ucb_matches_the_dense_projection(runs):
    """KORS draws the dictionary; all rewards are projected on the span of its points."""
    state, (mean, variance), info = runs["ek_ucb"]
    draws = kors.draws(CASES["ek_ucb"].init(2, KEY).stream.key, 0, count=STEPS, dtype=jnp.float64)
    dictionary, information = [], np.zeros(2)
    for step, joins in kors_joins(np.asarray(draws)):
        before = sketched_moments(dictionary, step - 1)[1][step]
        information += np.log(1 + np.array([1, 3]) * before)
        dictionary += [step] * bool(joins)
        assert int(info.dictionary_size[step]) == len(dictionary)
        expected = sketched_moments(dictionary, step)
        np.testing.assert_allclose(mean[step], expected[0][STEPS:], atol=1e-8)
        np.testing.assert_allclose(variance[step], expected[1][STEPS:], atol=1e-8 / LAM)
        evidence = state.evidence
        pair = evidence.information[step], evidence.information_sketched[step]
        np.testing.assert_allclose(pair, information, atol=1e-8)
    assert 3 < len(dictionary) < STEPS - 4
    assert not np.asarray(info.result).any()


def test_ek_ucb_is_k_ucb_where_every_point_joins(runs):
    """The posteriors of both methods are the dense one, to 1e-8."""
    all_join = CASES["ek_ucb"].replace(sampling=Sampling(mu=1.0, beta=1e12))
    state, (mean, variance), info = runs["k_ucb"]
    _, (ek_mean, ek_variance), ek_info = run_steps(all_join)
    np.testing.assert_array_equal(info.dictionary_size, ek_info.dictionary_size)
    for step in (0, 3, 5, 11, 19, STEPS - 1):
        rewarded = rewarded_points(step)
        counts = np.bincount(rewarded, minlength=len(ALL))
        sums = np.bincount(rewarded, REWARDS[rewarded], minlength=len(ALL))
        expected, covariance, logdet = oracles.exact(GRAM, counts, sums, LAM)
        for actual in (mean, ek_mean):
            np.testing.assert_allclose(actual[step], expected[STEPS:], atol=1e-8)
        for actual in (variance, ek_variance):
            np.testing.assert_allclose(actual[step], np.diag(covariance)[STEPS:], atol=1e-8 / LAM)
        assert float(state.evidence.logdet[step]) == pytest.approx(logdet, abs=1e-8)


@pytest.mark.parametrize("name", ["cbkb", "cbbkb"])
def test_resampled_posteriors_and_batches_match_dense_ones(runs, name):
    """A dictionary is drawn if it is empty or 1 + the sum of variances exceeds `ratio`."""
    bandit, (state, (mean, variance), _) = CASES[name], runs[name]
    inducing = np.asarray(state.points.inducing)[:, :STEPS]
    rewarded = rewarded_points(STEPS)
    dictionary, start_variance, bound, n_draws = [], None, 1.0, 0
    for number, step in enumerate(rewarded):
        if start_variance is None and dictionary:
            start_variance = sketched_moments(dictionary, step - 1)[1]
        bound += 1 / LAM if start_variance is None else start_variance[step]
        if bound > bandit.ratio or not dictionary:
            dictionary = list(rewarded[np.flatnonzero(inducing[step])])
            assert int(state.points.batch_start[step]) == number + 1
            start_variance, bound, n_draws = None, 1.0, n_draws + 1
        assert list(rewarded[np.flatnonzero(inducing[step])]) == dictionary
        if dictionary:
            expected = sketched_moments(dictionary, step)
            np.testing.assert_allclose(mean[step], expected[0][STEPS:], atol=1e-8)
            np.testing.assert_allclose(variance[step], expected[1][STEPS:], atol=1e-8 / LAM)
    assert 3 < len(dictionary) < len(rewarded)
    assert n_draws == len(rewarded) if bandit.ratio == 1 else 4 < n_draws < len(rewarded)


def test_an_empty_dictionary_is_drawn_after_every_reward():
    """C is never exceeded, and few points are drawn. Later batches have max_batch = 8 rewards."""
    state, *_ = run_steps(CASES["cbbkb"].replace(ratio=1e9, qbar=0.002))
    sizes, batch_start = np.asarray(state.points.inducing).sum(1), 0
    for number, step in enumerate(rewarded_points(STEPS)):
        empty = step == 0 or sizes[step - 1] == 0
        if empty or number + 1 - batch_start == 8:
            batch_start = number + 1
        assert int(state.points.batch_start[step]) == batch_start
    assert (sizes == 0).sum() > 2 and sizes[-1] > 0


@pytest.mark.parametrize("name", CASES)
def test_failures_change_no_bit_of_the_state(runs, name):
    state, _, info = runs[name]
    for leaf in jax.tree.leaves(state):
        np.testing.assert_array_equal(leaf[4], leaf[3])
        np.testing.assert_array_equal(leaf[11], leaf[10])
    np.testing.assert_array_equal(info.observed, np.isfinite(REWARDS))
    assert not np.asarray(info.result).any()


# with capacity for two rewards, or (ek_ucb) for two inducing points
SMALL = {name: bandit.replace(max_history=2) for name, bandit in CASES.items()}
SMALL["ek_ucb"] = EKUCB(**COMMON, sampling=Sampling(beta=1e12), capacity=2)


@by_name(CASES, ["cbkb"])  # cbkb has the program of cbbkb
def test_choices_have_the_largest_bound_and_growing_changes_no_bound(runs, name):
    """The first action is uniform. A reward beyond the capacity leaves the state unchanged."""
    small = SMALL[name]
    empty = jax.eval_shape(lambda: small.init(2, KEY))
    state, x = jax.jit(lambda: small.init(2, KEY))(), NEW
    assert jax.tree.structure(state) == jax.tree.structure(empty)
    first_actions = {int(ASK(small, state, x, key)) for key in jax.random.split(KEY, 24)}
    assert len(first_actions) > 2
    for i in range(2):
        state, info = TELL(small, state, x[i], np.asarray(1.0 - i), KEY)
        assert int(info.result) == Result.RUNNING and int(info.observed) == 1
    after, info = TELL(small, state, x[3], np.asarray(1.0), KEY)
    assert int(info.result) == Result.CAPACITY_EXCEEDED
    assert int(info.batch_size) == int(info.observed) == 0
    chex.assert_trees_all_equal(after, state)
    bounds = SCORES(small, state, x)
    assert int(ASK(small, state, x, KEY)) == int(np.argmax(bounds))
    larger = small.grow(state)
    np.testing.assert_allclose(SCORES(small, larger, x), bounds, atol=1e-12)
    _, info = TELL(small, larger, x[3], np.asarray(1.0), KEY)
    assert int(info.result) == Result.RUNNING and int(info.observed) == 1


def test_rewards_are_those_of_squares_and_steps():
    """Squares depend on the cell of a grid, and steps on the band beside the diagonal."""
    actions = jnp.asarray([[0.05], [0.3], [0.55], [0.8], [1.0]])

    def means(reward, contexts):
        problem = ContextualArms(actions, reward)
        return jax.jit(jax.vmap(problem.mean_reward))(jnp.asarray(contexts)).tolist()

    assert means(Squares(), [[0.1], [0.3], [0.6], [1.0]]) == [
        [0, 0.5, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 0.5, 0, 0.5, 0.5],
        [0, 0, 1, 0, 0],
    ]
    assert means(StepDiagonal(), [[0.2], [0.4]]) == [[1, 0.5, 0, 0, 0], [0, 1, 0.5, 0, 0]]
