"""Ascent keeps the best point that it met, also where its steps only lose."""

import jax
import jax.numpy as jnp

from jsketch.search import over_cube


def test_steps_that_jump_over_a_peak_lose_nothing():
    def peak(u):
        return -jnp.sqrt(jnp.abs(u - 0.4).sum(1))

    starts = jnp.array([[0.4, 0.401], [0.399, 0.4], [0.4005, 0.4005]])
    points, values = jax.jit(lambda u: over_cube.ascend(peak, u, 4))(starts)
    assert (values >= peak(starts)).all() and (values == peak(points)).all()
    # the first step is far longer than the way to the peak
    assert float(jnp.abs(points - starts).max()) < 1e-2
