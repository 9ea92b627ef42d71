"""Low-rank updates, compared with the posterior from scratch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import kernels
from jsketch.core import low_rank, posterior

ARMS, CAPACITY = 80, 64
UPDATE = jax.jit(posterior.update, static_argnums=6)
LOW_RANK = jax.jit(low_rank.update_low_rank)


class Run:
    """Pulls of random arms, all of which are in the dictionary."""

    def __init__(self, seed, lam, lengthscale=0.4, dtype=None):
        self.random = np.random.default_rng(seed)
        self.x = jnp.asarray(self.random.uniform(0, 6, (ARMS, 2)), dtype)
        self.kernel, self.lam = kernels.Gaussian(lengthscale), lam
        self.counts, self.sums = jnp.zeros(ARMS, self.x.dtype), jnp.zeros(ARMS, self.x.dtype)
        self.posterior = self.from_scratch()

    def from_scratch(self):
        history = self.x, self.counts, self.sums, self.counts > 0
        return UPDATE(self.kernel, self.lam, *history, CAPACITY)

    def pull(self, arms):
        """Whether an update by these pulls is accurate; `posterior` is the updated one."""
        pulls = jnp.asarray(np.bincount(arms, minlength=ARMS), self.x.dtype)
        rewards = pulls * jnp.asarray(self.random.standard_normal(ARMS), self.x.dtype)
        added = (pulls > 0) & (self.counts == 0)
        self.posterior, accurate = LOW_RANK(
            self.kernel, self.lam, self.posterior, self.x, pulls, rewards, added
        )
        self.counts, self.sums = self.counts + pulls, self.sums + rewards
        return bool(accurate)


def error_of(updated, expected):
    """The largest error of a variance, relative to the largest variance."""
    found, variance = (np.asarray(p.variance, float) for p in (updated, expected))
    return np.abs(found - variance).max() / variance.max()


@pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-8, 1.0])
def test_updates_are_the_posterior_from_scratch(lam):
    """Batches of several sizes contain arms of the dictionary and new arms. For lam = 1e-8 an error
    of 1e-16 of a kernel value is one of 1e-8 in a variance."""
    run, n_accurate = Run(0, lam), 0
    for n_pulls in (1, 2, 20, 5, 9, 3, 1, 1):
        if not run.pull(run.random.choice(ARMS, n_pulls)):
            run.posterior = run.from_scratch()
            continue
        n_accurate += 1
        expected = run.from_scratch()
        assert error_of(run.posterior, expected) < 1e-7
        np.testing.assert_allclose(run.posterior.mean, expected.mean, atol=1e-7)
        np.testing.assert_allclose(run.posterior.logdet, expected.logdet, rtol=1e-9)
    assert n_accurate >= 5


def test_no_pull_changes_nothing():
    run = Run(1, 0.01)
    assert run.pull(np.arange(10))
    before = run.posterior
    assert run.pull(np.zeros(0, int))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(run.posterior), strict=True):
        np.testing.assert_array_equal(old, new)


def test_points_that_depend_on_the_dictionary_are_refused():
    """Arm 1 is at a distance of 1e-6 of arm 0, and the residual of arm 2 is large."""
    for arms, accurate in (([0], True), ([1], False), ([2], True), ([0, 1], False)):
        run = Run(2, 0.01)
        run.x = run.x.at[1].set(run.x[0] + 1e-6)
        run.pull([0])
        assert run.pull(arms) == accurate


def test_points_beyond_the_capacity_are_refused():
    run = Run(3, 0.01, lengthscale=0.1)
    for begin in range(0, CAPACITY, 16):
        assert run.pull(np.arange(begin, begin + 16))
    assert int(run.posterior.rank) == CAPACITY
    assert run.pull([0, 5, 5])
    assert not run.pull([CAPACITY])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
def test_two_hundred_rounds_stay_accurate(dtype, lam):
    """The posterior is computed from scratch where an update is refused, and when `needs_rebuild`
    asks for it, as in a run. In float32 the error is at most 1e-3 of the largest variance."""
    run, refused, largest = Run(4, lam, dtype=dtype), 0, 0.0
    double = Run(4, lam)
    for _ in range(200):
        arms = run.random.choice(60, run.random.integers(1, 6))
        before, kept = run.counts, run.pull(arms)
        refused += not kept
        if not kept or low_rank.needs_rebuild(before, run.counts):
            run.posterior = run.from_scratch()
        double.counts, double.sums = run.counts.astype(float), run.sums.astype(float)
        expected = double.from_scratch()
        largest = max(largest, error_of(run.posterior, expected))
    print(f"largest error {largest:.1e}, {refused} of 200 updates refused")
    assert largest < (1e-9 if dtype == "float64" else 1e-3)
    assert refused < (60 if dtype == "float64" else 201)


def test_vmapped_updates_are_those_of_single_calls():
    """Together, as on an accelerator: a run with fewer pulls takes steps that change nothing."""
    runs = [Run(seed, 0.01) for seed in range(3)]
    pulled = [np.arange(3), np.arange(11), np.zeros(0, int)]
    pulls = jnp.stack([jnp.asarray(np.bincount(a, minlength=ARMS), float) for a in pulled])
    arguments = [jnp.stack([run.x for run in runs]), pulls, 0.5 * pulls, pulls > 0]
    kernel = runs[0].kernel
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[run.posterior for run in runs])
    together, accurate = jax.jit(
        jax.vmap(lambda p, *a: low_rank.update_low_rank(kernel, 0.01, p, *a))
    )(stacked, *arguments)
    assert accurate.all()
    for row, run in enumerate(runs):
        one, _ = LOW_RANK(kernel, 0.01, run.posterior, *(a[row] for a in arguments))
        np.testing.assert_allclose(together.variance[row], one.variance, atol=1e-9)
        np.testing.assert_allclose(together.weights[row], one.weights, atol=1e-9)
