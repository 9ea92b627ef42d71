"""The posterior at any points, compared with dense NumPy, for every algorithm that has one."""

import contextlib
import inspect
import textwrap
from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import CASES, problem
from scipy.stats import norm
from small_problems import INIT, TELL, after_each

from jsketch import Arms, Box, Query, kernels, posterior, run, struct
from jsketch.bandits import BBKB, GPUCB, PointBBKB
from jsketch.box import GPBandit, ModelGOUCB, Parametric, Turbo, regression
from jsketch.box import history as box_history
from jsketch.contrib import CBBKB, EKUCB, KUCB
from jsketch.sketch.kors import Sampling
from jsketch.types import BoxQuery

KEY = jax.random.key(0)
LAM = 0.01
KERNEL = kernels.Gaussian(0.5)
X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
NEW = np.random.default_rng(1).uniform(-1.2, 1.2, (8, 2))  # no arms
SKETCHED = ("bbkb_extended", "fixed_bkb", "discounted_bkb")
EXACT = ("gp_ucb", "ts", "eps_greedy")
WITHOUT = ("uniform", "evolution", "soful", "cbrap", "rff_ucb", "lengthscale_balancing")


def gram(x, y):
    return oracles.gaussian(np.asarray(x), np.asarray(y), 0.5)


def dense(x, points, z_points, counts, means, lam=LAM):
    """(mean [n], covariance [n, n]) of the posterior at x, of averages at `points`, on the span of
    the functions k(z, .) of the points z; the exact posterior if these are all points."""
    everything = np.concatenate([np.asarray(x), points])
    table = gram(everything, everything)
    values, vectors = np.linalg.eigh(gram(z_points, z_points))
    used = values > len(z_points) * np.finfo(float).eps * values.max()
    z = gram(everything, z_points) @ (vectors[:, used] / np.sqrt(values[used]))
    of_new, of_points = z[: len(x)], z[len(x) :]
    inverse = np.linalg.inv(of_points.T @ (counts[:, None] * of_points) + lam * np.eye(z.shape[1]))
    mean = of_new @ inverse @ of_points.T @ (counts * means)
    rest = table[: len(x), : len(x)] - of_new @ of_new.T
    return mean, rest + lam * of_new @ inverse @ of_new.T


def history(x, n=40, seed=2):
    """(arms [n] with repetitions, rewards [n])."""
    random = np.random.default_rng(seed)
    arm = random.integers(0, len(x) // 2, n)
    return arm, np.sin(3 * x[arm].sum(1)) + 0.1 * random.normal(size=n)


def check_process(gp, p, arms, counts, means, inducing, lam):
    """A process is the posterior p of a state at the arms, and dense matrices elsewhere."""
    x = np.asarray(arms.features)
    np.testing.assert_allclose(gp.mean(x), p.mean, atol=1e-9)
    std = posterior.bayes_std(p.variance, lam)
    np.testing.assert_allclose(np.sqrt(gp.variance(x)), std, atol=1e-7)
    pulled = counts > 0
    mean, covariance = dense(NEW, x[pulled], x[inducing], counts[pulled], means[pulled], lam)
    np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-8)
    np.testing.assert_allclose(gp.covariance(NEW), covariance, atol=1e-8)
    np.testing.assert_allclose(gp.variance(NEW), np.diag(covariance), atol=1e-8)
    assert float(gp.noise) == pytest.approx(lam, rel=1e-12)


def evaluations(x, n=40):
    """(counts [A], averages [A]) of a history of some of the arms."""
    arm, y = history(x, n)
    counts = np.bincount(arm, minlength=len(x)).astype(float)
    return counts, np.bincount(arm, y, len(x)) / np.where(counts > 0, counts, 1)


