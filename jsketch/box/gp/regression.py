"""Exact GP regression on the unit cube at a fixed capacity: the marginal likelihood, and the
posterior at new points.

Rasmussen and Williams (R&W), Gaussian Processes for Machine Learning, 2006, equations 2.25, 2.26,
2.30. Variances are those of the function, and not leverage scores. Unused slots have no
effect: they are an identity block in the covariance and zero in every product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch import struct
from jsketch.box.history import moments, to_unit
from jsketch.numerics import aligned, cholesky_inverse, count, matmul, positions
from jsketch.posterior import likelihood
from jsketch.posterior.process import GaussianProcess
from jsketch.sketch.fourier import RandomFourier, features
from jsketch.types import Box, PRNGKey

SMALLEST_CAPACITY = 64  # the least capacity of `at_smallest_capacity`, unless N is smaller


@struct.dataclass
class Hyperparameters:
    """The numbers of the model y = f(u) + noise, in which
    Cov(f(u), f(v)) = outputscale k(u / lengthscale, v / lengthscale).

    lengthscale  [d], in sides of the box
    outputscale  [], a variance
    noise        [], a variance
    """

    lengthscale: Array
    outputscale: Array
    noise: Array


class Data(NamedTuple):
    """Observations in the unit cube, in N slots."""

    u: Array  # [N, d]
    y: Array  # [N], standardized; zero where the mask is false
    mask: Array  # [N] bool
    centre: Array  # [], observed value = centre + spread * y
    spread: Array  # []


def standardized(u: Array, y: Array, mask: Array) -> Data:
    """The data of points u [N,d] of the unit cube and values y [N] where the mask [N] is true. The
    values are scaled to mean 0 and standard deviation 1; equal values are only centred."""
    unit, mean, deviation = moments(y, mask)
    varies = deviation > 0
    deviation = jnp.where(varies, deviation, 1)
    centred = jnp.where(mask, y / unit - mean, 0)
    spread = jnp.where(varies, unit * deviation, 1)
    return Data(u, centred / deviation, mask, centre=unit * mean, spread=spread)


def covariance_of_values(kernel: Any, numbers: Hyperparameters, data: Data) -> Array:
    """Cov y, [N,N]; the identity in unused slots."""
    scaled = data.u / aligned(numbers.lengthscale, data.u)
    pairs = data.mask[:, None] & data.mask[None, :]
    noise = jnp.diag(jnp.where(data.mask, numbers.noise, 1))
    return jnp.where(pairs, numbers.outputscale * kernel.gram(scaled, scaled), 0) + noise


def _solve(inverse: Array, data: Data) -> Array:
    """Cov^-1 y, [N], for the inverse L^-1 [N,N] of Cov y = L L^T."""
    return matmul(inverse.T, matmul(inverse, data.y))


def log_marginal_likelihood(kernel: Any, numbers: Hyperparameters, data: Data) -> Array:
    """log p(y | u), [], of the standardized y (R&W eq. 2.30)."""
    n_values = data.mask.sum(dtype=data.y.dtype)
    density = likelihood.log_density(covariance_of_values(kernel, numbers, data), data.y)
    return density - n_values * likelihood.LOG_2PI / 2


@struct.dataclass
class Posterior:
    """The posterior of f in the units of the standardized y, factorized once for many points.

    kernel   the kernel, for a lengthscale of one side of the box
    numbers  the `Hyperparameters`
    data     the evaluated points and their standardized values
    inverse  [N, N], L^-1 of Cov y = L L^T
    weights  [N], Cov^-1 y
    """

    kernel: Any
    numbers: Hyperparameters
    data: Data
    inverse: Array
    weights: Array


def condition(kernel: Any, numbers: Hyperparameters, data: Data) -> Posterior:
    """The posterior of f given the data."""
    _, inverse = cholesky_inverse(covariance_of_values(kernel, numbers, data))
    return Posterior(kernel, numbers, data, inverse, _solve(inverse, data))


def _mean_and_half(posterior: Posterior, u: Array) -> tuple[Array, Array]:
    """(mean [q] of f, L^-1 Cov(y, f(u)) [N,q]) at u [q,d]."""
    numbers, data = posterior.numbers, posterior.data
    lengthscale = aligned(numbers.lengthscale, u)
    gram = posterior.kernel.gram(data.u / lengthscale, u / lengthscale)
    cross = jnp.where(data.mask[:, None], numbers.outputscale * gram, 0)
    return matmul(posterior.weights, cross), matmul(posterior.inverse, cross)


def predict(posterior: Posterior, u: Array) -> tuple[Array, Array]:
    """(mean [q], variance [q]) of f at u [q,d]. The variance is at least eps outputscale, so that
    its square root has a derivative."""
    numbers = posterior.numbers
    mean, half = _mean_and_half(posterior, u)
    prior = numbers.outputscale * posterior.kernel.diag(u / aligned(numbers.lengthscale, u))
    floor = jnp.finfo(u.dtype).eps * numbers.outputscale
    return mean, jnp.maximum(prior - jnp.square(half).sum(0), floor)


def joint_posterior(posterior: Posterior, u: Array) -> tuple[Array, Array]:
    """(mean [q], covariance [q,q]) of f at u [q,d]."""
    numbers = posterior.numbers
    mean, half = _mean_and_half(posterior, u)
    scaled = u / aligned(numbers.lengthscale, u)
    return mean, numbers.outputscale * posterior.kernel.gram(scaled, scaled) - matmul(half.T, half)


def draw(posterior: Posterior, u: Array, key: PRNGKey, n_draws: int, frequencies: int) -> Array:
    """The values [n_draws,q] at u [q,d] of functions drawn from the posterior, in O(q).

    By Matheron's rule, a posterior draw is a prior draw plus the posterior mean given residuals:
    the data minus noisy values of the prior draw at the same points. Prior draws are linear
    in random Fourier features, whose covariance is exact on average (Wilson et al. Efficiently
    sampling functions from Gaussian process posteriors. ICML 2020). Raises ValueError for a kernel
    without Fourier features.
    """
    numbers, data = posterior.numbers, posterior.data
    frequency_key, weight_key, noise_key = jax.random.split(key, 3)
    fourier = RandomFourier(frequencies).draw(posterior.kernel, u.shape[1], frequency_key, u.dtype)
    points = jnp.concatenate([data.u, u]) / aligned(numbers.lengthscale, u)
    normal = jax.random.normal(weight_key, (2 * frequencies, n_draws), u.dtype)
    prior = jnp.sqrt(numbers.outputscale) * matmul(features(fourier, points), normal)
    noise = jnp.sqrt(numbers.noise) * jax.random.normal(noise_key, (len(data.y), n_draws), u.dtype)
    simulated, prior = prior[: len(data.y)] + noise, prior[len(data.y) :]
    residual = jnp.where(data.mask[:, None], data.y[:, None] - simulated, 0)
    gram = posterior.kernel.gram(points[len(data.y) :], points[: len(data.y)])
    cross = jnp.where(data.mask, numbers.outputscale * gram, 0)
    weights = matmul(posterior.inverse.T, matmul(posterior.inverse, residual))
    return (prior + matmul(cross, weights)).T


@struct.dataclass
class BoxKernel:
    """The covariance of the objective in units of the box and of the values.

    kernel   the kernel of the inputs divided by the lengthscales
    numbers  the `Hyperparameters`
    box      the box, whose sides are the units of the lengthscales
    spread   [], the unit of the standardized values
    """

    kernel: Any
    numbers: Hyperparameters
    box: Box
    spread: Array

    def gram(self, x: Array, y: Array) -> Array:
        return self._variance() * self.kernel.gram(self._scaled(x), self._scaled(y))

    def diag(self, x: Array) -> Array:
        return self._variance() * self.kernel.diag(self._scaled(x))

    def _variance(self) -> Array:
        return jnp.square(self.spread) * self.numbers.outputscale

    def _scaled(self, x: Array) -> Array:
        return to_unit(self.box, x) / aligned(self.numbers.lengthscale, x)


def on_box(posterior: Posterior, box: Box, x: Array) -> GaussianProcess:
    """The posterior of the objective in units of the box and of the values; x [N,d] are the points
    of the data in the box."""
    data, numbers = posterior.data, posterior.numbers
    spread, mask = data.spread, data.mask
    explained = jnp.where(mask[:, None] & mask[None, :], posterior.inverse.T / spread, 0)
    return GaussianProcess(
        kernel=BoxKernel(posterior.kernel, numbers, box, spread),
        points=x,
        weights=jnp.where(mask, posterior.weights, 0) / spread,
        explained=explained,
        remaining=jnp.zeros((len(x), 0), x.dtype),
        noise=jnp.square(spread) * numbers.noise,
        prior_mean=data.centre,
    )


def at_smallest_capacity(data: Data, function: Callable[[Data], Any]) -> Any:
    """function(data) at the smallest of the capacities N, N/2, ... that suffices for the data. The
    cost is cubic in the capacity. The shape of the result must not depend on the capacity."""
    capacities = [len(data.y)]
    while capacities[-1] >= 2 * SMALLEST_CAPACITY:
        capacities.append(-(-capacities[-1] // 2))

    def branch(capacity: int) -> Any:
        place = positions(data.mask, capacity)
        valid = place < len(data.y)
        index = jnp.where(valid, place, 0)
        y = jnp.where(valid, data.y[index], 0)
        return function(Data(data.u[index], y, valid, data.centre, data.spread))

    fits = jnp.asarray(capacities, jnp.int32) >= count(data.mask)
    # the capacities descend, and the last that fits is the smallest
    return lax.switch(fits.sum() - 1, [partial(branch, capacity) for capacity in capacities])
