"""Comparison of the curves in a folder of results with those of the BBKB authors' poster.

published.csv          metric, algorithm, t, value: the published curves, with t as in our runs
against_published.csv  metric, algorithm, t of COMPARED_T, ours, published, ours / published

The file bbkb_poster_curves.csv of the data folder has the published curves, extracted from the
vector graphics of the poster, with at most 80 points a curve. It cannot be downloaded; figures lack
the published curves if it is missing.
"""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.data import datasets
from experiments.figures.styles import label
from experiments.results import tidy

POSTER = datasets.Source(
    "bbkb_poster_curves.csv",
    "f6cfe37bec6ec950f6d9efe2244ecb54284e236367ac3de38e32b7feb49a7062",
    text=False,
)
SOURCE = "poster.pdf of github.com/luigicarratino/batch-bkb, commit 3c23928"
# the poster's names of methods that have another name here
NAMES = {"async_ts": "ts", "eps_greedy": "eps_greedy_free"}
CURVES, TABLE = "published.csv", "against_published.csv"
# numbers of evaluations at which curves are compared, including initial evaluations
COMPARED_T = (500, 1_000, 2_000, 5_000, 10_000)
# share of t by which a published curve, thinned to 80 points, is continued beyond its ends
REACH = 0.06

Curve = tuple[np.ndarray, np.ndarray]  # t [P], value [P]


def panel(name: str, data_dir: str | Path | None = None) -> dict[str, Curve]:
    """{algorithm: curve} of a panel of the poster, such as "cadata_regret_ratio". If the file is
    missing, prints a message and returns an empty dict. Raises ValueError for a file with another
    checksum and for an unknown panel."""
    folder = datasets.find_folder(data_dir)
    if not (folder / POSTER.filename).exists():
        print(
            f"NO PUBLISHED CURVES: {POSTER.filename} ({SOURCE}) is not in the data folder; figures"
            " and tables are made without them.",
            flush=True,
        )
        return {}
    table = _read_csv(io.BytesIO(datasets.read(POSTER, folder)))
    rows = table[table["panel"] == name]
    if rows.empty:
        panels = ", ".join(sorted(table["panel"].unique()))
        raise ValueError(f"{POSTER.filename} has no panel {name!r}; it has {panels}.")
    curves = _curves(rows.sort_values(["t", "value"]))
    return {NAMES.get(method, method): curves[method] for method in rows["algorithm"].unique()}


def _read_csv(file: Path | io.BytesIO) -> pd.DataFrame:
    # the parser of pandas may round a number differently from `float`
    return pd.read_csv(file, dtype=str).astype(dict(t=float, value=float))


def _curves(rows: pd.DataFrame) -> dict[str, Curve]:
    """{algorithm: curve} of a table with columns algorithm, t and value."""
    return {
        str(name): (part["t"].to_numpy(), part["value"].to_numpy())
        for name, part in rows.groupby("algorithm", sort=False)
    }


def write_curves(
    folder: Path,
    panels: Mapping[str, str],
    initial: int,
    data_dir: str | Path | None,
    scales: Mapping[str, float] | None = None,
) -> None:
    """Writes published.csv with the panels {metric: panel} of the poster, if the file of the poster
    is available. initial: number of initial evaluations, which is subtracted from t; scales:
    {metric: factor of the values}."""
    factors = scales or {}
    rows = [
        (metric, name, f"{t - initial:.6g}", f"{value * factors.get(metric, 1.0):.6g}")
        for metric, panel_name in panels.items()
        for name, (x, y) in panel(panel_name, data_dir).items()
        for t, value in zip(x, y, strict=True)
        if t > initial
    ]
    if rows:
        tidy.write_csv(folder / CURVES, rows, ("metric", "algorithm", "t", "value"))


def read_curves(folder: Path) -> dict[str, dict[str, Curve]]:
    """{metric: {method: curve}} of published.csv in a folder; empty if there is no such file."""
    path = folder / CURVES
    if not path.exists():
        return {}
    metrics = _read_csv(path).groupby("metric", sort=False)
    return {str(metric): _curves(rows) for metric, rows in metrics}


def compare(folder: Path, initial: int = 0) -> None:
    """Writes against_published.csv from the tables and the published curves in a folder, or nothing
    if there are no published curves; the entries of methods without runs are empty."""
    published, curves = read_curves(folder), tidy.load(folder).curves
    rows = []
    for metric, published_curves in published.items():
        our_curves = tidy.lines(curves, metric)
        for name, (x, y) in published_curves.items():
            our_curve = our_curves.get(name)
            if name == "ts" and our_curve is None:  # sketched TS stands in for exact TS
                our_curve = our_curves.get("sketched_ts")
            for total in COMPARED_T:
                t = total - initial
                if t <= 0 or not x[0] * (1 - REACH) <= t <= x[-1] * (1 + REACH):
                    continue
                published_value = float(np.interp(t, x, y)) + 0.0  # + 0.0 turns -0.0 into 0.0
                our_text = ratio = ""
                # a run may end before t
                if our_curve is not None and our_curve[0][-1] >= t:
                    our_value = float(np.interp(t, our_curve[0], our_curve[1].mean(0)))
                    our_text = f"{our_value:.4g}"
                    ratio = f"{our_value / published_value:.2f}" if published_value > 0 else ""
                rows.append((metric, label(name), total, our_text, f"{published_value:.4g}", ratio))
    if rows:
        head = ("metric", "algorithm", "t", "ours", "published", "ours / published")
        tidy.write_csv(folder / TABLE, rows, head)