@pytest.mark.parametrize("name", SKETCHED)
def test_a_sketched_posterior_is_that_of_its_state_and_of_dense_matrices(name):
    """Some of the pulled arms are not in the dictionary, and some of the others are."""
    bandit, arms = CASES[name], problem().arms
    counts, means = evaluations(np.asarray(arms.features))
    state = INIT(bandit, arms.features, counts, counts * means, np.arange(10, 40, 2))
    inducing = np.asarray(state.inducing)
    assert ((counts > 0) & ~inducing).any() and ((counts == 0) & inducing).any()
    gp = posterior.of(bandit, state, arms)
    check_process(gp, state.posterior, arms, counts, means, inducing, bandit.regularization)


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_posterior_is_that_of_its_state_and_of_dense_matrices(name):
    """Arms that are pulled several times, in two queries, and unused rows."""
    bandit, arms = CASES[name], problem().arms
    arm, y = history(np.asarray(arms.features))
    state = jax.jit(lambda: bandit.init(arms, KEY))()
    for part in (slice(0, 20), slice(20, 40)):
        query = Query(arm[part].astype(np.int32), np.ones(20, bool))
        state, _ = TELL(bandit, state, arms, query, y[part], KEY)
    counts, means = evaluations(np.asarray(arms.features))
    assert (counts > 1).any()
    grown = jax.jit(lambda state: bandit.grow(state, arms, 50))(state)
    gp = posterior.of(bandit, grown, arms)
    check_process(gp, state.posterior, arms, counts, means, counts > 0, bandit.regularization)


def test_the_processes_agree_if_all_pulled_arms_are_in_the_dictionary():
    """THEORY 3.6, at points that are no arms, also of an algorithm that wraps another."""
    arms = problem().arms
    x = np.asarray(arms.features)
    counts, means = evaluations(x)
    exact = posterior.condition(KERNEL, x, means, LAM, counts=counts)
    bandit = CASES["norm_doubling"]
    state = INIT(bandit.base, x, counts, counts * means)
    for algorithm in (bandit.base, bandit):
        gp = algorithm.gaussian_process(state, arms)
        np.testing.assert_allclose(gp.mean(NEW), exact.mean(NEW), atol=1e-8)
        np.testing.assert_allclose(gp.covariance(NEW), exact.covariance(NEW), atol=1e-8)


def test_conditions_on_repeated_points_on_averages_and_on_missing_rewards():
    """A NaN is not observed; averages with counts give the posterior of all rewards; a prior mean
    is subtracted."""
    arm, y = history(X)
    mean, covariance = dense(NEW, X[arm], X[arm], np.ones(len(arm)), y)
    counts = np.bincount(arm, minlength=len(X)).astype(float)
    averages = np.bincount(arm, y, len(X)) / np.where(counts > 0, counts, 1)
    padded = np.concatenate([y, [np.nan, np.inf]]), np.concatenate([X[arm], X[:2]])
    for gp in (
        posterior.condition(KERNEL, X[arm], y, LAM),
        posterior.condition(KERNEL, padded[1], padded[0], LAM),
        posterior.condition(KERNEL, X, averages, LAM, counts=counts),
    ):
        np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-9)
        np.testing.assert_allclose(gp.covariance(NEW), covariance, atol=1e-9)
    shifted = posterior.condition(KERNEL, X[arm], y + 3, LAM, mean=3.0)
    np.testing.assert_allclose(shifted.mean(NEW), mean + 3, atol=1e-9)
    # in units of the rewards: k(x, x) is the prior variance
    scaled = posterior.condition(4.0 * KERNEL, X[arm], 2 * y, 4 * LAM)
    np.testing.assert_allclose(scaled.mean(NEW), 2 * mean, atol=1e-9)
    np.testing.assert_allclose(scaled.variance(NEW), 4 * np.diag(covariance), atol=1e-9)
    nothing = posterior.condition(KERNEL, X[:3], np.full(3, np.nan), LAM)
    np.testing.assert_array_equal(nothing.mean(NEW), 0)
    np.testing.assert_allclose(nothing.variance(NEW), 1, atol=1e-15)


def test_derivatives_are_those_of_finite_differences():
    """With respect to the points, also at evaluated ones, to the numbers of the kernel and to the
    regularization; of mean, variance and a draw."""
    arm, y = history(X, 12)

    def statistics(lengthscale, lam, x):
        kernel = kernels.Matern(lengthscale, nu=2.5) + 0.3 * kernels.Gaussian(2.0)
        gp = posterior.condition(kernel, X[arm], y, lam)
        parts = gp.mean(x), gp.variance(x), gp.sample(KEY, x, 2).ravel(), gp.covariance(x).ravel()
        return jnp.concatenate(parts).sum()

    at = np.array([0.6, 0.9]), np.array(0.05), NEW[:3]
    value = jax.jit(statistics)
    gradient = [np.asarray(g) for g in jax.jit(jax.grad(statistics, argnums=(0, 1, 2)))(*at)]
    for i, part in enumerate(at):
        for index in np.ndindex(*part.shape):
            ends = []
            for sign in (1, -1):
                moved = list(at)
                moved[i] = part.copy()
                moved[i][index] += sign * 1e-6
                ends.append(float(value(*moved)))
            difference = (ends[0] - ends[1]) / 2e-6
            assert float(gradient[i][index]) == pytest.approx(difference, rel=1e-4, abs=1e-5)
    # at an evaluated point the variance has a finite derivative
    gp = posterior.condition(KERNEL, X[arm], y, LAM)
    slope = jax.jit(jax.grad(lambda x: jnp.sqrt(gp.variance(x)).sum()))(X[arm[:2]])
    assert np.isfinite(slope).all()


