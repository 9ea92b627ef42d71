"""What the values say: a Gaussian process with a lengthscale for every column, at its posterior
mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsketch import checks
from jsketch.box.gp import regression
from jsketch.kernels.mixed import Columns, Mixed
from jsketch.suggest import hyperparameters
from jsketch.suggest.data import Data, Library, checked, padded, power_of_two
from jsketch.types import PRNGKey

FIT = 0  # folded into the key of a suggestion
# evaluations up to which the process is exact; of more, a sketch
EXACT = 1024
FEW = 2  # values that say something of a spread


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
    scaling: bool = True,
    key: PRNGKey | None = None,
) -> Model:
    """The model that explains the evaluations best.

    candidates, columns, arms, values, scaling   as in `suggest`
    lengthscale   a number for all, or [L]: taken as it is, the rest is fitted; None: fitted
    key           of the choice of evaluations where there are more than EXACT; None:
                  jax.random.key(0)

    Fewer than FEW values, or values that are all the same, teach nothing: the defaults are taken,
    and `fitted` is False. Raises ValueError for what `suggest` says it does.
    """
    key = None if key is None else checks.one_key(key=key)
    return of_data(checked(candidates, columns, arms, values, (), scaling), lengthscale, key)


def of_data(data: Data, lengthscale: Any, key: PRNGKey | None) -> Model:
    """`fit` of checked arrays."""
    fixed = None if lengthscale is None else _lengthscales(data.library, lengthscale)
    arms, values = data.arms[data.observed], data.values[data.observed]
    unit = float(power_of_two(values))
    if len(values) < FEW or np.ptp(values) == 0:
        start = hyperparameters.default(data.library.lengthscales)
        centre = float(values[0]) if len(values) else 0.0
        length = start.lengthscale if fixed is None else fixed
        ratio = float(start.noise / start.outputscale)
        return Model(np.asarray(length, float), ratio, 1.0, centre, False)
    if len(values) > EXACT:
        rows = _some(len(values), jax.random.key(0) if key is None else key)
        arms, values = arms[rows], values[rows]
    size = padded(len(values))
    index, y, mask = np.zeros(size, int), np.zeros(size), np.arange(size) < len(values)
    index[: len(arms)], y[: len(arms)] = arms, values / unit
    data_ = regression.standardized(
        data.library.features[jnp.asarray(index)], jnp.asarray(y), jnp.asarray(mask)
    )
    found = hyperparameters.compiled(
        Mixed(hyperparameters.default(data.library.lengthscales).lengthscale, data.library.columns),
        data_,
        fixed,
    )
    scale = unit * float(data_.spread) * float(found.outputscale) ** 0.5
    ratio = float(found.noise / found.outputscale)
    centre = unit * float(data_.centre)
    return Model(np.asarray(found.lengthscale, float), ratio, scale, centre, True)


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


def _some(count: int, key: PRNGKey) -> np.ndarray:
    """EXACT of `count` evaluations at random, in order."""
    fit_key = jax.random.key_data(jax.random.fold_in(key, FIT))
    random = np.random.default_rng(np.asarray(fit_key).ravel().tolist())
    return np.sort(random.permutation(count)[:EXACT])
