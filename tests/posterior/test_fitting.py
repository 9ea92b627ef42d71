"""The marginal likelihood, its derivatives, and its maximum, compared with SciPy and
scikit-learn."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from scipy import optimize
from scipy.stats import multivariate_normal

from jsketch import kernels, posterior, struct

KEY = jax.random.key(0)
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, (16, 2))
ARM = np.concatenate([np.arange(16), RANDOM.integers(0, 10, 14)])  # some arms several times
Y = 2 * np.sin(2 * X[ARM].sum(1)) + 0.3 * RANDOM.normal(size=30)
COUNTS = np.bincount(ARM).astype(float)
AVERAGES, SQUARES = np.bincount(ARM, Y) / COUNTS, np.square(Y).sum()


def dense(lengthscale, variance, lam, x=X[ARM], y=Y, mean=0.0):
    """The log marginal likelihood, by SciPy."""
    covariance = variance * oracles.gaussian(x, x, lengthscale) + lam * np.eye(len(x))
    return multivariate_normal.logpdf(y, np.full(len(y), mean), covariance)


def test_the_likelihood_of_rewards_and_of_averages():
    """With counts and the sum of squares it is that of all rewards; NaN is not observed."""
    kernel = 1.7 * kernels.Gaussian(0.6)
    for lam, mean in ((0.05, 0.0), (0.4, 0.3)):
        expected = dense(0.6, 1.7, lam, mean=mean)
        rewards = posterior.log_marginal_likelihood(kernel, X[ARM], Y, lam, mean=mean)
        options = dict(mean=mean, counts=COUNTS, squares=SQUARES)
        averages = posterior.log_marginal_likelihood(kernel, X, AVERAGES, lam, **options)
        padded = np.concatenate([X[ARM], X[:2]]), np.concatenate([Y, [np.nan, -np.inf]])
        for value in (
            rewards,
            averages,
            posterior.log_marginal_likelihood(kernel, *padded, lam, mean=mean),
        ):
            assert float(value) == pytest.approx(expected, abs=1e-9)
    # without squares it is the density of the averages
    covariance = 1.7 * oracles.gaussian(X, X, 0.6) + np.diag(0.05 / COUNTS)
    value = posterior.log_marginal_likelihood(kernel, X, AVERAGES, 0.05, counts=COUNTS)
    assert float(value) == pytest.approx(
        multivariate_normal.logpdf(AVERAGES, np.zeros(16), covariance), abs=1e-9
    )


@pytest.mark.float32
def test_squares_of_rewards_that_are_equal_at_each_point_are_taken():
    """Their sum is the least value of squares, which rounding may pass."""
    rewards, counts = X[:, 0].astype(np.float32), np.full(16, 5.0)
    squares = sum(y * y for y in np.repeat(rewards, 5))
    options = dict(counts=counts, squares=squares * np.float32(1 - 1e-6))
    x = X.astype(np.float32)
    value = posterior.log_marginal_likelihood(kernels.Gaussian(0.6), x, rewards, 0.1, **options)
    expected = dense(0.6, 1.0, 0.1, np.repeat(X, 5, 0), np.repeat(rewards, 5))
    assert float(value) == pytest.approx(expected, rel=1e-4)


def test_first_and_second_derivatives_are_those_of_finite_differences():
    def value(vector):
        lengthscale, variance, lam, mean = vector
        kernel = variance * kernels.Gaussian(lengthscale)
        return posterior.log_marginal_likelihood(kernel, X[ARM], Y, lam, mean=mean)

    def by_averages(vector):
        lengthscale, variance, lam, mean = vector
        options = dict(mean=mean, counts=COUNTS, squares=SQUARES)
        kernel = variance * kernels.Gaussian(lengthscale)
        return posterior.log_marginal_likelihood(kernel, X, AVERAGES, lam, **options)

    at = jnp.array([0.6, 1.7, 0.2, 0.1])
    gradient, hessian = jax.jit(jax.grad(value))(at), jax.jit(jax.hessian(value))(at)
    slope = optimize.approx_fprime(at, lambda v: dense(*v[:3], mean=v[3]), 1e-7)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.grad(by_averages))(at), gradient, rtol=1e-8)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-8)
    grad = jax.jit(jax.grad(value))
    for i in range(4):
        step = jnp.zeros(4).at[i].set(1e-6)
        difference = (grad(at + step) - grad(at - step)) / 2e-6
        np.testing.assert_allclose(hessian[i], difference, rtol=1e-5, atol=1e-4)


def test_the_fit_is_the_maximum_of_the_likelihood():
    """Without a prior it is at least as likely as the best of several searches by SciPy, also from
    counts and squares; the value is that of the result."""

    def loss(logs):
        return -dense(*np.exp(logs))

    starts = np.log([[0.5, 1, 0.1], [2.0, 4, 0.5], [0.2, 1, 0.01]])
    best = min(optimize.minimize(loss, start, method="L-BFGS-B").fun for start in starts)
    guess = 1.0 * kernels.Gaussian(1.0)
    rewards = posterior.fit(guess, X[ARM], Y, 0.01, spread=None)
    options = dict(spread=None, counts=COUNTS, squares=SQUARES)
    averages = posterior.fit(guess, X, AVERAGES, 0.01, **options)
    for fitted in (rewards, averages):
        assert float(fitted.log_marginal_likelihood) >= -best - 1e-6
        numbers = (fitted.kernel.kernel.lengthscale, fitted.kernel.variance, fitted.regularization)
        assert dense(*map(float, numbers)) == pytest.approx(
            float(fitted.log_marginal_likelihood), abs=1e-8
        )


def test_few_rewards_leave_the_numbers_near_their_guesses():
    """The prior of a logarithm is normal around the guess: with no reward the result is the guess,
    and with few the maximum of the posterior density, which SciPy finds as well."""
    guess = 1.0 * kernels.Gaussian(0.5)

    def fitted(y, **options):
        found = posterior.fit(guess, X[ARM], np.append(y, np.full(30 - len(y), np.nan)), **options)
        numbers = found.kernel.kernel.lengthscale, found.kernel.variance, found.regularization
        return np.asarray(numbers)

    nothing = fitted([], regularization=0.01)
    np.testing.assert_allclose(nothing, [0.5, 1.0, 0.01], rtol=1e-4)
    y = np.array([0.4, 0.41, 0.39])

    def loss(logs):
        prior = np.square((logs - np.log([0.5, 1.0, 0.01])) / 0.7).sum() / 2
        return prior - dense(*np.exp(logs), x=X[ARM[:3]], y=y)

    found = optimize.minimize(loss, np.log([0.5, 1.0, 0.01]), method="L-BFGS-B")
    few = fitted(y, regularization=0.01, spread=0.7)
    np.testing.assert_allclose(np.log(few), found.x, atol=1e-3)
    # without a prior nothing but `factor` bounds the lengthscale
    free = fitted(y, regularization=0.01, spread=None, factor=50.0)
    assert free[0] == pytest.approx(25, rel=1e-3)


@struct.dataclass
class Laplace(kernels.Operators):
    """A kernel of a user, without ranges of its numbers."""

    scale: float = 1.0

    def gram(self, x, y):
        return jnp.exp(-jnp.abs(x[:, None] - y[None]).sum(-1) / self.scale)

    def diag(self, x):
        return jnp.ones(len(x), x.dtype)


def test_fixed_numbers_and_data_of_a_kernel_are_not_fitted():
    """The numbers of a user's kernel are fitted, and those that `fixed` names stay."""
    kernel = kernels.Gaussian(jnp.array([0.5, 0.7])) + 0.5 * Laplace(1.0)
    fixed = ("right.variance", "regularization")
    fitted = posterior.fit(kernel, X[ARM], Y, 0.09, fixed=fixed)
    assert float(fitted.regularization) == 0.09 and float(fitted.kernel.right.variance) == 0.5
    assert float(fitted.kernel.right.kernel.scale) != 1.0
    lengthscale = np.asarray(fitted.kernel.left.lengthscale)
    assert lengthscale.shape == (2,) and (lengthscale != [0.5, 0.7]).all()
    fixed = ("lengthscale", "regularization")
    nothing = posterior.fit(kernels.Gaussian(0.6), X[ARM], Y, 0.1, fixed=fixed)
    expected = dense(0.6, 1.0, 0.1)
    assert float(nothing.log_marginal_likelihood) == pytest.approx(expected, abs=1e-9)


def test_a_table_is_not_fitted_and_without_a_finite_likelihood_the_guess_returns():
    arm = np.arange(16.0)[ARM, None]
    table = jnp.asarray(oracles.gaussian(X, X, 0.6))
    fitted = posterior.fit(2.0 * kernels.Precomputed(table), arm, Y, 0.3)
    np.testing.assert_array_equal(fitted.kernel.kernel.table, table)
    assert float(fitted.kernel.variance) != 2.0
    negative = 1.0 * kernels.Precomputed(-jnp.eye(16))
    with pytest.warns(UserWarning, match="fit returns the numbers that were given"):
        fitted = posterior.fit(negative, arm, Y, 0.01, factor=2.0)
    assert float(fitted.log_marginal_likelihood) == -np.inf
    assert float(fitted.kernel.variance) == 1.0 and float(fitted.regularization) == 0.01


def test_a_search_without_a_gradient_is_no_fit():
    def laplace(lengthscale, x, y):  # its derivative between equal points is NaN
        return jnp.exp(-jnp.linalg.norm((x - y) / lengthscale))

    kernel = kernels.Pointwise(jax.tree_util.Partial(laplace, 1.0))
    with pytest.warns(UserWarning, match="its gradient is not finite at any start"):
        fitted = posterior.fit(kernel, X, AVERAGES, 0.1)
    assert float(fitted.log_marginal_likelihood) == -np.inf


