"""Figure 2 of the GO-UCB paper: cumulative regret on three functions of 20 inputs.

    python -m experiments.go_ucb_2023.synthetic --seeds 50 --out results/go_ucb_2023/synthetic

f1 is the all-ones network (n = 5 uniform points, then T = 25), f2 Styblinski-Tang's function and f3
Rastrigin's (n = 8, T = 64), noise 0.01. All methods meet the same n points and the same noise under
the same seed, and phase I counts. The figures show the mean and 1.96 sd / sqrt(repetitions): of the
first 5, as in the paper, and of all. What the paper does not state is listed under "chosen" in the
saved configuration. An interrupted run resumes with the missing seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.results import environment, outputs, store, summaries, tidy
from experiments.runs.bandit_runs import keys_of
from jsketch.box import GOUCB, GPBandit, Turbo, UniformBox, go_ucb
from jsketch.box.go_ucb.ball import Theory
from jsketch.loops import run_box
from jsketch.problems import boxes

Config = dict[str, Any]
Runs = dict[str, list[dict[str, np.ndarray]]]

NOISE_STD = 0.01
PAPER_SEEDS = 5
# function, n, T
FUNCTIONS: dict[str, tuple[Callable[..., boxes.BoxProblem], int, int]] = {
    "f1": (boxes.all_ones_network, 5, 25),
    "f2": (boxes.styblinski_tang, 8, 64),
    "f3": (boxes.rastrigin, 8, 64),
}
# the same settings for all functions
ALGORITHMS: dict[str, Callable[[int], Any]] = {
    "uniform": lambda n: UniformBox(initial=n),
    "go_ucb": lambda n: GOUCB(initial=n),
    "go_ucb_eq5": lambda n: GOUCB(initial=n, refit=False, reach=0.05),
    "go_ucb_whole_box": lambda n: GOUCB(initial=n, reach=1.0),
    "go_ucb_printed": lambda n: go_ucb.printed(n),
    "go_ucb_printed_uniform": lambda n: go_ucb.printed(n, from_best=False),
    "gp_ei": lambda n: GPBandit(initial=n, acquisition="log_ei"),
    "gp_pi": lambda n: GPBandit(initial=n, acquisition="pi"),
    "gp_ucb": lambda n: GPBandit(initial=n, acquisition="ucb"),
    "turbo": lambda n: Turbo(initial=n),
}
# what could explain a difference: run by variants.py
VARIANTS: dict[str, Callable[[int], Any]] = {
    "gp_ei_uniform": lambda n: GPBandit(initial=n, acquisition="log_ei", sample_around_best=False),
    "gp_pi_uniform": lambda n: GPBandit(initial=n, acquisition="pi", sample_around_best=False),
    "gp_ucb_uniform": lambda n: GPBandit(initial=n, acquisition="ucb", sample_around_best=False),
    "go_ucb_eq7": lambda n: GOUCB(initial=n, schedule=Theory()),
}
OPTIMIZERS = ALGORITHMS | VARIANTS
CHOSEN = [
    "GO-UCB: lam, b, reach, refit, starts and steps of the ascent, scaling (the defaults, from"
    " other functions: choose.py)",
    "GO-UCB, eq5: parameters by eq. 5 and not by refitting, the best reach of that form on the same"
    " other functions",
    "printed settings: F = 1, ascent from the best observed point (or, printed_uniform, from a"
    " uniform one)",
    "everything of the GP methods and TuRBO: the defaults of jsketch.box",
]


def configure(function: str, name: str, phases: tuple[int, int] | None = None) -> Config:
    """The configuration of one algorithm on one function: everything that its results depend on.
    phases: other n and T than Figure 2's."""
    n, t = phases or FUNCTIONS[function][1:]
    return dict(
        function=function,
        algorithm=name,
        inputs=20,
        n=n,
        T=t,
        noise_std=NOISE_STD,
        root_seed=0,
        optimizer=repr(OPTIMIZERS[name](n)),
        chosen=CHOSEN,
    )