def test_draws_have_the_mean_and_the_covariance():
    """Of 4,000 draws at 4 points, within 4.5 standard errors; two of the points are equal."""
    arm, y = history(X)
    gp = posterior.condition(KERNEL, X[arm], y, LAM)
    points = np.concatenate([NEW[:3], NEW[:1]])
    draws = np.asarray(gp.sample(jax.random.key(5), points, 4000))
    oracles.check_law(draws, np.asarray(gp.mean(points)), np.asarray(gp.covariance(points)))
    np.testing.assert_allclose(draws[:, 0], draws[:, 3], atol=1e-5)
    # bands of 95% hold 95% of the draws
    distance = np.abs(draws - np.asarray(gp.mean(points)))
    inside = distance < 1.96 * np.sqrt(np.asarray(gp.variance(points)))
    expected = norm.cdf(1.96) - norm.cdf(-1.96)
    assert abs(inside[:, 0].mean() - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 4000)


def test_draws_of_a_kernel_that_is_not_positive_semi_definite_are_nan():
    table = jnp.asarray([[1.0, 2.0], [2.0, 1.0]])
    gp = posterior.condition(
        kernels.Precomputed(table), jnp.array([[0.0]]), jnp.array([jnp.nan]), LAM
    )
    assert np.isfinite(gp.sample(KEY, jnp.array([[0.0]]))).all()
    assert np.isnan(gp.sample(KEY, jnp.array([[0.0], [1.0]]))).all()


def test_no_points_have_empty_moments_and_draws():
    gp = posterior.condition(KERNEL, X, X[:, 0], LAM)
    assert gp.mean(X[:0]).shape == gp.variance(X[:0]).shape == (0,)
    assert gp.covariance(X[:0]).shape == (0, 0)
    assert gp.sample(KEY, X[:0], 3).shape == (3, 0)


def test_a_stack_of_posteriors_is_mapped_over_and_numbers_compile_nothing():
    problem_, new = problem(), NEW
    bandit = BBKB(KERNEL, LAM, noise_std=0.1, capacity=32)
    result = run(bandit, problem_, jax.random.split(KEY, 3), 12)
    new = np.zeros((4, problem_.arms.features.shape[1]))
    arms = problem_.arms
    gps = jax.jit(jax.vmap(lambda state: posterior.of(bandit, state, arms)))(result.state)
    means = jax.jit(jax.vmap(lambda gp: gp.mean(new)))(gps)
    states = jax.jit(lambda all_: [jax.tree.map(lambda s, i=i: s[i], all_) for i in range(3)])
    for i, state in enumerate(states(result.state)):
        np.testing.assert_allclose(
            means[i], posterior.of(bandit, state, arms).mean(new), atol=1e-10
        )
    with pytest.raises(ValueError, match="map over it"):
        gps.mean(new)

    arm, y = history(X)

    @jax.jit
    @chex.assert_max_traces(n=1)
    def moments(kernel, x, y, lam, new):
        gp = posterior.condition(kernel, x, y, lam)
        return gp.mean(new), gp.variance(new)

    chex.clear_trace_counter()
    lengthscales, lams = np.array([0.3, 0.5]), np.array([0.1, 0.01])
    for lengthscale, lam in zip(lengthscales, lams, strict=True):
        kernel = kernels.Gaussian(lengthscale)
        mean, variance = moments(kernel, X[arm], y, lam, NEW)

    @jax.jit
    @jax.vmap
    def stack(scale, lam):
        return posterior.condition(kernels.Gaussian(scale), X[arm], y, lam)

    stacked = stack(lengthscales, lams)
    means, variances = jax.jit(jax.vmap(lambda gp: (gp.mean(NEW), gp.variance(NEW))))(stacked)
    np.testing.assert_allclose(np.asarray(means)[1], mean, atol=1e-10)
    np.testing.assert_allclose(np.asarray(variances)[1], variance, atol=1e-10)


