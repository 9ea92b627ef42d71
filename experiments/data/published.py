"""The curves on the poster of the BBKB authors, extracted from its vector graphics.

`bbkb_poster_curves.csv` in the data folder has the columns panel, algorithm, t and value, and at
most 80 points a curve. It cannot be downloaded: without it figures are drawn without these curves.
"""

import csv
import io
from pathlib import Path

import numpy as np

from experiments.data.datasets import find_folder, read_verified

POSTER = "bbkb_poster_curves.csv"
POSTER_SHA256 = "f6cfe37bec6ec950f6d9efe2244ecb54284e236367ac3de38e32b7feb49a7062"
SOURCE = "poster.pdf of github.com/luigicarratino/batch-bkb, commit 3c23928"
# the poster's names of methods that have another name here
NAMES = {"async_ts": "ts", "eps_greedy": "eps_greedy_free"}

Curve = tuple[np.ndarray, np.ndarray]  # t [P], value [P]


def panel(name: str, data_dir: str | Path | None = None) -> dict[str, Curve]:
    """{algorithm: (t [P], value [P])} of a panel of the poster, such as "cadata_regret_ratio".
    Prints a line and returns an empty dict without the file. Raises ValueError for a file with
    another checksum and for an unknown panel."""
    path = find_folder(data_dir) / POSTER
    if not path.exists():
        print(
            f"NO PUBLISHED CURVES: {POSTER} ({SOURCE}) is not in the data folder; figures and"
            " tables are made without them.",
            flush=True,
        )
        return {}
    rows = list(csv.DictReader(io.StringIO(read_verified(path, POSTER_SHA256).decode())))
    points_by_algorithm: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["panel"] == name:
            algorithm = NAMES.get(row["algorithm"], row["algorithm"])
            points_by_algorithm.setdefault(algorithm, []).append(
                (float(row["t"]), float(row["value"]))
            )
    if not points_by_algorithm:
        panels = sorted({row["panel"] for row in rows})
        raise ValueError(f"{POSTER} has no panel {name!r}; it has {', '.join(panels)}.")
    tables = {name: np.array(sorted(points)) for name, points in points_by_algorithm.items()}
    return {name: (table[:, 0], table[:, 1]) for name, table in tables.items()}
