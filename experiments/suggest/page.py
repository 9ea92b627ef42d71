"""The page of a suggestion (`scripts/suggest --report`): one file with its pictures in it, that any
browser opens from disk."""

from __future__ import annotations

import argparse
import base64
import html
from typing import Any

import numpy as np

from experiments.results import files
from experiments.suggest import pictures, words
from experiments.suggest.inputs import Inputs
from jsketch.kernels.discrete import WORD
from jsketch.suggest import Library, Suggestion, leave_one_out, suggest
from jsketch.suggest.acquisitions import UCB

SHOWN = 4000  # candidates on the map
FITTED = 2000  # candidates that its axes are of
CURVE = 8  # points of the certificate's curve
CURVE_WORK = 10**9  # candidates times evaluations^2, above which there is no curve

text = html.escape
STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 0 auto;
  padding: 0 1rem 3rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; } img { max-width: 100%; height: auto; }
figcaption, .small { color: #4a4a4a; font-size: .875rem; }
.box { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #d9d9d9;
  vertical-align: top; }
"""


def write(options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any) -> None:
    """Writes the page to `options.report`."""
    figures = [_map(options, inputs, batch)]
    notes: list[str] = []
    if batch.model.fitted:
        fit, note = _fit(options, inputs, batch, key)
        notes = [note, words.certificate(inputs.candidates.ids, batch) + "."]
        figures = [fit, _best(options, inputs), *figures, _importance(inputs, batch)]
        figures += _curve(options, inputs, batch, key)
    body = (
        f"<h1>The next {len(batch.rows)} of {len(inputs.candidates.ids)} candidates</h1>\n"
        + "".join(f"<p>{text(note[0].upper() + note[1:])}</p>\n" for note in notes)
        + f'<div class="figures">\n{"".join(figures)}</div>\n<h2>The batch</h2>\n'
        + _table(options, inputs, batch)
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<title>The next batch</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n{body}</body>\n</html>\n"
    )
    files.write(options.report, page.encode())


def _figure(png: bytes, title: str, caption: str) -> str:
    source = base64.b64encode(png).decode()
    return (
        f'<figure><h2>{text(title)}</h2><img src="data:image/png;base64,{source}"'
        f' alt="{text(title)}"><figcaption>{text(caption)}</figcaption></figure>\n'
    )


def _fit(
    options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any
) -> tuple[str, str]:
    """(the picture, a sentence of it)."""
    found = leave_one_out(
        inputs.library, inputs.arms, inputs.values, batch.model, errors=inputs.errors, key=key
    )
    flip = words.sign(options)
    share = float(np.mean(np.abs(found.observed - found.mean) <= 2 * found.std))
    fit = (
        "all values are the same, so that there is no variance to predict"
        if np.isnan(found.explained)
        else f"of the values' variance the model predicts {100 * found.explained:.0f}%, each value"
        " from all others"
    )
    note = (
        f"{fit}; {100 * share:.0f}% of them are within two standard deviations (95% should"
        f" be). Noise {batch.model.noise_std:.3g} and signal {batch.model.scale:.3g} in units of"
        " the values."
    )
    png = pictures.fit(flip * found.observed, flip * found.mean, found.std)
    caption = "Each value against its prediction from all others, +- a standard deviation."
    if len(found.at) < np.isfinite(inputs.values).sum():
        caption += f" Of a random {len(found.at)}."
    return _figure(png, "Fit", caption), note


def _best(options: argparse.Namespace, inputs: Inputs) -> str:
    flip = words.sign(options)
    best = np.fmax.accumulate(inputs.values)
    return _figure(
        pictures.best_so_far(flip * inputs.values, flip * best),
        "Best so far",
        f"The {'smallest' if flip < 0 else 'largest'} value until each evaluation"
        + (", whatever its error." if inputs.errors is not None else "."),
    )


def _map(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> str:
    count = len(inputs.candidates.ids)
    random = np.random.default_rng(0)
    shown = random.permutation(count)[:SHOWN]
    good = np.isfinite(inputs.values)
    seen = inputs.arms[good]
    rows = np.unique(np.concatenate([shown, seen, batch.rows]))
    points = np.zeros((count, 2))
    points[rows], share = projected(weighted(inputs.library, batch.model.lengthscale, rows))
    drawn = words.sign(options) * inputs.values[good]
    return _figure(
        pictures.map_of(points, shown, seen, drawn, batch.rows),
        "Map of the library",
        "Principal components of the columns, each over its lengthscale: what matters little is"
        f" drawn together. They hold {100 * share:.0f}% of the spread."
        + (f" {SHOWN} of {count} candidates." if count > SHOWN else ""),
    )


def weighted(library: Library, lengthscale: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Features of some rows over their lengthscales: two categories are a lengthscale apart, and
    fingerprints by the cosine of their bits, with 1 for none in common."""
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
    """(points [k,d] on their first two principal axes [k,2], the share of the variance there)."""
    some = np.random.default_rng(0).permutation(len(points))[:FITTED]
    centre = points[some].mean(0)
    _, size, axes = np.linalg.svd(points[some] - centre, full_matrices=False)
    found = np.zeros((len(points), 2))
    found[:, : len(axes[:2])] = (points - centre) @ axes[:2].T
    return found, float(np.square(size[:2]).sum() / np.square(size).sum())


def _importance(inputs: Inputs, batch: Suggestion) -> str:
    return _figure(
        pictures.importance(inputs.candidates.names, batch.model.lengthscale),
        "What matters",
        "One over the lengthscale of a column: over how much of its range values change.",
    )


def _curve(options: argparse.Namespace, inputs: Inputs, batch: Suggestion, key: Any) -> list[str]:
    """The certificate after fewer evaluations, with the model of all: nothing where that would take
    long."""
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
    png = pictures.certificate(at, np.array(gaps), batch.model.noise_std)
    return [
        _figure(
            png,
            "When to stop",
            "How far the best candidate may be above the one that is known best, after so many"
            " evaluations in the order of the table, by the model of all. Below the noise little"
            " is left to gain. A rule of thumb, no theorem.",
        )
    ]


def _table(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> str:
    flip = words.sign(options)
    lines = words.reasons(options, inputs, batch)
    names = inputs.candidates.ids[batch.rows]
    rows = [
        f"<tr><td>{text(name)}</td><td>{flip * mean:.4g}</td><td>{std:.3g}</td>"
        f"<td>{text(line.removeprefix(f'{name}: '))}</td></tr>\n"
        for name, mean, std, line in zip(names, batch.mean, batch.std, lines, strict=True)
    ]
    head = "".join(f"<th>{name}</th>" for name in (text(options.id_column), "mean", "+-", "why"))
    return f'<div class="box"><table><tr>{head}</tr>\n{"".join(rows)}</table></div>\n'
