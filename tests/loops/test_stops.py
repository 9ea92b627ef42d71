"""Runs that end before their horizon, and algorithms without an arm to choose."""

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ASK, KEY, ROLLOUT
from small_problems import TELL as TELL_WITH_KEY

from jsketch import Arms, Box, Query, kernels, loops, problems, struct
from jsketch.bandits import BBKB, BKB, GPUCB, FixedBKB, Uniform, widths
from jsketch.bandits.linear.linear_sketches import SOFUL
from jsketch.box import UniformBox
from jsketch.contrib import LengthscaleBalancing, MiniGP
from jsketch.core import history
from jsketch.loops.rollouts import start
from jsketch.results import Result
from jsketch.types import Algorithm, Evaluations

X = np.linspace(0, 1, 12)[:, None]
KEYS = jax.random.split(KEY, 2)
PROBLEM = problems.finite_arms(X, np.sin(5 * X[:, 0]), 0.01)
FIXED = FixedBKB(kernels.Gaussian(0.3), 0.01, batch=5, max_pending=5, capacity=12, repeat=False)
ARMS = PROBLEM.arms


def tell(bandit, state, query, y):
    return TELL_WITH_KEY(bandit, state, ARMS, query, y, KEY)


def test_a_run_ends_where_no_arm_is_left():
    """With 12 arms and horizon 13 `run` raises and `rollout` ends after 12 evaluations."""
    words = "horizon is 13, but FixedBKB .* 12 are left: ask for a horizon of at most 12"
    with pytest.raises(ValueError, match=words):
        loops.run(FIXED, PROBLEM, KEY, 13)
    keys = jax.random.split(KEY, 2)
    stopped = jax.jit(jax.vmap(lambda key: loops.rollout(FIXED, PROBLEM, key, 13)))(keys)
    for seed in range(2):
        assert int(stopped.t[seed]) == 12 and int(stopped.round[seed]) == 3
        assert int(stopped.result[seed]) == Result.NOTHING_TO_ASK and bool(stopped.stopped[seed])
        assert sorted(np.asarray(stopped.trace.arm[seed][:12]).tolist()) == list(range(12))
        assert_unwritten_from(stopped.trace, seed, 12)


def assert_unwritten_from(trace, run, t):
    """The entries of a run of a batch of traces from evaluation t on are NaN or -1."""
    for name, column in vars(trace).items():
        column = np.asarray(column)[run]
        missing = np.isnan(column) if column.dtype.kind == "f" else column == -1
        np.testing.assert_array_equal(missing, np.arange(len(column)) >= t, err_msg=name)


MANY = np.random.default_rng(0).uniform(-1, 1, (150, 2))
MANY_ARMS = problems.finite_arms(MANY, np.sin(3 * MANY.sum(1)), noise_std=0.1)
# for the shortest no two arms tie, so that the picks do not depend on rounding
LENGTHSCALES = jnp.asarray([0.06, 0.1, 0.4, 1.0])
SWEEP_HORIZON = 100


@partial(jax.jit, static_argnames="capacity")
def sweep(lengthscales, capacity=None):
    def one_run(lengthscale):
        bandit = BBKB(kernels.Gaussian(lengthscale), max_batch=20, capacity=capacity)
        return loops.rollout(bandit, MANY_ARMS, KEY, SWEEP_HORIZON)

    return jax.vmap(one_run)(lengthscales)


def test_a_sweep_with_default_capacity_ends_at_its_horizon(monkeypatch):
    """The shortest lengthscale needs more than 64 slots, and grows while the run is traced.
    The picks are those of `run`."""
    monkeypatch.setattr(BBKB, "first_capacity", 8)
    monkeypatch.setattr("jsketch.loops.rollouts.CAPACITIES", (16, 2048))
    runs = sweep(LENGTHSCALES)
    np.testing.assert_array_equal(runs.t, SWEEP_HORIZON)
    assert not runs.stopped.any() and int(runs.trace.dictionary_size.max()) > 64
    assert runs.state.posterior.points.shape == (4, SWEEP_HORIZON, 2)
    for i, lengthscale in enumerate(LENGTHSCALES):
        bandit = BBKB(kernels.Gaussian(lengthscale), max_batch=20, capacity=SWEEP_HORIZON)
        single_run = loops.run(bandit, MANY_ARMS, KEY, SWEEP_HORIZON)
        np.testing.assert_array_equal(runs.trace.arm[i], single_run.trace.arm)
        np.testing.assert_allclose(runs.trace.regret[i], single_run.trace.regret)