def test_the_process_of_points_includes_the_hallucinated_picks():
    """PointBBKB after a batch, and within the next one, where only variances change."""
    random = np.random.default_rng(3)
    points, y = jnp.asarray(random.uniform(-1, 1, (7, 2))), random.normal(size=4)
    bandit = PointBBKB(KERNEL, LAM, noise_std=0.1, max_batch=8, ratio=1e9, capacity=16)

    @jax.jit
    def states(points, y):
        state = bandit.init(2, KEY)
        for x in points[:4]:
            state = bandit.pull_unchecked(state, x)
        after, _ = bandit.tell(state, jnp.pad(y, (0, 4)), KEY)
        state = after
        for x in points[4:]:
            state = bandit.pull_unchecked(state, x)
        return after, state

    after, within = states(points, y)
    ones, told = np.ones(7), np.asarray(points[:4])
    mean, covariance = dense(NEW, told, told, ones[:4], y)
    gp = posterior.of(bandit, after)
    np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-8)
    np.testing.assert_allclose(gp.covariance(NEW), covariance, atol=1e-8)
    # the dictionary has the points of the first batch; the mean stays
    _, covariance = dense(NEW, np.asarray(points), told, ones, 0 * ones)
    gp = posterior.of(bandit, within)
    np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-8)
    np.testing.assert_allclose(gp.covariance(NEW), covariance, atol=1e-8)


@pytest.mark.parametrize("name", ["KUCB", "EKUCB", "CBBKB"])
def test_the_process_of_a_contextual_bandit_is_that_of_its_scores(name):
    """Mean and variance are those of its method `posterior`, in other units. The exact one is that
    of dense matrices."""
    random = np.random.default_rng(3)
    points, y = random.uniform(-1, 1, (12, 2)), random.normal(size=12)
    options = dict(regularization=LAM, noise_std=0.1, max_history=32)
    bandit = {
        "KUCB": KUCB(KERNEL, **options),
        "EKUCB": EKUCB(KERNEL, **options, sampling=Sampling(mu=0.1), capacity=16),
        "CBBKB": CBBKB(KERNEL, **options, capacity=16, ratio=300.0),
    }[name]
    states, moments, _ = jax.jit(lambda x, y: after_each(bandit, x, y, NEW))(points, y)
    # of CBBKB, a state with rewards that only the moment of the unfinished batch has
    step = np.flatnonzero(states.points.batch_size)[-1] if name == "CBBKB" else -1
    state, mean, variance = jax.jit(lambda all_: jax.tree.map(lambda leaf: leaf[step], all_))(
        (states, *moments)
    )
    gp = posterior.of(bandit, state)
    np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-9)
    np.testing.assert_allclose(gp.variance(NEW), LAM * variance, atol=1e-9)
    np.testing.assert_allclose(np.diag(gp.covariance(NEW)), gp.variance(NEW), atol=1e-9)
    if name == "KUCB":
        mean, covariance = dense(NEW, points, points, np.ones(12), y)
        np.testing.assert_allclose(gp.mean(NEW), mean, atol=1e-8)
        np.testing.assert_allclose(gp.covariance(NEW), covariance, atol=1e-8)


def test_the_process_of_a_box_optimiser_has_the_units_of_the_box():
    """It is that of a dense Gaussian process with these hyperparameters, in the units of the box
    and of the values. One evaluation failed, and one slot is unused."""
    bandit, box = GPBandit(), Box(jnp.array([-2.0, 10.0]), jnp.array([2.0, 40.0]))
    state = bandit.init(box, KEY, horizon=10)
    x = np.asarray(state.initial)
    y = 100 + 7 * np.sin(x[:, 0]) + x[:, 1] / 10
    query = BoxQuery(x, np.ones(8, bool))
    failed = np.where(np.arange(8) == 2, np.nan, y)
    observed = jax.jit(box_history.add)(state.history, query, failed)
    numbers = regression.Hyperparameters(jnp.array([0.4, 0.9]), jnp.array(1.7), jnp.array(0.02))
    state = replace(state, history=observed, numbers=numbers)
    gp, kept = posterior.of(bandit, state, box), np.arange(8) != 2
    x, y = x[kept], y[kept]
    new = np.random.default_rng(0).uniform([-2, 10], [2, 40], (5, 2))
    scaled = np.concatenate([new, x]) / (np.array([4.0, 30.0]) * np.array([0.4, 0.9]))
    table = 1.7 * oracles.matern_52(scaled, 1.0)
    rows, inner = table[:5, 5:], table[5:, 5:] + 0.02 * np.eye(7)
    mean = np.mean(y) + rows @ np.linalg.solve(inner, y - np.mean(y))
    covariance = np.var(y) * (table[:5, :5] - rows @ np.linalg.solve(inner, rows.T))
    np.testing.assert_allclose(gp.mean(new), mean, rtol=1e-9)
    np.testing.assert_allclose(gp.covariance(new), covariance, atol=1e-8 * np.var(y))
    np.testing.assert_allclose(gp.variance(new), np.diag(covariance), atol=1e-8 * np.var(y))
    assert float(gp.noise) == pytest.approx(0.02 * np.var(y), rel=1e-9)


