"""GO-UCB with other lengths of its two phases: n uniform points, then T optimistic steps.

    python -m experiments.go_ucb_2023.phases --out results/go_ucb_2023/phases

The paper's theorem has n = sqrt(T), and Figure 2 n = 8 and T = 64 on f2 and f3. Here n is 4 to 32
at T = 64, and T is 16 and 144 at n = sqrt(T), for GO-UCB and GP-PI, the second best method of
Figure 2. The tables have the regret per step over that of uniform points, of the whole run and of
phase II, and the simple regret.
"""

from typing import Any

import numpy as np

from experiments import cli
from experiments.go_ucb_2023 import synthetic
from experiments.go_ucb_2023.loop import print_table
from experiments.results import outputs, summaries

PHASES = ((4, 64), (8, 64), (16, 64), (32, 64), (4, 16), (12, 144))  # n, T


def row(regret: np.ndarray, n: int, uniform: float) -> dict[str, Any]:
    """The entry of regrets [S, n + T] in summary.json."""
    return dict(
        regret_ratio=summaries.statistics(regret.mean(1) / uniform, ci=True),
        phase_two_ratio=summaries.statistics(regret[:, n:].mean(1) / uniform, ci=True),
        simple_regret=summaries.statistics(regret.min(1), ci=True),
    )


@cli.command
def main() -> None:
    parser = cli.parser(__doc__)
    synthetic.add_options(parser, functions=("f2", "f3"), default=("go_ucb", "gp_pi"))
    parser.add_argument("--n", nargs="+", type=cli.count, help="phase I; with --steps")
    parser.add_argument("--steps", nargs="+", type=cli.count, help="T of each --n")
    options = parser.parse_args()
    if len(options.n or ()) != len(options.steps or ()):
        parser.error("--n and --steps are pairs: give as many of one as of the other")
    phases = list(zip(options.n, options.steps, strict=True)) if options.n else list(PHASES)
    cli.set_up_jax()
    configs = {
        f: {
            f"n={n}, T={t}": {m: synthetic.configure(f, m, (n, t)) for m in options.algorithms}
            for n, t in phases
        }
        for f in options.functions
    }
    with outputs.results_folder(options, "go_ucb_2023.phases", configs, options.seeds) as results:
        functions: dict[str, Any] = {}
        for function, settings in configs.items():
            uniform = synthetic.uniform_regret(function)
            functions[function] = dict(uniform_regret=uniform, phases={})
            for name, methods in settings.items():
                rows = functions[function]["phases"][name] = {}
                for method, config in methods.items():
                    n, steps = config["n"], config["T"]
                    saved = f"{function}-{n}-{steps}-{method}"
                    rows[method] = row(synthetic.regrets(config, saved, options), n, uniform)
                print_table(f"{function}, {name}", rows)
        summary = dict(config=configs, seeds=options.seeds, functions=functions)
        results.write(summary)


if __name__ == "__main__":
    main()
