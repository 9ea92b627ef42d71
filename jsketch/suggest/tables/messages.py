"""The messages of `jsketch-suggest`: the verdict, the tables, the model, and the reason for each
candidate."""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jsketch.suggest import Library, stopping
from jsketch.suggest.discrete import Tanimoto
from jsketch.suggest.mixed import Mixed, groups_of
from jsketch.suggest.tables.candidates import ROW_IDS
from jsketch.suggest.tables.inputs import Inputs
from jsketch.suggest.tables.results import Results

IMPORTANT_COLUMNS = 2  # number of columns, with the shortest lengthscales, that a message names
MIN_EXPLAINED = 0.2  # smallest explained share of the variance that is reported
LONGEST_NUMBER = 6  # characters; longer numbers are rounded
MIN_CORRELATION = 0.5  # smallest prior correlation of a candidate and a similar evaluation
CERTAIN_SUCCESS = 0.995  # a larger chance of success is not mentioned
# The neighbour of a candidate is the best of the evaluations whose prior correlation with the
# candidate is at most this much below the largest one.
CORRELATION_MARGIN = 0.02
MAX_CLIPPED = 5  # largest number of clipped values in a message
MAX_DIFFERENCES = 2  # largest number of different conditions that a reason states


def describe_inputs(options: argparse.Namespace, inputs: Inputs) -> list[str]:
    """Lines on the tables that were read."""
    kinds = [group.kind for group in inputs.candidates.columns]
    singular = dict(numbers="number", category="category", bits="fingerprint")
    plural = dict(numbers="numbers", category="categories", bits="fingerprints")
    count_of = {kind: kinds.count(kind) for kind in plural if kind in kinds}
    counts = [f"{n} {(singular if n == 1 else plural)[kind]}" for kind, n in count_of.items()]
    failed, pending = int(np.isnan(inputs.goals).sum()), len(inputs.pending)
    line = (
        f"{options.candidates}: {len(inputs.candidates.ids)} candidates, each with"
        f" {', '.join(counts)}; {len(inputs.goals)} evaluations"
    )
    line += " with standard errors" if inputs.errors is not None else ""
    line += f", {failed} of them failed" if failed else ""
    line += f"; {pending} pending" if pending else ""
    return [line, *inputs.candidates.notes]


def describe_batch(results: Results) -> list[str]:
    """Lines on the fitted model, and on the label and the cost of the batch."""
    options, inputs, batch = results.options, results.inputs, results.batch
    count = int(results.observed.sum())
    candidates, lines = inputs.candidates, []
    if results.model.fitted:
        lines.append(_describe_model(results))
    if batch.dictionary_size < count:
        lines.append(
            f"the model is an approximation: {batch.dictionary_size} inducing points represent the"
            f" {count} evaluations"
        )
    lines += _describe_clipping(results)
    if candidates.same is not None and len(batch.rows):
        lines.append(f"the whole batch has {options.same} = {candidates.same[batch.rows[0]]}")
    if candidates.cost is not None:
        line = f"the batch costs {candidates.cost[batch.rows].sum():g}"
        if options.budget is not None:
            spent = candidates.cost[inputs.arms].sum() + candidates.cost[inputs.pending].sum()
            line += f"; {options.budget - spent:g} of the budget of {options.budget:g} was left"
        if len(batch.rows) < options.batch:
            line += f", enough for {len(batch.rows)} of {options.batch} candidates"
        lines.append(line)
    return lines


def _describe_model(results: Results) -> str:
    """A sentence on noise, signal and lengthscales."""
    model, names = results.model, np.array(results.inputs.candidates.names)
    order = np.argsort(model.lengthscale, kind="stable")[:IMPORTANT_COLUMNS]
    columns = f"; the values depend most on {', '.join(names[order])}" if len(names) > 1 else ""
    return (
        f"by the model, repeats of a measurement differ by {model.noise_std:.3g} and candidates by"
        f" {model.scale:.3g} (standard deviations){columns}"
    )


def _describe_clipping(results: Results) -> list[str]:
    """A sentence in a list on the values that the model clips; [] without such values."""
    inputs, options, clipped = results.inputs, results.options, results.clipped
    if not (clipped.size and results.batch.model.fitted):
        return []
    names = [
        f"{inputs.measured[i]:g} ({candidate_name(inputs, inputs.arms[i])})"
        for i in clipped[:MAX_CLIPPED]
    ]
    more = f" and {clipped.size - MAX_CLIPPED} more" if clipped.size > MAX_CLIPPED else ""
    limit = results.batch.model.limits[0]
    if options.target is not None:
        use = f"the choice of the batch uses {-limit:.4g} as the distance from the target of values"
        use += " that are farther away"
    elif options.minimize:
        use = f"the model uses {-limit:.4g} in place of values far above the others"
    else:
        use = f"the model uses {limit:.4g} in place of values far below the others"
    return [f"{use}: {', '.join(names)}{more}"]


