"""Tests of the pick that ends a batch, and of residual variances that are exactly zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import ARMS, ASK, KEY, Problem, assert_near, batch_of, bounds

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, widths
from jsketch.bandits.bbkb import REBUILD
from jsketch.core import local_rule, posterior, working_set
from jsketch.results import Result
from jsketch.types import Evaluations

EMBED = jax.jit(posterior.embed)
REFRESH = jax.jit(
    lambda bandit, state, arms, size: bandit.refresh(bandit.resize(state, arms, size), arms, KEY),
    static_argnums=3,
)


def local_bounds(p, kernel, lam, x, arms, n_picks, guaranteed):
    """Local bounds [A] of the first `n_picks` arms. Bounds of at least 1 exceed the ratio 0, so
    that the bounds of all arms are computed."""
    batch = working_set.empty(p, p.mean, len(arms))._replace(arms=arms, size=n_picks)
    before = jnp.ones_like(p.mean)
    return local_rule.local_bounds(p, kernel, lam, x, batch, before, 0.0, guaranteed)


def picks_of(p, ratio, **options):
    """The picks of a batch whose width does not depend on C, so that C determines only its end."""
    return batch_of(p, ratio, width=widths.Bayesian(1.0), **options)[2]


def bounds_of(p, batch, local, over_arms=lambda table: table.max(1)):
    """The global bound after each pick if `local` is None, else `over_arms` of the local bounds
    [B,A], by default their maximum over the arms."""
    global_bounds, full, embedded = bounds(p, batch)
    if local is None:
        return global_bounds
    return over_arms(np.maximum(full, embedded) if local == "guaranteed" else full)


@pytest.mark.parametrize("local", [None, "full", "guaranteed"])
def test_a_batch_ends_with_the_pick_whose_bound_exceeds_c(local):
    """A pick is the last if C is a millionth below the bound after this pick. If C is a millionth
    above this bound, one more pick follows."""
    options = {} if local is None else dict(rule="global_local", local_statistic=local)
    n_sensitive = 0
    for seed in range(12):
        p = Problem(seed)
        batch = picks_of(p, 40.0, **options)
        bounds_after = bounds_of(p, batch, local)
        for pick in range(min(len(batch) - 1, 6)):
            if bounds_after[pick + 1] < bounds_after[pick] * 1.001:
                continue  # the next pick may have the same bound
            picks = picks_of(p, bounds_after[pick] * (1 - 1e-6), **options)
            np.testing.assert_array_equal(picks, batch[: pick + 1])
            picks = picks_of(p, bounds_after[pick] * (1 + 1e-6), **options)
            np.testing.assert_array_equal(picks, batch[: pick + 2])
            # a millionth of the bound is below 1e-4, so that an end at C + 1e-4 would be detected
            n_sensitive += bounds_after[pick] < 50
    assert n_sensitive >= 10


@pytest.mark.parametrize("strict", [True, False])
def test_a_nan_variance_ends_its_batch(strict):
    """A batch without an end would keep all runs of a vmap from ending."""
    p = Problem(0)
    bandit, state = p.state(max_batch=60, rule="global_local", strict=strict)
    variance = np.where(np.arange(ARMS) == 3, np.nan, state.posterior.variance)
    broken = state.posterior.replace(variance=variance)
    query = ASK(bandit, state.replace(posterior=broken), p.arms, KEY)
    assert 1 <= int(query.size) < 60


@pytest.mark.parametrize("chunks", [(1024, 32), (7, 2)], ids=["one_chunk", "chunks"])
def test_local_bounds_of_all_arms_are_those_of_lemma_3(chunks, monkeypatch):
    """The bound of `guaranteed` sums squares of full or of embedded covariances, the larger sum."""
    monkeypatch.setattr(local_rule, "BOUNDS_TOGETHER", chunks[0])
    monkeypatch.setattr(local_rule, "TERMS_TOGETHER", chunks[1])
    program = jax.jit(local_bounds, static_argnums=6)
    n_different = 0
    for seed in range(16):
        p = Problem(seed)
        _, state = p.state()
        picks = np.random.default_rng(seed).integers(0, ARMS, 7)
        arms = np.append(picks, [0, 0, 0])  # free slots
        for guaranteed in (False, True):
            expected = bounds_of(p, picks, "guaranteed" if guaranteed else "full", np.asarray)[-1]
            slots, n_picks = arms.astype(np.int32), np.asarray(7, np.int32)
            model = state.posterior, p.kernel, p.lam, p.arms.features
            actual = program(*model, slots, n_picks, guaranteed)
            assert_near(actual, expected)
        n_different += (expected > bounds_of(p, picks, "full", np.asarray)[-1] * 1.01).any()
    assert n_different >= 1


def test_the_variance_of_a_dictionary_arm_is_its_embedded_part():
    """At lam = 1e-9 the rounding error of a residual would add a millionth to a variance of 1."""
    for seed in range(5):
        p = Problem(seed)
        p.lam = 1e-9
        p.counts[p.dictionary] += 1
        _, state = p.state()
        u = np.asarray(EMBED(state.posterior, p.kernel, p.x[p.dictionary]))
        variance = np.asarray(state.posterior.variance)[p.dictionary]
        np.testing.assert_allclose(variance, np.square(u).sum(1), rtol=1e-11)


def test_a_dictionary_may_fill_its_capacity():
    p = Problem(0)
    for size, expected in ((6, Result.RUNNING), (5, Result.CAPACITY_EXCEEDED)):
        bandit, state = p.state(dictionary=np.arange(6))
        rebuilt = state.replace(due=np.asarray(REBUILD, np.int32))
        new, result = REFRESH(bandit, rebuilt, p.arms, size)
        assert int(result) == expected and bool(new.stale) == (expected != Result.RUNNING)
        assert int(new.dictionary_size) == 6
        if expected == Result.RUNNING:
            assert_near(new.posterior.mean, state.posterior.mean)
            assert_near(new.posterior.variance, state.posterior.variance)


@pytest.mark.parametrize("rule", ["global", "global_local"])
def test_with_a_ratio_of_one_a_batch_is_one_pull_of_an_arm_without_variance(rule):
    """The linear kernel has no variance at zero, so that the bound of Lemma 1 stays 1."""
    arms = Arms(jnp.asarray([[0.0], [-1.0], [-2.0]]))
    bandit = BBKB(kernels.Linear(1.0), 0.01, ratio=1.0, rule=rule, max_batch=20)
    data = Evaluations(jnp.asarray([1.0, 9.0, 9.0]), jnp.asarray([0.0, -9.0, -18.0]))
    query = jax.jit(lambda: bandit.ask(bandit.init(arms, KEY, data=data), arms, KEY))()
    np.testing.assert_array_equal(np.asarray(query.index)[np.asarray(query.mask)], [0])
