"""The runs of a bandit experiment: in several processes, resumed after an interruption, summarised
and drawn."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli
from experiments.figures import plots
from experiments.figures.styles import label
from experiments.results import store, summaries, tidy
from experiments.runs import against_published, processes
from jsketch import loops
from jsketch.types import PRNGKey

POINTS = 400  # number of points of a saved curve
REPORTS = 50  # number of progress reports of a run

Config = dict[str, Any]
Runs = dict[str, list[dict[str, np.ndarray]]]  # {algorithm: the arrays of each seed}


def add_options(
    parser: argparse.ArgumentParser,
    names: Sequence[str],
    default: Sequence[str] | None = None,
) -> None:
    """Adds --algorithms and --fewer. `default`: the algorithms that run without --algorithms; None:
    all `names`."""

    def algorithm_seeds(text: str) -> tuple[str, int]:
        name, _, number = text.partition("=")
        if name not in names:
            raise argparse.ArgumentTypeError(f"must be ALGORITHM=SEEDS; {text!r} was given")
        return name, cli.count(number)

    cli.add_choices(parser, "--algorithms", names, default)
    shown: dict[str, Any] = dict(metavar="ALGORITHM=SEEDS", help="fewer seeds for slow algorithms")
    parser.add_argument("--fewer", nargs="+", type=algorithm_seeds, default=[], **shown)


def seeds_of(options: argparse.Namespace) -> dict[str, int]:
    """The number of seeds of each algorithm: --seeds, or its entry of --fewer if that is less."""
    fewer = dict(options.fewer)
    return {name: min(fewer.get(name, options.seeds), options.seeds) for name in options.algorithms}


def seeds_text(options: argparse.Namespace) -> str:
    """The numbers of seeds as text, such as "10 seeds (BKB: 3)"."""
    counts = {label(name): number for name, number in seeds_of(options).items()}
    fewer = "; ".join(f"{name}: {n}" for name, n in counts.items() if n < options.seeds)
    return f"{options.seeds} seeds{f' ({fewer})' if fewer else ''}"


def shared_fields(options: argparse.Namespace, data: str) -> dict[str, Any]:
    """The fields of summary.json that hold for all runs: the number of seeds, and texts that
    explain the data and the numbers of the same names."""
    parallel = min(options.workers, options.seeds)
    return dict(
        seeds=options.seeds,
        data=data,
        uniform_regret="t (f* - mean f), the expected regret of t uniform arms",
        run_seconds="wall time of a run without compilation, "
        + ("one process" if parallel == 1 else f"{parallel} processes of one thread side by side"),
        compile_seconds="sum over the calls; a warm persistent cache makes it small",
    )


def grid(horizon: int) -> np.ndarray:
    """The evaluations [P] at which curves are saved: evenly spaced, and more at the start for log
    axes."""
    count = min(POINTS // 2, horizon)
    linear = np.linspace(1, horizon, count)
    logarithmic = np.geomspace(1, horizon, count)
    return np.unique(np.concatenate([linear, logarithmic]).astype(int))


def keys_of(root_seed: int, seeds: list[int]) -> PRNGKey:
    """A key for each seed, [S], which does not depend on the other seeds."""
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(root_seed), seed))(
        jnp.asarray(seeds)
    )


def run_seed(
    bandit: Any,
    problem: Any,
    config: Config,
    folder: Path,
    states: Callable[[int], Any] | None,
    seed: int,
    on_progress: Callable[[int, float], None] | None = None,
) -> None:
    """Runs one seed and saves the run. states(seed) makes the initial state; None: that of
    `bandit.init`."""
    times: list[tuple[int, float]] = []

    def progress(evaluations: int, seconds: float) -> None:
        times.append((evaluations, seconds))
        if on_progress is not None:
            on_progress(evaluations, seconds)

    result = loops.run(
        bandit,
        problem,
        keys_of(config["root_seed"], [seed])[0],
        config["horizon"],
        on_progress=progress,
        reports=REPORTS,
        states=None if states is None else [states(seed)],
    )
    report_t, report_seconds = np.array(times).T
    arrays = saved_arrays(result.trace, problem.mean_reward)
    arrays |= dict(
        seconds=np.interp(arrays["t"], report_t, report_seconds).astype(np.float32),
        run_seconds=np.asarray(result.run_seconds),
        compile_seconds=np.asarray(result.compile_seconds),
    )
    store.write_npz(store.run_path(folder, config["algorithm"], seed), arrays)


def saved_arrays(trace: loops.Trace, mean_reward: jax.Array) -> dict[str, np.ndarray]:
    """The arrays to save of a run with trace [T]: curves at the points of `grid`, and final
    numbers. They are NaN after the last evaluation of a run that ended early."""
    t = grid(len(trace.regret))
    rows = t - 1
    ratio = np.asarray(loops.regret_ratio(trace.regret, mean_reward))
    simple_regret = np.minimum.accumulate(np.asarray(trace.regret))
    ended = np.asarray(trace.arm) < 0

    def counts(values: jax.Array) -> np.ndarray:
        integers = np.asarray(values, np.int32)
        return np.where(ended, np.nan, integers) if ended.any() else integers

    rounds, sizes = counts(trace.round) + 1, counts(trace.dictionary_size)
    return dict(
        t=t,
        regret_ratio=ratio[rows].astype(np.float32),
        simple_regret=simple_regret[rows].astype(np.float32),
        rounds=rounds[rows],
        batch_size=counts(trace.batch_size)[rows],
        dictionary=sizes[rows],
        final_regret_ratio=ratio[-1],
        batches=rounds[-1],
        dictionary_size=sizes[-1],
    )


def run_algorithm(
    name: str,
    bandit: Any,
    problem: Any,
    config: Config,
    folder: Path,
    seeds: int,
    states: Callable[[int], Any] | None = None,
) -> list[dict[str, np.ndarray]]:
    """The runs of all seeds of an algorithm. Saved runs are read, and missing runs are executed."""
    store.record_configuration(folder, name, config)
    missing = store.missing(folder, name, seeds)
    if len(missing) < seeds:
        print(f"{name}: {seeds - len(missing)} of {seeds} seeds are done")
    if missing:
        horizon, workers = config["horizon"], config["seeds_side_by_side"]
        total, title = seeds * horizon, f"{name}, {seeds} seeds"
        done = total - len(missing) * horizon
        run = partial(run_seed, bandit, problem, config, folder, states)
        with cli.progress(total, done, unit="evaluations", name=title) as bar:
            processes.run_each(run, missing, workers, horizon, bar)
    return [store.read_run(folder, name, s) for s in range(seeds)]


def run_all(
    make: Callable[[str, Config], Any],
    problem: Any,
    name: str,
    configs: Mapping[str, Config],
    folder: Path,
    seeds: Mapping[str, int],
) -> tuple[Runs, dict[str, dict[str, Any]], list[tidy.Run]]:
    """Runs all seeds of make(algorithm, config) on a problem, called `name` in the tables. Returns
    the runs of each algorithm, its entry in summary.json, and all runs for the tables."""
    runs = {
        algorithm: run_algorithm(
            algorithm, make(algorithm, config), problem, config, folder, seeds[algorithm]
        )
        for algorithm, config in configs.items()
    }
    entries = {algorithm: summarise(rows) for algorithm, rows in runs.items()}
    return runs, entries, tidy_runs(name, configs, runs)


def summarise(runs: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """The entry of an algorithm in summary.json."""

    def column(field: str) -> np.ndarray:
        return np.array([float(run[field]) for run in runs])

    return dict(
        seeds=len(runs),
        horizon=int(runs[0]["t"][-1]),
        regret_ratio=summaries.statistics(column("final_regret_ratio"), ci=True),
        batches=summaries.statistics(column("batches")),
        dictionary_size=summaries.statistics(column("dictionary_size")),
        run_seconds=float(column("run_seconds").mean()),
        compile_seconds=float(column("compile_seconds").sum()),
    )


def tidy_runs(problem: str, configs: Mapping[str, Config], runs: Runs) -> list[tidy.Run]:
    """All runs, for `tidy.write`."""
    return [
        run
        for name, rows in runs.items()
        for run in tidy.runs_of(dict(problem=problem, **configs[name]), rows)
    ]


def draw(folder: Path) -> None:
    """Draws regret_ratio.png, time.png, batch_size.png and, if an algorithm has a dictionary,
    dictionary.png, with the published curves in the folder."""
    published = against_published.read_curves(folder)
    curves, summary, _ = tidy.load(folder)
    title = curves.attrs["title"]
    ratios = tidy.lines(curves, "regret_ratio")
    plots.regret_ratio(folder / "regret_ratio.png", ratios, title, published.get("regret_ratio"))
    side_by_side = min(int(summary["seeds_side_by_side"].max()), summary["seed"].nunique())
    # times before the first progress report are not measured
    seconds = tidy.lines(curves[curves["t"] >= curves["t"].max() / REPORTS], "seconds")
    plots.run_time(folder / "time.png", seconds, title, side_by_side, published.get("seconds"))
    batches = tidy.lines(curves, "batch_size")
    plots.batch_size(folder / "batch_size.png", batches, title, published.get("batch_size"))
    sizes = {
        name: (t, values)
        for name, (t, values) in tidy.lines(curves, "dictionary").items()
        if values.any()
    }
    if sizes:
        plots.dictionary_size(folder / "dictionary.png", sizes, title)
