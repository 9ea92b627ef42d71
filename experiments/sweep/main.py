"""Runs algorithms on a problem with every combination of values of their numbers and every seed.

    scripts/sweep --problem abalone --algorithm bbkb_global --horizon 1000 --seeds 10 \\
        --grid lengthscale 3 5 10 17.5 --grid regularization .01 .1 1 --out results/sweep_abalone

    scripts/sweep --problem table.csv --algorithm mymodule:MyBandit --kernel mymodule:MyKernel \\
        --grid lengthscale 1 2 4 --out sweep_of_mine

    scripts/sweep --problem branin --algorithm bbkb_global,gp_ei --grid ratio 1.5 3 --out both

The problem "generated" needs no download. An optimiser over a box (gp_ei, gp_pi, turbo, go_ucb) has
one of the functions branin to styblinski_tang over its box, and another algorithm has --arms points
of the box, among which is the maximiser. Of several algorithms each has the swept numbers that are
its own. MyKernel is a kernel, or makes one from a lengthscale.
The last column of a table is the reward, the other columns are numeric features. --random
lengthscale 1 30 --samples 50 draws 50 values at random. An interrupted sweep resumes with the same
command. A folder holds one sweep with its tables (`experiments.results.tidy`) and the printed table
(best.csv and best.tex). `experiments.common.load` reads it as an xarray Dataset, also before its
end.

--workers 2 uses two processes of this machine, --workers auto one for each core if the sweep then
ends sooner, and --cluster tcp://host:8786 the workers of a scheduler of Dask, which share --out and
the working directory (`experiments.engine`).
"""

import argparse
import math
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments import cli, engine
from experiments.figures.styles import label
from experiments.results import environment, files, outputs, store, summaries, tidy
from experiments.sweep import execution, heat_maps, settings
from experiments.sweep.execution import Job, Task
from experiments.sweep.settings import Row, Setting, Sweep
from jsketch import loops

MAX_ROWS = 10  # configurations in the printed table
RATIO_IN_LATEX = r"$R_T / R_T^{\mathrm{unif}}$"
# {column of the printed table: (its label in LaTeX, decimals)}
MEASURED = {
    "batches": ("batches", 1),
    "dictionary_size": ("inducing points", 1),
    "run_seconds": ("seconds a run", 2),
    "failed": ("failed runs", 0),
}


class Plan(NamedTuple):
    """The runs of a sweep."""

    setting: Setting
    rows: list[Row]  # the swept numbers of each configuration
    algorithms: list[str]  # the name of the algorithm of each configuration
    bandits: list[Any]  # the algorithm with the numbers of each configuration
    config: dict[str, Any]
    tasks: list[Task]


def plan(sweep: Sweep) -> Plan:
    """The runs of a sweep. Raises ValueError for mistakes in it."""
    sweeps = sweep.each()
    loaded = [settings.load(one) for one in sweeps]
    made = [settings.make(one, setting) for one, setting in zip(sweeps, loaded, strict=True)]
    by_name = {one.algorithm: algorithm for one, algorithm in zip(sweeps, made, strict=True)}
    if len(by_name) < len(made):
        raise ValueError(f"--algorithm needs distinct names; {sweep.algorithm} was given.")
    rows: list[Row] = []
    algorithms, bandits = [], []
    for one, algorithm in zip(settings.parts(sweep, made), made, strict=True):
        problem = loaded[0].problem_of(algorithm)
        domain = problem.arms if hasattr(problem, "arms") else problem.domain
        new = settings.rows(one, algorithm, domain, is_alone=len(made) == 1)
        rows += new
        algorithms += [one.algorithm] * len(new)
        bandits += [settings.with_numbers(algorithm, row) for row in new]
    return Plan(
        loaded[0],
        rows,
        algorithms,
        bandits,
        settings.configuration(sweep, loaded[0], by_name),
        [Task(row, seed) for row in range(len(rows)) for seed in range(sweep.seeds)],
    )


