"""The GP of TuRBO. It has a constant mean, its hyperparameters are fitted by a few steps of Adam
from one start, and its draws are joint draws of noisy values.

Eriksson, Pearce, Gardner, Turner, Poloczek. Scalable global optimization via local Bayesian
optimization. NeurIPS 2019; the constants are those of the authors' code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import DTypeLike

from jsketch import struct
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds
from jsketch.box.gp.regression import Data, Hyperparameters
from jsketch.linalg import BLOCK, cholesky_inverse, matmul
from jsketch.types import PRNGKey

LENGTHSCALE, OUTPUTSCALE, NOISE = 0.5, 1.0, 0.005  # the start of every fit, with mean 0
RATE = 0.1  # the learning rate of Adam
# least distance of the start from the bounds, where derivatives vanish, as a share of the range
START_MARGIN = 0.01
MAX_JOINT = 2000  # the most points of an exact joint draw; others use Fourier features


@struct.dataclass
class Model:
    """y = mean + f(u) + noise in standardized values."""

    mean: Array  # []
    numbers: Hyperparameters


def standardized(u: Array, y: Array, mask: Array) -> Data:
    """As `regression.standardized`, but centred at the median, which depends less than the mean on
    a few very low values."""
    data = regression.standardized(u, y, mask)
    count = mask.sum(dtype=jnp.int32)
    ascending = jnp.sort(jnp.where(mask, y, jnp.inf))
    lower_middle = ascending[jnp.maximum(count - 1, 0) // 2]
    middle = (lower_middle + ascending[jnp.minimum(count // 2, len(y) - 1)]) / 2
    median = jnp.where(count > 0, middle, 0)
    return data._replace(y=jnp.where(mask, (y - median) / data.spread, 0), centre=median)


class _Parameters(NamedTuple):
    """The parameters that Adam optimizes: the mean, and free coordinates of the hyperparameters,
    which are low + (high - low) sigmoid(free)."""

    mean: Array
    lengthscale: Array
    outputscale: Array
    noise: Array


# (low, high) of lengthscale, outputscale and noise
_Limits = list[tuple[Array, Array]]


def _limits(bounds: Bounds, points: int, dtype: DTypeLike) -> _Limits:
    """The limits of each hyperparameter. In float32 those of the noise may be raised, so that a
    covariance of `points` points is positive definite."""
    floor = 10 * points * jnp.finfo(dtype).eps
    limits = []
    for (low, high), least in (
        (bounds.lengthscale, 0.0),
        (bounds.outputscale, 0.0),
        (bounds.noise, floor),
    ):
        ends = jnp.asarray(low, dtype), jnp.asarray(high, dtype)
        limits.append((jnp.maximum(ends[0], least), jnp.maximum(ends[1], 2 * least)))
    return limits


def _to_free(value: float, limits: tuple[Array, Array]) -> Array:
    low, high = limits
    share = jnp.clip((value - low) / (high - low), START_MARGIN, 1 - START_MARGIN)
    return jnp.log(share) - jnp.log1p(-share)


def _model(free: _Parameters, limits: _Limits) -> Model:
    numbers = [
        low + (high - low) * jax.nn.sigmoid(value)
        for value, (low, high) in zip(free[1:], limits, strict=True)
    ]
    return Model(free.mean, Hyperparameters(*numbers))


def _start(limits: _Limits, d: int, dtype: DTypeLike) -> _Parameters:
    lengthscale, outputscale, noise = map(_to_free, (LENGTHSCALE, OUTPUTSCALE, NOISE), limits)
    return _Parameters(jnp.zeros((), dtype), jnp.full(d, lengthscale), outputscale, noise)


def default_model(bounds: Bounds, d: int, dtype: DTypeLike) -> Model:
    """The start of every fit."""
    limits = _limits(bounds, 1, dtype)
    return _model(_start(limits, d, dtype), limits)


def fit(kernel: Any, data: Data, bounds: Bounds, steps: int, points: int) -> Model:
    """The model after `steps` of Adam on the mean negative log marginal likelihood, always from the
    same start. If a step is not finite, the model is the start. `points` is the largest number of
    points whose covariance will be factorized."""
    d, dtype = data.u.shape[1], data.u.dtype
    limits = _limits(bounds, points, dtype)
    start = _start(limits, d, dtype)
    count = jnp.maximum(data.mask.sum(dtype=dtype), 1)
    solver = optax.adam(RATE)

    def step(_: Array, carry: Any) -> Any:
        free, state = carry
        slope = jax.tree.map(lambda leaf: -leaf / count, _gradient(kernel, free, limits, data))
        # optax mixes integer types
        with jax.numpy_dtype_promotion("standard"):
            updates, state = solver.update(slope, state)
        return optax.apply_updates(free, updates), state

    end, _ = lax.fori_loop(0, steps, step, (start, solver.init(start)))
    finite = jnp.isfinite(jnp.concatenate([jnp.atleast_1d(leaf) for leaf in end])).all()
    return _model(jax.tree.map(lambda new, old: jnp.where(finite, new, old), end, start), limits)


def _gradient(kernel: Any, free: _Parameters, limits: _Limits, data: Data) -> _Parameters:
    """The gradient of the log marginal likelihood (R&W eq. 5.9), without its value."""
    model = _model(free, limits)
    covariance = regression.covariance_of_values(kernel, model.numbers, data)
    inverse = gram_of_lower(cholesky_inverse(covariance).inverse)
    weights = matmul(inverse, _subtract_mean(model, data).y)
    by_covariance = (weights[:, None] * weights[None, :] - inverse) / 2

    # a function with the same gradient, which is linear in the covariance and the mean
    def linear(free: _Parameters) -> Array:
        covariance = regression.covariance_of_values(kernel, _model(free, limits).numbers, data)
        return jnp.sum(by_covariance * covariance) + weights.sum() * free.mean

    return jax.grad(linear)(free)


def gram_of_lower(lower: Array) -> Array:
    """L^T L of a lower triangular matrix [n,n], by halves that skip the zeros."""
    half = len(lower) // 2
    if half < BLOCK:
        return matmul(lower.T, lower)
    top, strip, rest = lower[:half, :half], lower[half:, :half], lower[half:, half:]
    corner = matmul(strip.T, rest)
    return jnp.block(
        [[gram_of_lower(top) + matmul(strip.T, strip), corner], [corner.T, gram_of_lower(rest)]]
    )


def _subtract_mean(model: Model, data: Data) -> Data:
    """The data with the model's mean subtracted."""
    return data._replace(
        y=jnp.where(data.mask, data.y - model.mean, 0),
        centre=data.centre + data.spread * model.mean,
    )


