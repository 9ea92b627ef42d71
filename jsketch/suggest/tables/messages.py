"""The messages of `jsketch-suggest` about tables and model, and the reason for each
candidate."""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

from jsketch.kernels.discrete import Tanimoto
from jsketch.kernels.mixed import Mixed
from jsketch.suggest import Library, Model, Suggestion, stopping
from jsketch.suggest.tables.inputs import Inputs, goal_bounds
from jsketch.types import PRNGKey

IMPORTANT_COLUMNS = 4  # columns with the shortest lengthscales that are named
KNOWS_NOTHING = 0.2  # of the explained share of the variance
REACH_90 = 1.645  # standard deviations on both sides of a mean that hold 90%
LONGEST_NUMBER = 6  # characters of a number that are shown
SIMILAR = 0.5  # correlation with an evaluation from which a candidate is similar to it


def sign(options: argparse.Namespace) -> int:
    """The factor between the values of `Inputs` and those of the user."""
    return -1 if options.minimize or options.target is not None else 1


def predictions(
    options: argparse.Namespace, batch: Suggestion
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(means [B], lower ends [B], upper ends [B]) of 90% intervals of measured values, noise
    included, in the user's values."""
    mean = sign(options) * batch.mean
    reach = REACH_90 * np.hypot(batch.std, batch.model.noise_std)
    low, high = mean - reach, mean + reach
    known = goal_bounds(options)
    if known is None:
        return mean, low, high
    ends = np.sort(sign(options) * np.array(known))
    return np.clip(mean, *ends), np.clip(low, *ends), np.clip(high, *ends)


def describe_inputs(options: argparse.Namespace, inputs: Inputs) -> list[str]:
    """Lines on the tables that were read."""
    kinds = [group.kind for group in inputs.candidates.columns]
    plural = dict(numbers="numbers", category="categories", bits="fingerprints")
    counts = [f"{kinds.count(kind)} {plural[kind]}" for kind in plural if kind in kinds]
    if "numbers" in kinds:
        counts.append("numbers scaled to 0 to 1")
    failed = int(np.isnan(inputs.values).sum())
    line = (
        f"{len(inputs.candidates.ids)} candidates, {', '.join(counts)};"
        f" {len(inputs.values)} evaluations"
        + (" with standard errors" if inputs.errors is not None else "")
        + (f", {failed} of them failed" if failed else "")
    )
    return [line, *inputs.candidates.notes]


def describe_batch(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[str]:
    """Lines on the model and the constraints; with --explain the reasons too."""
    count = int((~np.isnan(inputs.values)).sum())
    candidates, lines = inputs.candidates, [_describe_model(options, inputs, batch.model, count)]
    if batch.dictionary_size < count:
        lines.append(
            f"{count} evaluations are approximated by {batch.dictionary_size} inducing points"
        )
    if candidates.same is not None and len(batch.rows):
        lines.append(f"all of the batch has {options.same} = {candidates.same[batch.rows[0]]}")
    if candidates.cost is not None:
        line = f"the batch costs {candidates.cost[batch.rows].sum():g}"
        if options.budget is not None:
            spent = candidates.cost[inputs.arms].sum() + candidates.cost[inputs.pending].sum()
            line += f"; {options.budget - spent:g} of the budget of {options.budget:g} was left"
        if len(batch.rows) < options.batch:
            line += f", which ends the batch after {len(batch.rows)} of {options.batch} candidates"
        lines.append(line)
    return lines + (reasons(options, inputs, batch) if options.explain else [])


def _describe_model(options: argparse.Namespace, inputs: Inputs, model: Model, count: int) -> str:
    """A line on noise, signal and lengthscales of a model of `count` values."""
    if not model.fitted:
        return f"{count} values are too few, or too similar, to fit a model: defaults are used"
    names = np.array(inputs.candidates.names)
    order = np.argsort(model.lengthscale, kind="stable")[:IMPORTANT_COLUMNS]
    shown = ", ".join(f"{names[i]} ({model.lengthscale[i]:.2g})" for i in order)
    return (
        f"noise {model.noise_std:.3g} and signal {model.scale:.3g} in units of the values;"
        f" lengthscales (the shorter, the more a"
        f" column matters): {shown}" + (", ..." if len(names) > IMPORTANT_COLUMNS else "")
    )


def found_gain(
    options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: PRNGKey
) -> stopping.Gain | None:
    """What the batch and all unmeasured candidates may gain; None before a model is fitted."""
    return stopping.possible_gain(
        inputs.library,
        inputs.arms,
        inputs.values,
        batch.model,
        errors=inputs.errors,
        exclude=inputs.excluded,
        batch=batch.rows,
        bounds=goal_bounds(options),
        key=key,
    )


def verdict(options: argparse.Namespace, inputs: Inputs, gain: stopping.Gain | None) -> str:
    """The first sentence of the page and of the terminal: Continue or Stop."""
    if gain is None:
        count = int((~np.isnan(inputs.values)).sum())
        few = "nothing was measured yet" if count == 0 else f"{count} values are too few to predict"
        return f"Continue: {few}; this batch is spread over the conditions."
    measured = inputs.arms == gain.best
    best = float(np.nanmean(inputs.values[measured]))
    at = f"{inputs.candidates.ids[gain.best]}{_conditions(inputs, gain.best)}"
    shown = f"{sign(options) * best:.4g}"
    if options.target is not None:
        shown = f"{-best:.3g} from the target"
    at_most = options.tolerance
    if at_most is None:
        at_most = stopping.tolerance(inputs.values, goal_bounds(options))
    top = float(np.quantile(gain.of_any, stopping.PROBABILITY))
    if stopping.should_stop(gain, at_most):
        return (
            f"Stop: {at} with {shown} is the best candidate, or the best one is at most"
            f" {top:.2g} better, with 95% probability by the model."
        )
    low, high = np.quantile(gain.of_batch, (0.05, 0.95))
    return (
        f"Continue: the best is {shown} ({at}); this batch is expected to gain"
        f" {np.mean(gain.of_batch):.2g} ({low:.2g} to {high:.2g})."
    )


def _conditions(inputs: Inputs, row: int) -> str:
    """The words and numbers of a candidate, as in the sheet."""
    if inputs.sheet is None:
        return ""
    words = conditions(inputs, np.array([row]))[1][0]
    return f": {', '.join(words)}"


def conditions(inputs: Inputs, rows: np.ndarray) -> tuple[list[str], list[list[str]]]:
    """(names of the columns of conditions, their cells [len(rows)]), as in the sheet."""
    assert inputs.sheet is not None
    table = inputs.sheet.table
    first = np.unique(inputs.sheet.candidate_of, return_index=True)[1][rows]
    features = {name.partition("[")[0] for name in inputs.candidates.names}
    names = [n for n in table.names if n in features or n in inputs.candidates.names]
    cells = [[_short(word) for word in table.text(name).iloc[first]] for name in names]
    return names, [list(row) for row in zip(*cells, strict=True)]


def _short(word: str) -> str:
    """Four digits of a number; other words as they are."""
    try:
        number = float(word)
    except ValueError:
        return word
    return f"{number:.4g}" if len(word) > LONGEST_NUMBER else word


def explained_sentence(explained: float) -> str:
    """What the model knows, of the share of the variance that it predicts."""
    if not explained >= KNOWS_NOTHING:
        return "The model knows nothing yet, and the batch is chosen to learn."
    return (
        f"The model explains {100 * explained:.0f}% of the variance of the values, each predicted"
        " from the others."
    )


def reasons(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[str]:
    """[B] sentences: what each candidate may reach, whether it explores, and what it tests."""
    observed = np.flatnonzero(~np.isnan(inputs.values))
    ids, model, flip = inputs.candidates.ids, batch.model, sign(options)
    if observed.size == 0 or not model.fitted:
        return [f"{ids[row]}: it differs most from all others" for row in batch.rows]
    arms, values = inputs.arms[observed], inputs.values[observed]
    evaluated, chosen = inputs.library.features[arms], inputs.library.features[batch.rows]
    kernel = Mixed(np.asarray(model.lengthscale), inputs.library.columns)
    correlation = np.asarray(kernel.gram(chosen, evaluated))
    best, lines = values.max(), []
    _, low, high = predictions(options, batch)
    for i, row in enumerate(batch.rows):
        exploits = batch.mean[i] >= best - model.noise_std
        aim = "exploits: it is expected to be as good as the best" if exploits else "explores"
        line = f"{ids[row]}: it could reach {low[i]:.3g} to {high[i]:.3g} (90%); {aim}"
        near = int(correlation[i].argmax())
        if correlation[i, near] < SIMILAR:
            line += "; nothing similar was measured"
        else:
            apart = distances(inputs.library, np.asarray(chosen[i]), np.asarray(evaluated[near]))
            apart = apart / np.square(model.lengthscale)
            neighbour = f"{ids[arms[near]]} ({flip * values[near]:.3g})"
            if apart.max() > 0:
                line += f"; it tests {_change(inputs, row, arms[near], apart)} against {neighbour}"
            else:
                line += f"; it has the conditions of {neighbour}"
        if batch.chance is not None:
            line += f"; it succeeds with a chance of {100 * batch.chance[i]:.0f}%"
        lines.append(line)
    return lines


def _change(inputs: Inputs, row: int, other: int, apart: np.ndarray) -> str:
    """The factor in which two candidates differ most, with its level."""
    name = inputs.candidates.names[int(apart.argmax())]
    if inputs.sheet is None or name not in inputs.sheet.table.names:
        return name
    names, cells = conditions(inputs, np.array([row, other]))
    at = names.index(name)
    return f"{name} {cells[0][at]} instead of {cells[1][at]}"


def distances(library: Library, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[L] squared distances between two candidates by column, as in `Mixed`."""
    squared: list[float] = []
    start = 0
    for kind, width in library.columns:
        a, b = x[start : start + width], y[start : start + width]
        if kind == "numbers":
            squared += np.square(a - b).tolist()
        elif kind == "category":
            squared.append(float((a != b).any()))
        else:
            similarity = Tanimoto().gram(jnp.asarray(a)[None], jnp.asarray(b)[None])
            squared.append(1 - float(similarity[0, 0]))
        start += width
    return np.array(squared)
