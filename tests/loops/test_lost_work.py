"""Finished evaluations survive what ends a run; and one file has one writer."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, Box, kernels, loops, problems
from jsketch.bandits import FixedBKB, Uniform
from jsketch.box import UniformBox
from jsketch.loops.saving import files, saved

KEY = jax.random.key(0)
ARMS = Arms(jnp.linspace(0, 1, 12)[:, None])
FIXED = FixedBKB(kernels.Gaussian(0.3), 0.01, batch=4, capacity=12)
BOX = Box(jnp.zeros(1), jnp.ones(1))
ROOT = Path(__file__).parents[2]


class Broken(Exception):
    pass


def broken_at(call, error, values):
    """An objective that raises once."""
    calls = []

    def objective(at):
        calls.append(at)
        if len(calls) == call:
            raise error
        return values(at)

    return objective, calls


@pytest.mark.parametrize(
    "error", [Broken("the robot is stuck"), KeyboardInterrupt(), SystemExit(3)], ids=repr
)
def test_drive_loses_nothing(error):
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 14)
    objective, calls = broken_at(3, error, np.sin)
    with pytest.raises(type(error)) as caught:
        loops.drive(FIXED, objective, ARMS, KEY, 14)
    assert caught.value is error and error.driven.t == 8
    assert "drive had finished 8 evaluations" in error.__notes__[-1]
    assert "drive(..., state=error.driven) resumes" in error.__notes__[-1]
    done = loops.drive(FIXED, objective, ARMS, KEY, 14, state=error.driven)
    np.testing.assert_array_equal(done.arm, whole.arm)
    np.testing.assert_array_equal(done.reward, whole.reward)
    assert [len(batch) for batch in calls] == [4, 4, 4, 4, 2]
    for bandit, arms, words in (
        (FIXED, Arms(ARMS.features[:-1]), f"other arms: it has {ARMS.count} of them"),
        (FIXED, Arms(ARMS.features + 1), "or their features differ"),
        (Uniform(), ARMS, "holds a FixedBatchState, and a Uniform has a UniformState"),
    ):
        with pytest.raises(ValueError, match=f"state is of .*{words}"):
            loops.drive(bandit, objective, arms, KEY, 20, state=done)


def test_drive_resumes_from_its_file(tmp_path):
    """What a killed process had evaluated is not evaluated again; the file is of this run only."""
    path, asked = tmp_path / "run", []
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 14)

    def objective(arms):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(arms)
        return np.sin(arms)

    with pytest.raises(KeyboardInterrupt) as caught:
        loops.drive(FIXED, objective, ARMS, KEY, 14, checkpoint=path)
    assert f"they are in {path}" in caught.value.__notes__[-1]
    for _ in range(2):  # of a finished run nothing is evaluated
        done = loops.drive(
            FIXED, lambda arms: asked.append(arms) or np.sin(arms), ARMS, KEY, 14, checkpoint=path
        )
        np.testing.assert_array_equal(np.concatenate(asked), whole.arm)
        for one, other in zip(jax.tree.leaves(done), jax.tree.leaves(whole), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(done.arm, whole.arm)
    for change, words in (
        (dict(key=jax.random.key(1)), "holds another run: key was"),
        (dict(state=whole), "holds a run already, and a state was given too"),
        (dict(bandit=FIXED.replace(qbar=3.0)), "holds another run: bandit.qbar was"),
    ):
        arguments = dict(
            bandit=FIXED, objective=pytest.fail, domain=ARMS, key=KEY, horizon=14, checkpoint=path
        )
        with pytest.raises(ValueError, match=words):
            loops.drive(**arguments | change)


def test_drive_keeps_a_batch_that_the_algorithm_was_not_told(monkeypatch):
    """Ctrl-C while the algorithm learns: the batch was evaluated, and is not evaluated again."""
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 12)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
        patch.setattr(sys.modules["jsketch.loops.arms.drive"], "_tell", interrupted)
        loops.drive(FIXED, np.sin, ARMS, KEY, 12)
    driven = caught.value.driven
    assert (driven.t, driven.n_unobserved) == (4, 4)
    for horizon in (4, 3, 12):  # an earlier end than that of the batch evaluates nothing
        objective, calls = broken_at(0, None, np.sin)
        done = loops.drive(FIXED, objective, ARMS, KEY, horizon, state=driven)
        assert done.n_unobserved == 0 and len(calls) == (2 if horizon == 12 else 0)
    np.testing.assert_array_equal(done.arm, whole.arm)
    with pytest.raises(
        ValueError, match="state is of another run: its last 4 evaluations are not those"
    ):
        loops.drive(FIXED.replace(batch=3), pytest.fail, ARMS, KEY, 12, state=driven)


def test_what_a_wrong_objective_returned_is_kept():
    for returned, words in [
        (np.zeros(3), "4 rewards for 4 arms"),
        (np.array([1, np.inf, 2, 3]), "infinite"),
    ]:
        with pytest.raises(ValueError, match=words) as caught:
            loops.drive(FIXED, lambda arms, returned=returned: returned, ARMS, KEY, 8)
        assert caught.value.returned is returned and caught.value.driven.t == 0


@pytest.mark.parametrize("error", [Broken("no more memory"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("named", [False, True])
def test_drive_box_loses_nothing(error, named, tmp_path):
    optimizer, path = UniformBox(initial=3), tmp_path / "run"
    options = dict(checkpoint=path) if named else {}
    objective, calls = broken_at(3, error, lambda x: float(x[0]))
    with pytest.raises(type(error)) as caught:
        loops.drive_box(optimizer, objective, BOX, KEY, 5, **options)
    assert caught.value is error and error.driven.t == 2 and error.driven.told == 0
    how = f"they are in {path}" if named else "drive_box(..., state=error.driven) resumes"
    assert "finished 2 evaluations" in error.__notes__[-1] and how in error.__notes__[-1]
    going_on = options or dict(state=error.driven)
    done = loops.drive_box(optimizer, objective, BOX, KEY, 5, **going_on)
    assert done.t == 5 and len(calls) == 6  # only what failed was evaluated twice
    np.testing.assert_array_equal(
        done.x, loops.drive_box(optimizer, lambda x: float(x[0]), BOX, KEY, 5).x
    )


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    """The evaluation that could not be written goes along with the error, and no half of a file is
    left."""

    def full(descriptor):
        raise OSError("no space left")

    path = tmp_path / "run"
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left") as caught:
        loops.drive_box(UniformBox(), lambda x: 1.0, BOX, KEY, 5, checkpoint=path)
    assert caught.value.driven.t == 1 and "state=error.driven" in caught.value.__notes__[-1]
    assert [file.name for file in tmp_path.iterdir()] == ["run.lock"]


def test_one_writer_in_a_process(tmp_path):
    path = tmp_path / "run"

    def objective(x):
        loops.drive_box(UniformBox(), lambda x: 0.0, BOX, KEY, 3, checkpoint=path)

    with pytest.raises(
        ValueError, match=f"{path} is being written by .* another call in this one: wait"
    ):
        loops.drive_box(UniformBox(), objective, BOX, KEY, 3, checkpoint=path)
    assert loops.drive_box(UniformBox(), lambda x: 0.0, BOX, KEY, 3, checkpoint=path).t == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "run.lock"]


WRITER = """
import os, signal, sys
from jsketch.loops.saving import saved
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
saved.write(sys.argv[1], saved.RUN, {}, bytes(1000))
"""


def test_what_a_killed_writer_leaves_is_removed(tmp_path):
    path = tmp_path / "run"
    saved.write(path, saved.RUN, {}, b"old")
    killed = subprocess.run([sys.executable, "-c", WRITER, str(path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert saved.read(path, saved.RUN)[1] == b"old" and len(list(tmp_path.iterdir())) == 2
    saved.write(path, saved.RUN, {}, b"new")
    assert saved.read(path, saved.RUN)[1] == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


HOLDER = """
import sys
from pathlib import Path
from jsketch.loops.saving import files
with files.held(Path(sys.argv[1]), "run", "wait"):
    if len(sys.argv) > 2:
        import os
        child = os.fork()  # a worker, which outlives its parent
        if child == 0:
            os.close(1)
            sys.stdin.read()
            os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(file, *options):
    arguments = [sys.executable, "-c", HOLDER, str(file), *options]
    process = subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


