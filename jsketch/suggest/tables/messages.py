"""The messages of `jsketch-suggest`: the verdict, the tables, the model, and the reason for each
candidate."""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

from jsketch.suggest import Library, stopping
from jsketch.suggest.discrete import Tanimoto
from jsketch.suggest.mixed import Mixed
from jsketch.suggest.tables.inputs import Inputs, goal_bounds
from jsketch.suggest.tables.results import Results

IMPORTANT_COLUMNS = 4  # columns with the shortest lengthscales that are named
KNOWS_NOTHING = 0.2  # of the explained share of the variance
LONGEST_NUMBER = 6  # characters of a number that are shown
SIMILAR = 0.5  # correlation with an evaluation from which a candidate is similar to it
CERTAIN = 0.995  # chance of success that is not mentioned
AS_SIMILAR = 0.02  # less correlation than the most similar evaluation: the better one is named
CHANGES = 2  # factors in which a candidate differs from its neighbour that are named


def describe_inputs(options: argparse.Namespace, inputs: Inputs) -> list[str]:
    """Lines on the tables that were read."""
    kinds = [group.kind for group in inputs.candidates.columns]
    plural = dict(numbers="numbers", category="categories", bits="fingerprints")
    singular = dict(numbers="number", category="category", bits="fingerprint")
    counts = []
    for kind in plural:
        count = kinds.count(kind)
        if count:
            counts.append(f"{count} {singular[kind] if count == 1 else plural[kind]}")
    failed = int(np.isnan(inputs.values).sum())
    line = (
        f"{options.candidates}: {len(inputs.candidates.ids)} candidates, each with"
        f" {', '.join(counts)}; {len(inputs.values)} evaluations"
        + (" with standard errors" if inputs.errors is not None else "")
        + (f", {failed} of them failed" if failed else "")
        + (f"; {len(inputs.pending)} pending" if len(inputs.pending) else "")
    )
    return [line, *inputs.candidates.notes]


def describe_batch(results: Results) -> list[str]:
    """Lines on the model and the constraints."""
    options, inputs, batch = results.options, results.inputs, results.batch
    count = int(results.measured.sum())
    candidates, lines = inputs.candidates, [_describe_model(results)]
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
    return lines


def _describe_model(results: Results) -> str:
    """A line on noise, signal and lengthscales."""
    model, count = results.model, int(results.measured.sum())
    if not model.fitted:
        which = "there is no value yet" if count == 0 else f"{count} values are too few, or equal"
        return f"{which}: without a model the batch is spread over the conditions"
    names = np.array(results.inputs.candidates.names)
    order = np.argsort(model.lengthscale, kind="stable")[:IMPORTANT_COLUMNS]
    shown = ", ".join(f"{names[i]} ({model.lengthscale[i]:.2g})" for i in order)
    return (
        f"by the model, repeats of a measurement differ by {model.noise_std:.3g} and candidates by"
        f" {model.scale:.3g} (standard deviations); what matters most (lengthscale):"
        f" {shown}" + (", ..." if len(names) > IMPORTANT_COLUMNS else "")
    )


def verdict(results: Results) -> str:
    """The first sentence of the page and of the terminal: Continue or Stop."""
    options, inputs, gain = results.options, results.inputs, results.gain
    if gain is not None:
        at_most = options.tolerance
        if at_most is None:
            at_most = stopping.tolerance(inputs.values, goal_bounds(options))
        if stopping.should_stop(gain, at_most):
            return _stop(results, gain, at_most)
    if gain is None or not results.batch.model.fitted:
        count = int(results.measured.sum())
        few = "nothing was measured yet" if count == 0 else f"{count} values are too few to predict"
        return f"Continue: {few}; this batch is spread over the conditions."
    row, best = _best_measured(inputs)
    name = _described(inputs, row)
    low, high = np.quantile(gain.of_batch, (0.05, 0.95))
    expected = f"{np.mean(gain.of_batch):.2g} ({low:.2g} to {high:.2g})"
    if options.target is not None:
        return (
            f"Continue: the best is {best:.4g} ({name}), {abs(best - options.target):.2g} from the"
            f" target; this batch is expected to come closer by {expected}."
        )
    return f"Continue: the best is {best:.4g} ({name}); this batch is expected to gain {expected}."


def _stop(results: Results, gain: stopping.Gain, at_most: float) -> str:
    """The verdict where a value is as good as --bounds or --target allow, up to `at_most`, or where
    no candidate is expected to be better by more."""
    options, inputs = results.options, results.inputs
    row, best = _best_measured(inputs)
    if gain.most > at_most:
        top = float(np.quantile(gain.of_any, stopping.PROBABILITY))
        closer = "better" if options.target is None else "closer to the target"
        value = float(np.nanmean(inputs.measured[inputs.arms == gain.best]))
        lucky = ""
        if row != gain.best:
            lucky = (
                f" The better value of {candidate_name(inputs, row)}, {best:.4g}, seems to be"
                " chance."
            )
        return (
            f"Stop: the best is {_described(inputs, gain.best)} with {value:.4g}; no candidate that"
            f" was not measured is more than {top:.2g} {closer}, with 95% probability by the"
            f" model.{lucky}"
        )
    name = f"Stop: {_described(inputs, row)} with {best:.4g}"
    if options.target is not None:
        return f"{name} is within {at_most:.2g} of the target of {options.target:g}."
    end = options.bounds[0] if options.minimize else options.bounds[1]
    extreme = "smallest" if options.minimize else "largest"
    if gain.most <= 0:
        return f"{name} has the {extreme} value that is possible."
    return f"{name} is within {at_most:.2g} of {end:g}, the {extreme} value that is possible."


