"""Properties of every algorithm of the table in tests/cases.py."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import CASES, HORIZON, VARIANTS, problem
from compiled import default_flags_jit
from rows import by_name
from small_problems import ASK, GROW, INIT, TELL, WIDTH, Problem

from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, Draw, Extend
from jsketch.core import working_set
from jsketch.results import Result
from jsketch.types import Evaluations

KEY = jax.random.key(3)
KEYS = jax.random.split(jax.random.key(5), 7)
# tests that take long run with few algorithms; -m slow runs them with all
FEW_CASES = {"uniform", "gp_bucb", "fixed_bkb", "cbrap", "bbkb_global_local"}
FEWER_CASES = {"eps_greedy", "gp_bucb", "fixed_bkb", "bbkb_global_local", "bbkb_extended"}
GROWING_CASES = [name for name in CASES if "capacity" in CASES[name].__dataclass_fields__]
# the tests of batches, of widths, of the authors' vectors and tests/contrib run these rows, which
# share the loop and most of their code with other rows
IN_OTHER_TESTS = VARIANTS - {"uniform_4", "mini_gp_ei"}
# tests/fuzz compiles these rows, or all their parts, with the default flags
IN_FUZZ = {"bbkb_global", "bbkb_global_local", "fixed_bkb", "gp_bucb", "mini_gp_ucb"}
IN_FUZZ |= {"uniform", "eps_greedy", "gp_ucb", "bkb"}
SMALL_CAPACITY = 10  # a capacity that grows during the runs, which then compile again
pytestmark = [
    pytest.mark.filterwarnings("ignore:a batch filled its capacity"),
    pytest.mark.filterwarnings("ignore:regularization .* too small"),
]

each = by_name(CASES, VARIANTS)
ARMS = problem(jnp.zeros(()).dtype).arms
MEAN_REWARD = np.asarray(problem(jnp.zeros(()).dtype).mean_reward)
BOUNDS = jax.jit(lambda bandit, state, arms: bandit.confidence_bounds(state, arms))


class Cache:
    """Programs and runs that several tests share."""

    def __init__(self):
        self.rollout = jax.jit(loops.rollout, static_argnames="horizon")
        self.rollout_with_default_flags = default_flags_jit(
            loops.rollout, static_argnames="horizon"
        )
        # a program for a CPU, and one for an accelerator
        self.vmapped = [
            jax.jit(jax.vmap(lambda bandit, key: loops.rollout(bandit, problem(), key, HORIZON)))
            for _ in range(2)
        ]
        self.runs = {}

    def run(self, name):
        if name not in self.runs:
            self.runs[name] = self.rollout(CASES[name], problem(), KEY, HORIZON)
        return self.runs[name]

    def midway(self, name):
        """A bandit, its state in the middle of a run, and a query with rewards."""
        state = self.run(name).state
        query = ASK(CASES[name], state, ARMS, KEY)
        y = np.where(query.mask, MEAN_REWARD[np.asarray(query.index)], np.nan)
        return CASES[name], state, query, jnp.asarray(y)


def scale_float(leaf):
    """0.8 times a float; other leaves are unchanged."""
    return 0.8 * leaf if isinstance(leaf, float) else leaf


@pytest.fixture(scope="module")
def cache():
    return Cache()


@by_name(CASES, IN_OTHER_TESTS)
def test_a_run_is_complete(cache, name):
    run = cache.run(name)
    assert int(run.t) == HORIZON and not bool(run.stopped)
    regret = MEAN_REWARD.max() - MEAN_REWARD[np.asarray(run.trace.arm)]
    np.testing.assert_allclose(run.trace.regret, regret, atol=1e-12)
    sizes = np.bincount(run.trace.round)
    np.testing.assert_array_equal(sizes[np.asarray(run.trace.round)], run.trace.batch_size)
    assert np.isfinite(run.trace.y).all() and np.isfinite(run.trace.width).all()


@pytest.mark.parametrize("name", [name for name in CASES if name not in VARIANTS | IN_FUZZ])
def test_default_compiler_flags_give_the_same_run(cache, name):
    """The other tests use flags with which programs compile fast."""
    run = cache.rollout_with_default_flags(CASES[name], problem(), KEY, HORIZON)
    np.testing.assert_array_equal(run.trace.arm, cache.run(name).trace.arm)
    np.testing.assert_allclose(run.trace.width, cache.run(name).trace.width, rtol=1e-9)


@by_name(CASES, CASES.keys() - {"gp_bucb", "bbkb_global_local"})
def test_compiled_and_eager_calls_agree(cache, name):
    bandit, state, query, y = cache.midway(name)
    chex.assert_trees_all_equal(bandit.ask(state, ARMS, KEY), query)
    eager = bandit.tell(state, ARMS, query, y, KEY)
    compiled = TELL(bandit, state, ARMS, query, y, KEY)
    chex.assert_trees_all_close(eager, compiled, rtol=1e-7, atol=1e-9)


@by_name(CASES, CASES.keys() - FEWER_CASES | {"eps_greedy"})
def test_vmap_over_seeds_and_numbers_equals_separate_runs(cache, name, accelerator):
    """Seven runs differ in their seed, and an eighth run in every number of the algorithm. A CPU
    computes the runs of a vmap one after the other, and an accelerator all of them together."""
    changed = jax.tree.map(scale_float, CASES[name])
    bandits, keys = [CASES[name]] * 7 + [changed], [*KEYS, KEY]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *bandits)
    vmapped_runs = cache.vmapped[accelerator](stacked, jnp.stack(keys))
    for row, (bandit, key) in enumerate(zip(bandits, keys, strict=True)):
        single_run = cache.rollout(bandit, problem(), key, HORIZON)
        vmapped_arms = np.asarray(vmapped_runs.trace.arm)[row]
        np.testing.assert_array_equal(vmapped_arms, single_run.trace.arm)
        vmapped_rewards = np.asarray(vmapped_runs.trace.y)[row]
        np.testing.assert_allclose(vmapped_rewards, single_run.trace.y, atol=1e-12)


@functools.cache
def rewards():
    """The rewards [HORIZON,A] of every arm at every evaluation of `rollout` with KEY."""
    root = loops.rollouts.Roots(*jax.random.split(KEY, 4)).problem

    def rewards_at(t):
        return jax.vmap(problem().sample, (None, 0))(jax.random.fold_in(root, t), jnp.arange(60))

    return np.asarray(jax.jit(jax.vmap(rewards_at))(jnp.arange(HORIZON)))


def replay_rewards(start=0):
    """A host objective that returns the `rewards`, beginning at evaluation `start`."""
    n_done = [start]

    def objective(arms):
        n_done[0] += len(arms)
        return rewards()[np.arange(n_done[0] - len(arms), n_done[0]), np.asarray(arms)]

    return objective


@by_name(CASES, CASES.keys() - FEW_CASES)
def test_drive_has_the_picks_of_run_and_resumes(cache, name):
    bandit = CASES[name]
    full_run = loops.drive(bandit, replay_rewards(), ARMS, KEY, HORIZON)
    np.testing.assert_array_equal(full_run.x, cache.run(name).trace.arm)
    np.testing.assert_allclose(full_run.y, cache.run(name).trace.y, atol=1e-12)
    # a horizon within a batch would truncate the batch, so that the first part ends with a round
    rounds = np.asarray(cache.run(name).trace.round)
    stop = int(np.searchsorted(rounds, rounds[HORIZON // 2]))
    first_part = loops.drive(bandit, replay_rewards(), ARMS, KEY, stop)
    resumed = loops.drive(bandit, replay_rewards(stop), ARMS, KEY, HORIZON, state=first_part)
    np.testing.assert_array_equal(resumed.x, full_run.x)


@each
def test_asking_twice_gives_the_same_batch_and_a_limit_shortens_it(cache, name):
    bandit, state, query, _ = cache.midway(name)
    chex.assert_trees_all_equal(ASK(bandit, state, ARMS, KEY), query)
    size = int(query.size)
    for limit in {1, max(size - 1, 1)}:
        cut = ASK(bandit, state, ARMS, KEY, np.asarray(limit))
        assert int(cut.size) == limit
        cut_index, index = np.asarray(cut.index), np.asarray(query.index)
        np.testing.assert_array_equal(cut_index[:limit], index[:limit])


@each
def test_other_numbers_compile_nothing(cache, name):
    # compiled here, because JAX's caches may have been cleared since `cache.run`
    cache.rollout(CASES[name], problem(), KEY, HORIZON)
    n_programs = cache.rollout._cache_size()
    changed = jax.tree.map(scale_float, CASES[name])
    if hasattr(changed, "ratio"):
        changed = changed.replace(ratio=1.7)
    cache.rollout(changed, problem(), jax.random.key(99), HORIZON)
    assert cache.rollout._cache_size() == n_programs


@by_name(GROWING_CASES, CASES.keys() - FEWER_CASES | {"bbkb_global_local"})
def test_capacity_changes_no_pick(cache, name):
    """A run ends where its capacity is exceeded, and a larger one continues it."""
    large_bandit = CASES[name]
    small_bandit = large_bandit.replace(capacity=SMALL_CAPACITY)
    stuck_run = cache.rollout(small_bandit, problem(), KEY, HORIZON)
    assert int(stuck_run.result) == Result.CAPACITY_EXCEEDED and 0 < int(stuck_run.t) < HORIZON
    # from a given state a run begins with the capacity of this state
    init_key = loops.rollouts.Roots(*jax.random.split(KEY, 4)).init
    small_state = small_bandit.init(ARMS, init_key, horizon=HORIZON)
    grown_run = loops.run(small_bandit, problem(), KEY, HORIZON, states=[small_state])
    np.testing.assert_array_equal(grown_run.trace.arm, cache.run(name).trace.arm)
    assert grown_run.capacity > SMALL_CAPACITY and grown_run.capacity != large_bandit.capacity
    state = stuck_run.state
    if not hasattr(large_bandit, "refresh"):  # the round is not applied, and is to be repeated
        query = ASK(small_bandit, state, ARMS, KEY)
        y = MEAN_REWARD[np.asarray(query.index)]
        new, info = TELL(small_bandit, state, ARMS, query, y, jax.random.fold_in(KEY, 1))
        if int(info.result) == Result.CAPACITY_EXCEEDED:
            chex.assert_trees_all_equal(new, state)
        else:
            assert int(info.dictionary_size) <= SMALL_CAPACITY
        return
    # the round is applied, and `grow` completes the state
    assert bool(state.stale) and int(state.dictionary_size) > SMALL_CAPACITY
    assert np.isnan(BOUNDS(small_bandit, state, ARMS)[0]).all()
    with pytest.raises(ValueError, match="dictionary exceeds its capacity: use bandit.grow"):
        loops.gap(small_bandit, state, ARMS)
    grown = GROW(large_bandit, state, ARMS, large_bandit.capacity)
    expected = cache.rollout(large_bandit, problem(), KEY, HORIZON, until=stuck_run.t).state
    assert not bool(grown.stale)
    np.testing.assert_array_equal(grown.inducing, expected.inducing)
    np.testing.assert_array_equal(grown.counts, expected.counts)
    np.testing.assert_allclose(grown.posterior.mean, expected.posterior.mean, atol=1e-9)
    np.testing.assert_allclose(grown.posterior.variance, expected.posterior.variance, rtol=1e-7)
    np.testing.assert_allclose(grown.information, expected.information, rtol=1e-9)


@pytest.mark.parametrize("dictionary", [Draw(), Extend()], ids=["draw", "extend"])
def test_a_run_that_grows_several_times_has_the_picks_of_a_large_one(dictionary):
    """The capacity grows from 4 to 112."""
    x = np.asarray(jax.random.uniform(jax.random.key(2), (150, 2)))
    large_problem = problems.finite_arms(x, np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1]), 0.1)
    options = dict(qbar=8.0, max_batch=16, dictionary=dictionary)
    bandit = BBKB(kernels.Gaussian(0.15), 0.01, capacity=4, **options)
    small = bandit.init(large_problem.arms, KEY)
    grown = loops.run(bandit, large_problem, KEY, 150, states=[small])
    large = loops.run(bandit.replace(capacity=150), large_problem, KEY, 150)
    assert grown.capacity == 112 and large.capacity == 150
    np.testing.assert_array_equal(grown.trace.arm, large.trace.arm)
    np.testing.assert_array_equal(grown.trace.round, large.trace.round)
    np.testing.assert_array_equal(grown.trace.dictionary_size, large.trace.dictionary_size)


@each
def test_an_arm_that_is_left_out_is_not_chosen(cache, name):
    bandit, state, query, _ = cache.midway(name)
    asked = np.asarray(query.index)[np.asarray(query.mask)]
    left_out = np.isin(np.arange(60), asked)
    arms = ARMS.replace(left_out=left_out)
    for key in jax.random.split(KEY, 3):
        other = ASK(bandit, state, arms, key)
        others = np.asarray(other.index)[np.asarray(other.mask)]
        assert others.size and not left_out[others].any()
    nothing = ARMS.replace(left_out=np.zeros(60, bool))
    chex.assert_trees_all_equal(ASK(bandit, state, nothing, KEY), query)


@each
def test_failures_change_no_posterior(cache, name):
    """A sketched posterior may have a new dictionary after failures, but no new evaluation."""
    bandit, state, query, y = cache.midway(name)
    new, info = TELL(bandit, state, ARMS, query, np.full(y.shape, np.nan), KEY)
    assert int(info.observed) == 0 and int(info.result) == Result.RUNNING
    fields = {"counts", "sums", "information", "count", "sketch", "moment"}
    if not hasattr(state, "inducing"):
        fields |= {"posterior"}
    for field in fields:
        if hasattr(state, field):
            chex.assert_trees_all_equal(getattr(new, field), getattr(state, field))


@each
def test_wrong_rewards_have_the_effect_of_masked_slots(cache, name):
    """Infinite rewards end a run; failures (NaN) do not."""
    bandit, state, query, y = cache.midway(name)
    is_first = np.arange(len(y)) == 0
    shorter = query.replace(mask=~is_first & query.mask)
    masked, info = TELL(bandit, state, ARMS, shorter, y, KEY)
    assert int(info.observed) == int(query.size) - 1
    chex.assert_tree_all_finite(masked)
    for reward in (np.nan, np.inf, -np.inf):
        new, info = TELL(bandit, state, ARMS, query, np.where(is_first, reward, y), KEY)
        assert (int(info.result) == Result.NOT_FINITE) == (not np.isnan(reward))
        assert int(info.observed) == int(query.size) - 1
        chex.assert_trees_all_equal(new, masked)


@pytest.mark.float32(only=True)
@by_name(CASES, CASES.keys() - FEWER_CASES)
def test_runs_in_float32_stay_finite(name):
    single = problem(jnp.float32)
    run = jax.jit(loops.rollout, static_argnames="horizon")(CASES[name], single, KEY, HORIZON)
    assert int(run.t) == HORIZON and not bool(run.stopped)
    floats = [x for x in jax.tree.leaves(run) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert all(x.dtype == jnp.float32 and np.isfinite(x).all() for x in floats)
    state = getattr(run.state, "posterior", run.state)
    assert not hasattr(state, "variance") or float(state.variance.min()) >= 0


def oracle_batch(p, width, ratio, most):
    """The picks of a batch by dense matrices: the scores of all arms are updated after every pick,
    and the batch ends with the pick whose bound exceeds the ratio (Lemma 1)."""
    mean, full, embedded, _, _ = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)
    variance = np.diag(full)
    residual, bound, picks = variance - np.diag(embedded), 1.0, []
    while len(picks) < most and bound <= ratio:
        scores = mean + width * np.sqrt(residual + np.maximum(np.diag(embedded), 0))
        picks.append(int(np.argmax(scores)))
        bound += variance[picks[-1]]
        column = embedded[:, picks[-1]]
        embedded = embedded - np.outer(column, column) / (1 + column[picks[-1]])
    return picks


@pytest.fixture(params=[(16, 1_024), (3, 2)], ids=["one_set", "several_sets"])
def ask(request, monkeypatch):
    """The compiled `ask`, with one working set or with several small ones."""
    monkeypatch.setattr(working_set, "ARMS_OF_SET", request.param[0])
    monkeypatch.setattr(working_set, "PICKS_OF_SET", request.param[1])
    return jax.jit(lambda bandit, state, arms: bandit.ask(state, arms, KEY))


def test_picks_are_those_of_scores_updated_after_every_pick(ask):
    """THEORY 5.7, for dictionaries of pulled and of other arms."""
    longest = 0
    for seed in range(24):
        p = Problem(seed)
        bandit, state = p.state(ratio=6.0, max_batch=40)
        query = ask(bandit, state, p.arms)
        expected = oracle_batch(p, float(WIDTH(bandit, state, p.arms)), 6.0, 40)
        np.testing.assert_array_equal(np.asarray(query.index)[np.asarray(query.mask)], expected)
        longest = max(longest, len(expected))
    assert longest > 20


def test_picks_are_those_of_updated_scores_with_ties(ask):
    """Arms i and i + 20 are equal, and a pick may be replaced by its duplicate."""
    shortest = 40
    for seed in range(64):
        p = Problem(seed)
        random = np.random.default_rng([seed, 1])
        p.x, y = np.tile(random.uniform(size=(20, 2)), (2, 1)), random.standard_normal(20)
        p.counts = np.arange(40.0) % 3
        p.sums, p.lam, p.lengthscale = p.counts * np.tile(y, 2), 0.01, 0.5
        p.gram = oracles.gaussian(p.x, p.x, 0.5)
        p.dictionary = np.flatnonzero(p.counts)
        bandit = CASES["bbkb_global"].replace(ratio=6.0, max_batch=40)
        state = INIT(bandit, p.x, p.counts, p.sums)
        query = ask(bandit, state, p.arms)
        expected = np.array(oracle_batch(p, float(WIDTH(bandit, state, p.arms)), 6.0, 40))
        picks = np.asarray(query.index)[np.asarray(query.mask)]
        np.testing.assert_array_equal(picks % 20, expected % 20)
        shortest = min(shortest, len(picks))
    assert shortest > 1


def test_runs_start_from_given_states():
    """States after past evaluations stay usable, and several runs are those of single keys."""
    counts = np.arange(60) % 2
    # the capacity to which runs above grow, so that JAX reuses their programs
    bandit = CASES["fixed_bkb"].replace(capacity=32)
    data = Evaluations(counts, counts * 0.1)
    init = jax.jit(lambda key: bandit.init(ARMS, key, data=data))
    keys = KEYS[:3]
    warm_states = [init(key) for key in keys]
    together = loops.run(bandit, problem(), keys, HORIZON, states=warm_states)
    for row, (key, state) in enumerate(zip(keys, warm_states, strict=True)):
        alone = loops.run(bandit, problem(), key, HORIZON, states=[state])
        np.testing.assert_array_equal(np.asarray(together.trace.arm)[row], alone.trace.arm)
    together_counts = np.asarray(together.state.counts)
    np.testing.assert_allclose(together_counts.sum(1), counts.sum() + HORIZON)
    assert np.asarray(warm_states[0].counts).sum() == counts.sum()
    with pytest.raises(ValueError, match="one for each key"):
        loops.run(bandit, problem(), keys, HORIZON, states=warm_states[:2])
