"""Parametric laws: their truths, maxima and noise."""

import jax
import numpy as np
import pytest
from small_problems import KEY

from jsketch.problems import laws

each = pytest.mark.parametrize("law", laws.LAWS.values(), ids=list(laws.LAWS))
PROBLEM = jax.jit(lambda law, key: law.problem(key), static_argnums=0)


def test_the_laws_are_divided_once_into_halves():
    assert len(laws.CHOOSING) == len(laws.JUDGING) == 6 and len(laws.MISSING) == 2
    assert len(laws.LAWS) == 14
    for half in (laws.CHOOSING, laws.JUDGING):
        sizes = [law.domain.lower.size for law in half]
        assert min(sizes) == 1 and max(sizes) == 20


@each
def test_a_problem_has_the_drawn_truth_and_its_maximum(law):
    problem = PROBLEM(law, KEY)
    lower, upper = np.asarray(law.domain.lower), np.asarray(law.domain.upper)
    unit = np.random.default_rng(3).uniform(size=(3000, lower.size))
    x = np.concatenate([np.asarray(problem.maximiser)[None], lower + unit * (upper - lower)])

    @jax.jit
    def coordinates_and_values(problem, x):
        return law.true_model.coordinates(problem.truth), jax.vmap(problem.value)(x)

    z, values = map(np.asarray, coordinates_and_values(problem, x))
    assert np.abs(z).max() <= laws.OFF + 1e-5  # off by at most a quarter of the range
    assert values[0] == pytest.approx(float(problem.maximum))
    values = values[1:]
    gap = float(problem.maximum - problem.mean)
    assert float(values.max() - problem.maximum) < 1e-3 * gap
    assert float(values.mean() - problem.mean) == pytest.approx(0, abs=0.1 * gap)
    assert float(problem.noise_std) == pytest.approx(laws.NOISE * gap)


@each
def test_a_model_describes_its_law_unless_a_term_is_missing(law):
    problem = PROBLEM(law, KEY)
    law.model.check(law.domain)

    @jax.jit
    def values(problem):
        own = {name: problem.truth[name] for name in law.model.ranges}
        x = (law.domain.lower + law.domain.upper) / 2
        return law.model(own, x), problem.value(x)

    model_value, value = map(float, values(problem))
    difference = abs(model_value - value)
    assert (difference > 1e-3 * float(problem.noise_std)) == (law in laws.MISSING)


def test_the_units_of_a_network_can_be_exchanged():
    """The 48 parameters differ and have the values of the truth; each is the nearest to itself."""
    law = laws.network
    truth, x = law.draw(KEY), jax.random.normal(KEY, (5, 6))
    others = law.exchanges(truth)
    flat = np.concatenate([np.reshape(leaf, (48, -1)) for leaf in others.values()], 1)
    assert len(np.unique(flat.round(9), axis=0)) == 48
    values = jax.vmap(lambda one: jax.vmap(lambda point: law.model(one, point))(x))(others)
    expected = jax.vmap(lambda point: law.model(truth, point))(x)
    np.testing.assert_allclose(values, np.broadcast_to(expected, values.shape), atol=1e-9)
    one = jax.tree.map(lambda leaf: leaf[17], others)
    nearest = law.nearest(truth, jax.tree.map(lambda leaf: leaf + 1e-3, one))
    jax.tree.map(np.testing.assert_array_equal, nearest, one)
    assert laws.hill.nearest(truth, {}) is truth