def test_one_writer_among_processes(tmp_path):
    """`run`, of one seed and of several, and `drive_box` refuse a file that another process holds,
    and evaluate nothing. A killed one blocks nobody, even where a worker of it lives on."""
    process = holder(tmp_path / "run.1.lock", "and a worker")
    try:
        problem = problems.finite_arms(np.asarray(ARMS.features), np.arange(12.0), 0.1)
        words = (
            "run.1 is being written by another process, or by another call in this one: wait for"
            " it, or name another checkpoint"
        )
        with pytest.raises(ValueError, match=words):
            loops.drive_box(UniformBox(), pytest.fail, BOX, KEY, 3, checkpoint=tmp_path / "run.1")
        with pytest.raises(ValueError, match=words):
            loops.run(Uniform(), problem, KEY, 3, checkpoint=tmp_path / "run.1")
        with pytest.raises(ValueError, match=words):
            loops.run_seeds(
                Uniform(),
                problem,
                jax.random.split(KEY, 2),
                3,
                checkpoint=tmp_path / "run",
                strategy="threads",
            )
        process.kill()
        process.wait()
        assert (tmp_path / "run.1.lock").exists()  # what a killed one leaves
        assert loops.run(
            Uniform(), problem, KEY, 3, checkpoint=tmp_path / "run.1"
        ).trace.arm.shape == (3,)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()  # ends the worker
        process.stdout.close()
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix != ".lock") == ["run.1"]


def test_locks_that_no_disk_keeps_and_folders_that_nobody_can_write(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", no_locks)
        with (
            pytest.warns(UserWarning, match="cannot be locked .*No locks available"),
            files.held(tmp_path / "a", "a run", "wait"),
        ):
            files.write(tmp_path / "b", b"x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]
    with (
        pytest.raises(ValueError, match="a run cannot be written: .*File exists"),
        files.held(tmp_path / "b" / "a", "a run", "wait"),
    ):
        pass