@struct.dataclass
class Wrapped(Algorithm):
    """An algorithm of a user around another one."""

    base: Any

    def init(self, arms, key, *, horizon=None, data=None):
        return self.base.init(arms, key, horizon=horizon)

    def ask(self, state, arms, key, limit=None):
        return self.base.ask(state, arms, key, limit)

    def tell(self, state, arms, query, y, key):
        return self.base.tell(state, arms, query, y, key)

    def grow(self, state, arms, capacity):
        return self.base.grow(state, arms, capacity)


def test_the_default_capacity_of_a_rollout_suffices(accelerator, monkeypatch):
    """A dictionary has at most one point for each arm and each evaluation."""

    def capacity(bandit, n_arms, horizon):
        problem = problems.finite_arms(np.linspace(0, 1, n_arms)[:, None], np.zeros(n_arms), 0.1)
        shapes = jax.eval_shape(lambda key: loops.rollout(bandit, problem, key, horizon), KEY)
        return shapes.state.capacity

    bbkb, exact = BBKB(kernels.Gaussian(1.0), max_batch=4), GPUCB(kernels.Gaussian(1.0))
    assert capacity(bbkb, 150, 1_000) == capacity(exact, 150, 1_000) == 150
    assert capacity(bbkb, 3_000, 1_000) == capacity(exact, 3_000, 1_000) == 1_000
    assert capacity(bbkb, 3_000, 10_000) == 2_048  # larger states may not fit into memory
    assert capacity(bbkb.replace(capacity=16), 150, 100) == 16
    balancing = LengthscaleBalancing(bbkb, (1.0, 0.5))
    assert capacity(balancing, 150, 100) == 100
    # the capacity of the algorithm that another one wraps is given
    assert capacity(balancing.replace(base=bbkb.replace(capacity=16)), 150, 100) == 16
    assert capacity(Wrapped(exact.replace(capacity=600)), 700, 700) == 600
    assert capacity(Wrapped(exact), 700, 700) == 700
    # of 32 runs an accelerator has ten matrices each, and a CPU two, and ten more of one run
    matrices = 32 * 10 if accelerator else 32 * 2 + 10
    monkeypatch.setattr("jsketch.devices.memory", lambda: matrices * 8 * 100**2)
    assert capacity(exact, 3_000, 1_000) == 128  # 100 fit into memory, and `init` makes 128


def test_a_sweep_that_exceeds_its_capacity_has_no_total():
    """A run that ended early would have the smallest sum of regrets, if the rest were 0."""
    runs = sweep(LENGTHSCALES, capacity=16)
    ended = np.asarray(runs.t)
    assert 0 < ended[0] < SWEEP_HORIZON
    for i, t in enumerate(ended):
        assert_unwritten_from(runs.trace, i, t)
    np.testing.assert_array_equal(runs.stopped, ended < SWEEP_HORIZON)
    np.testing.assert_array_equal(np.isnan(runs.trace.regret.sum(1)), runs.stopped)
    # the posterior of the state is stale, and nothing can be read from it either
    for numbers in (runs.state.posterior.mean, runs.state.posterior.variance):
        np.testing.assert_array_equal(np.isnan(numbers).any(1), runs.stopped)
        np.testing.assert_array_equal(np.isnan(numbers).all(1), runs.stopped)
    ratio = loops.regret_ratio(runs.trace.regret, MANY_ARMS.mean_reward)
    np.testing.assert_array_equal(np.isnan(ratio[:, -1]), runs.stopped)


@struct.dataclass
class EndingBox(UniformBox):
    """Uniform points, and an empty query after 3 evaluations."""

    def ask(self, state, key, limit=None):
        query = UniformBox.ask(self, state, key, limit)
        return query.replace(mask=query.mask & (state.history.count < 3))


