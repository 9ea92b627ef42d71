"""Runs whose dictionary is extended: low-rank updates of the posterior, compared with posteriors
from scratch, and the initial capacity."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, problem
from small_problems import KEY, Problem

from jsketch import Arms, kernels, loops, problems, struct
from jsketch.bandits import BBKB, Draw, Extend
from jsketch.bandits.bbkb import NOTHING, REBUILD
from jsketch.core import posterior
from jsketch.loops.capacities import (
    INITIAL_SIZE_RATIO,
    MANY_RUNS,
    RATIO_OF_MANY,
    expected_size,
    with_initial_capacity,
)
from jsketch.results import Result
from jsketch.types import Query

UPDATE = jax.jit(posterior.update, static_argnums=6)


def from_scratch(bandit):
    """The bandit with an `observe` that never keeps a low-rank update."""

    def observe(self, *arguments):
        state, info = super(scratch, self).observe(*arguments)
        due = jnp.where(state.due == NOTHING, jnp.asarray(REBUILD, jnp.int32), state.due)
        return state.replace(due=due), info

    scratch = struct.dataclass(type("Scratch", (type(bandit),), {"observe": observe}))
    return scratch(**{field.name: getattr(bandit, field.name) for field in fields(bandit)})


@jax.jit
def one_round(bandit, state, arms, query, y, key):
    """(the state after the round, its info, whether the low-rank update was kept)."""
    observed, _ = bandit.observe(state, arms, query, y, key)
    return *bandit.tell(state, arms, query, y, key), ~observed.stale


def scratch_posterior(bandit, state, arms):
    history = arms.features, state.counts, state.sums, state.inducing
    return UPDATE(bandit.kernel, bandit.regularization, *history, state.capacity)


@pytest.mark.parametrize(
    "name", ["bbkb_extended", pytest.param("bkb_extended", marks=pytest.mark.slow)]
)
def test_runs_with_updates_have_the_picks_of_runs_from_scratch(name):
    """Some of the runs of three seeds draw a new dictionary, and all keep low-rank updates."""
    arms, rewards = problem().arms, problem().mean_reward

    def rounds(bandit, key):
        def step(state, key):
            query = bandit.ask(state, arms, key)
            y = rewards[query.index] + 0.1 * jax.random.normal(key, query.index.shape)
            observed, _ = bandit.observe(state, arms, query, y, key)
            width = bandit.confidence_width(state, arms)
            new, _ = bandit.tell(state, arms, query, y, key)
            shrinks = (state.inducing & ~new.inducing).any()
            picks = jnp.where(query.mask, query.index, -1)
            return new, (picks, width, ~observed.stale, shrinks)

        return jax.lax.scan(step, bandit.init(arms, key), jax.random.split(key, 40))[1]

    program, keys = jax.jit(jax.vmap(rounds, (None, 0))), jax.random.split(KEY, 3)
    bandit = CASES[name].replace(dictionary=Extend(0.0))
    picks, widths, updated, shrinks = program(bandit, keys)
    scratch_picks, scratch_widths, never_updated, _ = program(from_scratch(bandit), keys)
    np.testing.assert_array_equal(picks, scratch_picks)
    np.testing.assert_allclose(widths, scratch_widths, rtol=1e-7)
    assert updated.any(1).all() and not never_updated.any() and shrinks.any()


@pytest.mark.parametrize("pulled_again", [False, True])
def test_pulled_arms_outside_of_the_dictionary_need_a_posterior_from_scratch(pulled_again):
    """An arm without which the dictionary was drawn joins it when it is pulled again. Its earlier
    pulls are in the posterior as projections, which a low-rank update would keep."""
    for seed in range(6):
        p = Problem(seed)
        pulled = np.flatnonzero(p.counts)
        # all pulled arms but the last one
        bandit, state = p.state(dictionary=pulled[:-1])
        bandit = bandit.replace(dictionary=Extend(1e9))
        arm = pulled[-1] if pulled_again else pulled[0]
        query, y = Query.of(jnp.asarray(arm)), jnp.ones(1)
        new, info, updated = one_round(bandit, state, p.arms, query, y, KEY)
        assert not bool(updated) and int(info.result) == Result.RUNNING
        assert bool(new.inducing[pulled[-1]]) == pulled_again
        expected = scratch_posterior(bandit, new, p.arms)
        np.testing.assert_allclose(new.posterior.variance, expected.variance, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("regularization", [1.0, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("gap", [None, 1e-2, 1e-7])
def test_two_hundred_rounds_match_a_posterior_from_scratch(regularization, gap):
    """With a `gap`, 27 of 80 arms are copies of other arms, shifted by the gap. A dictionary of
    copies at 1e-7 cuts its rank, so that the posterior from scratch has an error of 1e-7 itself;
    low-rank updates may then differ from it by as much as it differs from the exact posterior."""
    n_arms, random = 80, np.random.default_rng(7)
    x = random.uniform(0, 6, (n_arms, 2))
    if gap is not None:
        x[-27:] = x[:27] + gap
    arms = Arms(jnp.asarray(x))
    bandit = BBKB(kernels.Gaussian(0.6), regularization, capacity=n_arms, max_batch=12)
    gram = np.asarray(bandit.kernel.gram(arms.features, arms.features))
    state, largest_error, error_of_scratch, n_updated = bandit.init(arms, KEY), 0.0, 0.0, 0
    for t in range(200):
        index = np.zeros(12, int)
        mask = np.arange(12) < random.integers(1, 13)
        index[mask] = random.choice(n_arms, mask.sum())
        y = np.where(mask, random.standard_normal(12), np.nan)
        query = Query(jnp.asarray(index, jnp.int32), jnp.asarray(mask))
        key = jax.random.fold_in(KEY, t)
        state, info, updated = one_round(bandit, state, arms, query, jnp.asarray(y), key)
        assert int(info.result) == Result.RUNNING
        n_updated += int(updated)
        expected = np.asarray(scratch_posterior(bandit, state, arms).variance) * regularization
        error = np.abs(np.asarray(state.posterior.variance) * regularization - expected).max()
        largest_error = max(largest_error, error)
        counts = np.asarray(state.counts)
        if np.asarray(state.inducing)[counts > 0].all():  # the sketch is the exact posterior
            pulled = gram[counts > 0]
            noisy = pulled[:, counts > 0] + np.diag(regularization / counts[counts > 0])
            exact = 1 - (pulled * np.linalg.solve(noisy, pulled)).sum(0)
            error_of_scratch = max(error_of_scratch, np.abs(expected - exact).max())
    print(f"errors {largest_error:.1e}, from scratch {error_of_scratch:.1e}; {n_updated} updates")
    assert largest_error < max(1e-9, error_of_scratch) and error_of_scratch < 2e-7
    assert n_updated > 0
    if gap != 1e-7:
        assert largest_error < 1e-9 and error_of_scratch < 1e-9


def test_an_arm_pulled_alone_does_not_add_up_rounding_errors():
    """In float32 the means drift with every update. The error is at most ten times that of the
    posterior from scratch."""
    random = np.random.default_rng(0)
    arms = Arms(jnp.asarray(random.uniform(size=(200, 2)), jnp.float32))
    bandit = BBKB(kernels.Gaussian(0.3), 1e-3, capacity=64, dictionary=Extend(1e9))
    index = np.r_[random.integers(0, 20, 200), np.zeros(5_800, int)]
    rewards = 1 + random.standard_normal(len(index))

    def pull(state, pulled):
        index, y = pulled
        return bandit.tell(state, arms, Query.of(index), y[None], KEY)[0], None

    pulled = jnp.asarray(index, jnp.int32), jnp.asarray(rewards, jnp.float32)
    state = jax.jit(lambda state: jax.lax.scan(pull, state, pulled)[0])(bandit.init(arms, KEY))
    counts = np.bincount(index, minlength=200).astype(float)
    sums = np.bincount(index, rewards, minlength=200)
    history = arms.features.astype(float), jnp.asarray(counts), jnp.asarray(sums)
    expected = np.asarray(UPDATE(bandit.kernel, 1e-3, *history, state.inducing, 64).mean)
    scratch = scratch_posterior(bandit, state, arms)
    error, least = (np.abs(np.asarray(p.mean) - expected).max() for p in (state.posterior, scratch))
    print(f"largest error {error:.1e}, {least:.1e} from scratch")
    assert error < 10 * least


def test_the_initial_capacity_follows_from_the_expected_size_of_the_dictionary():
    """The size expected after uniform pulls is computed from leverage scores of a dense solution.
    The capacity is INITIAL_SIZE_RATIO times this size, rounded up by at most 16."""
    x = np.random.default_rng(0).uniform(0, 6, (60, 1))
    horizon, regularization, kernel = 240, 0.05, kernels.Gaussian(0.4)
    gram = np.asarray(kernel.gram(jnp.asarray(x), jnp.asarray(x)))
    # 4 pulls of each arm
    leverage = np.diagonal(np.linalg.solve(4 * gram + regularization * np.eye(60), 4 * gram))
    expected = np.minimum(1, 2.0 * leverage).sum()
    arms = Arms(jnp.asarray(x))
    size = expected_size(arms, kernel, regularization, qbar=2.0, horizon=horizon)
    np.testing.assert_allclose(size, expected, rtol=1e-9)
    bandit = BBKB(kernel=kernel, regularization=regularization, capacity=4)
    capacity = with_initial_capacity(bandit, arms, horizon).capacity
    assert -1 <= capacity - INITIAL_SIZE_RATIO * expected <= 16
    many = with_initial_capacity(bandit, arms, horizon, n_runs=MANY_RUNS).capacity
    assert -1 <= many - RATIO_OF_MANY * expected <= 16
    drawn = bandit.replace(dictionary=Draw())
    assert with_initial_capacity(drawn, arms, horizon).capacity == 4
    finite = problems.finite_arms(x, np.sin(x[:, 0]), 0.1)
    capacity = with_initial_capacity(bandit, finite.arms, 20).capacity
    assert loops.run(bandit, finite, KEY, 20).capacity == capacity


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("regularization", [1e-20, 1e-300])
def test_expected_sizes_are_accurate_with_little_regularization(dtype, regularization):
    """Six copies of each of ten distant arms have leverage scores of 1/6 without regularization."""
    arms = Arms(jnp.asarray(np.tile(np.arange(10.0), 6)[:, None], dtype))
    size = expected_size(arms, kernels.Gaussian(0.2), regularization, qbar=2.0, horizon=1_000)
    np.testing.assert_allclose(size, 60 * 2 / 6, rtol=0.02)
