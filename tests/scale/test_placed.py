"""Arms over the devices of a mesh: picks, memory and messages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def four_devices(*requests):
    """The results of `four_devices.py` in a process with four devices: each request is the name of
    a function and its arguments."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    process = subprocess.run(
        [sys.executable, "tests/scale/four_devices.py", json.dumps(requests)],
        cwd=ROOT,
        env=os.environ | dict(XLA_FLAGS=flags, JAX_ENABLE_X64="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def check_runs(results, divided=5):
    """The runs on all meshes have the picks and the numbers of the run without a mesh, and each
    device has a part of at least `divided` vectors of the state."""
    without_mesh = results.pop("0")
    assert len(set(without_mesh["arms"])) > 4
    for devices, run in results.items():
        assert run["arms"] == without_mesh["arms"], devices
        np.testing.assert_allclose(run["numbers"], without_mesh["numbers"], rtol=1e-7)
        assert run["padding"] == [0, 0], "padding has pulls or is in the dictionary"
        assert sum(run["is_divided"]) >= (0 if devices == "1" else divided)


def dimensions(program):
    """All lengths of the arrays that devices exchange."""
    return [length for _, shape in program["messages"] for length in shape]


def test_the_picks_are_those_of_one_device():
    """The devices do not divide the arms, and the last arm, which is repeated as padding, is the
    best one."""
    bbkb, warm = four_devices(["runs", "bbkb", [4, "2x2"]], ["runs", "bbkb", [4], None])
    assert warm["0"]["arms"] != bbkb["0"]["arms"] and 60 in bbkb["0"]["arms"]
    check_runs(bbkb)
    check_runs(warm)


def test_a_device_has_its_rows_of_the_arms():
    too_few, fewest, large = four_devices(
        ["place_error", 3, 4], ["rows", 5, 4], ["rows", 100_003, 4]
    )
    assert "3 arms for 4 devices" in too_few
    assert fewest["is_equal"] and fewest["padding"] > 0
    assert large["is_equal"] and large["padding"] < 100_003 / 32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bbkb", "draw", "local", "guaranteed", "bkb", "fixed", "ts"])
def test_every_algorithm_on_a_sketch_has_the_picks_of_one_device(name):
    (runs,) = four_devices(["runs", name, [1, 2, 4]])
    check_runs(runs, divided=7 if name == "fixed" else 5)


@pytest.mark.slow
def test_an_algorithm_on_the_exact_posterior_has_the_picks_of_one_device():
    (runs,) = four_devices(["runs", "exact", [2, 4]])
    check_runs(runs, divided=1)


@pytest.mark.slow
def test_warm_starts_have_the_picks_of_one_device():
    """FixedBKB has failed arms and repeats none, and one dictionary omits pulled arms."""
    for runs in four_devices(
        ["runs", "fixed", [2, 4], "leverage"],
        ["runs", "bkb", [4], "bless"],
        ["runs", "local", [2], [17, 60]],
    ):
        check_runs(runs)


@pytest.mark.slow
def test_run_and_drive_have_the_picks_of_one_device():
    """The capacity of the run grows."""
    one, four = four_devices(["loops", 0], ["loops", 4])
    assert four == one and len(set(one["run"])) > 4


def test_no_message_has_the_length_of_the_arms():
    """A program that sorts a vector of all arms shows that such a message is found."""
    program, sort = four_devices(["program", "bbkb", 40_001, 4], ["sort_program", 40_001, 4])
    assert max(dimensions(sort)) >= sort["rows"]
    assert program["messages"] and max(dimensions(program)) <= 1024 < program["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["draw", "local", "guaranteed", "bkb", "fixed", "ts"])
def test_no_algorithm_sends_a_message_of_the_length_of_the_arms(name):
    # A Thompson sample moves the noise of a few arms to the devices of the padded rows
    n_arms = 40_960 if name == "ts" else 40_001
    (program,) = four_devices(["program", name, n_arms, 4])
    assert program["messages"] and max(dimensions(program)) <= 1024 < program["rows"]


@pytest.mark.slow
def test_a_device_holds_its_part():
    """Twice as many arms are twice as many rows of a device; all other arrays are small."""
    small, large, one_device = four_devices(
        ["program", "bbkb", 2**18, 4], ["program", "bbkb", 2**19, 4], ["program", "bbkb", 2**19, 1]
    )
    assert 1.8 < large["bytes"] / small["bytes"] < 2.1
    assert large["bytes"] < one_device["bytes"] / 2
