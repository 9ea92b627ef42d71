"""Tests of the rows of the exact posterior: which rounds fit, and how many new arms a batch has."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ASK, KEY, TELL

from jsketch import Arms, Query, kernels
from jsketch.bandits import GPBUCB, GPUCB
from jsketch.posterior import exact
from jsketch.results import Result

# the rewards of these arms are uncorrelated
FAR_ARMS = Arms(jnp.arange(10.0)[:, None] * 100)
KERNEL = kernels.Gaussian(1.0)


def round_of(arms, y):
    """A query of these arms, and their rewards."""
    return Query(jnp.asarray(arms, jnp.int32), jnp.ones(len(arms), bool)), jnp.asarray(y)


def test_a_posterior_fits_queries_whose_new_arms_have_free_rows():
    """Three of five rows are in use. Queries repeat arms, and have slots without observation."""
    bandit, (query, y) = GPUCB(KERNEL, capacity=5), round_of([7, 2, 7, 5], np.ones(4))
    state, _ = TELL(bandit, bandit.init(FAR_ARMS, KEY), FAR_ARMS, query, y, KEY)
    random, outcomes = np.random.default_rng(0), []
    fits = jax.jit(exact.fits)
    for _ in range(40):
        arms, observed = random.integers(0, 10, 6), random.uniform(size=6) < 0.7
        n_new = len(set(arms[observed]) - {7, 2, 5})
        outcomes.append(bool(fits(state.posterior, jnp.asarray(arms), jnp.asarray(observed))))
        assert outcomes[-1] == (n_new <= 2)
    assert 5 < sum(outcomes) < 35


def test_a_round_that_does_not_fit_changes_nothing():
    """The round is repeated with more rows, and gives the state of a run that always had them."""
    small, large = GPUCB(KERNEL, capacity=2), GPUCB(KERNEL, capacity=4)
    state = small.init(FAR_ARMS, KEY)
    query, y = round_of([3, 8, 3, 1], [0.5, -1.0, 0.25, 2.0])
    after, info = TELL(small, state, FAR_ARMS, query, y, KEY)
    chex.assert_trees_all_equal(after, state)
    assert int(info.result) == Result.CAPACITY_EXCEEDED
    assert int(info.batch_size) == int(info.observed) == int(info.dictionary_size) == 0
    # an evaluation that failed needs no row
    _, info = TELL(small, state, FAR_ARMS, query, y.at[3].set(jnp.nan), KEY)
    assert int(info.result) == Result.RUNNING
    assert (int(info.batch_size), int(info.observed), int(info.dictionary_size)) == (4, 3, 2)
    repeated, info = TELL(small, small.grow(state, FAR_ARMS, 4), FAR_ARMS, query, y, KEY)
    expected, _ = TELL(large, large.init(FAR_ARMS, KEY), FAR_ARMS, query, y, KEY)
    assert int(info.result) == Result.RUNNING
    chex.assert_trees_all_equal(repeated, expected)


@pytest.mark.parametrize("capacity", [1, 8])
def test_a_batch_of_gp_bucb_ends_with_its_last_new_arm(capacity):
    """The length of a batch depends on `new_arms`, and not on the capacity of the state."""
    bandit = GPBUCB(KERNEL, 1.0, ratio=100.0, max_batch=20, new_arms=3, capacity=capacity)
    query, y = round_of([4], [1.0])
    state, _ = TELL(bandit, bandit.init(FAR_ARMS, KEY), FAR_ARMS, query, y, KEY)
    query = ASK(bandit, state, FAR_ARMS, KEY)
    picks = np.asarray(query.index)[np.asarray(query.mask)]
    assert len(set(picks) - {4}) == 3 and picks[-1] not in picks[:-1]
