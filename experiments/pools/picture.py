"""Draws the best yield against the number of reactions on the library of direct arylation.

    python -m experiments.pools.picture --out out

The curves are means over the campaigns in results/pools/arylation_one_hot* with 95% intervals, and
the marks are published numbers (Shields et al., Nature 590, 2021).
"""

from pathlib import Path

import matplotlib.pyplot as plt

from experiments import cli
from experiments.figures.drawing import STYLE, line, save
from experiments.pools import published
from experiments.results import environment, files, tidy

POOL = "arylation_one_hot"
LARGEST_YIELD = 100.0  # of the best reaction, in percent
# folder, label, colour, dashes
CURVES = (
    (POOL, "jsketch", "#D55E00", "solid"),
    (f"{POOL}_random_forest", "random forest", "#0072B2", (0, (5, 1.5))),
    (f"{POOL}_random", "random reactions", "#000000", (0, (1, 1.5))),
)
# {method of published.ARYLATION: (label, marker, colour)}
MARKERS = {
    "EDBO (GP-EI, DFT)": ("EDBO, with quantum-chemical columns", "^", "#009E73"),
    "chemists": ("50 chemists", "s", "#CC79A7"),
}


def draw(root: Path, out: Path) -> None:
    """Writes arylation.png and arylation.svg into `out`, from the tables in `root`."""
    with plt.rc_context(STYLE | {"figure.figsize": (6.4, 3.4)}):
        figure, axes = plt.subplots()
        for folder, label, colour, dashes in CURVES:
            [(t, regret)] = tidy.lines(tidy.load(root / folder).curves, "simple_regret").values()
            line(axes, t, LARGEST_YIELD - regret, label, colour, dashes)
        for name, (label, marker, colour) in MARKERS.items():
            best_yields = published.ARYLATION[name]
            axes.plot(
                published.ARYLATION_AT, best_yields, marker, color=colour, markersize=5, label=label
            )
        axes.set_xlabel("reactions made, of 1,728")
        axes.set_ylabel("best yield so far (%)")
        axes.set_xlim(0, 76)
        axes.set_ylim(40, 102)
        axes.legend(loc="lower right")
        save(figure, out / "arylation.png")


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    folder = environment.ROOT / "results" / "pools"
    parser.add_argument("--results", type=Path, default=folder, help="folder of the campaigns")
    help_text = "folder of the picture (default out; results/pools replaces the one in the README)"
    parser.add_argument("--out", type=Path, default=Path("out"), help=help_text)
    options = parser.parse_args()
    files.check_folder(options.out)
    draw(options.results, options.out)
    print(f"{options.out / 'arylation.png'} is drawn.")
