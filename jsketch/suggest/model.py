"""Fits the Gaussian process of `suggest`, and computes its leave-one-out predictions.

SciPy's L-BFGS runs on the host, and only the loss is compiled: compiling the whole search, as
`box.gp.fit` does, would take three seconds for each padded number of evaluations.

The prior mean is the mean of the values and is not fitted. With a fitted prior mean, or a small
signal variance, candidates that differ from all evaluated ones would be predicted to be as poor as
the first values, and later batches would stay close to the first batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy import optimize

from jsketch import checks, struct
from jsketch.box.gp import regression
from jsketch.box.gp.fit import LogNormal
from jsketch.numerics import matmul
from jsketch.show import short_repr
from jsketch.suggest.data import (
    MIN_VALUES,
    Data,
    Library,
    check_data,
    kernel_of,
    outlier_limit,
    padded_rows,
    power_of_two,
    standardize,
    weighted_moments,
    zero_padded,
)
from jsketch.suggest.mixed import Columns, Mixed, n_lengthscales
from jsketch.suggest.posterior import evidence_bound, inverse_root
from jsketch.types import PRNGKey

LARGEST_EXACT = 1024  # largest number of evaluations of an exact posterior
# Above LARGEST_EXACT evaluations, lengthscales are fitted to a sample of FIT_SAMPLE of them. Noise
# and scale are fitted to all evaluations, on a sketch with FIT_INDUCING inducing points; the noise
# variance divided by the signal variance is one of NOISE_RATIOS.
FIT_SAMPLE = 512
FIT_INDUCING = 512
NOISE_RATIOS = np.geomspace(1e-3, 10, 17)
SUBSAMPLE_KEY = 0  # folded into the key of `suggest`, as are BATCH_KEY and others in `batch`

STEPS = 30  # L-BFGS steps from each start
REFIT_STEPS = 10  # L-BFGS steps from a model that was fitted to fewer values
# The unit of a lengthscale is sqrt(L) times the `spread` of its column: it grows with the number L
# of lengthscales, as distances do (Hvarfner, Hellsten, Nardi. ICML 2024), and does not depend on
# where the ends of a column are. In units of the range, the lengthscales of numbers would be
# several times as long as the distances between candidates, most of all in a mixture, most of whose
# parts are near 0. Few values would then fit a plane, whose largest values are at the corners. The
# priors were chosen on seeds that no reported result uses (experiments/pools/README.md).
LENGTHSCALE = LogNormal(0.5, 0.7)
OUTPUTSCALE = LogNormal(2.0, 0.5)
NOISE = LogNormal(-4.0, 1.0)
START_FACTORS = (0.5, 2.0)  # one search starts from each of these lengthscales, in their unit
MIN_NOISE = 1e-5  # smallest noise variance, and smallest hyperparameter of a given start
LARGEST_LOSS = 1e10  # returned in place of a loss that is not finite

_evidence_bound = jax.jit(evidence_bound)


class Model(NamedTuple):
    """A Gaussian process: values are centre + scale * f + noise; f has the library's kernel."""

    # [L], one for each numeric column (in units of its range), one-hot category and fingerprint
    lengthscale: np.ndarray
    ratio: float  # noise variance over signal variance, the regularization
    scale: float  # standard deviation of the signal, in units of the values
    centre: float  # mean of the signal
    # False if there are fewer than 2 values, or all are equal up to rounding. The hyperparameters
    # then have default values: the scale is 1 and is not estimated.
    fitted: bool
    limits: tuple[float, float] = (-np.inf, np.inf)  # values are clipped to this range

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the values."""
        return self.scale * self.ratio**0.5


class Hyperparameters(NamedTuple):
    """The hyperparameters for standardized values."""

    lengthscale: Any  # [L]
    outputscale: Any  # [], a variance
    noise: Any  # [], a variance


class _CachedKernel(NamedTuple):
    """A kernel with cached fingerprint distances."""

    kernel: Mixed
    distances: list[Array]

    def gram(self, x: Array, y: Array) -> Array:
        return self.kernel.gram_of(x, y, self.distances)


def lengthscale_unit(library: Library) -> np.ndarray:
    """The unit [L] of each lengthscale of a library: sqrt(L) times its spread."""
    count = n_lengthscales(library.columns)
    return math.sqrt(count) * (np.ones(count) if library.spread is None else library.spread)


def log_prior(theta: Hyperparameters, unit: ArrayLike) -> Array:
    """Log of the prior density of the hyperparameters (not of their logarithms), [], for the unit
    [L] of the lengthscales."""
    total = LENGTHSCALE.log_density(theta.lengthscale / unit).sum()
    return total + OUTPUTSCALE.log_density(theta.outputscale) + NOISE.log_density(theta.noise)


def log_posterior(
    kernel: Any,
    distances: list[Array],
    data: regression.Data,
    theta: Hyperparameters,
    unit: ArrayLike,
    error_variances: ArrayLike = 0.0,
) -> Array:
    """The scalar log(likelihood * prior) at these hyperparameters. `distances` are the results of
    `Mixed.fingerprint_distances`; `unit` [L] is the `lengthscale_unit`; `error_variances` [N] are
    added to the noise variance."""
    if isinstance(kernel, Mixed):
        kernel = _CachedKernel(replace(kernel, lengthscale=theta.lengthscale), distances)
    # `Mixed` divides its inputs by the lengthscales itself, and a kernel matrix has none
    ones = jnp.ones(data.u.shape[1], data.u.dtype)
    numbers = regression.Hyperparameters(ones, theta.outputscale, theta.noise + error_variances)
    return regression.log_marginal_likelihood(kernel, numbers, data) + log_prior(theta, unit)


def _fit_hyperparameters(
    kernel: Any,
    data: regression.Data,
    unit: np.ndarray,
    fixed_lengthscale: np.ndarray | None,
    error_variances: ArrayLike,
    start: Hyperparameters | None = None,
) -> Hyperparameters:
    """The mode of `log_posterior`: the best result of several searches, or the result of one search
    from `start`. `unit` [L] is that of the lengthscales. `fixed_lengthscale` [L], if given, is not
    fitted."""
    dtype, is_fixed = data.u.dtype, fixed_lengthscale is not None
    fixed_array = jnp.asarray(fixed_lengthscale, dtype) if is_fixed else None
    distances = _fingerprint_distances(kernel, data.u)
    error_variances, unit_array = jnp.asarray(error_variances, dtype), jnp.asarray(unit, dtype)
    # a point of the search: log(outputscale), log(noise variance - floor), log(lengthscales); the
    # starts ignore the floor
    starts = [np.array([OUTPUTSCALE.location, NOISE.location], float)]
    if not is_fixed:
        starts = [np.append(starts[0], np.log(factor * unit)) for factor in START_FACTORS]
    steps = STEPS
    if start is not None:
        steps = REFIT_STEPS
        hyperparameters = (start.outputscale, start.noise, *start.lengthscale)
        # without the lengthscale if it is fixed
        starts = [np.log(np.maximum(hyperparameters[: len(starts[0])], MIN_NOISE))]
    best_point, lowest_loss = starts[0], np.inf

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best_point, lowest_loss
        arrays = fixed_array, unit_array, error_variances
        value, gradient = _loss(jnp.asarray(point, dtype), kernel, distances, data, *arrays)
        value, gradient = float(value), np.asarray(gradient, float)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return LARGEST_LOSS, np.zeros_like(point)
        if value < lowest_loss:
            best_point, lowest_loss = point.copy(), value
        return value, gradient

    for point in starts:
        optimize.minimize(loss, point, jac=True, method="L-BFGS-B", options=dict(maxiter=steps))
    return _hyperparameters_at(np, best_point.astype(dtype), fixed_lengthscale)


def _hyperparameters_at(xp: Any, point: Any, fixed_lengthscale: Any) -> Hyperparameters:
    """The hyperparameters at a point of the search; `xp` is NumPy or jax.numpy."""
    floor = max(MIN_NOISE, 100 * float(np.finfo(point.dtype).eps))
    lengthscale = xp.exp(point[2:]) if fixed_lengthscale is None else fixed_lengthscale
    return Hyperparameters(lengthscale, xp.exp(point[0]), floor + xp.exp(point[1]))


@jax.jit
def _fingerprint_distances(kernel: Any, u: Array) -> list[Array]:
    return kernel.fingerprint_distances(u, u) if isinstance(kernel, Mixed) else []


@jax.jit
@jax.value_and_grad
def _loss(
    point: Array,
    kernel: Any,
    distances: list[Array],
    data: regression.Data,
    fixed_lengthscale: Array | None,
    unit: Array,
    error_variances: Array,
) -> Array:
    theta = _hyperparameters_at(jnp, point, fixed_lengthscale)
    return -log_posterior(kernel, distances, data, theta, unit, error_variances)


@struct.checked_names
def fit(
    candidates: Any,
    arms: Any,
    values: Any,
    *,
    columns: Sequence[Columns] | None = None,
    lengthscale: Any = None,
    errors: Any = None,
    scaling: bool = True,
    limits: tuple[float, float] | None = None,
    key: PRNGKey | None = None,
) -> Model:
    """The model at the posterior mode of its hyperparameters.

    candidates, columns, arms, values, errors, scaling   as in `suggest`
    lengthscale   one number for all, or [L]; None: fitted
    limits        values are clipped to this range (smallest, largest); None: values below the limit
                  median - 2 (best - median) are raised to it
    key           draws the random sample if there are more than 1,024 evaluations; None:
                  jax.random.key(0)

    With more than 1,024 evaluations, lengthscales are fitted to a random sample of 512, and noise
    and scale to all evaluations, or to the sample if a standard error is above 0. If there are
    fewer than 2 values, or all are equal, the model has the default hyperparameters, and `fitted`
    is False. Raises what `suggest` raises.

    Example:

        model = fit(features, arms=[3, 14, 15], values=[0.2, 0.7, 0.1])
    """
    key = None if key is None else checks.one_key(key=key)
    data = check_data(candidates, columns, arms, values, pending=(), scaling=scaling, errors=errors)
    return fit_data(data, lengthscale, key, limits=limits)


def fit_data(
    data: Data,
    lengthscale: Any,
    key: PRNGKey | None,
    start: Model | None = None,
    limits: tuple[float, float] | None = None,
) -> Model:
    """`fit` for checked arrays. `start` is None or a model of fewer values. If `start` is fitted,
    one short search (REFIT_STEPS) starts from its hyperparameters."""
    library = data.library
    unit = lengthscale_unit(library)
    if len(unit) == 0:  # the library has a kernel matrix
        if lengthscale is not None:
            raise ValueError("a kernel matrix has no lengthscale: leave lengthscale out.")
        lengthscale = np.ones(0)
    fixed = None if lengthscale is None else _check_lengthscales(len(unit), lengthscale)
    arms, values = data.arms[data.observed], data.values[data.observed]
    if limits is None:
        limits = (outlier_limit(values) if len(values) else -np.inf, np.inf)
    values = np.clip(values, *limits)
    prior_median = np.exp(LENGTHSCALE.location) * unit
    start_lengthscale = prior_median if fixed is None else fixed
    kernel = kernel_of(library, start_lengthscale)
    if len(values) < MIN_VALUES or weighted_moments(values, 0 * values, arms).deviation == 0:
        centre = float(values[0]) if len(values) else 0.0
        ratio = float(np.exp(NOISE.location) / np.exp(OUTPUTSCALE.location))
        return Model(
            start_lengthscale, ratio, scale=1.0, centre=centre, fitted=False, limits=limits
        )
    key = jax.random.key(0) if key is None else key
    is_exact = len(values) <= LARGEST_EXACT
    rows = random_rows(len(values), LARGEST_EXACT if is_exact else FIT_SAMPLE, key)
    errors = data.errors[data.observed][rows]
    centre, deviation, _ = weighted_moments(values[rows], errors, arms[rows])
    deviation = deviation or float(power_of_two(values))  # the values of a sample may be equal
    y, variances = standardize(values[rows], errors, centre, deviation)
    index, mask = padded_rows(arms[rows])
    y, variances = zero_padded(y, len(mask)), zero_padded(variances, len(mask))
    dtype = library.features.dtype
    points, padded_y = library.features[jnp.asarray(index)], jnp.asarray(y, dtype)
    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
    padded = regression.Data(points, padded_y, jnp.asarray(mask), centre=zero, spread=one)
    theta = None
    if start is not None and start.fitted:
        outputscale = (start.scale / deviation) ** 2
        theta = Hyperparameters(start.lengthscale, outputscale, start.ratio * outputscale)
    options = unit, fixed, variances, theta
    lengthscale, outputscale, noise = _fit_hyperparameters(kernel, padded, *options)
    scale, ratio = deviation * float(outputscale) ** 0.5, float(noise / outputscale)
    model = Model(np.asarray(lengthscale, float), ratio, scale, centre, fitted=True, limits=limits)
    if is_exact or data.errors.any():
        return model
    return _fit_scale_to_all(library, model, arms, values, key)


def _fit_scale_to_all(
    library: Library, model: Model, arms: np.ndarray, values: np.ndarray, key: PRNGKey
) -> Model:
    """The model with centre, noise and scale fitted to all evaluations (`evidence_bound`)."""
    unit = float(power_of_two(values))
    centre = float(np.mean(values / unit))
    distinct_arms = np.unique(arms)
    sample = random_rows(len(distinct_arms), FIT_INDUCING, key)
    inducing, included = padded_rows(distinct_arms[sample])
    index, observed = padded_rows(arms)
    y = zero_padded(values / unit - centre, len(index))
    kernel = kernel_of(library, model.lengthscale)
    ratios = jnp.asarray(NOISE_RATIOS, library.features.dtype)
    x, points = (library.features[jnp.asarray(rows)] for rows in (index, inducing))
    masks = dict(observed=jnp.asarray(observed), included=jnp.asarray(included))
    bound = _evidence_bound(kernel, x, jnp.asarray(y), points, ratios, **masks)
    best = int(np.nanargmax(np.asarray(bound.log_likelihood)))
    scale = unit * float(bound.scale[best])
    return model._replace(ratio=float(NOISE_RATIOS[best]), scale=scale, centre=unit * centre)


class LeftOut(NamedTuple):
    """Predictions of k evaluations, each from all others, in units of the values."""

    at: np.ndarray  # [k] int, indices of the evaluations
    observed: np.ndarray  # [k], values, clipped to the limits of the model
    mean: np.ndarray  # [k], predictions
    std: np.ndarray  # [k], standard deviations of the predictions, noise included
    # [k], weights of the values in `explained`; equal weights if no `errors` are given
    weight: np.ndarray
    # marginal log likelihood of the k values at the scale that maximises it, up to a constant
    log_likelihood: float

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def error_ratio(self) -> float:
        """The root mean square of (observed - mean) / std."""
        error = (self.observed - self.mean) / self.std
        return float(np.sqrt(np.mean(np.square(error))))

    @property
    def explained(self) -> float:
        """The share of the variance of the values that the predictions explain: at most 1, 0 if
        every prediction is the mean of the values, and NaN if all values are equal. Values with
        larger `errors` have smaller weights (`data.weighted_moments`)."""
        if len(self.observed) == 0 or np.ptp(self.observed) == 0:
            return np.nan
        share = self.weight / self.weight.sum()
        deviation = np.sqrt(share) * (self.observed - share @ self.observed)
        residual = np.sqrt(share) * (self.observed - self.mean)
        unit = power_of_two(deviation)
        return float(1 - np.square(residual / unit).sum() / np.square(deviation / unit).sum())


@struct.checked_names
def leave_one_out(
    candidates: Any,
    arms: Any,
    values: Any,
    model: Model,
    *,
    columns: Sequence[Columns] | None = None,
    errors: Any = None,
    scaling: bool = True,
    key: PRNGKey | None = None,
) -> LeftOut:
    """Predicts every value from all others, with the hyperparameters of the model.

    With K = Cov y, noise included, y_i has the mean y_i - [K^-1 y]_i / [K^-1]_ii and the variance
    1 / [K^-1]_ii (Rasmussen and Williams, 2006, eq. 5.12; Sundararajan, Keerthi, 2001). Of more
    than 1,024 evaluations a random sample of 1,024 is used. Raises what `suggest` raises.
    """
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = check_data(candidates, columns, arms, values, pending=(), scaling=scaling, errors=errors)
    return leave_one_out_data(data, model, key)


def leave_one_out_data(data: Data, model: Model, key: PRNGKey) -> LeftOut:
    """`leave_one_out` of checked arrays."""
    data, at = data.clipped(model.limits), np.flatnonzero(data.observed)
    sample = random_rows(len(at), LARGEST_EXACT, key)
    at = at[sample]
    index, mask = padded_rows(data.arms[at], never_empty=True)
    dtype = data.library.features.dtype
    values, variances = data.standardized_values(model.centre, model.scale, model.fitted)
    y = zero_padded(values[sample], len(index))
    noise = model.ratio + zero_padded(variances[sample], len(index))
    kernel = kernel_of(data.library, model.lengthscale)
    arrays = map(jnp.asarray, (index, mask, y.astype(dtype), noise.astype(dtype)))
    mean, variance, likelihood = _leave_one_out(kernel, data.library.features, *arrays)
    used = slice(len(at))
    mean, std = (x[used] for x in in_value_units(model, mean, variance, used))
    weight = weighted_moments(data.values[at], data.errors[at], data.arms[at]).weight
    return LeftOut(at, data.values[at], mean, std, weight, float(likelihood))


@jax.jit
def _leave_one_out(
    kernel: Any, features: Array, index: Array, mask: Array, y: Array, noise: Array
) -> tuple[Array, Array, Array]:
    """(means [N], variances [N], log likelihood []) of the leave-one-out predictions of y [N]."""
    half = inverse_root(kernel, features[index], mask, noise)
    diagonal, whitened = jnp.square(half).sum(0), matmul(half, y)
    count = jnp.maximum(mask.sum(dtype=y.dtype), 1)
    tiny = jnp.finfo(y.dtype).tiny
    likelihood = jnp.log(jnp.diagonal(half)).sum()  # half is the identity in unused slots
    likelihood -= count / 2 * jnp.log(jnp.maximum(jnp.square(whitened).sum() / count, tiny))
    return y - matmul(half.T, whitened) / diagonal, 1 / diagonal, likelihood


def in_value_units(
    model: Model, mean: Any, variance: Any, rows: Any = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """(means, standard deviations) in units of the values, from means and variances in units of the
    signal. Raises ValueError if a result in `rows` is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = model.centre + model.scale * np.asarray(mean, float)
        std = model.scale * np.sqrt(np.asarray(variance, float))
    numbers = {"means": mean, "standard deviations": std}
    nonfinite_names = [name for name, x in numbers.items() if not np.isfinite(x[rows]).all()]
    if nonfinite_names:
        raise ValueError(
            f"the posterior is not finite: {', '.join(nonfinite_names)} are NaN or infinite. The"
            f" model has a ratio of {model.ratio:g} (noise to signal variance), a scale of"
            f" {model.scale:g} and a centre of {model.centre:g}. Repeated evaluations need a larger"
            " ratio, and the values must not be far from the centre in units of the scale."
        )
    return mean, std


def _check_lengthscales(count: int, lengthscale: Any) -> np.ndarray:
    """The lengthscales [L], L = `count`. Raises ValueError for a wrong shape, and for numbers that
    are not above 0."""
    checks.all_positive(lengthscale=lengthscale)
    if np.shape(lengthscale) not in ((), (count,)):
        raise ValueError(
            f"lengthscale must be one number, or one for each of the {count} numeric columns,"
            f" categories and fingerprints; its shape is {np.shape(lengthscale)}."
        )
    return np.broadcast_to(np.asarray(lengthscale, float), (count,))


def random_rows(count: int, limit: int, key: PRNGKey) -> np.ndarray:
    """A random sample of at most `limit` of the rows 0 to `count` - 1, in increasing order."""
    key_data = jax.random.key_data(jax.random.fold_in(key, SUBSAMPLE_KEY))
    generator = np.random.default_rng(np.asarray(key_data).ravel().tolist())
    return np.sort(generator.permutation(count)[:limit])
