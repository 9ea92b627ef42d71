"""Figure 2 of the GO-UCB paper: cumulative regret on three functions of 20 inputs.

    python -m experiments.go_ucb_2023.synthetic --seeds 50 --out results/go_ucb_2023/synthetic

f1 is the all-ones network (n = 5 uniform points in phase I, then T = 25), f2 Styblinski-Tang's
function and f3 Rastrigin's (n = 8, T = 64), with noise 0.01. For one seed, all methods have the
same n points and the same noise. The regret includes phase I. figure2_5.png has the first 5
repetitions, as many as in the paper, and figure2.png has all. The entry "chosen" of the saved
configuration lists settings that the paper does not state.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.go_ucb_2023.loop import Config, Runs, configurations, load_or_run
from experiments.results import outputs, summaries, tidy
from experiments.runs.bandit_runs import keys_of
from jsketch import loops
from jsketch.box import GOUCB, GPBandit, GradientAscent, LocalGOUCB, Turbo, UniformBox
from jsketch.problems import boxes
from jsketch.show import full_repr

NOISE_STD = 0.01
PAPER_SEEDS = 5
# {name: (function, n, T)}
FUNCTIONS: dict[str, tuple[Callable[..., boxes.BoxProblem], int, int]] = {
    "f1": (boxes.all_ones_network, 5, 25),
    "f2": (boxes.styblinski_tang, 8, 64),
    "f3": (boxes.rastrigin, 8, 64),
}
ALGORITHMS: dict[str, Callable[[int], Any]] = {
    "uniform": lambda n: UniformBox(initial=n),
    "go_ucb": lambda n: LocalGOUCB(initial=n),
    "go_ucb_eq5": lambda n: LocalGOUCB(initial=n, refit=False, reach=0.05),
    "go_ucb_printed": lambda n: GOUCB(initial=n),
    "gp_ei": lambda n: GPBandit(initial=n, acquisition="log_ei"),
    "gp_pi": lambda n: GPBandit(initial=n, acquisition="pi"),
    "gp_ucb": lambda n: GPBandit(initial=n, acquisition="ucb"),
    "turbo": lambda n: Turbo(initial=n),
}
# GO-UCB with ascents from uniform points; GP methods with uniform candidates (BoTorch's default)
VARIANTS: dict[str, Callable[[int], Any]] = {
    "go_ucb_printed_uniform": lambda n: GOUCB(initial=n, ascent=GradientAscent(from_best=False)),
    "gp_ei_uniform": lambda n: GPBandit(initial=n, acquisition="log_ei", sample_around_best=False),
    "gp_pi_uniform": lambda n: GPBandit(initial=n, acquisition="pi", sample_around_best=False),
    "gp_ucb_uniform": lambda n: GPBandit(initial=n, acquisition="ucb", sample_around_best=False),
}
OPTIMIZERS = ALGORITHMS | VARIANTS
CHOSEN_SETTINGS = [
    "GO-UCB: lam, b, reach, refit, starts and steps of the ascent, scaling (LocalGOUCB, from"
    " other functions: choose.py)",
    "GO-UCB, eq5: parameters by eq. 5 and not by refitting, the best reach of that form on the same"
    " other functions",
    "printed settings: F = 1, ascent from the best observed point (or, printed_uniform, from a"
    " uniform one)",
    "everything of the GP methods and TuRBO: the defaults of jsketch.box",
]


def configure(function: str, name: str) -> Config:
    """The configuration on which the results of an algorithm on a function depend."""
    _, n, steps = FUNCTIONS[function]
    return dict(
        function=function,
        algorithm=name,
        inputs=20,
        n=n,
        T=steps,
        noise_std=NOISE_STD,
        root_seed=0,
        optimizer=full_repr(OPTIMIZERS[name](n)),
        chosen=CHOSEN_SETTINGS,
    )


def make(config: Config, seeds: list[int]) -> list[dict[str, np.ndarray]]:
    """The runs of some seeds, in one call."""
    problem = FUNCTIONS[config["function"]][0](config["inputs"], config["noise_std"])
    horizon = config["n"] + config["T"]
    optimizer = OPTIMIZERS[config["algorithm"]](config["n"])
    keys = keys_of(config["root_seed"], seeds)
    start = time.perf_counter()
    run = jax.block_until_ready(loops.run(optimizer, problem, keys, horizon))
    seconds = np.asarray((time.perf_counter() - start) / len(seeds))
    regret, x = np.asarray(problem.maximum - run.value), np.asarray(run.x, np.float32)
    rows = zip(regret, np.asarray(run.y), x, strict=True)
    return [dict(regret=regret, y=y, x=x, seconds=seconds) for regret, y, x in rows]


def uniform_regret(function: str) -> float:
    """The expected regret of a uniform point, estimated by the mean over 200,000 points."""
    problem = FUNCTIONS[function][0](20)
    lower, upper = problem.domain.lower, problem.domain.upper
    x = jax.random.uniform(jax.random.key(0), (200_000, 20), lower.dtype, lower, upper)
    return float(problem.maximum - jax.jit(jax.vmap(problem.value))(x).mean())


def summarise(function: str, runs: Runs, uniform: float) -> dict[str, Any]:
    """The entry of one function in summary.json. `uniform`: expected regret of a uniform point."""
    _, n, steps = FUNCTIONS[function]
    table = {}
    for name, rows in runs.items():
        regret = np.stack([row["regret"] for row in rows])
        late_regret = regret[:, n + 2 :].mean(1)  # after two steps of phase II
        table[name] = dict(
            cumulative_regret=summaries.statistics(regret.sum(1), ci=True),
            cumulative_regret_first_5=summaries.statistics(regret[:PAPER_SEEDS].sum(1), ci=True),
            regret_ratio=summaries.statistics(regret.mean(1) / uniform, ci=True),
            ratio_after_second_step=summaries.statistics(late_regret / uniform),
            below_one_percent_after_second_step=int((late_regret < 0.01 * uniform).sum()),
            ratio_last_10=summaries.statistics(regret[:, -10:].mean(1) / uniform),
            simple_regret=summaries.statistics(regret.min(1)),
            seconds_per_seed=float(np.mean([row["seconds"] for row in rows])),
        )
    return dict(uniform_regret=uniform, n=n, T=steps, algorithms=table)


def draw(folder: Path) -> None:
    """Draws figure2.png of all repetitions and figure2_5.png of the first five, from the tables."""
    curves, _, provenance = tidy.load(folder)
    seeds = curves["seed"].nunique()
    regrets = {
        str(function): tidy.lines(part, "regret")
        for function, part in curves.groupby("problem", observed=True, sort=False)
    }
    uniform = {f: provenance["functions"][f]["uniform_regret"] for f in regrets}
    phase_one = {f: FUNCTIONS[f][1] for f in regrets}
    for n in sorted({min(PAPER_SEEDS, seeds), seeds}):
        panels = {
            function: {
                name: (t, np.cumsum(values[:n], 1))
                for name, (t, values) in lines.items()
                if name != "uniform"
            }
            for function, lines in regrets.items()
        }
        name = "figure2.png" if n == seeds else "figure2_5.png"
        title = f"20 inputs, noise 0.01, mean and 1.96 sd / sqrt({n}) of {n} repetitions"
        plots.cumulative_regret_panels(folder / name, panels, uniform, phase_one, title)


def add_options(
    parser: argparse.ArgumentParser, algorithms: Sequence[str], default: Sequence[str]
) -> None:
    """Adds the options of the experiments on these functions, --functions and --algorithms."""
    cli.add_choices(parser, "--functions", tuple(FUNCTIONS))
    cli.add_choices(parser, "--algorithms", algorithms, default)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, seeds=PAPER_SEEDS)
    add_options(parser, tuple(OPTIMIZERS), tuple(ALGORITHMS))
    parser.add_argument("--at-once", type=cli.count, default=10, help="seeds that run at once")
    options = cli.parse(parser)
    config = configurations(configure, options)
    with outputs.results_folder(options, "go_ucb_2023.synthetic", config, options.seeds) as results:
        runs = load_or_run(options.out, config, options.seeds, make, seeds_per_call=options.at_once)
        uniform = {function: uniform_regret(function) for function in options.functions}
        functions = {f: summarise(f, runs[f], uniform[f]) for f in runs}
        summary = dict(
            config=config,
            seeds=options.seeds,
            seconds_per_seed=f"wall time of up to {options.at_once} seeds at once, divided by them,"
            " compilation included",
            functions=functions,
        )
        table = []
        for f, algorithms in runs.items():
            t = np.arange(1, sum(FUNCTIONS[f][1:]) + 1)
            for name, saved in algorithms.items():
                arrays = [dict(row, t=t, cumulative_regret=row["regret"].sum()) for row in saved]
                table += tidy.runs_of(dict(problem=f, **config[f][name]), arrays)
        results.write(summary, table, "20 inputs, noise 0.01")
        draw(options.out)
    for function, entry in functions.items():
        summaries.print_table(function, entry["algorithms"])