def run_chunk(config: Config, label: str, seeds: list[int], folder: Path) -> None:
    """Runs some seeds at once and saves each."""
    problem = FUNCTIONS[config["function"]][0](config["inputs"], config["noise_std"])
    horizon = config["n"] + config["T"]
    optimizer = OPTIMIZERS[config["algorithm"]](config["n"])
    keys = keys_of(config["root_seed"], seeds)
    begin = time.perf_counter()
    run = jax.block_until_ready(run_box(optimizer, problem, problem.box, keys, horizon))
    seconds = time.perf_counter() - begin
    regret = np.asarray(problem.maximum - run.value)
    for row, seed in enumerate(seeds):
        extra = {}
        if hasattr(run.info, "proposal"):
            proposal = run.info.proposal
            extra = {
                "beta": np.asarray(proposal.beta[row]),
                "distance": np.asarray(proposal.distance[row]),
                "acquisition": np.asarray(proposal.acquisition[row]),
                "at_starts": np.asarray(proposal.at_starts[row]),
            }
        arrays = dict(
            regret=regret[row], y=np.asarray(run.y[row]), x=np.asarray(run.x[row], np.float32)
        )
        arrays |= dict(seconds=np.asarray(seconds / len(seeds)), **extra)
        store.write_npz(store.run_path(folder, label, seed), arrays)


def run_algorithm(
    config: Config, label: str, folder: Path, seeds: int, at_once: int
) -> list[dict[str, np.ndarray]]:
    """All seeds of a configuration, those already saved in the folder under the label included."""
    store.claim(folder, label, config)
    missing = store.missing(folder, label, seeds)
    with cli.progress(seeds, seeds - len(missing), "seed", label) as bar:
        for begin in range(0, len(missing), at_once):
            chunk = missing[begin : begin + at_once]
            run_chunk(config, label, chunk, folder)
            bar.update(len(chunk))
    return [store.read_run(folder, label, s) for s in range(seeds)]


def uniform_regret(function: str) -> float:
    """Expected regret of a uniform point: the mean over 200,000 of them."""
    problem = FUNCTIONS[function][0](20)
    lower, upper = problem.box.lower, problem.box.upper
    x = jax.random.uniform(jax.random.key(0), (200_000, 20), lower.dtype, lower, upper)
    return float(problem.maximum - jax.jit(jax.vmap(problem.value))(x).mean())


def after_step(regret: np.ndarray, function: str, step: int) -> np.ndarray:
    """Mean regret of the evaluations after the given step of phase II, of regrets [S, n + T],
    [S]."""
    return regret[:, FUNCTIONS[function][1] + step :].mean(1)


def uniform_draw(regret: np.ndarray, function: str) -> np.ndarray:
    """Expected regret of what Algorithm 1 returns, one of x_1..x_T drawn uniformly: the mean over
    phase II of regrets [S, n + T], [S]."""
    return after_step(regret, function, 0)


def summarise(function: str, runs: Runs, uniform: float) -> dict[str, Any]:
    """What summary.json says of one function."""
    table = {}
    for name, rows in runs.items():
        regret = np.stack([row["regret"] for row in rows])
        settled = after_step(regret, function, 2)
        table[name] = dict(
            cumulative_regret=summaries.describe(regret.sum(1), ci=True),
            cumulative_regret_first_5=summaries.describe(regret[:PAPER_SEEDS].sum(1), ci=True),
            regret_ratio=summaries.describe(regret.mean(1) / uniform, ci=True),
            ratio_after_second_step=summaries.describe(settled / uniform),
            below_one_percent_after_second_step=int((settled < 0.01 * uniform).sum()),
            ratio_last_10=summaries.describe(regret[:, -10:].mean(1) / uniform),
            simple_regret=summaries.describe(regret.min(1)),
            uniform_draw_ratio=summaries.describe(uniform_draw(regret, function) / uniform),
            seconds_per_seed=float(np.mean([row["seconds"] for row in rows])),
        )
        if "beta" in rows[0]:
            kept = ("beta", "distance", "acquisition", "at_starts")
            steps = [{k: row[k][FUNCTIONS[function][1] :] for k in kept} for row in rows]
            table[name] |= dict(
                largest_distance_over_beta=float(
                    max((r["distance"] / r["beta"]).max() for r in steps)
                ),
                ascent_never_below_starts=bool(
                    all((r["acquisition"] >= r["at_starts"]).all() for r in steps)
                ),
            )
    return dict(
        uniform_regret=uniform, n=FUNCTIONS[function][1], T=FUNCTIONS[function][2], algorithms=table
    )


