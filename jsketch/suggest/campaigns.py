"""Joins the present campaign and earlier ones with the same columns, for a multi-task model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jsketch import checks
from jsketch.suggest.data import Library, library, outlier_limit, weighted_moments
from jsketch.suggest.mixed import Columns
from jsketch.types import Arms

EARLIER_ERROR = 1.0  # standard error of an earlier value, in standard deviations of its campaign
LARGEST_EARLIER = 256  # largest number of earlier evaluations; many more would outweigh new ones


class Campaigns(NamedTuple):
    """The data of several campaigns. The fields are arguments of `suggest`, and all but `exclude`
    are arguments of `predict`. The present campaign has the first A candidates and the first n
    evaluations."""

    candidates: Library  # the A present candidates, then those of m earlier evaluations
    arms: np.ndarray  # [n + m]
    values: np.ndarray  # [n + m], in the unit of the present campaign
    errors: np.ndarray  # [n + m], standard errors of the values
    exclude: np.ndarray  # [m], the rows of the earlier candidates, which are not suggested


def join_campaigns(
    candidates: Any,
    arms: Any,
    values: Any,
    earlier: Sequence[tuple[Any, Any]],
    *,
    columns: Sequence[Columns] | None = None,
    errors: Any = None,
    scaling: bool = True,
) -> Campaigns:
    """The present campaign with the evaluations of earlier ones.

    candidates, arms, values, columns, errors, scaling   as in `suggest`; candidates are an array
    earlier   (features [m_i, d], values [m_i]) of each earlier campaign. Values are in any unit;
              larger ones are better, and NaN marks a failed evaluation, which is ignored

    The campaign of a candidate is one more category, with a lengthscale that is fitted (a
    multi-task kernel). The values of an earlier campaign are shifted and scaled to the mean and the
    standard deviation of the present values; poor outliers of either campaign are first raised to
    `data.outlier_limit`. Each earlier value gets a standard error of one standard deviation, so
    that earlier values guide the first batches and matter less the more present values there are.
    Of each of c earlier campaigns, a random sample of at most 256 // c values is used. Raises
    ValueError for inconsistent shapes and infinite values, and what `suggest` raises.

    Example:

        joined = join_campaigns(x, arms, values, [(old_x, old_values)])
        suggestion = suggest(**joined._asdict(), batch=8)
    """
    if np.ndim(candidates) != 2:
        raise ValueError("candidates must be a matrix [A, d], one candidate a row.")
    table, values = np.asarray(candidates, float), np.asarray(values, float)
    checks.arm_numbers(Arms(jnp.asarray(table)), arms=arms)
    errors = np.zeros(len(values)) if errors is None else np.asarray(errors, float)
    if not values.shape == np.shape(arms) == errors.shape:
        raise ValueError(
            "values and errors must hold one number for each of the arms; the shapes are"
            f" {values.shape}, {errors.shape} and {np.shape(arms)}."
        )
    centre, scale = _moments(_limit_outliers(values[~np.isnan(values)]))
    scale = scale if scale > 0 else 1.0
    sample_size = LARGEST_EARLIER // max(len(earlier), 1)
    tables, all_values, campaign = [table], [values], [np.zeros(len(table), int)]
    for index, (x, y) in enumerate(earlier, 1):
        x, y = np.asarray(x, float), np.asarray(y, float)
        if x.ndim != 2 or x.shape[1] != table.shape[1] or y.shape != x.shape[:1]:
            raise ValueError(
                f"an earlier campaign has features [m, {table.shape[1]}] and values [m]; shapes"
                f" {x.shape} and {y.shape} were given."
            )
        observed = np.flatnonzero(~np.isnan(y))
        observed = np.sort(np.random.default_rng(0).permutation(observed)[:sample_size])
        x, y = x[observed], y[observed]
        if not np.isfinite(y).all():
            raise ValueError("the values of an earlier campaign must be finite, or NaN.")
        y = _limit_outliers(y)
        mean, deviation = _moments(y)
        tables.append(x)
        all_values.append(centre + scale * ((y - mean) / deviation if deviation > 0 else 0 * y))
        campaign.append(np.full(len(x), index))
    if columns is None:
        columns = (Columns("numbers", table.shape[1]),)
    features = np.hstack([np.vstack(tables), np.eye(len(tables))[np.concatenate(campaign)]])
    joined = library(features, (*columns, Columns("category", len(tables))), scaling=scaling)
    earlier_rows = np.arange(len(table), len(features))
    return Campaigns(
        candidates=joined,
        arms=np.concatenate([np.asarray(arms).astype(int), earlier_rows]),
        values=np.concatenate(all_values),
        errors=np.concatenate([errors, np.full(len(earlier_rows), EARLIER_ERROR * scale)]),
        exclude=earlier_rows,
    )


def _limit_outliers(values: np.ndarray) -> np.ndarray:
    """The values [m], with poor outliers raised to the `outlier_limit` as in `fit`."""
    return np.maximum(values, outlier_limit(values)) if len(values) else values


def _moments(values: np.ndarray) -> tuple[float, float]:
    """(mean, standard deviation) of values [m]; the deviation is 0 if the values are equal up to
    rounding, and both are 0 if there are no values."""
    if not len(values):
        return 0.0, 0.0
    return weighted_moments(values, np.zeros(len(values)), np.arange(len(values)))[:2]
