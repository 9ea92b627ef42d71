"""Arms over two processes: picks equal those of one process, and both processes raise errors."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def outputs(processes, **options):
    """The lines that each process prints."""
    with socket.socket() as sock:  # finds a free port
        sock.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{sock.getsockname()[1]}"
    script = "tests/scale/two_processes.py"
    count = f" --xla_force_host_platform_device_count={options.setdefault('devices', 1)}"
    environment = os.environ | dict(
        JAX_ENABLE_X64="1", PYTHONPATH=str(ROOT), XLA_FLAGS=os.environ.get("XLA_FLAGS", "") + count
    )
    children = [
        subprocess.Popen(
            [sys.executable, script, coordinator, str(processes), str(number), json.dumps(options)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        return [process.communicate(timeout=300)[0].splitlines() for process in children]
    finally:
        for process in children:
            process.kill()


@pytest.fixture(scope="module")
def one_process():
    (lines,) = outputs(1)
    return json.loads(lines[-1])


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_two_processes_make_the_picks_of_one(one_process, devices):
    """The processes have one device or two each, and start without data or with a warm start."""
    logs = outputs(2, devices=devices)
    assert [json.loads(lines[-1]) for lines in logs] == [one_process] * 2
    # in the warm start arm 4 is observed, and arm 8 failed
    assert len(set(one_process["picks"])) > 4 and not {4, 8} & set(one_process["warm"])
    # process 1 passes wrong rows, another dtype and objects, and both processes pass integers: both
    # raise, and neither waits
    assert any("this process has the arms 16 to 30" in line for line in logs[1])
    assert sum("the rows of processes [1] are not finite, or" in line for line in logs[0]) == 2
    assert all(any("processes disagree" in line for line in lines) for lines in logs)
    assert any("their dtype is object" in line for line in logs[1])
    assert all(any("their dtype is int64" in line for line in lines) for lines in logs)
