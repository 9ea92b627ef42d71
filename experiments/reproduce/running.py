"""A command as a process of its own, whose output goes to a log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments import cli
from experiments.commands import ROOT

PATIENCE = 0.5  # seconds for a process that a terminal has interrupted too


def run(arguments: Sequence[str], log: Path | None, changes: Mapping[str, str]) -> int:
    """Runs `python` with the arguments in the root of the repository, its output in the file
    `log` or, without one, where ours goes; the exit status.

    changes: environment variables. An interrupt reaches the process too. Raises KeyboardInterrupt
    when it ended by one, and OSError when the log cannot be written.
    """
    output = None if log is None else log.open("wb")
    try:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | changes,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )
    finally:
        if output is not None:
            output.close()
    try:
        status = process.wait()
    except BaseException:
        _end(process)
        raise
    if status in (cli.INTERRUPTED, -signal.SIGINT):
        raise KeyboardInterrupt
    return status


def _end(process: subprocess.Popen[bytes]) -> None:
    """Waits for a process to end by the interrupt that it got from the terminal, or by ours; its
    command line ends within seconds of it."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()


def reason(status: int, log: Path) -> str:
    """Why a command failed: the signal that ended it, or the last line that it wrote."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    written = log.read_text(errors="replace").splitlines()
    last = next((line.strip() for line in reversed(written) if line.strip()), "")
    return last.removeprefix("error: ") or f"exit status {status}"
