"""The GP of TuRBO. It has a constant mean, its hyperparameters are fitted by a few steps of Adam
from one start, and its draws are joint draws of noisy values. The constants are those of the
authors' code.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.typing import DTypeLike

from jsketch import struct
from jsketch.box.gp import regression
from jsketch.box.gp.fit import Bounds, hyperparameters_of, limits_of
from jsketch.box.gp.regression import Data, Hyperparameters
from jsketch.numerics import PANEL, cholesky_inverse, matmul
from jsketch.posterior.fitting import Limits
from jsketch.types import PRNGKey

LENGTHSCALE, OUTPUTSCALE, NOISE = 0.5, 1.0, 0.005  # the start of every fit, with mean 0
RATE = 0.1  # the learning rate of Adam
# least distance of the start from the bounds, where derivatives vanish, as a share of the range
START_MARGIN = 0.01
MAX_JOINT = 2000  # largest number of points of an exact draw; larger draws use Fourier features


@struct.dataclass
class Model:
    """y = mean + f(u) + noise in standardized values."""

    mean: Array  # []
    numbers: Hyperparameters


def standardized(u: Array, y: Array, mask: Array) -> Data:
    """`regression.standardized` with values centred at the median, which depends less than the
    mean on a few very low values."""
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

    mean: Array  # []
    free: Array  # [d+2], of lengthscales, outputscale and noise


def _model(parameters: _Parameters, limits: Limits) -> Model:
    low, high = limits
    numbers = low + (high - low) * jax.nn.sigmoid(parameters.free)
    return Model(parameters.mean, hyperparameters_of(numbers))


def _start(limits: Limits, d: int, dtype: DTypeLike) -> _Parameters:
    low, high = limits
    numbers = jnp.asarray([LENGTHSCALE] * d + [OUTPUTSCALE, NOISE], dtype)
    share = jnp.clip((numbers - low) / (high - low), START_MARGIN, 1 - START_MARGIN)
    return _Parameters(jnp.zeros((), dtype), jnp.log(share) - jnp.log1p(-share))


def default_model(bounds: Bounds, d: int, dtype: DTypeLike) -> Model:
    """The model from which every fit starts."""
    limits = limits_of(bounds, d, n_points=1, dtype=dtype)
    return _model(_start(limits, d, dtype), limits)


def fit(kernel: Any, data: Data, bounds: Bounds, steps: int, max_points: int) -> Model:
    """The model after `steps` steps of Adam on the mean negative log marginal likelihood, always
    from the same start. If a step is not finite, the result is the start. The
    covariances of at most `max_points` points will be factorized."""
    d, dtype = data.u.shape[1], data.u.dtype
    limits = limits_of(bounds, d, max_points, dtype)
    start = _start(limits, d, dtype)
    count = jnp.maximum(data.mask.sum(dtype=dtype), 1)
    solver = optax.adam(RATE)

    def step(_: Array, carry: Any) -> Any:
        parameters, state = carry
        gradient = _gradient(kernel, parameters, limits, data)
        slope = jax.tree.map(lambda leaf: -leaf / count, gradient)
        # optax mixes integer types
        with jax.numpy_dtype_promotion("standard"):
            updates, state = solver.update(slope, state)
        return optax.apply_updates(parameters, updates), state

    end, _ = lax.fori_loop(0, steps, step, (start, solver.init(start)))
    finite = jnp.isfinite(jnp.append(end.free, end.mean)).all()
    return _model(jax.tree.map(lambda new, old: jnp.where(finite, new, old), end, start), limits)


def _gradient(kernel: Any, parameters: _Parameters, limits: Limits, data: Data) -> _Parameters:
    """The gradient of the log marginal likelihood (eq. 5.9 in `regression`), without its value."""
    model = _model(parameters, limits)
    covariance = regression.covariance_of_values(kernel, model.numbers, data)
    inverse = gram_of_lower(cholesky_inverse(covariance)[1])
    weights = matmul(inverse, _subtract_mean(model, data).y)
    by_covariance = (weights[:, None] * weights[None, :] - inverse) / 2

    # a function with the same gradient, which is linear in the covariance and the mean
    def linear(parameters: _Parameters) -> Array:
        numbers = _model(parameters, limits).numbers
        covariance = regression.covariance_of_values(kernel, numbers, data)
        return jnp.sum(by_covariance * covariance) + weights.sum() * parameters.mean

    return jax.grad(linear)(parameters)


def gram_of_lower(lower: Array) -> Array:
    """L^T L of a lower triangular matrix L [n,n], by halves, which skip products with zeros."""
    half = len(lower) // 2
    if half < PANEL:
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
    kernel: Any, model: Model, data: Data, u: Array, key: PRNGKey, n_draws: int, frequencies: int
) -> Array:
    """Noisy values [n_draws,q] drawn jointly from the posterior at u [q,d], in the units of y. The
    draws are exact for at most MAX_JOINT points, and use random Fourier features for more."""
    data, noise = _subtract_mean(model, data), model.numbers.noise
    value_key, noise_key = jax.random.split(key)
    condition = partial(regression.condition, kernel, model.numbers)
    if len(u) > MAX_JOINT:
        values = regression.at_smallest_capacity(
            data, lambda data: regression.draw(condition(data), u, value_key, n_draws, frequencies)
        )
        values += jnp.sqrt(noise) * jax.random.normal(noise_key, values.shape, u.dtype)
    else:
        mean, covariance = regression.at_smallest_capacity(
            data, lambda data: regression.joint_posterior(condition(data), u)
        )
        covariance += noise * jnp.eye(len(u), dtype=u.dtype)
        normal = jax.random.normal(value_key, (len(u), n_draws), u.dtype)
        values = mean[None, :] + matmul(cholesky_inverse(covariance)[0], normal).T
    return data.centre + data.spread * values
