"""Tests of SOFUL and CBRAP, and of their sketches."""

from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from small_problems import KEY, ROLLOUT, TELL

from jsketch import Query, kernels, problems
from jsketch.bandits import GPUCB, widths
from jsketch.bandits.linear import feature_posterior
from jsketch.bandits.linear.linear_sketches import CBRAP, SOFUL
from jsketch.loops.rollouts import start
from jsketch.numerics import matmul
from jsketch.sketch import projection

HORIZON, LAM, DIMENSION = 30, 0.05, 6
COMMON = dict(regularization=LAM, noise_std=0.1, norm_bound=1.0, delta=0.1)
BANDITS = {
    "soful": SOFUL(**COMMON, size=3),
    "soful_paper": SOFUL(**COMMON, size=3, width=widths.soful_paper),
    "soful_ts": SOFUL(**COMMON, size=3, form="ts"),
    "cbrap": CBRAP(**COMMON, size=3),
}
each = pytest.mark.parametrize("name", BANDITS)


@cache
def linear_problem():
    """Features [50, 6] with rewards that are linear in them."""
    x = jax.random.normal(jax.random.key(1), (50, DIMENSION)) / 3
    return problems.finite_arms(x, x @ jax.random.normal(jax.random.key(2), (DIMENSION,)), 0.1)


@cache
def run_of(name):
    return ROLLOUT(BANDITS[name], linear_problem(), KEY, HORIZON)


def sketch_of(points, size):
    empty = projection.empty(size, points.shape[1], points.dtype)
    return jax.lax.scan(lambda s, x: (projection.append(s, x), None), empty, points)[0]


@pytest.mark.parametrize("size", [1, 4, 9, 12])
def test_frequent_directions_keep_their_guarantee(size):
    """0 <= A^T A - S^T S <= s <= |A - A_k|^2 / (m + 1 - k) for data A, its sketch S of m rows, the
    sum s of the subtracted energies (`shrunk`), and A_k, the best approximation of A of rank k, for
    every k."""
    scales = 0.8 ** np.arange(9)
    points = np.random.default_rng(0).standard_normal((20, 40, 9)) * scales
    sketches = jax.jit(jax.vmap(lambda p: sketch_of(p, size)))(jnp.asarray(points))
    for a, directions, energies, subtracted in zip(
        points, sketches.directions, sketches.energies, sketches.shrunk, strict=True
    ):
        eigenvalues = np.linalg.eigvalsh(a.T @ a - (directions.T * energies[None, :]) @ directions)
        assert eigenvalues.min() > -1e-10 and eigenvalues.max() <= float(subtracted) + 1e-10
        squares = np.linalg.svd(a, compute_uv=False) ** 2
        for k in range(min(size + 1, 9)):
            assert float(subtracted) <= squares[k:].sum() / (size + 1 - k) + 1e-10
        used = np.asarray(energies) > 0
        np.testing.assert_allclose(directions @ directions.T, np.diag(used * 1.0), atol=1e-10)
    assert bool((sketches.shrunk == 0).all()) == (size >= 9)


def test_frequent_directions_match_dense_matrices():
    points = jax.random.normal(KEY, (12, 5))
    sketch = sketch_of(points, 3)
    sketched = (sketch.directions.T * sketch.energies[None, :]) @ sketch.directions
    dense = np.asarray(LAM * np.eye(5) + sketched)
    x = np.asarray(points[0])
    inverse = projection.power(sketch, points[0], LAM, -1)
    np.testing.assert_allclose(inverse, np.linalg.solve(dense, x))
    half = projection.power(sketch, projection.power(sketch, points[0], LAM, -0.5), LAM, -0.5)
    np.testing.assert_allclose(half, np.linalg.solve(dense, x))
    variance = np.einsum("ni,ij,nj->n", points, np.linalg.inv(dense), points)
    np.testing.assert_allclose(projection.variance(sketch, points, LAM), variance)
    logdet = np.linalg.slogdet(dense / LAM)[1]
    np.testing.assert_allclose(projection.logdet(sketch, LAM), logdet, rtol=1e-10)


@cache
def linear_ucb_run():
    """The run of exact GP-UCB with a linear kernel."""
    bandit = GPUCB(kernels.Linear(), **COMMON, capacity=HORIZON)
    return ROLLOUT(bandit, linear_problem(), KEY, HORIZON)


