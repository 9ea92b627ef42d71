"""What is accepted and what is refused in plain words: numbers of kernels and their inputs, counts,
sizes, dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from jsketch import Arms, Box, Query, kernels, loops, online, problems, struct
from jsketch.bandits import (
    BBKB,
    BKB,
    GPBUCB,
    GPUCB,
    SOFUL,
    TS,
    FixedBKB,
    FourierUCB,
    MiniGP,
    PointBBKB,
    Uniform,
    history,
    partition,
    widths,
)
from jsketch.box import GPBandit, UniformBox
from jsketch.box import history as box_history
from jsketch.posterior import exact
from jsketch.sketch import bless
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier
from jsketch.sketch.taylor import Taylor
from jsketch.types import BoxQuery

KEY = jax.random.key(0)
KERNEL = kernels.Gaussian(0.5)
X = np.random.default_rng(0).uniform(size=(40, 2))
COUNTS = np.random.default_rng(0).poisson(2.0, (40, 6)).astype(float)
TABLE = np.asarray(kernels.Gaussian(0.5).gram(jnp.asarray(X), jnp.asarray(X)))
ROWS = np.arange(40.0)[:, None]


def begin(kernel, x=X):
    return BKB(kernel).init(Arms(x), KEY)


@pytest.mark.parametrize(
    ("kernel", "x", "words"),
    [
        (kernels.Tanimoto(packed=False), COUNTS, r"compares zeros and ones .* is 2.0"),
        (kernels.Tanimoto(), X, r"words of 16 bits, from pack_bits; input \[0, 0\]"),
        (kernels.Tanimoto(), COUNTS + 70_000, "words of 16 bits"),
        (kernels.MinMax(), COUNTS - 1, "at least 0; input .* is -1.0"),
        (kernels.Scaled(kernels.MinMax(), 2.0), COUNTS - 1, "at least 0; input"),
        (kernels.Product(KERNEL, kernels.MinMax()), COUNTS - 1, "at least 0; input"),
        (kernels.Precomputed(TABLE), X, r"takes features \[A, 1\]"),
        (kernels.Precomputed(TABLE), X[:, :1], "arm 0 is 0.63.*, which is no row of the table"),
        (
            kernels.Precomputed(jnp.asarray(TABLE[:10, :10])),
            ROWS,
            "arm 10 is 10.0, .* they are 0 to 9",
        ),
        (kernels.Precomputed(TABLE), ROWS - 1, "arm 0 is -1.0"),
        (kernels.Precomputed(TABLE[:10]), ROWS, r"square matrix \[A, A\]; its shape is \(10, 40\)"),
        (kernels.Precomputed(TABLE + ROWS), ROWS, r"must be symmetric: entry \[0, 1\]"),
        (kernels.Precomputed(TABLE * np.nan), ROWS, "must be finite"),
        (kernels.Gaussian(-1.0), X, "lengthscale must be a finite number above 0; -1.0"),
        (kernels.Matern(np.array([1.0, 0.0])), X, "lengthscale must be a finite number above 0"),
        (kernels.RationalQuadratic(1.0, -0.5), X, "alpha must be a finite number above 0"),
        (kernels.Polynomial(offset=-1.0), X, "offset must be a finite number, at least 0"),
        (kernels.Polynomial(degree=2.5), X, "degree must be an integer of at least 1; 2.5"),
        (kernels.Scaled(KERNEL, -1.0), X, "variance must be a finite number, at least 0"),
        (
            kernels.Sum(KERNEL, kernels.Gaussian(0.0)),
            X,
            "lengthscale must be a finite number above 0",
        ),
        (kernels.Sum(KERNEL, "rbf"), X, "kernel must be a kernel"),
    ],
)
def test_kernels_and_their_inputs(kernel, x, words):
    with pytest.raises(ValueError, match=words):
        begin(kernel, x)
    wrong = 10 if "arm 10" in words else 0
    with pytest.raises(ValueError, match=words.replace("arm 10", "arm 0")):
        online.KernelAWV(kernel, capacity=2).init(jnp.asarray(x[wrong]), KEY)


class Indefinite:
    """Anybody's own similarity, which is no kernel."""

    def gram(self, x, y):
        return jnp.abs(x[:, None] - y[None]).sum(2)

    def diag(self, x):
        return jnp.zeros(len(x), x.dtype)


