"""Figure 2 with one thing changed: GP acquisitions from uniform candidates, GO-UCB with eq. 7.

    python -m experiments.go_ucb_2023.variants --seeds 20 --out results/go_ucb_2023/variants

By default half of the candidates that an acquisition function is maximised from lie near the best
observed point; here all are uniform in the box (`GPBandit(sample_around_best=False)`). GO-UCB has
eq. 7's radius, all terms of it. The methods of Figure 2 stand beside them, the same seeds of them,
out of the tables of `synthetic`. Says, of regrets over the uniform policy's: a step of the whole
run, of the last ten steps, and of the point that Algorithm 1 returns, drawn uniformly from phase
II.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.figures.styles import label
from experiments.go_ucb_2023 import synthetic
from experiments.results import environment, outputs, summaries, tidy

NAMES = tuple(synthetic.VARIANTS)
DIGITS = 5


def row(regret: np.ndarray, function: str, uniform: float) -> dict[str, Any]:
    """What summary.json says of regrets [S, n + T]."""
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
    """{method: regrets [S, n + T]} of the first seeds that `synthetic` left in the folder.

    Raises ValueError when it holds fewer."""
    curves = tidy.load(folder).curves
    lines = tidy.lines(curves[curves["problem"] == function], "regret")
    fewest = min((len(values) for _, values in lines.values()), default=0)
    if fewest < seeds:
        raise ValueError(f"{folder} holds {fewest} seeds of {function}; {seeds} are compared.")
    return {name: values[:seeds] for name, (_, values) in lines.items()}


def print_table(functions: dict[str, Any]) -> None:
    for function, part in functions.items():
        print(f"\n{function}: regret ratio, last 10, uniform draw, simple regret")
        for name, found in part["algorithms"].items():
            cells = (f"{of['mean']:8.3f} +- {of['ci95'] or 0:5.3f}" for of in found.values())
            print(f"{label(name):34s}", *cells)


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    choices = list(synthetic.FUNCTIONS)
    parser.add_argument("--functions", nargs="+", choices=choices, default=choices)
    parser.add_argument("--algorithms", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", type=cli.count, default=20)
    parser.add_argument("--at-once", type=cli.count, default=10, help="seeds in one compiled run")
    parser.add_argument(
        "--figure2", type=Path, default=Path("results/go_ucb_2023/synthetic"), help="its tables"
    )
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    config = {
        f: {name: synthetic.configure(f, name) for name in options.algorithms}
        for f in options.functions
    }
    with outputs.opened(options, "go_ucb_2023.variants", config, options.seeds) as opened:
        functions: dict[str, Any] = {}
        for function in options.functions:
            uniform = synthetic.uniform_regret(function)
            beside = figure2(options.figure2, function, options.seeds)
            rows = {name: row(regret, function, uniform) for name, regret in beside.items()}
            for name in options.algorithms:
                runs = synthetic.run_algorithm(
                    config[function][name],
                    f"{function}-{name}",
                    options.out,
                    options.seeds,
                    options.at_once,
                )
                regret = np.stack([run["regret"] for run in runs])
                rows[name] = row(regret, function, uniform)
            functions[function] = dict(uniform_regret=uniform, algorithms=rows)
        first = config[options.functions[0]]
        opened.finish(
            dict(
                seeds=options.seeds,
                optimizers={name: one["optimizer"] for name, one in first.items()},
                functions=functions,
                **environment.describe(),
            ),
            [],
            "",
        )
    print_table(functions)


if __name__ == "__main__":
    main()
