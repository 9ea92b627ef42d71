"""Mistakes get a sentence on the host, not a traceback from inside XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, HORIZON, VARIANTS, features, problem

from jsketch import Arms, Query, kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPUCB, EpsGreedy, Uniform

KEY = jax.random.key(0)
KERNEL = kernels.Gaussian(0.5)


def start(bandit, x=None, **history):
    return bandit.init(Arms(features() if x is None else x), KEY, **history)


@pytest.mark.parametrize(
    ("bandit", "words"),
    [
        (BKB(KERNEL, regularization=0.0), "regularization must be a finite number above 0; 0.0"),
        (BBKB(KERNEL, regularization=-1.0), "regularization must be a finite number above 0"),
        (
            GPUCB(KERNEL, regularization=float("nan")),
            "regularization must be a finite number above 0",
        ),
        (EpsGreedy(KERNEL, regularization=-1.0), "regularization must be a finite number above 0"),
        (BKB(KERNEL, noise_std=-0.1), "noise_std must be a finite number, at least 0; -0.1"),
        (BKB(KERNEL, norm_bound=-1.0), "norm_bound must be a finite number"),
        (BBKB(KERNEL, delta=0.0), "delta is a probability"),
        (BBKB(KERNEL, delta=1.0), "delta is a probability"),
        (GPUCB(KERNEL, delta=1.5), "delta is a probability"),
        (BBKB(KERNEL, ratio=0.9), "ratio must be at least 1; 0.9"),
        (BBKB(KERNEL, ratio=float("nan")), "ratio must be at least 1"),
        (BBKB(KERNEL, qbar=0.0), "qbar must be a finite number above 0"),
        (BBKB(KERNEL, rule="local"), "rule must be one of"),
        (BBKB(KERNEL, local_statistic="e"), "local_statistic must be one of"),
        (BBKB(KERNEL, max_batch=0), "max_batch must be an integer of at least 1; 0"),
        (BKB(KERNEL, capacity=0), "capacity must be an integer of at least 1; 0"),
        (GPUCB(KERNEL, capacity=-3), "capacity must be an integer of at least 1"),
        (EpsGreedy(KERNEL, epsilon=1.5), "epsilon"),
        (EpsGreedy(KERNEL, epsilon=-0.1), "epsilon"),
        (Uniform(batch=0), "batch must be an integer of at least 1"),
    ],
)
def test_hyperparameters(bandit, words):
    with pytest.raises(ValueError, match=words):
        start(bandit)


@pytest.mark.parametrize("name", CASES)
def test_arms(name):
    x = features()
    for wrong, words in [
        (x.at[3, 1].set(jnp.nan), "arm 3, feature 1 is nan"),
        (x.at[0, 0].set(jnp.inf), "arm 0, feature 0 is inf"),
        (x[:, 0], "must be a matrix"),
        (x[None], "must be a matrix"),
        (x[:0], "nothing to choose from"),
        (jnp.ones((4, 2), jnp.int32), "floating point"),
    ]:
        with pytest.raises(ValueError, match=words):
            start(CASES[name], wrong)


def test_degenerate_arms_are_warned_of():
    x = features()
    with pytest.warns(UserWarning, match="1 of the 61 arms repeat") as warned:
        start(BKB(KERNEL), jnp.concatenate([x, x[:1]]))
    assert warned[0].filename == __file__  # and not a file of ours
    with pytest.warns(UserWarning, match=r"features \[2\] have the same value"):
        start(BKB(KERNEL), jnp.concatenate([x, jnp.ones((60, 1))], 1))


@pytest.mark.float32
def test_float32_with_a_small_regularization_is_warned_of():
    with pytest.warns(UserWarning, match="too small to be meaningful in float32"):
        start(BKB(KERNEL, regularization=1e-4), features(jnp.float32))


@pytest.mark.parametrize("name", sorted(set(CASES) - VARIANTS))
def test_rewards_of_the_wrong_shape(name):
    state = start(CASES[name])
    query = CASES[name].ask(state, KEY)
    with pytest.raises(ValueError, match="one reward for each slot"):
        CASES[name].tell(state, query, jnp.zeros(query.index.shape[0] + 1), KEY)


@pytest.mark.parametrize("horizon", [0, -5, 2.5, True])
def test_horizon(horizon):
    with pytest.raises(ValueError, match="horizon counts evaluations"):
        loops.run(CASES["uniform"], problem(), KEY, horizon)
    if horizon is not True and horizon < 1:
        with pytest.raises(ValueError, match="horizon counts evaluations"):
            loops.drive(
                CASES["uniform"], lambda arms: np.zeros(len(arms)), problem().arms, KEY, horizon
            )


def test_run_options():
    with pytest.raises(ValueError, match="strategy must be"):
        loops.run(CASES["uniform"], problem(), KEY, 5, strategy="pmap")
    with pytest.raises(ValueError, match="at least one key"):
        loops.run_seeds(CASES["uniform"], problem(), jax.random.split(KEY, 2)[:0], 5)


def test_infinite_rewards_are_refused():
    infinite = problems.recorded_arms(features(), jnp.ones((60, 1)))
    infinite = infinite.replace(evaluations=infinite.evaluations.at[:].set(jnp.inf))
    with pytest.raises(FloatingPointError, match="a reward was infinite"):
        loops.run(CASES["uniform"], infinite, KEY, 5)
    with pytest.raises(ValueError, match="infinite; return NaN"):
        loops.drive(
            CASES["uniform"], lambda arms: np.full(len(arms), np.inf), problem().arms, KEY, 5
        )


def test_objectives_that_fail_or_answer_too_little():
    with pytest.raises(ValueError, match="must return 1 rewards for 1 arms"):
        loops.drive(CASES["uniform"], lambda arms: np.zeros(3), problem().arms, KEY, 5)
    driven = loops.drive(
        CASES["gp_ucb"], lambda arms: np.full(len(arms), np.nan), problem().arms, KEY, 3
    )
    assert np.isnan(driven.reward).all() and float(driven.state.count) == 0


def test_problems():
    x = np.asarray(features())
    for arguments, words in [
        ((x[0], np.zeros(60), 0.1), "must be a matrix"),
        ((x, np.zeros(59), 0.1), "one row for each of the 60 arms"),
        ((x, np.zeros((60, 1)), 0.1), "must be a vector"),
        ((x, np.full(60, np.nan), 0.1), "must be finite: 60 values are not"),
        ((x, np.zeros(60), -0.1), "noise_std must be a finite number"),
    ]:
        with pytest.raises(ValueError, match=words):
            problems.finite_arms(*arguments)
    with pytest.raises(ValueError, match="R >= 1"):
        problems.recorded_arms(x, np.zeros((60, 0)))


def test_past_evaluations():
    zeros = np.zeros(60)
    for history, words in [
        (dict(reward_sums=zeros), "give pull_counts"),
        (dict(pull_counts=zeros[:5], reward_sums=zeros), "one number for each of the 60 arms"),
        (dict(pull_counts=zeros - 1, reward_sums=zeros), "at least 0"),
        (dict(pull_counts=zeros + 1, reward_sums=zeros * np.nan), "reward_sums must be finite"),
        (dict(pull_counts=zeros + 1, reward_sums=zeros), "does not fit a capacity of 8"),
    ]:
        with pytest.raises(ValueError, match=words):
            start(BBKB(KERNEL, capacity=8), **history)


def test_a_batch_that_fills_its_capacity_is_said():
    bandit = CASES["bbkb_global"].replace(max_batch=2, ratio=50.0)
    with pytest.warns(UserWarning, match="filled its capacity"):
        assert bool(loops.run(bandit, problem(), KEY, HORIZON).truncated)


def test_matern_smoothness():
    with pytest.raises(ValueError, match="closed forms for nu"):
        kernels.Matern(1.0, nu=2.0).gram(features(), features())


def test_a_masked_slot_is_not_observed():
    bandit = CASES["bkb"]
    state = start(bandit)
    query = Query(index=jnp.zeros(1, jnp.int32), mask=jnp.zeros(1, bool))
    told, info = bandit.tell(state, query, jnp.ones(1), KEY)
    assert int(info.observed) == 0 and float(told.pull_counts.sum()) == 0


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("rbf", "kernel must be a kernel"),
        (kernels.Gaussian, "kernel must be a kernel"),
        (kernels.Gaussian(0.0), "lengthscale must be a finite number above 0"),
        (kernels.Gaussian(jnp.ones(3)), "one lengthscale a feature"),
    ],
)
def test_kernels_that_do_not_fit(kernel, words):
    for bandit in (BBKB(kernel), GPUCB(kernel)):
        with pytest.raises(ValueError, match=words):
            start(bandit)


def test_keys_and_algorithms():
    for action, words in [
        (lambda: loops.run(BBKB(KERNEL), problem(), 0, 5), "run takes one key"),
        (
            lambda: loops.run(BBKB(KERNEL), problem(), jax.random.split(KEY, 2), 5),
            "run takes one key",
        ),
        (lambda: loops.run_seeds(BBKB(KERNEL), problem(), KEY, 5), "takes an array of keys"),
        (lambda: loops.drive(BBKB(KERNEL), len, Arms(features()), 0, 5), "drive takes one key"),
        (
            lambda: loops.drive(BBKB(KERNEL), len, Arms(features()), KEY, 5.5),
            "horizon counts evaluations",
        ),
        (lambda: loops.run(BBKB, problem(), KEY, 5), "bandit must be an algorithm"),
        (lambda: start(BBKB(KERNEL, regularization="0.1")), "a number was expected"),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


def test_numpy_arrays_and_lists_are_welcome():
    """Arms and rewards as people have them, with and without jit."""
    table = np.random.default_rng(0).uniform(size=(9, 2))
    bandit = BBKB(KERNEL, max_batch=3)
    for arms in (table, table.tolist()):
        state = bandit.init(Arms(arms), KEY)
        query = bandit.ask(state, KEY)
        state, info = bandit.tell(state, query, [1, 2, 3], KEY)
        assert int(info.observed) == 1 and state.reward_sums.sum() == 1
        np.testing.assert_array_equal(
            query.index, jax.jit(bandit.ask)(bandit.init(Arms(arms), KEY), KEY).index
        )
