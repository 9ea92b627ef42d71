"""Gradient ascent in a box returns the best point of its path and ignores NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jsketch import search


def test_steps_beyond_a_peak_return_the_best_point():
    def peak(u):
        return -jnp.sqrt(jnp.abs(u - 0.4).sum(1))

    starts = jnp.array([[0.4, 0.401], [0.399, 0.4], [0.4005, 0.4005]])
    ends = jax.jit(lambda u: search.ascend_cube(peak, u, 4))(starts)
    assert (ends.values >= peak(starts)).all() and (ends.values == peak(ends.best)).all()
    # the first step is far longer than the distance to the peak
    assert float(jnp.abs(ends.best - starts).max()) < 1e-2


def test_ascent_stays_in_the_cube_and_never_ends_below_its_starts():
    def bumps(u):
        """Two hills, the higher one in a corner; beyond the corner the function increases."""
        lower_hill = jnp.exp(-20 * jnp.square(u - 0.3).sum(1))
        return lower_hill + 1.5 * jnp.exp(-20 * jnp.square(u - 1.02).sum(1))

    starts = jnp.asarray(np.random.default_rng(0).uniform(size=(30, 2)))
    ends = jax.jit(lambda u: search.ascend_cube(bumps, u, 60))(starts)
    assert (ends.best >= 0).all() and (ends.best <= 1).all()
    assert (ends.values >= bumps(starts)).all()
    np.testing.assert_allclose(ends.values, bumps(ends.best), rtol=1e-12)
    corner = float(bumps(jnp.ones((1, 2)))[0])
    assert float(ends.values.max()) == pytest.approx(corner, rel=1e-6)


def test_scores_that_are_not_finite_are_never_the_largest():
    def score(u):
        return jnp.where(u[:, 0] > 0.5, jnp.nan, u[:, 0])

    sizes = dict(candidates=64, starts=4, steps=20)
    best = jnp.array([0.9, 0.9])
    u, value = search.maximise_over_cube(score, best, jax.random.key(0), **sizes)
    assert float(u[0]) <= 0.5 and np.isfinite(value)

    def score_of_pairs(pairs):
        x, p = pairs
        return jnp.where(x[:, 0] > 0.5, jnp.nan, x[:, 0] - jnp.square(p).sum(1))

    def project(pairs):
        return jnp.clip(pairs[0], 0, 1), pairs[1]

    starts = jnp.zeros((2, 1)), jnp.zeros((2, 1))
    ends = search.ascend(score_of_pairs, starts, optax.sgd(0.05), project, 40)
    assert (ends.values > 0.4).all() and (ends.values <= 0.5).all()


def test_candidates_around_the_best_point_find_a_spike_and_uniform_ones_do_not():
    """The spike in six dimensions is beside the best point, and has a width of 0.01."""
    best, sizes = jnp.full(6, 0.4), dict(candidates=64, starts=4, steps=20)

    def spike(u):
        return jnp.exp(-jnp.square((u - 0.401) / 0.01).sum(1)) + 1e-6 * u[:, 0]

    value_around_best, value_of_uniform = (
        search.maximise_over_cube(spike, best, jax.random.key(0), **sizes, around_best=around)[1]
        for around in (True, False)
    )
    assert float(value_around_best) > 0.9
    assert float(value_of_uniform) < 1e-5