def run(sweep: Sweep) -> pd.DataFrame:
    """Executes the missing runs and writes the tables; returns the configurations, best first.
    Raises ValueError for mistakes in `sweep`, and if the folder holds another sweep or is locked by
    another process."""
    sweep_plan = plan(sweep)
    files.check_folder(sweep.out)
    with files.lock_folder(sweep.out):
        record_sweep(sweep, sweep_plan)
        if missing_tasks(sweep, sweep_plan.tasks):
            # the tables of a smaller sweep are no longer those of all runs
            (sweep.out / tidy.PROVENANCE).unlink(missing_ok=True)
        try:
            n_missing, session = make_runs(sweep, sweep_plan, sweep_plan.tasks)
        except KeyboardInterrupt:
            n_total = len(sweep_plan.tasks)
            n_saved = n_total - len(missing_tasks(sweep, sweep_plan.tasks))
            raise KeyboardInterrupt(
                f"{n_saved} of {n_total} runs are saved in {sweep.out}, and `tidy.load` reads them."
                f" The same command makes the other {n_total - n_saved}."
            ) from None
        if n_missing or runs_in_tables(sweep) != len(sweep_plan.tasks):
            collect(sweep, sweep_plan, session)
            heat_maps.draw(sweep.out)
    return rank(tidy.load(sweep.out).summary, swept_columns(sweep_plan))


def swept_columns(sweep_plan: Plan) -> list[str]:
    """The swept numbers, after the algorithm if there are several."""
    several = ["algorithm"] if len(set(sweep_plan.algorithms)) > 1 else []
    return several + list(dict.fromkeys(name for row in sweep_plan.rows for name in row))


def missing_tasks(sweep: Sweep, tasks: list[Task]) -> list[Task]:
    return [task for task in tasks if not execution.path(sweep.out, task).exists()]


def record_sweep(sweep: Sweep, sweep_plan: Plan) -> None:
    """Records the configuration of a sweep, and those of its runs for `tidy.load`. Raises
    ValueError if the folder has another configuration or results of an experiment."""
    tables = [name for name in tidy.FILES if (sweep.out / name).exists()]
    if outputs.record_path(sweep.out).exists():
        raise ValueError(f"{sweep.out} holds runs of an experiment: use another --out.")
    if tables and not (sweep.out / "runs" / outputs.SWEEP).exists():
        raise ValueError(
            f"{sweep.out} holds {', '.join(tables)} but no runs of a sweep; this one would replace"
            " them: use another --out."
        )
    store.record_configuration(sweep.out, "sweep", sweep_plan.config)
    columns = {
        execution.name(row): run_columns(sweep_plan, row) for row in range(len(sweep_plan.rows))
    }
    store.write_json(sweep.out / "runs" / tidy.CONFIGURATIONS, columns)


def run_columns(sweep_plan: Plan, row: int) -> dict[str, Any]:
    """The columns of the tables that describe the runs of a configuration."""
    config = sweep_plan.config
    shared = dict(problem=config["problem"], algorithm=sweep_plan.algorithms[row])
    shared |= dict(horizon=config["horizon"], configuration=row)
    return shared | settings.numbers(sweep_plan.bandits[row])


