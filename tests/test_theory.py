"""The deterministic statements of the papers' theory, on hundreds of small random problems against NumPy oracles.

B-numbers name the statements: B1 to B13 posteriors and sketches, B16 to B23 ratios and batches, B26, B27 confidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import features as case_features

from jsketch import Arms, kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPUCB, widths
from jsketch.posterior import exact
from jsketch.sketch import dictionary as dictionaries

PROBLEMS = 40
ARMS = 30
KEY = jax.random.key(0)
INIT = jax.jit(
    lambda bandit, x, counts, sums, keep: bandit.init(
        Arms(x), KEY, pull_counts=counts, reward_sums=sums, dictionary=keep
    )
)
ASK = jax.jit(lambda bandit, state: bandit.ask(state, KEY))
DENSE = jax.jit(exact.dense)


class Problem:
    """A random problem: arms, counts, rewards, and a dictionary of 6 arms, half of them pulled."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.x = random.uniform(0, 2, (ARMS, 2))
        self.lengthscale = random.uniform(0.3, 2)
        self.lam = 10 ** random.uniform(-3, 0)
        self.counts = random.poisson(random.uniform(0.3, 3), ARMS).astype(float)
        self.counts[random.integers(ARMS)] += 1
        self.sums = self.counts * random.standard_normal(ARMS)
        self.keep = np.sort(random.choice(ARMS, 6, replace=False))
        self.kernel = kernels.Gaussian(self.lengthscale)
        self.gram = oracles.gaussian(self.x, self.x, self.lengthscale)

    def state(self, keep=None, **options):
        keep = self.keep if keep is None else keep
        options = dict(kernel=self.kernel, regularization=self.lam, capacity=32) | options
        bandit = BBKB(**options)
        return bandit, INIT(bandit, self.x, self.counts, self.sums, np.resize(keep, 32))

    def dense(self):
        return DENSE(
            self.kernel, jnp.asarray(self.x), jnp.asarray(self.counts), jnp.asarray(self.sums), self.lam
        )


@pytest.fixture(scope="module")
def drawn():
    return [Problem(seed) for seed in range(PROBLEMS)]


def near(actual, desired, tolerance=1e-7):
    np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance * np.max(np.abs(desired)))


def test_dense_posterior_is_the_ungrouped_one(drawn):
    """B4: counts give what the T x T history gives."""
    for p in drawn:
        mean, covariance, logdet = oracles.exact(p.gram, p.counts, p.sums, p.lam)
        dense = p.dense()
        near(dense.mean, mean)
        near(dense.covariance, covariance)
        near(dense.logdet, logdet, 1e-9)


def test_incremental_posterior_is_the_dense_one(drawn):
    """The two routes of posterior/exact; B1 and B2 on the way."""
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


def test_effective_dimension_chain(drawn):
    """B3: d_eff <= logdet <= d_eff (1 + log(1 + |K_T|/lam))."""
    for p in drawn:
        dense = p.dense()
        d_eff = float(p.counts @ np.asarray(dense.variance))
        norm = np.linalg.eigvalsh(np.sqrt(p.counts)[:, None] * p.gram * np.sqrt(p.counts)).max()
        assert d_eff <= float(dense.logdet) * (1 + 1e-9)
        assert float(dense.logdet) <= d_eff * (1 + np.log1p(norm / p.lam)) * (1 + 1e-9)


def test_sketched_posterior_is_the_oracle(drawn):
    """Eqs. 1 to 3 of BBKB for any dictionary; B6: residuals and embedded variances in range."""
    for p in drawn:
        _, state = p.state()
        mean, full, embedded, residual, logdet = oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)
        near(state.mean, mean)
        near(state.variance, np.diag(full))
        near(state.evidence.logdet, logdet)
        np.testing.assert_allclose(state.residual, residual, atol=1e-9)
        assert (np.asarray(state.residual) >= 0).all() and (np.asarray(state.residual)[p.keep] == 0).all()
        assert (np.diag(embedded) >= 0).all()


def test_a_dictionary_of_all_pulled_arms_is_exact(drawn):
    """B5: mean and variance equal the exact ones, to 1e-8."""
    for p in drawn:
        _, state = p.state(np.flatnonzero(p.counts))
        dense = p.dense()
        near(state.mean, dense.mean, 1e-8)
        near(state.variance, dense.variance, 1e-8)
        near(state.evidence.logdet, dense.logdet, 1e-8)