def _best_measured(inputs: Inputs) -> tuple[int, float]:
    """(row, measured value) of the candidate with the best values, as a mean of repeats."""
    row, _ = stopping.best_measured(inputs.arms, inputs.values)
    return row, float(np.nanmean(inputs.measured[inputs.arms == row]))


def _described(inputs: Inputs, row: int) -> str:
    """The id of a candidate, with its conditions as in the sheet."""
    name = candidate_name(inputs, row)
    if inputs.sheet is None:
        return name
    names, (cells,) = conditions(inputs, np.array([row]))
    numbers = _numeric_columns(inputs)
    words = [f"{n} {cell}" if n in numbers else cell for n, cell in zip(names, cells, strict=True)]
    return f"{name}: {('; ' if any(',' in word for word in words) else ', ').join(words)}"


def _numeric_columns(inputs: Inputs) -> set[str]:
    """The names of the features that are numbers."""
    candidates = inputs.candidates
    features = zip(candidates.names, candidates.columns, strict=True)
    return {name for name, group in features if group.kind == "numbers"}


def candidate_name(inputs: Inputs, row: int) -> str:
    """The id of a candidate; where ids are numbers of rows, that word too."""
    by_row = inputs.sheet is not None and inputs.sheet.id_name == "row"
    return f"row {inputs.candidates.ids[row]}" if by_row else str(inputs.candidates.ids[row])


def conditions(inputs: Inputs, rows: np.ndarray) -> tuple[list[str], list[list[str]]]:
    """(names of the columns of conditions, their cells [len(rows)]), as in the sheet."""
    assert inputs.sheet is not None
    table = inputs.sheet.table
    first = np.unique(inputs.sheet.candidate_of, return_index=True)[1][rows]
    features = {name.partition("[")[0] for name in inputs.candidates.names}
    names = [n for n in table.names if n in features or n in inputs.candidates.names]
    numbers = _numeric_columns(inputs)
    cells = [
        [short_number(word) if name in numbers else word for word in table.text(name).iloc[first]]
        for name in names
    ]
    return names, [list(row) for row in zip(*cells, strict=True)]


def short_number(word: str) -> str:
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


def predictions(results: Results) -> list[str]:
    """[B], the predictions of the batch with their intervals; none before a model is fitted."""
    if results.predicted is None:
        return []
    ends = zip(*results.intervals(results.batch.rows), strict=True)
    return [f"{mean:.3g} ({low:.3g} to {high:.3g})" for mean, low, high in ends]


def reasons(results: Results) -> list[str]:
    """[B] sentences: whether each candidate explores, and what it tests."""
    inputs, batch, measured = results.inputs, results.batch, results.measured
    if results.predicted is None:
        return ["It differs most from the others."] * len(batch.rows)
    model, lines = batch.model, []
    arms, goals = inputs.arms[measured], inputs.values[measured]
    # of each lengthscale
    kinds = [g.kind for g in inputs.library.columns for _ in range(g.lengthscales)]
    evaluated, chosen = inputs.library.features[arms], inputs.library.features[batch.rows]
    kernel = Mixed(np.asarray(model.lengthscale), inputs.library.columns)
    correlation = np.asarray(kernel.gram(chosen, evaluated))
    close = 0.0 if "bits" in kinds else AS_SIMILAR
    for i, row in enumerate(batch.rows):
        line = "It explores."
        if batch.mean[i] >= goals.max() - model.noise_std:
            line = "It exploits: it is expected to be about as good as the best."
        top = correlation[i].max()
        near = int(np.where(correlation[i] >= top - close, goals, -np.inf).argmax())
        value = inputs.measured[measured][near]
        neighbour = f"{candidate_name(inputs, arms[near])} ({value:.3g})"
        if top < SIMILAR:
            line += " Nothing similar was measured."
        else:
            apart = distances(inputs.library, np.asarray(chosen[i]), np.asarray(evaluated[near]))
            apart = apart / np.square(model.lengthscale)
            if kinds[int(apart.argmax())] == "bits":
                line += f" The most similar measured candidate is {neighbour}."
            elif apart.max() > 0:
                line += f" It tests {_change(inputs, row, arms[near], apart)} against {neighbour}."
            else:
                line += f" It has the conditions of {neighbour}."
        if batch.chance is not None and batch.chance[i] < CERTAIN:
            line += f" It succeeds with a chance of {100 * batch.chance[i]:.0f}%."
        lines.append(line)
    return lines


def _change(inputs: Inputs, row: int, other: int, apart: np.ndarray) -> str:
    """The factors in which two candidates differ most, with their levels."""
    order = np.argsort(-apart, kind="stable")[:CHANGES]
    largest = [inputs.candidates.names[i] for i in order if apart[i] > 0]
    if inputs.sheet is None:
        return " and ".join(largest)
    names, cells = conditions(inputs, np.array([row, other]))
    words = [
        f"{name} {cells[0][names.index(name)]} instead of {cells[1][names.index(name)]}"
        if name in names
        else name
        for name in largest
    ]
    return " and ".join(words)


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
