"""A generated library of candidates, and runs of `jsketch-suggest` on its tables."""

import numpy as np
import pandas as pd

from jsketch.suggest.tables import outputs as command
from jsketch.suggest.tables.options import PREDICTED_COLUMNS, parse

A = 60  # candidates


def library(count=A):
    """Candidates with two columns of numbers."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(-1, 1, (count, 2)), columns=["size", "mass"])
    frame.insert(0, "id", [f"c{i}" for i in range(count)])
    return frame


def truth(frame):
    return np.cos(2 * frame["size"]) + frame["mass"]


def evaluations(frame, rows=range(0, A, 4)):
    rows = np.asarray(rows)
    return pd.DataFrame({"id": frame["id"][rows], "value": truth(frame)[rows]})


def write(path, frame):
    """Writes a table in the format of the path's suffix. Returns the path."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_excel(path, index=False)
    return str(path)


def run(tmp_path, candidates, observations=None, *more, ending=".csv", out="next.csv"):
    """The batch that the command writes for these tables."""
    arguments = [write(tmp_path / f"library{ending}", candidates)]
    arguments += ["--out", str(tmp_path / out)]
    if "--batch" not in more:
        arguments += ["--batch", "4"]
    if observations is not None:
        arguments += ["--observations", write(tmp_path / f"done{ending}", observations)]
    command.run(parse([*arguments, *more]))
    path = tmp_path / out
    batch = pd.read_csv(path) if path.suffix == ".csv" else pd.read_excel(path)
    path.unlink()
    return batch[[name for name in batch if name in ("id", *PREDICTED_COLUMNS)]]
