"""The shards of a sweep as an array of jobs, by submitit: through Slurm, or as processes of this
machine. Each job is the command of its shard; shards with tables are not submitted again."""

from __future__ import annotations

import dataclasses
import importlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from experiments.results import environment, tidy
from experiments.results.shards import Shard
from experiments.sweep import options
from experiments.sweep.options import Sweep

JOBS = "jobs"  # the folder with the scripts, the output and the errors of the jobs


def executor(sweep: Sweep) -> Any:
    """The executor of submitit. Raises ValueError where it is not installed, for an unknown
    parameter, and where there is no Slurm."""
    try:
        submitit = importlib.import_module("submitit")
    except ImportError as error:
        raise ValueError("--cluster needs submitit: pip install 'jsketch[cluster]'") from error
    given = parameters(sweep.submit)
    if "timeout_min" not in given:
        raise ValueError(
            "--cluster: submitit ends a job after a few minutes unless --submit timeout_min=240 or"
            " the like gives its time. A job that is ended keeps its runs."
        )
    if sweep.at_once is not None:
        given["slurm_array_parallelism"] = sweep.at_once
    try:
        made = submitit.AutoExecutor(folder=sweep.out.resolve() / JOBS, cluster=sweep.cluster)
        made.update_parameters(name="sweep", **given)
    except (RuntimeError, NameError, TypeError, ValueError) as error:
        raise ValueError(f"--cluster {sweep.cluster}: {error}") from error
    return made


def parameters(words: Sequence[str]) -> dict[str, Any]:
    """{"timeout_min": 240} for ("timeout_min=240",). Raises ValueError for another form."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError(
                f"--submit takes NAME=VALUE, such as timeout_min=240; {word!r} was given."
            )
        found[name] = int(value) if value.isdecimal() else value
    return found


def unfinished(sweep: Sweep) -> list[Shard]:
    """The shards that have no tables yet."""
    found = [Shard(n, sweep.shards) for n in range(1, sweep.shards + 1)]
    return [shard for shard in found if not (shard.folder(sweep.out) / tidy.CURVES).exists()]


def command(sweep: Sweep, shard: Shard) -> list[str]:
    """The command of a shard, for this interpreter."""
    data = None if sweep.data_dir is None else sweep.data_dir.resolve()
    whole = dataclasses.replace(sweep, out=sweep.out.resolve(), data_dir=data)
    words = shlex.split(options.command(whole, str(shard)))[1:]
    return [sys.executable, "-P", "-m", "experiments.sweep.main", *words]


def run_command(words: list[str]) -> None:
    """Runs in a job."""
    subprocess.run(words, cwd=environment.ROOT, check=True)


def run(sweep: Sweep, jobs_of: Any = None) -> None:
    """Submits the shards that are not done as one array, and waits for them. Raises ValueError that
    names the shards that failed; the others are done by then.

    jobs_of: used in place of `executor(sweep)`."""
    left = unfinished(sweep)
    if not left:
        return
    jobs_of = jobs_of or executor(sweep)
    jobs = jobs_of.map_array(run_command, [command(sweep, shard) for shard in left])
    print(f"{len(left)} of {sweep.shards} shards are submitted ({sweep.out / JOBS})", flush=True)
    for job in jobs:
        job.wait()
    failed = {s: job for s, job in zip(left, jobs, strict=True) if s in unfinished(sweep)}
    if failed:
        files = "".join(f"\n  shard {s}: {job.paths.stderr}" for s, job in failed.items())
        raise ValueError(
            f"{len(failed)} of {sweep.shards} shards ended without their tables; the same command"
            f" runs them again. Their errors:{files}"
        )
