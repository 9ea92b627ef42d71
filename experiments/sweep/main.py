"""Sweeps: an algorithm on a problem with every combination of some of its numbers, and every seed.

    scripts/sweep --problem abalone --algorithm bbkb --horizon 1000 --seeds 10 \\
        --grid.lengthscale 3 5 10 17.5 --grid.regularization .01 .1 1 --out results/sweep_abalone

Numbers drawn at random: --random.lengthscale 1 30 --samples 50. All runs share one compiled program
(one for each capacity of the sketch). A sweep that was killed resumes with the same command; one
folder holds one sweep, and at the end its tables (`experiments.results.tidy`).
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jax
import pandas as pd
import tyro

from experiments import cli
from experiments.results import environment, files, outputs, shards, store, summaries, tidy
from experiments.results.shards import Shard
from experiments.runs import plan_line
from experiments.sweep import cluster, configurations, execution, heat_maps, options, settings
from experiments.sweep.configurations import Row
from experiments.sweep.execution import Job, Task
from experiments.sweep.options import Sweep
from jsketch import loops

SHOWN = 10  # configurations in the printed table


def run(sweep: Sweep) -> pd.DataFrame:
    """Runs what is missing and writes the tables; the configurations, best first. Raises ValueError
    on mistakes in `sweep`, for a folder of another sweep, and for one that another process holds.
    """
    for name in ("horizon", "seeds", "arms", "workers", "chunk", "shards", "at_once"):
        value = getattr(sweep, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1; {value} was given.")
    if sweep.cluster and sweep.shard:
        raise ValueError("--cluster runs all shards, --shard one of them: give one of the two.")
    setting = settings.load(sweep)
    bandit = settings.make(sweep, setting)
    rows = configurations.rows(sweep, bandit, setting.problem.arms.features.shape[1])
    config = settings.describe(sweep, setting, bandit)
    tasks = [Task(row, seed) for row in range(len(rows)) for seed in range(sweep.seeds)]
    if sweep.cluster:
        Shard(sweep.shards, sweep.shards).part(tasks)  # refuses more shards than runs
    shard = None if sweep.shard is None else shards.parse(sweep.shard)
    if shard is not None:
        tasks = shard.part(tasks)
        # the split depends on the number of seeds, as no run does
        config |= dict(shard=str(shard), seeds=sweep.seeds)
        alike(sweep.out, config)
        again = options.command(sweep, shards.CHOSEN)
        sweep = dataclasses.replace(sweep, out=shard.folder(sweep.out))
    files.check_folder(sweep.out)
    with files.held(sweep.out):
        claim(sweep, config)
        if shard is None:
            adopt(sweep, config, tasks)
        else:
            shards.record(shard, sweep.out, again)
        if sweep.cluster and left(sweep, tasks):
            alike(sweep.out, config | dict(shard=str(Shard(1, sweep.shards)), seeds=sweep.seeds))
            cluster.run(sweep)
            adopt(sweep, config, tasks)
        missing = left(sweep, tasks)
        of_these = "" if shard is None else f", shard {shard}"
        print(
            f"data: {setting.source}\n{len(rows)} configurations x {sweep.seeds} seeds{of_these} ="
            f" {len(tasks)} runs of"
            f" {sweep.horizon:,} evaluations; {len(tasks) - len(missing)} are done",
            flush=True,
        )
        bandits = [configurations.with_numbers(bandit, row) for row in rows]
        session = execute(sweep, bandits, setting.problem, missing, len(tasks))
        if missing or runs_in_tables(sweep) != len(tasks):
            collect(
                sweep, config, rows, [configurations.numbers(b) for b in bandits], tasks, session
            )
            if shard is None:
                heat_maps.draw(sweep.out)
    summary = tidy.load(sweep.out).summary
    return best(summary, list(rows[0]))


def left(sweep: Sweep, tasks: list[Task]) -> list[Task]:
    """Those that are not done."""
    return [task for task in tasks if not execution.path(sweep.out, task).exists()]


def claim(sweep: Sweep, config: dict[str, Any]) -> None:
    """`store.claim` for the sweep that holds the folder. Raises ValueError for results that no
    sweep left there, too."""
    made = sweep.out / "runs" / outputs.SWEEP
    tables = [name for name in outputs.TABLES if (sweep.out / name).exists()]
    if outputs.record_path(sweep.out).exists():
        raise ValueError(f"{sweep.out} holds runs of an experiment: use another --out.")
    if tables and not made.exists():
        raise ValueError(
            f"{sweep.out} holds {', '.join(tables)} but no runs of a sweep; this one would replace"
            " them: use another --out."
        )
    # of a sweep that did not fit, or was stopped before its first run was done, nothing is kept;
    # its record is replaced and never removed, as other shards read it at the same time
    new = not tables and not any(made.parent.glob("row*.npz"))
    store.claim(sweep.out, "sweep", config, new)


def execute(
    sweep: Sweep, bandits: list[Any], problem: Any, missing: list[Task], total: int
) -> dict[str, Any]:
    """Makes the missing runs; what is to be said of how."""
    vmapped = sweep.strategy == "vmap" or (
        sweep.strategy == "auto" and jax.default_backend() != "cpu"
    )
    of_missing = [bandits[row] for row in sorted({task.row for task in missing})]
    try:
        plan_line.announce(
            of_missing,
            problem,
            sweep.horizon,
            len(missing),
            sweep.chunk if vmapped else sweep.workers,
            workers=sweep.workers,
            strategy="vmap" if vmapped else "threads",
        )
    except ValueError as error:
        option = "--chunk" if vmapped else "--workers"
        raise ValueError(f"{error} {option} says how many runs there are at a time.") from error
    began, before = time.perf_counter(), loops.compiled_programs()
    evaluations = len(missing) * sweep.horizon
    whole = total * sweep.horizon
    with cli.progress(whole, whole - evaluations, "eval", f"{total} runs") as bar:
        job = Job(bandits, problem, sweep.horizon, sweep.out, environment.code(), bar)
        if missing and vmapped:
            execution.run_vmapped(job, missing, sweep.chunk)
        elif missing:
            execution.run_threads(job, missing, sweep.workers)
    seconds = time.perf_counter() - began
    how = f"vmap, {sweep.chunk} runs a program" if vmapped else f"{sweep.workers} threads"
    return dict(
        strategy=how,
        runs=len(missing),
        seconds=seconds,
        evaluations_per_second=evaluations / seconds,
        compiled_programs=loops.compiled_programs() - before,
    )


def collect(
    sweep: Sweep,
    config: dict[str, Any],
    rows: list[Row],
    full_rows: list[Row],
    tasks: list[Task],
    session: dict[str, Any],
) -> None:
    """Writes curves.parquet, summary.parquet and summary.json of all runs."""
    shared = {name: config[name] for name in ("problem", "algorithm", "horizon")}
    runs = []
    for task in tasks:
        numbered = dict(shared, configuration=task.row, **full_rows[task.row])
        runs.append(
            tidy.Run(numbered, task.seed, store.read_saved(execution.path(sweep.out, task)))
        )
    title = f"{config['algorithm']} on {config['problem']}, {sweep.seeds} seeds"
    _, summary = tidy.tables(runs)
    found = best(summary, list(rows[0]))
    provenance = dict(
        config=config,
        seeds=sweep.seeds,
        configurations=rows,
        data=config["data"],
        uniform_regret="expectation t (f* - mean f)",
        run_seconds="wall time of a run beside those that ran with it (vmap: its share, with"
        " compilation)",
        compile_seconds=float(summary["compile_seconds"].sum()),
        last_session=session,
        commits_of_runs=sorted(summary["commit"].unique()),
        **environment.describe(),
        best=[_plain(row) for row in found.head(SHOWN).to_dict("records")],
    )
    store.write_json(sweep.out / tidy.PROVENANCE, provenance)
    tidy.write(sweep.out, runs, "sweep", title)


def adopt(sweep: Sweep, config: dict[str, Any], tasks: list[Task]) -> None:
    """Takes over what shards of this sweep have run. Raises ValueError as `alike`."""
    for folder in alike(sweep.out, config).values():
        for task in tasks:
            here, there = execution.path(sweep.out, task), execution.path(folder, task)
            if there.exists() and not here.exists():
                files.write(here, there.read_bytes())


def alike(out: Path, config: dict[str, Any]) -> dict[Shard, Path]:
    """The folders of shards in that of a sweep. Raises ValueError, naming each difference, for
    shards of another sweep; for a `config` of a shard also where one of the same split has another
    number of seeds."""
    found = shards.started(out)
    for shard, folder in found.items():
        made = store.read_json(folder / "runs" / outputs.SWEEP)
        split = str(config.get("shard", "")).endswith(f"/{shard.of}")
        apart = ("shard",) if split else ("shard", "seeds")
        before, now = (
            {name: value for name, value in one.items() if name not in apart}
            for one in (made, json.loads(json.dumps(config)))
        )
        if words := store.differences(before, now):
            raise ValueError(
                f"shard {shard} in {folder} was made with another configuration:"
                f" {'; '.join(words)}. Use another --out, or delete that folder."
            )
    return found


def runs_in_tables(sweep: Sweep) -> int:
    """How many runs the tables hold; 0 when one of them is not there or cannot be read."""
    if not (sweep.out / tidy.CURVES).exists():
        return 0
    try:
        return len(tidy.load(sweep.out).summary)
    except (OSError, ValueError, KeyError):
        return 0


def best(summary: pd.DataFrame, swept: list[str]) -> pd.DataFrame:
    """Configurations by their mean regret ratio, the best first, with 95% intervals over seeds."""
    found = summary.groupby("configuration").agg(
        **{name: (name, "first") for name in swept},
        regret_ratio=("final_regret_ratio", "mean"),
        ci95=("final_regret_ratio", summaries.ci95),
        batches=("batches", "mean"),
        dictionary_size=("dictionary_size", "mean"),
        run_seconds=("run_seconds", "mean"),
        failed=("failed", "sum"),
    )
    return found.sort_values(["failed", "regret_ratio"], kind="stable").reset_index()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON holds no NaN: an interval of one seed is null."""
    return {name: None if value != value else value for name, value in row.items()}


def print_table(table: pd.DataFrame) -> None:
    """The best configurations."""
    print(f"\nthe best {min(SHOWN, len(table))} of {len(table)} configurations by R_T / R_T^unif")
    print(table.head(SHOWN).to_string(index=False, float_format=lambda value: f"{value:.5g}"))
    failed = int(table["failed"].sum())
    if failed:
        print(f"{failed} runs FAILED: a reward or the posterior was not finite.")


@cli.line
def main() -> None:
    sweep = tyro.cli(Sweep, prog="scripts/sweep", description=__doc__)
    cli.set_up_jax()
    if sweep.cluster:
        # the jobs have the GPUs; JAX here would take most of the first one's memory
        jax.config.update("jax_platforms", "cpu")
    print_table(run(sweep))
    print(
        f"\nsummary.json, the tables (curves, summary .parquet) and the figures are in {sweep.out}"
    )


if __name__ == "__main__":
    main()
