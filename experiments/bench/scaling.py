"""Time and memory of a run of BBKB against the horizon T, the number of arms A and the size m of
the dictionary.

python -m experiments.bench.scaling                        all three
python -m experiments.bench.scaling --only horizon         one of them
python -m experiments.bench.scaling --reference DIR        also the authors' code, where it takes
                                                           less than --limit seconds
python -m experiments.bench.scaling --small                a few small runs

    horizon  Abalone (A = 4,177, d = 8), lengthscale 5, T from 1,000 to 1,000,000
    arms     GENERATED arms, standard normal features, d = 8, lengthscale 10, T = 200, A from 10,000
             to 10,000,000
    sketch   Abalone with decorrelated features, T = 4,000, lengthscales from 8 to 2.5, for which m
             grows

Every run is one process with one seed, so that its peak memory is its own. Seconds are those of the
run alone; compilation is apart. The exponent of a curve is the slope of a line through its
logarithms over the largest two decades of its axis. --figure draws the picture. DIR is a checkout
of luigicarratino/batch-bkb.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import cli
from experiments.bbkb_2020 import authors_code
from experiments.bench.bandits import DICTIONARIES, TASKS, load_problem, make_bandit
from experiments.bench.timing import show
from experiments.figures import drawing
from experiments.results import environment, store
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB

DIMENSION, NOISE = 8, 0.1  # of the generated arms
WARM_UP = 10.0  # seconds; shorter runs are repeated, and the second one is timed
Row = dict[str, Any]


class Axis(NamedTuple):
    """What changes from run to run."""

    label: str
    values: tuple[float, ...]
    small: tuple[float, ...]
    x: str  # the column of a row on the horizontal axis


HORIZONS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
COUNTS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
LENGTHSCALES = (8.0, 6.5, 5.0, 4.0, 3.2, 2.5)
AXES = {
    "horizon": Axis("evaluations T", HORIZONS, (50, 100), "x"),
    "arms": Axis("arms A", COUNTS, (300, 600), "x"),
    "sketch": Axis("inducing points m", LENGTHSCALES, (8.0, 5.0), "inducing_points"),
}
AUTHORS = "authors' code"


def problem_and_bandit(axis: str, value: float, small: bool, data_dir: Path | None) -> Any:
    """(problem, bandit, horizon) of a run; the dictionary's rule is the default."""
    if axis == "arms":
        rng = np.random.default_rng(0)
        features = rng.standard_normal((int(value), DIMENSION))
        mean = np.tanh(features @ rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION))
        horizon = 20 if small else 200
        bandit = BBKB(kernels.Gaussian(10.0), 0.01, noise_std=NOISE, delta=1 / horizon)
        return problems.finite_arms(features, mean, NOISE), bandit, horizon
    task = TASKS["abalone" if axis == "horizon" else "hard_2000"]
    horizon = int(value) if axis == "horizon" else 50 if small else 4_000
    lengthscale = task.lengthscale if axis == "horizon" else value
    problem = load_problem(task.dataset, task.noise_std, data_dir)
    return problem, make_bandit(task._replace(horizon=horizon, lengthscale=lengthscale)), horizon


