"""Figures 5 and 6 of the BBKB paper: regret ratios when all algorithms have the same lengthscale,
for each of six lengthscales. All other settings are those of `regret`.

    python -m experiments.bbkb_2020.bandwidths --dataset abalone --out out/bandwidths_abalone
"""

from pathlib import Path
from typing import Any

from experiments import cli
from experiments.bbkb_2020 import regret
from experiments.bbkb_2020.methods import ALGORITHMS
from experiments.figures import plots
from experiments.results import outputs, summaries, tidy
from experiments.runs import bandit_runs

LENGTHSCALES = (5.0, 7.5, 10.0, 12.5, 15.0, 17.5)


def draw(out: Path) -> None:
    """Draws regret_ratio.png from the tables in the folder, with a panel for each lengthscale."""
    curves = tidy.load(out).curves
    panels = {
        f"lengthscale {lengthscale:g}": tidy.lines(part, "regret_ratio")
        for lengthscale, part in curves.groupby("lengthscale", sort=False)
    }
    plots.regret_ratio_panels(out / "regret_ratio.png", panels, curves.attrs["title"])


@cli.command
def main() -> None:
    parser = regret.parser(__doc__)
    parser.add_argument("--lengthscales", type=cli.positive, nargs="+", default=LENGTHSCALES)
    options = cli.parse(parser)
    problem, source = regret.load(options)
    configs = {
        f"lengthscale_{value:g}": regret.configure(options, value) for value in options.lengthscales
    }
    lengthscales: dict[str, Any] = {}
    table: list[tidy.Run] = []
    with outputs.results_folder(options, "bbkb_2020.bandwidths", configs, options.seeds) as results:
        for name, algorithm_configs in configs.items():
            folder, seeds = options.out / "runs" / name, bandit_runs.seeds_of(options)
            _, algorithms, runs = bandit_runs.run_all(
                lambda algorithm, c: ALGORITHMS[algorithm](c),
                *(problem, options.dataset, algorithm_configs, folder, seeds),
            )
            lengthscales[name.removeprefix("lengthscale_")] = dict(algorithms=algorithms)
            table += runs
            summaries.print_table(name, algorithms)
        summary = dict(
            # the configuration of all entries; 0.0 stands for their lengthscales
            config=regret.configure(options, lengthscale=0.0),
            **bandit_runs.shared_fields(options, source),
            lengthscales=lengthscales,
        )
        results.write(summary, table, regret.title(options))
        draw(options.out)
