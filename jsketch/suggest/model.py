"""What the values say before any sketch of the candidates: lengthscale, noise and scale by marginal
likelihood.

The likelihood is Titsias' bound on a sketch of the evaluations (`posterior.evidence`), maximised
over a grid of lengthscales and of noise ratios; the scale has a closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jsketch import checks, kernels
from jsketch.posterior import evidence
from jsketch.suggest.data import Data, checked, lengthened, padded, power_of_two
from jsketch.types import PRNGKey

FIT = 0  # folded into the key of a suggestion
INDUCING = 384  # points of the sketch on which a lengthscale is chosen
LENGTHSCALES = np.geomspace(0.1, 10, 17)  # times sqrt(d)
RATIOS = np.geomspace(1e-4, 10, 21)  # noise variance over signal variance
RATIOS_32 = RATIOS[RATIOS > 1.5e-3]  # those that float32 resolves (THEORY 9.1)
DEFAULT_RATIO = 0.01
FEW = 5


class Model(NamedTuple):
    """A Gaussian process for the values: centre + scale * f + noise, f with a Gaussian kernel of
    that lengthscale."""

    lengthscale: float  # in units of the scaled features
    ratio: float  # noise variance over signal variance, the regularization
    scale: float  # standard deviation of the signal, in units of the values
    centre: float  # mean of the values
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
    lengthscale: float | None = None,
    scaling: bool = True,
    key: PRNGKey | None = None,
) -> Model:
    """The model that explains the evaluations best.

    candidates   [A, d] numbers, as in `suggest`
    arms         [n] int, as in `suggest`
    values       [n] numbers, as in `suggest`
    lengthscale  of the Gaussian kernel in units of the scaled features; None: fitted
    scaling      as in `suggest`
    key          of the choice of inducing points; None: jax.random.key(0)

    Fewer than FEW values, or values that are all the same, teach nothing: the defaults are taken,
    and `fitted` is False. Raises ValueError for what `suggest` says it does.
    """
    key = None if key is None else checks.one_key(key=key)
    return of_data(checked(candidates, arms, values, (), scaling), lengthscale, key)


def of_data(data: Data, lengthscale: float | None, key: PRNGKey | None) -> Model:
    """`fit` of checked arrays."""
    if lengthscale is not None:
        check_lengthscale(data, lengthscale)
    features, values = data.features[data.arms[data.observed]], data.values[data.observed]
    unit = float(power_of_two(values))
    values = values / unit
    centre = float(values.mean()) if len(values) else 0.0
    default = float(np.sqrt(features.shape[1]))
    if not _learnable(values):
        spread = float(np.std(values)) if len(values) else 0.0
        return Model(
            lengthscale or default, DEFAULT_RATIO, unit * spread or 1.0, unit * centre, False
        )
    points = _inducing_points(features, jax.random.key(0) if key is None else key)
    grid = [lengthscale] if lengthscale else (LENGTHSCALES * default).tolist()
    found = _evidence_of(features, values - centre, points, grid)
    table = np.array([e.log_likelihood for e in found])
    best, at = np.unravel_index(np.nanargmax(table), table.shape)
    ratio, scale = float(_ratios()[at]), float(found[best].scale[at])
    return Model(float(grid[best]), ratio, unit * scale, unit * centre, True)


def check_lengthscale(data: Data, lengthscale: Any) -> None:
    """Raises ValueError for what is no lengthscale in the dtype that a suggestion computes in."""
    checks.positive(lengthscale=lengthscale)
    kernels.Gaussian(lengthscale).check(jnp.asarray(data.features[:1]))


def _ratios() -> np.ndarray:
    return RATIOS if jnp.result_type(float) == jnp.float64 else RATIOS_32


def _evidence_of(
    x: np.ndarray, y: np.ndarray, points: np.ndarray, lengthscales: list[float]
) -> list[evidence.MarginalLikelihood]:
    """For each lengthscale the evidence of labels y [n] at x [n,d] on inducing points [m,d], in
    padded sizes."""
    rows, slots = padded(len(y)), padded(len(points))
    arrays = (lengthened(x, rows), lengthened(y, rows), lengthened(points, slots), _ratios())
    masks = (np.arange(rows) < len(y), np.arange(slots) < len(points))
    arguments = [jnp.asarray(array) for array in (*arrays, *masks)]
    return [_evidence(length, *arguments) for length in lengthscales]


@jax.jit
def _evidence(
    lengthscale: Array,
    x: Array,
    y: Array,
    points: Array,
    ratios: Array,
    observed: Array,
    included: Array,
) -> evidence.MarginalLikelihood:
    kernel = kernels.Gaussian(lengthscale)
    return evidence.log_evidence(kernel, x, y, points, ratios, observed=observed, included=included)


def _learnable(values: np.ndarray) -> bool:
    """Whether values [n] can say anything of a lengthscale."""
    return len(values) >= FEW and np.ptp(values) > 0


def _inducing_points(features: np.ndarray, key: PRNGKey) -> np.ndarray:
    """At most INDUCING of the distinct rows of features [n,d], at random."""
    distinct = np.unique(features, axis=0)
    fit_key = jax.random.key_data(jax.random.fold_in(key, FIT))
    random = np.random.default_rng(np.asarray(fit_key).ravel().tolist())
    return distinct[random.permutation(len(distinct))[:INDUCING]]
