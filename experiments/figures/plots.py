"""The figures of the experiments, with one colour per algorithm, means and 95% bands.

Most functions draw `curves`, a dict from algorithm name to (x [P], values [R, P]): P points, R
repetitions.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.figures import drawing
from experiments.figures.drawing import Curves
from experiments.figures.styles import METHOD_STYLES, style

Published = Mapping[str, tuple[np.ndarray, np.ndarray]]  # {method: (x [P], value [P])}


@contextmanager
def single_axes(
    path: Path,
    title: str,
    curves: Curves,
    published: Published | None = None,
    slopes: bool = False,
) -> Iterator[Axes]:
    """Axes with the curves, and the published curves up to the end of `curves`. The figure is saved
    with a title and a legend when the block ends."""
    with plt.rc_context(drawing.STYLE):
        figure, axes = plt.subplots()
        drawing.lines(axes, curves, slopes)
        if published:
            drawing.published_lines(axes, published, max(x[-1] for x, _ in curves.values()))
        yield axes
        drawing.finish(figure, axes, path, title, "method, slope" if slopes else None)


@contextmanager
def panels_of(
    path: Path, curves: Mapping[str, Curves], title: str, height: float = 3.2, **shared: Any
) -> Iterator[np.ndarray]:
    """A grid of axes, three in a row, for the panels of `curves`. The figure, `height` inches high,
    is saved with a title and the legend of the first panel when the block ends."""
    rows, columns = -(-len(curves) // 3), min(3, len(curves))
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (9.0, height)}):
        figure, grid = plt.subplots(rows, columns, squeeze=False, **shared)
        for axes in grid.flat[len(curves) :]:
            axes.set_visible(False)
        yield grid
        figure.suptitle(title, x=0.01, ha="left")
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right center")
        drawing.save(figure, path)


def regret_ratio(
    path: Path, curves: Curves, title: str, published: Published | None = None
) -> None:
    """Cumulative regret divided by the expected regret of the uniform policy, R_t / R_t^unif,
    against t."""
    with single_axes(path, title, curves, published=published) as axes:
        drawing.count_axis(axes)
        # the first evaluations may have a much larger ratio
        axes.set_ylim(0, min(axes.get_ylim()[1], 1.1))
        axes.set_ylabel("regret ratio  $R_t\\,/\\,R_t^{\\mathrm{unif}}$")


def simple_regret(
    path: Path, curves: Curves, title: str, published: Published | None = None
) -> None:
    """Regret of the best arm evaluated so far, against t on a log axis. The y axis ends at the
    values after a hundredth of the evaluations, because the first values are much larger."""
    with single_axes(path, title, curves, published=published) as axes:
        drawing.count_axis(axes)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(drawing.COUNT_FORMAT)
        end = max(x[-1] for x, _ in curves.values())
        axes.set_xlim(end / 1000, end)
        values_at_cut = [
            np.interp(end / 100, x, values.mean(axis=0)) for x, values in curves.values()
        ]
        # a curve that ends before is NaN there; 1 if all are 0
        axes.set_ylim(0, 1.1 * max((v for v in values_at_cut if v > 0), default=0.0) or 1)
        axes.set_ylabel("simple regret (rewards in [0, 1])")


def regret_ratio_panels(path: Path, panels: Mapping[str, Curves], title: str) -> None:
    """Regret ratios against t on one y scale, with a panel for each entry, three in a row."""
    ends = {x[-1] for curves in panels.values() for x, _ in curves.values()}
    height = 0.6 + 2.3 * -(-len(panels) // 3)
    with panels_of(path, panels, title, height, sharex=len(ends) == 1, sharey=True) as grid:
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=False):
            drawing.lines(axes, curves)
            axes.set_title(name, loc="left")
            axes.set_ylim(0, 1)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(drawing.COUNT_FORMAT)
        figure = grid[0, 0].figure
        figure.supxlabel("evaluations $t$")
        figure.supylabel("regret ratio  $R_t\\,/\\,R_t^{\\mathrm{unif}}$")


def cumulative_regret_panels(
    path: Path,
    panels: Mapping[str, Curves],
    uniform: Mapping[str, float],
    phase_one: Mapping[str, int],
    title: str,
) -> None:
    """Cumulative regret against t, with a panel for each function. A dotted line is the expected
    regret of the uniform policy (t times `uniform`), and a vertical line ends the `phase_one`
    evaluations, which are uniform."""
    label, colour, dashes = METHOD_STYLES["uniform"]
    with panels_of(path, panels, title) as grid:
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=True):
            steps = np.arange(1, len(next(iter(curves.values()))[0]) + 1)
            axes.plot(steps, steps * uniform[name], color=colour, linestyle=dashes, label=label)
            drawing.lines(axes, curves)
            axes.axvline(phase_one[name], color="0.8", linewidth=0.8, zorder=0)
            axes.set_title(f"${name[0]}_{name[1:]}$", loc="left")
            drawing.count_axis(axes)
            # methods that evaluate corners have a much larger regret
            axes.set_ylim(0, 1.5 * steps[-1] * uniform[name])
        grid.flat[0].set_ylabel("cumulative regret")


def tuning_panels(path: Path, panels: Mapping[str, Curves], phase_one: int, title: str) -> None:
    """Mean cumulative regret against t, with a panel for each classifier and a vertical line after
    the first `phase_one` evaluations. The 95% intervals of the last values are beside the curves,
    because bands of seven methods would overlap."""
    with panels_of(path, panels, title) as grid:
        for axes, (name, curves) in zip(grid.flat, panels.items(), strict=True):
            last = next(iter(curves.values()))[0][-1]
            drawing.lines(axes, curves, bands=False)
            drawing.end_intervals(axes, curves, last + 1.5)
            axes.axvline(phase_one, color="0.8", linewidth=0.8, zorder=0)
            axes.set_title(name, loc="left")
            axes.set_ylim(bottom=0)
            drawing.count_axis(axes)
            axes.set_xticks(np.arange(0, last + 1, 10))
        grid.flat[0].set_ylabel("cumulative regret (accuracy)")


def run_time(
    path: Path, curves: Curves, title: str, side_by_side: int, published: Published | None = None
) -> None:
    """Run time in seconds, without compilation, against t on log axes, with the fitted powers of t
    in the legend."""
    with single_axes(path, title, curves, published=published, slopes=True) as axes:
        drawing.log_axes(axes)
        seeds = "one seed" if side_by_side == 1 else f"{side_by_side} seeds side by side"
        axes.set_ylabel(f"run time of {seeds} (s)")


def streams(
    path: Path,
    curves: Curves,
    title: str,
    ylabel: str,
    xlabel: str,
    log: bool = False,
    slopes: bool = False,
) -> None:
    """A quantity along a stream, against examples or seconds. Without `log`, a curve that stops
    early ends in a dot."""
    with single_axes(path, title, curves, slopes=slopes) as axes:
        if log:
            drawing.log_axes(axes)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(drawing.COUNT_FORMAT)
        last = max(x[-1] for x, _ in curves.values())
        for name, (x, values) in curves.items():
            if x[-1] < last and not log:
                axes.scatter(x[-1], values.mean(0)[-1], color=style(name)[1], s=16)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)


def batch_size(path: Path, curves: Curves, title: str, published: Published | None = None) -> None:
    """Size of the batch that contains evaluation t, against t, on log axes."""
    with single_axes(path, title, curves, published=published) as axes:
        drawing.log_axes(axes)
        axes.set_ylabel("batch size (evaluations)")


def dictionary_size(path: Path, curves: Curves, title: str) -> None:
    """Inducing points (distinct arms, for exact posteriors) after evaluation t, against t."""
    with single_axes(path, title, curves) as axes:
        drawing.count_axis(axes)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("dictionary size (points)")