def make_runs(sweep: Sweep, sweep_plan: Plan, tasks: list[Task]) -> tuple[int, dict[str, Any]]:
    """Executes the missing runs; returns their number and a description of the session."""
    missing = missing_tasks(sweep, tasks)
    print(
        f"data: {sweep_plan.setting.source}\n"
        f"{len(sweep_plan.rows)} configurations x {sweep.seeds} seeds; {len(tasks)} runs of"
        f" {sweep.horizon:,} evaluations, {len(missing)} of them missing",
        flush=True,
    )
    began, programs_before = time.perf_counter(), loops.compiled_programs()
    evaluations = len(missing) * sweep.horizon
    total = len(tasks) * sweep.horizon
    make = RunMaker(sweep, environment.commit_name(), sweep_plan)
    unit, name = "evaluations", f"{len(tasks)} runs"
    with cli.progress(total, total - evaluations, unit, name) as bar:
        if execution.is_vmapped(sweep):
            execution.run_vmapped(make.job, missing, sweep.chunk, bar)
            how = f"vmap, {sweep.chunk} runs a program"
        else:
            how = run_in_processes(make, sweep, missing, bar)
    seconds = time.perf_counter() - began
    return len(missing), dict(
        strategy=how,
        runs=len(missing),
        seconds=seconds,
        evaluations_per_second=evaluations / seconds,
        compiled_programs=loops.compiled_programs() - programs_before,  # in this process
    )


def run_in_processes(make: "RunMaker", sweep: Sweep, missing: list[Task], bar: Any) -> str:
    """Executes the missing runs one after the other in each process; returns how many processes.
    With `--workers auto` the first run is made in this one, and its time gives their number."""
    workers = sweep.workers
    if workers == "auto" and not sweep.cluster and missing:
        first, *missing = missing
        engine.run_each(make, [first], engine.THIS_PROCESS, sweep.horizon, bar)
        saved = store.read_saved(execution.path(sweep.out, first))
        workers = execution.processes(len(missing), float(saved["run_seconds"]))
    workers = 1 if workers == "auto" else int(workers)
    if missing:
        engine.run_each(make, missing, engine.Workers(workers, sweep.cluster), sweep.horizon, bar)
    return "cluster" if sweep.cluster else f"{workers} processes"


class RunMaker:
    """Makes the runs of a sweep. A process that unpickles it plans the sweep again, because the
    user's algorithm is imported as in `settings.import_attribute`, and may not be picklable."""

    def __init__(self, sweep: Sweep, commit: str, sweep_plan: Plan | None = None):
        self.sweep, self.commit = sweep, commit
        self.plan = sweep_plan or plan(sweep)

    @cached_property
    def job(self) -> Job:
        """The inputs of all runs. A process that makes none needs no capacities."""
        sweep, setting, bandits = self.sweep, self.plan.setting, self.plan.bandits
        problems = [setting.problem_of(bandit) for bandit in bandits]
        if not execution.is_vmapped(sweep):
            bandits = execution.with_shared_capacities(bandits, problems, sweep.horizon)
        mean_reward = setting.problem.mean_reward
        return Job(bandits, problems, mean_reward, sweep.horizon, sweep.out, self.commit)

    def __call__(self, task: Task, on_progress: Callable[[int, float], None] | None = None) -> None:
        execution.execute(self.job, task, on_progress)

    def __reduce__(self) -> tuple[Any, ...]:
        return RunMaker, (self.sweep, self.commit)


def collect(sweep: Sweep, sweep_plan: Plan, session: dict[str, Any]) -> None:
    """Writes curves.parquet, summary.parquet and summary.json of all runs."""
    config = sweep_plan.config
    columns = [run_columns(sweep_plan, row) for row in range(len(sweep_plan.rows))]
    runs = [
        tidy.Run(
            columns[task.row],
            task.seed,
            store.read_saved(execution.path(sweep.out, task)),
        )
        for task in sweep_plan.tasks
    ]
    title = f"{config['algorithm']} on {config['problem']}, {sweep.seeds} seeds"
    _, summary = tidy.tables(runs)
    ranking = rank(summary, swept_columns(sweep_plan)).head(MAX_ROWS).to_dict("records")
    provenance = dict(
        config=config,
        seeds=sweep.seeds,
        configurations=sweep_plan.rows,
        data=config["data"],
        uniform_regret="t (f* - mean f), the expected regret of t uniform arms",
        run_seconds="wall time of a run, while others ran in other processes (vmap: the time"
        " of a program divided by the number of its runs, with compilation)",
        compile_seconds=float(summary["compile_seconds"].sum()),
        last_session=session,
        commits_of_runs=sorted(summary["commit"].unique()),
        **environment.provenance(),
        # JSON holds no NaN: the interval of one seed is null
        best=[{k: None if v != v else v for k, v in row.items()} for row in ranking],
    )
    store.write_json(sweep.out / tidy.PROVENANCE, provenance)
    tidy.write(sweep.out, runs, "sweep", title)


