"""The posterior of a history and a dictionary, compared with dense NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from jsketch import kernels
from jsketch.core import posterior as posteriors

ARMS = 40
UPDATE = jax.jit(posteriors.update, static_argnums=6)
RESIDUAL_SUM = jax.jit(posteriors.residual_sum)
PREDICT = jax.jit(posteriors.predict)


class History:
    """Random arms, of which some were pulled and some pulled ones are in the dictionary."""

    def __init__(self, seed, gap=None):
        random = np.random.default_rng(seed)
        self.x = random.uniform(0, 3, (ARMS, 2))
        if gap is not None:  # the second half are copies of the first, shifted by the gap
            self.x[20:] = self.x[:20] + gap * random.choice([-1, 1], (20, 2))
        self.lengthscale = random.uniform(0.4, 1.5)
        self.lam = 10 ** random.uniform(-3, 0)
        self.counts = random.poisson(1.5, ARMS).astype(float)
        self.sums = self.counts * random.standard_normal(ARMS)
        self.inducing = (self.counts > 0) & (random.uniform(size=ARMS) < random.choice([0.5, 1]))
        self.kernel = kernels.Gaussian(self.lengthscale)
        self.gram = oracles.gaussian(self.x, self.x, self.lengthscale)

    def arguments(self, dtype=None):
        arrays = (jnp.asarray(a, dtype) for a in (self.x, self.counts, self.sums))
        return self.kernel, self.lam, *arrays, jnp.asarray(self.inducing)

    def oracle(self):
        """(mean [A], variance [A], residuals [A], logdet) in dense NumPy."""
        dictionary = np.flatnonzero(self.inducing)
        mean, full, _, residual, logdet = oracles.sketched(
            self.gram, dictionary, self.counts, self.sums, self.lam
        )
        return mean, np.diag(full), residual, logdet


@pytest.mark.parametrize("seed", range(12))
def test_the_posterior_is_that_of_dense_algebra(seed):
    history = History(seed)
    p = UPDATE(*history.arguments(), 64)
    mean, variance, residual, logdet = history.oracle()
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8 * variance.max())
    np.testing.assert_allclose(p.logdet, logdet, rtol=1e-9)
    outside = RESIDUAL_SUM(
        p, history.kernel, *(jnp.asarray(a) for a in (history.x, history.counts, history.inducing))
    )
    rho = (history.counts * np.where(history.inducing, 0, residual)).sum()
    np.testing.assert_allclose(outside, rho, atol=1e-8)
    new_mean, new_variance = PREDICT(p, history.kernel, history.lam, jnp.asarray(history.x))
    np.testing.assert_allclose(new_mean, mean, atol=1e-8)
    np.testing.assert_allclose(new_variance, variance, atol=1e-7 * variance.max())


def test_a_dictionary_of_all_pulled_arms_gives_the_exact_posterior():
    history = History(3)
    history.inducing = history.counts > 0
    p = UPDATE(*history.arguments(), 64)
    mean, covariance, logdet = oracles.exact(
        history.gram, history.counts, history.sums, history.lam
    )
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-7 * p.variance.max())
    np.testing.assert_allclose(p.logdet, logdet, rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-8, 1e-9, 0.0])
def test_near_duplicates_are_harmless(gap):
    """Both arms of a pair are in the dictionary. The bound is that of rounded kernel values: the
    exact posterior on all pulled arms needs no inverse of a nearly singular Gram matrix."""
    history = History(5, gap)
    history.counts = np.where(np.arange(ARMS) % 20 < 12, 2.0, 0.0)
    history.sums = history.counts * np.sin(history.x[:, 0])
    history.inducing, history.lam = history.counts > 0, 0.01
    p = UPDATE(*history.arguments(), 32)
    mean, covariance, _ = oracles.exact(history.gram, history.counts, history.sums, history.lam)
    variance = np.diag(covariance)
    assert np.abs(np.asarray(p.variance) - variance).max() < 2e-6 * variance.max()
    assert np.abs(np.asarray(p.mean) - mean).max() < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_the_posterior_does_not_depend_on_free_slots(seed):
    history = History(seed)
    size = int(history.inducing.sum())
    tight = UPDATE(*history.arguments(), size)
    for capacity in (size + 1, 64, 100):
        p = UPDATE(*history.arguments(), capacity)
        np.testing.assert_allclose(p.mean, tight.mean, atol=1e-10)
        np.testing.assert_allclose(p.variance, tight.variance, atol=1e-9 * tight.variance.max())
        assert int(p.rank) == int(tight.rank)


@pytest.mark.float32
@pytest.mark.parametrize("seed", range(1, 5))
def test_float32_is_within_its_bound(seed):
    """Residuals have rounding errors of about 1e-5 k(x,x), which lam divides. (For seed 0 the rank
    cut drops a point that pulled arms outside the dictionary need.)"""
    history = History(seed)
    history.lam = 0.1
    p = UPDATE(*history.arguments(jnp.float32), 64)
    assert p.mean.dtype == jnp.float32
    mean, variance, _, logdet = history.oracle()
    np.testing.assert_allclose(p.mean, mean, atol=2e-3)
    np.testing.assert_allclose(p.variance, variance, atol=2e-3 * variance.max())
    np.testing.assert_allclose(p.logdet, logdet, rtol=1e-3)


@pytest.mark.parametrize("pulled", [False, True])
def test_an_empty_dictionary_gives_the_prior(pulled):
    history = History(0)
    history.counts = history.counts * pulled
    history.sums = history.sums * pulled
    history.inducing = np.zeros(ARMS, bool)
    p = UPDATE(*history.arguments(), 16)
    np.testing.assert_array_equal(p.mean, 0)
    np.testing.assert_allclose(p.variance, 1 / history.lam)
    assert float(p.logdet) == 0


@pytest.mark.parametrize("what", ["lengthscale", "sums"])
def test_numbers_that_are_not_finite_reach_the_posterior(what):
    """A posterior of NaN hyperparameters or sums is not a plausible one."""
    history = History(0)
    if what == "lengthscale":
        history.kernel = kernels.Gaussian(jnp.nan)
    else:
        history.sums[np.argmax(history.counts)] = np.nan
    p = UPDATE(*history.arguments(), 64)
    assert np.isnan(np.asarray(p.mean)).any()


def test_vmapped_posteriors_are_those_of_single_calls():
    """Together, as on an accelerator: trip counts differ from run to run."""
    histories = [History(seed) for seed in range(4)]
    arguments = [h.arguments()[2:] for h in histories]
    kernel = kernels.Gaussian(0.7)
    update = partial(posteriors.update, kernel, 0.01)
    together = jax.jit(jax.vmap(lambda *a: update(*a, 64)))(
        *(jnp.stack(columns) for columns in zip(*arguments, strict=True))
    )
    for row, one in enumerate(arguments):
        p = UPDATE(kernel, 0.01, *one, 64)
        np.testing.assert_allclose(together.mean[row], p.mean, atol=1e-10)
        np.testing.assert_allclose(together.variance[row], p.variance, atol=1e-8)
