"""The shards of a sweep as jobs of a cluster, by submitit: on this machine or through Slurm.

A job is the command of its shard in a process of its own. Shards that are done are not submitted
again, so that the same command resumes after anything; `runs` of all shards move one bar.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import cli
from experiments.results import environment, shards, tidy
from experiments.results.shards import Shard
from experiments.sweep import options
from experiments.sweep.options import Sweep

JOBS = "jobs"  # folder of what submitit writes: scripts, output and errors of each job
PAUSE = 1.0  # seconds between two checks of the jobs
# of a job on this machine, unless `timeout_min` says less: submitit ends one after two
MINUTES = 60 * 24 * 365
TIMED_OUT = "Job has timed out"  # what submitit says of it
TIMES = ("timeout_min", "slurm_time", "local_timeout_min")


def executor(sweep: Sweep) -> Any:
    """submitit's, with the parameters of the sweep. Raises ValueError when it is not installed,
    for a parameter that it does not know, and for jobs of Slurm without a time."""
    try:
        submitit = importlib.import_module("submitit")
    except ImportError as error:
        raise ValueError("--cluster needs submitit: pip install 'submitit>=1.5.3'") from error
    asked = parameters(sweep.submit)
    if not asked.keys() & set(TIMES):
        if sweep.cluster == "slurm":
            raise ValueError(
                "--cluster slurm: submitit's jobs end after 5 minutes; say how long one may take,"
                " as in --submit timeout_min=240. What it has done by then is kept."
            )
        asked["timeout_min"] = MINUTES
    try:
        made = submitit.AutoExecutor(folder=sweep.out.resolve() / JOBS, cluster=sweep.cluster)
    except RuntimeError as error:
        # there is no Slurm here
        raise ValueError(f"--cluster {sweep.cluster}: {error}") from error
    try:
        made.update_parameters(name="sweep", **asked)
    except (NameError, TypeError, ValueError) as error:
        raise ValueError(f"--submit: {error}") from error
    return made


def parameters(words: Sequence[str]) -> dict[str, Any]:
    """{"timeout_min": 240} of ("timeout_min=240",). Raises ValueError for another form."""
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


def own_gpus(sweep: Sweep, place: int) -> list[str]:
    """What a command on this machine begins with to see GPUs of its own, as many as
    `gpus_per_node`: the first jobs of submitit's, and all that follow, would be given the same
    ones. `place` counts the jobs at a time."""
    each = parameters(sweep.submit).get("gpus_per_node", 0)
    if sweep.cluster != "local" or not each:
        return []
    known = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    mine = range(place * each, (place + 1) * each)
    if known and mine.stop > len(known):
        raise ValueError(
            f"--at-once {place + 1} with gpus_per_node={each} takes {mine.stop} GPUs, and"
            f" CUDA_VISIBLE_DEVICES names {len(known)}."
        )
    return ["env", "CUDA_VISIBLE_DEVICES=" + ",".join(known[i] if known else str(i) for i in mine)]


def words(sweep: Sweep, shard: Shard) -> list[str]:
    """The command of a shard, for this interpreter."""
    data = None if sweep.data_dir is None else sweep.data_dir.resolve()
    whole = dataclasses.replace(sweep, out=sweep.out.resolve(), data_dir=data)
    return [
        *(sys.executable, "-m", "experiments.sweep.main"),
        *shlex.split(options.command(whole, str(shard)))[1:],
    ]


def run(sweep: Sweep, runs: int, jobs_of: Any = None) -> None:
    """Submits the shards that are not done, `at_once` at a time, and waits for them; `runs` is how
    many the whole sweep has. jobs_of: in place of `executor`.

    Raises ValueError, with what each one said, when a shard failed; the others are done by then.
    Ctrl-C cancels what was submitted.
    """
    left = unfinished(sweep)
    if not left:
        return
    submit = jobs_of or executor(sweep)
    command = importlib.import_module("submitit").helpers.CommandFunction if not jobs_of else None
    width = min(sweep.at_once or (len(left) if sweep.cluster == "slurm" else 1), len(left))
    beginnings = [own_gpus(sweep, place) for place in range(width)]
    waiting, running, ended = list(left), dict[Shard, Any](), dict[Shard, Any]()
    places = dict[Shard, int]()
    print(
        f"{len(left)} of {sweep.shards} shards to run ({sweep.cluster}), {width} at a time; jobs in"
        f" {sweep.out / JOBS}",
        flush=True,
    )
    try:
        with cli.progress(runs, done(sweep), name="all shards") as bar:
            while waiting or running:
                while waiting and len(running) < width:
                    shard = waiting.pop(0)
                    places[shard] = min(set(range(width)) - {places[other] for other in running})
                    line = beginnings[places[shard]] + words(sweep, shard)
                    running[shard] = submit.submit(
                        command(line, verbose=False, cwd=environment.ROOT) if command else line
                    )
                time.sleep(PAUSE)
                for shard in [shard for shard, job in running.items() if job.done()]:
                    ended[shard] = running.pop(shard)
                bar.n = done(sweep)
                bar.refresh()
    except BaseException:
        for job in running.values():
            job.cancel()
        raise
    failed = {shard: job for shard, job in ended.items() if shard in unfinished(sweep)}
    if failed:
        said = "".join(f"\n  shard {shard}: {_errors(job)}" for shard, job in failed.items())
        raise ValueError(
            f"{len(failed)} of {sweep.shards} shards ended without their tables; the same command"
            f" runs those again.{said}"
        )


def done(sweep: Sweep) -> int:
    """How many runs the shards have made."""
    place = sweep.out / shards.PLACE
    return sum(1 for _ in place.glob(f"*-of-{sweep.shards}/runs/row*.npz"))


def _errors(job: Any) -> str:
    """What a job's command said of its error, and where all that it wrote is."""
    path = Path(job.paths.stderr)
    said = [line for line in _lines(path) if line.startswith("error: ")]
    if any(TIMED_OUT in line for line in _lines(Path(job.paths.stdout))):
        said.append("its time was over, what it has done is kept (--submit timeout_min=)")
    return f"{said[-1] if said else 'it was killed, or ended abruptly'} ({path})"


def _lines(path: Path) -> list[str]:
    """Of a file that may not be there."""
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []
