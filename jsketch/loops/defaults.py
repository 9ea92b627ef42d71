"""A forecaster for a stream of unknown scales, chosen from the first examples."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsketch import checks, struct
from jsketch.loops.streams import is_pair, pairs, stream
from jsketch.online import PKAWV, Standardized
from jsketch.online.standardized import ROUNDING
from jsketch.sketch.taylor import REACH, Bounded, Taylor, WithConstant, basis_size, bounded
from jsketch.warn import warn

FIRST_EXAMPLES = 1_000
MAX_DEGREE, MAX_FEATURES = 8, 300  # with 300 features a million examples take a minute
# the values that are tried: lengthscales of d standardized inputs, in units of sqrt(d), and
# regularizations. In float32 the regularization is 1: with less, the forecaster may diverge
LENGTHSCALES = np.geomspace(0.5, 8.0, 9)
REGULARIZATIONS = (1.0, 0.1, 0.01, 0.001, 0.0001)
LEAST_DIFFERENCE = 2  # standard deviation in units of eps, above which a float32 input varies
NEARLY = 1.04  # errors up to this multiple of the least error count as equal


@struct.checked_names
def default_forecaster(
    examples: Any, first: int = FIRST_EXAMPLES, *, progress: bool = True
) -> Standardized:
    """A `PKAWV` with Taylor features in standardized units (`online.Standardized`), for inputs and
    labels of any units.

    examples  a tuple (xs, ys), or an iterable of such pairs, as in `prequential`
    first     int, the number of labelled examples from which the choice is made
    progress  whether the choice is printed to stderr

    Labels are centred by the mean of the first examples. Inputs are standardized by the means and
    standard deviations of the first examples for the whole stream, and an input that does not vary
    in the first examples is ignored until 50 labelled examples with other values give it a scale.
    The features (`sketch.Bounded`) are Taylor features of all inputs, Taylor features of each
    input, and the inputs, bounded by 3, 8 and 100 deviations: values above half of a bound are
    compressed. So bounded, an irrelevant input does little harm; a relevant one loses its
    interactions beyond 3 deviations, its nonlinear effect beyond 8, and its linear effect beyond
    100. `prequential` and `Live` warn once of each input that is beyond 3 deviations in 25 of 100
    consecutive examples: if it matters, make a new forecaster from examples of the new range.

    The degree is the largest one from 2 to 8 with at most 300 features, or 1 if there is none; the
    degree of each input is 8, or less where there would be more than 300 features in all.
    Lengthscale and regularization are chosen from a grid by the squared error in the second half of
    the first examples, with the features of all inputs only: of the pairs within 4% of the least
    error, the shortest lengthscale, and then the smallest regularization. The choice depends on the
    labels of the first examples, and therefore their own errors are not those of new examples.
    Warns of inputs that are ignored because they vary by too little, relative to their offset, for
    the dtype, such as time stamps in float32.
    Raises ValueError for fewer than 20 labelled examples, and FloatingPointError for an infinite
    label.

    Example:

        from jsketch import chunks, default_forecaster

        forecaster = default_forecaster(chunks("events.parquet", target="y"))
    """
    checks.positive_integer(first=first)
    checks.boolean(progress=progress)
    xs, ys, given = _first_labelled(examples, first)
    n_examples, dimension = xs.shape
    if n_examples < 20:
        raise ValueError(f"at least 20 labelled examples are needed; there are {n_examples}.")
    shifts, scales = _moments(np.asarray(xs, float), float(jnp.finfo(xs.dtype).eps))
    _warn_of_offsets(given, scales, xs.dtype)
    degrees = (m for m in range(2, MAX_DEGREE + 1) if basis_size(dimension, m) <= MAX_FEATURES)
    degree = max(degrees, default=1)
    # with the linear features at most MAX_FEATURES as well, if this leaves any
    room = (MAX_FEATURES - basis_size(dimension, degree)) // dimension - 1
    one_input_degree = min(max(room, 0), MAX_DEGREE)
    labels = np.asarray(ys, float)
    label_shift = float(labels.mean())
    # a power of two, so that labels in another unit have the same errors in units of `label_unit`
    label_unit = 2.0 ** np.floor(np.log2(labels.std())) if labels.std() > 0 else 1.0

    def pkawv(features: Any, regularization: Any) -> PKAWV:
        # AWV, penalize_current=True, would shrink predictions towards the mean of the labels
        return PKAWV(WithConstant(features), regularization, penalize_current=False)

    # with all features, few examples would favour a lengthscale that fits later examples less well
    deviations = np.where(scales > 0, np.asarray(xs, float) - shifts, 0)
    z = bounded(jnp.asarray(deviations / np.where(scales > 0, scales, 1), xs.dtype), REACH)
    scaled = jnp.asarray((labels - label_shift) / label_unit, xs.dtype)

    def losses(pair: Any) -> Any:
        candidate, key = pkawv(Taylor(dimension, degree, pair[0]), pair[1]), jax.random.key(0)
        return stream(candidate, candidate.init(z[0], key), z, scaled, key).forecasts.loss

    # only the first one, 1, in float32
    regularizations = REGULARIZATIONS[:1] if xs.dtype == jnp.float32 else REGULARIZATIONS
    grid = [(dimension**0.5 * unit, lam) for lam in regularizations for unit in LENGTHSCALES]
    all_losses = np.asarray(jax.jit(jax.vmap(losses))(jnp.asarray(grid, xs.dtype)), float)
    half = n_examples // 2
    errors = np.nan_to_num(all_losses[:, half:].mean(1), nan=np.inf)
    # of nearly equal errors the most flexible pair, because it gains most from later examples
    nearly_least = [i for i in range(len(grid)) if errors[i] <= NEARLY * errors.min()]
    best = min(nearly_least, key=lambda i: grid[i])
    lengthscale, regularization = map(float, grid[best])
    if progress:
        print(
            f"default_forecaster: Taylor features of degree {degree} and lengthscale"
            f" {lengthscale:.3g} of {dimension} standardized inputs, regularization"
            f" {regularization:g}; mean squared error"
            f" {errors[best] * label_unit**2:.4g} in examples {half + 1} to {n_examples}, where the"
            f" labels have the variance {np.var(labels[half:]):.4g}",
            file=sys.stderr,
        )
    features = Bounded(Taylor(dimension, degree, lengthscale), one_input_degree)
    return Standardized(pkawv(features, regularization), shifts, scales, label_shift)


def _moments(
    values: np.ndarray, eps: float, multiple: float = ROUNDING
) -> tuple[np.ndarray, np.ndarray]:
    """(mean [d], standard deviation [d]) of values [n,d]. For an input that does not vary, up to a
    multiple of the rounding, they are its first value and 0."""
    largest = np.abs(values).max(0)
    unit = np.where(largest > 0, largest, 1.0)
    relative = values / unit  # squares of the values might overflow
    mean, deviation = relative.mean(0) * unit, relative.std(0)
    varies = deviation > multiple * eps
    return np.where(varies, mean, values[0]), np.where(varies, deviation * unit, 0.0)


def _warn_of_offsets(given: np.ndarray, scales: np.ndarray, dtype: DTypeLike) -> None:
    """Warns of inputs that vary in the examples as they were given, [n,d], but have the scale 0 in
    the dtype of the computation."""
    if dtype == jnp.float64:
        return
    is_floating = jnp.issubdtype(given.dtype, jnp.floating)
    eps = float(jnp.finfo(given.dtype if is_floating else np.float64).eps)
    # in the dtype of the computation itself, a constant may differ by rounding
    multiple = ROUNDING if eps < jnp.finfo(dtype).eps else LEAST_DIFFERENCE
    varies = _moments(given.astype(float), eps, multiple)[1] > 0
    lost = np.flatnonzero(varies & (scales == 0))
    if lost.size:
        name = np.dtype(dtype).name
        warn(
            f"inputs {lost.tolist()} vary in the first examples by too little, relative to their"
            f" offset, for {name} numbers, and are therefore ignored: subtract an offset from them"
            ' before they are converted, or set jax.config.update("jax_enable_x64", True) before'
            " anything else and give float64 numbers."
        )


def _first_labelled(examples: Any, limit: int) -> tuple[Any, Any, np.ndarray]:
    """(xs, ys, xs as they were given) of the first examples with a label, at most `limit`, as
    arrays."""
    all_xs, all_ys, all_given, n_labelled = [], [], [], 0
    for xs, ys in [examples] if is_pair(examples) else pairs(examples):
        # the arrays may be long; more than the limit is read, because labels may be missing
        xs, ys = (a[: 10 * limit] if isinstance(a, list) or np.ndim(a) else a for a in (xs, ys))
        given = np.asarray(xs)
        xs, ys = checks.stream(xs, ys)
        labelled = ~np.isnan(np.asarray(ys))
        all_xs.append(np.asarray(xs)[labelled])
        all_ys.append(np.asarray(ys)[labelled])
        all_given.append(given[labelled])
        n_labelled += int(labelled.sum())
        if n_labelled >= limit:
            break
    first_labels = np.concatenate(all_ys)[:limit]
    if np.isinf(first_labels).any():
        raise FloatingPointError("a label is infinite: use NaN for a missing label.")
    first_xs, first_given = (np.concatenate(arrays)[:limit] for arrays in (all_xs, all_given))
    return jnp.asarray(first_xs), jnp.asarray(first_labels), first_given