def test_a_run_over_a_box_that_ends_early_has_no_best_value():
    problem = problems.on_box(lambda x, key: x.sum(), Box(jnp.zeros(2), jnp.ones(2)))
    run = jax.jit(lambda key: loops.rollout(EndingBox(), problem, key, 5))(KEY)
    assert int(run.t) == 3
    for values in (run.trace.x, run.trace.y, run.trace.best):
        assert np.isfinite(values[:3]).all() and np.isnan(values[3:]).all()
    np.testing.assert_array_equal(run.trace.info.observed[3:], -1)


def test_observed_evaluations_leave_fewer_arms():
    counts = np.arange(12) % 2
    observed = Evaluations(counts, counts)
    data = observed.replace(failed=[0, 1, 4])
    state = jax.jit(lambda key: FIXED.init(ARMS, key, data=data))(KEY)
    assert int(FIXED.remaining(state, ARMS)) == 4  # 2, 6, 8, 10
    assert FIXED.replace(repeat=True).remaining(state, ARMS) is None
    with pytest.raises(ValueError, match="4 are left"):
        loops.run(FIXED, PROBLEM, KEY, 5, states=[state])
    query = ASK(FIXED, state, ARMS, KEY)
    assert sorted(np.asarray(query.index)[np.asarray(query.mask)].tolist()) == [2, 6, 8, 10]
    with pytest.raises(ValueError, match="failed contains arm 12"):
        FIXED.init(ARMS, KEY, data=observed.replace(failed=[12]))


def test_drive_ends_where_no_arm_is_left_and_repeats_no_failure():
    """Every other evaluation fails. Each arm is evaluated once, and the last batch is shorter."""
    batches = []

    def objective(arms):
        batches.append(arms)
        return np.where(arms % 2 == 0, np.nan, np.sin(arms))

    words = "ended after 12 of 20 evaluations: the algorithm returned an empty"
    failures = "6 of 12 evaluations failed"
    with pytest.warns(UserWarning, match=failures), pytest.warns(UserWarning, match=words):
        driven = loops.drive(FIXED, objective, ARMS, KEY, 20)
    assert [len(batch) for batch in batches] == [5, 5, 2] and driven.exhausted and driven.t == 12
    assert sorted(driven.x.tolist()) == list(range(12)) and np.isnan(driven.y).sum() == 6
    with pytest.warns(UserWarning, match=failures), pytest.warns(UserWarning, match=words):
        # nothing is evaluated again
        assert loops.drive(FIXED, pytest.fail, ARMS, KEY, 20, state=driven).t == 12
    # if a whole batch has failed, its arms are not picked again, though no arm was observed
    start, query = FIXED.init(ARMS, KEY), Query(jnp.arange(5, dtype=jnp.int32), jnp.ones(5, bool))
    all_failed = tell(FIXED, start, query, jnp.full(5, jnp.nan))[0]
    for key in jax.random.split(KEY, 5):
        assert np.asarray(ASK(FIXED, all_failed, ARMS, key).index).min() > 4


def test_masked_slots_are_not_marked_as_tried():
    """Only slot 0 is evaluated. Masked slots have index 0, and arm 0 is not tried."""
    state = FIXED.init(ARMS, KEY)
    query = Query(
        jnp.asarray([7, 3, 0, 0, 0], jnp.int32), jnp.asarray([True, False, False, False, False])
    )
    state = tell(FIXED, state, query, jnp.full(5, jnp.nan))[0]
    assert np.flatnonzero(np.asarray(state.tried)).tolist() == [7]


@struct.dataclass
class Imprecise(BKB):
    """BKB with a given estimate of its rounding errors."""

    error: Any = 0.5
    suspected: bool = struct.field(pytree_node=False, default=True)

    def may_be_imprecise(self, state, error):
        assert error == 1e-3
        return self.suspected

    def imprecision(self, state, arms):
        assert state.counts.shape == (arms.count,)
        return jnp.asarray(self.error, state.counts.dtype)


