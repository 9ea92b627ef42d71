"""Kernels against their formulas, and the two ways to compute distances."""

import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import default_flags_jit

import jsketch
from jsketch import kernels
from jsketch.kernels import stationary
from jsketch.suggest import discrete

X = np.random.default_rng(0).standard_normal((7, 3))
Y = np.random.default_rng(1).standard_normal((5, 3))
# D and DS are distances of points and of points divided by the lengthscales S
D = np.sqrt(np.square(X[:, None] - Y[None]).sum(-1))
S = np.array([0.5, 1.0, 2.0])
DS = np.sqrt(np.square((X / S)[:, None] - (Y / S)[None]).sum(-1))

FORMULAS = {
    "gaussian": (kernels.Gaussian(1.3), np.exp(-(D**2) / (2 * 1.3**2))),
    "gaussian_ard": (kernels.Gaussian(S), np.exp(-(DS**2) / 2)),
    "matern_12": (kernels.Matern(1.3, nu=0.5), np.exp(-D / 1.3)),
    "matern_32": (
        kernels.Matern(1.3, nu=1.5),
        (1 + 3**0.5 * D / 1.3) * np.exp(-(3**0.5) * D / 1.3),
    ),
    "matern_52_ard": (
        kernels.Matern(S),
        (1 + 5**0.5 * DS + 5 * DS**2 / 3) * np.exp(-(5**0.5) * DS),
    ),
    "rational": (kernels.RationalQuadratic(1.3, 0.7), (1 + D**2 / (2 * 0.7 * 1.3**2)) ** -0.7),
    "linear": (kernels.Linear(2.0), X @ Y.T / 4),
    "polynomial": (kernels.Polynomial(2.0, 0.5, degree=3), (X @ Y.T / 4 + 0.5) ** 3),
    "scaled": (kernels.Scaled(kernels.Linear(), 3.0), 3 * X @ Y.T),
    "sum": (kernels.Sum(kernels.Linear(), kernels.Gaussian(1.0)), X @ Y.T + np.exp(-(D**2) / 2)),
    "product": (
        kernels.Product(kernels.Linear(), kernels.Gaussian(1.0)),
        X @ Y.T * np.exp(-(D**2) / 2),
    ),
    "product_of_polynomials": (
        kernels.Product(kernels.Linear(), kernels.Polynomial()),
        X @ Y.T * (X @ Y.T + 1) ** 2,
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_kernels_match_their_formulas_and_are_positive_semidefinite(name):
    kernel, desired = FORMULAS[name]
    gram = kernel.gram(jnp.asarray(X), jnp.asarray(Y))
    np.testing.assert_allclose(gram, desired, rtol=1e-12, atol=1e-14)
    gram = np.asarray(kernel.gram(jnp.asarray(X), jnp.asarray(X)))
    np.testing.assert_allclose(kernel.diag(jnp.asarray(X)), np.diag(gram), rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-12 * gram.max()


# (kernel, its largest derivative in the squared distance); exp(-r) has no largest one, so that
# its distances are always sums of squared differences
SLOPES = {
    "gaussian": (kernels.Gaussian(1.0), 1 / 2),
    "rational": (kernels.RationalQuadratic(1.0, 0.7), 1 / 2),
    "matern_12": (kernels.Matern(1.0, nu=0.5), 0.0),
    "matern_32": (kernels.Matern(1.0, nu=1.5), 3 / 2),
    "matern_52": (kernels.Matern(1.0, nu=2.5), 5 / 6),
}


@pytest.mark.parametrize(("spread", "offset"), [(1.0, 0.0), (1.0, 1000.0), (30.0, 0.0)])
@pytest.mark.parametrize("name", SLOPES)
def test_both_ways_to_compute_distances_agree(name, spread, offset):
    """Large tables expand |x - y|^2, with an error of eps |x|^2; small ones sum (x - y)^2."""
    random = np.random.default_rng(0)
    x = random.standard_normal((600, 4))
    x[::50] *= spread
    x = jnp.asarray(x + offset)
    kernel, slope = SLOPES[name]
    assert x.shape[0] ** 2 >= stationary.DIRECT_ENTRIES
    large_table = kernel.gram(x, x)
    small_tables = jnp.concatenate([kernel.gram(x[i : i + 50], x) for i in range(0, 600, 50)])
    eps = np.finfo(float).eps
    # two squares and a product, each of |x|^2 at most and rounded once or twice
    error = 4 * eps * float(jnp.square(x - x.mean(0, keepdims=True)).sum(1).max())
    np.testing.assert_allclose(large_table, small_tables, rtol=0, atol=slope * error + 4 * eps)


def test_distances_from_expanded_squares_are_not_negative():
    """The expansion of the distances between equal points has rounding errors of both signs."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((600, 4)))
    distances = np.asarray(kernels.squared_distances(x, x))
    assert stationary.expands_square(600, 600, 4) and (distances.diagonal() > 0).any()
    assert (distances >= 0).all()


def test_a_lengthscale_of_one_entry_holds_for_all_inputs():
    one, number = kernels.Gaussian(jnp.array([0.7])), kernels.Gaussian(0.7)
    np.testing.assert_allclose(one.gram(X, Y), number.gram(X, Y), rtol=1e-14)


@pytest.mark.parametrize("lengthscale", [0.7, S])
def test_tables_may_have_no_columns(lengthscale):
    assert kernels.Gaussian(lengthscale).gram(jnp.asarray(X), jnp.asarray(Y[:0])).shape == (
        len(X),
        0,
    )


def clusters(gap, n=600, d=4):
    """Points [n, d] of spread 0.1 in two clusters at the distance `gap`."""
    random = np.random.default_rng(0)
    centre = random.integers(0, 2, (n, 1)) * gap / np.sqrt(d)
    return centre + 0.1 * random.standard_normal((n, d))


@pytest.mark.parametrize(("n", "d"), [(stationary.DIRECT_ENTRIES, 2), (50, 40)])
def test_distances_to_one_point_are_accurate(n, d):
    """Distances of points centred at their mean would have a median error of 1% in a cluster."""
    x = clusters(100.0, n, d).astype(np.float32)
    distances = kernels.squared_distances(jnp.asarray(x), jnp.asarray(x[:1]))[:, 0]
    np.testing.assert_allclose(distances, np.square(x.astype(float) - x[0]).sum(1), rtol=1e-5)


@pytest.mark.parametrize("name", ["matern_12", "matern_32", "matern_52_ard", "gaussian"])
def test_gradients_are_finite_at_equal_points(name):
    kernel, _ = FORMULAS[name]
    gradient = jax.grad(lambda x: kernel.gram(x, jnp.asarray(X)).sum())(jnp.asarray(X))
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_derivatives_of_matern_kernels_are_their_differences(nu):
    def value(distance):
        return kernels.Matern(1.3, nu=nu).gram(jnp.zeros((1, 1)), distance[None, None])[0, 0]

    for distance in (1e-6, 0.01, 0.4, 3.0):
        step = 1e-3 * distance
        difference = (value(jnp.array(distance + step)) - value(jnp.array(distance - step))) / 2
        slope = jax.grad(value)(jnp.array(distance))
        # a value near 1 has an error of eps, and the difference is of the order step^2
        np.testing.assert_allclose(slope, difference / step, rtol=1e-5, atol=4e-16 / step)


def test_inputs_far_from_zero_lose_no_digits():
    """x / lengthscale is rounded alike for both points: posteriors magnify errors by k / lam."""
    x = np.round(np.random.default_rng(0).uniform(-1, 1, (9, 2)) * 2**20) / 2**20
    kernel = kernels.Gaussian(jnp.array([1.358, 0.7]))
    column = default_flags_jit(lambda kernel, x, i: kernel.gram(x, x[i][None])[:, 0])
    far = np.stack([column(kernel, x + 1024, i) for i in range(9)])
    np.testing.assert_allclose(far, kernel.gram(x, x), rtol=0, atol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("name", ["matern_32", "matern_52"])
def test_compiled_gradients_ignore_pairs_of_equal_points(name):
    """The distance of equal points must be 0 everywhere in a program, without rounding errors."""
    x = np.random.default_rng(0).uniform(size=(8, 3))[np.random.default_rng(1).integers(0, 4, 12)]
    lengthscale = jnp.array([0.05, 0.04, 0.03])
    weights = np.random.default_rng(2).standard_normal((12, 12))
    different = x[:, None, 0] != x[None, :, 0]

    def gram(s, x):
        return SLOPES[name][0].gram(x / s[None, :], x / s[None, :])

    gradient = jax.grad(lambda s, x: (weights * gram(s, x)).sum())
    expected = jax.grad(lambda s: (weights * jnp.where(different, gram(s, x), 0)).sum())
    compiled = default_flags_jit(gradient)(lengthscale, x)
    np.testing.assert_allclose(compiled, expected(lengthscale), rtol=1e-6, atol=1e-8)


def test_operators_combine_kernels():
    gaussian, linear = kernels.Gaussian(0.7), kernels.Linear(2.0)
    for combined, expected in [
        (gaussian + linear, kernels.Sum(gaussian, linear)),
        (gaussian * linear, kernels.Product(gaussian, linear)),
        (gaussian + 0.5 * linear * gaussian, gaussian + kernels.Scaled(linear, 0.5) * gaussian),
        (2.0 * gaussian, kernels.Scaled(gaussian, 2.0)),
        (gaussian * 3, kernels.Scaled(gaussian, 3)),
        (np.float64(2) * gaussian, kernels.Scaled(gaussian, np.float64(2))),
        (np.float32(2) * gaussian, kernels.Scaled(gaussian, np.float32(2))),
        (np.array(2.0) * gaussian, kernels.Scaled(gaussian, np.array(2.0))),
        (jnp.array(2.0) * gaussian, kernels.Scaled(gaussian, jnp.array(2.0))),
        (discrete.MinMax() + gaussian, kernels.Sum(discrete.MinMax(), gaussian)),
        (sum([gaussian, linear, gaussian]), kernels.Sum(gaussian + linear, gaussian)),
    ]:
        assert jax.tree.structure(combined) == jax.tree.structure(expected)
        x, y = np.abs(X), np.abs(Y)
        np.testing.assert_array_equal(combined.gram(x, y), expected.gram(x, y))
        np.testing.assert_array_equal(combined.diag(x), expected.diag(x))
    for wrong in (
        lambda: gaussian + 1.0,
        lambda: gaussian * "a",
        lambda: 0.0 + gaussian,
        lambda: False + gaussian,
        lambda: True * gaussian,
        lambda: np.True_ * gaussian,
        lambda: gaussian * np.array(True),
        lambda: gaussian * jnp.array(True),
        lambda: gaussian + kernels.Gaussian,
    ):
        with pytest.raises(TypeError):
            wrong()


def test_the_factor_of_a_kernel_is_one_number():
    """It is checked where it is written, but not while it is traced."""
    kernel = kernels.Gaussian(0.7)
    one, real = "variance must be one number; an array", "must be a finite number, at least 0"
    for factor, words in [
        (np.ones(2), one),
        (jnp.ones((1, 1)), one),
        (1j, real),
        (np.complex128(1), real),
        (jnp.array(1j), real),
        (-1.0, real),
        (np.nan, real),
    ]:
        for multiply in (lambda f: f * kernel, lambda f: kernel * f):
            with pytest.raises(ValueError, match=words):
                multiply(factor)
    factors = jnp.array([0.5, 2.0])
    diagonals = jax.vmap(lambda factor: (factor * kernel).diag(X))(factors)
    np.testing.assert_array_equal(diagonals, np.repeat(factors[:, None], len(X), 1))


@pytest.mark.parametrize(
    "one",
    [kernels.Precomputed(np.eye(3)), discrete.Tanimoto(), kernels.Matern(), kernels.Polynomial()],
)
def test_every_kernel_has_operators(one):
    assert isinstance(one + one, kernels.Sum) and isinstance(one * one, kernels.Product)
    assert isinstance(sum([one, one], start=0.5 * one).left, kernels.Sum)


def test_the_class_in_the_documentation_is_a_kernel():
    code = kernels.__doc__.partition("change.\n\n")[2].partition("\n\n    stationary")[0]
    names = dict(jsketch=jsketch, kernels=kernels, jnp=jnp)
    exec(textwrap.dedent(code), names)
    kernel = names["Laplace"](0.7) + kernels.Linear()
    distances = np.abs(X[:, None] - Y[None]).sum(-1)
    np.testing.assert_allclose(kernel.gram(X, Y), np.exp(-distances / 0.7) + X @ Y.T, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), 1 + np.square(X).sum(1), rtol=1e-12)
