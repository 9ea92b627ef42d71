"""Writes library.csv and done.csv of this folder: 300 synthetic reactions, and the yields of some.

    python -m experiments.suggest.example.make

The yield in percent is 5 + 85 exp(-((T - 80)/25)^2/2 - log(h/8)^2/2 - ((c - 4)/3)^2/2) at T
degrees, h hours and c percent of catalyst; a measurement adds noise of standard deviation 1.5. 24
reactions were measured, one of them twice.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments import cli
from experiments.results import files

FOLDER = Path(__file__).parent
REACTIONS, MEASURED, NOISE = 300, 24, 1.5


def tables() -> dict[str, pd.DataFrame]:
    """The tables by their file names."""
    random = np.random.default_rng(0)
    library = pd.DataFrame(
        {
            "id": [f"r{i:03d}" for i in range(1, REACTIONS + 1)],
            "temperature": random.uniform(20, 120, REACTIONS).round(1),
            "hours": np.exp(random.uniform(np.log(0.5), np.log(24), REACTIONS)).round(2),
            "catalyst": random.uniform(0.5, 10, REACTIONS).round(2),
        }
    )
    rows = random.choice(REACTIONS, MEASURED, replace=False)
    rows = np.append(rows, rows[0])
    t, h, c = (library[name].to_numpy()[rows] for name in ("temperature", "hours", "catalyst"))
    exponent = (((t - 80) / 25) ** 2 + np.log(h / 8) ** 2 + ((c - 4) / 3) ** 2) / 2
    value = 5 + 85 * np.exp(-exponent) + NOISE * random.standard_normal(len(rows))
    return {
        "library.csv": library,
        "done.csv": pd.DataFrame({"id": library["id"].to_numpy()[rows], "value": value.round(1)}),
    }


@cli.command
def main() -> None:
    for name, table in tables().items():
        files.write(FOLDER / name, table.to_csv(index=False).encode())


if __name__ == "__main__":
    main()
