"""The page of a suggestion (`jsketch-suggest --report`): one HTML file that contains its
pictures."""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import matplotlib

matplotlib.use("Agg")  # needs no display

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jsketch.kernels.discrete import WORD
from jsketch.loops import saving
from jsketch.suggest import Library, Suggestion, leave_one_out
from jsketch.suggest.tables import messages
from jsketch.suggest.tables.inputs import Inputs
from jsketch.suggest.tables.results import Results

TEMPLATE = Path(__file__).with_name("page.html.jinja")
SHOWN = 4000  # candidates on the map
SAMPLED = 2000  # candidates that determine the axes of the map
BARS = 12  # columns in the picture of importance
EFFECTS, MOST_BARS = 3, 20  # pictures of main effects, and levels in one

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.75"
# "$" would start a formula, and the name of a column may contain it
PAGE_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.6, 4.0),
    "font.size": 10,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "text.parse_math": False,
}
# a decorator, which the type stubs of matplotlib do not declare
styled: Any = plt.rc_context(PAGE_STYLE)


class Figure(NamedTuple):
    """A picture on the page."""

    title: str
    caption: str
    png: bytes

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def write(results: Results) -> None:
    """Writes the page to `options.report`."""
    options, inputs, batch = results.options, results.inputs, results.batch
    kinds = {group.kind for group in inputs.candidates.columns}
    figures, notes = [], list(inputs.candidates.notes)
    if batch.model.fitted:
        fit, note = _fit(results)
        notes = [note, *notes]
        figures = [_best_so_far(options, inputs), fit]
        figures.append(_importance(inputs.candidates.names, batch.model.lengthscale))
    if "category" not in kinds or not batch.model.fitted:
        figures.append(_map(options, inputs, batch))
    else:
        figures += _main_effects(options, inputs, batch)
    names, cells = messages.conditions(inputs, batch.rows)
    ids = inputs.candidates.ids[batch.rows]
    reasons = messages.reasons(results)
    head, rows = [_id_name(inputs), *names], [[i, *row] for i, row in zip(ids, cells, strict=True)]
    if results.predicted is not None:
        head.append("predicted (90%)")
        for row, words in zip(rows, messages.predictions(results), strict=True):
            row.append(words)
    head.append("reason")
    for row, reason in zip(rows, reasons, strict=True):
        row.append(reason)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=f"Batch {inputs.number} of {options.candidates.name}",
        verdict=messages.verdict(results),
        notes=notes,
        figures=figures,
        head=head,
        rows=rows,
    )
    saving.write(options.report, html.encode())


def _id_name(inputs: Inputs) -> str:
    return "id" if inputs.sheet is None else inputs.sheet.id_name


