"""Whether further evaluations are worth it: joint draws of the posterior say how much better than
the best evaluated candidate an unevaluated one may be.

`should_stop` is true where the 95% quantile of that gain is at most a tolerance. Its calibration is
measured by simulation: `python -m experiments.suggest.calibration`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks
from jsketch.linalg import matmul
from jsketch.suggest import choice, posterior
from jsketch.suggest.batch import arrays_of
from jsketch.suggest.data import check_data, kernel_of, zero_padded
from jsketch.suggest.model import Model, leave_one_out
from jsketch.types import PRNGKey

SHORTLIST = 1023  # unevaluated candidates of the largest upper bounds, whose values are drawn
OPTIMISM = 3.0  # standard deviations in those bounds
DRAWS = 2048
PROBABILITY = 0.95
TOLERANCE = 0.01  # of the range of the values
MIN_VALUES = 10  # with fewer values the fitted noise and lengthscales are guesses
GAIN_KEY = 4  # folded into the key of a suggestion


class Gain(NamedTuple):
    """Draws of what an evaluation without noise may gain, in units of the values."""

    best: int  # row of the evaluated candidate of the largest posterior mean
    mean: float  # its posterior mean
    of_any: np.ndarray  # [D], the best unevaluated candidate less `best`, at least 0
    of_batch: np.ndarray  # [D], the same for the best candidate of a batch; empty without one
    observed: int  # evaluations with a value


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
    """Draws of the gain; None where the model is not fitted.

    Arguments are those of `suggest`; `batch` [B] are rows of suggested candidates and `bounds` the
    smallest and the largest value that is possible. Where the model predicts its values, each from
    all others, with larger errors than it states, all standard deviations are enlarged to agree.
    """
    key = jax.random.key(0) if key is None else checks.one_key(key=key)
    if not model.fitted:
        return None
    data = check_data(candidates, None, arms, values, (), True, errors)
    features = data.library.features
    free = np.ones(len(features), bool)
    free[data.arms], free[np.asarray(exclude, int)] = False, False
    kernel = kernel_of(data.library, model.lengthscale)
    arrays = arrays_of(kernel, data, model, ~free, free, key)
    left_out = leave_one_out(data.library, data.arms, data.values, model, errors=errors, key=key)
    error = (left_out.observed - left_out.mean) / left_out.std
    inflation = max(1.0, float(np.sqrt(np.mean(np.square(error)))))
    rows = np.asarray(batch, int)
    size = min(SHORTLIST, len(features) - 1)
    best, mean, draws = _draws(
        kernel,
        arrays,
        jnp.asarray(model.ratio, features.dtype),
        jnp.asarray(zero_padded(rows, max(8, 1 << max(len(rows) - 1, 0).bit_length()))),
        inflation,
        jax.random.fold_in(key, GAIN_KEY),
        size,
    )
    f = model.centre + model.scale * np.asarray(draws, float)
    if bounds is not None:
        f = np.clip(f, *bounds)
    # slots of the shortlist beyond the unevaluated candidates hold -inf
    any_other = f[:, 1 : 1 + size].max(1) if free.any() else f[:, 0]
    chosen = f[:, 1 + size : 1 + size + len(rows)]
    if len(rows):  # the jitter of the draws is independent for rows that are drawn twice
        any_other = np.maximum(any_other, chosen.max(1))
    return Gain(
        int(best),
        float(model.centre + model.scale * float(mean)),
        np.maximum(any_other - f[:, 0], 0),
        np.maximum(chosen.max(1) - f[:, 0], 0) if len(rows) else np.zeros(0),
        int(data.observed.sum()),
    )


def tolerance(values: np.ndarray, bounds: tuple[float, float] | None = None) -> float:
    """TOLERANCE of the range of the values, or of what is possible where that is bounded."""
    if bounds is not None and np.isfinite(bounds).all():
        return TOLERANCE * (bounds[1] - bounds[0])
    return TOLERANCE * float(np.nanmax(values) - np.nanmin(values))


def should_stop(gain: Gain | None, at_most: float) -> bool:
    """Whether no unevaluated candidate is better by more than `at_most`, with PROBABILITY."""
    if gain is None or gain.observed < MIN_VALUES:
        return False
    return float(np.quantile(gain.of_any, PROBABILITY)) <= at_most


@partial(jax.jit, static_argnames="size")
def _draws(
    kernel: Any,
    arrays: choice.Arrays,
    ratio: Array,
    batch: Array,
    inflation: Array,
    key: PRNGKey,
    size: int,
) -> tuple[Array, Array, Array]:
    """(best evaluated row, its mean, draws [DRAWS, 1 + size + B] of it, of a shortlist of
    unevaluated candidates, and of the batch), in units of the signal."""
    features = arrays.features
    fitted, _ = choice.condition(kernel, arrays, ratio, False)
    mean, variance = posterior.predict(fitted, features)
    place = jnp.argmax(jnp.where(arrays.observed, mean[arrays.arms], -jnp.inf))
    best = arrays.arms[place]
    score = jnp.where(arrays.certified, mean + OPTIMISM * inflation * jnp.sqrt(variance), -jnp.inf)
    top, short = lax.top_k(score, size)
    rows = jnp.concatenate([best[None], short, batch], dtype=jnp.int32)
    centre, covariance = posterior.joint(fitted, features[rows])
    jitter = 1e-3 * ratio + 100 * jnp.finfo(mean.dtype).eps
    root = jnp.linalg.cholesky(covariance + jitter * jnp.eye(len(rows), dtype=mean.dtype))
    normal = jax.random.normal(key, (DRAWS, len(rows)), mean.dtype)
    draws = centre[None, :] + inflation * matmul(normal, root.T)
    real = jnp.concatenate([jnp.ones(1, bool), jnp.isfinite(top), jnp.ones(len(batch), bool)])
    return best, mean[best], jnp.where(real[None, :], draws, -jnp.inf)