def test_variances_against_the_exact_ones(drawn):
    """B7: never above the exact variance on dictionary arms; B9: logdet from both sides."""
    for p in drawn:
        _, state = p.state()
        dense = p.dense()
        on = p.keep
        assert (np.asarray(state.variance)[on] <= np.asarray(dense.variance)[on] * (1 + 1e-7) + 1e-9).all()
        lower, rho = float(state.evidence.logdet), float(state.evidence.residual_sum)
        near(rho, p.counts @ oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)[3], 1e-6)
        assert lower <= float(dense.logdet) * (1 + 1e-9) <= lower + rho / p.lam + 1e-7


def test_empty_dictionary_is_the_prior():
    """B6: mean 0, variance k/lam."""
    x = case_features()
    state = BKB(kernel=kernels.Gaussian(0.5), regularization=0.5).init(Arms(x), KEY)
    np.testing.assert_array_equal(state.mean, 0)
    np.testing.assert_allclose(state.variance, 2.0)


def test_duplicates_and_padding_change_nothing(drawn):
    """B8: every point of the dictionary twice (as arms with the same features), and another capacity."""
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
    """B13: E|S'| = sum min(1, qbar n sigma^2), mean over 2000 draws within 4 standard errors."""
    p = drawn[0]
    counts, variance = jnp.asarray(p.counts), jnp.asarray(np.full(ARMS, 0.2))
    probability = dictionaries.inclusion_probability(counts, variance, 0.7)
    assert float(probability.max()) <= 1
    draw = jax.vmap(lambda key: dictionaries.resample(key, counts, variance, 0.7, 32)[0].size)
    sizes = np.asarray(draw(jax.random.split(KEY, 2000)))
    assert abs(sizes.mean() - float(probability.sum())) < 4 * sizes.std() / np.sqrt(2000)
    assert (np.asarray(probability) >= 1 - (1 - np.minimum(0.7 * 0.2, 1)) ** p.counts - 1e-12).all()


def batches_of(p, ratio, **options):
    options = dict(noise_std=0.3, norm_bound=1.0, max_batch=60, ratio=ratio) | options
    bandit, state = p.state(**options)
    query = ASK(bandit, state)
    return bandit, state, np.asarray(query.index)[np.asarray(query.mask)]


def bounds(p, batch):
    """Running global, local (k~) and local (e) bounds along a batch, maximal over the arms."""
    _, full, embedded, _, _ = oracles.sketched(p.gram, p.keep, p.counts, p.sums, p.lam)
    variance = np.diag(full)
    sums = [1 + np.cumsum(np.square(c[batch]) / variance, 0) for c in (full, embedded)]
    return 1 + np.cumsum(variance[batch]), sums[0], sums[1]


@pytest.mark.parametrize("ratio", [1.5, 4.0])
def test_ratio_bounds_hold(drawn, ratio):
    """B16 (Lemma 1), B18 with e, B21: the true variance ratio of every arm at every step of the batch."""
    longest = 0
    for p in drawn:
        _, _, batch = batches_of(p, ratio)
        total, _, with_e = bounds(p, batch)
        start = oracles.embedded_after(p.gram, p.keep, p.counts, np.array([], int), p.lam)
        for size in range(1, len(batch) + 1):
            after = oracles.embedded_after(p.gram, p.keep, p.counts, batch[:size], p.lam)
            true = start / after
            assert (true <= total[size - 1] * (1 + 1e-6)).all()
            assert (true <= with_e[size - 1] * (1 + 1e-6)).all()
        assert (total[:-1] <= ratio * (1 + 1e-9)).all()
        assert total[-1] > ratio * (1 - 1e-9) or len(batch) == 60
        longest = max(longest, len(batch))
    assert longest > 1


def test_batches_are_those_of_the_oracle(drawn):
    """The picks of the lazy route: argmax of mean + width sd, variances recomputed from scratch at each pick."""
    for p in drawn[:20]:
        bandit, state, batch = batches_of(p, 3.0)
        width, mean = float(bandit.confidence_width(state)), np.asarray(state.mean)
        picks = []
        for _ in range(len(batch)):
            variance = oracles.embedded_after(p.gram, p.keep, p.counts, np.array(picks, int), p.lam)
            picks.append(int(np.argmax(mean + width * np.sqrt(variance))))
        np.testing.assert_array_equal(batch, picks)


