"""Kernel values that a run keeps in memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import GRAM

from jsketch import Arms, kernels, problems, rollout
from jsketch.bandits import BBKB, BKB, Draw, FixedBKB
from jsketch.contrib.nonstationary import DiscountedBKB
from jsketch.core import low_rank, posterior
from jsketch.loops import rollouts

KERNEL, LAM, KEY = kernels.Gaussian(0.5), 0.01, jax.random.key(0)
X = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (90, 2)))
PROBLEM = problems.finite_arms(X, np.sin(3 * np.asarray(X).sum(1)), noise_std=0.1)
CAPACITY = 24
UPDATE = jax.jit(posterior.update, static_argnames=("capacity", "keep_gram"))
UPDATE_LOW_RANK = jax.jit(low_rank.update_low_rank)
WITH_GRAM = jax.jit(posterior.with_gram)


def history(*numbers):
    counts = jnp.zeros(len(X)).at[jnp.asarray(numbers)].add(1.0)
    return counts, 0.3 * counts


@jax.jit
def posteriors():
    """A posterior with and without kernel values, and both after pulls of an old and two new
    arms."""
    counts, sums = history(3, 5, 5, 8)
    arguments = KERNEL, LAM, X, counts, sums, counts > 0, CAPACITY
    further, rewards = history(5, 60, 61)
    before = posterior.update(*arguments), posterior.update(*arguments, keep_gram=True)
    after = [
        low_rank.update_low_rank(KERNEL, LAM, p, X, further, rewards, (further > 0) & (counts == 0))
        for p in before
    ]
    return before, after


def test_kernel_values_change_a_posterior_by_rounding_only():
    before, ((without, is_accurate), (kept, _)) = posteriors()
    assert is_accurate
    for p in (before[1], kept):
        m = int(p.rank)
        exact = np.asarray(GRAM(KERNEL, X, p.points))
        np.testing.assert_allclose(np.asarray(p.gram)[:, :m], exact[:, :m], rtol=1e-12)
    for a, b in ((before[0], before[1]), (without, kept)):
        assert a.gram is None
        for name in ("points", "root", "dual", "weights", "mean", "variance", "logdet"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "bandit",
    [
        BBKB(KERNEL, LAM, capacity=40),
        BBKB(KERNEL, LAM, capacity=40, rule="global_local", local_statistic="guaranteed"),
        BKB(KERNEL, LAM, capacity=40),
    ],
    ids=["bbkb", "local", "bkb"],
)
def test_a_run_with_kernel_values_has_the_same_picks(bandit, monkeypatch):
    def run():
        program = jax.jit(lambda: rollout(bandit, PROBLEM, KEY, 40)).lower()
        return program.as_text(), program.compile()()

    text, kept = run()
    monkeypatch.setattr(rollouts, "GRAM_BYTES", 0)
    text_without, computed = run()
    assert text != text_without and (kept.trace.arm >= 0).all()
    assert kept.state.posterior.gram is None and computed.state.posterior.gram is None
    np.testing.assert_array_equal(kept.trace.arm, computed.trace.arm)
    np.testing.assert_allclose(kept.trace.width, computed.trace.width, rtol=1e-9)


def test_values_are_kept_where_rounds_share_them():
    state = BBKB(KERNEL, capacity=CAPACITY).init(Arms(X), KEY)
    assert BBKB(KERNEL).with_gram(state, Arms(X)).posterior.gram.shape == (90, CAPACITY)
    for other in (
        BBKB(KERNEL, dictionary=Draw()),
        FixedBKB(KERNEL, batch=65),
        DiscountedBKB(KERNEL),
    ):
        assert other.with_gram(state, Arms(X)).posterior.gram is None
    many = Arms(jnp.broadcast_to(X[:1], (2_000_000, 2)))
    assert not rollouts.gram_fits(many, CAPACITY) and rollouts.gram_fits(Arms(X), CAPACITY)


def test_values_in_memory_are_those_of_a_run_that_is_resumed():
    """A run of float32 in two parts computes its values again, in as many operations as before."""
    x = np.random.default_rng(0).uniform(-1, 1, (4_000, 3)).astype(np.float32)
    counts = (np.arange(len(x)) < 3).astype(np.float32)
    further = (np.arange(len(x)) == 100).astype(np.float32)
    p = UPDATE(KERNEL, 0.1, x, counts, counts, counts > 0, CAPACITY, keep_gram=True)
    p, accurate = UPDATE_LOW_RANK(KERNEL, 0.1, p, x, further, further, further > 0)
    again = WITH_GRAM(posterior.without_gram(p), KERNEL, x)
    assert accurate and int(p.rank) == 4
    np.testing.assert_array_equal(p.gram, again.gram)
