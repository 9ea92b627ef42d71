"""Evaluations of earlier campaigns with the same columns, as further tasks of one model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jsketch.suggest.data import Library, library
from jsketch.suggest.mixed import Columns

EARLIER_ERROR = 1.0  # standard error of an earlier value, in standard deviations of its campaign


class Campaigns(NamedTuple):
    """The data of several campaigns, as arguments of `suggest` and `predict`. The first A
    candidates and the first n evaluations are those of the present campaign."""

    candidates: Library  # A candidates, and the m that earlier campaigns evaluated
    arms: np.ndarray  # [n + m]
    values: np.ndarray  # [n + m], in the unit of the present campaign
    errors: np.ndarray  # [n + m], standard errors of the values


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
    earlier   (features [m_i, d], values [m_i]) of each earlier campaign, in any unit, where larger
              values are better; NaN where an evaluation failed, which is ignored

    The campaign is one more category, with a lengthscale that is fitted (a multi-task kernel). The
    values of an earlier campaign get the mean and the standard deviation of the present one, and a
    standard error of one standard deviation: they lead the first batches, and the values of the
    present campaign replace them. Raises ValueError for shapes that do not agree, and as `library`.

        joined = join_campaigns(x, arms, values, [(old_x, old_values)])
        found = suggest(**joined._asdict(), batch=8)
    """
    table, values = np.asarray(candidates, float), np.asarray(values, float)
    observed = values[~np.isnan(values)]
    centre, scale = (observed.mean(), observed.std()) if len(observed) > 1 else (0.0, 0.0)
    scale = scale if scale > 0 else 1.0
    rows, numbers, campaign = [table], [values], [np.zeros(len(table), int)]
    for count, (x, y) in enumerate(earlier, 1):
        x, y = np.asarray(x, float), np.asarray(y, float)
        if x.ndim != 2 or x.shape[1] != table.shape[1] or y.shape != x.shape[:1]:
            raise ValueError(
                f"an earlier campaign has features [m, {table.shape[1]}] and values [m]; shapes"
                f" {x.shape} and {y.shape} were given."
            )
        x, y = x[~np.isnan(y)], y[~np.isnan(y)]
        deviation = y.std() if len(y) else 0.0
        rows.append(x)
        numbers.append(
            centre + scale * (y - y.mean()) / deviation if deviation > 0 else y * 0 + centre
        )
        campaign.append(np.full(len(x), count))
    if columns is None:
        columns = (Columns("numbers", table.shape[1]),)
    features = np.hstack([np.vstack(rows), np.eye(len(rows))[np.concatenate(campaign)]])
    joined = library(features, (*columns, Columns("category", len(rows))), scaling=scaling)
    extra = np.arange(len(table), len(features))
    own = np.zeros(len(values)) if errors is None else np.asarray(errors, float)
    return Campaigns(
        joined,
        np.concatenate([np.asarray(arms).astype(int), extra]),
        np.concatenate(numbers),
        np.concatenate([own, np.full(len(extra), EARLIER_ERROR * scale)]),
    )
