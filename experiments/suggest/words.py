"""What `scripts/suggest` says: tables, model, certificate and batch in plain words."""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

from experiments.suggest.inputs import Inputs
from jsketch.kernels.discrete import Tanimoto
from jsketch.kernels.mixed import Mixed
from jsketch.suggest import Library, Model, Suggestion

MATTER = 4  # columns that are named as those that matter most
# of the signal's standard deviation, from which a candidate is little known, and to which it is
# well known
LITTLE, WELL = 0.6, 0.25
# correlation with an evaluation, below which none says much
ALIKE = 0.5


def sign(options: argparse.Namespace) -> int:
    """Of the user's values; larger ones are better within."""
    return -1 if options.minimize else 1


def announce(options: argparse.Namespace, inputs: Inputs) -> None:
    """Prints what was read."""
    kinds = [group.kind for group in inputs.candidates.columns]
    words = dict(numbers="numbers", category="categories", bits="fingerprints")
    counts = [f"{kinds.count(kind)} {words[kind]}" for kind in words if kind in kinds]
    scaled = "as they are" if options.no_scaling else "scaled to 0 to 1 (--no-scaling: as they are)"
    said = f", numbers {scaled}" if "numbers" in kinds else ""
    failed = int(np.isnan(inputs.values).sum())
    print(
        f"{len(inputs.candidates.ids)} candidates, {', '.join(counts)}{said};"
        f" {len(inputs.values)} evaluations"
        + (" with errors of their own" if inputs.errors is not None else "")
        + (f", {failed} of them failed" if failed else "")
    )
    for note in inputs.candidates.notes:
        print(note)


def say(options: argparse.Namespace, model: Model, inputs: Inputs) -> None:
    """Prints the model of the values."""
    if not model.fitted:
        count = int((~np.isnan(inputs.values)).sum())
        print(f"{count} values are too few, or too alike, to fit: defaults are taken")
        return
    how = "given" if options.lengthscale else "fitted"
    names = np.array(inputs.candidates.names)
    order = np.argsort(model.lengthscale, kind="stable")[:MATTER]
    most = ", ".join(f"{names[i]} ({model.lengthscale[i]:.2g})" for i in order)
    print(
        f"noise {model.noise_std:.3g} and signal {model.scale:.3g} in units of the values;"
        f" lengthscales ({how}; the shorter, the more a column matters): {most}"
        + (", ..." if len(names) > MATTER else "")
    )


def say_batch(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> None:
    """Prints what the batch rests on, what it keeps to, and when to stop."""
    values = int((~np.isnan(inputs.values)).sum())
    if batch.dictionary_size < values:
        print(
            f"a sketch of {batch.dictionary_size} inducing points stands for {values} evaluations"
        )
    candidates = inputs.candidates
    if candidates.same is not None and len(batch.rows):
        print(f"all of the batch has {options.same} = {candidates.same[batch.rows[0]]}")
    if candidates.cost is not None:
        said = f"the batch costs {candidates.cost[batch.rows].sum():g}"
        if options.budget is not None:
            spent = candidates.cost[inputs.arms].sum() + candidates.cost[inputs.pending].sum()
            said += f" of {options.budget - spent:g} that are left of {options.budget:g}"
        if len(batch.rows) < options.batch:
            said += f": the budget ends it after {len(batch.rows)} of {options.batch}"
        print(said)
    if batch.certificate is not None:
        print(certificate(candidates.ids, batch))


def certificate(ids: np.ndarray, batch: Suggestion) -> str:
    """The certificate of a batch that has one, beside the noise."""
    found, noise = batch.certificate, batch.model.noise_std
    if found is None:
        return "certificate: none, the values are too few"
    return (
        f"certificate: {ids[found.best]} is within {found.gap:.3g} of the best candidate, which"
        f" {ids[found.rival]} may be; the noise of one value is {noise:.3g}. Bounds are"
        f" {found.width:g} standard deviations of the fitted model: a rule of thumb, no theorem"
    )


def explain(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> None:
    """Prints a line for each candidate of the batch: what is expected, and what that rests on."""
    for line in reasons(options, inputs, batch):
        print(line)


def reasons(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[str]:
    """[B] sentences."""
    observed = np.flatnonzero(~np.isnan(inputs.values))
    ids, model, flip = inputs.candidates.ids, batch.model, sign(options)
    if observed.size == 0:
        return [f"{ids[row]}: nothing is known yet; it is unlike the others" for row in batch.rows]
    arms, values = inputs.arms[observed], inputs.values[observed]
    there, chosen = inputs.library.features[arms], inputs.library.features[batch.rows]
    kernel = Mixed(np.asarray(model.lengthscale), inputs.library.columns)
    alike = np.asarray(kernel.gram(chosen, there))
    best, lines = int(values.argmax()), []
    for i, row in enumerate(batch.rows):
        beyond = "above" if batch.mean[i] > values[best] else "below"
        beyond = dict(above="better than", below="worse than")[beyond]
        share = batch.std[i] / model.scale
        known = "little is known there" if share > LITTLE else "it is fairly well known there"
        known = "much is known there" if share < WELL else known
        near = int(alike[i].argmax())
        line = (
            f"{ids[row]}: predicted {flip * batch.mean[i]:.3g} +- {batch.std[i]:.2g}, {beyond} the"
            f" best value so far ({flip * values[best]:.3g}, {ids[arms[best]]}); {known}"
        )
        if alike[i, near] < ALIKE:
            line += ", no evaluation is much like it"
        else:
            line += f"; most like {ids[arms[near]]} ({flip * values[near]:.3g})"
            apart = distances(inputs.library, np.asarray(chosen[i]), np.asarray(there[near]))
            apart = apart / np.square(model.lengthscale)
            if apart.max() > 0:
                line += f", from which it differs most in {inputs.candidates.names[apart.argmax()]}"
        if batch.chance is not None:
            line += f"; succeeds with a chance of {100 * batch.chance[i]:.0f}%"
        lines.append(line)
    return lines


def distances(library: Library, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[L] squared distances of two candidates by column, as `Mixed` has them."""
    found: list[float] = []
    start = 0
    for kind, width in library.columns:
        a, b = x[start : start + width], y[start : start + width]
        if kind == "numbers":
            found += np.square(a - b).tolist()
        elif kind == "category":
            found.append(float((a != b).any()))
        else:
            found.append(
                1 - float(Tanimoto().gram(jnp.asarray(a)[None], jnp.asarray(b)[None])[0, 0])
            )
        start += width
    return np.array(found)