@pytest.mark.parametrize("loop", ["one key", "keys", "accelerator", "drive"])
def test_a_run_warns_once_of_imprecise_variances(loop, monkeypatch):
    """The warning points at the line of the user. The estimate is computed only where the bound on
    the host cannot exclude an error."""
    if loop == "accelerator":
        monkeypatch.setattr("jsketch.numerics.on_accelerator", lambda: True)

    def run(**options):
        bandit = Imprecise(kernels.Gaussian(0.3), capacity=12, **options)
        with warnings.catch_warnings(record=True) as warnings_list:
            warnings.simplefilter("always")
            if loop == "drive":
                loops.drive(bandit, np.sin, ARMS, KEY, 4)
            else:
                loops.run(bandit, PROBLEM, KEY if loop == "one key" else KEYS, 4)
        return warnings_list

    [warning] = run()
    assert "rounding may have changed variances by 0.5 of the largest" in str(warning.message)
    assert warning.filename == __file__
    assert not run(error=9e-4) and not run(suspected=False)


@pytest.mark.parametrize("kind", [BKB, GPUCB])
def test_a_width_that_is_not_finite_ends_a_run(kind):
    """All scores would be NaN, and every pick arm 0."""
    bandit = kind(kernels.Gaussian(1.0), width=widths.Formula(lambda e, c: e.count * jnp.nan))
    with pytest.raises(FloatingPointError, match="or the width is no longer finite"):
        loops.run(bandit, PROBLEM, KEY, 4)


@struct.dataclass
class Ending(Uniform):
    """Uniform arms whose batch is empty after 3 evaluations. The state is their number."""

    def init(self, arms, key, *, horizon=None, data=None):
        return jnp.zeros((), jnp.int32)

    def ask(self, state, arms, key, limit=None):
        query = Uniform.ask(self, (), arms, key, limit)
        return query.replace(mask=query.mask & (state < 3))

    def tell(self, state, arms, query, y, key):
        return state + query.size, Uniform.tell(self, (), arms, query, y, key)[1]


@pytest.mark.parametrize("key", [KEY, KEYS], ids=["one key", "keys"])
def test_an_empty_query_ends_a_run(key, accelerator):
    words = "stopped after 3 of 9 evaluations: the algorithm returned an empty"
    with pytest.raises(RuntimeError, match=words):
        loops.run(Ending(), PROBLEM, key, 9)


SMALL = dict(kernel=kernels.Gaussian(0.3), regularization=0.01, capacity=4)
WARM_STARTS = dict(bkb=BKB(**SMALL), bbkb=BBKB(**SMALL, max_batch=4))
WARM_STARTS |= dict(fixed=FixedBKB(**SMALL, batch=4))
FIRST_ARMS = {
    "bkb": BKB(**SMALL),
    "bbkb": BBKB(**SMALL, max_batch=4),
    "initial": BBKB(**SMALL, max_batch=4, initial=jnp.asarray([3, 5], jnp.int32)),
    "fixed": FixedBKB(**SMALL, batch=1),
    "gp_ucb": GPUCB(**SMALL),
    "mini_gp": MiniGP(**SMALL, max_batch=4),
    "soful": SOFUL(regularization=0.01, size=1),
}


@pytest.mark.parametrize("name", FIRST_ARMS)
def test_a_first_arm_that_fails_is_replaced(name):
    """Until an evaluation succeeds, every query is one random arm; the first one is the design of
    the user. After the first success, the pick does not depend on the key."""
    bandit = FIRST_ARMS[name]
    state, picked, keys = bandit.init(ARMS, KEY), [], jax.random.split(KEY, 40)
    for key in keys:
        query = ASK(bandit, state, ARMS, key)
        picked.append(np.unique(np.asarray(query.index)[np.asarray(query.mask)]).tolist())
        state, info = tell(bandit, state, query, jnp.full(query.index.shape, jnp.nan))
        assert int(info.observed) == 0 and int(info.result) == Result.RUNNING
    if name == "initial":
        assert picked.pop(0) == [3, 5]
    assert {len(arms) for arms in picked} == {1} and len({arms[0] for arms in picked}) > 6
    # a query whose slots are all masked observes nothing
    masked = query.replace(mask=jnp.zeros_like(query.mask))
    state, _ = tell(bandit, state, masked, jnp.ones(query.index.shape))
    again = ASK(bandit, state, ARMS, keys[-1])
    np.testing.assert_array_equal(again.index[again.mask], query.index[query.mask])
    state, _ = tell(bandit, state, query, jnp.ones(query.index.shape))
    first, second = (ASK(bandit, state, ARMS, key) for key in keys[:2])
    np.testing.assert_array_equal(first.index[first.mask], second.index[second.mask])


