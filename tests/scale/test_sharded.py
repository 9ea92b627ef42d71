"""Arms over the devices of a mesh: picks, memory and messages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def four_devices(**requests):
    """The results of `four_devices.py` in a process with four devices."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    process = subprocess.run(
        [sys.executable, "tests/scale/four_devices.py", json.dumps(requests)],
        cwd=ROOT,
        env=os.environ | dict(XLA_FLAGS=flags, JAX_ENABLE_X64="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def check_picks(results, request="picks"):
    for name, runs in results[request].items():
        assert len(set(runs["without_mesh"])) > 4, name
        for devices, arms in runs["on_meshes"].items():
            assert arms == runs["without_mesh"], f"{name} on {devices} devices"


@pytest.fixture(scope="module")
def results():
    return four_devices(
        picks=dict(bbkb=[4], fixed=[4]),
        warm=dict(bbkb=[[4], None]),
        draws=[4],
        too_few=[[3, 4], [5, 4]],
    )


def test_the_picks_are_those_of_one_device(results):
    """The devices do not divide the arms, and there are duplicate arms."""
    check_picks(results)
    check_picks(results, "warm")
    assert results["warm"]["bbkb"]["without_mesh"] != results["picks"]["bbkb"]["without_mesh"]


def test_random_numbers_are_those_of_one_device(results):
    """The keys are those of JAX's default kind and of another kind."""
    assert len(results["draws"]["4"]) == 4 and all(results["draws"]["4"].values())


def test_fewer_arms_than_devices_are_refused(results):
    assert "3 arms for 4 devices" in results["too_few"][0]
    # the last device holds padding only
    assert results["too_few"][1] is None


@pytest.mark.slow
def test_every_algorithm_and_rule_has_the_picks_of_one_device():
    counts = [1, 2, 4]
    more = dict(fixed=[2], extended=[4], local=[2, 4], swept=[4])
    check_picks(four_devices(picks=dict(bbkb=counts, bkb=counts, ts=counts, **more)))


@pytest.mark.slow
def test_warm_starts_of_every_algorithm_have_the_picks_of_one_device():
    """FixedBKB has failed arms, and one dictionary omits pulled arms."""
    warm = dict(fixed=[[2, 4], "leverage"], bkb=[[4], "bless"], local=[[2], [17, 60]])
    check_picks(four_devices(warm=warm), "warm")


@pytest.mark.slow
def test_a_device_holds_its_part_and_messages_do_not_grow_with_the_arms():
    rounds = [20_000, 4], [40_000, 4], [40_000, 1]  # arms, devices
    small, large, one_device = four_devices(rounds=rounds)["rounds"]
    assert small["messages"] == large["messages"] and small["messages"]
    # Twice as many arms are twice as many rows of a device; all other arrays are small.
    assert 1.9 < large["bytes"] / small["bytes"] < 2.1
    assert large["bytes"] < one_device["bytes"] / 2