def verdict(results: Results) -> str:
    """The first sentence of the page and of the terminal: Continue or Stop."""
    options, inputs, gain = results.options, results.inputs, results.gain
    if gain is not None and results.stops:
        return _stop_verdict(results, gain, results.tolerance)
    if gain is None or not results.batch.model.fitted:
        few = "the measured values are too few, or equal"
        cause = few if results.observed.any() else "nothing was measured yet"
        earlier = bool(inputs.sheet.earlier)
        basis = "follows earlier campaigns" if earlier else "is spread over the conditions"
        return f"Continue: {cause}; this batch {basis}."
    row, best = _best_measured(inputs)
    name = _description(inputs, row)
    low, high = np.quantile(gain.of_batch, (0.05, 0.95))
    expected = f"{np.mean(gain.of_batch):.2g} (90% interval: {low:.2g} to {high:.2g})"
    if options.target is not None:
        return (
            f"Continue: the best is {best:.4g} ({name}), {abs(best - options.target):.2g} from the"
            f" target; this batch is expected to come closer by {expected}."
        )
    return f"Continue: the best is {best:.4g} ({name}); this batch is expected to gain {expected}."


def _stop_verdict(results: Results, gain: stopping.Gain, tolerance: float) -> str:
    """The verdict if the best value is within `tolerance` of the best possible one (--bounds,
    --target), or if no candidate is expected to be better by more than `tolerance`."""
    options, inputs = results.options, results.inputs
    row = stopping.stop_row(gain, tolerance, inputs.arms, inputs.goals)
    value = float(np.nanmean(inputs.measured[inputs.arms == row]))
    text = f"Stop: the best is {value:.4g} ({_description(inputs, row)})"
    if gain.limit > tolerance:
        quantile = float(np.quantile(gain.of_any, stopping.PROBABILITY))
        better = "better" if options.target is None else "closer to the target"
        text = (
            f"{text}; no candidate that was not measured is more than {quantile:.2g} {better}, with"
            f" {100 * stopping.PROBABILITY:g}% probability by the model."
        )
        best_row, best = _best_measured(inputs)
        if best_row == row:
            return text
        name = candidate_name(inputs, best_row)
        return f"{text} The better value of {name}, {best:.4g}, seems to be chance."
    if options.target is not None:
        return f"{text}, within {tolerance:.2g} of the target of {options.target:g}."
    end = options.bounds[0] if options.minimize else options.bounds[1]
    within = f" within {tolerance:.2g} of {end:g}," if gain.limit > 0 else ""
    extreme = "smallest" if options.minimize else "largest"
    return f"{text},{within} the {extreme} value that is possible."


def _best_measured(inputs: Inputs) -> tuple[int, float]:
    """(row, measured value) of the candidate with the best value; repeats are averaged."""
    row, _ = stopping.best_measured(inputs.arms, inputs.goals)
    return row, float(np.nanmean(inputs.measured[inputs.arms == row]))


def _description(inputs: Inputs, row: int) -> str:
    """The id of a candidate, with its conditions as in the sheet."""
    cells, numbers = conditions(inputs, np.array([row])).iloc[0], _numeric_columns(inputs)
    words = [f"{name} {cell}" if name in numbers else cell for name, cell in cells.items()]
    separator = "; " if any("," in word for word in words) else ", "
    return f"{candidate_name(inputs, row)}: {separator.join(words)}"


def _numeric_columns(inputs: Inputs) -> set[str]:
    """The names of the features that are numbers."""
    candidates = inputs.candidates
    features = zip(candidates.names, candidates.columns, strict=True)
    return {name for name, group in features if group.kind == "numbers"}


def candidate_name(inputs: Inputs, row: int) -> str:
    """The id of a candidate, or "row" and its number where ids are numbers of rows."""
    by_row = inputs.sheet.id_name == ROW_IDS
    return f"row {inputs.candidates.ids[row]}" if by_row else str(inputs.candidates.ids[row])


