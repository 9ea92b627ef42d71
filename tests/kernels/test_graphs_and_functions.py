"""Kernels of graphs, of phases, of some of the inputs and of functions of two points."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import scipy.linalg
import scipy.sparse
from small_problems import ROLLOUT

from jsketch import checks, kernels, problems
from jsketch.bandits import BBKB, Draw

KEY = jax.random.key(0)
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.uniform(size=(24, 3))
# a random graph of 24 nodes, whose last node has no edges
WEIGHTS = np.triu(RANDOM.uniform(size=(24, 24)) * (RANDOM.uniform(size=(24, 24)) < 0.2), 1)
WEIGHTS[:, -1] = 0
WEIGHTS += WEIGHTS.T
LAPLACIAN = np.diag(WEIGHTS.sum(1)) - WEIGHTS
GRAPH = kernels.GraphMatern.from_laplacian(LAPLACIAN, 1.5)
NODES = kernels.index_features(LAPLACIAN)


def dense_graph(lengthscale, nu):
    """The kernel matrix of the graph, from functions of the Laplacian."""
    if np.isinf(nu):
        table = scipy.linalg.expm(-(lengthscale**2) / 2 * LAPLACIAN)
    else:
        shifted = 2 * nu / lengthscale**2 * np.eye(24) + LAPLACIAN
        table = scipy.linalg.inv(scipy.linalg.fractional_matrix_power(shifted, nu))
    return table / np.diag(table).mean()


def sine_squares(x, y, period, lengthscale):
    """The kernel matrix of `Periodic`, from the differences of all inputs."""
    sines = np.sin(np.pi * (x[:, None] - y[None]) / period) / lengthscale
    return np.exp(-2 * np.square(sines).sum(-1))


def laplace(x, y, lengthscale=0.4):
    return jnp.exp(-jnp.abs(x - y).sum() / lengthscale)


def dense_laplace(lengthscale=0.4):
    return np.exp(-np.abs(POINTS[:, None] - POINTS[None]).sum(-1) / lengthscale)


PERIODS, LENGTHS = np.array([0.3, 0.5, 2.0]), np.array([0.7, 1.0, 2.0])
HALVES = kernels.Select(kernels.Gaussian(0.4), [2, 0]) + kernels.Select(kernels.Linear(), [1])
# (kernel, points, kernel matrix)
CASES = {
    "periodic": (
        kernels.Periodic(LENGTHS, PERIODS),
        POINTS,
        sine_squares(POINTS, POINTS, PERIODS, LENGTHS),
    ),
    "select": (
        HALVES,
        POINTS,
        oracles.gaussian(POINTS[:, [0, 2]], POINTS[:, [0, 2]], 0.4)
        + np.outer(POINTS[:, 1], POINTS[:, 1]),
    ),
    "constant": (
        kernels.Gaussian(0.4) + 4.0 * kernels.Constant(),
        POINTS,
        oracles.gaussian(POINTS, POINTS, 0.4) + 4,
    ),
    "pointwise": (kernels.Pointwise(laplace), POINTS, dense_laplace()),
    "graph": (GRAPH, NODES, dense_graph(1.5, 2.5)),
    "diffusion": (GRAPH.replace(nu=np.inf), NODES, dense_graph(1.5, np.inf)),
}
NUMBERS = {
    "periodic": lambda s: kernels.Periodic(s, 2 * s),
    "select": lambda s: kernels.Select(kernels.Matern(s), [0, 1]),
    "constant": kernels.Constant,
    "pointwise": lambda s: kernels.Pointwise(jax.tree_util.Partial(laplace, lengthscale=s)),
    "graph": lambda s: GRAPH.replace(lengthscale=s, nu=s),
    "diffusion": lambda s: GRAPH.replace(lengthscale=s, nu=jnp.inf),
}
each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_kernels_match_dense_formulas_and_are_positive_semidefinite(name):
    kernel, x, desired = CASES[name]
    x = jnp.asarray(x)
    checks.kernel_inputs(kernel, x)

    @jax.jit
    def values(kernel, x):
        return kernel.gram(x, x), kernel.diag(x), kernel.gram(x[:5], x[3:9]), kernel.gram(x, x[:0])

    gram, diag, part, empty = values(kernel, x)
    np.testing.assert_allclose(gram, desired, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(diag, np.diag(desired), rtol=1e-10)
    np.testing.assert_allclose(part, desired[:5, 3:9], rtol=1e-10, atol=1e-12)
    assert empty.shape == (24, 0)
    assert np.linalg.eigvalsh(gram).min() > -1e-12 * gram.max()


@pytest.mark.parametrize("names", [("periodic", "select", "constant", "pointwise"), ("graph",)])
def test_the_posterior_of_a_run_is_the_oracles(names):
    summands, points, grams = zip(*(CASES[name] for name in names), strict=True)
    kernel, x, gram = sum(summands), points[0], sum(grams)
    problem = problems.finite_arms(x, np.sin(np.arange(24.0)), noise_std=0.1)
    bandit = BBKB(kernel, regularization=0.1, max_batch=4, capacity=24, dictionary=Draw())
    end = ROLLOUT(bandit, problem, KEY, horizon=16)
    assert not end.stopped
    state, _ = jax.jit(bandit.refresh)(end.state, problem.arms, KEY)
    counts, sums, inducing = map(np.asarray, (state.counts, state.sums, state.inducing))
    assert counts.sum() == 16 and 0 < inducing.sum() < 24
    mean, covariance, *_ = oracles.sketched(gram, np.flatnonzero(inducing), counts, sums, 0.1)
    np.testing.assert_allclose(state.posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(state.posterior.variance, np.diag(covariance), rtol=1e-8)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_leaves_with_gradients(name):
    """vmap maps over them, another number compiles nothing, and slopes are differences."""
    x, traces = jnp.asarray(CASES[name][1]), []

    @jax.jit
    def total(kernel):
        traces.append(kernel)
        return kernel.gram(x, x[:4]).sum()

    scales, step = np.array([0.8, 1.3]), 1e-5
    totals, above, below = (
        [total(NUMBERS[name](scale + change)) for scale in scales] for change in (0, step, -step)
    )
    assert len(traces) == 1 and abs(totals[0] - totals[1]) > 0.01
    mapped = jax.jit(jax.vmap(jax.value_and_grad(lambda scale: total(NUMBERS[name](scale)))))
    values, slopes = mapped(scales)
    np.testing.assert_allclose(values, totals, rtol=1e-13)
    np.testing.assert_allclose(slopes, np.subtract(above, below) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("nu", [0.5, 1.0, 2.5, np.inf])
@pytest.mark.parametrize("lengthscale", [0.3, 4.0])
def test_graph_kernels_are_functions_of_the_laplacian(lengthscale, nu):
    kernel = kernels.GraphMatern.from_laplacian(LAPLACIAN, lengthscale, nu)
    gram = kernel.gram(NODES, NODES)
    np.testing.assert_allclose(gram, dense_graph(lengthscale, nu), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(NODES).mean(), 1, rtol=1e-12)
    # values at nodes of different components are independent
    np.testing.assert_allclose(gram[-1, :-1], 0, atol=1e-15)


def test_the_diffusion_kernel_is_the_limit_of_graph_matern_kernels():
    nu = jnp.array([1e6, jnp.inf])
    grams = jax.vmap(lambda nu: GRAPH.replace(nu=nu).gram(NODES, NODES))(nu)
    np.testing.assert_allclose(grams[0], grams[1], atol=1e-5)

    def total(lengthscale, nu):
        return GRAPH.replace(lengthscale=lengthscale, nu=nu).gram(NODES, NODES[:5]).sum()

    by_lengthscale, by_nu = jax.vmap(jax.grad(total, (0, 1)), (None, 0))(1.5, nu)
    np.testing.assert_allclose(*by_lengthscale, atol=1e-5)
    np.testing.assert_allclose(by_nu, 0, atol=1e-5)


def test_laplacians_may_be_sparse_or_of_integers():
    cycle = np.roll(np.eye(24, dtype=int), 1, 0) + np.roll(np.eye(24, dtype=int), -1, 0)
    laplacian = 2 * np.eye(24, dtype=int) - cycle
    dense = kernels.GraphMatern.from_laplacian(laplacian.astype(float))
    for given in (laplacian, scipy.sparse.csr_array(laplacian)):
        x = kernels.index_features(given)
        assert x.dtype == float
        kernel = kernels.GraphMatern.from_laplacian(given)
        np.testing.assert_array_equal(kernel.gram(x, x), dense.gram(x, x))
    # the nodes of a cycle have equal neighbourhoods
    np.testing.assert_allclose(dense.diag(x), 1, rtol=1e-12)


def test_a_number_that_is_not_a_node_has_no_value():
    for wrong in (-1.0, 24.0, 0.5):
        gram = GRAPH.gram(jnp.array([[wrong], [0.0]]), NODES)
        assert np.isnan(gram[0]).all() and np.isfinite(gram[1]).all()
        assert np.isnan(GRAPH.diag(jnp.array([[wrong]]))).all()


@pytest.mark.float32
def test_graph_kernels_keep_the_dtype_of_the_features():
    x = NODES.astype(jnp.float32)
    assert GRAPH.gram(x, x).dtype == GRAPH.diag(x).dtype == jnp.float32
    np.testing.assert_allclose(GRAPH.gram(x, x), dense_graph(1.5, 2.5), atol=1e-5)


def test_periodic_kernels_repeat():
    kernel = kernels.Periodic(0.5, PERIODS)
    shifted = POINTS + PERIODS * RANDOM.integers(-3, 4, POINTS.shape)
    gram = kernel.gram(jnp.asarray(shifted), jnp.asarray(POINTS))
    np.testing.assert_allclose(gram, sine_squares(POINTS, POINTS, PERIODS, 0.5), atol=1e-12)


def test_periodic_kernels_of_large_tables_and_of_points_far_from_zero():
    x = np.round(RANDOM.uniform(size=(600, 2)) * 2**20) / 2**20
    kernel = kernels.Periodic(0.5, 0.7)
    desired = sine_squares(x, x, 0.7, 0.5)
    large = kernel.gram(jnp.asarray(x), jnp.asarray(x))
    error = np.finfo(float).eps * float(kernel.rounding(jnp.asarray(x), 600))
    assert 1 < kernel.rounding(jnp.asarray(x), 600) < 20
    np.testing.assert_allclose(large, desired, rtol=0, atol=4 * error)
    far = kernel.gram(jnp.asarray(x[:50] + 2**20), jnp.asarray(x[:50] + 2**20))
    np.testing.assert_allclose(far, desired[:50, :50], atol=1e-14)


def test_gradients_of_periodic_kernels_are_finite_at_equal_points():
    kernel, x = kernels.Periodic(0.5, PERIODS), jnp.asarray(POINTS)
    gradient = np.asarray(jax.grad(lambda x: kernel.gram(x, x).sum())(x))
    step = 1e-6 * RANDOM.standard_normal(x.shape)
    total = partial(sine_squares, period=PERIODS, lengthscale=0.5)
    above, below = POINTS + step, POINTS - step
    difference = (total(above, above) - total(below, below)).sum() / 2
    np.testing.assert_allclose((gradient * step).sum(), difference, rtol=1e-4, atol=1e-13)


def test_select_takes_the_rounding_of_its_kernel():
    x = jnp.asarray(np.hstack([1e3 * RANDOM.uniform(size=(600, 1)), RANDOM.uniform(size=(600, 2))]))
    kernel = kernels.Gaussian(1.0)
    assert kernels.Select(kernel, [1, 2]).rounding(x, 600) == kernel.rounding(x[:, 1:], 600) < 2
    assert kernels.Select(kernel, [0]).rounding(x, 600) > 1e4


@pytest.mark.float32
def test_functions_of_two_points_keep_the_dtype_of_the_points():
    numbers = dict(lengthscale=np.float64(0.4))
    kernel = kernels.Pointwise(jax.tree_util.Partial(laplace, **numbers))
    x = jnp.asarray(POINTS, jnp.float32)
    assert kernel.gram(x, x).dtype == kernel.diag(x).dtype == jnp.float32
    np.testing.assert_allclose(kernel.gram(x, x), dense_laplace(), atol=1e-6)
    constant = kernels.Pointwise(lambda x, y: 1)
    assert constant.gram(x, x[:2]).dtype == constant.diag(x).dtype == jnp.float32


def test_bound_methods_and_functions_of_arrays_are_functions_of_two_points():
    class Plain:
        lengthscale = 0.4

        def value(self, x, y):
            return laplace(x, y, self.lengthscale)[None]

    x = jnp.asarray(POINTS)
    kernel = kernels.Pointwise(Plain().value)
    np.testing.assert_allclose(jax.jit(type(kernel).gram)(kernel, x, x), dense_laplace())
