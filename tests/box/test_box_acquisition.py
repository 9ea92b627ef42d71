"""Acquisition functions and their gradients compared with integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import laplace, log_cdf, log_excess
from scipy.stats import norm

from jsketch import kernels
from jsketch.box import GPBandit, acquisition, regression

NEGATIVE_Z = -np.array([1e-3, 0.1, 0.9, 2, 4.999, 5.001, 8, 20, 38, 40, 300, 1e4, 1e8])
NONNEGATIVE_Z = np.array([0.0, 1e-3, 0.5, 2.0, 5.0, 10.0, 40.0, 1e4])
REFERENCES = {
    acquisition.log_expected_improvement: log_excess,
    acquisition.log_probability_of_improvement: log_cdf,
}


@pytest.mark.parametrize(("function", "reference"), REFERENCES.items())
def test_log_ei_and_log_pi_are_accurate_in_both_tails(function, reference):
    z = np.concatenate([NEGATIVE_Z, NONNEGATIVE_Z])
    values = jax.jit(function)(mean=jnp.asarray(z), variance=jnp.ones(len(z)), threshold=0.0)
    expected = [reference(value) for value in z]
    # atol, because where a logarithm is near zero only its absolute error is small
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-14)


def test_gradients_of_log_ei_and_log_pi_are_accurate_in_both_tails():
    """d log EI / dz = Phi / EI and d log Phi / dz = phi / Phi. For z < 0 they are integrals."""
    slope = jax.jit(
        jax.vmap(jax.grad(lambda z: acquisition.log_expected_improvement(z, jnp.ones(()), 0.0)))
    )
    expected = [laplace(-z, 0) / laplace(-z, 1) for z in NEGATIVE_Z]
    np.testing.assert_allclose(slope(jnp.asarray(NEGATIVE_Z)), expected, rtol=1e-10)
    z = NONNEGATIVE_Z
    expected = norm.cdf(z) / (norm.pdf(z) + z * norm.cdf(z))
    np.testing.assert_allclose(slope(jnp.asarray(z)), expected, rtol=1e-11)
    cdf_slope = jax.jit(jax.vmap(jax.grad(acquisition.log_normal_cdf)))
    expected = [1 / laplace(-z, 0) for z in NEGATIVE_Z]
    np.testing.assert_allclose(cdf_slope(jnp.asarray(NEGATIVE_Z)), expected, rtol=1e-10)
    expected = norm.pdf(z) / norm.cdf(z)
    np.testing.assert_allclose(cdf_slope(jnp.asarray(z)), expected, rtol=1e-11, atol=1e-300)


@pytest.mark.float32
def test_values_and_gradients_are_finite_in_the_default_dtype():
    dtype = jnp.zeros(()).dtype
    z = np.concatenate([NEGATIVE_Z, NONNEGATIVE_Z]).astype(dtype)
    one = np.ones((), dtype)
    for function in REFERENCES:
        both = jax.value_and_grad(lambda z, f=function: f(z, one, 0.0))
        value, slope = jax.jit(jax.vmap(both))(z)
        assert value.dtype == slope.dtype == dtype
        assert np.isfinite(value).all() and np.isfinite(slope).all()


def test_ei_and_pi_use_the_best_value_plus_the_margin_and_ucb_uses_the_width():
    """The threshold of EI and PI is the best standardized value plus the margin; UCB has none."""
    random = np.random.default_rng(0)
    u, y, mask = random.uniform(size=(8, 1)), random.normal(size=8), np.arange(8) < 6
    numbers = regression.Hyperparameters(jnp.array([0.3]), jnp.array(1.2), jnp.array(0.1))
    margin, width, best = 0.4, 1.7, ((y - y[mask].mean()) / y[mask].std())[mask].max()
    bandit, points = GPBandit(kernels.Gaussian(), margin=margin, width=width), u[6:]

    @jax.jit
    def posterior_and_scores(u, y, mask, points):
        data = regression.standardized(u, y, mask)
        posterior = regression.condition(kernels.Gaussian(), numbers, data)
        names = GPBandit.__dataclass_fields__["acquisition"].metadata["choices"]
        scores = {name: bandit.replace(acquisition=name).score(posterior)(points) for name in names}
        return regression.predict(posterior, points), scores

    (mean, variance), scores = jax.tree.map(np.asarray, posterior_and_scores(u, y, mask, points))
    z = (mean - best - margin) / np.sqrt(variance)
    excess = norm.pdf(z) + z * norm.cdf(z)
    expected = {
        "log_ei": np.log(np.sqrt(variance) * excess),
        "pi": norm.logcdf(z),
        "ucb": mean + width * np.sqrt(variance),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(scores[name], value, rtol=1e-10)
