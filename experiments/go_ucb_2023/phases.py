"""GO-UCB with other lengths of its two phases: n uniform points, then T optimistic steps.

    python -m experiments.go_ucb_2023.phases --out results/go_ucb_2023/phases

The paper's theorem has n = sqrt(T), and Figure 2 n = 8 and T = 64 on f2 and f3. Here n is 4 to 32
at T = 64, and T is 16 and 144 at n = sqrt(T). GP-PI, the other good method of Figure 2, stands
beside it on the same points. Says the regret a step over the uniform policy's, of the whole run
(phase I counts) and of phase II, and the simple regret.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import cli
from experiments.figures.styles import label
from experiments.go_ucb_2023 import synthetic
from experiments.results import environment, outputs, summaries

FUNCTIONS = ("f2", "f3")
METHODS = ("go_ucb", "gp_pi")
PHASES = ((4, 64), (8, 64), (16, 64), (32, 64), (4, 16), (12, 144))  # n, T


def row(regret: np.ndarray, n: int, uniform: float) -> dict[str, Any]:
    """What summary.json says of regrets [S, n + T]."""
    return dict(
        regret_ratio=summaries.describe(regret.mean(1) / uniform, ci=True),
        phase_two_ratio=summaries.describe(regret[:, n:].mean(1) / uniform, ci=True),
        simple_regret=summaries.describe(regret.min(1), ci=True),
    )


def print_row(function: str, n: int, steps: int, method: str, found: dict[str, Any]) -> None:
    widths = (one["ci95"] for one in found.values())
    cells = (
        f"{one['mean']:8.3f}{'' if width is None else f' +- {width:.3f}':>11s}"
        for one, width in zip(found.values(), widths, strict=True)
    )
    print(f"{function} {n:3d} {steps:4d}  {label(method):8s}", *cells, flush=True)


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    choices = list(synthetic.FUNCTIONS)
    parser.add_argument("--functions", nargs="+", choices=choices, default=list(FUNCTIONS))
    parser.add_argument(
        "--algorithms", nargs="+", choices=list(synthetic.OPTIMIZERS), default=list(METHODS)
    )
    parser.add_argument("--n", nargs="+", type=cli.count, help="phase I; with --steps")
    parser.add_argument("--steps", nargs="+", type=cli.count, help="T of each --n")
    parser.add_argument("--seeds", type=cli.count, default=10)
    parser.add_argument("--at-once", type=cli.count, default=10, help="seeds in one compiled run")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    if len(options.n or ()) != len(options.steps or ()):
        parser.error("--n and --steps are pairs: give as many of one as of the other")
    phases = list(zip(options.n, options.steps, strict=True)) if options.n else list(PHASES)
    cli.set_up_jax()
    configs = {
        f: {
            "n={}, T={}".format(*pair): {
                m: synthetic.configure(f, m, pair) for m in options.algorithms
            }
            for pair in phases
        }
        for f in options.functions
    }
    with outputs.opened(options, "go_ucb_2023.phases", configs, options.seeds) as opened:
        print("function, n, T, method: regret ratio, of phase II, simple regret")
        functions: dict[str, Any] = {}
        for function, settings in configs.items():
            uniform = synthetic.uniform_regret(function)
            functions[function] = dict(uniform_regret=uniform, phases={})
            for name, methods in settings.items():
                rows = functions[function]["phases"][name] = {}
                for method, config in methods.items():
                    saved = f"{function}-{config['n']}-{config['T']}-{method}"
                    runs = synthetic.run_algorithm(
                        config, saved, options.out, options.seeds, options.at_once
                    )
                    regret = np.stack([run["regret"] for run in runs])
                    rows[method] = row(regret, config["n"], uniform)
                    print_row(function, config["n"], config["T"], method, rows[method])
        summary = dict(
            config=configs, seeds=options.seeds, functions=functions, **environment.describe()
        )
        opened.finish(summary, [], "")


if __name__ == "__main__":
    main()
