"""Arms over the devices of a mesh: the picks of one device, in less memory on each, with messages
that do not grow; and mistakes in plain words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jsketch import Arms, kernels, problems, run_seeds
from jsketch.bandits import BBKB, GPUCB, SketchedTS
from jsketch.scale import Sharded, place

ROOT = Path(__file__).parents[2]
KERNEL = kernels.Gaussian(lengthscale=0.3)
KEY = jax.random.key(0)


def four_devices(**asked):
    """The answer of a process that has four devices."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "tests/scale/four_devices.py", json.dumps(asked)],
        cwd=ROOT,
        env=os.environ | dict(XLA_FLAGS=flags, JAX_ENABLE_X64="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_picks(found, how="picks"):
    for name, runs in found[how].items():
        assert len(set(runs["alone"])) > 4, name
        for devices, arms in runs["over"].items():
            assert arms == runs["alone"], f"{name} on {devices} devices"


@pytest.fixture(scope="module")
def small():
    return four_devices(
        picks=dict(bbkb=[4], fixed=[4]),
        warm=dict(bbkb=[[4], None]),
        draws=[4],
        seeds=[[5, 4]],
        too_few=[[3, 4], [5, 4]],
        moved=[[4, 2]],
    )


def test_the_picks_are_those_of_one_device(small):
    """Also where the devices do not divide the arms, and where arms are the same."""
    check_picks(small)


def test_the_picks_after_a_warm_start_are_those_of_one_device(small):
    check_picks(small, "warm")
    assert small["warm"]["bbkb"]["alone"] != small["picks"]["bbkb"]["alone"]


def test_a_device_draws_its_part_of_what_one_device_draws(small):
    """With keys that count, and with others."""
    assert len(small["draws"]["4"]) == 4 and all(small["draws"]["4"].values())


def test_fewer_arms_than_devices_are_refused(small):
    assert "3 arms for 4 devices" in small["too_few"][0]
    # two devices hold nothing but padding
    assert small["too_few"][1] is None


def test_a_checkpoint_of_another_mesh_is_refused(small):
    (said,) = small["moved"]
    assert "one.run holds another run" in said and "algorithm.mesh.arms was 4, is 2" in said


def test_seeds_over_devices_are_those_of_one_device(small):
    """Five seeds on four devices: none is lost, no copy stays."""
    found = small["seeds"][0]
    assert found["over"] == found["alone"] and len(found["over"]) == 5
    assert found["devices"] == 4


def test_seeds_over_what_is_no_mesh_are_refused():
    problem = problems.finite_arms(np.eye(3), np.arange(3.0), 0.1)
    keys = jax.random.split(KEY, 2)
    with pytest.raises(ValueError, match=r"must be a jax\.sharding\.Mesh"):
        run_seeds(BBKB(KERNEL), problem, keys, 3, mesh=jax.devices())
    with pytest.raises(ValueError, match='strategy "threads" one on each core'):
        run_seeds(BBKB(KERNEL), problem, keys, 3, mesh=mesh(), strategy="threads")
    placed = problem.replace(arms=place(np.eye(3), mesh()))
    with pytest.raises(ValueError, match="these arms are divided among devices already"):
        run_seeds(Sharded(BBKB(KERNEL), mesh()), placed, keys, 3, mesh=mesh())


@pytest.mark.slow
def test_the_picks_are_those_of_one_device_for_every_algorithm_and_rule():
    counts = [1, 2, 4]
    check_picks(
        four_devices(
            picks=dict(bbkb=counts, bkb=counts, fixed=[2], ts=counts, local=[2, 4], swept=[4])
        )
    )


@pytest.mark.slow
def test_warm_starts_of_every_algorithm_and_dictionary():
    """Failed arms of FixedBKB too, and a dictionary that leaves pulled arms out."""
    warm = dict(fixed=[[2, 4], "leverage"], bkb=[[4], "bless"], local=[[2], [17, 60]])
    check_picks(four_devices(warm=warm), "warm")


@pytest.mark.slow
def test_a_device_holds_its_part_and_messages_do_not_grow_with_the_arms():
    small, large, alone = four_devices(rounds=[[20_000, 4], [40_000, 4], [40_000, 1]])["rounds"]
    assert small["messages"] == large["messages"] and small["messages"]
    # twice the arms are twice the rows of a device; what does not depend on them is small
    assert 1.9 < large["bytes"] / small["bytes"] < 2.1
    assert large["bytes"] < alone["bytes"] / 2


@pytest.mark.slow
def test_seeds_on_a_device_wait_for_no_other():
    found = four_devices(apart=[[5, 4]])["apart"][0]
    assert found["messages"] == [] and found["capacity"] > found["first"]


def mesh(axis="arms"):
    return jax.make_mesh((1,), (axis,), devices=jax.devices()[:1])


def test_mistakes_are_said_in_plain_words():
    x = np.random.default_rng(0).uniform(size=(9, 2))
    with pytest.raises(ValueError, match="has the axes 'rows' and none that is called 'arms'"):
        place(x, mesh("rows"))
    with pytest.raises(ValueError, match=r"must be a jax\.sharding\.Mesh.* a list was given"):
        place(x, jax.devices())
    with pytest.raises(ValueError, match="arms must be finite; arm 2"):
        place(np.where(np.arange(9)[:, None] == 2, np.nan, x), mesh())
    there = place(x, mesh())
    with pytest.raises(ValueError, match="wrap it, as in Sharded"):
        BBKB(KERNEL).init(there, KEY)
    with pytest.raises(ValueError, match=r"Sharded needs arms over its mesh.* on one device"):
        Sharded(BBKB(KERNEL), mesh()).init(Arms(x), KEY)
    with pytest.raises(ValueError, match="along the axis 'rows'"):
        Sharded(BBKB(KERNEL), mesh()).init(place(x, mesh("rows"), "rows"), KEY)
    with pytest.raises(ValueError, match=r"one of BBKB.*; a GPUCB was given"):
        Sharded(GPUCB(KERNEL), mesh()).init(there, KEY)
    with pytest.raises(ValueError, match="SketchedTS cannot start from observed evaluations"):
        Sharded(SketchedTS(KERNEL), mesh()).init(there, KEY, pull_counts=np.ones(9))
    with pytest.raises(ValueError, match="BBKB cannot start from failed arms"):
        Sharded(BBKB(KERNEL), mesh()).init(there, KEY, failed=[2])
    with pytest.raises(ValueError, match="one number for each of the 9 arms"):
        Sharded(BBKB(KERNEL), mesh()).init(there, KEY, pull_counts=np.ones(8), reward_sums=1)
    with pytest.raises(ValueError, match="none that is called"):
        Sharded(BBKB(KERNEL), mesh("rows")).init(there, KEY)
