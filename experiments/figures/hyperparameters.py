"""Figures of sweeps: a number for each pair of two hyperparameters, or along one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from experiments.figures.drawing import STYLE, save
from experiments.results import summaries


def heat_map(
    path: Path,
    table: np.ndarray,
    rows: Sequence[float],
    columns: Sequence[float],
    names: tuple[str, str],
    title: str,
    half: np.ndarray | None = None,
    value: str = "regret ratio  $R_T\\,/\\,R_T^{\\mathrm{unif}}$",
) -> None:
    """A number [R,C] for each pair of two hyperparameters, `names` of (rows, columns); the least
    one framed. `half` [R,C] is the half width of its 95% interval. Values that are missing (NaN)
    are left white."""
    size = {
        "figure.figsize": (1.9 + 0.75 * max(len(columns), 3), 1.3 + 0.5 * max(len(rows), 2)),
        "axes.grid": False,
    }
    with plt.rc_context(STYLE | size):
        figure, axes = plt.subplots()
        drawn = axes.imshow(table, cmap="cividis", aspect="auto", origin="lower")
        middle = (np.nanmin(table) + np.nanmax(table)) / 2
        for (row, column), number in np.ndenumerate(table):
            if np.isfinite(number):
                wide = (
                    ""
                    if half is None or not np.isfinite(half[row, column])
                    else f"\n± {half[row, column]:.2g}"
                )
                ink = "black" if number > middle else "white"
                axes.text(
                    column,
                    row,
                    f"{number:.3g}{wide}",
                    ha="center",
                    va="center",
                    color=ink,
                    fontsize=7,
                )
        if np.isfinite(table).any():
            row, column = np.unravel_index(np.nanargmin(table), table.shape)
            frame = Rectangle(
                (float(column) - 0.5, float(row) - 0.5),
                1,
                1,
                fill=False,
                color="#D55E00",
                linewidth=2.5,
            )
            frame.set_clip_on(False)
            axes.add_patch(frame)
        axes.set_xticks(range(len(columns)), [f"{number:g}" for number in columns])
        axes.set_yticks(range(len(rows)), [f"{number:g}" for number in rows])
        axes.set_xlabel(names[1])
        axes.set_ylabel(names[0])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(drawn, label=value).outline.set_visible(False)
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        save(figure, path)


def along_number(path: Path, values: np.ndarray, x: Sequence[float], name: str, title: str) -> None:
    """Final regret ratio against one hyperparameter, of values [S,P] of S seeds at its values x
    [P]: mean and 95% band."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        mean = values.mean(0)
        half = [summaries.ci95(column) for column in values.T]
        axes.errorbar(
            x,
            mean,
            half if len(values) > 1 else None,
            color="#0072B2",
            marker="o",
            markersize=4,
            capsize=2,
        )
        if min(x) > 0 and max(x) / min(x) >= 10:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(name)
        axes.set_ylabel("regret ratio  $R_T\\,/\\,R_T^{\\mathrm{unif}}$")
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        save(figure, path)