def test_global_local_extends_global_and_stops_strictly(drawn):
    """B23 and theory.md F2: a superset, ended at the first step at which both bounds exceed C; B17's order of bounds."""
    longer = 0
    for p in drawn:
        _, _, short = batches_of(p, 6.0)
        _, _, batch = batches_of(p, 6.0, rule="global_local")
        np.testing.assert_array_equal(batch[: len(short)], short)
        longer += len(batch) > len(short)
        total, with_k, with_e = bounds(p, batch)
        assert (with_k.max(1) <= total * (1 + 1e-7)).all()
        over = (total > 6.0) & (with_k.max(1) > 6.0)
        assert not over[:-1].any() and (over[-1] or len(batch) == 60)
        _, _, guaranteed = batches_of(p, 6.0, rule="global_local", local_statistic="guaranteed")
        total, with_k, with_e = bounds(p, guaranteed)
        over = (total > 6.0) & (np.maximum(with_k, with_e).max(1) > 6.0)
        assert not over[:-1].any() and (over[-1] or len(guaranteed) == 60)
    assert longer >= 5


def test_the_printed_local_bound_is_no_bound():
    """B18's counterexample to Lemma 3 with k~: ratio 1.83 at arm 1, k~-bound 1.0, e-bound 6.0."""
    phi = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]])
    gram, keep, counts = phi @ phi.T, np.array([2]), np.zeros(3)
    _, full, embedded, _, _ = oracles.sketched(gram, keep, counts, counts, 0.1)
    bandit = BBKB(kernel=kernels.Linear(), regularization=0.1, capacity=4)
    with pytest.warns(UserWarning, match="same value for every arm"):
        state = bandit.init(
            Arms(jnp.asarray(phi)), KEY, pull_counts=counts, reward_sums=counts, dictionary=keep
        )
    near(state.variance, np.diag(full))
    ratio = full[0, 0] / oracles.embedded_after(gram, keep, counts, np.array([1]), 0.1)[0]
    assert ratio == pytest.approx(1.83, abs=0.01)
    assert 1 + full[0, 1] ** 2 / full[0, 0] == pytest.approx(1.0, abs=1e-9)
    assert 1 + embedded[0, 1] ** 2 / full[0, 0] == pytest.approx(6.0, abs=1e-6)


def test_gp_ucb_is_the_oracle_for_50_steps():
    """Exact GP-UCB against one posterior from scratch a step."""
    x = case_features()
    problem = problems.finite_arms(x, jnp.sin(4 * x[:, 0]), 0.1)
    bandit = GPUCB(kernel=kernels.Gaussian(0.5), regularization=0.01, noise_std=0.1, delta=0.1)
    trace = loops.run(bandit, problem, KEY, 50).trace
    noise = np.asarray(trace.reward - problem.mean_reward[trace.arm])
    gram = oracles.gaussian(np.asarray(x), np.asarray(x), 0.5)
    picks = oracles.gp_ucb_picks(
        gram, np.asarray(problem.mean_reward), noise, int(trace.arm[0]), 0.01, 1.0, 0.1, 0.1
    )
    np.testing.assert_array_equal(trace.arm, picks)


def test_ratio_one_is_bkb():
    """B22: C = 1 gives batches of one, and BKB's picks when both have one width."""
    x = case_features()
    problem = problems.finite_arms(x, jnp.sin(4 * x[:, 0]), 0.1)
    options = dict(
        kernel=kernels.Gaussian(0.5), regularization=0.01, noise_std=0.1, delta=0.1, width=widths.bkb_code
    )
    single = loops.run(BKB(**options), problem, KEY, 60).trace
    batched = loops.run(BBKB(**options, ratio=1.0, max_batch=8), problem, KEY, 60).trace
    np.testing.assert_array_equal(single.arm, batched.arm)
    assert int(batched.batch_size.max()) == 1


def test_noiseless_confidence(drawn):
    """B26: |mu~ - f| <= F (sqrt lam + sqrt rho) sigma~ for any dictionary; the `code` bias alone is not enough (C-A15)."""
    failures = 0
    for p in drawn:
        random = np.random.default_rng(2)
        weights = random.standard_normal(ARMS)
        f = p.gram @ weights
        norm = np.sqrt(weights @ f)
        bandit = BBKB(
            kernel=p.kernel, regularization=p.lam, capacity=32, noise_std=0.0, norm_bound=norm, ratio=1.0
        )
        bandit = bandit.replace(width=widths.certified)
        state = INIT(bandit, p.x, p.counts, p.counts * f, np.resize(p.keep, 32))
        error, sd = np.abs(np.asarray(state.mean) - f), np.sqrt(np.asarray(state.variance))
        assert (error <= float(bandit.confidence_width(state)) * sd * (1 + 1e-6) + 1e-8).all()
        failures += (error > np.sqrt(p.lam) * norm * sd * (1 + 1e-6)).any()
    assert failures > 0
