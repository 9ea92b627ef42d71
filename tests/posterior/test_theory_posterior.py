"""The papers' deterministic statements about posteriors and sketches (THEORY 1.3 to 3.1), against
NumPy oracles."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ARMS, INIT, KEY, PROBLEMS, Problem, near

from jsketch import kernels
from jsketch.bandits import BBKB
from jsketch.bandits.core.sketched import residuals
from jsketch.posterior import exact
from jsketch.sketch import dictionary as dictionaries


@pytest.fixture(scope="module")
def drawn():
    return [Problem(seed) for seed in range(PROBLEMS)]


def test_dense_posterior_is_the_ungrouped_one(drawn):
    """THEORY 1.1: the posterior from counts is that of the T x T Gram matrix of the history."""
    for p in drawn:
        mean, covariance, logdet = oracles.exact(p.gram, p.counts, p.sums, p.lam)
        dense = p.dense()
        near(dense.mean, mean)
        near(dense.covariance, covariance)
        near(dense.logdet, logdet, 1e-9)


def test_incremental_posterior_is_the_dense_one(drawn):
    """THEORY 1.3: the change of the variances by a pull, and the logdet as a sum of information."""
    observe = jax.jit(exact.observe)
    for p in drawn[:15]:
        x, total = jnp.asarray(p.x), 0.0
        post = exact.prior(p.kernel, x, p.lam, ARMS)
        history = np.repeat(np.arange(ARMS), p.counts.astype(int))
        for arm in np.random.default_rng(1).permutation(history):
            y, before = p.sums[arm] / p.counts[arm], np.asarray(post.variance)
            post, _ = observe(post, p.kernel, x, arm, y, jnp.ones((), bool), p.lam)
            after, least = np.asarray(post.variance), before / (1 + before[arm])
            near(after[arm], least[arm], 1e-6)
            assert (after <= before * (1 + 1e-9) + 1e-9).all()
            assert (after >= least * (1 - 1e-6) - 1e-9).all()
            total += np.log1p(before[arm])
        dense = p.dense()
        for name in ("mean", "variance", "logdet"):
            near(getattr(post, name), getattr(dense, name), 1e-8)
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


def test_variances_against_the_exact_ones(drawn):
    """THEORY 2.3: never above the exact variance on dictionary arms, whose residuals are 0; THEORY
    2.4: logdet from both sides."""
    for p in drawn:
        _, state = p.state()
        dense = p.dense()
        on = p.keep
        assert (
            np.asarray(state.variance)[on] <= np.asarray(dense.variance)[on] * (1 + 1e-7) + 1e-9
        ).all()
        lower, rho = float(state.evidence.logdet), float(state.evidence.residual_sum)
        left_out = oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)[3]
        residual = residuals(p.kernel, state.nystrom, state.dictionary, state.domain.features)
        np.testing.assert_allclose(residual, left_out, atol=1e-9)
        assert (residual >= 0).all() and (residual[on] == 0).all()
        near(rho, p.counts @ left_out, 1e-6)
        assert lower <= float(dense.logdet) * (1 + 1e-9) <= lower + rho / p.lam + 1e-7


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


def accuracy_of(gram, lam, counts, weights):
    """The smallest e with (1-e) N - e lam I <= N_S <= (1+e) N + e lam I, for N = sum_i counts_i
    phi_i phi_i^T and N_S with the weights: the norm of (N + lam I)^-1/2 (N_S - N) (N + lam
    I)^-1/2, dense."""
    values, vectors = np.linalg.eigh(gram)
    phi = vectors * np.sqrt(np.maximum(values, 0))
    inverse = np.linalg.inv(np.linalg.cholesky((phi.T * counts) @ phi + lam * np.eye(len(phi))))
    return np.abs(
        np.linalg.eigvalsh(inverse @ (phi.T * (weights - counts)) @ phi @ inverse.T)
    ).max()


def test_an_extended_dictionary_stays_accurate(drawn):
    """THEORY 3.6: with every new pull in the dictionary its accuracy does not fall, and bounds the
    variances of the extended state; without the new arms it does fall."""
    worse = 0
    for seed, p in enumerate(drawn[:20]):
        random = np.random.default_rng(seed)
        inside = (p.counts > 0) & (random.uniform(size=ARMS) < 0.7)
        weights = np.where(inside, p.counts / 0.7, 0)
        before = accuracy_of(p.gram, p.lam, p.counts, weights)
        pulls = random.poisson(0.3, ARMS).astype(float)
        after = accuracy_of(p.gram, p.lam, p.counts + pulls, weights + pulls)
        assert after <= before * (1 + 1e-7) + 1e-9
        worse += accuracy_of(p.gram, p.lam, p.counts + pulls, weights) > before
        old, _ = dictionaries.of_arms(jnp.asarray(inside), ARMS)
        added, counts = jnp.asarray(pulls > 0), jnp.asarray(p.counts + pulls)
        new, overflow, _ = dictionaries.extend_or_resample(
            KEY, old, added, counts, jnp.ones(ARMS), 2.0, ARMS
        )
        index = np.asarray(new.index)[np.asarray(new.mask)]
        assert not overflow and (index == np.flatnonzero(inside | (pulls > 0))).all()
        if after < 1:
            longer = copy.copy(p)
            longer.counts = p.counts + pulls
            _, state = longer.state(index)
            ratio = np.asarray(state.variance) / np.asarray(longer.dense().variance)
            alpha = (1 + after) / (1 - after) * (1 + 1e-7)
            assert (ratio <= alpha).all() and (ratio >= 1 / alpha).all()
    assert worse > 10


def test_when_a_dictionary_is_extended():
    """THEORY 3.6: while the extended dictionary has at most (1 + g) times the expected size of a
    fresh draw, and never for g below 0; alone and for several values of g together."""
    counts = jnp.arange(10.0)
    variance = jnp.full(10, 0.05)
    old, _ = dictionaries.of_arms(jnp.arange(10) < 4, 10)
    added = jnp.arange(10) == 7
    probability = dictionaries.inclusion_probability(counts, variance, 2.0)
    critical = 5 / float(probability.sum()) - 1
    drawn = dictionaries.resample(KEY, counts, variance, 2.0, 10)[0]

    def rule(growth):
        return dictionaries.extend_or_resample(KEY, old, added, counts, variance, 2.0, growth)[0]

    growths = jnp.array([-1.0, -1e-3, critical - 1e-6, critical + 1e-6, 1e9])
    many = jax.vmap(rule)(growths)
    for i, extends in enumerate([False, False, False, True, True]):
        expected = [0, 1, 2, 3, 7] if extends else list(np.asarray(drawn.index[drawn.mask]))
        for one in (rule(growths[i]), jax.tree.map(lambda leaf, i=i: leaf[i], many)):
            assert list(np.asarray(one.index[one.mask])) == expected


def test_an_accurate_dictionary_gives_accurate_variances(drawn):
    """THEORY 3.2: whatever the accuracy e0 < 1 of the weighted dictionary is, it bounds every
    variance and the residuals."""
    tested = 0
    for seed, p in enumerate(drawn):
        exact_variance = np.asarray(p.dense().variance)
        # an oversampling that keeps a good part of the pulled arms, but not all
        qbar = 0.8 / (p.counts * exact_variance)[p.counts > 0].mean()
        probability = np.asarray(dictionaries.inclusion_probability(p.counts, exact_variance, qbar))
        inside = np.random.default_rng(seed).uniform(size=ARMS) < probability
        weights = np.where(inside, 1 / np.maximum(probability, 1e-300), 0)
        accuracy = accuracy_of(p.gram, p.lam, p.counts, weights * p.counts)
        if accuracy >= 1:
            continue
        tested += not inside[p.counts > 0].all()
        alpha = (1 + accuracy) / (1 - accuracy)
        _, state = p.state(np.flatnonzero(inside))
        variance = np.asarray(state.variance)
        assert (variance <= alpha * exact_variance * (1 + 1e-7) + 1e-9).all()
        assert (variance >= exact_variance / alpha * (1 - 1e-7) - 1e-9).all()
        z = oracles.features(p.gram, np.flatnonzero(inside))
        left = np.sqrt(p.counts)[:, None] * (p.gram - z @ z.T) * np.sqrt(p.counts)
        assert (
            np.linalg.eigvalsh(left).max() <= accuracy * p.lam / (1 - accuracy) * (1 + 1e-7) + 1e-9
        )
    assert tested >= 5
