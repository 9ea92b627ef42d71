"""Tests of PointBBKB with new candidates in every step (contexts) and over a box."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ASK, GRAM, KEY, TELL

from jsketch import Arms, Box, kernels
from jsketch.bandits import BKB, PointBBKB, widths
from jsketch.contrib import partition
from jsketch.results import Result

X = np.random.default_rng(0).uniform(0, 1, (40, 2))
KEEP_ALL = 1e12  # a qbar that keeps every pulled point
OPTIONS = dict(kernel=kernels.Gaussian(0.4), regularization=0.05, noise_std=0.2, capacity=32)
BANDIT = PointBBKB(kernels.Gaussian(0.7), 0.01, 0.05, ratio=1.0, max_batch=1, norm_bound=2.0)
CHOOSE = jax.jit(lambda bandit, state, key, x: bandit.choose(state, key, x))
PULL = jax.jit(lambda bandit, state, x: bandit.pull(state, x))
VARIATION = jax.jit(partition.variation)
POSTERIOR = jax.jit(lambda bandit, state, x: bandit.posterior(state, x))
GROW = jax.jit(lambda bandit, state, capacity: bandit.grow(state, capacity), static_argnums=2)


def f(x):
    return np.sin(5 * x[..., 0]) + np.cos(3 * x[..., 1])


def test_point_bbkb_with_fixed_candidates_is_bkb():
    """C is 1, and the dictionary contains all pulled points."""
    arms = Arms(jnp.asarray(X))
    bkb = BKB(**OPTIONS, qbar=KEEP_ALL, width=widths.bkb_code)
    point_bbkb = PointBBKB(
        **OPTIONS, qbar=KEEP_ALL, width=widths.bkb_code, ratio=1.0, max_batch=2, max_history=32
    )
    arms_state, points_state = bkb.init(arms, KEY), point_bbkb.init(2, KEY)
    for t in range(25):
        query = ASK(bkb, arms_state, arms, KEY)
        arm = int(np.asarray(query.index)[0])
        if t:
            assert int(CHOOSE(point_bbkb, points_state, KEY, X)) == arm
        y = f(X[arm]) + 0.1 * np.sin(7.0 * t)
        arms_state, _ = TELL(bkb, arms_state, arms, query, np.array([y]), KEY)
        points_state = PULL(point_bbkb, points_state, X[arm])
        assert bool(point_bbkb.ends(points_state))
        points_state, info = TELL(point_bbkb, points_state, np.array([y, np.nan]), KEY)
        assert int(info.observed) == 1 and int(info.result) == Result.RUNNING
    # a repeated point is one arm, whose evaluations its first slot counts
    pulls, counts = np.asarray(arms_state.counts), np.asarray(points_state.counts)
    assert pulls.max() > 1
    np.testing.assert_array_equal(np.sort(counts[counts > 0]), np.sort(pulls[pulls > 0]))


def test_batches_and_posterior_with_changing_contexts_are_exact():
    """Ends of batches, means and variances are those of an exact GP. One evaluation fails."""
    bandit = PointBBKB(
        **OPTIONS | dict(capacity=64), qbar=KEEP_ALL, ratio=40.0, max_batch=6, max_history=64
    )
    state, random = bandit.init(2, KEY), np.random.default_rng(1)
    xs, ys, batch_sizes = [], [], []
    for round_ in range(9):
        batch, bound = [], 1.0
        while not bool(bandit.ends(state)):
            context = random.uniform(0, 1, (30, 2))
            pick = context[int(CHOOSE(bandit, state, KEY, context))]
            gram = oracles.gaussian(np.array([*xs, pick]), np.array([*xs, pick]), 0.4)
            counts = np.append(np.isfinite(ys).astype(float), 0)
            bound += oracles.exact(gram, counts, counts, 0.05)[1][-1, -1]
            state = PULL(bandit, state, pick)
            batch.append(pick)
        assert float(state.bound) == pytest.approx(bound, rel=1e-7)
        assert bound > 40.0 or len(batch) == 6
        y = f(np.array(batch))
        if round_ == 3:
            y[0] = np.nan
        rewards = np.append(y, np.full(6 - len(batch), np.nan))
        state, info = TELL(bandit, state, rewards, KEY)
        assert int(info.batch_size) == len(batch) and int(info.result) == Result.RUNNING
        xs, ys, batch_sizes = [*xs, *batch], [*ys, *y], [*batch_sizes, len(batch)]
    assert max(batch_sizes) > 1
    new_points = random.uniform(0, 1, (10, 2))
    all_points = np.concatenate([np.array(xs), new_points])
    counts = np.append(np.isfinite(ys).astype(float), np.zeros(10))
    sums = np.append(np.nan_to_num(ys), np.zeros(10))
    gram = oracles.gaussian(all_points, all_points, 0.4)
    mean, covariance, _ = oracles.exact(gram, counts, sums, 0.05)
    actual_mean, actual_variance = POSTERIOR(bandit, state, new_points)
    np.testing.assert_allclose(actual_mean, mean[-10:], atol=1e-7)
    np.testing.assert_allclose(actual_variance, np.diag(covariance)[-10:], atol=1e-6)


def test_maximise_reaches_the_largest_score_of_a_fine_grid():
    bandit = PointBBKB(kernels.Gaussian(0.2), 0.05, max_batch=16, max_history=16, ratio=1e9)
    state = bandit.init(2, KEY)
    for x in np.random.default_rng(2).uniform(0, 1, (12, 2)):
        state = PULL(bandit, state, x)
    state, _ = TELL(bandit, state, np.append(np.sin(np.arange(12.0)), np.full(4, np.nan)), KEY)
    box = Box(jnp.zeros(2), jnp.ones(2))
    best = np.asarray(jax.jit(bandit.maximise)(state, KEY, box))
    axis = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    scores = np.asarray(jax.jit(bandit.scores)(state, np.concatenate([grid, best[None]])))
    assert scores[-1] >= scores[:-1].max() - 1e-6


def test_growing_and_extending_leave_the_posterior_unchanged():
    """The batch that grows is unfinished."""
    bandit = PointBBKB(**OPTIONS, ratio=1e9, max_batch=8, max_history=12)
    state = bandit.init(2, KEY)
    for x in X[:8]:
        state = PULL(bandit, state, x)
    with pytest.raises(ValueError, match="the batch or the history is full"):
        bandit.pull(state, jnp.asarray(X[8]))
    state, _ = TELL(bandit, state, f(X[:8]), KEY)
    for x in X[8:11]:
        state = PULL(bandit, state, x)
    larger = jax.jit(lambda state: bandit.extend(bandit.grow(state, 48), 20))(state)
    assert (larger.capacity, len(larger.history)) == (48, 20)
    posteriors = [POSTERIOR(bandit, s, X) for s in (state, larger)]
    for before, after in zip(*posteriors, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-9)
    assert float(larger.bound) == pytest.approx(float(state.bound), rel=1e-9)
    assert int(PULL(bandit, larger, X[11]).batch_size) == 4


def test_growing_completes_a_batch_that_exceeded_the_capacity():
    small = PointBBKB(**OPTIONS | dict(capacity=4), qbar=KEEP_ALL, ratio=1e9, max_batch=8)
    states = []
    for bandit in (small, small.replace(capacity=16)):
        state = bandit.init(2, KEY)
        for x in X[:8]:
            state = PULL(bandit, state, x)
        state, info = TELL(bandit, state, f(X[:8]), KEY)
        states.append((state, Result(int(info.result))))
    (incomplete, exceeded), (state, running) = states
    assert (exceeded, running) == (Result.CAPACITY_EXCEEDED, Result.RUNNING)
    assert bool(incomplete.stale)
    completed = GROW(small, incomplete, 16)
    assert not bool(completed.stale) and int(completed.dictionary_size) == 8
    posteriors = [POSTERIOR(small, s, X) for s in (state, completed)]
    for expected, found in zip(*posteriors, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_partition_search_covers_the_box_and_reduces_the_regret():
    """The cells partition the box. width * sd at the last pick exceeds its cell's variation."""
    box = Box(jnp.array([-1.0, 0.0]), jnp.array([2.0, 1.0]))
    bandit = BANDIT.replace(max_history=48, capacity=48)

    @jax.jit
    def run(key):
        def step(carry, i):
            state, cells = carry
            x, cells = partition.search(bandit, state, cells)
            spread = bandit.confidence_width(state) * jnp.sqrt(
                bandit.posterior(state, x[None])[1][0]
            )
            state = bandit.pull(state, x)
            y = jnp.sin(2 * x[0]) - (x[1] - 0.3) ** 2
            state, info = bandit.tell(state, y[None], jax.random.fold_in(key, i))
            return (state, cells), (x, y, spread, info.result, cells.used)

        start = (bandit.init(2, key), partition.single_cell(box, 600))
        return jax.lax.scan(step, start, jnp.arange(45))

    (_, cells), trace = run(KEY)
    xs, ys, spread, results, sizes = map(np.asarray, trace)
    used = int(cells.used)
    assert not results.any() and not bool(cells.full)
    assert 3 < used <= 600 and (np.diff(sizes) >= 0).all()
    centre, half = np.asarray(cells.centre)[:used], np.asarray(cells.half)[:used]
    assert np.prod(2 * half, 1).sum() == pytest.approx(3.0, rel=1e-12)
    points = np.random.default_rng(0).uniform([-1, 0], [2, 1], (200, 2))
    in_cell = (np.abs(points[:, None] - centre) <= half * (1 + 1e-9)).all(2)
    assert (in_cell.sum(1) == 1).all()
    cell = np.argmax((np.abs(xs[-1] - centre) < 1e-12).all(1))
    variation = VARIATION(bandit.kernel, 2.0, centre[cell][None], half[cell][None])
    assert spread[-1] > np.asarray(variation)[0]
    # the maximum is 1
    assert (1 - ys[-10:]).mean() < (1 - ys[:10]).mean() / 3


