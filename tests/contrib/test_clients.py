"""Clients with a shared embedding and independent ones, compared with dense replays."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ASK, KEY, SCORES, TELL, after_each

from jsketch import Info, kernels, struct
from jsketch.contrib import KUCB, IndependentClients, SharedEmbedding
from jsketch.contrib.problems import ClientArms, ContextualArms, play
from jsketch.contrib.problems.contextual import Squares
from jsketch.results import Result

LENGTHSCALE, LAM, STEPS, N, WAIT, THRESHOLD = 0.5, 0.3, 14, 3, 3, 1.5
COMMON = dict(kernel=kernels.Gaussian(LENGTHSCALE), regularization=LAM, noise_std=0.2)
BANDIT = SharedEmbedding(
    **COMMON, qbar=0.6, threshold=THRESHOLD, clients=N, max_wait=WAIT, max_history=16, capacity=24
)
random = np.random.default_rng(0)
X = random.uniform(0, 1, (STEPS, N, 2))
REWARDS = random.standard_normal((STEPS, N))
REWARDS[5] = np.nan  # a round in which all clients fail, and single failures
REWARDS[[2, 9], [0, 2]] = np.nan
NEW = random.uniform(0, 1, (6, 2))
ALL = np.concatenate([X.reshape(-1, 2), NEW])
GRAM = oracles.gaussian(ALL, ALL, LENGTHSCALE)
Y = REWARDS.reshape(-1)

run_rounds = jax.jit(lambda bandit: after_each(bandit, X, REWARDS, np.stack([NEW] * N)))


@pytest.fixture(scope="module")
def run():
    return run_rounds(BANDIT)


def moments(dictionary, observed):
    """(mean, variance, residual, logdet) at all points, given the indices of the observations."""
    mean, full, _, residual, logdet = oracles.of_observations(GRAM, dictionary, observed, Y, LAM)
    return mean, np.diag(full), residual, logdet


def test_inducing_points_leave_no_residual(run):
    """Certified widths contain the root of the sum of residuals, in which a rounding error of
    1e-12 would contribute 1e-6."""
    end = jax.tree.map(lambda leaf: leaf[-1], run[0])
    bandit = BANDIT.replace(threshold=1e9, max_wait=WAIT)
    points = np.asarray(end.history)[np.asarray(end.inducing)][:N]
    assert len(points) == N
    state, _ = TELL(bandit, end, points, np.ones(N), KEY)
    np.testing.assert_array_equal(state.evidence.residual_sum, end.evidence.residual_sum)
    state, _ = TELL(bandit, end, points + 0.3, np.ones(N), KEY)
    assert (np.asarray(state.evidence.residual_sum) > end.evidence.residual_sum).any()


@pytest.mark.parametrize("threshold", [THRESHOLD, 1e9])
def test_posteriors_and_exchanges_of_clients_match_a_dense_replay(threshold):
    """With a threshold of 1e9, clients exchange every `max_wait` rounds."""
    state, (mean, variance), _ = run_rounds(BANDIT.replace(threshold=threshold))
    inducing = np.asarray(state.inducing)
    dictionary, shared, local = np.zeros(0, int), [], [[] for _ in range(N)]
    start_variance, variance_sums, n_waited = moments(dictionary, [])[1], np.zeros(N), 0
    information, shared_information = np.zeros((N, 2)), np.zeros(2)
    # numbers sent: as sums over the embedding, and as points with their rewards
    sent = sent_as_data = n_exchanges = 0
    for step in range(STEPS):
        n_waited += 1
        for i in range(N):
            observation = step * N + i
            if np.isfinite(Y[observation]):
                local[i].append(observation)
                variance_sums[i] += start_variance[observation]
                information[i] += np.log(1 + np.array([1, 3]) * start_variance[observation])
        any_observed = bool(shared) or any(local)
        first_rewards = not len(dictionary) and np.isfinite(REWARDS[step]).any()
        if (variance_sums > threshold).any() or n_waited == WAIT or first_rewards:
            unshared = [observation for client in local for observation in client]
            shared += unshared
            dictionary = np.flatnonzero(inducing[step])
            assert set(dictionary) <= set(shared) and any_observed
            m = len(dictionary)
            sent += 2 * m + N * (2 * m + 2 * m * (m + 1))
            sent_as_data += N * 3 * len(unshared)
            n_exchanges += 1
            local, variance_sums, n_waited = [[] for _ in range(N)], np.zeros(N), 0
            start_variance = moments(dictionary, shared)[1]
            shared_information += information.sum(0)
            information = np.zeros((N, 2))
        assert list(np.flatnonzero(inducing[step])) == list(dictionary)
        assert int(state.exchanges[step]) == n_exchanges
        assert (float(state.sent[step]), float(state.sent_as_data[step])) == (sent, sent_as_data)
        np.testing.assert_allclose(state.variance_sum[step], variance_sums, atol=1e-8)
        for i in range(N):
            observed = np.array(shared + local[i], int)
            expected_mean, expected_variance, residual, logdet = moments(dictionary, observed)
            new = slice(-len(NEW), None)
            np.testing.assert_allclose(mean[step, i], expected_mean[new], atol=1e-8)
            np.testing.assert_allclose(variance[step, i], expected_variance[new], atol=1e-8)
            evidence = jax.tree.map(lambda a, at=(step, i): float(a[at]), state.evidence)
            assert evidence.count == len(observed)
            assert evidence.logdet == pytest.approx(logdet, abs=1e-8)
            assert evidence.residual_sum == pytest.approx(residual[observed].sum(), abs=1e-8)
            pair = evidence.information, evidence.information_sketched
            np.testing.assert_allclose(pair, shared_information + information[i], atol=1e-8)
    assert 3 < n_exchanges < STEPS - 3 and 2 < len(dictionary) < len(shared)


def test_failures_change_no_posterior(run):
    state, posterior, info = run
    for leaf in jax.tree.leaves(
        (posterior, state.variance_sum, state.moment, state.sent, state.evidence)
    ):
        np.testing.assert_array_equal(leaf[5], leaf[4])
    np.testing.assert_array_equal(info.observed, np.isfinite(REWARDS).sum(1))
    assert not np.asarray(info.result).any()
    _, flagged = TELL(BANDIT, BANDIT.init(2, KEY), jnp.asarray(X[0]), jnp.full(N, jnp.inf), KEY)
    assert int(flagged.result) == Result.NOT_FINITE and int(flagged.observed) == 0
    # under jit a point that is not finite is flagged in the same round
    first_state = jax.tree.map(lambda leaf: leaf[0], state)
    after_nan, flagged = TELL(BANDIT, first_state, jnp.full((N, 2), jnp.nan), jnp.ones(N), KEY)
    assert int(flagged.result) == Result.NOT_FINITE
    assert int(after_nan.exchanges) == int(first_state.exchanges)


SMALL = {
    "history": BANDIT.replace(max_history=2),
    "dictionary": BANDIT.replace(capacity=N, qbar=100.0, threshold=0.0),
}


@pytest.mark.parametrize("limit", ["dictionary", pytest.param("history", marks=pytest.mark.slow)])
def test_choices_have_the_largest_bounds_and_a_full_state_does_not_change(limit):
    """The first actions are uniform. Later ones have the largest bound of their client."""
    small, x = SMALL[limit], jnp.broadcast_to(jnp.asarray(NEW), (N, *NEW.shape))
    state, y = small.init(2, KEY), jnp.ones(N)
    assert len({tuple(ASK(small, state, x, key).tolist()) for key in jax.random.split(KEY, 12)}) > 2
    for step in range(1 if limit == "dictionary" else 2):
        state, info = TELL(small, state, jnp.asarray(X[step]), y, KEY)
        assert int(info.result) == Result.RUNNING and int(info.observed) == N
    after, info = TELL(small, state, jnp.asarray(X[3]), y, KEY)
    assert int(info.result) == Result.CAPACITY_EXCEEDED
    assert int(info.batch_size) == int(info.observed) == 0
    chex.assert_trees_all_equal(after, state)
    bounds = SCORES(small, state, x)
    np.testing.assert_array_equal(ASK(small, state, x, KEY), np.argmax(bounds, axis=1))


def test_a_scaled_draw_keeps_the_points_of_the_largest_qbar_that_fits():
    """`scale_to_capacity` keeps the points that bisection over qbar finds with the same key."""
    bandit = SMALL["dictionary"]
    state = bandit.init(2, KEY)
    for step in range(4):
        evaluations = jnp.asarray(X[step]), jnp.ones(N), jax.random.fold_in(KEY, step)
        assert exceeds(bandit, state, evaluations) == (step > 0)
        low, high = 0.0, bandit.qbar
        for _ in range(40):
            middle = (low + high) / 2
            too_many = exceeds(bandit.replace(qbar=middle), state, evaluations)
            low, high = (low, middle) if too_many else (middle, high)
        fitting, _ = TELL(bandit.replace(qbar=low), state, *evaluations)
        state, info = TELL(bandit.replace(scale_to_capacity=True), state, *evaluations)
        assert int(info.result) == Result.RUNNING and int(info.dictionary_size) == N
        np.testing.assert_array_equal(state.inducing, fitting.inducing)


def exceeds(bandit, state, evaluations):
    """Whether a round exceeds the capacity."""
    return int(TELL(bandit, state, *evaluations)[1].result) == Result.CAPACITY_EXCEEDED


INDEPENDENT = IndependentClients(KUCB(**COMMON, max_history=4), N)


def test_independent_clients_are_single_bandits():
    """Clients do not communicate. If one of them is full, the round is applied to none."""
    client, bandit = INDEPENDENT.bandit, INDEPENDENT
    state, states = bandit.init(2, KEY), [client.init(2, KEY)] * N
    tell_one = jax.jit(lambda state, x, y: client.tell(state, x, y)[0])
    tell = jax.jit(bandit.tell)
    for step in (0, 2):
        state, info = tell(state, jnp.asarray(X[step]), jnp.asarray(REWARDS[step]), KEY)
        states = list(map(tell_one, states, X[step], REWARDS[step]))
    new = jnp.asarray(NEW)
    scores = jax.jit(jax.vmap(client.scores, (0, None)))(state.states, new)
    np.testing.assert_allclose(scores, [jax.jit(client.scores)(s, new) for s in states], atol=1e-12)
    assert int(info.observed) == N - 1
    problem = ClientArms(ContextualArms(jnp.linspace(0, 1, 5)[:, None], Squares()))
    played = play(problem, bandit, 3, jax.random.split(KEY, 1))
    assert np.asarray(played.sent).max() == 0 and np.asarray(played.regret).sum() > 0
    for step in (3, 4, 6):
        before = state
        state, info = tell(state, jnp.asarray(X[step]), jnp.ones(N), KEY)
    assert int(info.result) == Result.CAPACITY_EXCEEDED
    assert int(info.batch_size) == int(info.observed) == 0
    chex.assert_trees_all_equal(state, before)


@struct.dataclass
class RandomBandit:
    """A bandit whose states and choices are random numbers, drawn with the keys it receives."""

    def init(self, dimension, key, dtype=None):
        return jax.random.uniform(key)

    def ask(self, state, candidates, key):
        return jax.random.randint(key, (), 0, 10**6)

    def tell(self, state, x, y, key):
        names = "batch_size", "observed", "dictionary_size", "result"
        return jax.random.uniform(key), Info(**dict.fromkeys(names, jnp.int32(0)), width=y)


def test_independent_clients_have_different_keys():
    bandit, x = IndependentClients(RandomBandit(), N), jnp.zeros((N, 4, 2))
    start = bandit.init(2, KEY)
    after, _ = bandit.tell(start, x[:, 0], jnp.ones(N), KEY)
    for numbers in (start.states, bandit.ask(start, x, KEY), after.states):
        assert len(set(np.asarray(numbers).tolist())) == N
