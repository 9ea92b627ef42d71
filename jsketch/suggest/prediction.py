"""The posterior at all candidates of a library, and of averages over candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special

from jsketch import arguments, checks
from jsketch.show import shown
from jsketch.suggest import choice, posterior
from jsketch.suggest.batch import arrays_of
from jsketch.suggest.data import check_data, kernel_of
from jsketch.suggest.model import LeftOut, Model, check_finite
from jsketch.types import PRNGKey

FEWEST_DEGREES = 2  # of freedom, of an interval


class Prediction(NamedTuple):
    """Of A candidates, in units of the values."""

    mean: np.ndarray  # [A]
    std: np.ndarray  # [A], of the function, without the noise of a value
    value_std: np.ndarray  # [A], of a value that would be measured, with its noise

    def __repr__(self) -> str:
        return shown(self)


@arguments.checked
def predict(
    candidates: Any,
    arms: Any,
    values: Any,
    model: Model,
    *,
    errors: Any = None,
    key: PRNGKey | None = None,
) -> Prediction:
    """The predictions of a model (`fit`, or `Suggestion.model`) at all candidates. Arguments and
    errors are those of `suggest`."""
    kernel, arrays, ratio = _problem(candidates, arms, values, model, errors, key)
    mean, std = _in_units(model, *_predict(kernel, arrays, ratio))
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
    points, whose features `sets` [k, S, d] are scaled as those of a `Library`. Other arguments and
    errors are those of `suggest`."""
    kernel, arrays, ratio = _problem(candidates, arms, values, model, errors, key)
    points = jnp.asarray(sets, arrays.features.dtype)
    return _in_units(model, *_average(kernel, arrays, ratio, points))


def interval_reach(left_out: LeftOut, probability: float = 0.9) -> float:
    """The standard deviations `Prediction.value_std` on both sides of a mean that hold a value with
    this probability.

    Of n values, hyperparameters that are fitted to them state too small errors. The quantile is
    that of Student's distribution with n / 4 - 1 degrees of freedom, and is multiplied by the root
    mean square of the errors of `leave_one_out` over those that the model states, at least 1.
    """
    freedom = max(len(left_out.at) / 4 - 1, FEWEST_DEGREES)
    return float(special.stdtrit(freedom, (1 + probability) / 2) * max(left_out.error_ratio, 1.0))


def _problem(
    candidates: Any, arms: Any, values: Any, model: Model, errors: Any, key: PRNGKey | None
) -> tuple[Any, choice.Arrays, Array]:
    """(kernel, evaluations, noise variance in units of the signal)."""
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = check_data(candidates, None, arms, values, (), True, errors)
    kernel = kernel_of(data.library, model.lengthscale)
    taken = np.zeros(len(data.library.features), bool)
    arrays = arrays_of(kernel, data, model, taken, key)
    return kernel, arrays, jnp.asarray(model.ratio, arrays.features.dtype)


def _in_units(model: Model, mean: Array, variance: Array) -> tuple[np.ndarray, np.ndarray]:
    """(means, standard deviations) in units of the values."""
    centre = model.centre + model.scale * np.asarray(mean, float)
    std = model.scale * np.sqrt(np.asarray(variance, float))
    check_finite(model, means=centre, standard_deviations=std)
    return centre, std


@jax.jit
def _predict(kernel: Any, arrays: choice.Arrays, ratio: Array) -> tuple[Array, Array]:
    fitted, _ = choice.condition(kernel, arrays, ratio, False)
    return posterior.predict(fitted, arrays.features)


@jax.jit
def _average(kernel: Any, arrays: choice.Arrays, ratio: Array, sets: Array) -> tuple[Array, Array]:
    fitted, _ = choice.condition(kernel, arrays, ratio, False)
    return posterior.average(fitted, sets)
