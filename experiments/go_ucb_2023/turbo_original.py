"""TuRBO-1 beside its authors' code: Ackley's, Rastrigin's and Levy's functions of 10 inputs, 20 +
280 evaluations.

    python -m experiments.go_ucb_2023.turbo_original --reference DIR --out results/go_ucb_2023/turbo

DIR is a checkout of uber-research/TuRBO, which needs torch and gpytorch. Both run with all their
defaults, in float64, one evaluation at a time, without noise, on the same boxes, and have their own
first points: uniform ones here, a Latin hypercube there. An interrupted comparison resumes with the
missing runs; several may share a folder, one for each function.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import mannwhitneyu

from experiments import cli
from experiments.go_ucb_2023.packages import authors_code
from experiments.results import environment, outputs, store, summaries, tidy
from jsketch.box import Turbo
from jsketch.loops import run_box
from jsketch.problems import boxes
from jsketch.types import Box

INPUTS, INITIAL, HORIZON = 10, 20, 300
SHOWN = (50, 100, 200, 300)  # evaluations
OURS, ORIGINAL = "turbo", "original"
EXPERIMENT = "go_ucb_2023.turbo_original"


def _levy() -> boxes.BoxProblem:
    box = Box(jnp.full(INPUTS, -5.0), jnp.full(INPUTS, 10.0))
    return dataclasses.replace(boxes.levy(INPUTS), box=box)


# Ackley's box is that of the paper, Levy's that of the example in the authors' repository,
# Rastrigin's that of GO-UCB's f3
FUNCTIONS: dict[str, Callable[[], boxes.BoxProblem]] = {
    "ackley": partial(boxes.ackley, INPUTS),
    "rastrigin": partial(boxes.rastrigin, INPUTS),
    "levy": _levy,
}


def configure(function: str, name: str) -> dict[str, Any]:
    """Everything that the runs of one algorithm on one function depend on."""
    problem = FUNCTIONS[function]()
    config = dict(
        problem=function,
        algorithm=name,
        inputs=INPUTS,
        initial=INITIAL,
        horizon=HORIZON,
        lower=float(problem.box.lower[0]),
        upper=float(problem.box.upper[0]),
    )
    if name == OURS:
        return config | dict(optimizer=repr(Turbo(initial=INITIAL)))
    return config | dict(optimizer="Turbo1, all defaults", **authors_code.versions())


def save(folder: Path, function: str, name: str, seed: int, y: Any, seconds: float) -> None:
    problem = FUNCTIONS[function]()
    regret = np.asarray(problem.maximum - np.maximum.accumulate(np.asarray(y)))
    arrays = dict(y=np.asarray(y), simple_regret=regret, seconds=np.asarray(seconds))
    store.write_npz(store.run_path(folder, f"{function}-{name}", seed), arrays)


def run_original(folder: Path, function: str, seed: int, reference: Path) -> None:
    problem = FUNCTIONS[function]()
    value = jax.jit(problem.value)
    lower, upper = np.asarray(problem.box.lower), np.asarray(problem.box.upper)

    def called(x: np.ndarray) -> float:
        return float(value(x))

    found = authors_code.run(reference, called, lower, upper, HORIZON, INITIAL, seed)
    save(folder, function, ORIGINAL, seed, found.y, found.seconds)


def run_ours(folder: Path, function: str, seed: int) -> None:
    problem = FUNCTIONS[function]()
    key = jax.random.fold_in(jax.random.key(0), seed)
    began = time.perf_counter()
    run = jax.block_until_ready(run_box(Turbo(initial=INITIAL), problem, problem.box, key, HORIZON))
    save(folder, function, OURS, seed, run.y, time.perf_counter() - began)


def run_all(
    folder: Path, function: str, name: str, seeds: int, reference: Path | None
) -> list[dict[str, np.ndarray]]:
    """All seeds of one algorithm on one function, those already saved in the folder included."""
    label = f"{function}-{name}"
    missing = store.missing(folder, label, seeds)
    if missing and name == ORIGINAL and reference is None:
        raise ValueError(
            f"{folder} lacks runs of the authors' code on {function}: --reference takes a checkout."
        )
    store.claim(folder, label, configure(function, name))
    for seed in missing:
        if name == OURS:
            run_ours(folder, function, seed)
        elif reference is not None:
            run_original(folder, function, seed, reference)
        found = store.read_run(folder, label, seed)
        print(
            f"{label} {seed}: {found['simple_regret'][-1]:.3f}, {found['seconds']:.0f} s",
            flush=True,
        )
    return [store.read_run(folder, label, s) for s in range(seeds)]


def summarise(runs: dict[str, list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    """Of one function: regret of the best point after some numbers of evaluations, and seconds, by
    algorithm; and how probable a difference as large as that at the end is between runs of one
    algorithm (Mann-Whitney, two-sided)."""
    table = {}
    for name, rows in runs.items():
        regret = np.stack([row["simple_regret"] for row in rows])
        seconds = np.array([float(row["seconds"]) for row in rows])
        shown = {
            str(t): dict(
                median=float(np.median(regret[:, t - 1])), **summaries.describe(regret[:, t - 1])
            )
            for t in SHOWN
        }
        table[name] = dict(simple_regret=shown, median_seconds=float(np.median(seconds)))
    last = [[float(row["simple_regret"][-1]) for row in rows] for rows in runs.values()]
    p = float(mannwhitneyu(*last).pvalue) if len(last) == 2 else None
    return dict(algorithms=table, p_value=p)


def print_table(summary: dict[str, Any]) -> None:
    print(
        f"\n{'median regret of the best point after':38s}"
        + "".join(f"{t:>9d}" for t in SHOWN)
        + "  least  largest"
    )
    for function, part in summary.items():
        for name, row in part["algorithms"].items():
            shown = row["simple_regret"]
            last = shown[str(SHOWN[-1])]["values"]
            medians = "".join(f"{shown[str(t)]['median']:9.3f}" for t in SHOWN)
            print(f"{function:12s}{name:26s}{medians}{min(last):7.2f}{max(last):9.2f}")
        if part["p_value"] is not None:
            print(f"{function:12s}p of the difference at the end: {part['p_value']:.2f}")


@cli.line
def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--reference", type=Path, help="checkout of the authors' code")
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument(
        "--algorithms", nargs="+", choices=[OURS, ORIGINAL], default=[OURS, ORIGINAL]
    )
    parser.add_argument("--seeds", type=cli.count, default=10)
    cli.add_out_folder(parser)
    options = parser.parse_args()
    cli.set_up_jax()
    if options.functions != list(FUNCTIONS) or options.algorithms != [OURS, ORIGINAL]:
        # one of several processes: it leaves runs, and the whole command makes the tables of them
        print_table({f: summarise(parts) for f, parts in _runs(options).items()})
        return
    config = {f: {name: configure(f, name) for name in options.algorithms} for f in FUNCTIONS}
    with outputs.opened(options, EXPERIMENT, config, options.seeds) as opened:
        runs = _runs(options)
        functions = {f: summarise(parts) for f, parts in runs.items()}
        print_table(functions)
        summary = dict(
            config=config,
            seeds=options.seeds,
            median_seconds="wall time of a run; of ours, in the first one compilation included",
            **environment.describe(),
            functions=functions,
        )
        table = [
            tidy.Run(configure(f, name), seed, dict(row, t=np.arange(1, HORIZON + 1)))
            for f, parts in runs.items()
            for name, rows in parts.items()
            for seed, row in enumerate(rows)
        ]
        opened.finish(summary, table, f"{INPUTS} inputs, no noise")
        print(f"\nsummary.json and the tables (curves, summary .parquet) are in {options.out}")


def _runs(options: argparse.Namespace) -> dict[str, dict[str, list[dict[str, np.ndarray]]]]:
    """The runs of the functions and algorithms that were asked for."""
    return {
        function: {
            name: run_all(options.out, function, name, options.seeds, options.reference)
            for name in options.algorithms
        }
        for function in options.functions
    }


if __name__ == "__main__":
    main()
