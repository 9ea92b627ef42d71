"""The messages of `scripts/suggest` about tables, model and certificate, and the reason for each
candidate."""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

from experiments.suggest.inputs import Inputs
from jsketch.kernels.discrete import Tanimoto
from jsketch.kernels.mixed import Mixed
from jsketch.suggest import Library, Model, Suggestion

IMPORTANT_COLUMNS = 4  # columns with the shortest lengthscales that are named
# standard deviation of a prediction over that of the signal, for words in place of numbers
UNCERTAIN, CERTAIN = 0.6, 0.25
SIMILAR = 0.5  # correlation with an evaluation from which a candidate is similar to it


def sign(options: argparse.Namespace) -> int:
    """The factor between the values of `Inputs` and those of the user."""
    return -1 if options.minimize else 1


def describe_inputs(options: argparse.Namespace, inputs: Inputs) -> list[str]:
    """Lines on the tables that were read."""
    kinds = [group.kind for group in inputs.candidates.columns]
    plural = dict(numbers="numbers", category="categories", bits="fingerprints")
    counts = [f"{kinds.count(kind)} {plural[kind]}" for kind in plural if kind in kinds]
    if "numbers" in kinds:
        counts.append("numbers not scaled" if options.no_scaling else "numbers scaled to 0 to 1")
    failed = int(np.isnan(inputs.values).sum())
    line = (
        f"{len(inputs.candidates.ids)} candidates, {', '.join(counts)};"
        f" {len(inputs.values)} evaluations"
        + (" with standard errors" if inputs.errors is not None else "")
        + (f", {failed} of them failed" if failed else "")
    )
    return [line, *inputs.candidates.notes]


def describe_batch(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[str]:
    """Lines on the model, the constraints and the certificate; with --explain the reasons too."""
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
    if batch.certificate is not None:
        lines.append(certificate(candidates.ids, batch))
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
        f" lengthscales ({'given' if options.lengthscale else 'fitted'}; the shorter, the more a"
        f" column matters): {shown}" + (", ..." if len(names) > IMPORTANT_COLUMNS else "")
    )


def certificate(ids: np.ndarray, batch: Suggestion) -> str:
    """The certificate of a batch, beside the noise."""
    found, noise = batch.certificate, batch.model.noise_std
    if found is None:
        return "certificate: none, because there are too few values"
    return (
        f"certificate: {ids[found.best]} is within {found.gap:.3g} of the best candidate, which may"
        f" be {ids[found.rival]}; the noise of one value is {noise:.3g}. The bounds are"
        f" {found.width:g} standard deviations of the fitted model: a rule of thumb, no theorem"
    )


def reasons(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[str]:
    """[B] sentences: the prediction of each candidate, and the most similar evaluation."""
    observed = np.flatnonzero(~np.isnan(inputs.values))
    ids, model, flip = inputs.candidates.ids, batch.model, sign(options)
    if observed.size == 0:
        return [
            f"{ids[row]}: there are no values yet; it is unlike the others" for row in batch.rows
        ]
    arms, values = inputs.arms[observed], inputs.values[observed]
    evaluated, chosen = inputs.library.features[arms], inputs.library.features[batch.rows]
    kernel = Mixed(np.asarray(model.lengthscale), inputs.library.columns)
    correlation = np.asarray(kernel.gram(chosen, evaluated))
    best, lines = int(values.argmax()), []
    for i, row in enumerate(batch.rows):
        comparison = "better than" if batch.mean[i] > values[best] else "worse than"
        share = batch.std[i] / model.scale
        certainty = "uncertain" if share > UNCERTAIN else "fairly certain"
        certainty = "certain" if share < CERTAIN else certainty
        near = int(correlation[i].argmax())
        line = (
            f"{ids[row]}: predicted {flip * batch.mean[i]:.3g} +- {batch.std[i]:.2g} ({certainty}),"
            f" {comparison} the best value so far ({flip * values[best]:.3g}, {ids[arms[best]]})"
        )
        if correlation[i, near] < SIMILAR:
            line += "; no evaluation is similar"
        else:
            line += f"; most similar to {ids[arms[near]]} ({flip * values[near]:.3g})"
            apart = distances(inputs.library, np.asarray(chosen[i]), np.asarray(evaluated[near]))
            apart = apart / np.square(model.lengthscale)
            if apart.max() > 0:
                line += f", from which it differs most in {inputs.candidates.names[apart.argmax()]}"
        if batch.chance is not None:
            line += f"; succeeds with a chance of {100 * batch.chance[i]:.0f}%"
        lines.append(line)
    return lines


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
