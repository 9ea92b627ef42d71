"""How well the model predicts an evaluation that it has not read: every value from all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.kernels.mixed import Columns
from jsketch.linalg import inverse_root_by_lapack, matmul
from jsketch.suggest.data import checked, filled, kernel_of, moments, power_of_two, slots
from jsketch.suggest.model import EXACT, Model, check_finite, sampled
from jsketch.types import PRNGKey


class LeftOut(NamedTuple):
    """k evaluations, each predicted from the others; in units of the values."""

    at: np.ndarray  # [k] int, which of the evaluations
    observed: np.ndarray  # [k]
    mean: np.ndarray  # [k]
    std: np.ndarray  # [k], of a value, its noise included
    weight: np.ndarray  # [k], of each value in `explained`: all the same but for errors

    @property
    def explained(self) -> float:
        """The share of the values' variance that is predicted: 1 at best, 0 for predicting their
        mean, below it for worse; NaN where all values are the same. Values with errors weigh less
        (`data.moments`)."""
        if len(self.observed) == 0 or np.ptp(self.observed) == 0:
            return np.nan
        share = self.weight / self.weight.sum()
        spread = np.sqrt(share) * (self.observed - share @ self.observed)
        wrong = np.sqrt(share) * (self.observed - self.mean)
        unit = power_of_two(spread)
        return float(1 - np.square(wrong / unit).sum() / np.square(spread / unit).sum())


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
    """Predictions of every value by the model given all other values; the model's numbers stay.

    In closed form from one factorization: y_i - [K^-1 y]_i / [K^-1]_ii, with the variance 1 /
    [K^-1]_ii (Rasmussen and Williams, 2006, eq. 5.12; Sundararajan, Keerthi, Neural Computation
    2001). Of more than EXACT evaluations a random EXACT are read, as though there were no others.
    Arguments and errors are those of `suggest`.
    """
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    data = checked(candidates, columns, arms, values, (), scaling, errors)
    at = np.flatnonzero(data.observed)
    observed = sampled(len(at), EXACT, key)
    at = at[observed]
    index, mask = slots(data.arms[at], 1)
    dtype = data.library.features.dtype
    values, variances = data.standardized(model.centre, model.scale, model.fitted)
    y = filled(values[observed], len(index))
    noise = model.ratio + filled(variances[observed], len(index))
    kernel = kernel_of(data.library, model.lengthscale)
    numbers = map(jnp.asarray, (index, mask, y.astype(dtype), noise.astype(dtype)))
    mean, variance = _left_out(kernel, data.library.features, *numbers)
    mean, variance = np.asarray(mean, float)[: len(at)], np.asarray(variance, float)[: len(at)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = model.centre + model.scale * mean, model.scale * np.sqrt(variance)
    check_finite(model, means=mean, standard_deviations=std)
    return LeftOut(
        at,
        data.values[at],
        mean,
        std,
        moments(data.values[at], data.errors[at], data.arms[at]).weight,
    )


@jax.jit
def _left_out(
    kernel: Any, features: Array, index: Array, mask: Array, y: Array, noise: Array
) -> tuple[Array, Array]:
    x = features[index]
    both = mask[:, None] & mask[None, :]
    gram = jnp.where(both, kernel.gram(x, x), 0) + jnp.diag(jnp.where(mask, noise, 1))
    half = inverse_root_by_lapack(gram)
    diagonal = jnp.square(half).sum(0)
    return y - matmul(half.T, matmul(half, y)) / diagonal, 1 / diagonal
