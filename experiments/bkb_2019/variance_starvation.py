"""Figure 2 of the BKB paper: posteriors of a GP on [0,1] that was evaluated on [0, 0.5] only.

    python -m experiments.bkb_2019.variance_starvation --out out/variance_starvation

The data are generated: f is a GP draw on a grid, t in {6, 63, 215} evaluations lie uniformly in [0,
0.5]. Four posteriors are compared: the exact GP, BKB's (DTC), the subset of regressors (SoR: BKB's
without its residual, same dictionary) and random Fourier features (as many as BKB has inducing
points). Quadrature Fourier features are in the numbers only.

The paper's "bandwidth sigma^2 = 100" makes a constant on [0,1] when read as a squared lengthscale;
it is read as its inverse, k = exp(-100 d^2 / 2), lengthscale 0.1. The curves of the authors' poster
have exp(-100 d^2): --lengthscale 0.0707. What the paper does not state is listed under "chosen" in
summary.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments import cli
from experiments.bkb_2019.posteriors import (
    EDGE,
    EVALUATIONS,
    GRID,
    LAM,
    LENGTHSCALE,
    NOISE_STD,
    QBAR,
    QFF_NODES,
    Outcome,
    Posterior,
    Setting,
    one,
)
from experiments.figures import drawing
from experiments.results import environment, outputs, summaries, tidy

CHOSEN = [
    "lengthscale",
    "noise_std",
    "regularization",
    "qbar",
    "width",
    "number of features",
    "grid",
]
METHODS = {  # label and colour
    "exact": ("exact GP", "#56B4E9"),
    "bkb": ("BKB (DTC)", "#009E73"),
    "sor": ("subset of\nregressors", "#E69F00"),
    "rff": ("random Fourier\nfeatures", "#D55E00"),
    "qff": ("quadrature\nFourier features", "#CC79A7"),
}
DRAWN = ("exact", "bkb", "sor", "rff")
DRAWN_TABLE = "posteriors.parquet"  # what the figure shows: seed 0


def measure(setting: Setting, posteriors: dict[str, Posterior]) -> dict[str, dict[str, float]]:
    """The numbers of every method, on the observed half and on the other."""
    unseen = np.asarray(setting.x[:, 0]) > EDGE
    truth = np.asarray(posteriors["exact"].std)
    found = {}
    for name in METHODS:
        mean, std = np.asarray(posteriors[name].mean), np.asarray(posteriors[name].std)
        ratio = std / truth
        found[name] = dict(
            smallest_std_unseen=float(std[unseen].min()),
            smallest_ratio_to_exact_unseen=float(ratio[unseen].min()),
            largest_ratio_to_exact_unseen=float(ratio[unseen].max()),
            smallest_ratio_to_exact_seen=float(ratio[~unseen].min()),
            largest_ratio_to_exact_seen=float(ratio[~unseen].max()),
            share_of_f_outside_3_std_unseen=float(
                (np.abs(mean - setting.f) > 3 * std + 1e-9)[unseen].mean()
            ),
        )
    return found


def summarise(rows: list[dict[str, dict[str, float]]], sizes: list[int]) -> dict[str, Any]:
    """Mean, 95% interval and values over seeds of every number."""
    methods = {
        name: {
            field: summaries.describe([row[name][field] for row in rows], ci=True)
            for field in rows[0][name]
        }
        for name in METHODS
    }
    return dict(inducing_points=summaries.describe(sizes), methods=methods)


def tidy_runs(config: dict[str, Any], numbers: dict[str, Any], seeds: int) -> list[tidy.Run]:
    """The numbers of every method and seed as `tidy.write` takes them, against t."""
    first = next(iter(numbers.values()))["methods"]
    rows = [
        (
            name,
            seed,
            {
                field: np.array(
                    [part["methods"][name][field]["values"][seed] for part in numbers.values()]
                )
                for field in first[name]
            },
        )
        for name in first
        for seed in range(seeds)
    ]
    t = np.array([int(name) for name in numbers])
    sizes = np.array([part["inducing_points"]["values"] for part in numbers.values()])
    return [
        tidy.Run(
            dict(problem="gp_draw", algorithm=name, **config),
            seed,
            dict(t=t, dictionary=sizes[:, seed], **fields),
        )
        for name, seed, fields in rows
    ]


def table_of(columns: dict[int, Outcome]) -> pd.DataFrame:
    """What the figure shows: (t, series, x, value, sd) of f, the evaluations, the inducing points
    and the posteriors."""
    parts = []
    for t, (setting, posteriors, inducing) in columns.items():
        x = np.asarray(setting.x[:, 0])
        series: dict[str, tuple[Any, Any, Any]] = dict(
            f=(x, setting.f, np.nan),
            evaluations=(x[np.asarray(setting.arms)], setting.y, np.nan),
            inducing_points=(x[inducing], np.nan, np.nan),
        )
        series |= {name: (x, posteriors[name].mean, posteriors[name].std) for name in DRAWN}
        for name, (at, value, sd) in series.items():
            parts.append(
                pd.DataFrame(
                    dict(t=t, series=name, x=at, value=np.asarray(value), sd=np.asarray(sd))
                )
            )
    return pd.concat(parts, ignore_index=True).astype({"series": "category"})


def draw(folder: Path) -> None:
    """variance_starvation.png from the table in the folder: a column for each t, a row for each
    method."""
    table = tidy.read_table(folder / DRAWN_TABLE)
    times = table["t"].unique()
    with plt.rc_context(drawing.STYLE | {"figure.figsize": (7.6, 6.4), "axes.grid": False}):
        figure, grid = plt.subplots(len(DRAWN), len(times), sharex=True, sharey=True, squeeze=False)
        grid[0, 0].set_ylim(-4.2, 4.2)
        for column, t in enumerate(times):
            part = {
                name: rows for name, rows in table[table["t"] == t].groupby("series", observed=True)
            }
            grid[0, column].set_title(
                f"$t = {t}$, {len(part['inducing_points'])} inducing points", loc="left"
            )
            for axes, name in zip(grid[:, column], DRAWN, strict=True):
                _panel(axes, part, name)
        for axes, name in zip(grid[:, 0], DRAWN, strict=True):
            axes.set_ylabel(METHODS[name][0])
        for axes in grid[-1]:
            axes.set_xlabel("$x$")
        figure.suptitle(
            "GP draw (black), evaluations (dots), posterior mean ± 3 sd; dashed: prior; grey:"
            " unseen; triangles: dictionary",
            fontsize=8,
        )
        drawing.save(figure, folder / "variance_starvation.png")


def _panel(axes: Axes, part: dict[Any, pd.DataFrame], name: str) -> None:
    """One posterior with f, the evaluations, and BKB's inducing points where the method has
    them."""
    axes.axvspan(EDGE, 1, color="0.96", linewidth=0)
    for edge in (-3, 3):
        axes.axhline(edge, color="0.75", linewidth=0.7, linestyle=(0, (3, 2)))
    shown = part[name]
    drawing.posterior(axes, shown["x"], shown["value"], shown["sd"], METHODS[name][1])
    axes.plot(part["f"]["x"], part["f"]["value"], color="black", linewidth=0.9)
    seen = part["evaluations"]
    axes.plot(seen["x"], seen["value"], ".", color="0.25", markersize=2.5, alpha=0.7)
    if name in ("bkb", "sor"):
        drawing.dictionary_marks(axes, part["inducing_points"]["x"])


def print_table(numbers: dict[str, Any]) -> None:
    print(
        f"{'t':>4s} {'method':28s} {'min sd (0.5,1]':>15s} {'min ratio':>10s}"
        f" {'f outside 3 sd':>15s}"
    )
    for t, row in numbers.items():
        for name, fields in row["methods"].items():
            values = [
                fields[f]["mean"]
                for f in (
                    "smallest_std_unseen",
                    "smallest_ratio_to_exact_unseen",
                    "share_of_f_outside_3_std_unseen",
                )
            ]
            label = METHODS[name][0].replace("\n", " ")
            print(f"{t:>4s} {label:28s} {values[0]:15.4f} {values[1]:10.4f} {values[2]:15.1%}")


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--seeds",
        type=cli.count,
        default=20,
        help="GP draws of the numbers; the figure shows seed 0",
    )
    parser.add_argument("--lengthscale", type=cli.positive, default=LENGTHSCALE)
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    print("data: generated (GP draws)")
    config = dict(
        kernel="Gaussian",
        lengthscale=options.lengthscale,
        noise_std=NOISE_STD,
        regularization=LAM,
        qbar=QBAR,
        grid=GRID,
        evaluations=EVALUATIONS,
        observed=[0, EDGE],
        features="random: as many as BKB has inducing points; quadrature: nodes",
        quadrature_nodes=QFF_NODES,
        root_seed=0,
        chosen=CHOSEN,
    )
    with outputs.opened(
        options, "bkb_2019.variance_starvation", config | dict(draws=options.seeds)
    ) as opened:
        columns, numbers = {}, {}
        for t in EVALUATIONS:
            found = [one(seed, t, options.lengthscale) for seed in range(options.seeds)]
            columns[t] = found[0]
            rows = [measure(outcome.setting, outcome.posteriors) for outcome in found]
            numbers[str(t)] = summarise(rows, [len(outcome.inducing) for outcome in found])
        summary = dict(
            config=config,
            seeds=options.seeds,
            data="generated",
            **environment.describe(),
            evaluations=numbers,
        )
        title = "GP draws evaluated on [0, 0.5]"
        opened.finish(summary, tidy_runs(config, numbers, options.seeds), title)
        tidy.write_table(options.out / DRAWN_TABLE, table_of(columns))
        draw(options.out)
    print_table(numbers)
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and variance_starvation.png are in"
        f" {options.out}"
    )


if __name__ == "__main__":
    main()
