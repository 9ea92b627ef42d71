"""The pictures of the page of `jsketch-suggest`."""

from __future__ import annotations

import argparse
import base64
import io
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")  # needs no display

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from jsketch.suggest import Library
from jsketch.suggest.discrete import WORD
from jsketch.suggest.mixed import groups_of
from jsketch.suggest.tables import messages
from jsketch.suggest.tables.factors import Effect, Factor
from jsketch.suggest.tables.inputs import goal
from jsketch.suggest.tables.results import Results

MAP_SIZE = 4000  # largest number of candidates of the library on the map
MAP_SAMPLE = 2000  # largest number of candidates that determine the axes of the map
BARS = 12  # largest number of columns in the picture of importance
LONGEST_TICKS = 50  # characters that fit below a picture, in all labels together
NARROW_LEVELS = 8  # a grid with more columns is as wide as the page
DARK_SHARE = 0.45  # text is white on this share of the colours, the darkest ones

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.75"
# text is not parsed: "$" would start a formula, and the name of a column may contain it
PAGE_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (5.6, 3.6),
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
    wide: bool = False  # whether it spans both columns of the page

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@styled
def effect(results: Results, effect: Effect, limits: tuple[float, float], caption: str) -> Figure:
    """The main effect of a factor, and the measured values of each level. The axis of values has
    these `limits`."""
    factor, inputs, mean = effect.factor, results.inputs, results.within_bounds(effect.mean)
    arms, values = inputs.arms[results.observed], inputs.measured[results.observed]
    bars: dict[str, Any] = dict(fmt="o", color=BLUE, markersize=5, capsize=3)
    dots: dict[str, Any] = dict(color="0.6", markersize=4, alpha=0.7, zorder=1)
    value_name = results.options.value_column
    low, high = _interval_ends(results, effect)
    error = np.stack([mean - low, high - mean])
    if factor.numbers is not None:
        figure, axes = _subplots(factor.name, value_name, 2.8)
        axes.plot(factor.numbers, mean, color=BLUE)
        axes.errorbar(factor.numbers, mean, yerr=error, **bars)
        axes.plot(inputs.candidates.features[arms, factor.columns[0]], values, "o", **dots)
        if sum(map(len, factor.labels)) <= LONGEST_TICKS:
            axes.set_xticks(factor.numbers, factor.labels)
        axes.set_ylim(limits)
    else:
        # the best level is on top
        order = np.argsort(-effect.mean if results.options.minimize else effect.mean)
        rank = np.argsort(order)
        figure, axes = _subplots(value_name, "", 1.1 + 0.27 * len(order))
        axes.errorbar(mean[order], range(len(order)), xerr=error[:, order], **bars)
        axes.plot(values, rank[factor.level[arms]], "o", **dots)
        axes.set_yticks(range(len(order)), [factor.labels[i] for i in order])
        axes.set_ylim(-0.6, len(order) - 0.4)
        axes.set_xlim(limits)
    return Figure(f"Effect of {factor.name}", caption, _png(figure))


def _interval_ends(results: Results, effect: Effect) -> list[np.ndarray]:
    """The lower and the upper ends [L] of the intervals of an effect."""
    half_width = results.half_width * effect.std
    return [results.within_bounds(effect.mean + sign * half_width) for sign in (-1, 1)]


def value_limits(results: Results, effects: list[Effect]) -> tuple[float, float]:
    """The limits of an axis that shows all effects and all measured values."""
    values = [results.inputs.measured[results.observed]]
    values += [end for effect in effects for end in _interval_ends(results, effect)]
    low, high = (float(extreme(np.concatenate(values))) for extreme in (np.min, np.max))
    margin = 0.03 * (high - low)
    return low - margin, high + margin


