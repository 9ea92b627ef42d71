"""Batches of a fixed size, and pending evaluations."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import INIT, KEY, Problem

from jsketch import Arms, Query
from jsketch.bandits import FixedBKB, history
from jsketch.bandits.batches import fixed_set


def bandit_and_state(p, **options):
    sizes = dict(batch=8, max_pending=8, capacity=32)
    bandit = FixedBKB(p.kernel, p.lam, noise_std=0.3, **sizes, **options)
    return bandit, INIT(bandit, p.x, p.counts, p.sums, np.resize(p.dictionary, 32))


def oracle_picks(bandit, state, p, pending, n_picks, free=None):
    """The arms of largest mean + width * deviation, picked one after the other. The variances are
    those of the dense covariance after the pending pulls and the earlier picks. With `free` [A]
    only free arms are picked, each of them once, and the array is updated in place."""
    mean, width = np.asarray(state.mean), float(bandit.confidence_width(state))
    full = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)[1]
    pulls, picks = list(pending), []
    for _ in range(n_picks):
        counts = np.bincount(np.array(pulls, int), minlength=len(full))
        variance = np.diag(oracles.exact(full, counts, counts, 1.0)[1])
        scores = mean + width * np.sqrt(np.maximum(variance, 0))
        arm = int(np.argmax(scores if free is None else np.where(free, scores, -np.inf)))
        if free is not None:
            free[arm] = False
        pulls.append(arm)
        picks.append(arm)
    return picks


@pytest.fixture(params=[(64, 32), (3, 2)], ids=["one_set", "several_sets"])
def ask(request, monkeypatch):
    """The compiled `ask`, with one large working set or with several small ones."""
    monkeypatch.setattr(fixed_set, "SIZE", request.param[0])
    monkeypatch.setattr(fixed_set, "PICKS", request.param[1])
    return jax.jit(lambda bandit, state: bandit.ask(state, KEY))


@pytest.mark.parametrize("pending", [[], [3, 3, 7, 20, 3]], ids=["none_pending", "pending"])
def test_picks_are_those_of_the_dense_posterior(ask, pending):
    """The covariance is the full one of BBKB eq. 2, for any dictionary. Pending pulls lower
    variances and leave means unchanged."""
    for seed in range(6):
        p = Problem(seed)
        bandit, state = bandit_and_state(p)
        mean = np.asarray(state.mean)
        if pending:
            query = Query(jnp.asarray(pending, jnp.int32), jnp.ones(len(pending), bool))
            state = bandit.pend(state, query)
        expected = oracle_picks(bandit, state, p, pending, 8)
        np.testing.assert_array_equal(ask(bandit, state).index, expected)
        np.testing.assert_array_equal(state.mean, mean)


def test_no_arm_is_picked_twice(ask):
    """Observed and pending arms are not picked, and a batch is shorter if fewer arms are free."""
    p = Problem(1)
    bandit, state = bandit_and_state(p, repeat=False)
    pending = int(np.flatnonzero(np.asarray(p.counts) == 0)[0])
    state = bandit.pend(state, Query(jnp.asarray([pending], jnp.int32), jnp.ones(1, bool)))
    free = np.asarray(p.counts) == 0
    free[pending] = False
    expected = oracle_picks(bandit, state, p, [pending], min(8, free.sum()), free)
    query = ask(bandit, state)
    np.testing.assert_array_equal(np.asarray(query.index)[: len(expected)], expected)
    # fewer free arms than a batch has
    state = state.replace(pull_counts=state.pull_counts.at[3:].set(1))
    state = state.replace(pending=jnp.zeros_like(state.pending))
    n_free = int((state.pull_counts == 0).sum())
    query = ask(bandit, state)
    assert n_free < 8 and int(query.size) == n_free
    assert len(set(np.asarray(query.index)[:n_free].tolist())) == n_free


def test_an_arm_whose_evaluations_failed_is_not_picked_again():
    p = Problem(1)
    domain = Arms(jnp.asarray(p.x[:5]))
    data = history.of_evaluations(domain, [0, 1, 1, 2, 2], [1.0, np.nan, 2.0, np.nan, np.nan])
    bandit = FixedBKB(p.kernel, p.lam, batch=4, capacity=8, repeat=False)
    state = bandit.init(domain, KEY, data=data)
    query = bandit.ask(state, KEY)
    assert int(bandit.remaining(state)) == 2
    assert set(np.asarray(query.index)[np.asarray(query.mask)].tolist()) == {3, 4}
