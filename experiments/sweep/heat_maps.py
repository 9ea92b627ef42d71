"""Figures of a sweep, from its tables: a heat map for each pair of swept numbers, or a curve along
the only one."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.figures import hyperparameters
from experiments.figures.styles import label
from experiments.results import summaries, tidy


def draw(folder: Path) -> list[str]:
    """Draws heat_map_ROWS_COLUMNS.png for each pair of numbers of the grid (regret_ratio_NUMBER.png
    for a single one); the names of what was drawn, none for a sweep of random ranges alone."""
    summary, provenance = tidy.load(folder)[1:]
    grid = swept(provenance["config"], summary)
    title = f"{label(str(summary['algorithm'].iloc[0]))} on {summary['problem'].iloc[0]}"
    title += f", {int(summary['horizon'].iloc[0]):,} evaluations, {summary['seed'].nunique()} seeds"
    if len(grid) == 1:
        values = summary.pivot_table(
            index="seed", columns=grid[0], values="final_regret_ratio"
        ).dropna()
        if values.empty:  # no seed was finite at every value
            return []
        drawn = f"regret_ratio_{grid[0]}.png"
        hyperparameters.along_number(
            folder / drawn, values.to_numpy(), list(values.columns), grid[0], title
        )
        return [drawn]
    names = []
    for rows, columns in combinations(grid, 2):
        best = best_of_pairs(
            summary, rows, columns, [name for name in grid if name not in (rows, columns)]
        )
        mean = best.pivot(index=rows, columns=columns, values="mean")
        half = best.pivot(index=rows, columns=columns, values="half")
        if mean.isna().all(axis=None):  # every run failed
            continue
        note = title if len(grid) == 2 else f"{title}\n(the best of the other numbers)"
        names.append(f"heat_map_{rows}_{columns}.png")
        hyperparameters.heat_map(
            folder / names[-1],
            mean.to_numpy(),
            mean.index,
            mean.columns,
            (rows, columns),
            note,
            half.to_numpy(),
        )
    return names


def swept(config: dict[str, object], summary: pd.DataFrame) -> list[str]:
    """The numbers of the grid that take several values, fewest values first: the rows of a heat
    map; none when other numbers were drawn at random, which a grid cannot show."""
    if any(name.startswith("random.") for name in config):
        return []
    names = [name.removeprefix("grid.") for name in config if name.startswith("grid.")]
    several = [name for name in names if summary[name].nunique() > 1]
    return sorted(several, key=lambda name: summary[name].nunique())


def best_of_pairs(
    summary: pd.DataFrame, rows: str, columns: str, others: list[str]
) -> pd.DataFrame:
    """Mean regret ratio over seeds and its half interval for each pair, at the best values of the
    other numbers; runs that failed have none."""
    ratio = summary["final_regret_ratio"].where(~summary["failed"].astype(bool), np.nan)
    means = (
        summary.assign(ratio=ratio)
        .groupby([rows, columns, *others])["ratio"]
        .agg(mean=lambda values: values.mean(skipna=False), half=summaries.ci95)
        .reset_index()
    )
    return means.sort_values("mean").groupby([rows, columns], as_index=False).first()
