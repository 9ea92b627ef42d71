"""Draws the figures of finished results again, from their tables.

python -m experiments.redraw results/bbkb_2020/abalone results/pkawv_2019
"""

import importlib
from pathlib import Path

from experiments import cli, commands
from experiments.results import tidy

# {experiment: module that defines its `draw`}, where the module has another name
MODULES = {
    "sweep": "sweep.heat_maps",
    "tables": "tables.aggregate",
}


def redraw(folder: Path) -> bool:
    """Draws the figures of a folder of results; returns False if its experiment has none. Raises
    ValueError if the tables lack data of the figures."""
    experiment = tidy.load(folder).curves.attrs.get("experiment", "")
    paper, _, name = experiment.partition(".")
    module = MODULES.get(experiment, f"{commands.EXPERIMENTS.get(paper, paper)}.{name}")
    if not (Path(__file__).parent / f"{module.replace('.', '/')}.py").exists():
        return False
    draw = getattr(importlib.import_module(f"experiments.{module}"), "draw", None)
    if draw is None:
        return False
    try:
        draw(folder)
    except (KeyError, IndexError) as error:
        raise ValueError(
            f"the tables in {folder} are not those of {experiment}: {error} is missing."
        ) from error
    return True


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders that contain results")
    options = parser.parse_args()
    for root in options.folders:
        result_folders = sorted(path.parent for path in root.rglob(tidy.CURVES))
        if not result_folders:
            raise ValueError(f"there are no results in {root}: no {tidy.CURVES}.")
        for folder in result_folders:
            print(f"{folder}: {'drawn' if redraw(folder) else 'its experiment has no figures'}")