def test_a_partition_that_was_full_once_stays_flagged():
    """With a confidence width of 0 every cell is split, and with a width of 1e6 no cell is."""
    zero_width = PointBBKB(**OPTIONS, width=widths.Bayesian(0.0), max_batch=1, max_history=2)
    large_width = zero_width.replace(width=widths.Bayesian(1e6))
    state = zero_width.init(2, KEY)
    search = jax.jit(lambda bandit, cells: partition.search(bandit, state, cells)[1])
    start = partition.single_cell(Box(jnp.zeros(2), jnp.ones(2)), 5)
    assert (int(start.used), bool(start.full)) == (1, False)
    unrefined, refined = search(large_width, start), search(zero_width, start)
    assert (int(unrefined.used), bool(unrefined.full)) == (1, False)
    assert (int(refined.used), bool(refined.full)) == (5, True)
    later = search(large_width, refined)
    assert (int(later.used), bool(later.full)) == (5, True)


def test_the_variation_of_a_cell_bounds_changes_of_functions():
    """|f(x) - f(c)| is at most the variation, for random f of norm 1 and x in the cell of c."""
    random = np.random.default_rng(0)
    kernel = kernels.Matern(jnp.array([0.5, 1.0]), nu=1.5)
    centre, half = random.uniform(0, 1, (20, 2)), random.uniform(0.01, 0.4, (20, 2))
    variation = np.asarray(VARIATION(kernel, 1.0, centre, half))
    for _ in range(20):
        points, weights = random.uniform(0, 1, (6, 2)), random.standard_normal(6)
        weights /= np.sqrt(weights @ np.asarray(GRAM(kernel, points, points)) @ weights)
        x = centre + half * random.uniform(-1, 1, (20, 2))
        at_x, at_centre = (np.asarray(GRAM(kernel, c, points)) for c in (x, centre))
        change_in_kernel = at_x - at_centre
        differences = change_in_kernel @ weights
        assert (np.abs(differences) <= variation * (1 + 1e-9)).all()