@styled
def grid(results: Results, first: Factor, second: Factor) -> Figure:
    """The best prediction, the best measured value and the batch for all levels of two factors."""
    options, inputs = results.options, results.inputs
    rows, columns = first, second
    if len(rows.labels) < len(columns.labels):
        rows, columns = columns, rows
    shape = len(rows.labels), len(columns.labels)
    figure, axes = _subplots(columns.name, rows.name, 1.4 + 0.3 * shape[0], grid=False)
    wide = shape[1] > NARROW_LEVELS
    if wide:
        figure.set_size_inches(11.2, 1.4 + 0.3 * shape[0])
    caption = []
    colours = np.full(shape, np.nan)
    if results.predicted is not None:
        mean = results.within_bounds(results.predicted.mean)
        colours = _best_of_cells(rows.level, columns.level, mean, goal(options, mean), shape)
        image = axes.imshow(colours, aspect="auto", cmap=_colours(options))
        figure.colorbar(image, label="best prediction")
        caption.append(
            "The colour is the best prediction of all candidates in a cell, which differ in the"
            " other conditions."
        )
    arms, values = inputs.arms[results.observed], inputs.measured[results.observed]
    goals = goal(options, values)
    best = _best_of_cells(rows.level[arms], columns.level[arms], values, goals, shape)
    if len(arms):
        caption.append("A number is the best measured value in a cell.")
    finite = colours[np.isfinite(colours)]
    low, span = (finite.min(), np.ptp(finite) or 1.0) if finite.size else (0.0, 1.0)
    for i, j in np.argwhere(np.isfinite(best)):
        share = (colours[i, j] - low) / span if np.isfinite(colours[i, j]) else 1.0
        share = 1 - share if options.minimize else share
        colour = "white" if share < DARK_SHARE else "black"
        axes.text(j, i, f"{best[i, j]:.3g}", ha="center", va="center", color=colour, fontsize=9)
    batch = results.batch.rows
    counts = np.zeros(shape, int)
    np.add.at(counts, (rows.level[batch], columns.level[batch]), 1)
    caption.append(
        "Frames mark the candidates of the batch; a small number counts them if a cell has several."
    )
    for i, j in np.argwhere(counts):
        frame = plt.Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False, ec=ORANGE, lw=2.5)
        axes.add_patch(frame)
        if counts[i, j] > 1:
            axes.text(j + 0.43, i - 0.4, f"{counts[i, j]}", ha="right", va="top", color=ORANGE,
                fontsize=8, fontweight="bold",
                path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip
    # more characters do not fit below the picture in one line
    is_long = sum(map(len, columns.labels)) > (90 if wide else 40)
    ticks: dict[str, Any] = dict(rotation=35, ha="right") if is_long else dict(ha="center")
    axes.set_xticks(range(shape[1]), columns.labels, **ticks)
    axes.set_yticks(range(shape[0]), rows.labels)
    axes.set_xlim(-0.5, shape[1] - 0.5)
    axes.set_ylim(shape[0] - 0.5, -0.5)
    title = f"{rows.name} and {columns.name}"
    return Figure(title, " ".join(caption), _png(figure), wide)


def _best_of_cells(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, goals: np.ndarray, shape: Any
) -> np.ndarray:
    """[rows, columns], the value with the largest goal in each cell, NaN in empty cells."""
    best = np.full(shape, np.nan)
    order = np.argsort(goals, kind="stable")  # later values replace earlier ones
    best[row[order], column[order]] = values[order]
    return best


def _colours(options: argparse.Namespace) -> str:
    """The colour map of values: larger values are brighter, and with --minimize smaller ones."""
    return "viridis_r" if options.minimize else "viridis"


def _subplots(x: str, y: str, height: float | None = None, grid: bool = True) -> tuple[Any, Axes]:
    figure, axes = plt.subplots()
    if height is not None:
        figure.set_figheight(height)
    axes.set_axisbelow(True)
    axes.grid(grid)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _png(figure: plt.Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    return buffer.getvalue()


@styled
def leave_one_out(results: Results) -> tuple[Figure, str]:
    """(the figure of the leave-one-out predictions, sentences about them)."""
    inputs, model, left_out = results.inputs, results.model, results.left_out
    assert left_out is not None
    # as measured: `left_out.observed` has the values that the model clips
    observed, mean = inputs.measured[left_out.at], results.within_bounds(left_out.mean)
    ends = (results.within_bounds(left_out.mean + sign * left_out.std) for sign in (-1, 1))
    share = float(np.mean(np.abs(observed - left_out.mean) <= 2 * left_out.std))
    explained = messages.explained_sentence(left_out.explained)
    note = (
        f"{explained} {100 * share:.0f}% of the values are within two standard deviations of their"
        " prediction (95% are expected). By the model, repeats of a measurement differ by"
        f" {model.noise_std:.3g} and candidates by {model.scale:.3g} (standard deviations)."
    )
    caption = (
        "Each value against its prediction from all others, with a bar of one standard deviation."
    )
    if len(observed) < np.isfinite(inputs.goals).sum():
        caption += f" A random sample of {len(observed)} values is shown."
    figure, axes = _subplots("predicted from the others", "measured")
    limits = min(observed.min(), mean.min()), max(observed.max(), mean.max())
    axes.plot(limits, limits, color="0.4", linewidth=0.8)
    xerr = np.abs([mean - end for end in ends])
    bars: dict[str, Any] = dict(xerr=xerr, markersize=3, elinewidth=0.6)
    axes.errorbar(mean, observed, fmt="o", color=BLUE, alpha=0.8, **bars)
    return Figure("Predictions and measurements", caption, _png(figure)), note


@styled
def best_so_far(results: Results) -> Figure:
    """The values in the order of their batches, and the best value so far."""
    inputs = results.inputs
    order = np.argsort(inputs.batch_of, kind="stable")
    measured, batch = inputs.measured[order], inputs.batch_of[order]
    # the best value so far is the one with the largest goal so far
    goals = np.where(np.isnan(measured), -np.inf, inputs.goals[order])
    is_better = ~pd.Series(goals).cummax().duplicated()
    best = pd.Series(measured).where(is_better).ffill()
    figure, axes = _subplots("evaluation", results.options.value_column, 2.8)
    t = np.arange(1, len(measured) + 1)
    for start in np.flatnonzero(np.diff(batch)):
        axes.axvline(start + 1.5, color="0.8", linewidth=0.8, linestyle=":")
    axes.plot(t, measured, "o", color="0.6", markersize=3, label="measured")
    axes.step(t, best, where="post", color=BLUE, label="best so far")
    failed = t[np.isnan(measured)]
    if failed.size:
        worst = np.full(failed.size, measured[goals.argsort()[failed.size]])
        axes.plot(failed, worst, "x", color=ORANGE, markersize=4, label="failed")
    figure.legend(loc="outside lower center", ncols=3)
    caption = "The values are in the order of the batches and, within a batch, of the tables."
    return Figure("Best so far", caption, _png(figure))


@styled
def map_of_library(results: Results) -> Figure:
    """The candidates on two principal components of numbers and fingerprints."""
    inputs, batch = results.inputs, results.batch
    count = len(inputs.candidates.ids)
    shown = np.random.default_rng(0).permutation(count)[:MAP_SIZE]
    observed = np.isfinite(inputs.goals)
    evaluated = inputs.arms[observed]
    rows = np.unique(np.concatenate([shown, evaluated, batch.rows]))
    points = np.zeros((count, 2))
    points[rows], share = principal_components(
        features_over_lengthscale(inputs.library, batch.model.lengthscale, rows)
    )
    caption = (
        "The axes are the first two principal components of the columns. Each column is divided by"
        " its lengthscale, so that columns with little effect separate the candidates little. The"
        f" two components explain {100 * share:.0f}% of the variance."
    )
    if count > MAP_SIZE:
        caption += f" {MAP_SIZE} of {count} candidates are shown."
    figure, axes = _subplots("first principal component", "second principal component")
    axes.plot(*points[shown].T, ".", color=GREY, markersize=2, zorder=1, label="library")
    if len(evaluated):
        x, y = points[evaluated].T
        values = inputs.measured[observed]
        colours = _colours(results.options)
        dots = axes.scatter(x, y, c=values, cmap=colours, s=18, zorder=2, label="evaluated")
        figure.colorbar(dots, label=results.options.value_column)
    circles: dict[str, Any] = dict(markersize=7, fillstyle="none", zorder=3)
    axes.plot(*points[batch.rows].T, "o", color=ORANGE, label="next batch", **circles)
    axes.grid(False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    figure.legend(loc="outside lower center", ncols=3)
    return Figure("Map of the library", caption, _png(figure))


def features_over_lengthscale(
    library: Library, lengthscale: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Features [k,D] of some rows, divided by their lengthscales. Two different categories have the
    distance 1 / lengthscale, and so do two fingerprints without a common bit."""
    features, parts = np.asarray(library.features)[rows], []
    for group in groups_of(library.columns):
        part = features[:, group.columns]
        if group.kind == "bits":
            bits = (part.astype(np.int64)[:, :, None] >> np.arange(WORD)) & 1
            part = bits.reshape(len(part), -1)
            part = part / np.sqrt(np.maximum(part.sum(1, keepdims=True), 1))
        unit = 1 if group.kind == "numbers" else 2**0.5
        parts.append(part / unit / lengthscale[group.lengthscales])
    return np.hstack(parts)


def principal_components(points: np.ndarray) -> tuple[np.ndarray, float]:
    """(coordinates [k,2] of points [k,d] on their first two principal axes, the share of the
    variance that these axes explain)."""
    sample = np.random.default_rng(0).permutation(len(points))[:MAP_SAMPLE]
    centre = points[sample].mean(0)
    _, singular, axes = np.linalg.svd(points[sample] - centre, full_matrices=False)
    coordinates = np.zeros((len(points), 2))
    coordinates[:, : len(axes[:2])] = (points - centre) @ axes[:2].T
    return coordinates, float(np.square(singular[:2]).sum() / np.square(singular).sum())


@styled
def importance(names: list[str], lengthscale: np.ndarray) -> Figure:
    """The columns with the shortest lengthscales."""
    caption = (
        "The inverse lengthscale of each column. The larger it is, the more the values change over"
        " the range of the column."
    )
    order = np.argsort(lengthscale, kind="stable")[:BARS][::-1]
    figure, axes = _subplots("1 / lengthscale", "")
    shown = [name if len(name) < 24 else name[:22] + "..." for name in names]
    axes.barh(range(len(order)), 1 / lengthscale[order], color=BLUE)
    axes.set_yticks(range(len(order)), [shown[i] for i in order])
    axes.grid(False, axis="y")
    return Figure("What matters", caption, _png(figure))