def conditions(inputs: Inputs, rows: np.ndarray) -> pd.DataFrame:
    """The conditions of the candidates in some rows as text; `short_number` shortens numbers."""
    table, numbers = inputs.sheet.table, _numeric_columns(inputs)
    first_row, cells = inputs.sheet.first_row[rows], {}
    for name in inputs.sheet.conditions:
        column = table.text(name).iloc[first_row]
        cells[name] = (column.map(short_number) if name in numbers else column).to_numpy(object)
    return pd.DataFrame(cells, dtype=object)


def short_number(word: str) -> str:
    """The word; a number longer than LONGEST_NUMBER is rounded to four digits."""
    try:
        number = float(word)
    except ValueError:
        return word
    return f"{number:.4g}" if len(word) > LONGEST_NUMBER else word


def explained_sentence(explained: float) -> str:
    """A sentence on the share of the variance that the model predicts."""
    if not explained >= MIN_EXPLAINED:
        return "The model does not predict the values yet, and this batch mainly explores."
    return (
        f"The model explains {100 * explained:.0f}% of the variance of the values when each is"
        " predicted from the others."
    )


def predictions(results: Results) -> list[str]:
    """[B], the predictions of the batch with their intervals, or [] before a model is fitted."""
    if results.predicted is None:
        return []
    intervals = zip(*results.intervals(results.batch.rows), strict=True)
    return [f"{mean:.3g} ({low:.3g} to {high:.3g})" for mean, low, high in intervals]


def reasons(results: Results) -> list[str]:
    """[B] texts: whether each candidate explores or exploits, and which change it tests."""
    inputs, batch, observed = results.inputs, results.batch, results.observed
    if results.predicted is None:
        earlier = "It follows the values of earlier campaigns."
        reason = earlier if inputs.sheet.earlier else "It differs much from the other candidates."
        return [reason] * len(batch.rows)
    model, lines = batch.model, []
    arms, goals = inputs.arms[observed], inputs.goals[observed]
    columns = inputs.library.columns
    kinds = [group.kind for group in columns for _ in range(group.n_lengthscales)]
    evaluated, chosen = inputs.library.features[arms], inputs.library.features[batch.rows]
    correlation = np.asarray(Mixed(model.lengthscale, columns).gram(chosen, evaluated))
    margin = 0.0 if "bits" in kinds else CORRELATION_MARGIN
    for i, row in enumerate(batch.rows):
        line = "It explores."
        if batch.mean[i] >= goals.max() - model.noise_std:
            line = "It exploits: it is expected to be about as good as the best."
        largest = correlation[i].max()
        index = int(np.where(correlation[i] >= largest - margin, goals, -np.inf).argmax())
        value = inputs.measured[observed][index]
        neighbour = f"{candidate_name(inputs, arms[index])} ({value:.3g})"
        if largest < MIN_CORRELATION:
            line += " Nothing similar was measured."
        else:
            x, y = np.asarray(chosen[i]), np.asarray(evaluated[index])
            distances = squared_distances(inputs.library, x, y) / np.square(model.lengthscale)
            if kinds[int(distances.argmax())] == "bits":
                line += f" The most similar measured candidate is {neighbour}."
            elif distances.max() > 0:
                difference = _difference(inputs, row, arms[index], distances)
                line += f" It tests {difference} against {neighbour}."
            else:
                line += f" It has the conditions of {neighbour}."
        if batch.chance is not None and batch.chance[i] < CERTAIN_SUCCESS:
            line += f" Its chance of success is {100 * batch.chance[i]:.0f}%."
        lines.append(line)
    return lines


def _difference(inputs: Inputs, row: int, neighbour: int, distances: np.ndarray) -> str:
    """The conditions in which two candidates differ most, given their squared distances [L]."""
    order = np.argsort(-distances, kind="stable")[:MAX_DIFFERENCES]
    names = [inputs.candidates.names[i] for i in order if distances[i] > 0]
    cells = conditions(inputs, np.array([row, neighbour]))
    words = [f"{n} {' instead of '.join(cells[n])}" if n in cells else n for n in names]
    return " and ".join(words)


def squared_distances(library: Library, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[L] squared distances between two candidates, one for each lengthscale of `Mixed`."""
    squared: list[float] = []
    for group in groups_of(library.columns):
        a, b = x[group.columns], y[group.columns]
        if group.kind == "numbers":
            squared += np.square(a - b).tolist()
        elif group.kind == "category":
            squared.append(float((a != b).any()))
        else:
            similarity = Tanimoto().gram(jnp.asarray(a)[None], jnp.asarray(b)[None])
            squared.append(1 - float(similarity[0, 0]))
    return np.array(squared)
