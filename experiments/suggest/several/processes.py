"""Several processes of one suggestion: started here, or by srun."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from experiments import cli
from experiments.results import files
from jsketch import distributed
from jsketch.suggest.parts import Processes

JOIN = "JSKETCH_SUGGEST_JOIN"  # in the environment of a process that was started here
STEP, RANK = "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"
SMALLEST = 1024  # bytes of a message, a power of two: few sizes to compile
GRACE = 5.0  # seconds that the others have to end after one has failed


def by_srun(count: int) -> bool:
    """Whether srun started this process. Raises ValueError where it started another number."""
    tasks = int(os.environ.get(STEP, 1))
    if tasks > 1 and tasks != count:
        raise ValueError(f"srun started {tasks} tasks, and --processes is {count}: they are one.")
    return tasks > 1


def start(count: int, command: list[str]) -> None:
    """Runs a command as so many processes of this machine that find each other, to its end.

    Raises ValueError with the words of the one that failed; the others are ended.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{found.getsockname()[1]}"
    running: list[subprocess.Popen[bytes]] = []
    with files.scratch() as folder:
        # a job that is cancelled leaves nothing behind
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            for number in range(count):
                with (folder / str(number)).open("wb") as log:
                    joining = os.environ | {JOIN: f"{where} {number}"}
                    running.append(subprocess.Popen(command, env=joining, stderr=log))
            failed = _failed(running)
        finally:
            for process in running:
                process.kill()
                process.wait()
            signal.signal(signal.SIGTERM, before)
        if failed is not None:
            raise ValueError(_why(failed, running[failed].returncode, folder))
        sys.stderr.write((folder / "0").read_text(errors="replace"))


def _failed(running: list[subprocess.Popen[bytes]]) -> int | None:
    """The process that failed, once all have ended or the others have had their time."""
    end, killed = float("inf"), None
    while time.monotonic() < end and any(process.poll() is None for process in running):
        time.sleep(0.05)
        statuses = [process.poll() or 0 for process in running]
        if any(statuses) and end == float("inf"):
            end = time.monotonic() + GRACE
            # one that was killed has failed before those that miss it
            killed = statuses.index(min(statuses)) if min(statuses) < 0 else None
    wrong = [number for number, process in enumerate(running) if process.poll()]
    return wrong[0] if killed is None and wrong else killed


def _why(number: int, status: int, folder: Path) -> str:
    lines = (folder / str(number)).read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else ""
    if last.startswith("error: "):
        return last.removeprefix("error: ")
    return f"process {number} ended with status {status}, and nothing was written. {last}".strip()


@contextlib.contextmanager
def joined(count: int) -> Iterator[Processes]:
    """This process and the others, once they have found each other; only process 0 prints."""
    where, number = None, int(os.environ.get(RANK, 0))
    if JOIN in os.environ:
        where, text = os.environ[JOIN].split()
        number = int(text)
    told: Any = {} if where is None else dict(processes=count, process=number)
    # what Gloo says of connections goes to the descriptor of the standard output, past Python
    sys.stdout.flush()
    mine, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with open(nowhere if number else mine, "w") as said, contextlib.redirect_stdout(said):
        distributed.start(where, **told)
        try:
            yield Processes(number, count, gathered)
        except ValueError:
            # all have agreed on it (`Processes.agreed`)
            raise
        except Exception as error:
            # the others would wait for minutes at the end of this one
            if isinstance(error, (OSError, MemoryError)):
                print(f"error: {cli.sentence(error)}", file=sys.stderr)
            else:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def gathered(value: Any) -> list[Any]:
    """The value of each process, in their order; on all of them."""
    message = np.frombuffer(pickle.dumps(value), np.uint8)
    sizes = np.ravel(multihost_utils.process_allgather(np.array(message.size)))
    room = max(SMALLEST, 1 << int(sizes.max() - 1).bit_length())
    padded = np.pad(message, (0, room - message.size))
    heard = np.asarray(multihost_utils.process_allgather(padded)).reshape(jax.process_count(), room)
    return [pickle.loads(row[:size].tobytes()) for row, size in zip(heard, sizes, strict=True)]
