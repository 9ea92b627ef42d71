"""The posterior at all candidates of a library."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.show import shown
from jsketch.suggest import choice, posterior
from jsketch.suggest.batch import arrays_of
from jsketch.suggest.data import check_data, kernel_of
from jsketch.suggest.model import Model, check_finite
from jsketch.types import PRNGKey


class Prediction(NamedTuple):
    """Of A candidates, in units of the values."""

    mean: np.ndarray  # [A]
    std: np.ndarray  # [A], of the function, without the noise of a value
    value_std: np.ndarray  # [A], of a value that would be measured, with its noise

    __repr__ = shown


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
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = check_data(candidates, None, arms, values, (), True, errors)
    kernel, free = (
        kernel_of(data.library, model.lengthscale),
        np.ones(len(data.library.features), bool),
    )
    arrays = arrays_of(kernel, data, model, ~free, free, key)
    mean, variance = _predict(kernel, arrays, jnp.asarray(model.ratio, arrays.features.dtype))
    mean = model.centre + model.scale * np.asarray(mean, float)
    std = model.scale * np.sqrt(np.asarray(variance, float))
    check_finite(model, means=mean, standard_deviations=std)
    return Prediction(mean, std, np.hypot(std, model.noise_std))


@jax.jit
def _predict(kernel: Any, arrays: choice.Arrays, ratio: Array) -> tuple[Array, Array]:
    fitted, _ = choice.condition(kernel, arrays, ratio, False)
    return posterior.predict(fitted, arrays.features)
