"""The parts of all figures: the style, lines with bands, axes, legends and files."""

import io
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # needs no display

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from experiments.figures.styles import style
from experiments.results import files, summaries

Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]  # {method: (x [P], values [R,P])}

TITLE_WIDTH = 80  # characters per line
COUNT_FORMAT = "{x:,.0f}"  # of the ticks of an axis of counts
FEW_POINTS = 6  # so many points are the ticks of a log axis

STYLE: dict[Any, Any] = {
    "figure.figsize": (5.6, 3.2),
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "svg.hashsalt": "jsketch",  # makes SVG files reproducible
}


def lines(axes: Axes, curves: Curves, slopes: bool = False, bands: bool = True) -> None:
    """Draws the curves of some methods, with or without `bands`. With `slopes` the legend shows the
    slope of each mean on log axes over the last decade of x."""
    for name, (x, values) in curves.items():
        label, colour, dashes = style(name)
        slope = summaries.log_slope(x, values.mean(axis=0)) if slopes else math.nan
        suffix = "" if math.isnan(slope) else f", {slope:.2f}"
        repetitions = values if bands else values.mean(0, keepdims=True)
        line(axes, x, repetitions, label + suffix, colour, dashes)


def line(
    axes: Axes, x: np.ndarray, values: np.ndarray, label: str, colour: str, dashes: Any
) -> None:
    """Draws the mean of values [R,P], and a band for its 95% interval if R > 1."""
    mean = values.mean(axis=0)
    axes.plot(x, mean, color=colour, linestyle=dashes, label=label)
    if len(values) > 1:
        half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def published_lines(
    axes: Axes, published: Mapping[str, tuple[np.ndarray, np.ndarray]], reach: float
) -> None:
    """Draws the published curve of each method up to x = `reach`, thin and dashed, in the colour of
    the method."""
    for name, (x, values) in published.items():
        label, colour, _ = style(name)
        visible = x <= reach
        if visible.sum() > 1:  # a single point is no line
            thin: dict[str, Any] = dict(linestyle=(0, (4, 2)), linewidth=0.9)
            label = f"{label}, published"
            axes.plot(x[visible], values[visible], color=colour, label=label, **thin)


def end_intervals(axes: Axes, curves: Curves, start: float) -> None:
    """Draws the 95% intervals of the last values of the curves, side by side from x = start on,
    or nothing if there is one repetition."""
    for position, (name, (_, values)) in enumerate(curves.items()):
        if len(values) > 1:
            half = summaries.ci95(values[:, -1])
            axes.errorbar(
                start + 1.2 * position,
                values[:, -1].mean(),
                half,
                color=style(name)[1],
                fmt="o",
                markersize=3,
                capsize=2,
            )


def count_axis(axes: Axes) -> None:
    axes.set_xlabel("evaluations $t$")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(COUNT_FORMAT)


def log_axes(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("evaluations $t$")
    # the limits depend on the means only, because bands may reach below zero
    means = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.get_lines()])
    means = means[means > 0]  # without NaN
    if len(means):
        axes.set_ylim(bottom=means.min() / 2, top=means.max() * 2)
    measured = np.unique(np.concatenate([line.get_xdata() for line in axes.get_lines()]))
    if len(measured) <= FEW_POINTS:  # less than a decade may have one label or labels that overlap
        axes.set_xticks(measured)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")


def finish(
    figure: plt.Figure, axes: Axes, path: Path, title: str, legend_title: str | None = None
) -> None:
    """Adds the title, and a legend beside the plot with the lines within its limits, in the order
    of their last values; saves the figure."""
    handles: list[Any] = axes.get_legend_handles_labels()[0]
    visible = [line for line in handles if is_within_limits(axes, line)]
    last = [-float(np.asarray(line.get_ydata())[-1]) for line in visible]
    figure.legend(
        handles=[visible[i] for i in np.argsort(last, kind="stable")],
        loc="outside right center",
        title=legend_title,
    )
    save(figure, path, textwrap.fill(title, TITLE_WIDTH))


def is_within_limits(axes: Axes, line: Any) -> bool:
    """Whether the axes show a part of a line."""
    axes.get_xlim()  # computes limits that are not set, on which the transform depends
    path = line.get_transform().transform_path(line.get_path())
    # a line along the edge is visible: one pixel more
    return bool(path.intersects_bbox(axes.bbox.padded(1), filled=False))


def save(figure: plt.Figure, path: Path, title: str | None = None) -> None:
    """Writes the figure, with a title, as PNG to `path` and as SVG beside it, or only as PDF if
    `path` ends in .pdf."""
    if title is not None:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
    kinds: tuple[tuple[str, Any], ...] = (("svg", {"Date": None}), ("png", None))
    if path.suffix == ".pdf":
        kinds = (("pdf", {"CreationDate": None}),)
    for kind, metadata in kinds:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=metadata)
        files.write(path.with_suffix(f".{kind}"), buffer.getvalue())
    plt.close(figure)
