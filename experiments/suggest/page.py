"""The page of a suggestion (`scripts/suggest --report`): one file that contains its pictures, and
that any browser opens from disk."""

from __future__ import annotations

import argparse
import base64
from typing import Any, NamedTuple

import numpy as np

from experiments import pages
from experiments.suggest import pictures, words
from experiments.suggest.inputs import Inputs
from jsketch.kernels.discrete import WORD
from jsketch.suggest import Library, Suggestion, leave_one_out, suggest
from jsketch.suggest.acquisitions import UCB

TEMPLATE = "suggest/page.html.jinja"
SHOWN = 4000  # candidates on the map
FITTED = 2000  # candidates that determine the axes of the map
CURVE = 8  # points of the curve of the certificate
CURVE_WORK = 10**9  # candidates times evaluations^2, above which the page has no such curve


class Figure(NamedTuple):
    """A picture on the page."""

    title: str
    caption: str
    png: bytes

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def write(options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any) -> None:
    """Writes the page to `options.report`."""
    figures = [_map(options, inputs, batch)]
    notes: list[str] = []
    if batch.model.fitted:
        fit, note = _fit(options, inputs, batch, key)
        certificate = words.certificate(inputs.candidates.ids, batch)
        notes = [note, f"{certificate[0].upper()}{certificate[1:]}."]
        figures = [fit, _best(options, inputs), *figures, _importance(inputs, batch)]
        figures += _curve(options, inputs, batch, key)
    pages.write(
        options.report,
        TEMPLATE,
        title=f"The next {len(batch.rows)} of {len(inputs.candidates.ids)} candidates",
        notes=notes,
        figures=figures,
        head=[options.id_column, "mean", "standard deviation", "reason"],
        rows=_rows(options, inputs, batch),
    )


def _fit(
    options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any
) -> tuple[Figure, str]:
    """(the figure, a sentence about it)."""
    found = leave_one_out(
        inputs.library, inputs.arms, inputs.values, batch.model, errors=inputs.errors, key=key
    )
    flip = words.sign(options)
    share = float(np.mean(np.abs(found.observed - found.mean) <= 2 * found.std))
    fit = (
        "All values are equal, so that there is no variance to explain"
        if np.isnan(found.explained)
        else f"The model explains {100 * found.explained:.0f}% of the variance of the values, where"
        " each value is predicted from all others"
    )
    note = (
        f"{fit}; {100 * share:.0f}% of the values are within two standard deviations of their"
        f" prediction (95% are expected). The noise has a standard deviation of"
        f" {batch.model.noise_std:.3g} and the signal one of {batch.model.scale:.3g}, in units of"
        " the values."
    )
    caption = "Each value against its prediction from all others, with one standard deviation."
    if len(found.at) < np.isfinite(inputs.values).sum():
        caption += f" A random sample of {len(found.at)} values is shown."
    png = pictures.fit(flip * found.observed, flip * found.mean, found.std)
    return Figure("Fit", caption, png), note


def _best(options: argparse.Namespace, inputs: Inputs) -> Figure:
    flip = words.sign(options)
    caption = f"The {'smallest' if flip < 0 else 'largest'} value up to each evaluation"
    if inputs.errors is not None:
        caption += ", whatever its error"
    best = np.fmax.accumulate(inputs.values)
    png = pictures.best_so_far(flip * inputs.values, flip * best)
    return Figure("Best so far", f"{caption}.", png)


def _map(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> Figure:
    count = len(inputs.candidates.ids)
    shown = np.random.default_rng(0).permutation(count)[:SHOWN]
    good = np.isfinite(inputs.values)
    seen = inputs.arms[good]
    rows = np.unique(np.concatenate([shown, seen, batch.rows]))
    points = np.zeros((count, 2))
    points[rows], share = projected(weighted(inputs.library, batch.model.lengthscale, rows))
    values = words.sign(options) * inputs.values[good]
    caption = (
        "The first two principal components of the columns. Each column is divided by its"
        " lengthscale, so that columns with little effect spread the candidates little. The two"
        f" components hold {100 * share:.0f}% of the variance."
    )
    if count > SHOWN:
        caption += f" {SHOWN} of {count} candidates are shown."
    png = pictures.map_of(points, shown, seen, values, batch.rows)
    return Figure("Map of the library", caption, png)


def weighted(library: Library, lengthscale: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Features [k,D] of some rows, divided by their lengthscales. Two different categories have the
    distance 1 / lengthscale, and so do two fingerprints without a common bit."""
    features, parts = np.asarray(library.features)[rows], []
    start = at = 0
    for group in library.columns:
        part = features[:, start : start + group.width]
        if group.kind == "bits":
            bits = (part.astype(np.int64)[:, :, None] >> np.arange(WORD)) & 1
            part = bits.reshape(len(part), -1)
            part = part / np.sqrt(np.maximum(part.sum(1, keepdims=True), 1))
        unit = 1 if group.kind == "numbers" else 2**0.5
        parts.append(part / unit / lengthscale[at : at + group.lengthscales])
        start, at = start + group.width, at + group.lengthscales
    return np.hstack(parts)


def projected(points: np.ndarray) -> tuple[np.ndarray, float]:
    """(coordinates [k,2] of points [k,d] on their first two principal axes, the share of the
    variance that these hold)."""
    some = np.random.default_rng(0).permutation(len(points))[:FITTED]
    centre = points[some].mean(0)
    _, size, axes = np.linalg.svd(points[some] - centre, full_matrices=False)
    found = np.zeros((len(points), 2))
    found[:, : len(axes[:2])] = (points - centre) @ axes[:2].T
    return found, float(np.square(size[:2]).sum() / np.square(size).sum())


def _importance(inputs: Inputs, batch: Suggestion) -> Figure:
    return Figure(
        "What matters",
        "The inverse lengthscale of each column. The larger it is, the more the values change over"
        " the range of the column.",
        pictures.importance(inputs.candidates.names, batch.model.lengthscale),
    )


def _curve(
    options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any
) -> list[Figure]:
    """The gap of the certificate after fewer evaluations; empty if that takes long to compute."""
    count = len(inputs.values)
    if batch.certificate is None or len(inputs.candidates.ids) * count**2 > CURVE_WORK:
        return []
    at = np.unique(np.linspace(min(2, count), count, CURVE).astype(int))
    gaps = []
    for n in at:
        found = suggest(
            inputs.library,
            inputs.arms[:n],
            inputs.values[:n],
            errors=None if inputs.errors is None else inputs.errors[:n],
            exclude=inputs.excluded,
            batch=len(batch.rows),
            acquisition=UCB(batch.certificate.width),
            model=batch.model,
            key=key,
        )
        gaps.append(found.certificate.gap if found.certificate else np.nan)
    return [
        Figure(
            "When to stop",
            "How much better the best candidate may be than the one with the largest lower bound,"
            " against the number of evaluations in the order of the table. The model is the one"
            " fitted to all evaluations. Below the noise, little is left to gain. This is a rule of"
            " thumb and not a theorem.",
            pictures.certificate(at, np.array(gaps), batch.model.noise_std),
        )
    ]


def _rows(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[list[str]]:
    """The rows of the table of the batch."""
    reasons = words.reasons(options, inputs, batch)
    means = words.sign(options) * batch.mean
    names = inputs.candidates.ids[batch.rows]
    return [
        [name, f"{mean:.4g}", f"{std:.3g}", reason.removeprefix(f"{name}: ")]
        for name, mean, std, reason in zip(names, means, batch.std, reasons, strict=True)
    ]