def runs_in_tables(sweep: Sweep) -> int:
    """The number of runs in the tables; 0 when a table is missing or cannot be read."""
    if not tidy.is_complete(sweep.out):
        return 0
    try:
        return len(tidy.load(sweep.out).summary)
    except (OSError, ValueError, KeyError):
        return 0


def rank(summary: pd.DataFrame, swept: list[str]) -> pd.DataFrame:
    """Configurations by their mean regret ratio, the best first, with 95% intervals over seeds. A
    mean is NaN if one of its runs failed, and such configurations are last."""
    summary = summary.astype({name: object for name in summary.select_dtypes("category")})
    table = summary.groupby("configuration").agg(
        **{name: (name, "first") for name in swept},
        regret_ratio=("final_regret_ratio", mean),
        ci95=("final_regret_ratio", summaries.ci95),
        batches=("batches", mean),
        dictionary_size=("dictionary_size", mean),
        run_seconds=("run_seconds", "mean"),
        failed=("failed", "sum"),
    )
    return table.sort_values(["failed", "regret_ratio"], kind="stable").reset_index()


def mean(values: pd.Series) -> float:
    """The mean, NaN if one of the values is."""
    return float(values.mean(skipna=False))


def print_table(table: pd.DataFrame) -> None:
    """Prints the best configurations, and names those with runs that failed."""
    best = table.head(MAX_ROWS)
    print(f"\nthe best {len(best)} of {len(table)} configurations by R_T / R_T^unif")
    print(
        best.dropna(axis="columns", how="all").to_string(
            index=False, na_rep="-", float_format=lambda value: f"{value:.5g}"
        )
    )
    failed = table[table["failed"] > 0]
    if len(failed):
        numbers = ", ".join(str(number) for number in failed["configuration"])
        print(
            f"{int(failed['failed'].sum())} runs FAILED, because a reward or the posterior was not"
            f" finite. Their configurations are last and have no mean: {numbers}."
        )


def latex(table: pd.DataFrame) -> str:
    """The configurations as a LaTeX table, with labels, and errors that have two digits."""
    known = {"regret_ratio", "ci95", "configuration", *MEASURED}
    swept = [name for name in table if name not in known]
    columns = {name.replace("_", " "): [swept_text(x) for x in table[name]] for name in swept}
    pairs = zip(table["regret_ratio"], table["ci95"], strict=True)
    columns[RATIO_IN_LATEX] = [summaries.with_error(*pair, latex=True) for pair in pairs]
    for name, (title, digits) in MEASURED.items():
        # the dictionary's size is not known over a box
        if table[name].any() if name == "failed" else table[name].notna().any():
            columns[title] = [f"{x:.{digits}f}" if math.isfinite(x) else "--" for x in table[name]]
    style = pd.DataFrame(columns).style.hide(axis="index")
    return style.to_latex(hrules=True, column_format="r" * len(columns))


def swept_text(value: Any) -> str:
    """The name of an algorithm, or a number; -- for a number that the algorithm does not have."""
    if isinstance(value, str):
        return label(value)
    return f"{value:.4g}" if math.isfinite(value) else "--"


