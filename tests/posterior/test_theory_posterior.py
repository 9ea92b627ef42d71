"""The papers' deterministic statements about posteriors and sketches (THEORY 1.3 to 3.1), against
NumPy oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import features as case_features
from small_problems import ARMS, INIT, KEY, PROBLEMS, Problem, near

from jsketch import Arms, kernels
from jsketch.bandits import BBKB, BKB
from jsketch.bandits.core.sketched import residuals
from jsketch.posterior import exact
from jsketch.sketch import dictionary as dictionaries


@pytest.fixture(scope="module")
def drawn():
    return [Problem(seed) for seed in range(PROBLEMS)]


def test_dense_posterior_is_the_ungrouped_one(drawn):
    """THEORY 1.1: counts give what the T x T history gives."""
    for p in drawn:
        mean, covariance, logdet = oracles.exact(p.gram, p.counts, p.sums, p.lam)
        dense = p.dense()
        near(dense.mean, mean)
        near(dense.covariance, covariance)
        near(dense.logdet, logdet, 1e-9)


def test_incremental_posterior_is_the_dense_one(drawn):
    """The two routes of posterior/exact; THEORY 1.3 on the way."""
    observe = jax.jit(exact.observe)
    for p in drawn[:15]:
        x = jnp.asarray(p.x)
        post = exact.prior(p.kernel, x, p.lam, ARMS)
        random = np.random.default_rng(1)
        history = np.repeat(np.arange(ARMS), p.counts.astype(int))
        total = 0.0
        for arm in random.permutation(history):
            y = p.sums[arm] / p.counts[arm]
            before = np.asarray(post.variance)
            post, overflow = observe(post, p.kernel, x, arm, y, jnp.ones((), bool), p.lam)
            after = np.asarray(post.variance)
            assert not bool(overflow)
            assert (after <= before * (1 + 1e-9) + 1e-9).all()
            near(after[arm], before[arm] / (1 + before[arm]), 1e-6)
            assert (after >= before / (1 + before[arm]) * (1 - 1e-6) - 1e-9).all()
            total += np.log1p(before[arm])
        dense = p.dense()
        near(post.mean, dense.mean, 1e-8)
        near(post.variance, dense.variance, 1e-8)
        near(post.logdet, dense.logdet, 1e-8)
        near(total, dense.logdet, 1e-7)


def test_an_arm_pulled_a_thousand_times():
    """The incremental posterior keeps its digits: taken as a difference, the variance of an arm is
    off by n^2 eps k(x,x) / (3 lam) of it after n pulls, here a thousandth, and in float32 by all of
    it."""
    x, lam, pulls = jnp.array([[0.0], [0.7], [1.1]]), 1e-8, 2000
    arms = np.where(np.arange(pulls) % 10 == 0, 1, 0)
    rewards = np.random.default_rng(0).standard_normal(pulls)
    kernel, counts, sums = kernels.Gaussian(0.5), np.bincount(arms), np.bincount(arms, rewards)

    @jax.jit
    def run(arms, rewards):
        def step(post, pull):
            return exact.observe(post, kernel, x, *pull, jnp.ones((), bool), lam)

        return jax.lax.scan(step, exact.prior(kernel, x, lam, 2), (arms, rewards))[0]

    post = run(arms, rewards)
    gram = np.asarray(kernel.gram(x[:2], x[:2]))
    # (lam K^-1 + N)^-1 has no differences in it
    covariance = np.linalg.inv(lam * np.linalg.inv(gram) + np.diag(counts))
    logdet = np.linalg.slogdet(gram / lam)[1] - np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(post.variance[:2], np.diag(covariance), rtol=1e-10)
    np.testing.assert_allclose(post.mean[:2], covariance @ sums, rtol=0, atol=1e-10)
    np.testing.assert_allclose(post.logdet, logdet, rtol=1e-10)


@pytest.mark.parametrize("lengthscale", [pytest.param(0.05, marks=pytest.mark.slow), 0.3])
def test_incremental_posterior_of_clustered_arms(lengthscale):
    """200 pulls in pull order on half of [0, 1]. On the unpivoted factor of the Gram matrix alone
    variances were off by the whole prior variance at lengthscale 0.05, and by 0.003 at 0.3."""
    kernel, lam = kernels.Gaussian(lengthscale), 0.01
    grid = jnp.linspace(0, 1, 501)[:, None]

    @jax.jit
    def run(pulls, rewards):
        def step(post, pull):
            arm, y = pull
            return exact.observe(post, kernel, grid, arm, y, jnp.ones((), bool), lam)

        return jax.lax.scan(step, exact.prior(kernel, grid, lam, 200), (pulls, rewards))

    for seed in range(10):
        random = np.random.default_rng(seed)
        pulls, rewards = random.choice(251, 200), random.standard_normal(200)
        post, overflow = run(jnp.asarray(pulls, jnp.int32), jnp.asarray(rewards))
        assert not overflow.any() and int(post.used) == len(set(pulls.tolist()))
        counts = jnp.bincount(pulls, length=501).astype(float)
        sums = jnp.asarray(np.bincount(pulls, rewards, 501))
        dense = exact.dense(kernel, grid, counts, sums, lam)
        near(post.mean, dense.mean, 1e-9)
        near(post.variance, dense.variance, 1e-9)
        near(post.logdet, dense.logdet, 1e-9)


def test_effective_dimension_chain(drawn):
    """THEORY 1.3: d_eff <= logdet <= d_eff (1 + log(1 + |K_T|/lam))."""
    for p in drawn:
        dense = p.dense()
        d_eff = float(p.counts @ np.asarray(dense.variance))
        norm = np.linalg.eigvalsh(np.sqrt(p.counts)[:, None] * p.gram * np.sqrt(p.counts)).max()
        assert d_eff <= float(dense.logdet) * (1 + 1e-9)
        assert float(dense.logdet) <= d_eff * (1 + np.log1p(norm / p.lam)) * (1 + 1e-9)


def test_sketched_posterior_is_the_oracle(drawn):
    """Eqs. 1 to 3 of BBKB for any dictionary; THEORY 2.3: residuals and embedded variances in
    range."""
    for p in drawn:
        _, state = p.state()
        mean, full, embedded, residual, logdet = oracles.sketched(
            p.gram, p.keep, p.counts, p.sums, p.lam
        )
        near(state.mean, mean)
        near(state.variance, np.diag(full))
        near(state.evidence.logdet, logdet)
        computed = np.asarray(
            residuals(p.kernel, state.nystrom, state.dictionary, state.domain.features)
        )
        np.testing.assert_allclose(computed, residual, atol=1e-9)
        assert (computed >= 0).all() and (computed[p.keep] == 0).all()
        assert (np.diag(embedded) >= 0).all()


def test_a_dictionary_of_all_pulled_arms_is_exact(drawn):
    """THEORY 2.3: mean and variance equal the exact ones, to 1e-8."""
    for p in drawn:
        _, state = p.state(np.flatnonzero(p.counts))
        dense = p.dense()
        near(state.mean, dense.mean, 1e-8)
        near(state.variance, dense.variance, 1e-8)
        near(state.evidence.logdet, dense.logdet, 1e-8)


def test_variances_against_the_exact_ones(drawn):
    """THEORY 2.3: never above the exact variance on dictionary arms; THEORY 2.4: logdet from both
    sides."""
    for p in drawn:
        _, state = p.state()
        dense = p.dense()
        on = p.keep
        assert (
            np.asarray(state.variance)[on] <= np.asarray(dense.variance)[on] * (1 + 1e-7) + 1e-9
        ).all()
        lower, rho = float(state.evidence.logdet), float(state.evidence.residual_sum)
        near(rho, p.counts @ oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)[3], 1e-6)
        assert lower <= float(dense.logdet) * (1 + 1e-9) <= lower + rho / p.lam + 1e-7


def test_empty_dictionary_is_the_prior():
    """THEORY 2.3: mean 0, variance k/lam."""
    x = case_features()
    state = BKB(kernel=kernels.Gaussian(0.5), regularization=0.5).init(Arms(x), KEY)
    np.testing.assert_array_equal(state.mean, 0)
    np.testing.assert_allclose(state.variance, 2.0)


def test_duplicates_and_padding_change_nothing(drawn):
    """THEORY 2.3: every point of the dictionary twice (as arms with the same features), and another
    capacity."""
    for p in drawn[:10]:
        _, state = p.state()
        larger = BBKB(kernel=p.kernel, regularization=p.lam, capacity=70)
        padded = INIT(larger, p.x, p.counts, p.sums, np.resize(p.keep, 32))
        near(padded.mean, state.mean, 1e-10)
        near(padded.variance, state.variance, 1e-10)
        x, zeros = np.concatenate([p.x, p.x[p.keep]]), np.zeros(6)
        twice = np.resize(np.concatenate([p.keep, ARMS + np.arange(6)]), 32)
        counts, sums = np.concatenate([p.counts, zeros]), np.concatenate([p.sums, zeros])
        doubled = INIT(larger, x, counts, sums, twice)
        near(doubled.mean[:ARMS], state.mean, 1e-8)
        near(doubled.variance[:ARMS], state.variance, 1e-8)


def test_resampling_law(drawn):
    """THEORY 3.1: E|S'| = sum min(1, qbar n sigma^2), mean over 2000 draws within 4 standard
    errors."""
    p = drawn[0]
    counts, variance = jnp.asarray(p.counts), jnp.asarray(np.full(ARMS, 0.2))
    probability = dictionaries.inclusion_probability(counts, variance, 0.7)
    assert float(probability.max()) <= 1
    draw = jax.vmap(lambda key: dictionaries.resample(key, counts, variance, 0.7, 32)[0].size)
    sizes = np.asarray(draw(jax.random.split(KEY, 2000)))
    assert abs(sizes.mean() - float(probability.sum())) < 4 * sizes.std() / np.sqrt(2000)
    assert (np.asarray(probability) >= 1 - (1 - np.minimum(0.7 * 0.2, 1)) ** p.counts - 1e-12).all()


def test_noise_projection(drawn):
    """THEORY 4.4: eta^T Z V^-1 Z^T eta <= eta^T K (K + lam I)^-1 eta, here for eta summed over the
    pulls of each arm."""
    for p in drawn:
        _, state = p.state()
        sketched, full = p.sums @ np.asarray(state.mean), p.sums @ np.asarray(p.dense().mean)
        assert 0 <= sketched <= full * (1 + 1e-9)


def test_an_accurate_dictionary_gives_accurate_variances(drawn):
    """THEORY 3.2: whatever the accuracy e0 < 1 of the weighted dictionary is, it bounds every
    variance and the residuals."""
    tested = 0
    for seed, p in enumerate(drawn):
        exact_variance = np.asarray(p.dense().variance)
        # an oversampling that keeps a good part of the pulled arms, but not all
        qbar = 0.8 / (p.counts * exact_variance)[p.counts > 0].mean()
        probability = np.asarray(dictionaries.inclusion_probability(p.counts, exact_variance, qbar))
        sampled = np.random.default_rng(seed).uniform(size=ARMS) < probability
        values, vectors = np.linalg.eigh(np.sqrt(p.counts)[:, None] * p.gram * np.sqrt(p.counts))
        root = (
            vectors * np.sqrt(np.maximum(values, 0) / (np.maximum(values, 0) + p.lam))
        ) @ vectors.T
        weights = np.where(sampled, 1 / np.maximum(probability, 1e-300), 0)
        accuracy = np.abs(np.linalg.eigvalsh(root @ np.diag(weights - 1) @ root)).max()
        if accuracy >= 1:
            continue
        tested += not sampled[p.counts > 0].all()
        alpha = (1 + accuracy) / (1 - accuracy)
        _, state = p.state(np.flatnonzero(sampled))
        variance = np.asarray(state.variance)
        assert (variance <= alpha * exact_variance * (1 + 1e-7) + 1e-9).all()
        assert (variance >= exact_variance / alpha * (1 - 1e-7) - 1e-9).all()
        z = oracles.features(p.gram, np.flatnonzero(sampled))
        weighted_residual = np.sqrt(p.counts)[:, None] * (p.gram - z @ z.T) * np.sqrt(p.counts)
        assert (
            np.linalg.eigvalsh(weighted_residual).max()
            <= accuracy * p.lam / (1 - accuracy) * (1 + 1e-7) + 1e-9
        )
    assert tested >= 5
