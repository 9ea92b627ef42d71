"""Low-rank updates of a sketched posterior, compared with a refresh from scratch."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, HORIZON, problem

from jsketch import Arms, kernels, loops, problems, struct
from jsketch.bandits import BBKB
from jsketch.bandits.core import incremental, sketched
from jsketch.types import Evaluations, Query

ARMS, CAPACITY = 80, 64
UPDATE, REFRESH = jax.jit(incremental.refresh), jax.jit(sketched.refresh)
KEY = jax.random.key(0)


@pytest.mark.parametrize("regularization, stride", [(1e-2, 1), (1e-4, 1), (1e-8, 2), (1.0, 3)])
def test_updates_match_a_refresh_from_scratch(regularization, stride):
    """The updated posterior equals the refreshed one to 1e-9 of the prior variance, as long as no
    added point is close to the span of the dictionary. Batches of several sizes contain arms of the
    dictionary, new arms, and, for a stride above 1, pulled arms that are not in the
    dictionary."""
    random = np.random.default_rng(stride)
    x = random.uniform(0, 6, (ARMS, 2))
    kernel = kernels.Gaussian(0.4)
    bandit = BBKB(kernel=kernel, regularization=regularization, capacity=CAPACITY)
    counts = np.zeros(ARMS)
    counts[random.choice(ARMS, 24, replace=False)] = random.integers(1, 5, 24)
    sums = counts * random.standard_normal(ARMS)
    dictionary = np.flatnonzero(counts)[::stride]
    state = bandit.init(Arms(x), KEY, data=Evaluations(counts, sums, np.resize(dictionary, 24)))
    n_tested = 0
    for n_pulls in (1, 2, 20, 5, 9, 3):
        pulls = np.bincount(random.choice(ARMS, n_pulls), minlength=ARMS).astype(float)
        counts, sums = counts + pulls, sums + pulls * random.standard_normal(ARMS)
        history = jnp.asarray(counts), jnp.asarray(sums)
        state, accurate, fits = UPDATE(state, *history, kernel, regularization)
        if not accurate:
            break
        assert fits
        n_tested += 1
        refreshed = REFRESH(state, kernel, regularization)
        np.testing.assert_allclose(state.mean, refreshed.mean, atol=1e-9)
        error = np.abs(np.asarray(state.variance - refreshed.variance)) * regularization
        assert error.max() < 1e-9
        for name in ("count", "variance_sum", "logdet", "residual_sum"):
            values = (getattr(evidence, name) for evidence in (state.evidence, refreshed.evidence))
            np.testing.assert_allclose(*values, rtol=1e-7, atol=1e-9)
    assert n_tested >= 4


def test_overflow_and_near_duplicates_are_reported():
    """`update` returns (accurate, whether the capacity 4 suffices). Arm 6 is 1e-6 from arm 0."""
    x = np.concatenate([np.arange(6.0), [1e-6]])[:, None]
    kernel = kernels.Gaussian(0.5)
    state = BBKB(kernel=kernel, capacity=4).init(Arms(x), KEY)

    def update(arms):
        counts = jnp.asarray(np.bincount(arms, minlength=7).astype(float))
        return UPDATE(state, counts, 0 * counts, kernel, 0.01)[1:]

    assert update([0, 1, 1, 3]) == (True, True)
    assert update([0, 1, 2, 3, 4]) == (True, False)
    assert update([0, 6]) == (False, True)


@pytest.mark.parametrize("name", ["bbkb_global", pytest.param("bkb", marks=pytest.mark.slow)])
def test_runs_with_updates_have_the_picks_of_runs_with_refreshes(name):
    """Three seeds are vmapped, some of which draw a new dictionary. A run with refreshes computes
    every posterior from scratch."""
    bandit = CASES[name].replace(resparsify=0.25)
    scratch_class = struct.dataclass(type("Scratch", (type(bandit),), {"incremental": False}))
    from_scratch = scratch_class(
        **{field.name: getattr(bandit, field.name) for field in fields(bandit)}
    )
    keys = jax.random.split(KEY, 3)
    run = jax.jit(jax.vmap(loops.rollout, (None, None, 0, None)), static_argnums=3)
    refreshed = run(from_scratch, problem(), keys, HORIZON)
    updated = run(bandit, problem(), keys, HORIZON)
    np.testing.assert_array_equal(updated.trace.arm, refreshed.trace.arm)
    np.testing.assert_allclose(updated.trace.width, refreshed.trace.width, rtol=1e-7)
    assert (np.asarray(updated.state.updates) > 0).any()
    assert (np.asarray(refreshed.state.updates) == 0).all()


def test_the_initial_capacity_follows_from_the_expected_size_of_the_dictionary():
    """The size expected after uniform pulls is computed from leverage scores of a dense solution.
    The capacity is INITIAL_SIZE_RATIO times this size, rounded up by at most 16."""
    x = np.random.default_rng(0).uniform(0, 6, (60, 1))
    horizon, regularization, kernel = 240, 0.05, kernels.Gaussian(0.4)
    gram = np.asarray(kernel.gram(jnp.asarray(x), jnp.asarray(x)))
    # 4 pulls of each arm
    leverage = np.diagonal(np.linalg.solve(4 * gram + regularization * np.eye(60), 4 * gram))
    expected = np.minimum(1, 2.0 * leverage).sum()
    size = sketched.expected_size(
        Arms(jnp.asarray(x)), kernel, regularization, qbar=2.0, horizon=horizon
    )
    np.testing.assert_allclose(size, expected, rtol=1e-9)
    bandit = BBKB(kernel=kernel, regularization=regularization, capacity=4, resparsify=0.25)
    capacity = bandit.with_initial_capacity(Arms(jnp.asarray(x)), horizon).capacity
    assert -1 <= capacity - sketched.INITIAL_SIZE_RATIO * expected <= 16
    every_batch = bandit.replace(resparsify=sketched.EVERY_BATCH)
    assert every_batch.with_initial_capacity(Arms(x), horizon).capacity == 4
    finite = problems.finite_arms(x, np.sin(x[:, 0]), 0.1)
    capacity = bandit.with_initial_capacity(finite.arms, 20).capacity
    assert loops.run(bandit, finite, KEY, 20).capacity == capacity


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("regularization", [1e-20, 1e-300])
def test_expected_sizes_are_accurate_with_little_regularization(dtype, regularization):
    """Six copies of each of ten distant arms have leverage scores of 1/6 without regularization."""
    arms = Arms(jnp.asarray(np.tile(np.arange(10.0), 6)[:, None], dtype))
    size = sketched.expected_size(
        arms, kernels.Gaussian(0.2), regularization, qbar=2.0, horizon=1_000
    )
    np.testing.assert_allclose(size, 60 * 2 / 6, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("regularization", [1.0, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("gap", [None, 1e-2, 1e-7])
def test_two_hundred_rounds_match_a_refresh_from_scratch(regularization, gap):
    """With a `gap`, 27 of 80 arms are copies of other arms, shifted by the gap."""
    random = np.random.default_rng(7)
    x = random.uniform(0, 6, (ARMS, 2))
    if gap is not None:
        x[-27:] = x[:27] + gap
    kernel = kernels.Gaussian(0.6)
    bandit = BBKB(kernel, regularization, noise_std=0.1, capacity=ARMS, max_batch=12)
    tell, refresh = jax.jit(bandit.tell), jax.jit(sketched.refresh)
    state, largest_error, n_updated = bandit.init(Arms(x), KEY), 0.0, 0
    for t in range(200):
        index = np.zeros(12, int)
        mask = np.arange(12) < random.integers(1, 13)
        index[mask] = random.choice(ARMS, mask.sum())
        y = np.where(mask, random.standard_normal(12), np.nan)
        query = Query(jnp.asarray(index, jnp.int32), jnp.asarray(mask))
        state, info = tell(state, query, jnp.asarray(y), jax.random.fold_in(KEY, t))
        assert not info.overflow
        n_updated += int(state.updates > 0)
        refreshed = refresh(state, kernel, regularization)
        error = np.abs(np.asarray(state.variance - refreshed.variance)) * regularization
        largest_error = max(largest_error, error.max())
    print(f"largest error {largest_error:.1e}, updated in {n_updated} of 200 rounds")
    assert largest_error < 1e-9
    assert n_updated > 0 or gap == 1e-7