def measure(options: argparse.Namespace) -> Row:
    """The row of the run that `--point` names, measured in this process."""
    axis, value, method = json.loads(options.point)
    problem, bandit, horizon = problem_and_bandit(axis, value, options.small, options.data_dir)
    if method == AUTHORS:
        began = time.perf_counter()
        regret, size, rounds = authors_code.run_authors(
            options.reference,
            problem,
            "global",
            float(bandit.kernel.lengthscale),
            horizon,
            0,
            float(bandit.regularization),
            float(bandit.noise_std),
        )
        row: Row = dict(seconds=time.perf_counter() - began)
    else:
        bandit = bandit.replace(dictionary=DICTIONARIES[method], max_batch=horizon)
        result = loops.run(bandit, problem, jax.random.key(0), horizon)
        compile_seconds = result.compile_seconds
        if result.run_seconds < WARM_UP:  # the first run is slower by a constant
            result = loops.run(bandit, problem, jax.random.key(0), horizon)
        ratio = loops.regret_ratio(result.trace.regret, problem.mean_reward)
        regret, size = float(ratio[-1]), int(result.trace.dictionary_size[-1])
        rounds = int(result.trace.round[-1]) + 1
        row = dict(seconds=result.run_seconds, compile_seconds=compile_seconds)
    return row | dict(
        method=method,
        x=value,
        inducing_points=size,
        rounds=rounds,
        regret_ratio=regret,
        peak_gigabytes=environment.peak_memory() / 1e9,
    )


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """The rows of an axis. A method that takes more than --limit seconds gets no larger run."""
    rows = []
    for method in [*DICTIONARIES, *([AUTHORS] if options.reference else [])]:
        for value in AXES[name].small if options.small else AXES[name].values:
            command = [sys.executable, "-m", "experiments.bench.scaling"]
            command += ["--point", json.dumps([name, value, method])]
            command += ["--small"] * options.small
            for option in ("data_dir", "reference"):
                given = getattr(options, option)
                command += [f"--{option.replace('_', '-')}", str(given)] * (given is not None)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:  # for example, out of memory
                print(f"{name} {method}, {value:g}: the process ended with {done.returncode}")
                break
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            show(f"{name} {method}, {value:g}", rows[-1])
            if rows[-1]["seconds"] > options.limit:
                break
    return rows


def exponents(axis: Axis, rows: list[Row]) -> dict[str, float]:
    """{method: the slope of log seconds over the largest two decades}, for two points or more."""
    slopes = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        points = [(row[axis.x], row["seconds"]) for row in rows if row["method"] == method]
        x, seconds = np.log(np.array(points)).T
        last = x >= x.max() - np.log(101)
        if last.sum() > 1:
            slopes[method] = float(np.polyfit(x[last], seconds[last], 1)[0])
    return slopes


def draw(measured: dict[str, Any], path: Path) -> None:
    """Seconds above and memory below, with a column for each axis."""
    names = [name for name in AXES if name in measured]
    figure, panels = drawing.plt.subplots(
        2, len(names), figsize=(3.4 * len(names), 5), sharex="col", squeeze=False
    )
    colours = {"g = 0.25": "#D55E00", "every batch": "#0072B2", AUTHORS: "#000000"}
    labels = {"g = 0.25": "BBKB", "every batch": "BBKB, a draw after every batch"}
    for name, (above, below) in zip(names, panels.T, strict=True):
        rows, slopes = measured[name], measured["exponents"][name]
        for method in dict.fromkeys(row["method"] for row in rows):
            mine = [row for row in rows if row["method"] == method]
            x = [row[AXES[name].x] for row in mine]
            slope = f", {slopes[method]:.2f}" if method in slopes else ""
            style = dict(color=colours[method], marker=".")
            label = labels.get(method, method) + slope
            above.plot(x, [row["seconds"] for row in mine], label=label, **style)
            below.plot(x, [row["peak_gigabytes"] for row in mine], **style)
        for panel in (above, below):
            panel.set(xscale="log", yscale="log")
        above.legend()
        below.set_xlabel(AXES[name].label)
    panels[0, 0].set_ylabel("seconds of the run")
    panels[1, 0].set_ylabel("peak memory of the process [GB]")
    figure.savefig(path)


@cli.command
def main() -> None:
    parser = cli.parser(__doc__, data_dir=None, reference=None)
    cli.add_choices(parser, "--only", list(AXES))
    parser.add_argument("--limit", type=float, default=600, help="seconds (default %(default)s)")
    parser.add_argument("--small", action="store_true", help="a few small runs")
    parser.add_argument("--figure", type=Path, help="draw the picture to this file")
    parser.add_argument("--point", help="measure one run, [axis, value, method] as JSON")
    options = cli.parse_benchmark(parser)
    if options.point:
        print(json.dumps(measure(options)))
        return
    measured: dict[str, Any] = dict(exponents={})
    for name in options.only:
        measured[name] = rows_of(name, options)
        measured["exponents"][name] = exponents(AXES[name], measured[name])
        print(name, "exponents of T, A or m:", measured["exponents"][name])
        store.write_numbers(options.out, measured)
    if options.figure:
        with drawing.plt.rc_context(drawing.STYLE):
            draw(measured, options.figure)
