"""The runs of a bandit experiment: in several processes, resumed after an interruption, summarised
and drawn."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import cli, common, engine
from experiments.figures import plots
from experiments.results import store, tidy
from experiments.runs import against_published
from jsketch import loops
from jsketch.types import PRNGKey

POINTS = 400  # number of points of a saved curve
REPORTS = 50  # number of progress reports of a run

Config = dict[str, Any]


class Group(NamedTuple):
    """Algorithms on one problem, of a figure."""

    problem: Any
    configs: Mapping[str, Config]  # everything that the results of an algorithm depend on
    make: Callable[[str, Config], Any]
    seeds: Mapping[str, int]
    # state(algorithm, bandit, problem, config, seed) at the start; None: that of `bandit.init`
    state: Callable[..., Any] | None = None
    # finish(problem, config, seed, arrays) changes the arrays of a saved run for the tables
    finish: Callable[..., None] | None = None


Runs = dict[str, list[dict[str, np.ndarray]]]  # {algorithm: the arrays of each seed}


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


def saved_arrays(
    trace: loops.Trace | loops.BoxTrace, mean_reward: jax.Array
) -> dict[str, np.ndarray]:
    """The arrays to save of a run over arms or over a box, with trace [T]: curves at the points of
    `grid`, and final numbers. They are NaN after the last evaluation of a run that ended early, and
    so is the dictionary's size over a box. mean_reward [A]: of uniform arms or points, with the
    largest one."""
    t = grid(len(trace.regret))
    rows = t - 1
    ratio = np.asarray(loops.regret_ratio(trace.regret, mean_reward))
    simple_regret = np.asarray(trace.simple_regret)
    ended = ~np.asarray(trace.made)

    def counts(values: jax.Array) -> np.ndarray:
        integers = np.asarray(values, np.int32)
        return np.where(ended, np.nan, integers) if ended.any() else integers

    rounds = counts(trace.round) + 1
    arrays = dict(
        t=t,
        regret_ratio=ratio[rows].astype(np.float32),
        simple_regret=simple_regret[rows].astype(np.float32),
        rounds=rounds[rows],
        batch_size=counts(trace.batch_size)[rows],
    )
    dictionary_size: Any = np.asarray(np.nan)
    if isinstance(trace, loops.Trace):
        sizes = counts(trace.dictionary_size)
        arrays |= dict(dictionary=sizes[rows])
        dictionary_size = sizes[-1]
    final = dict(final_regret_ratio=ratio[-1], batches=rounds[-1], dictionary_size=dictionary_size)
    return arrays | final


def run_algorithm(
    name: str,
    bandit: Any,
    problem: Any,
    config: Config,
    folder: Path,
    seeds: int,
    states: Callable[[int], Any] | None = None,
    workers: engine.Workers | None = None,
) -> list[dict[str, np.ndarray]]:
    """The runs of all seeds of an algorithm. Saved runs are read, and missing runs are executed.
    Without `workers`, they run in as many processes as the configuration says."""
    store.record_configuration(folder, name, config)
    missing = store.missing(folder, name, seeds)
    if len(missing) < seeds:
        print(f"{name}: {seeds - len(missing)} of {seeds} seeds are done")
    if missing:
        horizon = config["horizon"]
        workers = workers or engine.Workers(config["seeds_side_by_side"])
        total, title = seeds * horizon, f"{name}, {seeds} seeds"
        done = total - len(missing) * horizon
        run = partial(run_seed, bandit, problem, config, folder, states)
        with cli.progress(total, done, unit="evaluations", name=title) as bar:
            engine.run_each(run, missing, workers, horizon, bar)
    return [store.read_run(folder, name, s) for s in range(seeds)]


def save_groups(
    folder: Path,
    experiment: str,
    groups: Mapping[str, Group],
    data: str,
    title: str,
    options: common.Options,
) -> None:
    """Makes the missing runs of {problem: group} in a figure's folder, and writes its tables."""
    configs = {name: dict(group.configs) for name, group in groups.items()}
    most = max(max(group.seeds.values()) for group in groups.values())
    with options.results(folder, experiment, configs, most) as results:
        table: list[tidy.Run] = []
        for number, (problem, group) in enumerate(groups.items()):
            runs = {}
            for name, config in group.configs.items():
                bandit, states = group.make(name, config), None
                if group.state is not None:
                    states = partial(group.state, name, bandit, group.problem, config)
                runs[name] = run_algorithm(
                    *(name, bandit, group.problem, config),
                    folder if len(groups) == 1 else folder / "runs" / f"group_{number:02d}",
                    *(group.seeds[name], states, options.workers),
                )
                if group.finish is not None:
                    for seed, arrays in enumerate(runs[name]):
                        group.finish(group.problem, config, seed, arrays)
            table += tidy_runs(problem, group.configs, runs)
        seeds = {problem: dict(group.seeds) for problem, group in groups.items()}
        workers = options.workers.processes
        results.write(dict(config=configs, seeds=seeds, data=data, workers=workers), table, title)


def seeds_by_algorithm(settings: Config) -> dict[str, int]:
    """The number of seeds of each algorithm: settings["seeds"], or fewer for those in
    settings["fewer"]."""
    most, fewer = settings["seeds"], settings.get("fewer", {})
    return {name: min(fewer.get(name, most), most) for name in settings["algorithms"]}


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
    curves, summary, provenance = tidy.load(folder)
    title = curves.attrs["title"]
    ratios = tidy.lines(curves, "regret_ratio")
    plots.regret_ratio(folder / "regret_ratio.png", ratios, title, published.get("regret_ratio"))
    workers = provenance.get("workers") or summary["seeds_side_by_side"].max()
    side_by_side = min(int(workers), summary["seed"].nunique())
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