def draw(folder: Path, runs: dict[str, Runs], uniform: dict[str, float], seeds: int) -> None:
    """figure2.png of all repetitions and figure2_5.png of the first five."""
    for shown in sorted({min(PAPER_SEEDS, seeds), seeds}):
        panels = {}
        for function, algorithms in runs.items():
            t = np.arange(1, sum(FUNCTIONS[function][1:]) + 1)
            panels[function] = {
                name: (t, np.cumsum(np.stack([row["regret"] for row in rows[:shown]]), 1))
                for name, rows in algorithms.items()
                if name != "uniform"
            }
        name = "figure2.png" if shown == seeds else "figure2_5.png"
        title = f"20 inputs, noise 0.01, mean and 1.96 sd / sqrt({shown}) of {shown} repetitions"
        phases = {function: FUNCTIONS[function][1] for function in runs}
        plots.cumulative_regret_panels(folder / name, panels, uniform, phases, title)


def print_table(summary: dict[str, Any]) -> None:
    """Regret per step against the uniform policy's, function by function."""
    for function, part in summary.items():
        print(
            f"\n{function}: regret ratio (all {part['n'] + part['T']}), after step 2, last 10,"
            " simple regret, s a seed"
        )
        for name, row in part["algorithms"].items():
            ci = row["regret_ratio"]["ci95"]
            print(
                f"{name:24s} {row['regret_ratio']['mean']:7.3f}"
                f" {'' if ci is None else f'+- {ci:.3f}':>9s}"
                f" {row['ratio_after_second_step']['mean']:7.3f}"
                f" {row['ratio_last_10']['mean']:7.3f} {row['simple_regret']['mean']:9.2f}"
                f" {row['seconds_per_seed']:7.2f}"
            )


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument(
        "--algorithms", nargs="+", choices=list(OPTIMIZERS), default=list(ALGORITHMS)
    )
    parser.add_argument(
        "--seeds", type=cli.count, default=PAPER_SEEDS, help="repetitions (the paper: 5)"
    )
    parser.add_argument("--at-once", type=cli.count, default=10, help="seeds in one compiled run")
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    config = {
        f: {name: configure(f, name) for name in options.algorithms} for f in options.functions
    }
    with outputs.opened(options, "go_ucb_2023.synthetic", config, options.seeds) as opened:
        runs = {
            function: {
                name: run_algorithm(
                    one, f"{function}-{name}", options.out, options.seeds, options.at_once
                )
                for name, one in config[function].items()
            }
            for function in options.functions
        }
        uniform = {function: uniform_regret(function) for function in options.functions}
        functions = {
            function: summarise(function, runs[function], uniform[function]) for function in runs
        }
        summary = dict(
            config=config,
            seeds=options.seeds,
            seconds_per_seed=f"wall time of up to {options.at_once} seeds at once, divided by them,"
            " compilation included",
            **environment.describe(),
            functions=functions,
        )
        title = "20 inputs, noise 0.01"
        table = [
            tidy.Run(
                dict(problem=function, **configure(function, name)),
                seed,
                dict(
                    row,
                    t=np.arange(1, len(row["regret"]) + 1),
                    cumulative_regret=row["regret"].sum(),
                ),
            )
            for function, algorithms in runs.items()
            for name, rows in algorithms.items()
            for seed, row in enumerate(rows)
        ]
        opened.finish(summary, table, title)
        draw(options.out, runs, uniform, options.seeds)
    print_table(functions)
    print(
        "\nsummary.json, the tables (curves, summary .parquet) and figure2.png are in"
        f" {options.out}"
    )


if __name__ == "__main__":
    main()
