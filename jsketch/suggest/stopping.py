"""A rule that ends a campaign. Joint draws of the posterior give the gain, that is, how much better
an unevaluated candidate may be than the best evaluated one.

`should_stop` is true if the quantile PROBABILITY of the gain is at most a tolerance. A simulation
measures the calibration of the rule: `python -m experiments.suggest.calibration`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks
from jsketch.suggest import choice, posterior
from jsketch.suggest.acquisitions import normal_draws
from jsketch.suggest.batch import padded_data
from jsketch.suggest.data import check_data, kernel_of, outlier_limit, zero_padded
from jsketch.suggest.model import Model, leave_one_out_data
from jsketch.types import PRNGKey

SHORTLIST = 511  # unevaluated candidates at which f is drawn, with the largest upper bounds
BOUND_WIDTH = 3.0  # standard deviations from the mean to an upper bound
# a rougher model has the lengthscales of the fitted model, divided by one of these numbers
LENGTHSCALE_DIVISORS = 1.4, 2.0, 2.8
MIN_INFLATION = 0.5  # smallest factor of the standard deviations of a rougher model
# a rougher model is used if its log likelihood is lower by at most this number
LIKELIHOOD_MARGIN = 3.0
DRAWS = 1024
PROBABILITY = 0.975  # above 95%, because the rule is applied after every batch
TOLERANCE = 0.01  # of the range of the values
MIN_VALUES = 10  # with fewer values the fitted noise and lengthscales are unreliable
GAIN_KEY = 4  # number folded into the key of `suggest`


class Gain(NamedTuple):
    """Draws of the gain of an evaluation without noise, in units of the values."""

    # row of the best evaluated candidate, by posterior means (by values if the model is not fitted)
    best: int
    of_any: np.ndarray  # [D] draws of f at the best unevaluated candidate minus f at `best`, >= 0
    of_batch: np.ndarray  # [D], as `of_any` for the best candidate of the batch; empty without one
    observed: int  # number of evaluations with a value
    # the largest gain within the bounds: the largest possible value minus the `best_measured` one
    limit: float = np.inf


def possible_gain(
    candidates: Any,
    arms: Any,
    values: Any,
    model: Model,
    *,
    errors: Any = None,
    exclude: Any = (),
    batch: Any = (),
    bounds: tuple[float, float] | None = None,
    key: PRNGKey | None = None,
) -> Gain | None:
    """Draws of the gain. If the model is not fitted, all draws are the largest gain that the bounds
    allow, and the result is None if there is no upper bound or no value.

    Arguments are those of `suggest`. `batch` [B] are the rows of suggested candidates. `bounds` are
    the smallest and the largest possible value; the gain is at most the largest possible value
    minus the measured value of the best candidate, even if this value is noisy.

    The gain of the batch is drawn from the fitted model. Its lengthscales are often too long when
    there are few values. The gain of any candidate is therefore drawn from several models, the
    fitted one and rougher ones (LENGTHSCALE_DIVISORS), and `of_any` has the draws of the model
    with the largest quantile PROBABILITY. A rougher model is left out if its log likelihood is
    lower than that of the fitted model by more than LIKELIHOOD_MARGIN. The standard deviations of a
    model are multiplied by its `LeftOut.error_ratio`, but by at least 1 for the fitted model and by
    at least MIN_INFLATION for a rougher one.
    """
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = check_data(candidates, None, arms, values, pending=(), scaling=True, errors=errors)
    rows, limit, count = np.asarray(batch, int), np.inf, int(data.observed.sum())
    if bounds is not None and count:
        row, value = best_measured(data.arms, data.values)
        limit = max(bounds[1] - value, 0.0)
    if not model.fitted:
        if not np.isfinite(limit):
            return None
        of_batch = np.full(min(len(rows), 1), limit)
        return Gain(row, of_any=np.full(1, limit), of_batch=of_batch, observed=count, limit=limit)
    features = data.library.features
    unavailable = np.zeros(len(features), bool)
    unavailable[data.arms], unavailable[np.asarray(exclude, int)] = True, True
    # padded to a power of two, so that batches of different sizes share a program
    padded_batch = zero_padded(rows, max(8, 1 << max(len(rows) - 1, 0).bit_length()))
    size, gain_key = min(SHORTLIST, len(features) - 1), jax.random.fold_in(key, GAIN_KEY)
    best, fitted_likelihood = -1, -np.inf  # the fitted model determines both
    gains: list[tuple[np.ndarray, np.ndarray]] = []
    for divisor in (1.0, *LENGTHSCALE_DIVISORS):
        alternative = model._replace(lengthscale=model.lengthscale / divisor)
        left_out = leave_one_out_data(data, alternative, key)
        fitted_likelihood = left_out.log_likelihood if divisor == 1 else fitted_likelihood
        if left_out.log_likelihood < fitted_likelihood - LIKELIHOOD_MARGIN:
            continue
        inflation = max(left_out.error_ratio, 1.0 if divisor == 1 else MIN_INFLATION)
        kernel = kernel_of(data.library, alternative.lengthscale)
        arrays = padded_data(kernel, data, alternative, unavailable, key)
        ratio = jnp.asarray(alternative.ratio, features.dtype)
        best_row, draws = _draws(
            kernel, arrays, ratio, jnp.asarray(padded_batch), inflation, best, gain_key, size
        )
        best = int(best_row)
        f = model.centre + model.scale * np.asarray(draws, float)
        if bounds is not None:
            f = np.clip(f, *bounds)
        # unused slots of the shortlist hold -inf
        best_unevaluated = f[:, 0] if unavailable.all() else f[:, 1 : 1 + size].max(1)
        of_batch = np.zeros(0)
        if len(rows):
            best_of_batch = f[:, 1 + size : 1 + size + len(rows)].max(1)
            # a candidate in both the shortlist and the batch has two draws, which differ by jitter
            best_unevaluated = np.maximum(best_unevaluated, best_of_batch)
            of_batch = np.maximum(best_of_batch - f[:, 0], 0)
        gains.append((np.maximum(best_unevaluated - f[:, 0], 0), of_batch))
    of_any = max((gain[0] for gain in gains), key=lambda draws: np.quantile(draws, PROBABILITY))
    of_batch = np.minimum(gains[0][1], limit)
    return Gain(best, np.minimum(of_any, limit), of_batch, count, limit)


def best_measured(arms: np.ndarray, values: np.ndarray) -> tuple[int, float]:
    """(row, value) of the candidate with the largest mean of its values, given evaluations of
    `arms` [n] with `values` [n], NaN for a failed evaluation."""
    observed = ~np.isnan(values)
    rows, index = np.unique(arms[observed], return_inverse=True)
    mean = np.bincount(index, values[observed]) / np.bincount(index)
    return int(rows[mean.argmax()]), float(mean.max())


def stop_row(gain: Gain, tolerance: float, arms: np.ndarray, values: np.ndarray) -> int:
    """The row of the best evaluated candidate when a campaign ends: the best measured one if its
    value is within `tolerance` of the largest possible value, or else `gain.best`."""
    return best_measured(arms, values)[0] if gain.limit <= tolerance else gain.best


def tolerance(values: np.ndarray, bounds: tuple[float, float] | None = None) -> float:
    """TOLERANCE times the range of the bounds if they are finite, or else times the range of the
    values without poor outliers."""
    if bounds is not None and np.isfinite(bounds).all():
        return TOLERANCE * (bounds[1] - bounds[0])
    observed = values[~np.isnan(values)]
    return TOLERANCE * float(observed.max() - max(observed.min(), outlier_limit(observed)))


def should_stop(gain: Gain | None, tolerance: float) -> bool:
    """Whether, with probability PROBABILITY, the gain is at most `tolerance`. If there are fewer
    than MIN_VALUES values, the best must also be within it of the largest possible value."""
    if gain is None or (gain.observed < MIN_VALUES and gain.limit > tolerance):
        return False
    return float(np.quantile(gain.of_any, PROBABILITY)) <= tolerance


@partial(jax.jit, static_argnames="size")
def _draws(
    kernel: Any,
    arrays: choice.PaddedData,
    ratio: Array,
    batch: Array,
    inflation: Array,
    best: Array,
    key: PRNGKey,
    size: int,
) -> tuple[Array, Array]:
    """(row of the best candidate, draws [DRAWS, 1 + size + B] of f in units of the signal). The
    columns of the draws are the best candidate, a shortlist of `size` unevaluated candidates, and
    the batch. If `best` is -1, the best is the evaluated candidate with the largest mean."""
    features = arrays.features
    gp_posterior = choice.condition(kernel, arrays, ratio, with_pending=False)
    mean, variance = posterior.predict(gp_posterior, features)
    largest = jnp.argmax(jnp.where(arrays.observed, mean[arrays.arms], -jnp.inf))
    best = jnp.where(best < 0, arrays.arms[largest], best)
    bound = mean + BOUND_WIDTH * inflation * jnp.sqrt(variance)
    top, shortlist = lax.top_k(jnp.where(~arrays.unavailable, bound, -jnp.inf), size)
    rows = jnp.concatenate([best[None], shortlist, batch], dtype=jnp.int32)
    joint_mean, covariance = posterior.joint(gp_posterior, features[rows])
    draws = joint_mean[None, :] + inflation * normal_draws(covariance, ratio, DRAWS, key)
    in_use = jnp.ones(len(rows), bool).at[1 : 1 + size].set(jnp.isfinite(top))
    return best, jnp.where(in_use[None, :], draws, -jnp.inf)
