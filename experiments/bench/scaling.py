"""Time and memory of a run of BBKB against the horizon T, the number of arms A and the size m of
the dictionary.

python -m experiments.bench.scaling                        all three
python -m experiments.bench.scaling --only horizon         one of them
python -m experiments.bench.scaling --reference DIR        also the authors' code, where it takes
                                                           less than --limit seconds
python -m experiments.bench.scaling --botorch              also GP-UCB with BoTorch, over T
python -m experiments.bench.scaling --small                a few small runs
python -m experiments.bench.scaling --saved FILE ... --figure FILE    draws the rows of --out files

    horizon  Abalone (A = 4,177, d = 8), lengthscale 5, T from 1,000 to 1,000,000
    arms     GENERATED arms, standard normal features, d = 8, lengthscale 10, T = 200, A from 10,000
             to 10,000,000
    sketch   Abalone with decorrelated features, T = 4,000, lengthscales from 8 to 2.5, for which m
             grows

Over T there is also GP-UCB with the exact posterior: ours, and with --botorch that of BoTorch,
which is no dependency, with the same kernel and noise, its function for lists of candidates, and a
width of two standard deviations in place of ours.

Every run is one process with one seed, so that its peak memory is its own. Seconds are those of the
run alone; compilation is apart. The exponent of a curve is the slope of a line through its
logarithms over the largest two decades of its axis. --figure draws the picture. DIR is a checkout
of luigicarratino/batch-bkb.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib import ticker

from experiments import cli
from experiments.bbkb_2020 import authors_code
from experiments.bench.bandits import DICTIONARIES, TASKS, load_problem, make_bandit
from experiments.bench.timing import show
from experiments.figures import drawing
from experiments.results import environment, store
from jsketch import kernels, loops, problems
from jsketch.bandits import BBKB, GPUCB

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
AUTHORS, EXACT, BOTORCH = "authors' code", "GPUCB", "BoTorch"
BETA = 4.0  # of BoTorch's UCB, the square of the posterior standard deviations
TOGETHER = 64  # candidates whose UCB BoTorch computes together; 512 take twice as long


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
    elif method == BOTORCH:
        importlib.import_module("botorch.models")  # takes seconds
        began = time.perf_counter()
        regret = run_botorch(problem, bandit, horizon)
        size, rounds = horizon, horizon
        row = dict(seconds=time.perf_counter() - began)
    else:
        if method == EXACT:
            names = ("kernel", "regularization", "noise_std", "norm_bound", "delta")
            bandit = GPUCB(**{name: getattr(bandit, name) for name in names})
        else:
            bandit = bandit.replace(dictionary=DICTIONARIES[method], max_batch=horizon)
        result = loops.run(bandit, problem, jax.random.key(0), horizon)
        compile_seconds = result.compile_seconds
        if result.run_seconds < WARM_UP:  # the first run is slower by a constant
            result = loops.run(bandit, problem, jax.random.key(0), horizon)
        ratio = loops.regret_ratio(result.trace.regret, problem.mean_reward)
        regret, size = float(ratio[-1]), max(int(result.trace.dictionary_size[-1]), 0)
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


def run_botorch(problem: Any, bandit: Any, horizon: int) -> float:
    """The regret ratio of GP-UCB with BoTorch: a GP with the kernel and the noise of the bandit is
    made of all evaluations before each further one, and `optimize_acqf_discrete` finds the arm."""
    torch = importlib.import_module("torch")
    acquisition = importlib.import_module("botorch.acquisition")
    models = importlib.import_module("botorch.models")
    optim = importlib.import_module("botorch.optim")
    rbf = importlib.import_module("gpytorch.kernels").RBFKernel()
    rbf.lengthscale = float(bandit.kernel.lengthscale)
    torch.set_default_dtype(torch.float64)
    arms = torch.tensor(np.asarray(problem.arms.features))
    mean = np.asarray(problem.mean_reward)
    numbers = {row.numpy().tobytes(): i for i, row in enumerate(arms)}
    rng = np.random.default_rng(0)
    chosen = [int(rng.integers(len(mean)))]
    values: list[float] = []
    for _ in range(horizon):
        values.append(mean[chosen[-1]] + float(problem.noise_std) * rng.standard_normal())
        y = torch.tensor(values)[:, None]
        noise = torch.full_like(y, float(bandit.regularization))
        gp = models.SingleTaskGP(
            *(arms[chosen], y, noise), covar_module=rbf, outcome_transform=None
        )
        with torch.no_grad():
            point, _ = optim.optimize_acqf_discrete(
                acquisition.UpperConfidenceBound(gp, beta=BETA),
                q=1,
                choices=arms,
                max_batch_size=TOGETHER,
            )
        chosen.append(numbers[point[0].numpy().tobytes()])
    regret = mean.max() - mean[chosen[:horizon]]
    return float(loops.regret_ratio(regret, problem.mean_reward)[-1])


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """The rows of an axis. A method that takes more than --limit seconds gets no larger run."""
    rows = []
    exact = [EXACT, *[BOTORCH] * options.botorch] if name == "horizon" else []
    for method in [*DICTIONARIES, *exact, *[AUTHORS] * bool(options.reference)]:
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
        2, len(names), figsize=(3.4 * len(names), 6), sharex="col", squeeze=False
    )
    colours = {"g = 0.25": "#D55E00", "every batch": "#0072B2", AUTHORS: "#000000"}
    colours |= {EXACT: "#009E73", BOTORCH: "#CC79A7"}
    labels = {"g = 0.25": "BBKB", "every batch": "BBKB, a draw after every batch"}
    labels |= {EXACT: "GP-UCB, exact", BOTORCH: "GP-UCB, BoTorch"}
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
        above.set(xscale="log", yscale="log")
        above.legend(loc="lower left", bbox_to_anchor=(0, 1))  # in the panel it would hide curves
        below.set_ylim(bottom=0)
        if max(row[AXES[name].x] for row in rows) < 100 * min(row[AXES[name].x] for row in rows):
            below.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            below.xaxis.set_major_formatter("{x:,.0f}")
            below.xaxis.set_minor_formatter(ticker.NullFormatter())
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
    parser.add_argument("--botorch", action="store_true", help="also GP-UCB with BoTorch")
    parser.add_argument("--figure", type=Path, help="draw the picture to this file")
    parser.add_argument("--saved", type=Path, nargs="+", help="run nothing, and draw these files")
    parser.add_argument("--point", help="measure one run, [axis, value, method] as JSON")
    options = cli.parse_benchmark(parser)
    if options.saved and not options.figure:
        parser.error("--saved needs --figure FILE, to which the rows are drawn")
    if options.point:
        print(json.dumps(measure(options)))
        return
    measured: dict[str, Any] = dict(exponents={})
    for saved in map(store.read_json, options.saved or []):
        measured["exponents"] |= saved["exponents"]
        measured |= {name: saved[name] for name in AXES if name in saved}
    for name in [] if options.saved else options.only:
        measured[name] = rows_of(name, options)
        measured["exponents"][name] = exponents(AXES[name], measured[name])
        print(name, "exponents of T, A or m:", measured["exponents"][name])
        store.write_numbers(options.out, measured)
    if options.figure:
        with drawing.plt.rc_context(drawing.STYLE):
            draw(measured, options.figure)
