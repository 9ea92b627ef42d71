"""Batched pure and random exploration: a replay with dense matrices, and batch lengths."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import oracles
from small_problems import KEY

from jsketch import Arms, kernels
from jsketch.contrib.few_batches import BatchedExploration, RandomExploration, batch_lengths

LENGTHSCALE, LAM, T, A, NOISE, NORM = 0.4, 0.05, 60, 30, 0.2, 1.5
X = np.random.default_rng(0).uniform(0, 2, (A, 2))
GRAM = oracles.gaussian(X, X, LENGTHSCALE)
F = GRAM[:, 3] * NORM
ARMS = Arms(jnp.asarray(X))
KERNEL = kernels.Gaussian(LENGTHSCALE)
COMMON = dict(kernel=KERNEL, regularization=LAM, noise_std=NOISE, norm_bound=NORM)
BANDIT = BatchedExploration(**COMMON, horizon=T, capacity=A)


def check_update(state, info, batch, active, counts, sums):
    """Compares the state after a batch with dense matrices. Returns the remaining arms."""
    # delta is 0.1 by default
    width = math.sqrt(LAM * NORM**2 + 2 * NOISE**2 * math.log(2 * A * batch * (batch + 1) / 0.1))
    mean, covariance, _ = oracles.exact(GRAM, counts, sums, LAM)
    half_width = width * np.sqrt(np.diag(covariance))
    remaining = active & (mean + half_width >= (mean - half_width)[active].max())
    np.testing.assert_allclose(info.width, width, rtol=1e-12)
    np.testing.assert_allclose(state.posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(state.posterior.variance, np.diag(covariance), atol=1e-8 / LAM)
    np.testing.assert_array_equal(state.active, remaining)
    return remaining


def test_batch_lengths_add_up_to_the_horizon():
    for horizon in (1, 2, 3, 10, 60, 1_000, 4_000, 10**6, 10**9):
        sizes = batch_lengths(horizon)
        assert sum(sizes) == horizon and min(sizes) > 0
        if horizon >= 3:
            assert len(sizes) <= math.ceil(math.log2(math.log2(horizon))) + 1
    assert batch_lengths(10_000)[:2] == [100, 1_000]


def test_batches_are_those_of_a_dense_replay():
    """Each pick has the largest variance of the replay up to 1e-8 / LAM. Means agree to 1e-8,
    variances to 1e-8 / LAM, and active arms are equal."""
    random = np.random.default_rng(1)
    state, active = BANDIT.init(ARMS, KEY), np.ones(A, bool)
    ask, tell = jax.jit(BANDIT.ask), jax.jit(BANDIT.tell)
    small_state = BANDIT.replace(capacity=2).init(ARMS, KEY)
    for i, length in enumerate(batch_lengths(T), 1):
        # each batch starts from the prior, whose variances are all equal; an argmax that ignored
        # `active` would therefore pick arm 0
        if i == 2:
            active[0] = False
            state = state.replace(active=jnp.asarray(active))
        query = ask(state, ARMS, KEY)
        # the picks are the same if the capacity of the state (2) is still too small for the batch
        small_state = small_state.replace(active=state.active, batches=state.batches)
        small_query = ask(small_state, ARMS, KEY)
        np.testing.assert_array_equal(small_query.index, query.index)
        picks = np.asarray(query.index)[np.asarray(query.mask)]
        assert len(picks) == length
        counts = np.zeros(A)
        for arm in picks:
            variance = np.diag(oracles.exact(GRAM, counts, counts * 0, LAM)[1])
            assert active[arm]
            assert variance[arm] >= variance[active].max() - 1e-8 / LAM
            counts[arm] += 1
        y = F[picks] + 0.01 * random.standard_normal(length)
        sums = np.bincount(picks, y, minlength=A)
        state, info = tell(state, ARMS, query, jnp.asarray(np.pad(y, (0, T - length))), KEY)
        active = check_update(state, info, i, active, counts, sums)
    assert active[3] and not active.all()


def test_random_batches_are_uniform_on_the_active_arms():
    """Arms are ruled out by the posterior given the rewards of the latest batch only."""
    bandit = RandomExploration(**COMMON, horizon=T, capacity=A)
    state, active = bandit.init(ARMS, KEY), np.arange(A) % 3 > 0
    state = state.replace(active=jnp.asarray(active), batches=jnp.asarray(2, jnp.int32))
    ask, tell = jax.jit(bandit.ask), jax.jit(bandit.tell)
    queries = jax.vmap(ask, (None, None, 0))(state, ARMS, jax.random.split(KEY, 200))
    counts = np.bincount(np.asarray(queries.index).ravel(), minlength=A)
    assert (counts[~active] == 0).all()
    expected = counts.sum() / active.sum()
    # 20 arms: chi squared with 19 degrees of freedom exceeds 43.8 once in a thousand
    assert (np.square(counts[active] - expected) / expected).sum() < 43.8
    query = ask(state, ARMS, KEY)
    picks = np.asarray(query.index)[np.asarray(query.mask)]
    assert len(picks) == batch_lengths(T)[2]
    y = F[picks]
    new, info = tell(state, ARMS, query, jnp.asarray(np.pad(y, (0, T - len(y)))), KEY)
    counts, sums = np.bincount(picks, minlength=A), np.bincount(picks, y, minlength=A)
    remaining = check_update(new, info, 3, active, counts, sums)
    assert int(new.batches) == 3 and remaining.any() and not remaining.all()