@pytest.mark.parametrize("n_arms", [2, 4])
def test_the_first_arm_is_any_arm(n_arms):
    arms = Arms(jnp.zeros((n_arms, 1)))
    first = jax.vmap(lambda key: history.random_arm(arms, key))(jax.random.split(KEY, 100))
    assert set(np.asarray(first).tolist()) == set(range(n_arms))


@pytest.mark.parametrize("name", WARM_STARTS)
def test_a_warm_start_beyond_the_capacity_is_completed(name):
    """Under vmap `init` cannot raise. `tell` and `rollout` report the capacity, and `grow`, `run`
    and `drive` complete the state."""
    bandit = WARM_STARTS[name]
    counts = jnp.asarray([[1.0] * 10 + [0.0] * 2, [1.0] * 4 + [0.0] * 8])
    with pytest.raises(ValueError, match="a dictionary of 10 arms does not fit a capacity of 4"):
        bandit.init(ARMS, KEY, data=Evaluations(counts[0], counts[0]))

    def begin(counts, bandit=bandit):
        return bandit.init(ARMS, KEY, data=Evaluations(counts, counts))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = jax.jit(jax.vmap(begin, out_axes=0))(counts)
        sufficient = begin(counts[0], bandit.replace(capacity=12))
    truncated, complete = (jax.tree.map(lambda leaf, i=i: leaf[i], states) for i in range(2))
    assert bool(truncated.stale) and not bool(complete.stale)
    query = ASK(bandit, sufficient, ARMS, KEY)
    y = jnp.where(query.mask, 0.5, jnp.nan)
    after, info = tell(bandit, truncated, query, y)
    assert int(info.result) == Result.CAPACITY_EXCEEDED and bool(after.stale)
    expected = tell(bandit, sufficient, query, y)[0]
    grown = bandit.grow(after, ARMS, 12)
    assert not bool(grown.stale) and grown.capacity == 12
    np.testing.assert_array_equal(grown.counts, expected.counts)
    np.testing.assert_array_equal(grown.inducing, counts[0] + expected.counts > 0)
    # before the state was completed, only a larger bound of the information was known
    assert (grown.information >= expected.information).all()
    before = start(bandit, PROBLEM, KEY, 5).replace(state=truncated)
    stuck = ROLLOUT(bandit, PROBLEM, KEY, 5, before)
    assert int(stuck.result) == Result.CAPACITY_EXCEEDED and int(stuck.t) == 0
    run, whole = (loops.run(bandit, PROBLEM, KEY, 5, states=[s]) for s in (truncated, sufficient))
    assert (run.trace.width >= whole.trace.width * (1 - 1e-9)).all()
    nothing = np.zeros(0, int), np.zeros(0)
    driven = loops.drive(
        bandit, lambda arms: MEAN[arms], ARMS, KEY, 5, state=loops.Driven(truncated, *nothing)
    )
    assert not bool(driven.state.stale)
    np.testing.assert_array_equal(
        np.bincount(driven.x, minlength=12), driven.state.counts - counts[0]
    )


KERNEL = kernels.Gaussian(0.4)
ASSUMPTIONS = dict(noise_std=0.01, regularization=1e-4, norm_bound=4.0)
CERTIFIED_BKB = BKB(KERNEL, width=widths.certified, capacity=12, **ASSUMPTIONS)
MEAN = np.asarray(PROBLEM.mean_reward)


def evaluate(arms):
    return MEAN[arms]


