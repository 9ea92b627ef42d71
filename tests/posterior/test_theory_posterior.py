"""The papers' deterministic statements about posteriors and sketches (THEORY 1.3 to 3.1), compared
with NumPy oracles."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
from small_problems import GRAM, INIT, KEY, SCORES, WIDTH, assert_near, random_problems

from jsketch import Arms, kernels
from jsketch.bandits import BBKB
from jsketch.core import dictionary, posterior
from jsketch.posterior import effective_dimension, exact

PROBABILITY = jax.jit(dictionary.probability)
RESIDUAL_SUM = jax.jit(posterior.residual_sum)


@jax.jit
def residuals(p, kernel, x):
    return posterior.residual(kernel.diag(x), posterior.features(p, kernel, x))


def test_an_arm_with_1800_pulls_loses_no_digits():
    """After n pulls, a variance computed as a difference has a relative error of about n eps k(x,x)
    / lam, which is 4e-5 here, and in float32 more than 1."""
    x, lam, n_pulls = jnp.array([[0.0], [0.7], [1.1]]), 1e-8, 2000
    arms = np.where(np.arange(n_pulls) % 10 == 0, 1, 0).astype(np.int32)
    rewards = np.random.default_rng(0).standard_normal(n_pulls)
    kernel, counts, sums = kernels.Gaussian(0.5), np.bincount(arms), np.bincount(arms, rewards)

    @jax.jit
    def run(arms, rewards):
        def step(post, pull):
            return exact.observe(post, kernel, x, lam, *pull, jnp.ones((), bool)), None

        return jax.lax.scan(step, exact.prior(kernel, x, lam, 2), (arms, rewards))[0]

    post = run(arms, rewards)
    gram = np.asarray(GRAM(kernel, x, x))[:2, :2]
    # no differences are computed in (lam K^-1 + N)^-1
    covariance = np.linalg.inv(lam * np.linalg.inv(gram) + np.diag(counts))
    logdet = np.linalg.slogdet(gram / lam)[1] - np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(post.variance[:2], np.diag(covariance), rtol=1e-10)
    np.testing.assert_allclose(post.mean[:2], covariance @ sums, rtol=0, atol=1e-10)
    np.testing.assert_allclose(post.logdet, logdet, rtol=1e-10)


def test_an_observation_that_is_masked_or_does_not_fit_changes_nothing():
    x, kernel, lam = jnp.array([[0.0], [0.7], [1.1]]), kernels.Gaussian(0.5), 0.1

    @jax.jit
    def observe(post, arm, observed):
        """(the posterior, whether the arm fits)."""
        fits = exact.fits(post, arm[None], observed[None])
        return exact.observe(post, kernel, x, lam, arm, 1.0, observed & fits), fits

    post = jax.jit(lambda: exact.prior(kernel, x, lam, 2))()
    for arm in (0, 1, 1):
        post, fits = observe(post, np.int32(arm), True)
        assert fits
    for arm, observed, expected in ((0, False, True), (2, False, True), (2, True, False)):
        same, fits = observe(post, np.int32(arm), observed)
        assert fits == expected
        jax.tree.map(np.testing.assert_array_equal, same, post)


def test_copies_of_pulled_arms_leave_a_posterior_finite():
    """The variance of a copy of a pulled arm is lam, 1,000 times below the rounding error of the
    difference that yields it. A negative difference would make the pivot negative."""
    kernel, lam = kernels.Gaussian(0.5), 1e-19

    @jax.jit
    def run(x):
        def step(post, arm):
            return exact.observe(post, kernel, x, lam, arm, 1.0, jnp.ones((), bool)), None

        return jax.lax.scan(step, exact.prior(kernel, x, lam, 24), jnp.arange(24, dtype=jnp.int32))[
            0
        ]

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
    state, arms = INIT(bandit, x, counts, sums, pulled), Arms(jnp.asarray(x))
    rows = oracles.gaussian(x[pulled] / lengthscale, x / lengthscale, 1.0)
    explained = np.linalg.solve(rows[:, pulled] + lam * np.eye(6), rows)
    mean, variance = sums[pulled] @ explained, (1 - (rows * explained).sum(0)) / lam
    np.testing.assert_allclose(state.posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(state.posterior.variance, variance, rtol=1e-7)
    width, scores = float(WIDTH(bandit, state, arms)), SCORES(bandit, state, arms)
    np.testing.assert_allclose(scores, mean + width * np.sqrt(variance), rtol=1e-7)


def test_variances_and_logdets_satisfy_their_bounds():
    """THEORY 2.3: dictionary arms have at most the exact variance. THEORY 2.4 bounds logdet."""
    for p in random_problems():
        _, state = p.state()
        _, covariance, logdet = oracles.exact(p.gram, p.counts, p.sums, p.lam)
        in_dictionary = p.dictionary
        upper = np.diag(covariance)[in_dictionary] * (1 + 1e-7) + 1e-9
        assert (np.asarray(state.posterior.variance)[in_dictionary] <= upper).all()
        sketched_logdet = float(state.posterior.logdet)
        history = p.arms.features, state.counts, state.inducing
        rho = float(RESIDUAL_SUM(state.posterior, p.kernel, *history))
        dense_residual = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)[3]
        residual = residuals(state.posterior, p.kernel, p.arms.features)
        np.testing.assert_allclose(residual, dense_residual, atol=1e-9)
        assert (residual >= 0).all()
        assert_near(rho, p.counts @ dense_residual, 1e-6)
        assert sketched_logdet <= logdet * (1 + 1e-9) <= sketched_logdet + rho / p.lam + 1e-7


def test_inclusion_probabilities_are_those_of_the_paper_and_at_most_one():
    probability = PROBABILITY(np.array([0.0, 1.0, 20.0]), 0.1, 2.0)
    np.testing.assert_allclose(probability, [0, 0.2, 1], rtol=1e-15)
    # THEORY 3.2
    np.testing.assert_allclose(dictionary.qbar_theory(1000, 0.1), 72 * np.log(40_000), rtol=1e-14)


def test_a_dictionary_is_extended_while_it_is_not_much_larger_than_a_new_draw():
    """THEORY 3.6: a dictionary is extended while the result has at most (1 + g) times the expected
    size of a new draw, for single values of g and for several values under vmap."""
    extended = np.isin(np.arange(10), [0, 1, 2, 3, 7])
    probability = np.asarray(PROBABILITY(np.arange(10.0), np.full(10, 0.05), 2.0))
    np.testing.assert_allclose(probability, np.minimum(1, np.arange(10) / 10))
    least_growth = 5 / float(probability.sum()) - 1  # that allows five arms
    growths = np.array([-1.0, 0.0, least_growth - 1e-6, least_growth + 1e-6, 1e9])
    may_extend = jax.jit(partial(dictionary.may_extend, extended, probability))
    vmapped = np.asarray(jax.jit(jax.vmap(may_extend))(growths))
    for i, expected in enumerate([False, False, False, True, True]):
        assert bool(may_extend(growths[i])) == bool(vmapped[i]) == expected


def test_a_draw_takes_each_arm_with_its_probability():
    """Of 4,000 draws, the frequency of an arm is within 4.5 standard errors of its probability. An
    arm that was not pulled is never drawn, and one of probability 1 always."""
    probability = PROBABILITY(np.arange(11.0), np.full(11, 0.05), 2.0)
    draw = jax.jit(jax.vmap(dictionary.draw, (0, None)))
    draws = draw(jax.random.split(KEY, 4000), probability)
    p, frequency = np.asarray(probability), np.asarray(draws).mean(0)
    assert (np.abs(frequency - p) <= 4.5 * np.sqrt(p * (1 - p) / 4000)).all()


def test_the_effective_dimension_is_the_sum_of_the_variances_of_the_evaluations():
    """THEORY 1.3 (BKB eq. 5), with arms that are pulled several times and arms without a pull."""
    for p in random_problems()[:5]:
        repeated = np.repeat(np.arange(len(p.x)), p.counts.astype(int))
        gram = p.gram[np.ix_(repeated, repeated)]
        inverse = np.linalg.inv(gram + p.lam * np.eye(len(repeated)))
        d_eff = effective_dimension(p.kernel, jnp.asarray(p.x), p.lam, jnp.asarray(p.counts))
        assert_near(d_eff, np.trace(gram @ inverse), 1e-8)
        explained = np.einsum("ij,jk,ik->i", gram, inverse, gram)
        assert_near(d_eff, (1 - explained).sum() / p.lam, 1e-8)
    # without counts each point is evaluated once
    points = jnp.eye(3)
    assert_near(effective_dimension(kernels.Linear(), points, 0.5), 2.0, 1e-12)