@pytest.mark.parametrize(
    ("kind", "size"), [(SOFUL, DIMENSION), (SOFUL, DIMENSION + 3), (CBRAP, DIMENSION)]
)
def test_sketches_of_full_rank_have_the_picks_of_linear_ucb(kind, size):
    """SOFUL has a direction or more for each dimension, and CBRAP projects by a rotation."""
    bandit, exact = kind(**COMMON, size=size), linear_ucb_run()
    progress = start(bandit, linear_problem(), KEY, HORIZON)
    if kind is CBRAP:
        rotation = jnp.linalg.qr(jax.random.normal(KEY, (DIMENSION, DIMENSION)))[0]
        features = matmul(linear_problem().arms.features, rotation)
        state = feature_posterior.start(bandit.regularization, features)
        progress = progress.replace(state=state)
    run = ROLLOUT(bandit, linear_problem(), KEY, HORIZON, progress)
    np.testing.assert_array_equal(run.trace.arm, exact.trace.arm)
    np.testing.assert_allclose(run.trace.width, exact.trace.width, rtol=1e-9)


def test_gaussian_projections_keep_inner_products_on_average():
    """The 10 distinct entries of the mean of 4,000 Gram matrices are within 4 standard errors of
    x.y; a correct map fails with probability 6e-4. The variance is (|x|^2 |y|^2 + (x.y)^2) / m."""
    x = jax.random.normal(KEY, (4, DIMENSION))
    projections = jax.vmap(lambda k: x @ projection.gaussian(k, DIMENSION, 3, x.dtype))(
        jax.random.split(KEY, 4000)
    )
    gram = np.asarray(x @ x.T)
    error = np.sqrt((np.outer(np.diag(gram), np.diag(gram)) + gram**2) / 3 / 4000)
    mean = np.einsum("sim,sjm->ij", projections, projections) / 4000
    assert (np.abs(mean - gram) < 4 * error).all()


def test_soful_samples_have_the_moments_of_the_posterior():
    """4,000 draws of 8 arms have the mean and covariance of a dense posterior: `check_law` compares
    44 entries, and a correct sampler fails with probability 3e-4."""
    bandit = BANDITS["soful_ts"].replace(scale=0.7)
    arms, state = linear_problem().arms, run_of("soful_ts").state
    draw = jax.jit(jax.vmap(lambda key: bandit.sample(state, arms, key)[:8]))
    draws = np.asarray(draw(jax.random.split(KEY, 4000)))
    x, s = np.asarray(arms.features[:8]), state.sketch
    sketched = (s.directions.T * s.energies[None, :]) @ s.directions
    inverse = np.linalg.inv(LAM * np.eye(DIMENSION) + sketched)
    covariance = x @ inverse @ x.T * float(bandit.confidence_width(state, arms)) ** 2
    oracles.check_law(draws, x @ inverse @ state.moment, covariance)


@each
def test_a_batch_gives_the_state_of_its_single_evaluations(name):
    bandit, arms = BANDITS[name], linear_problem().arms
    state = bandit.init(arms, KEY)
    several = Query(jnp.array([3, 8, 3, 0], jnp.int32), jnp.array([True, True, True, False]))
    y = jnp.array([0.5, jnp.nan, -0.2, 9.0])
    batch_state, info = TELL(bandit, state, arms, several, y, KEY)
    for arm, reward in ((3, 0.5), (3, -0.2)):
        one = Query(jnp.asarray([arm], jnp.int32), jnp.ones(1, bool))
        state, _ = TELL(bandit, state, arms, one, jnp.array([reward]), KEY)
    assert int(info.observed) == 2 and int(info.batch_size) == 3
    chex.assert_trees_all_close(batch_state, state, rtol=1e-7, atol=1e-10)


def test_the_width_of_soful_paper_is_that_of_its_theorem():
    """Theorem 1 of Kuzborskij et al. in NumPy, for a sketch whose `shrunk` is positive."""
    arms, state = linear_problem().arms, run_of("soful_paper").state
    assert int(run_of("soful_paper").trace.dictionary_size[-1]) == 3
    ratio = 1 + float(state.sketch.shrunk) / LAM
    prior_variance = float(np.square(arms.features).sum(1).max())
    radicand = 3 * np.log(1 + HORIZON * prior_variance / (3 * LAM)) + 2 * np.log(10)
    radicand += DIMENSION * np.log(ratio)
    width = 0.1 * np.sqrt(radicand) * np.sqrt(ratio) + np.sqrt(LAM) * ratio
    assert ratio > 2
    assert float(BANDITS["soful_paper"].confidence_width(state, arms)) == pytest.approx(width)