def test_a_run_ends_where_the_gap_of_its_bounds_is_small(tmp_path):
    """The bounds hold, and the resumed run evaluates nothing."""
    options = dict(stop=0.2, checkpoint=tmp_path / "lab.run")
    run = loops.drive(CERTIFIED_BKB, evaluate, ARMS, KEY, 60, **options)
    assert run.stopped and not run.exhausted and 1 < run.t < 60
    width = float(CERTIFIED_BKB.confidence_width(run.state, ARMS))
    posterior = run.state.posterior
    mean, std = np.asarray(posterior.mean), np.sqrt(np.asarray(posterior.variance))
    upper, lower = mean + width * std, mean - width * std
    assert ((lower <= MEAN) & (upper >= MEAN)).all()
    gap = loops.gap(CERTIFIED_BKB, run.state, ARMS)
    assert gap == pytest.approx(upper.max() - lower.max(), rel=1e-9)
    assert MEAN.max() - MEAN[lower.argmax()] <= upper.max() - lower.max() < 0.2
    shorter = loops.drive(CERTIFIED_BKB, evaluate, ARMS, KEY, run.t - 1)
    assert loops.gap(CERTIFIED_BKB, shorter.state, ARMS) >= 0.2
    resumed = loops.drive(CERTIFIED_BKB, pytest.fail, ARMS, KEY, 60, **options)
    assert resumed.stopped and resumed.x.tolist() == run.x.tolist()
    longer = loops.drive(CERTIFIED_BKB, evaluate, ARMS, KEY, run.t + 2, state=resumed)
    assert longer.t == run.t + 2 and not longer.stopped


def test_a_function_of_the_user_ends_a_run():
    """Uniform arms have no bounds. If the function raises, `error.driven` is the run so far."""
    times = []

    def is_good_enough(driven):
        times.append(driven.t)
        return driven.y.max() > 0.9

    run = loops.drive(Uniform(), evaluate, ARMS, KEY, 500, stop=is_good_enough)
    best = np.maximum.accumulate(run.y)
    assert run.stopped and best[-1] > 0.9 and (best[: times[-2]] <= 0.9).all()
    with pytest.raises(ZeroDivisionError) as error:
        loops.drive(Uniform(), evaluate, ARMS, KEY, 500, stop=lambda driven: 1 / 0)
    assert error.value.driven.t > 0


@pytest.mark.parametrize("bandit", [GPUCB(KERNEL), FixedBKB(KERNEL, batch=3, max_pending=3)])
def test_every_algorithm_with_bounds_has_a_gap(bandit):
    """Without data the gap is twice the width times the prior deviation, which is 10."""
    start = jax.jit(bandit.init)(ARMS, KEY)
    width = float(bandit.confidence_width(start, ARMS))
    assert loops.gap(bandit, start, ARMS) == pytest.approx(20 * width)


@pytest.mark.slow
def test_the_gap_bounds_the_regret_of_functions_of_the_model_only():
    """The numbers in the docstring of `gap`: of 20 runs with stop=0.5 on each kind of function, how
    many stop with a larger regret, and the largest regret."""
    x = np.linspace(0, 1, 60)[:, None]
    distances = np.abs(x - x.T)
    gram = np.exp(-((distances / 0.1) ** 2) / 2)
    root = np.linalg.cholesky(np.exp(-distances / 0.1) + 1e-10 * np.eye(60))
    bandit = GPUCB(kernels.Gaussian(0.1), noise_std=0.1, width=widths.certified, norm_bound=3.0)
    bandit = bandit.replace(regularization=0.01)

    def of_norm_three(random):
        weights = random.standard_normal(60) * (random.random(60) < 0.1)
        return gram @ weights * 3 / np.sqrt(max(weights @ gram @ weights, 1e-12))

    def with_peak(random):
        return of_norm_three(random) + 2.0 * (np.arange(60) == random.integers(60))

    def rough(random):  # of a Matern 1/2 kernel
        return root @ random.standard_normal(60)

    def large_regrets(draw):
        for seed in range(20):
            random = np.random.default_rng(seed)
            means = draw(random)

            def measure(arms, means=means, random=random):
                return means[arms] + 0.1 * random.standard_normal(len(arms))

            run = loops.drive(bandit, measure, Arms(x), jax.random.key(seed), 300, stop=0.5)
            assert run.stopped
            mean, variance, width = bandit.confidence_bounds(run.state, Arms(jnp.asarray(x)))
            regret = means.max() - means[int(jnp.argmax(mean - width * jnp.sqrt(variance)))]
            if regret > 0.5:
                yield regret

    assert not list(large_regrets(of_norm_three))
    for draw, count, largest in ((rough, 2, 0.6), (with_peak, 8, 2.0)):
        regrets = list(large_regrets(draw))
        assert abs(len(regrets) - count) <= 1
        assert max(regrets) == pytest.approx(largest, abs=0.1)
