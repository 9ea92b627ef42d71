"""The shards of a sweep as jobs of a cluster, by submitit: on this machine or through Slurm.

A job is the command of its shard in a process of its own. Shards that are done are not submitted
again, so that the same command resumes after anything; `runs` of all shards move one bar.
"""

from __future__ import annotations

import dataclasses
import importlib
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.results import environment, shards, tidy
from experiments.results.shards import Shard
from experiments.sweep import options
from experiments.sweep.options import Sweep

JOBS = "jobs"  # folder of what submitit writes: scripts, output and errors of each job
PAUSE = 1.0  # seconds between two checks of the jobs


def executor(sweep: Sweep) -> Any:
    """submitit's, with the parameters of the sweep. Raises ValueError when it is not installed, or
    for a parameter that it does not know."""
    try:
        submitit = importlib.import_module("submitit")
    except ImportError as error:
        raise ValueError("--cluster needs submitit: pip install 'submitit>=1.5.3'") from error
    asked = parameters(sweep.submit)
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
    width = sweep.at_once or (len(left) if sweep.cluster == "slurm" else 1)
    waiting, running, ended = list(left), dict[Shard, Any](), dict[Shard, Any]()
    print(
        f"{len(left)} of {sweep.shards} shards to run ({sweep.cluster}), {min(width, len(left))} at"
        f" a time; jobs in {sweep.out / JOBS}",
        flush=True,
    )
    try:
        with tqdm(total=runs, initial=done(sweep), unit="run", desc="all shards") as bar:
            while waiting or running:
                while waiting and len(running) < width:
                    shard = waiting.pop(0)
                    line = words(sweep, shard)
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
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip().startswith("error: ")]
    return f"{said[-1] if said else 'it was killed, or ended abruptly'} ({path})"
