"""The marginal likelihood of a history, and the factorization of its covariance, with derivatives.

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.30 and 5.9.
Slots without a value have no effect: they are an identity block in the covariance, and zero in
every product.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.components import KERNEL
from jsketch.numerics import cholesky_inverse, diagonal, matmul
from jsketch.struct import numbers_in_dtype
from jsketch.types import is_traced

LOG_2PI = math.log(2 * math.pi)


class Values(NamedTuple):
    """Averages of rewards at n points."""

    x: Array  # [n, d]
    y: Array  # [n], the average, 0 where there is no reward
    counts: Array  # [n], the number of rewards


def checked_values(
    kernel: Any,
    x: Any,
    y: Any,
    counts: Any = None,
    *,
    mean: Any = 0.0,
    squares: Any = None,
    **numbers: Any,
) -> Values:
    """The values in the dtype of x; points without a reward are the first point that has one.
    Raises ValueError unless x is [n, d] with n >= 1, y and the counts are [n], no count is NaN or
    below 0, the mean and the squares are numbers, the kernel is one, and the named numbers are
    above 0, for squares without counts, and for squares below their least value."""
    checks.component("kernel", KERNEL, kernel)
    checks.positive(**numbers)
    if squares is not None and counts is None:
        raise ValueError("squares needs counts, the number of rewards at each point.")
    for name, value in (("mean", mean), ("squares", squares)):
        if value is not None and jnp.ndim(value) > 0:
            raise ValueError(
                f"{name} must be one number; an array of shape {jnp.shape(value)} was given."
            )
    x, y = checks.real("x", x), checks.real("y", y)
    n = jnp.ones(y.shape) if counts is None else checks.real("counts", counts)
    if x.ndim != 2 or y.shape != x.shape[:1] or n.shape != y.shape:
        shapes = f"{x.shape} and {y.shape}" + ("" if counts is None else f", counts {n.shape}")
        raise ValueError(
            f"a history is points x [n, d] and rewards y [n]; their shapes are {shapes}."
        )
    if not len(y):
        raise ValueError(f"the history is empty: its points x have the shape {x.shape}.")
    if counts is not None and not is_traced(n) and not np.all(np.asarray(n) >= 0):
        raise ValueError("counts must be numbers of at least 0.")
    dtype = jax.dtypes.canonicalize_dtype(x.dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.zeros(()).dtype
    if squares is not None and not is_traced(squares, y, n):
        dtypes = [dtype, *(np.asarray(array).dtype for array in (y, squares))]
        eps = max(jnp.finfo(one).eps for one in dtypes if jnp.issubdtype(one, jnp.floating))
        _check_squares(squares, np.asarray(y, float), np.asarray(n, float), eps)
    values = _without_unused(*(jnp.asarray(array).astype(dtype) for array in (x, y, n)))
    checks.kernel_on(kernel, values.x)
    return values


@jax.jit
def _without_unused(x: Array, y: Array, n: Array) -> Values:
    """The values, which are zero, at the first point that has one, where there is no reward."""
    used = jnp.isfinite(y) & (n > 0)
    # a point that pads a history may be NaN, or no row of a table
    x = jnp.where(used[:, None], x, x[jnp.argmax(used)])
    return Values(x, jnp.where(used, y, 0), jnp.where(used, n, 0))


def _check_squares(squares: Any, y: np.ndarray, n: np.ndarray, eps: Any) -> None:
    """Raises ValueError if squares are below the sum of n y^2, which is theirs if all rewards at a
    point are equal, by more than the rounding of a sum over all rewards in one loop."""
    used = np.isfinite(y) & (n > 0)
    least = float((n[used] * np.square(y[used])).sum())
    if not float(squares) >= least * (1 - (n[used].sum() + len(y)) * float(eps)):
        raise ValueError(
            f"squares, the sum of the squares of all rewards, is at least {least:.6g}, the sum of"
            f" counts y^2; {squares} was given."
        )


def covariance(kernel: Any, values: Values, regularization: ArrayLike) -> Array:
    """The covariance [n,n] of the averages; the identity where there is no reward."""
    used = values.counts > 0
    noise = jnp.where(used, regularization / jnp.where(used, values.counts, 1), 1)
    pairs = used[:, None] & used[None, :]
    return jnp.where(pairs, kernel.gram(values.x, values.x), 0) + jnp.diag(noise)


@jax.custom_jvp
def inverse_factor(matrix: Array) -> tuple[Array, Array]:
    """(L, L^-1), [n,n] each, for a positive definite matrix L L^T, with derivatives, which the
    loops of `numerics.cholesky_inverse` do not have in reverse mode."""
    return cholesky_inverse(matrix)


@inverse_factor.defjvp
def _inverse_factor_jvp(primals: Any, tangents: Any) -> Any:
    """dL = L P and d(L^-1) = -P L^-1, where P is the lower triangle of L^-1 dA L^-T with half of
    its diagonal (Murray. Differentiation of the Cholesky decomposition. 2016)."""
    (matrix,), (change,) = primals, tangents
    lower, inverse = inverse_factor(matrix)
    whitened = matmul(matmul(inverse, (change + change.T) / 2), inverse.T)
    half = jnp.tril(whitened) - jnp.diag(diagonal(whitened)) / 2
    return (lower, inverse), (matmul(lower, half), -matmul(half, inverse))


@jax.custom_jvp
def log_density(covariance: Array, y: Array) -> Array:
    """log N(y; 0, covariance) + n/2 log(2 pi), [], for y [n] and a positive definite covariance
    [n,n]. Its gradient (equation 5.9) takes one matrix product more than its value."""
    return _log_density(*cholesky_inverse(covariance), y)


def _log_density(lower: Array, inverse: Array, y: Array) -> Array:
    return -jnp.square(matmul(inverse, y)).sum() / 2 - jnp.log(diagonal(lower)).sum()


@log_density.defjvp
def _log_density_jvp(primals: Any, tangents: Any) -> Any:
    """tr((w w^T - C^-1) dC) / 2 - w . dy with w = C^-1 y."""
    (matrix, y), (change, change_y) = primals, tangents
    lower, inverse = inverse_factor(matrix)
    weights = matmul(inverse.T, matmul(inverse, y))
    slope = (weights[:, None] * weights[None, :] - matmul(inverse.T, inverse)) / 2
    tangent = jnp.sum(slope * change) - jnp.sum(weights * change_y)
    return _log_density(lower, inverse, y), tangent


@struct.checked_names
def log_marginal_likelihood(
    kernel: Any,
    x: ArrayLike,
    y: ArrayLike,
    regularization: ArrayLike,
    *,
    mean: ArrayLike = 0.0,
    counts: ArrayLike | None = None,
    squares: ArrayLike | None = None,
) -> Array:
    """log p(y | x), [], of a history under y = f(x) + noise (Rasmussen and Williams, eq. 2.30), in
    O(n^3). It is twice differentiable in all numbers of the kernel, in the regularization and in
    the mean.

    The regularization is the variance of the noise where k(x, x) is the variance of f(x) before any
    evaluation, both in squared units of the rewards. Most kernels have k(x, x) = 1; the prior
    variance v is a number of the kernel v * k.

    kernel          a kernel of `jsketch.kernels`
    x               [n, d], the evaluated points, which may repeat
    y               [n], the reward at each point. A reward that is not finite is not observed
    regularization  lam, the variance of the noise of a reward
    mean            [], the prior mean; that of the bandits is 0
    counts          [n], the number of rewards of which y is the average, 0 where there is none;
                    None: one reward at each point
    squares         [], the sum of the squares of all rewards that `counts` counts. With it the
                    result is the log density of all rewards; without it, of the averages, which has
                    the same derivatives in the numbers of the kernel, but not in the regularization

    Raises ValueError for other shapes, for an object that is not a kernel, for `squares` without
    `counts`, and for squares below the sum of counts y^2.

    Example:

        slope = jax.grad(posterior.log_marginal_likelihood)
        slope(kernels.Gaussian(0.5), features, mean_reward, 0.01).lengthscale  # []
    """
    values = checked_values(
        kernel, x, y, counts, mean=mean, squares=squares, regularization=regularization
    )
    dtype = values.x.dtype
    numbers = [
        None if n is None else jnp.asarray(n, dtype) for n in (regularization, mean, squares)
    ]
    return of_values(values, numbers_in_dtype(kernel, dtype), *numbers)


@jax.jit
def of_values(
    values: Values, kernel: Any, lam: Array, mean: Array, squares: Array | None = None
) -> Array:
    """`log_marginal_likelihood` of checked values."""
    used, counts = values.counts > 0, values.counts
    centred = jnp.where(used, values.y - mean, 0)
    n_values = used.sum(dtype=centred.dtype)
    value = log_density(covariance(kernel, values, lam), centred) - n_values * LOG_2PI / 2
    if squares is None:
        return value
    # given an average of n rewards, the rewards are normal with n - 1 degrees of freedom
    scatter = jnp.maximum(squares - (counts * jnp.square(values.y)).sum(), 0)
    log_counts = jnp.log(jnp.where(used, counts, 1)).sum()
    freedom = counts.sum() - n_values
    return value - (freedom * (LOG_2PI + jnp.log(lam)) + scatter / lam + log_counts) / 2
