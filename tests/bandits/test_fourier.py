"""Tests of Fourier features and of the bandits that use them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from cases import problem
from small_problems import GRAM, KEY, ROLLOUT, TELL

from jsketch import Arms, Query, kernels
from jsketch.bandits import GPUCB
from jsketch.bandits.linear.fourier import FourierTS, FourierUCB
from jsketch.numerics import matmul
from jsketch.sketch import fourier
from jsketch.sketch.fourier import QuadratureFourier, RandomFourier, cos_sin

HORIZON, LAM = 30, 0.05
KERNEL = kernels.Gaussian(0.5)
COMMON = dict(kernel=KERNEL, regularization=LAM, noise_std=0.2, norm_bound=1.0, delta=0.1)
BANDITS = {
    "random": FourierUCB(**COMMON, features=RandomFourier(20)),
    "quadrature": FourierUCB(**COMMON, features=QuadratureFourier(6)),
    "ts": FourierTS(**COMMON, features=QuadratureFourier(6)),
}


def test_phases_of_arms_far_from_zero_lose_no_digits():
    """In float32 a phase of 8,192 has a rounding error of 1e-3, which the kernel would inherit."""
    x = np.round(np.random.default_rng(0).uniform(size=(9, 2)) * 1024) / 1024
    whitened = jax.jit(lambda x: BANDITS["random"].init(Arms(x), KEY).whitened)
    features = [np.asarray(whitened((x + shift).astype(np.float32))) for shift in (0.0, 8192.0)]
    near, far = (z @ z.T * LAM for z in features)
    np.testing.assert_allclose(far, near, atol=2e-6)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Gaussian(0.4),
        kernels.Gaussian(jnp.array([0.3, 1.0])),
        kernels.Matern(0.6, nu=0.5),
        kernels.Matern(0.6, nu=1.5),
        kernels.Matern(0.6, nu=2.5),
    ],
)
def test_random_features_are_unbiased_and_have_the_monte_carlo_variance(kernel):
    """All 28 entries of the mean of 2,000 Gram matrices are within 4 standard errors of the kernel:
    a correct map fails with probability 2e-3. An entry averages 16 values of cos(omega . delta),
    and has the variance (1 + k(2 delta) - 2 k(delta)^2) / 2 / 16."""
    x = np.asarray(jax.random.uniform(KEY, (8, 2)))
    maps = RandomFourier(16)

    def gram(key):
        z = fourier.features(maps.draw(kernel, 2, key, x.dtype), x)
        return matmul(z, z.T)

    grams = np.asarray(jax.jit(jax.vmap(gram))(jax.random.split(KEY, 2000)))
    expected, doubled = (np.asarray(GRAM(kernel, scale * x, scale * x)) for scale in (1, 2))
    variance = (1 + doubled - 2 * expected**2) / 2 / 16
    np.testing.assert_allclose(np.diagonal(grams, axis1=1, axis2=2), 1, rtol=1e-12)
    assert (np.abs(grams.mean(0) - expected) <= 4 * np.sqrt(variance / 2000) + 1e-12).all()
    off_diagonal = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(grams.var(0)[off_diagonal], variance[off_diagonal], rtol=0.25)


@pytest.mark.parametrize(
    ("nodes", "lengthscale"), [(1, 1.0), (5, 1.0), (6, 1.0), (12, 0.5), (13, 1.0)]
)
def test_the_error_of_quadrature_is_below_its_bound(nodes, lengthscale):
    x = np.asarray(jax.random.uniform(KEY, (30, 2)))
    kernel = kernels.Gaussian(lengthscale)

    @jax.jit
    def weights_and_gram(x):
        frequencies = QuadratureFourier(nodes).draw(kernel, 2, KEY, x.dtype)
        z = fourier.features(frequencies, x)
        return frequencies.weights, matmul(z, z.T)

    weights, gram = weights_and_gram(x)
    # a node and its negative share a cosine and a sine
    assert weights.shape[0] == -(-(nodes**2) // 2)
    error = np.abs(gram - np.asarray(GRAM(kernel, x, x)))
    # for each input the Gauss-Hermite remainder for cos is at most n!/(2n)! difference^(2n), and
    # the errors of factors of modulus <= 1 add up
    difference = np.abs(x[:, None] - x[None]) / lengthscale
    factor = math.factorial(nodes) / math.factorial(2 * nodes)
    bound = (factor * difference ** (2 * nodes)).sum(-1)
    assert (error <= bound + 1e-13).all()


def test_accurate_features_have_the_picks_of_the_kernel():
    """UCB on 16 x 16 quadrature nodes has the picks of exact GP-UCB."""
    exact_run = ROLLOUT(GPUCB(**COMMON, capacity=HORIZON), problem(), KEY, HORIZON)
    bandit = FourierUCB(**COMMON, features=QuadratureFourier(16))
    run = ROLLOUT(bandit, problem(), KEY, HORIZON)
    np.testing.assert_array_equal(run.trace.arm, exact_run.trace.arm)
    expected = exact_run.state.posterior.variance
    np.testing.assert_allclose(run.state.posterior.variance, expected, rtol=1e-4)


def test_thompson_samples_have_the_moments_of_a_fit_from_scratch():
    """`check_law` compares 90 entries of the mean and covariance of 4,000 draws of 12 arms. A
    correct sampler fails with probability 6e-4."""
    bandit = BANDITS["ts"].replace(scale=0.7)
    arms, pulled, y = problem().arms, np.array([1, 3, 3, 3, 7, 20]), np.sin(np.arange(6))
    query = Query(pulled.astype(np.int32), np.ones(len(pulled), bool))
    start = jax.jit(lambda: bandit.init(arms, KEY))()
    state, _ = TELL(bandit, start, arms, query, y, KEY)
    draw = jax.jit(jax.vmap(lambda key: bandit.sample(state, arms, key)[:12]))
    draws = np.asarray(draw(jax.random.split(KEY, 4000)))
    z = np.asarray(state.whitened) * np.sqrt(LAM)
    inverse = np.linalg.inv(z[pulled].T @ z[pulled] + LAM * np.eye(z.shape[1]))
    width = float(bandit.confidence_width(state, arms))
    assert width == pytest.approx(0.7 * np.sqrt(LAM))
    covariance = z[:12] @ inverse @ z[:12].T * width**2
    oracles.check_law(draws, z[:12] @ inverse @ (y @ z[pulled]), covariance)


def test_cosines_and_sines_lose_no_digits():
    random = np.random.default_rng(0)
    phase = np.concatenate(
        [random.normal(scale=scale, size=20_000) for scale in (1e-9, 1, 10, 1e5)]
        + [np.arange(-40, 41) * np.pi / 4, [0.0, -0.0]]
    )
    cos, sin = jax.jit(cos_sin)(phase)
    np.testing.assert_allclose(cos, np.cos(phase), rtol=0, atol=2.3e-16)
    np.testing.assert_allclose(sin, np.sin(phase), rtol=1e-15, atol=2.3e-16)
    # far phases lose only the digits that their own rounding loses; a phase of 1e18 loses all
    far = random.uniform(1e7, 1e12, 1000)
    compiled = jax.jit(cos_sin)
    np.testing.assert_allclose(compiled(far)[0], np.cos(far), atol=1e12 * 2.3e-16)
    huge = compiled(np.array([1e18, -1e300, np.inf, np.nan]))
    assert np.abs(np.array(huge)[:, :2]).max() <= 1 and np.isnan(np.array(huge)[:, 2:]).all()
    slope = jax.jit(jax.grad(lambda p: cos_sin(p)[0]))(2.0)
    assert slope == pytest.approx(-np.sin(2.0), abs=1e-14)
    assert compiled(np.zeros(3, np.float32))[0].dtype == jnp.float32
