"""The pivoted inverse root of singular matrices, and loops over the runs of a vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_problems import GRAM

from jsketch import kernels, numerics

INVERSE_ROOT = jax.jit(numerics.inverse_root)


@pytest.mark.parametrize("size", [20, 290])
def test_the_inverse_root_of_near_duplicates_has_exact_residuals(size):
    """Residuals are those of an eigendecomposition; the rank is below the number of points."""
    random = np.random.default_rng(size)
    originals = random.uniform(0, 1, (size // 2, 2))
    points = np.concatenate([originals, originals + 1e-7 * random.standard_normal(originals.shape)])
    arms = random.uniform(0, 1, (100, 2))
    kernel = kernels.Gaussian(0.7)
    gram = np.asarray(GRAM(kernel, points, points))
    order, rank, root, factor = map(np.asarray, INVERSE_ROOT(gram, np.ones(size, bool)))
    np.testing.assert_allclose(factor @ factor.T, gram, atol=1e-14 * size)
    k = np.asarray(GRAM(kernel, arms, points))
    residual = 1 - np.square(k @ root).sum(1)
    # k(x,x) - |z(x)|^2 by an eigendecomposition without eigenvalues below m eps
    values, vectors = np.linalg.eigh(gram)
    large = values > size * np.finfo(float).eps * values.max()
    expected = 1 - np.square(k @ vectors[:, large] / np.sqrt(values[large])).sum(1)
    assert np.abs(residual - expected).max() < 1e-7
    # the residuals of the points themselves are 0
    assert np.abs(1 - np.square(gram @ root).sum(1)).max() < 1e-7
    assert rank == (np.abs(root).sum(0) > 0).sum() < size
    np.testing.assert_array_equal(np.tril(root[order[:rank]], -1), 0)
    # each pivot is the largest entry of what is left of the diagonal
    left, pivots = np.diag(gram).copy(), np.diag(factor[order[:rank]]) ** 2
    for step in range(min(rank, 12)):
        assert pivots[step] == pytest.approx(left.max(), rel=1e-6)
        left = left - factor[:, step] ** 2


@pytest.mark.parametrize("capacity", [31, 32, 40, 70])
def test_padding_has_no_effect(capacity):
    points = np.random.default_rng(0).uniform(0, 1, (30, 2))
    kernel = kernels.Gaussian(0.3)
    x = np.resize(points, (capacity, 2))
    gram, mask = np.asarray(GRAM(kernel, points, points)), np.arange(capacity) < 30
    padded, unpadded = (
        jax.tree.map(np.asarray, INVERSE_ROOT(k, used))
        for k, used in ((GRAM(kernel, x, x), mask), (gram, mask[:30]))
    )
    assert int(padded.rank) == int(unpadded.rank)
    np.testing.assert_array_equal(padded.order[:30], unpadded.order)
    np.testing.assert_allclose(padded.root[:30, :30], unpadded.root, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(padded.root[30:], 0)
    np.testing.assert_array_equal(padded.root[:, 30:], 0)
    np.testing.assert_allclose(padded.factor[:30] @ padded.factor[:30].T, gram, atol=1e-12)


def test_matrices_of_rank_zero_have_the_root_zero():
    """An empty dictionary, and points whose kernel is zero, have rank zero."""
    for gram, mask in ((np.eye(5), np.zeros(5, bool)), (np.zeros((5, 5)), np.ones(5, bool))):
        result = INVERSE_ROOT(gram, mask)
        assert int(result.rank) == 0
        np.testing.assert_array_equal(result.root, 0)


@pytest.mark.float32
def test_float32_roots_are_finite():
    points = np.random.default_rng(0).uniform(0, 1, (40, 2)).astype(np.float32)
    gram = GRAM(kernels.Gaussian(2.0), points, points)
    root = INVERSE_ROOT(gram, np.ones(40, bool)).root
    assert root.dtype == jnp.float32 and np.isfinite(root).all()
    z = np.asarray(numerics.matmul(gram, root))
    assert np.square(z).sum(1).max() < 1.01


def test_the_largest_of_too_few_values_are_repeated():
    values = np.where(np.arange(9) == 4, 1.0, -np.inf)
    index, outside = jax.jit(numerics.largest, static_argnums=1)(values, 3)
    assert 4 in np.asarray(index) and float(outside) == -np.inf


def test_one_after_another_leaks_no_tracer():
    """JAX finds tracers that outlive their trace, such as those of the loop of `rollout`."""

    def half(x, scale):
        return scale * jnp.sin(x)

    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: numerics.one_after_another(half, x, 0.5), x)

    with jax.checking_leaks():
        result = jax.jit(jax.vmap(loop))(np.arange(4.0))
    expected = np.arange(4.0)
    for _ in range(3):
        expected = 0.5 * np.sin(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-14)


def test_loops_over_runs_end_with_the_last_one():
    """The trip count and the condition are those of all runs of a vmap."""

    def doubled(n):
        def goes_on(carry):
            return carry[0] < n

        def step(carry):
            live = goes_on(carry)
            return carry[0] + live.astype(jnp.int32), jnp.where(live, 2 * carry[1], carry[1])

        start = jnp.zeros((), jnp.int32), jnp.ones(())
        return numerics.while_any(goes_on, step, start)[1], numerics.trip_count(n)

    counts = np.array([0, 3, 5], np.int32)
    values, most = jax.jit(jax.vmap(doubled))(counts)
    np.testing.assert_array_equal(values, 2.0 ** np.array([0, 3, 5]))
    np.testing.assert_array_equal(most, 5)
