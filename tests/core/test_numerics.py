"""Positions, largest entries, sweeps, products over used slots and the inverse root."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import kernels, numerics

KERNEL = kernels.Gaussian(0.7)


@pytest.mark.parametrize("share", [0, 0.02, 0.5, 1])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_positions_are_those_of_the_true_entries(size, share):
    random = np.random.default_rng(0)
    positions = jax.jit(numerics.positions, static_argnums=1)
    for length in (1, 2, 5, 99, 1000):
        mask = random.uniform(size=length) < share
        for start in (0, 3):
            expected = np.append(np.flatnonzero(mask)[start:], np.full(size, length))[:size]
            np.testing.assert_array_equal(positions(jnp.asarray(mask), size, start), expected)


def test_largest_values_and_the_next_one():
    random = np.random.default_rng(1)
    largest = jax.jit(numerics.largest, static_argnums=1)
    for length in (1, 4, 17, 500):
        values = random.integers(0, 50, length).astype(float)
        for count in {1, min(3, length), min(16, length)}:
            order = np.argsort(-values, kind="stable")
            index, outside = largest(jnp.asarray(values), count)
            np.testing.assert_array_equal(index, np.sort(order[:count]))
            rest = values[order[count:]]
            assert float(outside) == (rest.max() if rest.size else -np.inf)


def test_a_sum_over_true_entries():
    mask = np.random.default_rng(2).uniform(size=333) < 0.3
    values = jnp.arange(333.0)

    def add(index, valid):
        return jnp.where(valid, values[index], 0).sum()

    for size in (1, 16, 333):
        total = jax.jit(lambda size=size: numerics.sum_over(jnp.asarray(mask), size, add, 5.0))()
        assert float(total) == 5 + np.flatnonzero(mask).sum()


@pytest.mark.parametrize("entries", [10, 70, 10_000])
def test_a_sweep_is_one_call(entries, monkeypatch):
    """In chunks of 2, 14 and all of 101 rows."""
    monkeypatch.setattr(numerics, "ENTRIES", entries)
    x = jnp.asarray(np.random.default_rng(3).uniform(size=(101, 2)))
    pair = numerics.sweep(lambda x: (x.sum(1), 2 * x), x, 5)
    np.testing.assert_array_equal(pair[0], x.sum(1))
    np.testing.assert_array_equal(pair[1], 2 * x)


@pytest.mark.parametrize("capacity", [5, 64, 65, 130])
@pytest.mark.parametrize("used", [0, 3, 5])
def test_products_over_the_slots_in_use(capacity, used):
    random = np.random.default_rng(4)
    x, points = (jnp.asarray(random.uniform(size=(n, 2))) for n in (20, capacity))
    in_use = np.arange(capacity) < used
    columns = jnp.asarray(random.standard_normal((capacity, 3)) * in_use[:, None])
    gram = KERNEL.gram(x, points)
    product = numerics.gram_product(KERNEL, x, points, columns, jnp.asarray(used))
    np.testing.assert_allclose(product, gram @ columns, atol=1e-13)
    # what is below the diagonal, or in a block of unused columns, is not read
    upper = np.triu(random.standard_normal((capacity, capacity))) * in_use
    norms = numerics.squared_norms(gram, jnp.asarray(upper), jnp.asarray(used))
    np.testing.assert_allclose(norms, np.square(gram @ upper).sum(1), atol=1e-13)


@pytest.mark.parametrize("size", [1, 31, 33, 90])
def test_the_inverse_root_of_a_gram_matrix(size):
    """Two thirds of the points are in the mask, and one of them is repeated."""
    random = np.random.default_rng(size)
    x = random.uniform(0, 9, (size, 2))
    mask = random.uniform(size=size) < 0.67
    used = np.flatnonzero(mask)
    if len(used) > 2:
        x[used[1]] = x[used[0]]
    gram = np.asarray(KERNEL.gram(jnp.asarray(x), jnp.asarray(x)))
    order, rank, root, factor = jax.jit(numerics.inverse_root)(jnp.asarray(gram), jnp.asarray(mask))
    inside = gram[np.ix_(used, used)]
    values = np.linalg.eigvalsh(inside) if len(used) else np.zeros(0)
    assert int(rank) == (values > 1e-13).sum()
    pivots = np.asarray(order)[: int(rank)]
    assert mask[pivots].all() and len(set(pivots)) == len(pivots)
    np.testing.assert_allclose((factor @ factor.T)[np.ix_(used, used)], inside, atol=1e-12)
    triangle = np.asarray(root)[pivots][:, : int(rank)]
    np.testing.assert_array_equal(triangle, np.triu(triangle))
    assert not np.asarray(root)[:, int(rank) :].any() and not np.asarray(root)[~mask].any()
    kept = gram[np.ix_(pivots, pivots)]
    np.testing.assert_allclose(triangle @ triangle.T @ kept, np.eye(int(rank)), atol=1e-8)


@pytest.mark.parametrize("size", [1, 5, 32, 37, 64, 130])
def test_cholesky_factors(size):
    random = np.random.default_rng(size)
    a = random.standard_normal((size, size))
    matrix = a @ a.T + np.eye(size)
    lower, inverse = numerics.cholesky_inverse(jnp.asarray(matrix))
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), atol=1e-9)
    np.testing.assert_allclose(inverse, np.linalg.inv(np.linalg.cholesky(matrix)), atol=1e-9)
    upper = numerics.upper_factor(jnp.asarray(matrix), 1e-12)
    np.testing.assert_array_equal(upper, np.triu(upper))
    np.testing.assert_allclose(upper @ upper.T, matrix, atol=1e-9)


@pytest.mark.parametrize("used", [0, 1, 31, 32, 70, 80])
def test_factors_of_the_rows_in_use(used):
    """The other rows are zero outside the diagonal, alone and in a batch of runs."""
    random, size = np.random.default_rng(used), 80
    sizes = jnp.array([used, size - used], jnp.int32)
    a = random.standard_normal((2, size, size))
    in_use = np.arange(size) < np.asarray(sizes)[:, None]
    matrices = (a @ a.transpose(0, 2, 1)) * in_use[:, :, None] * in_use[:, None, :] + np.eye(size)

    def factors(matrix, used):
        upper = numerics.upper_factor(matrix, 1e-12, used)
        return *numerics.cholesky_inverse(matrix, used), upper

    together = jax.jit(jax.vmap(factors))(jnp.asarray(matrices), sizes)
    for i, (matrix, n) in enumerate(zip(matrices, np.asarray(sizes), strict=True)):
        inside, true_lower = np.s_[:n, :n], np.linalg.cholesky(matrix[:n, :n])
        alone = jax.jit(factors)(jnp.asarray(matrix), sizes[i])
        for results in (alone, [leaf[i] for leaf in together]):
            lower, inverse, upper = (np.asarray(leaf) for leaf in results)
            np.testing.assert_allclose(lower[inside], true_lower, atol=1e-9)
            np.testing.assert_allclose(inverse[inside], np.linalg.inv(true_lower), atol=1e-9)
            np.testing.assert_allclose((upper @ upper.T)[inside], matrix[inside], atol=1e-9)
            for leaf in (lower, inverse, upper):
                rest = leaf - np.diag(np.diag(leaf))
                assert not rest[n:].any() and not rest[:, n:].any()


def test_a_pivot_below_the_least_one_is_replaced():
    """Rounding has made a singular matrix indefinite by 1e-15."""
    matrix = jnp.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])
    upper = numerics.upper_factor(matrix, 1e-13)
    np.testing.assert_allclose(upper @ upper.T, matrix, atol=1e-12)


def test_values_that_are_not_finite_reach_the_inverse_root():
    matrix = jnp.eye(8).at[3, 4].set(jnp.nan).at[4, 3].set(jnp.nan)
    assert np.isnan(numerics.inverse_root(matrix, jnp.ones(8, bool)).root).any()


def test_vmapped_inverse_roots_of_different_ranks():
    random = np.random.default_rng(6)
    x = jnp.asarray(random.uniform(0, 5, (3, 50, 2)))
    masks = jnp.asarray(np.arange(50) < np.array([[0], [20], [50]]))
    grams = jax.vmap(KERNEL.gram)(x, x)
    inverse_root = numerics.inverse_root
    together = jax.jit(jax.vmap(inverse_root))(grams, masks)
    for row in range(3):
        one = jax.jit(inverse_root)(grams[row], masks[row])
        for actual, expected in zip(together, one, strict=True):
            np.testing.assert_allclose(actual[row], expected, atol=1e-12)


def test_runs_are_computed_one_after_the_other_or_together(monkeypatch):
    """The number of steps of a run does not depend on the others, and the result not on the way."""

    def halve(x, n):
        return jax.lax.fori_loop(0, n, lambda _, x: x / 2, x)

    xs, counts = jnp.arange(4.0), jnp.array([0, 5, 2, 1])
    expected = np.arange(4.0) / 2.0 ** np.array([0, 5, 2, 1])
    for on_accelerator in (False, True):
        monkeypatch.setattr(numerics, "on_accelerator", lambda value=on_accelerator: value)
        run = jax.vmap(lambda x, n: numerics.one_after_another(halve, x, n))
        np.testing.assert_array_equal(jax.jit(run)(xs, counts), expected)
        text = jax.jit(run).lower(xs, counts).as_text()
        assert ("tensor<4xi1>" in text) == on_accelerator  # a condition for each run


def test_lazy_cond_changes_the_runs_that_need_it_and_skips_the_others():
    calls = []

    def change(pair):
        jax.debug.callback(lambda: calls.append(1))
        return pair[0] + 1, pair[1] * 0

    def change_if_needed(needed, a, b):
        return numerics.lazy_cond(needed, change, (a, b))

    a, b = jnp.arange(3.0), jnp.arange(3, dtype=jnp.int32)
    for needed in ([False, True, True], [False, False, False], [True, True, True]):
        calls.clear()
        needed = jnp.array(needed)
        new = jax.block_until_ready(jax.jit(jax.vmap(change_if_needed))(needed, a, b))
        jax.effects_barrier()
        np.testing.assert_array_equal(new[0], np.where(needed, a + 1, a))
        np.testing.assert_array_equal(new[1], np.where(needed, 0, b))
        assert (len(calls) > 0) == bool(needed.any())
