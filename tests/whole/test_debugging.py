"""Runs under the switches with which JAX is debugged. Two more, strict promotion of dtypes and of
ranks, are set for all tests."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, Space, drive, kernels, loops, minimize, online, problems
from jsketch.bandits import BBKB, FixedBKB
from jsketch.kernels.stationary import matern
from jsketch.sketch.taylor import Taylor
from jsketch.suggest.mixed import Columns, Mixed

KEY = jax.random.key(0)
X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
MEANS = np.sin(X.sum(1))
PROBLEM = problems.finite_arms(X, MEANS, 0.1)
BANDIT = BBKB(kernels.Gaussian(0.5), max_batch=4)
SWITCHES = {
    "nans": lambda: jax.debug_nans(True),
    "infs": lambda: jax.debug_infs(True),
    "leaks": jax.checking_leaks,
    "checks": lambda: jax.enable_checks(True),
}


def test_the_kernel_of_minimize_passes_the_checks_of_jax():
    """The static argument of a custom derivative has no name in `jax_enable_checks`."""
    columns = (Columns("numbers", 1), Columns("category", 2))
    kernel = Mixed(jnp.ones(2), columns)
    points = np.array([[0.1, 1, 0], [0.7, 0, 1]])
    with jax.enable_checks(True):
        gram = jax.jit(lambda x: kernel.gram(x, x))(points)
    distance = np.sqrt(5 * (0.6**2 + 1))
    value = (1 + distance + distance**2 / 3) * np.exp(-distance)
    np.testing.assert_allclose(gram, [[1, value], [value, 1]], rtol=1e-12)
    with pytest.raises(TypeError, match="nu"):
        matern(jnp.ones((1, 1)), nu=2.5)


def results():
    """The results of each loop. The objective of `drive` fails once: `jax_debug_nans` reports only
    NaN that a program returns."""

    def measure(arms):
        return np.where(arms == arms.max(), np.nan, MEANS[arms])

    run = loops.run(BANDIT, PROBLEM, KEY, horizon=8)
    fixed = FixedBKB(kernels.Gaussian(0.5), batch=4)
    with pytest.warns(UserWarning, match="2 of 8 evaluations failed"):
        driven = drive(fixed, measure, Arms(X), KEY, horizon=8)
    forecaster = online.PKAWV(Taylor(inputs=2, degree=2, lengthscale=1.0))
    losses, _ = loops.prequential(forecaster, (X, MEANS), KEY)
    space = Space(x=(-1.0, 1.0), c=["a", "b"])
    found = minimize(lambda x, c: x * x + (c == "a"), space, 7, progress=False)
    return run.trace.arm, driven.x, losses.average_loss, found.values


expected_results = cache(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", SWITCHES)
def test_runs_under_a_switch_are_the_runs_without_it(name):
    """All programs are traced and compiled again under the switch."""
    expected = expected_results()
    jax.clear_caches()
    with SWITCHES[name]():
        under_switch = results()
    for value, other in zip(under_switch, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-10)


@pytest.mark.slow
def test_a_compiled_run_copies_nothing_from_the_host():
    run = jax.jit(lambda key: loops.rollout(BANDIT, PROBLEM, key, 8).trace.arm)
    expected = run(KEY)
    with jax.transfer_guard("disallow"):
        arms = run(KEY)
    np.testing.assert_array_equal(arms, expected)