def draw(
    kernel: Any, model: Model, data: Data, u: Array, key: PRNGKey, draws: int, frequencies: int
) -> Array:
    """Noisy values [draws,q] drawn jointly from the posterior at u [q,d], in the units of y. The
    draws are exact for at most MAX_JOINT points, and use random Fourier features for more."""
    data, noise = _subtract_mean(model, data), model.numbers.noise
    value_key, noise_key = jax.random.split(key)
    if len(u) > MAX_JOINT:

        def functions(data: Data) -> Array:
            posterior = regression.condition(kernel, model.numbers, data)
            return regression.draw(posterior, u, value_key, draws, frequencies)

        values = regression.at_smallest_capacity(data, functions)
        values += jnp.sqrt(noise) * jax.random.normal(noise_key, values.shape, u.dtype)
    else:

        def moments(data: Data) -> tuple[Array, Array]:
            return regression.joint_posterior(regression.condition(kernel, model.numbers, data), u)

        mean, covariance = regression.at_smallest_capacity(data, moments)
        covariance += noise * jnp.eye(len(u), dtype=u.dtype)
        normal = jax.random.normal(value_key, (len(u), draws), u.dtype)
        values = mean[None, :] + root_times(covariance, normal).T
    return data.centre + data.spread * values


def root_times(matrix: Array, z: Array) -> Array:
    """L z for a positive definite matrix [q,q] = L L^T and z [q,k], by halves and in matrix
    products, as in `cholesky_inverse`."""
    half = len(matrix) // 2
    if half < BLOCK:
        # L = matrix L^-T
        return matmul(matrix, matmul(cholesky_inverse(matrix).inverse.T, z))
    top, strip, rest = matrix[:half, :half], matrix[half:, :half], matrix[half:, half:]
    inverse = cholesky_inverse(top).inverse
    cross = matmul(strip, inverse.T)
    upper = matmul(top, matmul(inverse.T, z[:half]))
    lower = matmul(cross, z[:half]) + root_times(rest - matmul(cross, cross.T), z[half:])
    return jnp.concatenate([upper, lower])