@struct.dataclass
class Transformed(kernels.Operators):
    """A kernel that stores a transformed number, as GPJax does."""

    _unconstrained: float = 0.5

    def gram(self, x, y):
        return kernels.Gaussian(jnp.logaddexp(self._unconstrained, 0.0)).gram(x, y)

    def diag(self, x):
        return jnp.ones(len(x), x.dtype)


def test_a_vmapped_fit_is_that_of_each_history_and_compiles_once():
    ys = jnp.stack([jnp.asarray(Y), jnp.asarray(-3 * Y + 0.1 * np.arange(30))])

    @jax.jit
    @chex.assert_max_traces(n=1)
    def fits(lengthscale, ys, lam):
        kernel = 1.0 * kernels.Gaussian(lengthscale)
        return jax.vmap(lambda y: posterior.fit(kernel, X[ARM], y, lam))(ys)

    chex.clear_trace_counter()
    stacked = fits(0.3, ys, 0.02)
    stacked = fits(0.5, ys, 0.01)
    for i in range(2):
        alone = posterior.fit(1.0 * kernels.Gaussian(0.5), X[ARM], ys[i], 0.01)
        of_stack = jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        assert float(alone.log_marginal_likelihood) == pytest.approx(
            float(of_stack.log_marginal_likelihood), abs=1e-6
        )
        chex.assert_trees_all_close(alone, of_stack, rtol=1e-3)


def test_wrong_arguments_of_a_fit_are_refused():
    kernel, fit = 1.0 * kernels.Gaussian(0.5), posterior.fit
    likelihood = posterior.log_marginal_likelihood
    rows = (
        (lambda: fit(kernel, X, AVERAGES, 0.1, counts=COUNTS), "does not show their noise"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, squares=1.0), "squares needs counts"),
        (lambda: likelihood(kernel, X, AVERAGES, 0.1, squares=1.0), "squares needs counts"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, counts=COUNTS, squares=9.0), "at least .*; 9.0"),
        (lambda: likelihood(kernel, X, AVERAGES, 0.1, counts=COUNTS, squares=-1.0), "at least"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, counts=COUNTS, squares=np.nan), "at least"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, fixed="lengthscale"), "fixed is a tuple"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, fixed=("scale",)), "which no number has"),
        (lambda: fit(0.0 * kernel, X, AVERAGES, 0.1), 'fixed=\\("variance",\\)'),
        (lambda: fit(kernel, X, AVERAGES, -0.1), "regularization must be"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, factor=1.0), "factor must be above 1"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, spread=0.0), "spread must be"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, restarts=-1), "restarts must be"),
        (lambda: fit(kernel, X, AVERAGES, 0.1, steps=0), "steps must be"),
        (lambda: fit(lambda x, y: 1.0, X, AVERAGES, 0.1), "kernel must be"),
        (lambda: fit(kernels.Gaussian(np.inf), X, AVERAGES, 0.1), "finite"),
        (lambda: fit(Transformed(), X, AVERAGES, 0.1), "_unconstrained is a parameter of GPJax"),
    )
    for call, message in rows:
        with pytest.raises(ValueError, match=message):
            call()