ONE_SIDED = kernels.Pointwise(lambda x, y: jnp.exp(-jnp.abs(2 * x - y).sum()))


@struct.dataclass
class OfNumpy:
    """A kernel of NumPy operations."""

    def gram(self, x, y):
        return np.exp(x @ y.T)

    def diag(self, x):
        return np.exp((x * x).sum(-1))


def law(a, height):
    return height * jnp.exp(-(a**2))


@pytest.mark.parametrize("name", WITHOUT)
def test_algorithms_without_a_gaussian_process_are_refused(name):
    with pytest.raises(ValueError, match="has no Gaussian process at new points"):
        posterior.of(CASES[name], None, problem().arms)


@pytest.mark.parametrize("bandit", [BBKB, GPUCB])
def test_a_state_of_another_model_is_refused(bandit):
    arms = problem().arms
    right = bandit(KERNEL, LAM, noise_std=0.1, capacity=40)
    state = right.init(arms, KEY)
    for t in range(4):
        query = Query(np.array([7 * t], np.int32), np.ones(1, bool))
        state, _ = TELL(right, state, arms, query, np.ones(1), KEY)
    posterior.of(right, state, arms)
    others = (
        right.replace(kernel=kernels.Gaussian(2.0)),
        right.replace(kernel=2.0 * KERNEL),
        right.replace(regularization=10 * LAM),
    )
    for other in others:
        with pytest.raises(ValueError, match="of another kernel, of another regularization"):
            posterior.of(other, state, arms)


def test_points_that_pad_a_history_have_no_effect():
    x = np.r_[X, np.full((5, 2), np.nan)]
    y = np.r_[X[:, 0], np.full(5, np.nan)]
    padded, alone = (posterior.condition(KERNEL, a, b, LAM) for a, b in ((x, y), (X, X[:, 0])))
    np.testing.assert_allclose(padded.mean(NEW), alone.mean(NEW), atol=1e-10)
    np.testing.assert_allclose(padded.variance(NEW), alone.variance(NEW), atol=1e-10)

    def slope(x, y):
        value = posterior.log_marginal_likelihood
        return jax.jit(jax.grad(lambda kernel: value(kernel, x, y, LAM)))(KERNEL).lengthscale

    np.testing.assert_allclose(slope(x, y), slope(X, X[:, 0]), rtol=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_posterior_is_refused():
    arms, bandit = problem().arms, BBKB(KERNEL, LAM, noise_std=0.1, capacity=8)
    state = bandit.init(arms, KEY)
    gp = posterior.of(bandit, state, arms)
    d = arms.features.shape[1]
    optimiser = ModelGOUCB(Parametric(law, dict(height=(0.1, 10, 1))))
    stale = replace(state, due=jnp.ones_like(state.due))
    twice = jax.jit(lambda tree: jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), tree))
    stack = twice(state)
    rows = (
        (lambda: posterior.of(optimiser, None), "method `posterior` has means"),
        (lambda: posterior.of(Turbo(), None), "Turbo has no Gaussian process"),
        (lambda: posterior.of(BBKB, state, arms), "BBKB has no Gaussian process"),
        (lambda: posterior.of(bandit, state, Arms(arms.features[:-1])), "of other arms"),
        (lambda: posterior.of(bandit, state), "BBKB chooses among arms"),
        (lambda: posterior.of(bandit, stack, arms), "stack of states"),
        (lambda: posterior.of(GPUCB(KERNEL), state, arms), "of another algorithm"),
        (lambda: posterior.of(bandit, stale, arms), "posterior of the state is stale"),
        (lambda: gp.mean(np.zeros(d)), f"points \\[n, {d}\\]"),
        (lambda: gp.covariance(np.zeros((2, d + 1))), f"points \\[n, {d}\\]"),
        (lambda: gp.sample(KEY, np.zeros((2, d)), 0), "n_samples must be an integer"),
        (lambda: posterior.condition(kernels.Gaussian, X, X[:, 0], LAM), "kernel must be"),
        (lambda: posterior.condition(ONE_SIDED, X, X[:, 0], LAM), "must be symmetric: k"),
        (lambda: posterior.condition(OfNumpy(), X, X[:, 0], LAM), "must be a function that jit"),
        (lambda: posterior.condition(KERNEL, X, X, LAM), "their shapes are"),
        (lambda: posterior.condition(KERNEL, X, X[:, 0], 0.0), "regularization must be"),
        (lambda: posterior.condition(KERNEL, X, X[:, 0], LAM, counts=[1.0]), "counts \\(1,\\)"),
    )
    for call, message in rows:
        with pytest.raises(ValueError, match=message):
            call()
    box = Box(jnp.zeros(2), jnp.ones(2))
    of_box = GPBandit().init(box, KEY, horizon=9)
    boxes = twice(of_box)
    rows = (
        (lambda: posterior.of(GPBandit(), boxes), "stack of states: map"),
        (lambda: posterior.of(GPBandit(), state), "not one state of GPBandit"),
        (lambda: posterior.condition(KERNEL, X, X[:, 0], LAM, mean=X[:, 0]), "mean must be one"),
        (lambda: posterior.condition(KERNEL, X[:0], X[:0, 0], LAM), "history is empty"),
        (lambda: posterior.condition(KERNEL, X[:2], X[:2, 0], LAM, counts=[1.0, -3.0]), "counts"),
    )
    for call, message in rows:
        with pytest.raises(ValueError, match=message):
            call()
    traced = jax.jit(lambda state: posterior.of(bandit, state, arms).mean(arms.features))
    assert np.isnan(traced(stale)).all() and np.isfinite(traced(state)).all()


