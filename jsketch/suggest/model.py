"""What the values say: a Gaussian process with a lengthscale for every column, at its posterior
mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks
from jsketch.box.gp import regression
from jsketch.kernels.mixed import Columns, Mixed
from jsketch.posterior import evidence
from jsketch.suggest import hyperparameters
from jsketch.suggest.data import (
    FEW,
    Data,
    Library,
    checked,
    filled,
    kernel_of,
    moments,
    power_of_two,
    slots,
    standardized,
)
from jsketch.types import PRNGKey

FIT = 0  # folded into the key of a suggestion
# evaluations up to which the process is exact; of more, a sketch
EXACT = 1024
INDUCING = 512  # points of the sketch on which the noise of more evaluations is chosen
RATIOS = np.geomspace(1e-3, 10, 17)  # noise variance over signal variance, of those
FITTED = 512  # evaluations that lengthscales are fitted to where there are more than EXACT


class Model(NamedTuple):
    """A Gaussian process for the values: centre + scale * f + noise, f with a `Mixed` kernel."""

    # [L], one for each number (of its range), category and fingerprint
    lengthscale: np.ndarray
    ratio: float  # noise variance over signal variance, the regularization
    scale: float  # standard deviation of the signal, in units of the values
    centre: float  # mean of the signal
    fitted: bool  # False: the values were too few, or too alike, to learn from, and defaults stand

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the values."""
        return self.scale * self.ratio**0.5


def fit(
    candidates: Any,
    arms: Any,
    values: Any,
    *,
    columns: Sequence[Columns] | None = None,
    lengthscale: Any = None,
    errors: Any = None,
    scaling: bool = True,
    key: PRNGKey | None = None,
) -> Model:
    """The model that explains the evaluations best.

    candidates, columns, arms, values, errors, scaling   as in `suggest`
    lengthscale   a number for all, or [L]: taken as it is, the rest is fitted; None: fitted
    key           of the choice of evaluations where there are more than EXACT; None:
                  jax.random.key(0)

    Of more than EXACT evaluations FITTED are read, and all for the noise and the scale, unless
    there are errors. Fewer than FEW values, or values that are all the same, teach nothing: the
    defaults are taken, and `fitted` is False. Raises ValueError as `suggest` does.
    """
    key = None if key is None else checks.one_key(key=key)
    data = checked(candidates, columns, arms, values, (), scaling, errors)
    return of_data(data, lengthscale, key)


def of_data(data: Data, lengthscale: Any, key: PRNGKey | None) -> Model:
    """`fit` of checked arrays."""
    known, fixed = data.library, None
    if lengthscale is not None:
        fixed = _lengthscales(known, lengthscale)
    arms, values = data.arms[data.observed], data.values[data.observed]
    start = hyperparameters.default(known.lengthscales)
    length = np.asarray(start.lengthscale if fixed is None else fixed, float)
    kernel = kernel_of(known, length)
    if len(values) < FEW or np.ptp(values) == 0:
        centre = float(values[0]) if len(values) else 0.0
        return Model(length, float(start.noise / start.outputscale), 1.0, centre, False)
    key = jax.random.key(0) if key is None else key
    rows = sampled(len(values), EXACT if len(values) <= EXACT else FITTED, key)
    errors = data.errors[data.observed][rows]
    centre, spread, _ = moments(values[rows], errors, arms[rows])
    spread = spread or float(power_of_two(values))
    y, variances = standardized(values[rows], errors, centre, spread)
    index, mask = slots(arms[rows])
    y, variances = filled(y, len(mask)), filled(variances, len(mask))
    dtype = known.features.dtype
    standard = regression.Data(
        known.features[jnp.asarray(index)],
        jnp.asarray(y, dtype),
        jnp.asarray(mask),
        jnp.zeros((), dtype),
        jnp.ones((), dtype),
    )
    found = hyperparameters.fit(kernel, standard, fixed, variances)
    model = Model(
        np.asarray(found.lengthscale, float),
        float(found.noise / found.outputscale),
        spread * float(found.outputscale) ** 0.5,
        centre,
        True,
    )
    if len(values) <= EXACT or data.errors.any():
        return model
    return _with_all(known, model, arms, values, key)


def _with_all(
    known: Library, model: Model, arms: np.ndarray, values: np.ndarray, key: PRNGKey
) -> Model:
    """The model whose centre, noise and scale are those of all evaluations, by Titsias' bound on a
    sketch (`posterior.evidence`): its lengthscales are of some."""
    unit = float(power_of_two(values))
    centre = float(np.mean(values / unit))
    distinct = np.unique(arms)
    points, included = slots(distinct[sampled(len(distinct), INDUCING, key)])
    index, observed = slots(arms)
    y = filled(values / unit - centre, len(index))
    kernel = kernel_of(known, model.lengthscale)
    arrays = map(jnp.asarray, (index, y, points, RATIOS, observed, included))
    found = _evidence(kernel, known.features, *arrays)
    best = int(np.nanargmax(np.asarray(found.log_likelihood)))
    scale = unit * float(found.scale[best])
    return model._replace(ratio=float(RATIOS[best]), scale=scale, centre=unit * centre)


@jax.jit
def _evidence(
    kernel: Mixed,
    features: Array,
    index: Array,
    y: Array,
    points: Array,
    ratios: Array,
    observed: Array,
    included: Array,
) -> evidence.MarginalLikelihood:
    return evidence.log_evidence(
        kernel,
        features[index],
        y,
        features[points],
        ratios.astype(features.dtype),
        observed=observed,
        included=included,
    )


def check_finite(model: Model, **numbers: np.ndarray) -> None:
    """Raises ValueError for numbers of a posterior that are not finite, by their names."""
    wrong = [
        name.replace("_", " ") for name, each in numbers.items() if not np.isfinite(each).all()
    ]
    if wrong:
        raise ValueError(
            f"the posterior is not finite: {', '.join(wrong)} are NaN or infinite. The"
            f" model has a ratio of {model.ratio:g}, a scale of {model.scale:g} and a centre of"
            f" {model.centre:g}: beside evaluations that repeat a ratio must be larger, and the"
            " values must not be far beyond scale and centre."
        )


def _lengthscales(library: Library, lengthscale: Any) -> np.ndarray:
    """[L]. Raises ValueError for what is no lengthscale of these columns."""
    checks.all_positive(lengthscale=lengthscale)
    count = library.lengthscales
    if np.shape(lengthscale) not in ((), (count,)):
        raise ValueError(
            f"lengthscale must be one number, or one for each of the {count} numbers, categories"
            f" and fingerprints; its shape is {np.shape(lengthscale)}."
        )
    return np.broadcast_to(np.asarray(lengthscale, float), (count,))


def sampled(count: int, most: int, key: PRNGKey) -> np.ndarray:
    """At most so many of `count` rows at random, in order."""
    fit_key = jax.random.key_data(jax.random.fold_in(key, FIT))
    random = np.random.default_rng(np.asarray(fit_key).ravel().tolist())
    return np.sort(random.permutation(count)[:most])
