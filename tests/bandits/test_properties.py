"""Properties of every algorithm of the table in tests/cases.py."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, HORIZON, VARIANTS, problem
from compiled import default_flags_jit
from rows import by_name, check_refusals

from jsketch import Arms, Query, loops
from jsketch.bandits.batches import adaptive_batch
from jsketch.types import Evaluations

KEY = jax.random.key(3)
KEYS = jax.random.split(jax.random.key(5), 3)
# tests that take long run with few algorithms; -m slow runs them with all
FEW_CASES = {"uniform", "gp_bucb", "fixed_bkb", "cbrap", "bbkb_global_local"}
FEWER_CASES = {"eps_greedy", "gp_bucb", "fixed_bkb", "bbkb_global_local"}
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


class Cache:
    """Programs and runs that several tests share."""

    def __init__(self):
        self.rollout = jax.jit(loops.rollout, static_argnames="horizon")
        self.rollout_with_default_flags = default_flags_jit(
            loops.rollout, static_argnames="horizon"
        )
        self.ask = jax.jit(lambda bandit, state, key, limit=None: bandit.ask(state, key, limit))
        self.tell = jax.jit(lambda bandit, state, query, y, key: bandit.tell(state, query, y, key))
        self.vmapped = jax.jit(
            jax.vmap(lambda bandit, key: loops.rollout(bandit, problem(), key, HORIZON))
        )
        self.runs = {}

    def run(self, name):
        if name not in self.runs:
            self.runs[name] = self.rollout(CASES[name], problem(), KEY, HORIZON)
        return self.runs[name]

    def midway(self, name):
        """A bandit, its state in the middle of a run, and a query with rewards."""
        state = self.run(name).state.replace(domain=problem().arms)
        query = self.ask(CASES[name], state, KEY)
        y = jnp.where(query.mask, problem().mean_reward[query.index], jnp.nan)
        return CASES[name], state, query, y


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
    rewards = problem().mean_reward
    np.testing.assert_allclose(run.trace.regret, rewards.max() - rewards[run.trace.arm], atol=1e-12)
    sizes = np.bincount(run.trace.round)
    np.testing.assert_array_equal(sizes[np.asarray(run.trace.round)], run.trace.batch_size)
    assert np.isfinite(run.trace.reward).all() and np.isfinite(run.trace.width).all()


@pytest.mark.parametrize("name", [name for name in CASES if name not in VARIANTS | IN_FUZZ])
def test_default_compiler_flags_give_the_same_run(cache, name):
    """The other tests use flags with which programs compile fast."""
    run = cache.rollout_with_default_flags(CASES[name], problem(), KEY, HORIZON)
    np.testing.assert_array_equal(run.trace.arm, cache.run(name).trace.arm)
    np.testing.assert_allclose(run.trace.width, cache.run(name).trace.width, rtol=1e-9)


@by_name(CASES, CASES.keys() - {"gp_bucb", "bbkb_global_local"})
def test_compiled_and_eager_calls_agree(cache, name):
    bandit, state, query, y = cache.midway(name)
    chex.assert_trees_all_equal(bandit.ask(state, KEY), query)
    eager = bandit.tell(state, query, y, KEY)
    compiled = cache.tell(bandit, state, query, y, KEY)
    chex.assert_trees_all_close(eager, compiled, rtol=1e-7, atol=1e-9)


@by_name(CASES, CASES.keys() - FEWER_CASES | {"eps_greedy"})
def test_vmap_over_seeds_and_numbers_equals_separate_runs(cache, name):
    """Three runs differ in their seed, and a fourth run in every number of the algorithm."""
    changed = jax.tree.map(scale_float, CASES[name])
    bandits, keys = [CASES[name]] * 3 + [changed], [*KEYS, KEY]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *bandits)
    vmapped_runs = cache.vmapped(stacked, jnp.stack(keys))
    for row, (bandit, key) in enumerate(zip(bandits, keys, strict=True)):
        single_run = cache.rollout(bandit, problem(), key, HORIZON)
        np.testing.assert_array_equal(vmapped_runs.trace.arm[row], single_run.trace.arm)
        vmapped_rewards = vmapped_runs.trace.reward[row]
        np.testing.assert_allclose(vmapped_rewards, single_run.trace.reward, atol=1e-12)


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
    bandit, arms = CASES[name], problem().arms
    full_run = loops.drive(bandit, replay_rewards(), arms, KEY, HORIZON)
    np.testing.assert_array_equal(full_run.x, cache.run(name).trace.arm)
    np.testing.assert_allclose(full_run.y, cache.run(name).trace.reward, atol=1e-12)
    # a horizon within a batch would truncate the batch, so that the first part ends with a round
    rounds = np.asarray(cache.run(name).trace.round)
    stop = int(np.searchsorted(rounds, rounds[HORIZON // 2]))
    first_part = loops.drive(bandit, replay_rewards(), arms, KEY, stop)
    resumed = loops.drive(bandit, replay_rewards(stop), arms, KEY, HORIZON, state=first_part)
    np.testing.assert_array_equal(resumed.x, full_run.x)


@each
def test_asking_twice_gives_the_same_batch_and_a_limit_shortens_it(cache, name):
    bandit, state, query, _ = cache.midway(name)
    chex.assert_trees_all_equal(cache.ask(bandit, state, KEY), query)
    size = int(query.size)
    for limit in {1, max(size - 1, 1)}:
        cut = cache.ask(bandit, state, KEY, jnp.asarray(limit))
        assert int(cut.size) == limit
        np.testing.assert_array_equal(cut.index[:limit], query.index[:limit])


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
    """A round that overflows leaves the state unchanged."""
    small_bandit = CASES[name].replace(capacity=SMALL_CAPACITY)
    stuck_run = cache.rollout(small_bandit, problem(), KEY, HORIZON)
    assert bool(stuck_run.overflow) and 0 < int(stuck_run.t) < HORIZON
    grown_run = loops.run(small_bandit, problem(), KEY, HORIZON)
    np.testing.assert_array_equal(grown_run.trace.arm, cache.run(name).trace.arm)
    assert grown_run.capacity > SMALL_CAPACITY and grown_run.capacity != CASES[name].capacity
    state = stuck_run.state.replace(domain=problem().arms)
    query = cache.ask(small_bandit, state, KEY)
    y = problem().mean_reward[query.index]
    new, info = cache.tell(small_bandit, state, query, y, jax.random.fold_in(KEY, 1))
    if bool(info.overflow):
        chex.assert_trees_all_equal(new, state)
    else:
        assert int(info.dictionary_size) <= SMALL_CAPACITY


@each
def test_failures_change_no_posterior(cache, name):
    bandit, state, query, y = cache.midway(name)
    new, info = cache.tell(bandit, state, query, jnp.full_like(y, jnp.nan), KEY)
    assert int(info.observed) == 0 and not bool(info.nonfinite)
    for field in ("pull_counts", "reward_sums", "count", "posterior", "sketch", "moment"):
        if hasattr(state, field):
            chex.assert_trees_all_equal(getattr(new, field), getattr(state, field))


@each
def test_wrong_slots_have_the_effect_of_masked_ones(cache, name):
    """Infinite rewards and traced arms that do not exist are flagged; failures (NaN) are not."""
    bandit, state, query, y = cache.midway(name)
    shorter = query.replace(mask=query.mask.at[0].set(False))
    masked, info = cache.tell(bandit, state, shorter, y, KEY)
    assert int(info.observed) == int(query.size) - 1
    chex.assert_tree_all_finite(masked)
    contents = [(None, jnp.nan), (None, jnp.inf), (60, 0.0), (5000, 0.0), (-1, 0.0)]
    for arm, reward in contents:
        index = query.index if arm is None else query.index.at[0].set(arm)
        wrong = query.replace(index=index)
        new, info = cache.tell(bandit, state, wrong, y.at[0].set(reward), KEY)
        assert bool(info.nonfinite) == (not np.isnan(reward))
        assert int(info.observed) == int(query.size) - 1
        chex.assert_trees_all_equal(new, masked)


@each
def test_an_arm_out_of_range_is_refused(cache, name):
    bandit, state = CASES[name], cache.run(name).state.replace(domain=problem().arms)
    for arm in (60, 5000, -1):
        query = Query(jnp.array([3, arm], jnp.int32), jnp.ones(2, bool))
        calls = [lambda q=query: bandit.tell(state, q, jnp.zeros(2), KEY)]
        calls += [lambda q=query: bandit.pend(state, q)] * hasattr(bandit, "pend")
        check_refusals((call, f"contains arm {arm}; the arms are 0 to 59") for call in calls)


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("size", "max_picks"), [(16, 256), (3, 2)])
def test_lazy_picks_are_the_swept_picks_with_ties(monkeypatch, size, max_picks):
    """THEORY 5.7: lazy and swept picks are equal on 64 problems that have every arm twice, except
    that an arm may be replaced by its duplicate. `size` and `max_picks` give one working set
    or several small ones."""
    monkeypatch.setattr(adaptive_batch, "SIZE", size)
    monkeypatch.setattr(adaptive_batch, "PICKS", max_picks)

    def lazy_and_swept_queries(key):
        x_key, y_key = jax.random.split(key)
        # arms i and i + 20 are equal
        x = jnp.tile(jax.random.uniform(x_key, (20, 2)), (2, 1))
        y = jnp.tile(jax.random.normal(y_key, (20,)), 2)
        queries = []
        for lazy in (True, False):
            bandit = CASES["bbkb_global"].replace(lazy=lazy, ratio=6.0, max_batch=40)
            counts = (jnp.arange(40) % 3).astype(x.dtype)
            state = bandit.init(Arms(x), key, data=Evaluations(counts, counts * y))
            queries.append(bandit.ask(state, key))
        return queries

    lazy, swept = jax.jit(jax.vmap(lazy_and_swept_queries))(jax.random.split(jax.random.key(1), 64))
    np.testing.assert_array_equal(lazy.mask, swept.mask)
    np.testing.assert_array_equal(lazy.index % 20, swept.index % 20)
    assert int(lazy.mask.sum(1).min()) > 1


def test_runs_start_from_given_states():
    """Both strategies start from states after past evaluations. These states stay usable."""
    counts = np.arange(60) % 2
    # the capacity to which runs above grow, so that JAX reuses their programs
    bandit = CASES["fixed_bkb"].replace(capacity=32)
    data = Evaluations(counts, counts * 0.1)
    init = jax.jit(lambda key: bandit.init(problem().arms, key, data=data))
    warm_states = [init(key) for key in KEYS]
    runs = [
        loops.run(bandit, problem(), KEYS, HORIZON, strategy=s, states=warm_states)
        for s in ("map", "vmap")
    ]
    np.testing.assert_array_equal(runs[0].trace.arm, runs[1].trace.arm)
    np.testing.assert_allclose(runs[0].state.pull_counts.sum(1), counts.sum() + HORIZON)
    assert float(warm_states[0].pull_counts.sum()) == counts.sum()
    with pytest.raises(ValueError, match="one for each key"):
        loops.run(bandit, problem(), KEYS, HORIZON, states=warm_states[:2])
