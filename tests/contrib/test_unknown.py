"""Lengthscale Balancing and the lower bound on |f| by dense matrices, and their guarantees."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import GROW, KEY, PROBLEMS, TELL, Problem

from jsketch import Arms, Query, kernels, loops, problems
from jsketch.bandits import BBKB, BKB, GPUCB, widths
from jsketch.contrib import LengthscaleBalancing, NormDoubling
from jsketch.contrib.unknown import lengthscale_balancing as balancing
from jsketch.contrib.unknown import norm as norms
from jsketch.results import Result
from jsketch.types import Evaluations

A, T, LAM, XI, NORM, DELTA = 24, 36, 0.05, 0.2, 1.5, 0.1
SCALES = (1.2, 0.6, 0.3)
BOUNDS = [NORM * (SCALES[0] / scale) for scale in SCALES]
X = np.random.default_rng(0).uniform(0, 2, (A, 2))
GRAMS = [oracles.gaussian(X, X, scale) for scale in SCALES]
F = GRAMS[2][:, 5] * 2 - GRAMS[2][:, 11]
NOISE = 0.01 * np.random.default_rng(1).standard_normal(T)
DOMAIN = Arms(jnp.asarray(X))
COMMON = dict(kernel=kernels.Gaussian(9.0), regularization=LAM, noise_std=XI, norm_bound=NORM)
EXACT = GPUCB(**COMMON, delta=DELTA, width=widths.mixture, capacity=A)
SKETCH = BKB(**COMMON, delta=DELTA, width=widths.certified_mixture, capacity=A, qbar=3.0)
LOWER_BOUND = jax.jit(norms.norm_lower_bound)
DOUBLE_UNTIL = jax.jit(norms.double_until)
CHOOSE = jax.jit(lambda bandit, state, arms: bandit.choose_candidate(state, arms))
LIKELIHOOD = jax.jit(norms.log_likelihood_bound)
BANDIT = LengthscaleBalancing(EXACT.replace(width=widths.Bayesian(0.1)), SCALES, delta=0.999)


def suspected_order(pulls):
    """The formula of the suspected order of regret at n + 1 pulls, Gaussian kernel, d = 2."""
    n = pulls + 1
    gamma = np.log(n) ** 3 / np.square(SCALES)
    return np.sqrt(n) * (np.array(BOUNDS) * np.sqrt(gamma) + gamma)


def deviation(n, delta):
    return XI * np.sqrt(2 * np.log(len(SCALES) * np.pi**2 * n**2 / (3 * delta)) / n)


@pytest.mark.parametrize("rule", ["order", pytest.param("realised", marks=pytest.mark.slow)])
def test_rounds_are_those_of_a_dense_replay(rule):
    """At the large delta of BANDIT a candidate is ruled out within T rounds."""
    bandit, delta = BANDIT.replace(rule=rule), BANDIT.delta
    state = bandit.init(DOMAIN, KEY)
    counts, sums = np.zeros(A), np.zeros(A)
    pulls, rewards, width_sums = np.zeros(3), np.zeros(3), np.zeros(3)
    active = np.ones(3, bool)
    for t in range(T):
        regret = suspected_order(pulls) if rule == "order" else width_sums
        g = int(np.argmin(np.where(active, regret, np.inf)))
        mean, covariance, _ = oracles.exact(GRAMS[g], counts, sums, LAM)
        band = 0.1 * math.sqrt(LAM) * np.sqrt(np.diag(covariance))
        chosen, query, new, _ = play_round(bandit, state, F + NOISE[t])
        arm = int(np.asarray(query.index)[0])
        assert int(chosen) == g
        assert t == 0 or (mean + band)[arm] >= (mean + band).max() - 1e-8
        counts[arm], sums[arm] = counts[arm] + 1, sums[arm] + F[arm] + NOISE[t]
        pulls[g], rewards[g] = pulls[g] + 1, rewards[g] + F[arm] + NOISE[t]
        width_sums[g] += 2 * band[arm]
        if (pulls[active] > 0).all():
            n = np.maximum(pulls, 1)
            low = rewards / n - deviation(n, delta)
            active &= rewards / n + deviation(n, delta) + width_sums / n >= low[active].max()
        np.testing.assert_allclose(new.suspected, width_sums, atol=1e-8)
        np.testing.assert_allclose(new.reward_sums_chosen, rewards, atol=1e-8)
        np.testing.assert_array_equal(new.pulls, pulls)
        np.testing.assert_array_equal(~new.ruled_out, active)
        state = new
    assert active.any() and not active.all()
    # the state of a candidate that is ruled out has no effect, even if it is NaN

    def broken(x):
        is_active = active.reshape(-1, *[1] * (x.ndim - 1))
        return np.where(is_active, x, np.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x

    with_nan = state.replace(learners=jax.tree.map(broken, state.learners))
    results = [
        jax.tree.map(np.asarray, play_round(bandit, s, np.asarray(F))) for s in (state, with_nan)
    ]
    parts = [jax.tree.map(lambda x: x[active] if x.shape[:1] == (3,) else x, r) for r in results]
    chex.assert_trees_all_equal(*parts)


@jax.jit
def play_round(bandit, state, y):
    """(chosen candidate, query, next state, info) of a round with the rewards y [A]."""
    query = bandit.ask(state, DOMAIN, KEY)
    new, info = bandit.tell(state, DOMAIN, query, y[query.index], KEY)
    return bandit.choose_candidate(state, DOMAIN), query, new, info


def test_a_round_is_not_applied_if_any_candidate_has_no_free_row():
    """This includes candidates that do not choose the arm, but none that is ruled out."""
    state, y = BANDIT.init(DOMAIN, KEY), jnp.asarray(F)
    chosen = int(play_round(BANDIT, state, y)[0])
    used = jnp.where(jnp.arange(3) == (chosen + 1) % 3, A, 0)
    posterior = state.learners.posterior.replace(used=used.astype(jnp.int32))
    state = state.replace(learners=state.learners.replace(posterior=posterior))
    _, _, after, info = play_round(BANDIT, state, y)
    assert int(info.result) == Result.CAPACITY_EXCEEDED
    assert int(info.batch_size) == int(info.observed) == 0
    chex.assert_trees_all_equal(after, state)
    _, _, after, info = play_round(BANDIT, state.replace(ruled_out=used > 0), y)
    assert int(info.result) == Result.RUNNING and float(after.pulls.sum()) == 1


def random_rounds(bandit, n_rounds=8):
    """The state after `n_rounds` rewards of random arms."""
    state = bandit.init(DOMAIN, KEY)
    arms = np.random.default_rng(3).integers(0, A, n_rounds)
    for t, arm in enumerate(arms):
        query = Query(np.array([arm], np.int32), np.ones(1, bool))
        y, key = np.array([F[arm] + NOISE[t]]), jax.random.fold_in(KEY, t)
        state, _ = TELL(bandit, state, DOMAIN, query, y, key)
    return state


@pytest.mark.slow
def test_learners_are_bkb_at_each_lengthscale():
    """The learners are equal to BKB to 1e-8 for the same data and random numbers."""
    bandit = LengthscaleBalancing(SKETCH, SCALES, norm_test=True)
    state, likelihoods = random_rounds(bandit), []
    for g, (scale, bound) in enumerate(zip(SCALES, BOUNDS, strict=True)):
        learner = SKETCH.replace(kernel=kernels.Gaussian(scale), norm_bound=bound)
        single, learners = random_rounds(learner), state.learners
        expected, inducing = single.posterior, np.asarray(learners.inducing)
        mean, variance = map(np.asarray, (learners.posterior.mean, learners.posterior.variance))
        np.testing.assert_array_equal(inducing[g], single.inducing)
        np.testing.assert_allclose(mean[g], expected.mean, atol=1e-8)
        np.testing.assert_allclose(variance[g], expected.variance, atol=1e-8 / LAM)
        likelihoods.append(float(LIKELIHOOD(learner, single, DOMAIN)))
    likely = bandit.replace(rule="evidence")
    assert int(CHOOSE(likely, state, DOMAIN)) == np.argmax(likelihoods) > 0
    without_best = state.replace(ruled_out=np.arange(3) == np.argmax(likelihoods))
    assert int(CHOOSE(likely, without_best, DOMAIN)) == np.argsort(likelihoods)[-2]


def test_norm_bounds_and_the_order_of_regret_match_their_formulas():
    """The norm bounds and the order are those of Lemma 2.1, Proposition 2.2 and Theorem 2.3."""
    for lengthscale in (0.9, 0.4):
        bound = balancing.scaled_norm_bounds(1.0, jnp.array([1.2, lengthscale]), 2)[1]
        weights = np.zeros(A)
        weights[[2, 9, 17]] = 1.0, -2.0, 0.7
        f = GRAMS[0] @ weights
        gram = oracles.gaussian(X, X, lengthscale)
        assert f @ np.linalg.solve(gram, f) <= bound**2 * (weights @ f) * (1 + 1e-6)
    n = jnp.array([5.0])
    order = balancing.log_information_order(kernels.Matern(nu=1.5), jnp.array([0.5]), n, 2)
    gamma = 4 * 5 ** (2 / 5) * np.log(5) ** (3 / 5)
    np.testing.assert_allclose(order, np.log(gamma), rtol=1e-12)
    regret = balancing.log_regret_order(order, jnp.log(3.0), n)
    expected = np.log(np.sqrt(5) * (3 * np.sqrt(gamma) + gamma))
    np.testing.assert_allclose(regret, expected, rtol=1e-12)


def test_candidates_that_are_ruled_out_never_choose():
    """This holds for hundreds of inputs, and if the regrets of all candidates are not finite."""
    x = np.random.default_rng(4).standard_normal((A, 500))
    base = BKB(kernels.Gaussian(), capacity=4)
    bandit = LengthscaleBalancing(base, (30.0, 25.0, 20.0))
    arms = Arms(jnp.asarray(x))
    state = bandit.init(arms, KEY)
    state = state.replace(pulls=np.array([9.0, 9.0, 9.0]))
    states = [state.replace(ruled_out=np.arange(3) < g) for g in range(3)]
    chosen = [int(CHOOSE(bandit, state, arms)) for state in states]
    assert chosen == [0, 1, 2]
    # B sqrt(gamma_n) overflows: it is e^91 times as large for candidate 1, and grows as (log n)^250
    for pulls, candidate in ((20.0, 0), (40.0, 1)):
        later = state.replace(pulls=np.array([pulls, 9.0, 9.0]))
        assert int(CHOOSE(bandit, later, arms)) == candidate
    active = jnp.array([False, True, True])
    for value in (jnp.inf, jnp.nan, -jnp.inf):
        assert int(balancing.argmin_active(active, jnp.full(3, value))) == 1


def sums_on_the_event(problem, f, seed):
    """(sums of rewards, Gram matrix [T,T] and rewards [T] of the single pulls, delta) for noisy
    averages of f. With this delta the event of THEORY 4.7 holds with equality."""
    noise = np.random.default_rng(seed).standard_normal(len(f)) * XI
    sums = problem.counts * f + np.sqrt(problem.counts) * noise
    arms = np.repeat(np.arange(len(f)), problem.counts.astype(int))
    y = (sums / np.maximum(problem.counts, 1))[arms]
    gram = problem.gram[np.ix_(arms, arms)]
    inner = np.linalg.inv(np.eye(len(arms)) + gram / problem.lam)
    excess = np.square(y - f[arms]).sum() - y @ inner @ y
    logdet = np.linalg.slogdet(np.eye(len(arms)) + gram / problem.lam)[1]
    # 600, because exp overflows above 709
    return sums, gram, y, math.exp(min((logdet - excess / XI**2) / 2, 600.0))


@jax.jit
def sketched_state(bandit, x, counts, sums, dictionary):
    """The state after these evaluations, with the arms `dictionary` [A] bool as inducing points."""
    arms = Arms(x)
    state = bandit.init(arms, KEY).replace(counts=counts, sums=sums, inducing=dictionary)
    return bandit.grow(state, arms, bandit.capacity)


def norm_bound_of_sketch(problem, delta):
    """The lower bound of THEORY 6.9 for the dictionary of a problem, computed in its features."""
    counts, sums, lam = problem.counts, problem.sums, problem.lam
    z = oracles.features(problem.gram, problem.dictionary)
    residual = np.diag(problem.gram) - np.square(z).sum(1)
    residual[problem.dictionary] = 0
    rho_sketch, moment = counts @ residual, z.T @ sums
    gram, identity = z.T @ (counts[:, None] * z), np.eye(z.shape[1])
    total = (np.square(sums) / np.maximum(counts, 1)).sum()

    def least_loss(rho):
        return total - moment @ np.linalg.solve(gram + rho * identity, moment)

    upper = np.linalg.slogdet(identity + gram / lam)[1] + rho_sketch / lam
    allowance = least_loss(lam) + XI**2 * (upper - 2 * math.log(delta))
    squares = []
    for rho in lam * np.array(norms.MULTIPLES):
        squares.append((rho / (rho + rho_sketch) * least_loss(rho + rho_sketch) - allowance) / rho)
    return math.sqrt(max(0.0, *squares))


def test_the_lower_bound_on_the_norm_is_that_of_dense_matrices():
    """THEORY 6.9: the bound equals that of dense matrices to 1e-7, for dictionaries of all pulled
    arms and of fewer. Fewer arms never give a larger bound; on the event of THEORY 4.7 no bound
    exceeds |f|. The bound on the marginal likelihood is never above it, and equals it for
    dictionaries of all pulled arms."""
    n_informative = 0
    for seed in range(PROBLEMS):
        problem = Problem(seed)
        weights = np.zeros(len(problem.counts))
        weights[np.random.default_rng(seed).choice(len(weights), 3, replace=False)] = 3.0, -2.0, 4.0
        f = problem.gram @ weights
        norm = math.sqrt(weights @ f)
        problem.sums, gram, y, delta = sums_on_the_event(problem, f, seed)
        logdet = np.linalg.slogdet(np.eye(len(y)) + gram / problem.lam)[1]
        quadratic = {
            m: y @ np.linalg.solve(np.eye(len(y)) + gram / (m * problem.lam), y)
            for m in (1.0, *norms.MULTIPLES)
        }
        allowance = quadratic[1.0] + XI**2 * (logdet - 2 * math.log(delta))
        squares = [(quadratic[m] - allowance) / (m * problem.lam) for m in norms.MULTIPLES]
        expected = math.sqrt(max(0.0, *squares))
        bandit = BKB(problem.kernel, problem.lam, noise_std=XI, delta=delta, capacity=32)
        arms, dictionary = Arms(problem.x), np.isin(np.arange(len(f)), problem.dictionary)
        history = problem.x, problem.counts, problem.sums
        full_dictionary = sketched_state(bandit, *history, problem.counts > 0)
        exact = float(LOWER_BOUND(bandit, full_dictionary, arms))
        assert exact == pytest.approx(expected, rel=1e-7, abs=1e-7)
        sketch = sketched_state(bandit, *history, dictionary)
        likelihood = -(quadratic[1.0] / problem.lam + logdet) / 2
        bound = float(LIKELIHOOD(bandit, full_dictionary, arms))
        assert bound == pytest.approx(likelihood, rel=1e-8)
        assert float(LIKELIHOOD(bandit, sketch, arms)) <= likelihood + 1e-6
        sketch_bound = float(LOWER_BOUND(bandit, sketch, arms))
        expected = norm_bound_of_sketch(problem, delta)
        assert sketch_bound == pytest.approx(expected, rel=1e-7, abs=1e-7)
        assert sketch_bound <= exact + 1e-7 and exact <= norm * (1 + 1e-7)
        n_informative += sketch_bound > 0.2 * norm
    assert n_informative > PROBLEMS // 4


def test_the_norm_bound_doubles_when_it_is_contradicted():
    """Every round is that of BKB with the current bound. The bounds are F_0 2^j <= 2 |f|."""
    base = SKETCH.replace(kernel=kernels.Gaussian(SCALES[2]), norm_bound=0.1)
    bandit = NormDoubling(base)
    state = bandit.init(DOMAIN, KEY)
    step = jax.jit(lambda state, y: _doubling_step(bandit, base, state, y))
    bounds = [0.1]
    for t in range(T):
        state, is_bkb = step(state, F + NOISE[t])
        assert bool(is_bkb)
        bounds.append(float(state.norm_bound))
    # a stale posterior gives no bound, until `grow` completes it
    lower_bound = float(LOWER_BOUND(base, state, DOMAIN))
    stale = state.replace(due=jnp.ones_like(state.due), norm_bound=jnp.asarray(0.1))
    assert float(LOWER_BOUND(base, stale, DOMAIN)) == 0 < 0.1 < lower_bound
    assert float(GROW(bandit, stale, DOMAIN, A).norm_bound) >= lower_bound
    # a warm start from the same evaluations
    data = Evaluations(state.counts, state.sums)
    start = jax.jit(bandit.init)(DOMAIN, KEY, data=data)
    lower_bound = float(LOWER_BOUND(base, start, DOMAIN))
    assert lower_bound <= float(start.norm_bound) < 2 * lower_bound and start.norm_bound > 0.1
    doublings = np.log2(np.divide(bounds, 0.1))
    norm = math.sqrt(F @ np.linalg.solve(GRAMS[2], F))
    assert (np.diff(doublings) >= 0).all() and doublings[-1] >= 1 and bounds[-1] <= 2 * norm
    np.testing.assert_array_equal(doublings, np.round(doublings))
    for bound, least, expected in ((0.1, 0.3, 0.4), (0.1, 0.1, 0.1), (0.0, 0.1, 0.0)):
        assert float(DOUBLE_UNTIL(np.asarray(bound), np.asarray(least))) == expected


def _doubling_step(bandit, base, state, y):
    """The next state, and whether the round was that of BKB at the state's bound."""
    query = bandit.ask(state, DOMAIN, KEY)
    new, info = bandit.tell(state, DOMAIN, query, y[query.index], KEY)
    bkb = base.replace(norm_bound=state.norm_bound)
    base_query = bkb.ask(state, DOMAIN, KEY)
    bkb_state, expected = bkb.tell(state, DOMAIN, base_query, y[query.index], KEY)
    is_bkb = (query.index == base_query.index).all() & (info.width == expected.width)
    lower_bound = norms.norm_lower_bound(base, bkb_state, DOMAIN)
    is_bkb = is_bkb & (new.posterior.mean == bkb_state.posterior.mean).all()
    is_bkb = is_bkb & (new.norm_bound >= lower_bound)
    return new, is_bkb & ((new.norm_bound == state.norm_bound) | (new.norm_bound < 2 * lower_bound))


@pytest.mark.slow
@pytest.mark.parametrize("base", [SKETCH, BBKB(**COMMON, delta=DELTA, capacity=A, max_batch=T)])
def test_a_capacity_that_grows_changes_no_pick(base):
    problem = problems.finite_arms(jnp.asarray(X), jnp.asarray(F), XI)
    rough = base.replace(kernel=kernels.Gaussian(SCALES[1]))  # needs more than four inducing points
    for bandit in (LengthscaleBalancing(base, SCALES), NormDoubling(rough)):
        large = loops.run(bandit, problem, KEY, T)
        small = loops.run(bandit.replace(base=bandit.base.replace(capacity=4)), problem, KEY, T)
        assert 4 < small.capacity < large.capacity
        np.testing.assert_array_equal(small.trace.arm, large.trace.arm)
