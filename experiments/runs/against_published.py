"""Our curves and those of the BBKB authors' poster in a folder of results.

published.csv          metric, algorithm, t, value: the published curves, with t as in our runs
against_published.csv  metric, algorithm, t, ours, published, ratio, at each t of COMPARED_T
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.data import published
from experiments.figures.styles import label
from experiments.results import files, tidy

CURVES, TABLE = "published.csv", "against_published.csv"
# the T of the comparison, including initial evaluations
COMPARED_T = (500, 1_000, 2_000, 5_000, 10_000)
# tolerance beyond the ends of a published curve, which is thinned to 80 points
REACH = 0.06


def write_curves(
    folder: Path,
    panels: Mapping[str, str],
    initial: int,
    data_dir: str | None,
    scales: Mapping[str, float] | None = None,
) -> None:
    """Writes published.csv with the panels {metric: panel} of the poster, if its file is available.
    initial: number of initial evaluations, which is subtracted from t; scales: factors of the
    values, by metric."""
    factors = scales or {}
    rows = [
        (metric, name, f"{t - initial:.6g}", f"{value * factors.get(metric, 1.0):.6g}")
        for metric, panel in panels.items()
        for name, (x, y) in published.panel(panel, data_dir).items()
        for t, value in zip(x, y, strict=True)
        if t > initial
    ]
    if rows:
        write_csv(folder / CURVES, ("metric", "algorithm", "t", "value"), rows)


def read_curves(folder: Path) -> dict[str, dict[str, published.Curve]]:
    """{metric: {method: curve}} of published.csv in a folder; empty if there is no such file."""
    path = folder / CURVES
    if not path.exists():
        return {}
    points_by_metric: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in csv.DictReader(io.StringIO(path.read_text())):
        curves = points_by_metric.setdefault(row["metric"], {})
        curves.setdefault(row["algorithm"], []).append((float(row["t"]), float(row["value"])))
    return {
        metric: {name: tuple(np.array(points).T) for name, points in curves.items()}
        for metric, curves in points_by_metric.items()
    }


def compare(folder: Path, initial: int = 0) -> None:
    """Writes against_published.csv from the tables and the published curves in a folder. It writes
    nothing without published curves; the entries of methods without runs are empty."""
    panels, curves = read_curves(folder), tidy.load(folder).curves
    rows = []
    for metric, theirs in panels.items():
        ours = tidy.lines(curves, metric)
        for name, (x, y) in theirs.items():
            our_curve = ours.get(name) or (ours.get("sketched_ts") if name == "ts" else None)
            for total in COMPARED_T:
                t = total - initial
                if t <= 0 or not x[0] * (1 - REACH) <= t <= x[-1] * (1 + REACH):
                    continue
                value = float(np.interp(t, x, y)) + 0.0  # no -0
                our_value = _mean_at(our_curve, t)
                ratio = f"{our_value / value:.2f}" if our_value is not None and value > 0 else ""
                our_text = "" if our_value is None else f"{our_value:.4g}"
                rows.append((metric, label(name), total, our_text, f"{value:.4g}", ratio))
    if rows:
        head = ("metric", "algorithm", "t", "ours", "published", "ours / published")
        write_csv(folder / TABLE, head, rows)


def _mean_at(line: tuple[np.ndarray, np.ndarray] | None, t: float) -> float | None:
    """The mean over seeds at t; None if the run ends before t."""
    if line is None or line[0][-1] < t:
        return None
    return float(np.interp(t, line[0], line[1].mean(0)))


def write_csv(path: Path, head: tuple[str, ...], rows: Sequence[Sequence[object]]) -> None:
    """Writes a CSV table."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerows([head, *rows])
    files.write(path, buffer.getvalue().encode())