@pytest.mark.float32
def test_single_precision():
    x = jnp.asarray(X, jnp.float32)
    gp = posterior.condition(kernels.Gaussian(0.5), x, x[:, 0], 0.01)
    assert gp.mean(NEW).dtype == gp.variance(NEW).dtype == jnp.float32
    exact = dense(NEW, X, X, np.ones(len(X)), X[:, 0])
    np.testing.assert_allclose(gp.mean(NEW), exact[0], atol=1e-3)
    np.testing.assert_allclose(gp.variance(NEW), np.diag(exact[1]), atol=1e-4)
    assert np.isfinite(gp.sample(KEY, x, 2)).all()


@pytest.mark.float32
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_variances_that_rounding_decides_in_float32_are_warned_of(scale):
    """Without a warning, the variances at evaluated points have a relative error of 10%; with one
    they may be 0."""
    x, kernel = jnp.asarray(X, jnp.float32), scale * kernels.Gaussian(0.5)
    for lam, warned in ((1e-3 * scale, False), (1e-4 * scale, True), (1e-8 * scale, True)):
        words = "regularization .* too small .* float32: .* points in float64"
        with pytest.warns(UserWarning, match=words) if warned else contextlib.nullcontext():
            gp = posterior.condition(kernel, x, x[:, 0], lam)
        exact = scale * np.diag(dense(X, X, X, np.ones(len(X)), X[:, 0], lam / scale)[1])
        error = np.abs(np.asarray(gp.variance(x)) - exact) / exact
        assert error.max() < 0.1 or warned
    assert float(gp.variance(x).min()) == 0


EXAMPLES = [n for n in posterior.__all__ if "Example:" in inspect.getdoc(getattr(posterior, n))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_runs(name):
    """Also those that other packages have under the same name."""
    code = textwrap.dedent(inspect.getdoc(getattr(posterior, name)).split("Example:\n")[1])
    problem_ = problem()
    arms, bandit = problem_.arms, BBKB(KERNEL, LAM, noise_std=0.1)
    names = dict(features=arms.features, mean_reward=problem_.mean_reward, problem=problem_)
    names |= dict(jax=jax, jnp=jnp, kernels=kernels, posterior=posterior, BBKB=BBKB, run=run)
    names |= dict(arms=arms, bandit=bandit, state=bandit.init(arms, KEY))
    names |= {other: getattr(posterior, other) for other in posterior.__all__ if other != "of"}
    exec(code, names)
