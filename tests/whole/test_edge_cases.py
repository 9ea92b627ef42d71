"""Unusual but valid inputs: forms, traced values, warnings, and ranges of numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from cases import CASES, HORIZON, features, problem
from test_refusals import ARMS, KERNEL, KEY, ONES, QUERY, ROWS, TABLE, X, begin

from jsketch import Arms, Query, checks, kernels, loops, problems, struct
from jsketch.bandits import BBKB, BKB, GPBUCB, GPUCB, SOFUL, TS, Extend, FixedBKB, Uniform, widths
from jsketch.box import UniformBox
from jsketch.contrib import MiniGP
from jsketch.online import PKAWV
from jsketch.results import Result
from jsketch.sketch import Taylor, bless
from jsketch.types import Box

BANDIT = BKB(KERNEL, capacity=6)


# Accepted forms


def test_arrays_lists_and_tables_are_arms():
    bandit, table = (
        BBKB(KERNEL, max_batch=3, width=widths.certified),
        pd.DataFrame(X, columns=["a", "b"]),
    )
    runs = [
        loops.drive(bandit, lambda arms: X[arms, 0], Arms(x), KEY, 6)
        for x in (jnp.asarray(X), X, X.tolist(), table)
    ]
    for run, x in zip(runs[1:], (X, X.tolist(), table), strict=True):
        np.testing.assert_array_equal(run.x, runs[0].x)
        gap = loops.gap(bandit, run.state, Arms(x))
        assert gap == loops.gap(bandit, runs[0].state, Arms(jnp.asarray(X)))
    for frame, dtype in (
        (table, X.dtype),
        (table.astype("float32"), np.float32),
        (table.rank().astype(int), X.dtype),
    ):
        begin(Uniform(), frame)
        converted = checks.arms(Arms(frame)).features
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
        run = loops.run(bandit, problem(), KEY, HORIZON)
    assert int(run.trace.batch_size.max()) == 2


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
    pend = jax.jit(lambda index: bandit.pend(state, ARMS, Query(index, jnp.ones(3, bool))).pending)
    np.testing.assert_array_equal(pend(jnp.array([40, -1, 7], jnp.int32)), np.arange(40) == 7)


def test_a_traced_dictionary_of_arms_that_do_not_exist_is_flagged():
    bandit = BANDIT.replace(capacity=40)

    @jax.jit
    def observe_with(dictionary):
        state = begin(bandit, pull_counts=ONES, reward_sums=ONES, dictionary=dictionary)
        info = bandit.tell(state, ARMS, QUERY, jnp.ones(1), KEY)[1]
        return info.result, jnp.isnan(state.sums).all()

    assert [int(value) for value in observe_with(jnp.array([0, 3]))] == [Result.RUNNING, 0]
    for wrong in ([-1, 3], [3, 99]):
        expected = [Result.NOT_FINITE, 1]
        assert [int(value) for value in observe_with(jnp.array(wrong))] == expected


def test_a_traced_width_below_zero_is_flagged():
    bandit = SOFUL(size=1)
    state, y = begin(bandit), jnp.ones(1)

    @jax.jit
    def result(width):
        return bandit.replace(width=width).tell(state, ARMS, QUERY, y, KEY)[1].result

    for deviations, code in ((1.0, "RUNNING"), (0.0, "RUNNING"), (-1.0, "NOT_FINITE")):
        assert int(result(widths.Bayesian(deviations))) == Result[code]


# Ranges of numbers


def test_a_run_with_a_traced_number_out_of_its_range_has_no_results():
    """Each run has one invalid number. The others have the results that they have among valid
    runs, bit for bit."""
    kernel = kernels.Scaled(kernels.RationalQuadratic(np.ones(2), alpha=1.0), 1.0)
    bandit = BBKB(kernel, capacity=6, max_batch=2, width=widths.Bayesian(1.0))
    valid, structure = jax.tree.flatten(struct.numbers_in_dtype(bandit, float))
    changes = [
        dict(qbar=-1.0),
        dict(qbar=np.nan),
        dict(qbar=np.inf),
        dict(noise_std=-1.0),
        dict(norm_bound=-1.0),
        dict(delta=1.0),
        dict(delta=0.0),
        dict(regularization=0.0),
        dict(ratio=0.9),
        dict(dictionary=Extend(-0.1)),
        dict(width=widths.Bayesian(-1.0)),
        dict(kernel=kernel.replace(variance=-1.0)),
        dict(kernel=kernel.replace(kernel=kernel.kernel.replace(alpha=-1.0))),
        dict(kernel=kernel.replace(kernel=kernel.kernel.replace(lengthscale=np.array([1, -1.0])))),
    ]
    # the bounds that are included are valid
    changes += [dict(noise_std=0.0, norm_bound=0.0, ratio=1.0), {}]
    n_invalid, n_runs = len(changes) - 2, len(changes)
    given = [jax.tree.leaves(bandit.replace(**change)) for change in changes]
    small = problems.finite_arms(X[:6], X[:6, 0], noise_std=0.1)
    keys = jax.random.split(KEY, n_runs)

    @jax.jit
    @jax.vmap
    def runs(leaves, key):
        return loops.rollout(jax.tree.unflatten(structure, leaves), small, key, 4)

    def results(leaves):
        stacked = [jnp.stack([jnp.asarray(leaf, float) for leaf in column]) for column in leaves]
        return runs(stacked, keys)

    progress = results(zip(*given, strict=True))
    assert progress.result.tolist() == [Result.NOT_FINITE] * n_invalid + [Result.RUNNING] * 2
    assert progress.t.tolist() == [0] * n_invalid + [4] * 2
    for column in (progress.trace.y, progress.trace.regret, progress.trace.width):
        assert np.isnan(column[:n_invalid]).all() and np.isfinite(column[n_invalid:]).all()
    among_valid = results(zip(*([valid] * n_invalid + given[n_invalid:]), strict=True))
    for one, other in zip(*map(jax.tree.leaves, (progress, among_valid)), strict=True):
        np.testing.assert_array_equal(one[n_invalid:], other[n_invalid:])


def test_a_stream_with_a_traced_number_out_of_its_range_has_no_forecasts():
    @jax.jit
    @jax.vmap
    def passes(regularization):
        forecaster = PKAWV(Taylor(2, 2), regularization)
        state = forecaster.init(jnp.asarray(X[0]), KEY)
        return loops.streams.stream(forecaster, state, jnp.asarray(X[:5]), jnp.ones(5), KEY)

    run = passes(jnp.array([1.0, -1.0, jnp.nan, 2.0]))
    assert run.result.tolist() == [Result.RUNNING, *[Result.NOT_FINITE] * 2, Result.RUNNING]
    for column in (run.forecasts.prediction, run.forecasts.loss):
        assert np.isnan(column[1:3]).all() and np.isfinite(column[::3]).all()


def test_a_run_over_a_box_with_a_traced_number_out_of_its_range_has_no_results():
    @struct.dataclass
    class Rated(UniformBox):
        rate: float = struct.number(1.0, above=0)

    problem = problems.on_box(lambda x, key: x.sum(), Box(np.zeros(2), np.ones(2)))

    @jax.jit
    @jax.vmap
    def runs(rate):
        return loops.rollout(Rated(rate=rate), problem, KEY, 3)

    run = runs(jnp.array([1.0, 0.0, jnp.nan, 2.0]))
    assert run.t.tolist() == [3, 0, 0, 3]
    ended = int(Result.NOT_FINITE)
    assert run.result.tolist() == [Result.RUNNING, ended, ended, Result.RUNNING]
    for column in (run.trace.x, run.trace.y, run.trace.best):
        assert np.isnan(column[1:3]).all() and np.isfinite(column[::3]).all()


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
        return bandit.ask(state.replace(posterior=posterior), Arms(ONE_ARM), KEY).size

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
        # a batch has at most two new arms
        (GPBUCB(KERNEL, 1.0, max_batch=5, new_arms=2, capacity=1), FAR_ARMS, 2, 15.0, 17.0),
        # an arm is pulled C^2 - 1 times
        (MiniGP(KERNEL, 1.0, max_batch=3, capacity=4), ONE_ARM, 3, 2.1, 2.3),
    ],
)
def test_the_rule_the_limit_or_the_capacity_ends_a_batch(
    bandit, x, size, ending_ratio, larger_ratio
):
    state, one = begin(bandit, x), jnp.ones(())
    if isinstance(bandit, BBKB):
        state = state.replace(counts=state.counts.at[0].set(1))
    else:
        state = state.replace(count=one)

    @jax.jit
    def ask(ratio, limit):
        return bandit.replace(ratio=ratio).ask(state, Arms(x), KEY, limit)

    for ratio, limit, expected in (
        (ending_ratio, 100, size),
        (larger_ratio, 100, bandit.max_batch if len(x) == 1 else size),
        (larger_ratio, size - 1, size - 1),
    ):
        assert int(ask(ratio, limit).size) == expected
    query = ask(ending_ratio, 100)
    _, info = bandit.tell(state, Arms(x), query, jnp.zeros(query.mask.shape), KEY)
    fits = len(x) == 1
    assert int(info.batch_size) == (size if fits else 0)
    assert int(info.result) == (Result.RUNNING if fits else Result.CAPACITY_EXCEEDED)


@pytest.mark.filterwarnings("error:a batch filled")
def test_a_batch_that_its_rule_ends_is_not_warned_of():
    """With ratio 1 every batch has one pick."""
    bandit = CASES["bbkb_global"].replace(max_batch=2, ratio=1.0)
    assert int(loops.run(bandit, problem(), KEY, 6).trace.batch_size.max()) == 1


# Numbers of another dtype than the arms'


def with_float64_numbers(bandit):
    return jax.tree.map(lambda leaf: np.float64(leaf) if isinstance(leaf, float) else leaf, bandit)


@pytest.mark.parametrize("name", ["uniform", "gp_ucb", "bbkb_extended"])
def test_loops_convert_settings_to_the_dtype_of_the_arms(name, monkeypatch):
    """Settings of NumPy's float64, with arms in float32, give the run of Python's numbers."""
    float32, bandit = problem(jnp.float32), with_float64_numbers(CASES[name])
    noisy, means = float32.replace(noise_std=np.float64(0.1)), np.asarray(float32.mean_reward)
    monkeypatch.setattr("jsketch.loops.planning.PILOT_SECONDS", 0.01)
    pure = jax.jit(loops.rollout, static_argnames="horizon")
    expected = pure(CASES[name], float32, KEY, 8).trace.arm
    assert loops.plan(bandit, noisy, 8).pilot > 0
    run = loops.run(bandit, noisy, KEY, 8)
    # the numbers of the algorithm are traced, known and mapped
    traced, known = (
        pure(bandit, noisy, KEY, 8),
        jax.jit(lambda: loops.rollout(bandit, noisy, KEY, 8))(),
    )
    stacked, keys = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), bandit), jnp.stack([KEY] * 2)
    mapped = jax.jit(jax.vmap(lambda b, key: loops.rollout(b, noisy, key, 8)))(stacked, keys)
    for result, arms in (
        (run, run.trace.arm),
        (traced, traced.trace.arm),
        (known, known.trace.arm),
        (mapped, mapped.trace.arm[1]),
    ):
        assert jnp.dtype(jnp.float64) not in {leaf.dtype for leaf in jax.tree.leaves(result.state)}
        np.testing.assert_array_equal(arms, expected)
    driven = loops.drive(bandit, lambda arms: means[arms], noisy.arms, KEY, 8)
    other = loops.drive(CASES[name], lambda arms: means[arms], noisy.arms, KEY, 8)
    np.testing.assert_array_equal(driven.x, other.x)
    if name != "uniform":
        assert loops.gap(bandit, driven.state, noisy.arms) > 0


@pytest.mark.parametrize("number", [0.0, np.float64(0.0), np.float32(0.0)])
def test_a_rollout_under_jit_refuses_numbers_out_of_their_range(number):
    run = jax.jit(lambda key: loops.rollout(GPUCB(KERNEL, number), problem(jnp.float32), key, 3))
    with pytest.raises(ValueError, match="regularization must be a finite number above 0"):
        run(KEY)
