"""Factorizations of random and of nearly singular matrices, and conditions under vmap."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import devices, kernels, linalg


@pytest.mark.parametrize("size", [1, 5, 32, 50, 300])
def test_the_inverse_of_the_factor_whitens_the_matrix(size, accelerator):
    a = np.random.default_rng(size).standard_normal((size, size))
    matrix = a @ a.T + np.eye(size)
    inverse, logdet, lower = linalg.cholesky_inverse(jnp.asarray(matrix))
    np.testing.assert_allclose(inverse @ matrix @ inverse.T, np.eye(size), atol=1e-9)
    np.testing.assert_array_equal(np.triu(inverse, 1), 0)
    np.testing.assert_allclose(logdet, np.linalg.slogdet(matrix)[1], rtol=1e-12)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), atol=1e-9)


@pytest.mark.parametrize("size", [20, 290])
def test_the_inverse_root_of_near_duplicates_has_exact_residuals(size, accelerator):
    """Residuals are those of an eigendecomposition; the rank is below the number of points."""
    random = np.random.default_rng(size)
    originals = random.uniform(0, 1, (size // 2, 2))
    points = np.concatenate([originals, originals + 1e-7 * random.standard_normal(originals.shape)])
    arms = random.uniform(0, 1, (100, 2))
    kernel = kernels.Gaussian(0.7)
    gram = np.asarray(kernel.gram(points, points))
    roots = linalg.inverse_root(jnp.asarray(gram), jnp.ones(size, bool))
    order, root, factor = map(np.asarray, roots)
    np.testing.assert_allclose(factor @ factor.T, gram, atol=1e-14 * size)
    k = np.asarray(kernel.gram(jnp.asarray(arms), jnp.asarray(points)))
    residual = 1 - np.square(k[:, order] @ root).sum(1)
    # k(x,x) - |z(x)|^2 by an eigendecomposition without eigenvalues below m eps
    values, vectors = np.linalg.eigh(gram)
    large = values > size * np.finfo(float).eps * values.max()
    expected = 1 - np.square(k @ vectors[:, large] / np.sqrt(values[large])).sum(1)
    assert np.abs(residual - expected).max() < 1e-7
    # the residuals of the points themselves are 0
    assert np.abs(1 - np.square(gram[:, order] @ root).sum(1)).max() < 1e-7
    assert (np.abs(root).sum(0) > 0).sum() < size
    np.testing.assert_array_equal(np.tril(root, -1), 0)


@pytest.mark.parametrize("capacity", [31, 32, 40, 70])
def test_padding_has_no_effect(capacity, accelerator):
    points = np.random.default_rng(0).uniform(0, 1, (30, 2))
    # an accelerator may round an ill-conditioned matrix differently if its size differs
    kernel = kernels.Gaussian(0.1 if accelerator else 0.3)
    x = jnp.asarray(np.resize(points, (capacity, 2)))
    mask = jnp.arange(capacity) < 30
    order, root, features = linalg.inverse_root(kernel.gram(x, x), mask)
    gram = np.asarray(kernel.gram(x[:30], x[:30]))
    np.testing.assert_allclose(features[:30] @ features[:30].T, gram, atol=1e-12)
    gram = gram[order[:30]][:, order[:30]]
    np.testing.assert_allclose(root[:30, :30].T @ gram @ root[:30, :30], np.eye(30), atol=1e-6)
    np.testing.assert_array_equal(root[30:], 0)
    np.testing.assert_array_equal(root[:, 30:], 0)
    unpadded_order, unpadded, _ = linalg.inverse_root(kernel.gram(x[:30], x[:30]), mask[:30])
    np.testing.assert_array_equal(order[:30], unpadded_order)
    np.testing.assert_allclose(root[:30, :30], unpadded, rtol=1e-9, atol=1e-9)


def test_matrices_of_rank_zero_have_the_root_zero():
    """An empty dictionary, and points whose kernel is zero, have rank zero."""
    for gram, mask in ((jnp.eye(5), jnp.zeros(5, bool)), (jnp.zeros((5, 5)), jnp.ones(5, bool))):
        _, root, _ = linalg.inverse_root(gram, mask)
        np.testing.assert_array_equal(root, 0)


@pytest.mark.parametrize("size", [64, 257, 300])
def test_products_with_upper_matrices_are_those_of_numpy(size):
    random = np.random.default_rng(0)
    a, upper = random.standard_normal((9, size)), np.triu(random.standard_normal((size, size)))
    product = linalg.matmul_upper(jnp.asarray(a), jnp.asarray(upper))
    np.testing.assert_allclose(product, a @ upper, atol=1e-12)
    product = linalg.squares_upper(jnp.asarray(a), jnp.asarray(upper))
    np.testing.assert_allclose(product, np.square(a @ upper).sum(1), rtol=1e-12)
    product = linalg.upper_outer(jnp.asarray(upper))
    np.testing.assert_allclose(product, upper @ upper.T, atol=1e-12)


@pytest.mark.float32
def test_float32_roots_are_finite():
    points = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (40, 2)), jnp.float32)
    gram = kernels.Gaussian(2.0).gram(points, points)
    order, root, _ = linalg.inverse_root(gram, jnp.ones(40, bool))
    assert root.dtype == jnp.float32 and bool(jnp.isfinite(root).all())
    # linalg.matmul, because a plain float32 product on an accelerator rounds its factors
    z = linalg.matmul(jax.jit(kernels.Gaussian(2.0).gram)(points, points[order]), root)
    assert float(jnp.square(z).sum(1).max()) < 1.01


def test_products_with_few_rows_are_those_of_numpy():
    a, b = np.random.default_rng(0).standard_normal((2, 150, 150))
    product = jax.jit(linalg.matmul_rows)
    for rows in (0, 3, 64, 149):
        padded = np.where(np.arange(150)[:, None] < rows, a, 0)
        np.testing.assert_allclose(product(padded, b, rows), padded @ b, atol=1e-12)


def test_cond_per_run_changes_the_runs_that_need_it_in_one_call():
    needed = jnp.array([[False, True], [False, False]])
    values, steps = jnp.arange(4.0).reshape(2, 2), jnp.array([5.0, 7.0])
    calls = []

    def change(values, steps):
        jax.debug.callback(lambda: calls.append(1))
        return values + steps

    def one(needed, values, steps):
        return linalg.cond_per_run(needed, change, values, steps), linalg.any_over_vmap(needed)

    new, anywhere = jax.jit(jax.vmap(jax.vmap(one, (0, 0, None)), (0, 0, 0)))(needed, values, steps)
    jax.block_until_ready(new)
    jax.effects_barrier()
    changed = values + np.asarray(steps)[:, None]
    np.testing.assert_array_equal(new, np.where(needed, changed, values))
    assert anywhere.all() and len(calls) == 1


def test_cond_per_run_has_derivatives():
    """jacfwd maps `cond_per_run` over directions, as in the adversary, and vmap maps over runs."""
    values = jnp.array([2.0, 3.0])

    def change(values, factors):
        return values * factors

    def jacobian(needed, factors):
        return jax.jacfwd(lambda x: linalg.cond_per_run(needed, change, values, x))(factors)

    np.testing.assert_array_equal(jacobian(jnp.array(True), values + 4), np.diag(values))
    several = jax.vmap(jacobian)(jnp.array([True, False]), jnp.stack([values, values + 1]))
    np.testing.assert_array_equal(several, [np.diag(values), np.zeros((2, 2))])


def test_lazy_cond_changes_the_runs_that_need_it_and_skips_the_others():
    calls = []

    def change(pair):
        jax.debug.callback(lambda: calls.append(1))
        return pair[0] + 1, pair[1] * 0

    def change_if_needed(needed, a, b):
        return linalg.lazy_cond(needed, change, (a, b))

    a, b = jnp.arange(3.0), jnp.arange(3, dtype=jnp.int32)
    for needed in ([False, True, True], [False, False, False], [True, True, True]):
        calls.clear()
        needed = jnp.array(needed)
        new = jax.block_until_ready(jax.jit(jax.vmap(change_if_needed))(needed, a, b))
        jax.effects_barrier()
        np.testing.assert_array_equal(new[0], np.where(needed, a + 1, a))
        np.testing.assert_array_equal(new[1], np.where(needed, 0, b))
        assert (len(calls) > 0) == bool(needed.any())


def test_sequential_vmap_runs_one_after_another(monkeypatch):
    """Python numbers and other static arguments are passed unchanged."""
    random = np.random.default_rng(0)
    a, b = jnp.asarray(random.standard_normal((3, 4, 5))), jnp.asarray(random.standard_normal(5))

    def product(a, b, scale, power):
        return {"mean": scale * jnp.tanh(a @ b) ** power, "size": (a @ b).sum()}

    def runs(a, b):
        return jax.vmap(lambda a: linalg.sequential_vmap(product, a, b, 2.0, 3))(a)

    expected = jax.vmap(lambda a: product(a, b, 2.0, 3))(a)
    for compiled in (runs, jax.jit(runs)):
        chex.assert_trees_all_close(compiled(a, b), expected, rtol=1e-14, atol=0)
    program = str(jax.make_jaxpr(runs)(a, b))
    assert "tanh" in program and "f64[3,4] = tanh" not in program
    # float32 stays float32 beside a Python number
    result = linalg.sequential_vmap(product, a[0].astype("float32"), b.astype("float32"), 2.0, 3)
    assert result["mean"].dtype == jnp.float32
    monkeypatch.setattr(devices, "on_accelerator", lambda: True)
    # a new function, because JAX caches the program of `runs`
    program = str(jax.make_jaxpr(lambda a, b: runs(a, b))(a, b))
    assert "f64[3,4] = tanh" in program


def test_sequential_vmap_leaks_no_tracer():
    """JAX finds tracers that outlive their trace, such as those of the loop of `rollout`."""

    def half(x, scale):
        return scale * jnp.sin(x)

    def loop(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: linalg.sequential_vmap(half, x, 0.5), x)

    with jax.checking_leaks():
        result = jax.jit(jax.vmap(loop))(jnp.arange(4.0))
    expected = jnp.arange(4.0)
    for _ in range(3):
        expected = half(expected, 0.5)
    np.testing.assert_allclose(result, expected, rtol=1e-14)
