"""The posterior at all candidates of a library, and of averages over candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special

from jsketch import checks, struct
from jsketch.show import short_repr
from jsketch.suggest import choice, posterior
from jsketch.suggest.batch import padded_data
from jsketch.suggest.data import check_data, kernel_of
from jsketch.suggest.model import LeftOut, Model, in_value_units
from jsketch.types import PRNGKey

MIN_DEGREES = 2  # smallest number of degrees of freedom of an interval


class Prediction(NamedTuple):
    """The posterior at A candidates, in units of the values."""

    mean: np.ndarray  # [A]
    std: np.ndarray  # [A], standard deviation of the function
    value_std: np.ndarray  # [A], standard deviation of a measured value, noise included

    def __repr__(self) -> str:
        return short_repr(self)


@struct.checked_names
def predict(
    candidates: Any,
    arms: Any,
    values: Any,
    model: Model,
    *,
    errors: Any = None,
    key: PRNGKey | None = None,
) -> Prediction:
    """The predictions of a model (`fit`, or `Suggestion.model`) at all candidates. The arguments
    are those of `suggest`; raises what `suggest` raises.

    Example:

        model = fit(features, arms=[3, 14, 15], values=[0.2, 0.7, 0.1])
        predict(features, [3, 14, 15], [0.2, 0.7, 0.1], model).mean  # [A]
    """
    kernel, arrays, ratio = _kernel_data_and_ratio(candidates, arms, values, model, errors, key)
    mean, std = in_value_units(model, *_predict(kernel, arrays, ratio))
    return Prediction(mean, std, np.hypot(std, model.noise_std))


def average_predictions(
    candidates: Any,
    arms: Any,
    values: Any,
    model: Model,
    sets: np.ndarray,
    *,
    errors: Any = None,
    key: PRNGKey | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(mean [k], standard deviation [k]) of the average of the function over each of k sets of S
    points. `sets` [k, S, d] are the features of these points, scaled as in a `Library`. The other
    arguments are those of `suggest`; raises what `suggest` raises."""
    kernel, arrays, ratio = _kernel_data_and_ratio(candidates, arms, values, model, errors, key)
    points = jnp.asarray(sets, arrays.features.dtype)
    return in_value_units(model, *_predict(kernel, arrays, ratio, points))


def interval_half_width(left_out: LeftOut, probability: float = 0.9) -> float:
    """Half the width of an interval that contains a value with this probability, in units of
    `Prediction.value_std`.

    `value_std` is too small, because the hyperparameters are fitted to the n values. The half-width
    is therefore a quantile of Student's t distribution with n / 4 - 1 (at least 2) degrees of
    freedom, multiplied by the `error_ratio` of `leave_one_out` if this ratio is above 1.
    """
    degrees = max(len(left_out.at) / 4 - 1, MIN_DEGREES)
    return float(special.stdtrit(degrees, (1 + probability) / 2) * max(left_out.error_ratio, 1.0))


def _kernel_data_and_ratio(
    candidates: Any, arms: Any, values: Any, model: Model, errors: Any, key: PRNGKey | None
) -> tuple[Any, choice.PaddedData, Array]:
    """(kernel, padded data, noise variance divided by the signal variance)."""
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = check_data(candidates, None, arms, values, pending=(), scaling=True, errors=errors)
    kernel = kernel_of(data.library, model.lengthscale)
    unavailable = np.zeros(len(data.library.features), bool)
    arrays = padded_data(kernel, data, model, unavailable, key)
    return kernel, arrays, jnp.asarray(model.ratio, arrays.features.dtype)


@jax.jit
def _predict(
    kernel: Any, arrays: choice.PaddedData, ratio: Array, sets: Array | None = None
) -> tuple[Array, Array]:
    """(mean, variance) at all candidates, or of the averages over `sets` [k,S,d]."""
    gp_posterior = choice.condition(kernel, arrays, ratio, with_pending=False)
    if sets is None:
        return posterior.predict(gp_posterior, arrays.features)
    return posterior.average_over_sets(gp_posterior, sets)