@pytest.mark.parametrize("kind", [kernels.Gaussian, kernels.Matern, kernels.Linear])
def test_lengthscales_do_not_broadcast_over_one_input(kind):
    """Three lengthscales made three inputs of one; a traced kernel is never checked otherwise."""
    for method in ("gram", "diag")[: 1 + (kind is kernels.Linear)]:
        arguments = [np.ones((4, 1))] * (2 if method == "gram" else 1)
        with pytest.raises(
            ValueError,
            match=r"lengthscale has shape \(3,\). An ARD kernel needs"
            r" one",
        ):
            jax.eval_shape(
                lambda each, m=method, a=arguments: getattr(kind(each), m)(*a), np.ones(3)
            )


def test_a_stream_does_not_go_on_from_the_state_of_another_forecaster():
    one, other = online.KernelAWV(KERNEL, capacity=2), online.NOGD(KERNEL, 0.1, count=2)
    state = other.init(jnp.asarray(X[0]), KEY)
    with pytest.raises(
        ValueError, match="KernelAWV resumes from a KernelState.*; NOGDState was given"
    ):
        loops.prequential(one, X, X[:, 0], KEY, state=state)


def test_a_history_over_a_box_takes_no_more_than_its_horizon():
    empty = box_history.empty(Box(jnp.zeros(1), jnp.ones(1)), 2)
    query = BoxQuery(jnp.ones((3, 1)), jnp.arange(3) < 2)
    full = box_history.add(empty, query, np.ones(3))
    assert int(full.count) == 2
    with pytest.raises(
        ValueError, match="horizon is 2 evaluations: 2 were observed, and 2 more are too many"
    ):
        box_history.add(full, query, np.ones(3))


@pytest.mark.filterwarnings("error")
def test_a_kernel_that_is_not_positive_is_warned_of():
    with pytest.warns(UserWarning, match="not positive semi-definite on these arms"):
        begin(Indefinite())
    begin(kernels.Precomputed(jnp.asarray(np.round(TABLE, 6))), ROWS)
    begin(kernels.Scaled(KERNEL, 0.0))


def test_a_traced_feature_that_is_no_row_of_the_table_is_not_a_number():
    kernel = kernels.Precomputed(jnp.asarray(TABLE))
    gram = jax.vmap(lambda x: kernel.gram(x, ROWS[:3]))(
        jnp.array([[[2.0]], [[40.0]], [[-1.0]], [[0.5]]])
    )
    np.testing.assert_array_equal(gram[0, 0], TABLE[2, :3])
    assert np.isnan(gram[1:]).all()


def test_streams_check_the_inputs_of_their_kernel():
    forecaster = online.KernelAWV(kernels.MinMax(), capacity=2)
    with pytest.raises(ValueError, match=r"at least 0; input \[1, 0\] is -1.0"):
        loops.prequential(forecaster, np.array([[1.0], [-1.0]]), np.zeros(2), KEY)
    live = loops.Live(forecaster, 1, KEY)
    with pytest.raises(ValueError, match="at least 0; input"):
        live.predict([-1.0])


def test_a_traced_arm_that_is_not_there_is_not_pending():
    bandit = FixedBKB(KERNEL, batch=2, max_pending=2, capacity=4)
    state = bandit.init(Arms(X), KEY)
    pend = jax.jit(lambda index: bandit.pend(state, Query(index, jnp.ones(3, bool))).pending)
    np.testing.assert_array_equal(pend(jnp.array([40, -1, 7])), np.arange(40) == 7)


@struct.dataclass
class Astray(Uniform):
    """Anybody's own algorithm that asks for an arm that is not there."""

    def ask(self, state, key, limit=None):
        return Query(jnp.array([-1], jnp.int32), jnp.ones(1, bool))


def test_an_arm_that_is_not_there_is_never_evaluated():
    with pytest.raises(ValueError, match="the query names arm -1"):
        loops.drive(Astray(), lambda arms: pytest.fail("it was evaluated"), Arms(X), KEY, 2)


