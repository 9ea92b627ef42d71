"""Past evaluations, dictionaries by leverage scores, and initial designs (THEORY 3.4, 3.5)."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import ARMS, ASK, GROW, KEY, TELL, Problem, assert_near
from truth import LD, cholesky, gram, solve

from jsketch import Arms, kernels, loops, problems
from jsketch.bandits import BBKB, initial
from jsketch.results import Result
from jsketch.sketch import bless
from jsketch.types import Evaluations

SQUARE = np.random.default_rng(0).uniform(0, 1, (2000, 2))


@pytest.mark.parametrize("n_seeds", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_bless_scores_are_within_a_factor_3(n_seeds):
    """In at least 95% of the seeds all 2,000 scores are within a factor 3 of the exact ones.
    Dictionaries have at most 13 d_eff arms."""
    kernel, lam, counts = kernels.Gaussian(0.2), 0.1, np.ones(2000)
    exact = bless.exact_leverage_scores(kernel, SQUARE, counts, lam)
    n_accurate, sizes = 0, []
    for seed in range(n_seeds):
        dictionary = bless.bless(kernel, SQUARE, counts, lam, jax.random.key(seed))
        ratio = bless.leverage_scores(kernel, SQUARE, counts, dictionary, lam) / exact
        n_accurate += ratio.max() < 3 and ratio.min() > 1 / 3
        sizes.append(len(dictionary.rows))
    assert n_accurate >= 0.95 * n_seeds
    assert max(sizes) <= 13 * exact.sum()


def test_leverage_scores_count_repeated_evaluations():
    """The score of an arm with n_i pulls is the sum of the scores of n_i equal points."""
    kernel, x, counts = kernels.Gaussian(0.3), SQUARE[:40], np.arange(1, 41) % 4 + 1.0
    scores = bless.exact_leverage_scores(kernel, x, counts, 0.5)
    rows = np.repeat(np.arange(40), counts.astype(int))
    single = bless.exact_leverage_scores(kernel, x[rows], np.ones(len(rows)), 0.5)
    np.testing.assert_allclose(scores, np.bincount(rows, single), rtol=1e-9)
    all_points = bless.WeightedDictionary(np.arange(40), np.ones(40))
    estimate = bless.leverage_scores(kernel, x, counts, all_points, 0.5)
    np.testing.assert_allclose(estimate, scores, rtol=1e-7)


@pytest.mark.parametrize("gap", [1e-9, 1e-7, 1e-4])
@pytest.mark.parametrize("lam", [1e-10, 1e-14, 1e-16])
def test_leverage_scores_of_near_copies_are_accurate(gap, lam):
    """Up to a factor 3, scores are at most the true ones at lam. They are at least the true ones at
    lam or, where float64 does not resolve lam, the true ones at 1e-12 k(x,x)."""
    random = np.random.default_rng(0)
    x = np.repeat(SQUARE[:10], 4, axis=0) + gap * random.standard_normal((40, 2))
    kernel, counts = kernels.Gaussian(0.5), random.integers(1, 4, 40).astype(float)
    root = np.sqrt(counts.astype(LD))
    weighted_gram = gram([("gaussian", 1, 0.5, 0)], x, x) * root[:, None] * root

    def true_scores(noise):
        half = solve(cholesky(weighted_gram + np.diag(noise)), np.eye(40))
        return (1 - noise * np.square(half).sum(0)).astype(float)

    upper = true_scores(np.full(40, LD(lam)))
    # float64 resolves lam = 1e-10
    lower = upper if lam == 1e-10 else true_scores(1e-12 * counts.astype(LD))
    exact = bless.exact_leverage_scores(kernel, x, counts, lam)
    dictionary = bless.bless(kernel, x, counts, lam, KEY)
    for scores in (exact, bless.leverage_scores(kernel, x, counts, dictionary, lam)):
        assert (lower / 3 < scores).all() and (scores < 3 * upper).all()


@pytest.mark.parametrize("method", ["bless", "leverage"])
def test_a_warm_start_with_a_sampled_dictionary_is_accurate(method):
    """Variances are within a factor 3 of the exact ones, which are the leverage scores because each
    arm has one pull."""
    x = SQUARE[:300]
    counts = np.ones(300)
    bandit = BBKB(kernels.Gaussian(0.3), 0.1, capacity=256, qbar=8.0)
    domain = Arms(jnp.asarray(x))
    state = bandit.init(domain, KEY, data=Evaluations(counts, counts, method))
    exact = bless.exact_leverage_scores(kernels.Gaussian(0.3), x, counts, 0.1)
    variance = np.asarray(state.posterior.variance)
    assert 0 < int(state.dictionary_size) < 300
    assert (variance / exact).max() < 3 and (exact / variance).max() < 3


def test_given_arms_are_those_with_whose_variances_a_dictionary_is_drawn():
    """The given arms may represent the pulled ones badly; the arms that are drawn do not, and only
    pulled arms are drawn. The information is the bound of THEORY 2.4."""
    n_others = n_residual = 0
    init = jax.jit(lambda b, arms, *data: b.init(arms, KEY, data=Evaluations(*data)))
    for seed in range(8):
        p = Problem(seed)
        bandit = BBKB(p.kernel, p.lam, qbar=0.5, capacity=ARMS)
        state = init(bandit, p.arms, p.counts, p.sums, p.dictionary)
        full = oracles.sketched(p.gram, p.dictionary, p.counts, p.sums, p.lam)[1]
        probability = np.clip(0.5 * p.counts * np.diag(full), 0, 1)
        uniform = np.asarray(jax.random.uniform(KEY, (ARMS,), state.counts.dtype))
        drawn = np.flatnonzero(uniform < probability)
        np.testing.assert_array_equal(np.flatnonzero(state.inducing), drawn)
        assert (p.counts[drawn] > 0).all() and not bool(state.stale)
        mean, full, _, residual, logdet = oracles.sketched(p.gram, drawn, p.counts, p.sums, p.lam)
        assert_near(state.posterior.mean, mean, 1e-6)
        assert_near(state.posterior.variance, np.diag(full), 1e-6)
        residual[drawn] = 0
        upper = logdet + p.counts @ residual / p.lam
        np.testing.assert_allclose(state.information, [upper, upper], rtol=1e-6)
        n_others += set(drawn) != set(p.dictionary)
        n_residual += upper > 1.1 * logdet
    assert n_others == 8 and n_residual > 0


@pytest.mark.parametrize("method", ["bless", "leverage"])
def test_the_dictionary_is_not_sampled_with_the_key_of_other_draws(method, monkeypatch):
    """The first pick and the dictionary of the first round use the key itself and other folds."""
    used_keys = []

    def recording(draw, key_position):
        def record_key(*arguments, **named):
            used_keys.append(jax.random.key_data(arguments[key_position]).tolist())
            return draw(*arguments, **named)

        return record_key

    monkeypatch.setattr(jax.random, "uniform", recording(jax.random.uniform, key_position=0))
    monkeypatch.setattr(bless, "bless", recording(bless.bless, key_position=4))
    data = Evaluations(np.ones(10), np.ones(10), method)
    BBKB(kernels.Gaussian(1.0)).init(Arms(jnp.asarray(SQUARE[:10])), KEY, data=data)
    others = [KEY, jax.random.fold_in(KEY, 0)]
    assert used_keys[0] not in [jax.random.key_data(key).tolist() for key in others]


@pytest.mark.slow
def test_uncertainty_sampling_bounds_the_variances_and_the_batches():
    """THEORY 3.5: log(1 + max variance) <= logdet / n after n arms of the design. Later batches
    have at least P (C - 1) arms, or a third of this number with a sampled dictionary; P is
    `min_size`."""
    x = SQUARE[:200]
    kernel, lam, ratio, min_size = kernels.Gaussian(0.4), 0.05, 2.5, 10
    arms = initial.uncertainty_sampling(kernel, Arms(jnp.asarray(x)), lam, 1 / min_size)
    gram = oracles.gaussian(x, x, 0.4)
    for size in (1, len(arms) // 2, len(arms)):
        counts = np.bincount(arms[:size], minlength=200).astype(float)
        _, covariance, logdet = oracles.exact(gram, counts, counts, lam)
        assert np.log1p(np.diag(covariance).max()) <= logdet / size * (1 + 1e-9)
    assert np.diag(covariance).max() <= 1 / min_size * (1 + 1e-9)
    counts_before = np.bincount(arms[:-1], minlength=200).astype(float)
    assert np.diag(oracles.exact(gram, counts_before, counts_before, lam)[1]).max() > 1 / min_size
    domain = Arms(jnp.asarray(x))
    bandit = BBKB(kernel, lam, capacity=128, ratio=ratio, max_batch=400)
    state = bandit.init(domain, KEY, data=Evaluations(counts, counts))
    # the dictionary contains every pulled arm, so that the posterior is exact
    assert int(ASK(bandit, state, domain, KEY).size) >= min_size * (ratio - 1)
    state = bandit.init(domain, KEY, data=Evaluations(counts, counts, "leverage"))
    assert int(ASK(bandit, state, domain, KEY).size) >= min_size * (ratio - 1) / 3


def test_an_initial_design_is_the_first_batch():
    x = SQUARE[:60]
    problem = problems.finite_arms(x, np.sin(4 * x[:, 0]), 0.1)
    arms = initial.uncertainty_sampling(kernels.Gaussian(0.5), problem.arms, 0.1, max_variance=0.5)
    bandit = BBKB(kernels.Gaussian(0.5), 0.1, initial=arms, max_batch=100)
    trace = loops.run(bandit, problem, KEY, 60).trace
    n, arm, round_ = len(arms), np.asarray(trace.arm), np.asarray(trace.round)
    np.testing.assert_array_equal(arm[:n], arms)
    assert (round_[:n] == 0).all() and round_[n] == 1
    # in the width, the information of the design is its logdet and not a sum over prior variances,
    # because the dictionary contains all arms of the design
    counts = np.bincount(arms, minlength=60).astype(float)
    logdet = oracles.exact(oracles.gaussian(x, x, 0.5), counts, counts, 0.1)[2]
    width = np.sqrt(0.1) + 0.1 * np.sqrt(2 * logdet + np.log(10))
    assert np.asarray(trace.width)[n] == pytest.approx(width, rel=1e-9)


def test_the_information_of_an_initial_design_does_not_depend_on_the_capacity():
    """A design of 12 arms exceeds a capacity of 4; `grow` computes the information."""
    x = jnp.asarray(np.random.default_rng(0).uniform(0, 6, (30, 2)))
    arms, y = Arms(x), jnp.sin(jnp.arange(16.0))

    @partial(jax.jit, static_argnums=0)
    def first_batch(capacity):
        bandit = BBKB(kernels.Gaussian(0.5), initial=np.arange(12), max_batch=16, capacity=capacity)
        state = bandit.init(arms, KEY)
        query = bandit.ask(state, arms, KEY)
        state, info = bandit.tell(state, arms, query, y, KEY)
        return bandit.grow(state, arms, 16), info

    (small, exceeded), (large, _) = first_batch(4), first_batch(16)
    assert int(exceeded.result) == Result.CAPACITY_EXCEEDED
    assert float(large.information[0]) > 1
    chex.assert_trees_all_close(small, large, rtol=1e-12)


def test_a_design_whose_evaluations_all_fail_is_not_asked_again():
    arms = Arms(jnp.asarray(SQUARE[:60]))
    bandit = BBKB(kernels.Gaussian(0.5), 0.1, initial=np.arange(7), max_batch=8)
    state = GROW(bandit, bandit.init(arms, KEY), arms, 80)
    query = ASK(bandit, state, arms, KEY)
    np.testing.assert_array_equal(np.asarray(query.index)[np.asarray(query.mask)], np.arange(7))
    state, _ = TELL(bandit, state, arms, query, np.full(8, np.nan), KEY)
    first = [ASK(bandit, state, arms, jax.random.key(seed)) for seed in range(5)]
    assert all(int(query.size) == 1 for query in first)
    assert len({int(np.asarray(query.index)[0]) for query in first}) > 1


def test_a_design_that_is_longer_than_the_horizon_is_refused():
    problem = problems.finite_arms(SQUARE[:60], np.zeros(60), 0.1)
    bandit = BBKB(kernels.Gaussian(0.5), 0.1, initial=np.arange(7))
    with pytest.raises(ValueError, match="initial has 7 arms, and the horizon is 6"):
        loops.run(bandit, problem, KEY, 6)
