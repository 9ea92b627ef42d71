"""The papers' deterministic statements about posteriors and sketches (THEORY 1.3 to 3.1), compared
with NumPy oracles."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
from small_problems import KEY, assert_near, random_problems

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, Evaluations
from jsketch.bandits.core.sketched import residuals
from jsketch.posterior import exact
from jsketch.sketch import dictionary as dictionaries


def test_an_arm_with_1800_pulls_loses_no_digits():
    """After n pulls, a variance computed as a difference has a relative error of about n eps k(x,x)
    / lam, which is 4e-5 here, and in float32 more than 1."""
    x, lam, n_pulls = jnp.array([[0.0], [0.7], [1.1]]), 1e-8, 2000
    arms = np.where(np.arange(n_pulls) % 10 == 0, 1, 0)
    rewards = np.random.default_rng(0).standard_normal(n_pulls)
    kernel, counts, sums = kernels.Gaussian(0.5), np.bincount(arms), np.bincount(arms, rewards)

    @jax.jit
    def run(arms, rewards):
        def step(post, pull):
            return exact.observe(post, kernel, x, *pull, jnp.ones((), bool), lam)

        return jax.lax.scan(step, exact.prior(kernel, x, lam, 2), (arms, rewards))[0]

    post = run(arms, rewards)
    gram = np.asarray(kernel.gram(x[:2], x[:2]))
    # no differences are computed in (lam K^-1 + N)^-1
    covariance = np.linalg.inv(lam * np.linalg.inv(gram) + np.diag(counts))
    logdet = np.linalg.slogdet(gram / lam)[1] - np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(post.variance[:2], np.diag(covariance), rtol=1e-10)
    np.testing.assert_allclose(post.mean[:2], covariance @ sums, rtol=0, atol=1e-10)
    np.testing.assert_allclose(post.logdet, logdet, rtol=1e-10)


def test_an_observation_that_is_masked_or_overflows_changes_nothing():
    x, kernel, lam = jnp.array([[0.0], [0.7], [1.1]]), kernels.Gaussian(0.5), 0.1

    def observe(post, arm, observed):
        return exact.observe(post, kernel, x, jnp.int32(arm), 1.0, jnp.array(observed), lam)

    post = exact.prior(kernel, x, lam, 2)
    for arm in (0, 1, 1):
        post, overflow = observe(post, arm, True)
        assert not overflow
    for arm, observed, overflows in ((0, False, False), (2, False, False), (2, True, True)):
        same, overflow = observe(post, arm, observed)
        assert overflow == overflows
        jax.tree.map(np.testing.assert_array_equal, same, post)


def test_copies_of_pulled_arms_leave_a_posterior_finite():
    """The variance of a copy of a pulled arm is lam, 1,000 times below the rounding error of the
    difference that yields it. A negative difference would make the pivot negative."""
    kernel, lam = kernels.Gaussian(0.5), 1e-19

    @jax.jit
    def run(x):
        def step(post, arm):
            return exact.observe(post, kernel, x, arm, 1.0, jnp.ones((), bool), lam)

        return jax.lax.scan(step, exact.prior(kernel, x, lam, 24), jnp.arange(24))[0]

    for seed in range(8):
        x = np.random.default_rng(seed).uniform(size=(12, 2))
        post = run(jnp.asarray(np.concatenate([x, x])))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(post))
        assert (np.asarray(post.variance) >= 0).all()


def test_posteriors_of_more_arms_than_xla_processes_in_one_chunk():
    """A chunk of a loop has 16,384 floats. jaxlib 0.10.2 computes some products of 3 columns
    wrongly from row 16,384 on."""
    lengthscale, lam, pulled = np.array([0.7, 1.0, 1.3]), 0.01, np.arange(6)
    x = np.random.default_rng(0).uniform(-1, 1, (20_011, 3))
    counts = (np.arange(len(x)) < 6).astype(float)
    sums = counts * np.sin(2 * x.sum(1))
    bandit = BBKB(kernels.Gaussian(lengthscale), lam, noise_std=0.1)
    state = bandit.init(Arms(jnp.asarray(x)), KEY, data=Evaluations(counts, sums, pulled))
    rows = oracles.gaussian(x[pulled] / lengthscale, x / lengthscale, 1.0)
    explained = np.linalg.solve(rows[:, pulled] + lam * np.eye(6), rows)
    mean, variance = sums[pulled] @ explained, (1 - (rows * explained).sum(0)) / lam
    np.testing.assert_allclose(state.mean, mean, atol=1e-8)
    np.testing.assert_allclose(state.variance, variance, rtol=1e-7)
    width = float(bandit.confidence_width(state))
    scores = jax.jit(bandit.scores)(state)
    np.testing.assert_allclose(scores, mean + width * np.sqrt(variance), rtol=1e-7)


def test_variances_and_logdets_satisfy_their_bounds():
    """THEORY 2.3: dictionary arms have at most the exact variance. THEORY 2.4 bounds logdet."""
    for p in random_problems():
        _, state = p.state()
        _, covariance, logdet = oracles.exact(p.gram, p.counts, p.sums, p.lam)
        in_dictionary = p.dictionary
        upper = np.diag(covariance)[in_dictionary] * (1 + 1e-7) + 1e-9
        assert (np.asarray(state.variance)[in_dictionary] <= upper).all()
        sketched_logdet, rho = float(state.evidence.logdet), float(state.evidence.residual_sum)
        dense_residual = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)[3]
        residual = residuals(p.kernel, state)
        np.testing.assert_allclose(residual, dense_residual, atol=1e-9)
        assert (residual >= 0).all() and (residual[in_dictionary] == 0).all()
        assert_near(rho, p.counts @ dense_residual, 1e-6)
        assert sketched_logdet <= logdet * (1 + 1e-9) <= sketched_logdet + rho / p.lam + 1e-7


def test_inclusion_probabilities_are_those_of_the_paper_and_at_most_one():
    probability = dictionaries.inclusion_probability(jnp.array([0.0, 1.0, 20.0]), 0.1, 2.0)
    np.testing.assert_allclose(probability, [0, 0.2, 1], rtol=1e-15)
    # THEORY 3.2
    np.testing.assert_allclose(dictionaries.qbar_theory(1000, 0.1), 72 * np.log(40_000), rtol=1e-14)


def test_a_dictionary_is_extended_while_it_is_not_much_larger_than_a_new_draw():
    """THEORY 3.6: a dictionary is extended while the result has at most (1 + g) times the expected
    size of a new draw, and never for g below 0. The rule is tested for single values of g and for
    several values under vmap."""
    counts = jnp.arange(10.0)
    variance = jnp.full(10, 0.05)
    dictionary, _ = dictionaries.of_arms(jnp.arange(10) < 4, 10)
    added = jnp.arange(10) == 7
    probability = dictionaries.inclusion_probability(counts, variance, 2.0)
    least_growth = 5 / float(probability.sum()) - 1  # that allows five arms
    growths = jnp.array([-1.0, -1e-3, least_growth - 1e-6, least_growth + 1e-6, 1e9])
    rule = partial(dictionaries.extend, dictionary, added, probability)
    vmapped = jax.vmap(rule)(growths)
    for i, expected in enumerate([False, False, False, True, True]):
        for extended, extends in (rule(growths[i]), (vmapped[0][i], vmapped[1][i])):
            assert np.flatnonzero(extended).tolist() == [0, 1, 2, 3, 7] and extends == expected
