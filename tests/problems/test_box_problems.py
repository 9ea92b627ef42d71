"""Test functions on boxes: maxima, gradients and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from jsketch.problems import boxes

PROBLEMS = {
    "all_ones_network": boxes.all_ones_network(3),
    "styblinski_tang": boxes.styblinski_tang(3),
    "rastrigin": boxes.rastrigin(3),
    "ackley": boxes.ackley(3),
    "levy": boxes.levy(3),
    "branin": boxes.branin(),
}
each = pytest.mark.parametrize("name", PROBLEMS)


def points(problem, n, seed=0):
    unit = np.random.default_rng(seed).uniform(size=(n, problem.domain.lower.size))
    lower, upper = np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)
    return jnp.asarray(lower + unit * (upper - lower))


@each
def test_the_maximiser_has_the_largest_value(name):
    """No random point, and no point that a local optimiser reaches, has a larger value."""
    problem = PROBLEMS[name]
    value = jax.jit(jax.vmap(problem.value))
    offsets = np.random.default_rng(1).standard_normal((2000, problem.domain.lower.size)) * 1e-2
    lower, upper = np.asarray(problem.domain.lower), np.asarray(problem.domain.upper)
    at_maximiser = float(problem.value(problem.maximiser))
    assert at_maximiser == pytest.approx(float(problem.maximum), abs=1e-10)
    assert (problem.maximiser >= lower).all() and (problem.maximiser <= upper).all()
    near_points = jnp.asarray(np.clip(np.asarray(problem.maximiser) + offsets, lower, upper))
    box_points = points(problem, 2000)
    values = jnp.concatenate([value(near_points), value(box_points)])
    assert values.max() <= problem.maximum + 1e-10

    loss_and_gradient = jax.jit(jax.value_and_grad(lambda x: -problem.value(x)))

    def climb_from(start):
        bounds = list(zip(lower.tolist(), upper.tolist(), strict=True))
        objective = lambda x: [np.asarray(v) for v in loss_and_gradient(x)]  # noqa: E731
        return -minimize(objective, np.asarray(start), jac=True, bounds=bounds).fun

    starts = [near_points[0], *box_points[jnp.argsort(-value(box_points))[:5]]]
    ends = [climb_from(start) for start in starts]
    assert max(ends) == pytest.approx(float(problem.maximum), abs=1e-4)
    assert max(ends) <= problem.maximum + 1e-10


def test_the_functions_of_the_go_ucb_paper_have_its_maxima_and_regrets():
    """THEORY 8.4: maxima in 20 dimensions, and regrets of 20,000 uniform points. Three mean
    regrets, and the fraction of values of f1 above 25.999, are within 4 standard errors. A correct
    implementation fails with probability 3e-4."""
    f1, f2, f3 = boxes.all_ones_network(), boxes.styblinski_tang(), boxes.rastrigin()
    maxima = [f1.maximum, f2.maximum, f3.maximum]
    np.testing.assert_allclose(maxima, [26, 783.3233140754, 0], atol=1e-9)
    table = [(f1, 11.75, 11.7), (f2, 699.8, 143.4), (f3, 366.7, 45.7)]
    for f, regret, deviation in table:
        values = jax.jit(jax.vmap(f.value))(points(f, 20_000))
        error = 4 * deviation / 20_000**0.5
        assert float(f.maximum - values.mean()) == pytest.approx(regret, abs=error)
        assert float(values.std()) == pytest.approx(deviation, rel=0.02)
        if f is f1:
            assert float((values > 25.999).mean()) == pytest.approx(0.24, abs=0.012)


@each
def test_noise_has_its_standard_deviation(name):
    """Mean and deviation of 4,000 draws are within 5 standard errors of 0 and 0.5 for 6 problems. A
    correct implementation fails with probability 7e-6."""
    problem = PROBLEMS[name].replace(noise_std=0.5)
    x = problem.maximiser
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = jax.vmap(lambda key: problem(x, key))(keys) - problem.value(x)
    assert float(draws.std()) == pytest.approx(0.5, rel=0.06)
    assert abs(float(draws.mean())) < 5 * 0.5 / 4000**0.5
    noiseless = PROBLEMS[name]
    assert float(noiseless(x, jax.random.key(0))) == float(noiseless.value(x))


def test_gradients_of_ackley_are_finite_near_its_kink():
    """At distances up to 1e-17 from the kink the gradient is 0, and at 1e-6 that of a cone."""
    slopes = jax.vmap(jax.grad(boxes.ackley(3).value))(
        jnp.array([0.0, 1e-17, 1e-200, 1e-6])[:, None] * jnp.ones((1, 3))
    )
    np.testing.assert_allclose(slopes[:3], 0, atol=1e-3)
    np.testing.assert_allclose(slopes[3], -4 / 3**0.5 / 3**0.5, rtol=1e-4)
