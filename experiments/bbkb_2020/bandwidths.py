"""Figures 5 and 6 of the BBKB paper: regret ratio of all algorithms for one lengthscale shared by
all, six of them.

    python -m experiments.bbkb_2020.bandwidths --dataset abalone --out out/bandwidths_abalone

Everything else is as in `regret`. An interrupted run resumes with the missing seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments import cli
from experiments.bbkb_2020 import regret
from experiments.figures import plots
from experiments.results import outputs, tidy
from experiments.runs.bandit_runs import print_table, seeds_text, summarise, tidy_runs

LENGTHSCALES = (5.0, 7.5, 10.0, 12.5, 15.0, 17.5)


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    regret.add_options(parser, horizon=10_000)
    parser.add_argument("--lengthscales", type=cli.positive, nargs="+", default=LENGTHSCALES)
    options = parser.parse_args()
    if len(set(options.lengthscales)) < len(options.lengthscales):
        parser.error("--lengthscales names one of them twice")
    cli.set_up_jax()
    problem, source = regret.load(options)
    summary: dict[str, Any] = dict(
        config={name: regret.configure(name, options, 0.0) for name in options.algorithms},
        **regret.describe(options, source),
        lengthscales={},
    )
    table: list[tidy.Run] = []
    configs = {
        f"lengthscale_{lengthscale:g}": {
            name: regret.configure(name, options, lengthscale) for name in options.algorithms
        }
        for lengthscale in options.lengthscales
    }
    with outputs.opened(options, "bbkb_2020.bandwidths", configs, options.seeds) as opened:
        for lengthscale in options.lengthscales:
            runs = regret.run_all(problem, options, runs_of(options.out, lengthscale), lengthscale)
            rows = {name: summarise(found) for name, found in runs.items()}
            summary["lengthscales"][f"{lengthscale:g}"] = dict(algorithms=rows)
            table += tidy_runs(options.dataset, configs[f"lengthscale_{lengthscale:g}"], runs)
            print(f"\nlengthscale {lengthscale:g}")
            print_table(rows)
        title = f"{options.dataset}, {seeds_text(options)}, mean and 95% interval"
        opened.finish(summary, table, title)
        draw(options.out)
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and regret_ratio.png are in"
        f" {options.out}"
    )


def draw(out: Path) -> None:
    """regret_ratio.png from the tables in the folder: a panel for each lengthscale."""
    curves = tidy.load(out).curves
    panels = {
        f"lengthscale {lengthscale:g}": tidy.lines(part, "regret_ratio")
        for lengthscale, part in curves.groupby("lengthscale", sort=False)
    }
    plots.regret_ratio_panels(out / "regret_ratio.png", panels, curves.attrs["title"])


def runs_of(out: Path, lengthscale: float) -> Path:
    """Where the runs of one lengthscale are kept."""
    return out / "runs" / f"lengthscale_{lengthscale:g}"


if __name__ == "__main__":
    main()
