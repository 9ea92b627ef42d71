"""Figures of a sweep, from its tables: a heat map for each pair of swept numbers, or a curve along
a single one."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from experiments.figures.drawing import STYLE, save
from experiments.figures.styles import label
from experiments.results import summaries, tidy

RATIO = "regret ratio  $R_T\\,/\\,R_T^{\\mathrm{unif}}$"


def draw(folder: Path) -> list[str]:
    """Draws heat_map_ROWS_COLUMNS.png for each pair of numbers of the grid, or
    regret_ratio_NUMBER.png for a single number, and no figure for random draws. With several
    algorithms, each has its own figures, ALGORITHM_heat_map_.... Returns the names of the files."""
    summary, provenance = tidy.load(folder)[1:]
    names = summary["algorithm"].unique()
    if len(names) > 1:
        parts = {str(name): summary[summary["algorithm"] == name] for name in names}
        return [
            file
            for name, part in parts.items()
            for file in _draw(folder, part, provenance["config"], f"{name}_")
        ]
    return _draw(folder, summary, provenance["config"], "")


def _draw(folder: Path, summary: pd.DataFrame, config: dict[str, Any], prefix: str) -> list[str]:
    """`draw` for the runs of one algorithm, in files that begin with the prefix."""
    grid = swept_numbers(config, summary)
    title = f"{label(str(summary['algorithm'].iloc[0]))} on {summary['problem'].iloc[0]}"
    title += f", {int(summary['horizon'].iloc[0]):,} evaluations, {summary['seed'].nunique()} seeds"
    if len(grid) == 1:
        # the mean over seeds is NaN, and not drawn, where a run failed
        values = summary.pivot(index="seed", columns=grid[0], values="final_regret_ratio")
        if values.isna().any().all():
            return []
        name = f"{prefix}regret_ratio_{grid[0]}.png"
        along_number(folder / name, values.to_numpy(), list(values.columns), grid[0], title)
        return [name]
    names = []
    for rows, columns in combinations(grid, 2):
        other_numbers = [name for name in grid if name not in (rows, columns)]
        best = best_of_pairs(summary, rows, columns, other_numbers)
        mean = best.pivot(index=rows, columns=columns, values="mean")
        half_width = best.pivot(index=rows, columns=columns, values="half_width")
        if mean.isna().all(axis=None):  # every run failed
            continue
        heading = title if len(grid) == 2 else f"{title}\n(at the best values of the other numbers)"
        names.append(f"{prefix}heat_map_{rows}_{columns}.png")
        heat_map(folder / names[-1], mean, half_width, heading)
    return names


def swept_numbers(config: dict[str, object], summary: pd.DataFrame) -> list[str]:
    """The numbers that take several values on the grid, those with the fewest values first; empty
    if other numbers are drawn at random."""
    if any(name.startswith("random.") for name in config):
        return []
    names = [name.removeprefix("grid.") for name in config if name.startswith("grid.")]
    several = [name for name in names if summary[name].nunique() > 1]
    return sorted(several, key=lambda name: summary[name].nunique())


def best_of_pairs(
    summary: pd.DataFrame, rows: str, columns: str, other_numbers: list[str]
) -> pd.DataFrame:
    """The mean regret ratio over seeds and the half width of its 95% interval for each pair of
    values, at the best values of the other numbers. A mean is NaN if one of its runs failed."""
    ratio = summary["final_regret_ratio"].where(~summary["failed"].astype(bool), np.nan)
    means = (
        summary.assign(ratio=ratio)
        .groupby([rows, columns, *other_numbers])["ratio"]
        .agg(mean=lambda values: values.mean(skipna=False), half_width=summaries.ci95)
        .reset_index()
    )
    return means.sort_values("mean").groupby([rows, columns], as_index=False).head(1)


def heat_map(path: Path, mean: pd.DataFrame, half_width: pd.DataFrame, title: str) -> None:
    """Draws the mean for each pair of values of two hyperparameters, with the half width of its 95%
    interval, and a frame around the smallest mean. Missing means (NaN) stay white."""
    table, (n_rows, n_columns) = mean.to_numpy(), mean.shape
    size = (1.9 + 0.75 * max(n_columns, 3), 1.3 + 0.5 * max(n_rows, 2))  # inches
    with plt.rc_context(STYLE | {"figure.figsize": size, "axes.grid": False}):
        figure, axes = plt.subplots()
        image = axes.imshow(table, cmap="cividis", aspect="auto", origin="lower")
        middle = (np.nanmin(table) + np.nanmax(table)) / 2
        for (row, column), number in np.ndenumerate(table):
            if np.isfinite(number):
                error = half_width.iat[row, column]
                text = summaries.with_error(number, error).replace(" ±", "\n±")
                colour = "black" if number > middle else "white"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
        row, column = np.unravel_index(np.nanargmin(table), table.shape)
        corner = (float(column) - 0.5, float(row) - 0.5)
        frame = Rectangle(corner, 1, 1, fill=False, color="#D55E00", linewidth=2.5)
        frame.set_clip_on(False)
        axes.add_patch(frame)
        axes.set_xticks(range(n_columns), [f"{number:g}" for number in mean.columns])
        axes.set_yticks(range(n_rows), [f"{number:g}" for number in mean.index])
        axes.set_xlabel(mean.columns.name)
        axes.set_ylabel(mean.index.name)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(image, label=RATIO).outline.set_visible(False)
        save(figure, path, title)


def along_number(path: Path, values: np.ndarray, x: Sequence[float], name: str, title: str) -> None:
    """Draws the mean and 95% interval of final regret ratios [S,P] of S seeds against the values x
    [P] of a hyperparameter."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
        bars = [summaries.ci95(column) for column in values.T] if len(values) > 1 else None
        axes.errorbar(x, values.mean(0), bars, color="#0072B2", marker="o", markersize=4, capsize=2)
        if min(x) > 0 and max(x) / min(x) >= 10:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(name)
        axes.set_ylabel(RATIO)
        save(figure, path, title)
