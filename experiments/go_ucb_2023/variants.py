"""Figure 2 with one thing changed: GP acquisitions from uniform candidates, GO-UCB with eq. 7.

    python -m experiments.go_ucb_2023.variants --seeds 20 --out results/go_ucb_2023/variants

By default half of the candidates of an acquisition function lie near the best observed point; here
all are uniform in the box (`GPBandit(sample_around_best=False)`). GO-UCB has all terms of eq. 7's
radius. The methods of Figure 2 are compared on the same seeds, read from the tables of `synthetic`.
Reports regrets over the uniform policy's: per step of the whole run, of the last ten steps, and of
the point that Algorithm 1 returns, drawn uniformly from phase II.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.go_ucb_2023 import synthetic
from experiments.go_ucb_2023.loop import print_table
from experiments.results import outputs, summaries, tidy

DIGITS = 5


def row(regret: np.ndarray, function: str, uniform: float) -> dict[str, Any]:
    """The entry of regrets [S, n + T] in summary.json."""
    values = dict(
        regret_ratio=regret.mean(1) / uniform,
        ratio_last_10=regret[:, -10:].mean(1) / uniform,
        uniform_draw_ratio=synthetic.uniform_draw(regret, function) / uniform,
        simple_regret=regret.min(1),
    )
    return {
        name: dict(
            mean=round(float(v.mean()), DIGITS),
            ci95=round(summaries.ci95(v), DIGITS) if v.size > 1 else None,
        )
        for name, v in values.items()
    }


def figure2(folder: Path, function: str, seeds: int) -> dict[str, np.ndarray]:
    """{method: regrets [S, n + T]} of the first seeds in a folder of `synthetic`. Raises ValueError
    when it holds fewer."""
    curves = tidy.load(folder).curves
    lines = tidy.lines(curves[curves["problem"] == function], "regret")
    fewest = min((len(values) for _, values in lines.values()), default=0)
    if fewest < seeds:
        raise ValueError(f"{folder} holds {fewest} seeds of {function}; {seeds} are compared.")
    return {name: values[:seeds] for name, (_, values) in lines.items()}


def add_options(
    parser: argparse.ArgumentParser, algorithms: Sequence[str], seeds: int = 20
) -> None:
    """Adds the options of `synthetic`, and --figure2."""
    synthetic.add_options(parser, algorithms=algorithms, seeds=seeds)
    folder = Path("results/go_ucb_2023/synthetic")
    parser.add_argument("--figure2", type=Path, default=folder, help="folder of its tables")


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    add_options(parser, tuple(synthetic.VARIANTS))
    options = parser.parse_args()
    cli.set_up_jax()
    config = synthetic.configurations(options)
    with outputs.results_folder(options, "go_ucb_2023.variants", config, options.seeds) as results:
        functions: dict[str, Any] = {}
        for function in options.functions:
            uniform = synthetic.uniform_regret(function)
            rows = {
                name: row(regret, function, uniform)
                for name, regret in figure2(options.figure2, function, options.seeds).items()
            }
            for name, one in config[function].items():
                regret = synthetic.regrets(one, f"{function}-{name}", options)
                rows[name] = row(regret, function, uniform)
            functions[function] = dict(uniform_regret=uniform, algorithms=rows)
        first = config[options.functions[0]]
        optimizers = {name: one["optimizer"] for name, one in first.items()}
        results.write(dict(seeds=options.seeds, optimizers=optimizers, functions=functions))
    for function, part in functions.items():
        print_table(function, part["algorithms"])


if __name__ == "__main__":
    main()