def parse(arguments: list[str] | None = None) -> Sweep:
    """The sweep of a command line."""
    shared = ("horizon", "seeds", "data_dir")
    parser = cli.parser(__doc__, prog="scripts/sweep", **dict.fromkeys(shared))
    defaults = {
        field: value
        for field, value in vars(Sweep(Path())).items()
        if field not in ("out", "grid", "random")
    }
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    listed = ", ".join(settings.PROBLEMS)
    parser.add_argument(
        "--problem", type=problem, help=f"one of {listed}, or FILE.csv (default %(default)s)"
    )
    parser.add_argument(
        "--algorithm",
        help="a name in the experiment of the problem, or module:Name for your own; several are"
        " separated by commas (default %(default)s)",
    )
    kernels = ", ".join(settings.KERNELS)
    kernel_help = f"one of {kernels}, or module:Name for your own (default: the experiment's)"
    parser.add_argument("--kernel", type=kernel, help=kernel_help)
    for option, metavar, help in (
        ("--grid", "NUMBER VALUE ...", "a number of the algorithm and its values"),
        ("--random", "NUMBER LOW HIGH", "a number whose logarithm is drawn uniformly"),
    ):
        parser.add_argument(option, nargs="+", action="append", metavar=metavar, help=help)
    parser.add_argument(
        "--samples", type=cli.count, help="number of draws of --random (default %(default)s)"
    )
    arms_help = "number of generated arms (default %(default)s)"
    parser.add_argument("--arms", type=cli.count, help=arms_help)
    parser.add_argument(
        "--strategy",
        choices=("auto", "map", "vmap"),
        help="map: one run after the other in each of --workers processes; vmap: --chunk runs in"
        " one program, which a CPU computes one after the other; auto (the default): vmap on"
        " accelerators only",
    )
    parser.add_argument(
        "--workers",
        type=workers,
        help="processes, one thread each; 1 is this process, with all cores; auto is one for each"
        " core if by the time of the first run the sweep ends sooner, else 1 (default %(default)s)",
    )
    parser.add_argument(
        "--chunk", type=cli.count, help="runs in one program of vmap (default %(default)s)"
    )
    cluster_help = "address of a scheduler of Dask, such as tcp://host:8786, in place of --workers"
    parser.add_argument("--cluster", metavar="ADDRESS", help=cluster_help)
    parser.set_defaults(**defaults)
    options = parser.parse_args(arguments)
    chosen: dict[str, Any] = {name: getattr(options, name) for name in defaults}
    for name in ("grid", "random"):
        given = getattr(options, name) or []
        try:
            chosen[name] = {number: tuple(map(float, values)) for number, *values in given}
        except ValueError as error:
            parser.error(f"--{name} takes the name of a number and values: {error}")
    # workers on other machines have another working directory
    chosen["data_dir"] = chosen["data_dir"] and chosen["data_dir"].resolve()
    return Sweep(out=options.out.resolve(), **chosen)


def problem(text: str) -> str:
    """The name of a problem or of a CSV file, as the `type` of an option."""
    if text not in settings.PROBLEMS and not text.endswith(".csv"):
        listed = ", ".join(settings.PROBLEMS)
        raise argparse.ArgumentTypeError(
            f"must be one of {listed}, or FILE.csv; {text!r} was given"
        )
    return text


def workers(text: str) -> int | str:
    """A number of processes or "auto", as the `type` of an option."""
    return text if text == "auto" else cli.count(text)


def kernel(text: str) -> str:
    """The name of a kernel, or "module:Name", as the `type` of an option."""
    if text not in settings.KERNELS and not all(text.partition(":")):
        listed = ", ".join(settings.KERNELS)
        raise argparse.ArgumentTypeError(
            f"must be one of {listed}, or yours as module:Name; {text!r} was given"
        )
    return text


@cli.command
def main() -> None:
    sweep = parse()
    cli.set_up_jax()
    table = run(sweep)
    print_table(table)
    tidy.write_csv(sweep.out / "best.csv", table)
    files.write(sweep.out / "best.tex", latex(table).encode())
    print(f"\nsummary.json, the tables (.parquet, .csv, .tex) and the figures are in {sweep.out}")
