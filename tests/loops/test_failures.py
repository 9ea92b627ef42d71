"""Runs over arms whose evaluations fail: which arms are left out, and for how long."""

import functools
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, kernels, loops, problems, struct
from jsketch.bandits import BBKB, GPUCB, FixedBKB, Uniform
from jsketch.loops.failures import (
    exceeds_limit,
    excess_of,
    warn_of_failures,
    without_failing,
)

KEY = jax.random.key(0)
ARMS = Arms(np.linspace(0, 1, 12)[:, None])
REWARDS = np.sin(4 * np.linspace(0, 1, 12))
BEST = int(np.argmax(REWARDS))
MODEL = dict(kernel=kernels.Gaussian(0.3), regularization=0.01, capacity=12)
BANDITS = {
    "bbkb": BBKB(**MODEL, max_batch=8),
    "gp_ucb": GPUCB(**MODEL),
    "fixed_bkb": FixedBKB(**MODEL, batch=3),
    "uniform": Uniform(),
}


@struct.dataclass
class Failing:
    """Rewards without noise; those of an arm fail with the probability in `failures` [A]."""

    failures: Any
    arms: Any
    mean_reward: Any

    def sample(self, key, arm):
        fails = jax.random.uniform(key) < self.failures[arm]
        return jnp.where(fails, jnp.nan, self.mean_reward[arm])


def failing(probability):
    return Failing(jnp.broadcast_to(probability, 12), ARMS, jnp.asarray(REWARDS))


def at(*arms):
    return np.isin(np.arange(12), arms).astype(float)


@pytest.mark.parametrize("name", BANDITS)
def test_an_arm_that_always_fails_is_hardly_asked_for(name):
    """By `drive`, which warns, and by `rollout` in the same way."""
    horizon = 40
    with pytest.warns(UserWarning, match=rf"evaluations failed, and arms .* rounds: {BEST} \("):
        driven = loops.drive(
            BANDITS[name],
            lambda arm: np.where(arm == BEST, np.nan, REWARDS[arm]),
            ARMS,
            KEY,
            horizon,
        )
    assert driven.best[0] in (BEST - 1, BEST + 1)
    run = jax.jit(loops.rollout, static_argnames="horizon")(
        BANDITS[name], failing(at(BEST)), KEY, horizon
    )
    np.testing.assert_array_equal(run.trace.arm, driven.x)
    np.testing.assert_array_equal(run.excess, excess_of(driven.x, driven.y, 12))
    # a batch, which is chosen before the failure, may have the arm more than once
    rounds = np.unique(np.asarray(run.trace.round)[np.isnan(driven.y)])
    assert 0 < len(rounds) <= 1 + math.log2(1 + horizon / 12)


def test_a_run_warns_and_counts_its_failures():
    problem, keys = failing(at(2, BEST)), jax.random.split(KEY, 2)
    with pytest.warns(UserWarning, match="of 60 evaluations failed, and arms that had failed"):
        run = loops.run(BANDITS["gp_ucb"], problem, keys, 30)
    assert run.summary()["failed"] == np.isnan(run.trace.y).sum() > 0
    # the best arm has no successful evaluation
    assert (np.asarray(run.trace.simple_regret)[:, -1] > 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "failed" not in loops.run(BANDITS["gp_ucb"], failing(np.zeros(12)), KEY, 9).summary()


def test_the_warning_names_the_arms_that_were_left_out():
    nan, arm = np.nan, np.array([0, 1, 0, 0, 1])
    with pytest.warns(UserWarning, match="rounds: 0 "):
        warn_of_failures(arm, np.array([nan, 1, 2, 1, 1]), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # no round follows, and one failure of two arms after three evaluations is no reason
        warn_of_failures(arm, np.array([1, 1, 1, 1, nan]), 9)
        warn_of_failures(arm, np.array([1, 1, 1, nan, 1]), 2)


def test_the_limit_grows_with_the_logarithm_of_the_evaluations():
    excess = np.arange(-3, 9)
    for t in range(400):
        expected = excess > math.log2(1 + t / 7) + 1e-12
        np.testing.assert_array_equal(exceeds_limit(excess, t, 7), expected)
    assert exceeds_limit(np.array([2_000_000_000]), 10**6, 2).all()


def test_failures_are_counted_once_in_batches_of_several_chunks():
    """The last chunk of the trace overlaps the one before it."""
    bandit = FixedBKB(**MODEL, batch=50)
    run = jax.jit(functools.partial(loops.rollout, horizon=100))(
        bandit, failing(np.full(12, 0.4)), KEY
    )
    rewards = np.asarray(run.trace.y)
    assert 20 < np.isnan(rewards).sum() < 60
    np.testing.assert_array_equal(run.excess, excess_of(run.trace.arm, rewards, 12))


def test_an_arm_that_fails_now_and_then_is_not_lost():
    problem = failing(np.full(12, 0.2))
    run = jax.jit(jax.vmap(lambda key: loops.rollout(BANDITS["gp_ucb"], problem, key, 60)))(
        jax.random.split(KEY, 8)
    )
    late = np.asarray(run.trace.arm)[:, 30:]
    assert (late == BEST).any(1).all() and (run.t == 60).all()
    assert np.isnan(np.asarray(run.trace.y)).any(1).all()


def test_a_run_in_which_everything_fails_ends_at_its_horizon():
    problem = failing(np.ones(12))
    with pytest.warns(UserWarning, match="40 of 40 evaluations failed"):
        run = loops.run(BANDITS["gp_ucb"], problem, KEY, 40)
    assert len(np.unique(run.trace.arm)) > 6


def test_a_resumed_run_leaves_out_the_same_arms():
    @functools.wraps(np.where)
    def objective(arm):
        return np.where(np.isin(arm, (BEST, BEST - 1)), np.nan, REWARDS[arm])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = loops.drive(BANDITS["gp_ucb"], objective, ARMS, KEY, 20)
        first = loops.drive(BANDITS["gp_ucb"], objective, ARMS, KEY, 7)
        resumed = loops.drive(BANDITS["gp_ucb"], objective, ARMS, KEY, 20, state=first)
    np.testing.assert_array_equal(resumed.x, whole.x)


def test_arms_that_a_user_leaves_out_are_not_chosen():
    arms = ARMS.replace(left_out=jnp.asarray(at(BEST, 3)) > 0)
    problem = problems.finite_arms(ARMS.features, REWARDS, 0.1).replace(arms=arms)
    run = jax.jit(lambda key: loops.rollout(BANDITS["bbkb"], problem, key, 30))(KEY)
    assert not np.isin(run.trace.arm, (BEST, 3)).any()
    # not even if the others fail
    out = ARMS.replace(left_out=jnp.asarray(at(*range(9))) > 0)
    excess = jnp.full(12, 5, jnp.int32)
    assert np.flatnonzero(without_failing(out, excess, 3).candidates).tolist() == [9, 10, 11]
    excess = excess.at[10].set(0)
    assert np.flatnonzero(without_failing(out, excess, 3).candidates).tolist() == [10]
    wrong = (np.zeros(11, bool), np.zeros(12, int))
    for left_out in wrong:
        with pytest.raises(ValueError, match=r"left_out is a mask of the arms, \[A\] bool"):
            BANDITS["bbkb"].init(ARMS.replace(left_out=left_out), KEY)
    # if all arms are left out, none is
    everything = ARMS.replace(left_out=jnp.ones(12, bool))
    assert everything.candidates.all() and bool(everything.allows(jnp.asarray(5)))
