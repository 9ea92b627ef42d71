"""The results of `jsketch-suggest`: the batch, its possible gain, and the predictions of all
candidates."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

from jsketch import suggest
from jsketch.suggest import acquisitions, stopping
from jsketch.suggest.prediction import interval_half_width
from jsketch.suggest.tables.inputs import Inputs, goal_bounds
from jsketch.types import PRNGKey

# {the name of an acquisition in the options: the acquisition}
ACQUISITIONS: dict[str, Any] = {
    "ucb": acquisitions.UCB(),
    "ei": acquisitions.ExpectedImprovement(),
    "thompson": acquisitions.Thompson(),
    "top-two": acquisitions.TopTwo(),
    "best": acquisitions.ProbabilityOfBest(),
    "greedy": acquisitions.UCB(0.0),
}
MIN_VALUES = 3  # with --also, the smallest number of present values for predictions


class Results(NamedTuple):
    """The results of one call. `batch` and `gain` are in units of the goal, which is maximised;
    `model`, `predicted` and `left_out` are in units of the measured values."""

    options: argparse.Namespace
    inputs: Inputs
    batch: suggest.Suggestion
    gain: stopping.Gain | None  # None if there is neither a fitted model nor a finite bound
    model: suggest.Model
    predicted: suggest.Prediction | None  # of all candidates [A]; None without a fitted model
    key: PRNGKey
    left_out: suggest.LeftOut | None = None  # each measured value, predicted from the others

    @property
    def tolerance(self) -> float:
        """The largest gain at which the verdict is to stop."""
        if self.options.tolerance is not None:
            return float(self.options.tolerance)
        return stopping.tolerance(self.inputs.goals, goal_bounds(self.options))

    @property
    def stops(self) -> bool:
        """Whether the verdict is to stop."""
        return self.gain is not None and stopping.should_stop(self.gain, self.tolerance)

    @property
    def half_width(self) -> float:
        """Half the width of a 90% interval, in standard deviations."""
        assert self.left_out is not None
        return interval_half_width(self.left_out)

    def intervals(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(means, lower ends, upper ends) of the 90% intervals of values that would be measured at
        the candidates in `rows`, within --bounds."""
        assert self.predicted is not None
        mean = self.predicted.mean[rows]
        half_width = self.half_width * self.predicted.value_std[rows]
        low, high = self.within_bounds(mean - half_width), self.within_bounds(mean + half_width)
        return self.within_bounds(mean), low, high

    def within_bounds(self, values: np.ndarray) -> np.ndarray:
        """The values, clipped to --bounds."""
        return np.clip(values, *(self.options.bounds or (-np.inf, np.inf)))

    @property
    def observed(self) -> np.ndarray:
        """[n] bool, evaluations with a value."""
        return ~np.isnan(self.inputs.goals)

    @property
    def clipped(self) -> np.ndarray:
        """Indices of the evaluations whose goal the model of the batch raises to its limit."""
        return np.flatnonzero(self.inputs.goals < self.batch.model.limits[0])


def compute(options: argparse.Namespace, inputs: Inputs, key: PRNGKey) -> Results:
    """All results with these options."""
    batch = choose(options, inputs, key)
    joint_model, joined = batch.model, inputs.joined
    if joined is not None:
        # only the batch and the predictions use earlier campaigns
        batch = _without_earlier(batch, len(inputs.candidates.ids))
        values = inputs.measured[np.isfinite(inputs.measured)]
        if len(values) < MIN_VALUES or np.ptp(values) == 0:
            batch = batch._replace(model=batch.model._replace(fitted=False))
    shared: dict[str, Any] = dict(errors=inputs.errors, key=key)
    bounds = goal_bounds(options)
    goal_data = inputs.library, inputs.arms, inputs.goals
    gain = stopping.possible_gain(
        *goal_data, batch.model, exclude=inputs.excluded, batch=batch.rows, bounds=bounds, **shared
    )
    measured_data = inputs.library, inputs.arms, inputs.measured
    model = batch.model
    if options.minimize:
        lowest, largest = model.limits
        model = model._replace(centre=-model.centre, limits=(-largest, -lowest))
    elif options.target is not None:
        # The model of the goal predicts distances to the target. A second model predicts values; it
        # has no limits, because neither small nor large values are poor.
        model = suggest.fit(*measured_data, limits=(-np.inf, np.inf), **shared)
    if not model.fitted:
        return Results(options, inputs, batch, gain, model, predicted=None, key=key)
    if joined is None:
        predicted = suggest.predict(*measured_data, model, **shared)
    else:
        values = -joined.values if options.minimize else joined.values
        predicted = suggest.predict(
            joined.candidates,
            joined.arms,
            values,
            model._replace(lengthscale=joint_model.lengthscale),
            errors=joined.errors,
            key=key,
        )
        predicted = suggest.Prediction(*(part[: len(inputs.candidates.ids)] for part in predicted))
    left_out = suggest.leave_one_out(*measured_data, model, **shared)
    return Results(options, inputs, batch, gain, model, predicted, key, left_out)


def choose(
    options: argparse.Namespace, inputs: Inputs, key: Any, model: suggest.Model | None = None
) -> suggest.Suggestion:
    """The batch of `jsketch.suggest` with these options. If `model` is None, a model is fitted."""
    acquisition = ACQUISITIONS.get(options.acquisition)
    if options.top > 1:
        acquisition = acquisitions.ProbabilityOfBest(top=options.top)
    data, errors = (inputs.library, inputs.arms, inputs.goals), inputs.errors
    same, exclude = inputs.candidates.same, inputs.excluded
    joined = inputs.joined
    if joined is not None:
        data, errors = joined[:3], joined.errors
        exclude = np.append(exclude, joined.exclude)
        same = None if same is None else np.append(same, np.repeat(same[:1], len(joined.exclude)))
    return suggest.suggest(
        *data,
        errors=errors,
        pending=inputs.pending,
        exclude=exclude,
        same=same,
        costs=inputs.candidates.cost,
        budget=options.budget,
        failures=bool(np.isnan(inputs.goals).any()),
        batch=options.batch,
        replicates=options.replicates,
        acquisition=acquisition,
        model=model,
        scores=options.all_scores is not None,
        key=key,
    )


def _without_earlier(batch: suggest.Suggestion, count: int) -> suggest.Suggestion:
    """The suggestion, with the model and the scores of the `count` present candidates alone."""
    model = batch.model._replace(lengthscale=batch.model.lengthscale[:-1])
    scores = batch.scores
    if scores is not None:
        scores = suggest.Scores(*(part[:count] for part in scores))
    return batch._replace(model=model, scores=scores)
