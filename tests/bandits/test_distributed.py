"""Arms over two processes on this machine: the picks of one, and mistakes said in all of them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jsketch import distributed

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def outputs(processes):
    """The lines of each of so many processes."""
    where = f"127.0.0.1:{free_port()}"
    script = "tests/bandits/two_processes.py"
    environment = os.environ | dict(JAX_ENABLE_X64="1", PYTHONPATH=str(ROOT))
    running = [
        subprocess.Popen(
            [sys.executable, script, where, str(processes), str(number)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        return [process.communicate(timeout=300)[0].splitlines() for process in running]
    finally:
        for process in running:
            process.kill()


@pytest.mark.slow
def test_two_processes_make_the_picks_of_one():
    (alone,), two = outputs(1), outputs(2)
    assert [json.loads(lines[-1]) for lines in two] == [json.loads(alone[-1])] * 2
    # one had given rows that were not its own: both say so, and neither waits
    assert any("the rows of processes [1] are not their own" in line for line in two[0])
    assert any("this process has the arms 16 to 30" in line for line in two[1])


def test_a_start_that_is_half_told_is_refused():
    with pytest.raises(ValueError, match="belong together"):
        distributed.start("127.0.0.1:1", processes=2)
    with pytest.raises(ValueError, match="counts from 0 to 1.*; 2 was given"):
        distributed.start("127.0.0.1:1", processes=2, process=2)
