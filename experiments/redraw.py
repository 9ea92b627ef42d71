"""Draws the figures of finished results again, from their tables.

python -m experiments.redraw results/bbkb_2020/abalone results/pkawv_2019
"""

from collections.abc import Callable
from pathlib import Path

from experiments import cli
from experiments.bbkb_2020 import bandwidths, nas_bench_101, regret, settings_tried, widths
from experiments.bkb_2019 import linear, variance_starvation
from experiments.contrib import (
    clients,
    contextual,
    drift,
    drifting_arms,
    few_batches,
    unknown,
    width_coverage,
)
from experiments.go_ucb_2023 import synthetic, tuning
from experiments.pkawv_2019 import adversarial, large_scale, rates
from experiments.results import tidy
from experiments.sweep import heat_maps
from experiments.tables import aggregate


def draw_boxes(folder: Path) -> None:
    """Draws the figures of `go_ucb_2023.synthetic`."""
    curves, _, provenance = tidy.load(folder)
    runs, uniform = {}, {}
    for function, part in curves.groupby("problem", observed=True, sort=False):
        lines = tidy.lines(part, "regret")
        runs[str(function)] = {
            n: [dict(regret=row) for row in values] for n, (_, values) in lines.items()
        }
        uniform[str(function)] = provenance["functions"][function]["uniform_regret"]
    synthetic.draw(folder, runs, uniform, curves["seed"].nunique())


DRAW: dict[str, Callable[[Path], object]] = {
    "bbkb_2020.regret": regret.draw,
    "bbkb_2020.bandwidths": bandwidths.draw,
    "bbkb_2020.nas_bench_101": nas_bench_101.draw,
    "bbkb_2020.widths": widths.draw,
    "bbkb_2020.settings_tried": settings_tried.draw,
    "beyond.clients": clients.draw,
    "beyond.contextual": contextual.draw,
    "beyond.drift": drift.draw,
    "beyond.drifting_arms": drifting_arms.draw,
    "beyond.few_batches": few_batches.draw,
    "beyond.unknown": unknown.draw,
    "beyond.width_coverage": width_coverage.draw,
    "bkb_2019.linear": linear.draw,
    "bkb_2019.variance_starvation": variance_starvation.draw,
    "pkawv_2019.adversarial": adversarial.draw,
    "pkawv_2019.large_scale": large_scale.draw,
    "pkawv_2019.rates": rates.draw,
    "go_ucb_2023.synthetic": draw_boxes,
    "go_ucb_2023.tuning": tuning.redraw,
    "sweep": heat_maps.draw,
    "tables": aggregate.draw,
    "tables.streams": large_scale.draw,
}


def redraw(folder: Path) -> bool:
    """Draws the figures of the experiment of a folder; False if it has none. Raises ValueError for
    tables without the data of the figures."""
    experiment = tidy.load(folder).curves.attrs.get("experiment")
    if experiment not in DRAW:
        return False
    try:
        DRAW[experiment](folder)
    except (KeyError, IndexError) as error:
        raise ValueError(
            f"the tables in {folder} are not those of {experiment}: {error} is missing."
        ) from error
    return True


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of results, or above them")
    options = parser.parse_args()
    for root in options.folders:
        result_folders = sorted(path.parent for path in root.rglob(tidy.CURVES))
        if not result_folders:
            raise ValueError(f"there are no results in {root}: no {tidy.CURVES}.")
        for folder in result_folders:
            print(f"{folder}: {'drawn' if redraw(folder) else 'its experiment has no figures'}")
