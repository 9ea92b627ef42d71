"""Batches of a fixed size, and pending evaluations."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ASK, INIT, KEY, Problem

from jsketch import Arms, Query
from jsketch.bandits import FixedBKB, history
from jsketch.core import conditioned

PEND = jax.jit(lambda bandit, state, arms, query: bandit.pend(state, arms, query))


def query_of(arms):
    return Query(np.asarray(arms, np.int32), np.ones(len(arms), bool))


def bandit_and_state(p, **options):
    sizes = dict(batch=8, max_pending=8, capacity=32)
    bandit = FixedBKB(p.kernel, p.lam, noise_std=0.3, **sizes, **options)
    return bandit, INIT(bandit, p.x, p.counts, p.sums, np.resize(p.dictionary, 32))


def oracle_picks(bandit, state, p, pending, n_picks, free=None):
    """The arms of largest mean + width * deviation, picked one after the other. The variances are
    those of the dense covariance after the pending pulls and the earlier picks. With `free` [A]
    only free arms are picked, each of them once, and the array is updated in place."""
    mean, width = np.asarray(state.posterior.mean), float(bandit.confidence_width(state, Arms(p.x)))
    dictionary = np.flatnonzero(state.inducing)
    full = oracles.sketched(p.gram, dictionary, p.counts, p.sums, p.lam)[1]
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
    monkeypatch.setattr(conditioned, "CONDITIONED_ARMS", request.param[0])
    monkeypatch.setattr(conditioned, "ROWS_TOGETHER", request.param[1])
    return jax.jit(lambda bandit, state, x: bandit.ask(state, Arms(x), KEY))


@pytest.mark.parametrize("pending", [[], [3, 3, 7, 20, 3]], ids=["none_pending", "pending"])
def test_picks_are_those_of_the_dense_posterior(ask, pending):
    """The covariance is the full one of BBKB eq. 2, for any dictionary. Pending pulls lower
    variances and leave means unchanged."""
    for seed in range(6):
        p = Problem(seed)
        bandit, state = bandit_and_state(p, qbar=0.3)
        mean = np.asarray(state.posterior.mean)
        if pending:
            state = PEND(bandit, state, p.arms, query_of(pending))
        expected = oracle_picks(bandit, state, p, pending, 8)
        np.testing.assert_array_equal(ask(bandit, state, p.x).index, expected)
        np.testing.assert_array_equal(state.posterior.mean, mean)


def test_no_arm_is_picked_twice(ask):
    """Observed and pending arms are not picked, and a batch is shorter if fewer arms are free."""
    p = Problem(1)
    bandit, state = bandit_and_state(p, repeat=False)
    pending = int(np.flatnonzero(np.asarray(p.counts) == 0)[0])
    waiting = PEND(bandit, state, p.arms, query_of([pending]))
    free = np.asarray(p.counts) == 0
    free[pending] = False
    expected = oracle_picks(bandit, waiting, p, [pending], min(8, free.sum()), free)
    query = ask(bandit, waiting, p.x)
    np.testing.assert_array_equal(np.asarray(query.index)[: len(expected)], expected)
    # fewer free arms than a batch has
    left = np.flatnonzero(~np.asarray(state.tried))[:3]
    state = state.replace(tried=~np.isin(np.arange(len(p.x)), left))
    query = ask(bandit, state, p.x)
    assert int(query.size) == 3 == int(bandit.remaining(state, Arms(p.x)))
    assert sorted(np.asarray(query.index)[:3].tolist()) == left.tolist()


def test_an_arm_whose_evaluations_failed_is_not_picked_again():
    p = Problem(1)
    arms = Arms(jnp.asarray(p.x[:5]))
    data = history.of_evaluations(arms, [0, 1, 1, 2, 2], [1.0, np.nan, 2.0, np.nan, np.nan])
    bandit = FixedBKB(p.kernel, p.lam, batch=4, capacity=8, repeat=False)
    state = jax.jit(lambda: bandit.init(arms, KEY, data=data))()
    query = ASK(bandit, state, arms, KEY)
    assert int(bandit.remaining(state, arms)) == 2
    assert set(np.asarray(query.index)[np.asarray(query.mask)].tolist()) == {3, 4}


def test_the_first_pick_is_a_random_arm_that_may_be_picked():
    """All evaluations so far failed, and three arms are left."""
    p = Problem(1)
    arms, failed = Arms(jnp.asarray(p.x)), [i for i in range(len(p.x)) if i not in (4, 11, 23)]
    bandit = FixedBKB(p.kernel, p.lam, batch=2, capacity=8, repeat=False)
    nothing = history.of_evaluations(arms, failed, np.full(len(failed), np.nan))
    state = jax.jit(lambda: bandit.init(arms, KEY, data=nothing))()
    queries = jax.jit(jax.vmap(lambda key: bandit.ask(state, arms, key)))(jax.random.split(KEY, 40))
    index, mask = np.asarray(queries.index), np.asarray(queries.mask)
    assert set(index[:, 0].tolist()) == {4, 11, 23}
    assert (mask.sum(1) == 2).all() and (index[:, 0] != index[:, 1]).all()


def test_too_many_pending_arms_are_refused_or_give_an_empty_batch():
    """`pend` raises an error, or, traced, the batches are empty until few enough are pending."""
    p = Problem(1)
    arms, (bandit, state) = Arms(jnp.asarray(p.x)), bandit_and_state(p)
    waiting = query_of(range(9))
    with pytest.raises(ValueError, match="9 distinct arms would be pending, max_pending is 8"):
        bandit.pend(state, arms, waiting)

    @jax.jit
    def sizes(state):
        full = bandit.pend(state, arms, waiting)
        y = jnp.where(jnp.arange(9) == 4, 0.5, jnp.nan)
        after, _ = bandit.tell(full, arms, waiting.replace(mask=jnp.isfinite(y)), y, KEY)
        queries = bandit.ask(full, arms, KEY), bandit.ask(after, arms, KEY)
        return *(query.size for query in queries), after.pending

    empty, full, pending = sizes(state)
    assert int(empty) == 0 and int(full) == 8
    np.testing.assert_array_equal(np.flatnonzero(pending), [0, 1, 2, 3, 5, 6, 7, 8])
