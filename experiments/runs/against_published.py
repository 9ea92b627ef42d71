"""Our curves and those of the BBKB authors' poster in a folder of results.

published.csv          metric, algorithm, t, value: the published curves, t counted as ours
against_published.csv  metric, algorithm, t, ours, published, ratio, at the evaluations AT
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
AT = (500, 1_000, 2_000, 5_000, 10_000)
# tolerance beyond the ends of a published curve, which is thinned to 80 points
REACH = 0.06

Panels = Mapping[str, Mapping[str, published.Curve]]  # {metric: {algorithm: (t [P], value [P])}}


def keep(
    folder: Path,
    panels: Mapping[str, str],
    initial: int,
    data_dir: str | None,
    scales: Mapping[str, float] | None = None,
) -> None:
    """Writes published.csv with the panels {metric: panel} of the poster, if its file is available.
    initial: evaluations that are subtracted from the poster's t; scales: factors of the values, by
    metric."""
    times = scales or {}
    rows = [
        (metric, name, f"{t - initial:.6g}", f"{value * times.get(metric, 1.0):.6g}")
        for metric, panel in panels.items()
        for name, (x, y) in published.panel(panel, data_dir).items()
        for t, value in zip(x, y, strict=True)
        if t > initial
    ]
    if rows:
        write(folder / CURVES, ("metric", "algorithm", "t", "value"), rows)


def kept(folder: Path) -> dict[str, dict[str, published.Curve]]:
    """The published curves in a folder of results; empty if there are none."""
    path = folder / CURVES
    if not path.exists():
        return {}
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in csv.DictReader(io.StringIO(path.read_text())):
        curves = found.setdefault(row["metric"], {})
        curves.setdefault(row["algorithm"], []).append((float(row["t"]), float(row["value"])))
    return {
        metric: {name: tuple(np.array(points).T) for name, points in curves.items()}
        for metric, curves in found.items()
    }


def compare(folder: Path, initial: int = 0) -> None:
    """Writes against_published.csv from the tables and the published curves in a folder, if there
    are any. The entries of methods that we did not run are empty."""
    panels, curves = kept(folder), tidy.load(folder).curves
    rows = []
    for metric, theirs in panels.items():
        ours = tidy.lines(curves, metric)
        for name, (x, y) in theirs.items():
            mine = ours.get(name) or (ours.get("sketched_ts") if name == "ts" else None)
            for total in AT:
                t = total - initial
                if t <= 0 or not x[0] * (1 - REACH) <= t <= x[-1] * (1 + REACH):
                    continue
                value = float(np.interp(t, x, y)) + 0.0  # no -0
                own = _at(mine, t)
                ratio = f"{own / value:.2f}" if own is not None and value > 0 else ""
                shown = "" if own is None else f"{own:.4g}"
                rows.append((metric, label(name), total, shown, f"{value:.4g}", ratio))
    if rows:
        head = ("metric", "algorithm", "t", "ours", "published", "ours / published")
        write(folder / TABLE, head, rows)


def _at(line: tuple[np.ndarray, np.ndarray] | None, t: float) -> float | None:
    """The mean over seeds at t; None if the run ended before."""
    if line is None or line[0][-1] < t:
        return None
    return float(np.interp(t, line[0], line[1].mean(0)))


def write(path: Path, head: tuple[str, ...], rows: Sequence[Sequence[object]]) -> None:
    """Writes a CSV table."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerows([head, *rows])
    files.write(path, buffer.getvalue().encode())