def test_limits_and_other_counts():
    state, problem = Uniform().init(Arms(X), KEY), problems.finite_arms(X, X[:, 0], 0.1)
    for action, words in [
        *(
            (lambda limit=limit: Uniform().ask(state, KEY, limit), "limit must be")
            for limit in (0, -1, 2.5, [1])
        ),
        (lambda: loops.run(Uniform(), problem, KEY, 5, reports=2.5), "reports must be an integer"),
        (lambda: loops.run(Uniform(), problem, KEY, 5, workers=0), "workers must be an integer"),
        (
            lambda: loops.prequential(online.NOGD(KERNEL, 0.1), X, X[:, 0], KEY, first=-1),
            "first must be",
        ),
        (lambda: problems.finite_arms(X, X[:, 0], np.ones(40)), "noise_std must be one number"),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


def test_past_evaluations_are_counts():
    zeros, ones = np.zeros(40), np.ones(40)
    for past, words in [
        (
            dict(pull_counts=ones / 2, reward_sums=ones),
            "must count evaluations; that of arm 0 is 0.5",
        ),
        (
            dict(pull_counts=zeros, reward_sums=ones),
            "arm 0 was never evaluated, but the sum of its rewards is 1.0",
        ),
        (dict(pull_counts=ones, reward_sums=ones, dictionary=[3, 40]), "dictionary names arm 40"),
        (dict(pull_counts=ones, reward_sums=ones, dictionary=[0.5]), "a vector of arm numbers"),
    ]:
        with pytest.raises(ValueError, match=words):
            BKB(KERNEL).init(Arms(X), KEY, **past)
    with pytest.raises(ValueError, match="whole number of evaluations"):
        bless.bless(KERNEL, X, np.full(40, 0.5), 1.0, KEY)


def test_nothing_at_all_is_a_history_and_a_dictionary():
    counts, sums = history.of_evaluations(Arms(X), [], [])
    np.testing.assert_array_equal([counts, sums], np.zeros((2, 40)))
    past = dict(pull_counts=counts, reward_sums=sums, dictionary=[])
    state = jax.jit(lambda x: BKB(KERNEL, capacity=4).init(Arms(x), KEY, **past))(X)
    assert int(state.dictionary.size) == 0 and float(state.evidence.count) == 0


class Inherits(Uniform):
    """Anybody's own algorithm, its class without @struct.dataclass."""


@struct.dataclass
class WithoutLimit(Uniform):
    def ask(self, state, key):
        return Uniform.ask(self, state, key)


@struct.dataclass
class WithName(Uniform):
    name: str = "mine"


@struct.dataclass
class WithTable(Uniform):
    table: object = struct.field(pytree_node=False, default_factory=lambda: np.ones(2))


@struct.dataclass
class WithoutArms(Uniform):
    def init(self, domain, key):
        return domain


def test_what_is_no_bandit_no_problem_and_no_state():
    problem, arms = problems.finite_arms(X, X[:, 0], 0.1), Arms(X)
    other = BKB(KERNEL).init(arms, KEY)
    for action, words in [
        (lambda: loops.drive(Uniform(), len, X, KEY, 2), r"arms are given as Arms\(features\)"),
        (lambda: TS(KERNEL).init(X, KEY), r"arms are given as Arms\(features\)"),
        (lambda: loops.drive(Uniform, len, arms, KEY, 2), "bandit must be an algorithm with its"),
        (lambda: loops.drive(Uniform(), problem, arms, KEY, 2), "objective must be a function of"),
        (lambda: loops.drive(Uniform(), len, arms, KEY, 2, state=other), "state is what an"),
        (lambda: loops.drive(Uniform(), len, arms, KEY, 2, checkpoint=3), "the path of a file"),
        (lambda: loops.run(Uniform(), arms, KEY, 2), "problem must have arms, their mean rewards"),
        (lambda: loops.run(Inherits(), problem, KEY, 2), "make it a pytree with @jsketch.struct"),
        (lambda: loops.drive(Inherits(), len, arms, KEY, 2), "make it a pytree"),
        (lambda: loops.run(WithoutLimit(), problem, KEY, 2), r"ask\(state, key, limit=None\)"),
        (lambda: loops.run(WithName(), problem, KEY, 2), "WithName.name is 'mine', which jit"),
        (lambda: loops.run(WithTable(), problem, KEY, 2), "WithTable.table is an array"),
        (lambda: loops.run(WithoutArms(), problem, KEY, 2), "a dataclass with the arms in its"),
        (lambda: loops.run(Uniform(), problem, KEY, 2, states=[other]), "of another algorithm"),
        (lambda: loops.run(Uniform(), problem, KEY, 2, states=3), "states is a list of states"),
        (lambda: loops.run(Uniform(), problem, KEY, 2, on_progress=3), "on_progress must be a"),
        (lambda: BKB(KERNEL).init(arms, 0), "key must be one key"),
        (lambda: GPUCB(KERNEL).init(arms, jax.random.split(KEY)), "key must be one key"),
        (lambda: PointBBKB(KERNEL).init(2, KEY, "int32"), "dtype must be a floating dtype"),
        (lambda: BBKB(KERNEL, lazy="no").init(arms, KEY), "lazy must be True or False"),
        (lambda: BKB(KERNEL, 1e-320).init(arms, KEY), "regularization must be above"),
        (lambda: begin(kernels.Gaussian(1e-200)), "lengthscale must be at least"),
        (lambda: begin(kernels.Gaussian([1.0, 2.0])), "lengthscale must be a number or an array"),
        (lambda: Uniform().tell(Uniform().init(arms, KEY), 3, [1.0], KEY), "a query is what"),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


def test_widths_are_one_number_of_what_the_bandit_knows():
    state = begin(KERNEL)
    for width, words in [
        (widths.soful_paper, "reads 'shrunk', which this algorithm does not know"),
        (widths.Formula(lambda evidence, confidence: "wide"), "width must be one real number"),
        (widths.Formula(lambda evidence, confidence: evidence.count * X[0]), "one real number"),
    ]:
        with pytest.raises(ValueError, match=words):
            jax.eval_shape(BKB(KERNEL, width=width).ask, state, KEY)
    for width, words in [
        (widths.Formula(lambda evidence: 1.0), r"function of \(evidence, confidence\)"),
        (widths.Bayesian(-1.0), "deviations must be a finite number, at least 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            BKB(KERNEL, width=width).init(Arms(X), KEY)


def test_a_traced_width_below_zero_is_flagged():
    bandit = SOFUL(size=1)
    state = bandit.init(Arms(X), KEY)
    query = Query(jnp.zeros(1, jnp.int32), jnp.ones(1, bool))
    told = jax.jit(lambda width: bandit.replace(width=width).tell(state, query, [1.0], KEY)[1])
    for deviations, flagged in ((1.0, False), (0.0, False), (-1.0, True)):
        assert bool(told(widths.Bayesian(deviations)).nonfinite) == flagged


def test_variances_that_rounding_took_ask_for_as_much():
    """Of a neighbour of a pulled arm rounding leaves 0, once evaluated once, or 1e-17, once
    evaluated 10,000 times."""
    bandit = MiniGP(KERNEL, 1.0, capacity=4)
    state = bandit.init(Arms(ONE), KEY)
    known = state.replace(count=jnp.array(4.0))

    @jax.jit
    def size(left):
        posterior = known.posterior.replace(variance=jnp.full(1, left))
        return bandit.ask(known.replace(posterior=posterior), KEY).size

    # half of what 4 evaluations leave is 1 / 10
    assert int(size(0.0)) == int(size(1e-17)) == 30


def test_one_number_is_one_number():
    for action in (
        lambda: BKB(KERNEL, regularization=np.ones(40)).init(Arms(X), KEY),
        lambda: jax.eval_shape(lambda lam: BKB(KERNEL, lam).init(Arms(X), KEY).mean, np.ones(40)),
        lambda: online.KernelAWV(KERNEL, regularization=np.ones(3)).init(jnp.zeros(2), KEY),
        lambda: online.PKAWV(Taylor(2, 2), regularization=[1.0, 2.0, 3.0]).init(jnp.zeros(2), KEY),
    ):
        with pytest.raises(
            ValueError,
            match=r"regularization must be one number; an array of shape"
            r" \(.*,\)",
        ):
            action()
    online.over_regularizations(online.PKAWV(Taylor(2, 2)), [0.1, 1.0], 1.0)


def test_feature_maps():
    for forecaster in (online.PKAWV(KERNEL), online.PKAWV(RandomFourier()), online.PKAWV(Taylor)):
        with pytest.raises(ValueError, match="features must be a map with a method"):
            forecaster.init(jnp.zeros(2), KEY)
    with pytest.raises(ValueError, match="features must be RandomFourier or"):
        FourierUCB(KERNEL, features=Taylor(2, 2)).init(Arms(X), KEY)
    for draw in (RandomFourier(2.5), QuadratureFourier(2.5)):
        with pytest.raises(ValueError, match="2.5 was given"):
            draw.draw(KERNEL, 2, KEY, jnp.float_)
    with pytest.raises(ValueError, match="degree must be an integer"):
        online.PKAWV(Taylor(2, 2.5)).init(jnp.zeros(2), KEY)


def test_complex_numbers():
    imaginary = X + 1j
    state = Uniform().init(Arms(X), KEY)
    query = Query(jnp.zeros(1, jnp.int32), jnp.ones(1, bool))
    forecaster = online.KernelAWV(KERNEL, capacity=2)
    live, box = loops.Live(forecaster, 2, KEY), Box(jnp.zeros(1), jnp.ones(1))
    optimum = UniformBox().init(box, KEY, 2)
    for action, words in [
        (lambda: begin(KERNEL, imaginary), "floating point numbers"),
        (lambda: Uniform().tell(state, query, 1j * np.ones(1), KEY), "y must be real"),
        (lambda: Uniform().tell(state, query, ["a"], KEY), "y must be real"),
        (
            lambda: loops.drive(Uniform(), lambda arms: 1j * arms, Arms(X), KEY, 2),
            "rewards must be real",
        ),
        (lambda: problems.finite_arms(X, imaginary[:, 0], 0.1), "mean_reward must be real"),
        (lambda: history.of_evaluations(Arms(X), [0], [1j]), "rewards must be real"),
        (lambda: loops.prequential(forecaster, imaginary, X[:, 0], KEY), "examples must be real"),
        (lambda: loops.prequential(forecaster, X, imaginary[:, 0], KEY), "labels must be real"),
        (lambda: live.predict(imaginary[0]), "must be real"),
        (lambda: live.learn(X[0], imaginary[0, 0]), "labels must be real"),
        (lambda: live.learn_many(X, imaginary[:, 0]), "labels must be real"),
        (
            lambda: UniformBox().init(Box(1j * np.zeros(1), np.ones(1)), KEY, 2),
            "a number was expected",
        ),
        (
            lambda: UniformBox().tell(optimum, UniformBox().ask(optimum, KEY), [1j], KEY),
            "y must be real",
        ),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


def test_queries_are_vectors_of_arm_numbers():
    state = Uniform().init(Arms(X), KEY)
    for index, mask, words in [
        (np.zeros((1, 1), int), np.ones((1, 1), bool), "must be a vector"),
        (np.zeros(1), np.ones(1, bool), "its dtype float64"),
        (np.zeros(2, int), np.ones(1, bool), "a bool for each of its 2 slots"),
        (np.zeros(1, int), np.ones(1), "a bool for each of its 1 slots"),
    ]:
        with pytest.raises(ValueError, match=words):
            Uniform().tell(state, Query(index, mask), np.zeros(index.shape), KEY)
    # lists are taken, and what a masked slot names does not matter
    _, info = Uniform().tell(
        state, Query([3, -1, 2**40], [True, False, False]), [1.0, 2.0, np.inf], KEY
    )
    assert int(info.observed) == 1 and not bool(info.nonfinite)


def test_one_arm_a_batch_is_not_told_two():
    bandit = MiniGP(KERNEL, max_batch=3, capacity=2)
    state = bandit.init(Arms(X), KEY)
    with pytest.raises(ValueError, match=r"one arm, repeated; arms \[1, 2\]"):
        bandit.tell(state, Query([7, 1, 2], [False, True, True]), np.zeros(3), KEY)


def test_a_table_of_pandas_is_taken():
    table = pd.DataFrame(X, columns=["a", "b"])
    for frame, dtype in (
        (table, X.dtype),
        (table.astype("float32"), np.float32),
        (table.rank().astype(int), X.dtype),
    ):
        found = Uniform().init(Arms(frame), KEY).domain.features
        np.testing.assert_allclose(found, frame, rtol=1e-6)
        assert found.dtype == jax.dtypes.canonicalize_dtype(dtype)
    assert Arms(table).count == 40
    driven = loops.drive(Uniform(), lambda arms: X[arms, 0], Arms(table), KEY, 3)
    np.testing.assert_allclose(driven.reward, X[driven.arm, 0])
    assert problems.finite_arms(table, table["a"], 0.1).arms.features.shape == (40, 2)
    with pytest.raises(ValueError, match="a matrix of numbers: could not convert"):
        Uniform().init(Arms(table.assign(c="word")), KEY)


def test_capacities_only_grow():
    sketch, point = BKB(KERNEL).init(Arms(X), KEY), PointBBKB(KERNEL).init(2, KEY)
    prior = exact.prior(KERNEL, jnp.asarray(X), 0.1, 8)
    for action, words in [
        (lambda: BKB(KERNEL).grow(sketch, 8), "capacity can only grow: it is 64, and 8 was given"),
        (lambda: BKB(KERNEL).grow(sketch, 80.5), "capacity must be an integer"),
        (lambda: exact.grow(prior, 4), "capacity can only grow: it is 8"),
        (lambda: PointBBKB(KERNEL).grow(point, 8), "capacity can only grow"),
        (lambda: PointBBKB(KERNEL).extend(point, 8), "max_history can only grow"),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


def test_sizes_that_no_memory_holds():
    arms, box, x = Arms(X), Box(jnp.zeros(1), jnp.ones(1)), jnp.zeros(2)
    problem = problems.finite_arms(X, X[:, 0], 0.1)
    large = 10**9
    for action, words in [
        (
            lambda: BKB(KERNEL, capacity=large).init(arms, KEY),
            "capacity = 1,000,000,000 and arms = 40 need about",
        ),
        (
            lambda: BBKB(KERNEL, max_batch=10**12).init(arms, KEY),
            "max_batch = 1,000,000,000,000 need about",
        ),
        (
            lambda: GPBUCB(KERNEL, new_arms=large).init(arms, KEY),
            "new_arms = 1,000,000,000 need about",
        ),
        (lambda: GPBUCB(KERNEL, capacity=large).init(arms, KEY), "capacity = 1,000,000,000"),
        (lambda: TS(KERNEL, batch=large).init(arms, KEY), "batch = 1,000,000,000 need about"),
        (lambda: FixedBKB(KERNEL, batch=large).init(arms, KEY), "batch = 1,000,000,000"),
        (
            lambda: FixedBKB(KERNEL, max_pending=-1).init(arms, KEY),
            "max_pending must be an integer",
        ),
        (
            lambda: PointBBKB(KERNEL, max_history=2 * large).init(20, KEY),
            "max_history = 2,000,000,000",
        ),
        (lambda: online.KernelAWV(KERNEL, capacity=large).init(x, KEY), "capacity = 1,000,000,000"),
        (
            lambda: online.NystromAWV(KERNEL, memory=2 * large).init(jnp.zeros(99), KEY),
            "memory = 2,000,000,000",
        ),
        (lambda: online.ProsNKONS(KERNEL, capacity=large).init(x, KEY), "capacity = 1,000,000,000"),
        (
            lambda: online.SketchedKONS(KERNEL, capacity=large).init(x, KEY),
            "capacity = 1,000,000,000",
        ),
        (lambda: online.NOGD(KERNEL, 0.1, count=large).init(x, KEY), "count = 1,000,000,000"),
        (
            lambda: online.FOGD(KERNEL, 0.1, count=2 * large).init(jnp.zeros(99), KEY),
            "count = 2,000,000,000",
        ),
        (lambda: loops.run(Uniform(), problem, KEY, 10**12), "horizon can be at most"),
        (
            lambda: loops.run(Uniform(), problem, KEY, 2 * large),
            "horizon = 2,000,000,000 need about",
        ),
        (lambda: GPBandit().init(box, KEY, large), "need about"),
        (
            lambda: UniformBox().init(Box(jnp.zeros(99), jnp.ones(99)), KEY, large),
            "horizon = 1,000,000,000",
        ),
        (lambda: partition.whole(box, 2.5), "cells must be an integer"),
        (lambda: partition.whole(box, 2), "cells must be at least 3: .* 2 was given"),
    ]:
        with pytest.raises(ValueError, match=words):
            action()


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-12, 1e3])
def test_bless_ends_on_any_kernel(scale):
    kernel = kernels.Scaled(KERNEL, scale)
    dictionary = bless.bless(kernel, X, np.ones(40), 1.0, KEY)
    assert (len(dictionary.rows) > 0) == (scale > 1)
    found = bless.leverage_scores(kernel, X, np.ones(40), dictionary, 1.0)
    exactly = bless.exact_leverage_scores(kernel, X, np.ones(40), 1.0)
    assert (found <= 3 * exactly + 1e-300).all() and (found >= exactly / 3).all()
    # nothing but rounding is left of the scores of one point
    assert len(bless.bless(KERNEL, X[:1], np.ones(1), 1e-20, KEY).rows) <= 1


def test_regret_of_constant_rewards_is_that_of_the_uniform_policy():
    for constant in (0.0, 0.1, -1e9):
        ratio = loops.regret_ratio(jnp.zeros((2, 3)), jnp.full(7, constant))
        np.testing.assert_array_equal(ratio, np.ones((2, 3)))
    np.testing.assert_allclose(
        loops.regret_ratio(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])), [2.0, 1.0], rtol=1e-15
    )


# FAR: arms that know nothing of each other
ONE, FAR = jnp.zeros((1, 1)), jnp.arange(10.0)[:, None] * 100


@pytest.mark.parametrize(
    ("bandit", "x", "size", "ends", "continues"),
    [
        # at lam = 1 the bound of one arm goes 2, 3, 4, by either rule
        (BBKB(KERNEL, 1.0, max_batch=3, capacity=4), ONE, 3, 3.5, 4.5),
        (BBKB(KERNEL, 1.0, max_batch=3, capacity=4, rule="global_local"), ONE, 3, 3.5, 4.5),
        (GPBUCB(KERNEL, 1.0, max_batch=3, capacity=4), ONE, 3, 3.5, 4.5),
        # there is a row for three new arms, and a fourth ends the batch
        (GPBUCB(KERNEL, 1.0, max_batch=5, new_arms=2, capacity=1), FAR, 4, 15.0, 17.0),
        # an arm is pulled C^2 - 1 times
        (MiniGP(KERNEL, 1.0, max_batch=3, capacity=4), ONE, 3, 2.1, 2.3),
    ],
)
def test_a_batch_that_its_rule_ends_is_not_truncated(bandit, x, size, ends, continues):
    state, one = bandit.init(Arms(x), KEY), jnp.ones(())
    known = state.evidence.replace(count=one) if hasattr(state, "evidence") else one
    state = state.replace(**{"evidence" if hasattr(state, "evidence") else "count": known})
    ask = jax.jit(lambda ratio, limit: bandit.replace(ratio=ratio).ask(state, KEY, limit))
    for ratio, limit, truncated in (
        (ends, 100, False),
        (continues, 100, True),
        (continues, size, False),
    ):
        query = ask(ratio, limit)
        assert int(query.size) == size
        # a row that is missing ends a batch whatever could be made
        assert bool(query.truncated) == (truncated and limit > size)
    _, info = jax.eval_shape(lambda: bandit.tell(state, query, jnp.zeros(query.mask.shape), KEY))
    assert info.truncated.shape == ()