@styled
def _main_effects(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> list[Figure]:
    """The predicted mean of every level of each category, the largest range first; the measured
    values beside it."""
    observed = np.isfinite(inputs.values)
    if inputs.sheet is None or not observed.any():
        return []
    arms = inputs.arms[observed]
    values = inputs.measured[observed]
    names, cells = messages.conditions(inputs, arms)
    effects = []
    for name, column in zip(names, zip(*cells, strict=True), strict=True):
        levels = pd.Series(values).groupby(np.array(column, object))
        if 1 < levels.ngroups <= MOST_BARS:
            effects.append((np.ptp(levels.mean()), name, levels))
    effects.sort(key=lambda effect: -effect[0])
    figures = []
    for _, name, levels in effects[:EFFECTS]:
        mean = levels.mean().sort_values()
        figure, axes = _axes("mean of the measured values", "")
        error = (1.645 * levels.std() / np.sqrt(levels.size())).reindex(mean.index)
        places = range(len(mean))
        axes.errorbar(mean, places, xerr=error.fillna(0), fmt="o", color=BLUE, markersize=5)
        counts = levels.size().reindex(mean.index)
        axes.set_yticks(places, [f"{level} ({n})" for level, n in counts.items()])
        axes.margins(y=0.15)
        figures.append(
            Figure(
                f"Effect of {name}",
                "The mean of the measured values of each level, with its 90% interval where it has"
                " repeats, and the number of values in parentheses. The levels are not compared"
                " under equal conditions.",
                _png(figure),
            )
        )
    return figures


def _axes(x: str, y: str) -> tuple[plt.Figure, Axes]:
    figure, axes = plt.subplots()
    axes.set_axisbelow(True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _png(figure: plt.Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    return buffer.getvalue()


@styled
def _fit(results: Results) -> tuple[Figure, str]:
    """(the figure of the leave-one-out predictions, a sentence about them)."""
    inputs, model = results.inputs, results.model
    data = inputs.library, inputs.arms, inputs.measured
    found = leave_one_out(*data, model, errors=inputs.errors, key=results.key)
    share = float(np.mean(np.abs(found.observed - found.mean) <= 2 * found.std))
    fit = messages.explained_sentence(found.explained)
    note = (
        f"{fit} {100 * share:.0f}% of the values are within two standard deviations of their"
        f" prediction (95% are expected). The noise has a standard deviation of"
        f" {model.noise_std:.3g} and the signal one of {model.scale:.3g}, in units of"
        " the values."
    )
    caption = "Each value against its prediction from all others, with one standard deviation."
    if len(found.at) < np.isfinite(inputs.values).sum():
        caption += f" A random sample of {len(found.at)} values is shown."
    observed, mean = found.observed, found.mean
    figure, axes = _axes("predicted from the others", "observed")
    ends = min(observed.min(), mean.min()), max(observed.max(), mean.max())
    axes.plot(ends, ends, color="0.4", linewidth=0.8)
    bars: dict[str, Any] = dict(xerr=found.std, markersize=3, elinewidth=0.6)
    axes.errorbar(mean, observed, fmt="o", color=BLUE, alpha=0.8, **bars)
    return Figure("Fit", caption, _png(figure)), note


@styled
def _best_so_far(options: argparse.Namespace, inputs: Inputs) -> Figure:
    caption = "The best value up to each evaluation"
    if inputs.errors is not None:
        caption += ", whatever its error"
    figure, axes = _axes("evaluation, in the order of the table", "value")
    t = np.arange(1, len(inputs.values) + 1)
    axes.plot(t, inputs.measured, "o", color=GREY, markersize=3, label="each")
    # the value at the largest goal so far
    goals = np.where(np.isnan(inputs.values), -np.inf, inputs.values)
    best = inputs.measured[[int(np.argmax(goals[: i + 1])) for i in range(len(goals))]]
    axes.step(t, best, where="post", color=BLUE, label="best so far")
    failed = t[np.isnan(inputs.values)]
    if failed.size:
        worst = np.full(failed.size, inputs.measured[np.nanargmin(inputs.values)])
        axes.plot(failed, worst, "x", color=ORANGE, markersize=4, label="failed")
    figure.legend(loc="outside lower center", ncols=3)
    return Figure("Best so far", f"{caption}.", _png(figure))


@styled
def _map(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> Figure:
    count = len(inputs.candidates.ids)
    shown = np.random.default_rng(0).permutation(count)[:SHOWN]
    observed = np.isfinite(inputs.values)
    evaluated = inputs.arms[observed]
    rows = np.unique(np.concatenate([shown, evaluated, batch.rows]))
    points = np.zeros((count, 2))
    points[rows], share = projected(weighted(inputs.library, batch.model.lengthscale, rows))
    caption = (
        "The first two principal components of the columns. Each column is divided by its"
        " lengthscale, so that columns with little effect separate the candidates little. The two"
        f" components hold {100 * share:.0f}% of the variance."
    )
    if count > SHOWN:
        caption += f" {SHOWN} of {count} candidates are shown."
    figure, axes = _axes("first principal component", "second")
    axes.plot(*points[shown].T, ".", color=GREY, markersize=2, zorder=1, label="library")
    if len(evaluated):
        x, y = points[evaluated].T
        values = inputs.measured[observed]
        drawn = axes.scatter(x, y, c=values, cmap="viridis", s=18, zorder=2, label="evaluated")
        figure.colorbar(drawn, label="value")
    circles: dict[str, Any] = dict(markersize=7, fillstyle="none", zorder=3)
    axes.plot(*points[batch.rows].T, "o", color=ORANGE, label="next batch", **circles)
    axes.grid(False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    figure.legend(loc="outside lower center", ncols=3)
    return Figure("Map of the library", caption, _png(figure))


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
    variance in them)."""
    sample = np.random.default_rng(0).permutation(len(points))[:SAMPLED]
    centre = points[sample].mean(0)
    _, size, axes = np.linalg.svd(points[sample] - centre, full_matrices=False)
    coordinates = np.zeros((len(points), 2))
    coordinates[:, : len(axes[:2])] = (points - centre) @ axes[:2].T
    return coordinates, float(np.square(size[:2]).sum() / np.square(size).sum())


@styled
def _importance(names: list[str], lengthscale: np.ndarray) -> Figure:
    caption = (
        "The inverse lengthscale of each column. The larger it is, the more the values change over"
        " the range of the column."
    )
    order = np.argsort(lengthscale, kind="stable")[:BARS][::-1]
    figure, axes = _axes("1 / lengthscale", "")
    shown = [name if len(name) < 24 else name[:22] + "..." for name in names]
    axes.barh(range(len(order)), 1 / lengthscale[order], color=BLUE)
    axes.set_yticks(range(len(order)), [shown[i] for i in order])
    axes.grid(False, axis="y")
    return Figure("What matters", caption, _png(figure))
