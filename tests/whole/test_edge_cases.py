"""Unusual but valid inputs: forms, traced values, warnings, and ranges of numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from cases import CASES, HORIZON, features, problem
from test_refusals import KERNEL, KEY, ONES, QUERY, ROWS, TABLE, X, begin

from jsketch import Arms, Query, kernels, loops, problems, struct
from jsketch.bandits import BBKB, BKB, GPBUCB, SOFUL, TS, FixedBKB, Uniform, widths
from jsketch.box import UniformBox
from jsketch.contrib import MiniGP
from jsketch.sketch import bless
from jsketch.types import Box

BANDIT = BKB(KERNEL, capacity=6)


# Accepted forms


def test_arrays_lists_and_tables_are_arms():
    bandit = BBKB(KERNEL, max_batch=3)
    expected, state = bandit.ask(begin(bandit), KEY), begin(bandit, X.tolist())
    query = bandit.ask(state, KEY)
    np.testing.assert_array_equal(query.index, expected.index)
    state, info = bandit.tell(state, query, [1, 2, 3], KEY)
    assert int(info.observed) == 1 and state.reward_sums.sum() == 1
    table = pd.DataFrame(X, columns=["a", "b"])
    for frame, dtype in (
        (table, X.dtype),
        (table.astype("float32"), np.float32),
        (table.rank().astype(int), X.dtype),
    ):
        converted = begin(Uniform(), frame).domain.features
        np.testing.assert_allclose(converted, frame, rtol=1e-6)
        assert converted.dtype == jax.dtypes.canonicalize_dtype(dtype)
    assert Arms(table).count == 40
    assert problems.finite_arms(table, table["a"], 0.1).arms.features.shape == (40, 2)
    with pytest.raises(ValueError, match="a matrix of numbers: could not convert"):
        begin(Uniform(), table.assign(c="word"))


# Warnings


@struct.dataclass
class Indefinite:
    """A similarity that is not positive semi-definite."""

    def gram(self, x, y):
        return 1 + jnp.square(x[:, None] - y[None]).sum(-1)

    def diag(self, x):
        return jnp.ones(len(x), x.dtype)


@pytest.mark.filterwarnings("error")
def test_an_indefinite_kernel_is_warned_of_and_has_no_leverage_scores():
    with pytest.warns(UserWarning, match="not positive semi-definite on these arms"):
        begin(BKB(Indefinite()))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        bless.bless(Indefinite(), 10 * X, ONES, 1e-3, KEY)
    begin(BKB(kernels.Precomputed(jnp.asarray(np.round(TABLE, 6)))), ROWS)
    begin(BKB(kernels.Scaled(KERNEL, 0.0)))


def test_repeated_arms_and_constant_features_are_warned_of():
    x = features()
    with pytest.warns(UserWarning, match="1 of the 61 arms repeat") as warnings_list:
        BKB(KERNEL).init(Arms(jnp.concatenate([x, x[:1]])), KEY)
    assert warnings_list[0].filename == __file__  # the line of the user
    with pytest.warns(UserWarning, match=r"features \[2\] have the same value"):
        begin(BKB(KERNEL), jnp.concatenate([x, jnp.ones((60, 1))], 1))


@pytest.mark.float32
def test_float32_with_a_small_regularization_is_warned_of():
    with pytest.warns(UserWarning, match="too small to be meaningful in float32"):
        begin(BKB(KERNEL, regularization=1e-4), features(jnp.float32))


def test_a_batch_that_fills_its_capacity_is_warned_of():
    bandit = CASES["bbkb_global"].replace(max_batch=2, ratio=50.0)
    with pytest.warns(UserWarning, match="filled its capacity"):
        assert bool(loops.run(bandit, problem(), KEY, HORIZON).truncated)


# Traced values


def test_a_traced_feature_that_is_no_row_of_the_table_gives_nan():
    kernel = kernels.Precomputed(jnp.asarray(TABLE))
    traced = jnp.array([[[2.0]], [[40.0]], [[-1.0]], [[0.5]]])
    gram = jax.vmap(lambda x: kernel.gram(x, ROWS[:3]))(traced)
    np.testing.assert_array_equal(gram[0, 0], TABLE[2, :3])
    assert np.isnan(gram[1:]).all()


def test_a_traced_arm_that_does_not_exist_is_not_pending():
    bandit = FixedBKB(KERNEL, batch=2, max_pending=2, capacity=4)
    state = begin(bandit)
    pend = jax.jit(lambda index: bandit.pend(state, Query(index, jnp.ones(3, bool))).pending)
    np.testing.assert_array_equal(pend(jnp.array([40, -1, 7])), np.arange(40) == 7)


def test_a_traced_dictionary_of_arms_that_do_not_exist_is_flagged():
    @jax.jit
    def observe_with(dictionary):
        state = begin(BANDIT, pull_counts=ONES, reward_sums=ONES, dictionary=dictionary)
        return state.dictionary.mask.sum(), BANDIT.tell(state, QUERY, jnp.ones(1), KEY)[1].nonfinite

    assert [int(value) for value in observe_with(jnp.array([0, 3]))] == [2, 0]
    for wrong in ([-1, 3], [3, 99]):
        assert [int(value) for value in observe_with(jnp.array(wrong))] == [1, 1]


def test_a_traced_width_below_zero_is_flagged():
    bandit = SOFUL(size=1)
    state = begin(bandit)
    info = jax.jit(lambda width: bandit.replace(width=width).tell(state, QUERY, [1.0], KEY)[1])
    for deviations, flagged in ((1.0, False), (0.0, False), (-1.0, True)):
        assert bool(info(widths.Bayesian(deviations)).nonfinite) == flagged


# Ranges of numbers


def test_infinite_rewards_end_a_run():
    infinite = problems.recorded_arms(features(), jnp.ones((60, 1)))
    infinite = infinite.replace(evaluations=infinite.evaluations.at[:].set(jnp.inf))
    with pytest.raises(FloatingPointError, match="a reward was infinite"):
        loops.run(CASES["uniform"], infinite, KEY, 5)


def test_drive_ends_where_the_posterior_is_not_finite():
    """The sum of the rewards overflows."""
    with pytest.raises(FloatingPointError, match="posterior is not finite") as error_info:
        loops.drive(BANDIT, lambda arms: [1e308] * len(arms), Arms(X[:6]), KEY, 6)
    assert error_info.value.driven.t >= 1


def test_rewards_must_be_finite_in_the_dtype_of_the_domain():
    """1e300 is finite in float64 and infinite in float32."""
    float32_arms = Arms(jnp.asarray(X, jnp.float32))
    with pytest.raises(ValueError, match="infinite in float32"):
        loops.drive(Uniform(), lambda arms: [1e300] * len(arms), float32_arms, KEY, 2)
    box = Box(jnp.zeros(1, jnp.float32), jnp.ones(1, jnp.float32))
    with pytest.raises(ValueError, match="infinite in the box's float32"):
        loops.drive(UniformBox(), lambda x: 1e300, box, KEY, 2)


@pytest.mark.filterwarnings("ignore:the kernel is not positive semi-definite")
def test_samples_of_a_negative_definite_kernel_are_refused():
    """The search for a shift of the diagonal ends, although no shift is large enough."""
    table = -jnp.eye(5)
    bandit = TS(kernels.Precomputed(table), batch=2, capacity=4)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        begin(bandit, kernels.index_features(table))


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-12, 1e3])
def test_bless_ends_on_any_kernel(scale):
    kernel = kernels.Scaled(KERNEL, scale)
    dictionary = bless.bless(kernel, X, ONES, 1.0, KEY)
    assert (len(dictionary.rows) > 0) == (scale > 1)
    scores = bless.leverage_scores(kernel, X, ONES, dictionary, 1.0)
    exact_scores = bless.exact_leverage_scores(kernel, X, ONES, 1.0)
    assert (scores <= 3 * exact_scores + 1e-300).all() and (scores >= exact_scores / 3).all()
    # at this regularization the computed scores of a single point are rounding errors
    assert len(bless.bless(KERNEL, X[:1], np.ones(1), 1e-20, KEY).rows) <= 1


def test_the_regret_ratio_of_constant_rewards_is_one():
    for constant in (0.0, 0.1, -1e9):
        ratio = loops.regret_ratio(jnp.zeros((2, 3)), jnp.full(7, constant))
        np.testing.assert_array_equal(ratio, np.ones((2, 3)))
    ratio = loops.regret_ratio(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(ratio, [2.0, 1.0], rtol=1e-15)


def test_variances_below_rounding_give_equally_large_batches():
    """Rounding leaves a variance of 0 or 1e-17 at an arm that was evaluated 10,000 times."""
    bandit = MiniGP(KERNEL, 1.0, capacity=4)
    state = begin(bandit, ONE_ARM).replace(count=jnp.array(4.0))

    @jax.jit
    def batch_size(variance):
        posterior = state.posterior.replace(variance=jnp.full(1, variance))
        return bandit.ask(state.replace(posterior=posterior), KEY).size

    # C^2 - 1 = 3 is divided by half of the variance after 4 evaluations, 1 / 10
    assert int(batch_size(0.0)) == int(batch_size(1e-17)) == 30


# the rewards of the arms FAR_ARMS are uncorrelated
ONE_ARM, FAR_ARMS = jnp.zeros((1, 1)), jnp.arange(10.0)[:, None] * 100


@pytest.mark.parametrize(
    ("bandit", "x", "size", "ending_ratio", "larger_ratio"),
    [
        # with lambda 1 the bound of one arm is 2, 3, 4, ... by either rule
        (BBKB(KERNEL, 1.0, max_batch=3, capacity=4), ONE_ARM, 3, 3.5, 4.5),
        (BBKB(KERNEL, 1.0, max_batch=3, capacity=4, rule="global_local"), ONE_ARM, 3, 3.5, 4.5),
        (GPBUCB(KERNEL, 1.0, max_batch=3, capacity=4), ONE_ARM, 3, 3.5, 4.5),
        # there are rows for three new arms, and a fourth ends the batch
        (GPBUCB(KERNEL, 1.0, max_batch=5, new_arms=2, capacity=1), FAR_ARMS, 4, 15.0, 17.0),
        # an arm is pulled C^2 - 1 times
        (MiniGP(KERNEL, 1.0, max_batch=3, capacity=4), ONE_ARM, 3, 2.1, 2.3),
    ],
)
def test_a_batch_that_its_rule_ends_is_not_truncated(bandit, x, size, ending_ratio, larger_ratio):
    state, one = begin(bandit, x), jnp.ones(())
    if hasattr(state, "evidence"):
        state = state.replace(evidence=state.evidence.replace(count=one))
    else:
        state = state.replace(count=one)
    ask = jax.jit(lambda ratio, limit: bandit.replace(ratio=ratio).ask(state, KEY, limit))
    for ratio, limit, truncated in (
        (ending_ratio, 100, False),
        (larger_ratio, 100, True),
        (larger_ratio, size, False),
    ):
        query = ask(ratio, limit)
        assert int(query.size) == size and bool(query.truncated) == truncated
    _, info = jax.eval_shape(lambda: bandit.tell(state, query, jnp.zeros(query.mask.shape), KEY))
    assert info.truncated.shape == ()
