"""Runs that are killed and resumed have the picks and the state of an uninterrupted run, bit for
bit; no finished evaluation is lost, and a file has one writer."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import cases
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsketch import Arms, Box, kernels, loops, problems
from jsketch.bandits import GPUCB, FixedBKB, Uniform, widths
from jsketch.box import UniformBox
from jsketch.loops import saving

ROOT = Path(__file__).parents[2]
KEY = jax.random.key(3)
HORIZON = 40
PROBLEM = cases.problem()
CASES = {
    name: cases.CASES[name] for name in ("gp_ucb", "bbkb_global_local", "sketched_ts", "evolution")
}
CASES["growing"] = cases.CASES["bbkb_global"].replace(capacity=8)
ARMS = Arms(jnp.linspace(0, 1, 12)[:, None])
TWELVE = problems.finite_arms(np.asarray(ARMS.features), np.arange(12.0), 0.1)
FIXED = FixedBKB(kernels.Gaussian(0.3), 0.01, batch=4, capacity=12)
BOX = Box(jnp.zeros(1), jnp.ones(1))


class Interrupted(Exception):
    """Raised by a report or an objective in place of a kill."""


def interrupted(bandit, path, reports):
    """A run that ends after so many reports, each of 2 evaluations or more."""
    calls = []

    def stop(evaluations, seconds):
        calls.append(evaluations)
        if len(calls) == reports:
            raise Interrupted

    with pytest.raises(Interrupted):
        loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path, on_progress=stop)


def assert_same(a, b):
    chex.assert_trees_all_equal((a.trace, a.state), (b.trace, b.state))


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_is_the_uninterrupted_one(name, tmp_path):
    bandit, path, evaluations = CASES[name], tmp_path / "run", []
    whole = loops.run(bandit, PROBLEM, KEY, HORIZON)
    for reports in (4, 2):
        interrupted(bandit, path, reports)
    report = dict(on_progress=lambda n, seconds: evaluations.append(n))
    resumed = loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path, **report)
    assert_same(resumed, whole)
    assert evaluations[0] > 8  # it does not start again
    # a finished run is read
    assert_same(loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path), whole)
    if name == "growing":
        assert whole.capacity > bandit.capacity


@pytest.mark.parametrize("strategy", ["threads", pytest.param("vmap", marks=pytest.mark.slow)])
def test_several_seeds_are_resumed(strategy, tmp_path):
    bandit, keys = CASES["growing"], jax.random.split(KEY, 2)
    whole = loops.run(bandit, PROBLEM, keys, HORIZON, strategy=strategy)

    def stop(evaluations, seconds):
        if evaluations >= 40:
            raise Interrupted

    options = dict(strategy=strategy, checkpoint=tmp_path / "run", workers=1)
    with pytest.raises(Interrupted):
        loops.run(bandit, PROBLEM, keys, HORIZON, on_progress=stop, **options)
    assert_same(loops.run(bandit, PROBLEM, keys, HORIZON, **options), whole)
    assert names(tmp_path) == {"threads": ["run.0", "run.1"], "vmap": ["run"]}[strategy]


def test_another_run_is_refused(tmp_path):
    path, bandit = tmp_path / "run", CASES["gp_ucb"]
    interrupted(bandit, path, 1)
    for change, words in [
        (
            dict(algorithm=bandit.replace(noise_std=0.2)),
            r"bandit.noise_std was 0.1, is 0.2\. Name another file",
        ),
        (dict(algorithm=CASES["sketched_ts"]), "bandit was GPUCB, is SketchedTS"),
        (
            dict(algorithm=GPUCB(kernels.Matern(0.5), 0.01, 0.1)),
            "bandit.kernel was Gaussian, is Matern",
        ),
        (
            dict(algorithm=bandit.replace(width=widths.Formula(lambda evidence, assumed: 2.0))),
            "bandit.width.function was jsketch.bandits.core.widths._gp_ucb_code",
        ),
        (dict(key=jax.random.key(4)), "key was .0, 3., is .0, 4."),
        (dict(horizon=50), "horizon was 40, is 50"),
    ]:
        run = dict(algorithm=bandit, problem=PROBLEM, key=KEY, horizon=HORIZON) | change
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            loops.run(**run, checkpoint=path)
    content = path.read_bytes()
    for wrong, words in [
        (content[:-1], "damaged"),
        (content.replace(b"jsketch run", b"jsketch live stream"), "is a jsketch live stream"),
        (
            content.replace(b'"version": 3', b'"version": 1'),
            "is a jsketch run, version 1, and not a jsketch run, version 3. Name another file",
        ),
        (content.replace(b'"sha256"', b'"sha"'), "damaged"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=words):
            loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path)


def test_a_run_from_another_state_is_refused(tmp_path):
    path, bandit = tmp_path / "run", CASES["gp_ucb"]
    state = bandit.init(PROBLEM.arms, jax.random.key(1))
    changed = state.replace(first_arm=(state.first_arm + 1) % PROBLEM.arms.count)

    def run(states):
        return loops.run(bandit, PROBLEM, KEY, HORIZON, states=states, checkpoint=path)

    assert_same(run([state]), run([state]))
    for states, words in (([changed], "start.first_arm was"), (None, "start")):
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            run(states)


@pytest.mark.parametrize("checkpoint", ["no_such_folder/run", "."])
def test_a_checkpoint_lies_in_a_folder_that_exists(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for loop, problem, domain in ((loops.run, PROBLEM, ()), (loops.drive, np.sin, (ARMS,))):
        with pytest.raises(ValueError, match="in a folder that exists"):
            loop(CASES["gp_ucb"], problem, *domain, KEY, HORIZON, checkpoint=checkpoint)


def failing(call, error, values):
    """(an objective whose call of that number raises an error, its arguments)."""
    calls = []

    def objective(at):
        calls.append(at)
        if len(calls) == call:
            raise error
        return values(at)

    return objective, calls


ERRORS = [Interrupted("the robot is stuck"), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_drive_loses_nothing(error):
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 14)
    objective, calls = failing(3, error, np.sin)
    with pytest.raises(type(error)) as caught:
        loops.drive(FIXED, objective, ARMS, KEY, 14)
    assert caught.value is error and error.driven.t == 8
    assert "drive had finished 8 evaluations" in error.__notes__[-1]
    assert "drive(..., state=error.driven) resumes" in error.__notes__[-1]
    done = loops.drive(FIXED, objective, ARMS, KEY, 14, state=error.driven)
    np.testing.assert_array_equal(done.x, whole.x)
    np.testing.assert_array_equal(done.y, whole.y)
    assert [len(batch) for batch in calls] == [4, 4, 4, 4, 2]
    for bandit, arms, words in (
        (FIXED, Arms(ARMS.features[:-1]), f"other arms: it has {ARMS.count} of them"),
        (FIXED, Arms(ARMS.features + 1), "or their features differ"),
        (Uniform(), ARMS, "holds a FixedBatchState, and a Uniform has a UniformState"),
    ):
        with pytest.raises(ValueError, match=f"state is of .*{words}"):
            loops.drive(bandit, objective, arms, KEY, 20, state=done)


def test_drive_resumes_from_its_file(tmp_path):
    """Nothing is evaluated twice, and another run is refused."""
    path = tmp_path / "run"
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 14)
    objective, calls = failing(3, KeyboardInterrupt(), np.sin)
    with pytest.raises(KeyboardInterrupt) as caught:
        loops.drive(FIXED, objective, ARMS, KEY, 14, checkpoint=path)
    assert f"they are in {path}" in caught.value.__notes__[-1]
    del calls[-1]
    for _ in range(2):
        done = loops.drive(
            FIXED, lambda arms: calls.append(arms) or np.sin(arms), ARMS, KEY, 14, checkpoint=path
        )
        np.testing.assert_array_equal(np.concatenate(calls), whole.x)
        chex.assert_trees_all_equal(done.state, whole.state)
        np.testing.assert_array_equal(done.x, whole.x)
    for change, words in (
        (dict(key=jax.random.key(1)), "holds another run: key was"),
        (dict(state=whole), "holds a run already, and a state was given too"),
        (dict(algorithm=FIXED.replace(qbar=3.0)), "holds another run: algorithm.qbar was"),
    ):
        arguments = dict(algorithm=FIXED, domain=ARMS, key=KEY, horizon=14, checkpoint=path)
        with pytest.raises(ValueError, match=words):
            loops.drive(objective=pytest.fail, **arguments | change)


def test_drive_keeps_a_batch_that_was_not_observed(monkeypatch):
    """A batch is not evaluated again after Ctrl-C in `tell`."""
    whole = loops.drive(FIXED, np.sin, ARMS, KEY, 12)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
        patch.setattr("jsketch.loops.host._tell", interrupt)
        loops.drive(FIXED, np.sin, ARMS, KEY, 12)
    driven = caught.value.driven
    assert (driven.t, driven.n_unobserved) == (4, 4)
    for horizon in (4, 3, 12):  # a horizon before the end of the batch evaluates nothing
        objective, calls = failing(0, None, np.sin)
        done = loops.drive(FIXED, objective, ARMS, KEY, horizon, state=driven)
        assert done.n_unobserved == 0 and len(calls) == (2 if horizon == 12 else 0)
    np.testing.assert_array_equal(done.x, whole.x)
    with pytest.raises(ValueError, match="another run: its last 4 evaluations are not those"):
        loops.drive(FIXED.replace(batch=3), pytest.fail, ARMS, KEY, 12, state=driven)


def test_the_error_holds_the_invalid_rewards():
    for returned, words in [
        (np.zeros(3), "4 rewards for 4 arms"),
        (np.array([1, np.inf, 2, 3]), "infinite"),
    ]:
        with pytest.raises(ValueError, match=words) as caught:
            loops.drive(FIXED, lambda arms, returned=returned: returned, ARMS, KEY, 8)
        assert caught.value.returned is returned and caught.value.driven.t == 0


@pytest.mark.parametrize("error", ERRORS[:2], ids=repr)
@pytest.mark.parametrize("named", [False, True])
def test_drive_over_a_box_loses_nothing(error, named, tmp_path):
    optimizer, path = UniformBox(initial=3), tmp_path / "run"
    options = dict(checkpoint=path) if named else {}
    objective, calls = failing(3, error, lambda x: float(x[0]))
    with pytest.raises(type(error)) as caught:
        loops.drive(optimizer, objective, BOX, KEY, 5, **options)
    assert caught.value is error and error.driven.t == error.driven.n_unobserved == 2
    how = f"they are in {path}" if named else "drive(..., state=error.driven) resumes"
    assert "finished 2 evaluations" in error.__notes__[-1] and how in error.__notes__[-1]
    resumed = options or dict(state=error.driven)
    done = loops.drive(optimizer, objective, BOX, KEY, 5, **resumed)
    assert done.t == 5 and len(calls) == 6  # only the failed evaluation was repeated
    whole = loops.drive(optimizer, lambda x: float(x[0]), BOX, KEY, 5)
    np.testing.assert_array_equal(done.x, whole.x)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    """The error has the evaluation that could not be written, and no part of a file is left."""

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left") as caught:
        loops.drive(UniformBox(), lambda x: 1.0, BOX, KEY, 5, checkpoint=tmp_path / "run")
    assert caught.value.driven.t == 1 and "state=error.driven" in caught.value.__notes__[-1]
    assert names(tmp_path) == []


def test_one_writer_in_a_process(tmp_path):
    path = tmp_path / "run"

    def objective(x):
        loops.drive(UniformBox(), lambda x: 0.0, BOX, KEY, 3, checkpoint=path)

    words = f"{path} is being written by .* another call in this one: wait"
    with pytest.raises(ValueError, match=words):
        loops.drive(UniformBox(), objective, BOX, KEY, 3, checkpoint=path)
    assert loops.drive(UniformBox(), lambda x: 0.0, BOX, KEY, 3, checkpoint=path).t == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "run.lock"]


HOLDER = """
import sys
from pathlib import Path
from jsketch.loops import saving
with saving.held(Path(sys.argv[1]), "run", "wait"):
    import os
    child = os.fork()  # a worker, which outlives its parent
    if child == 0:
        os.close(1)
        sys.stdin.read()
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_writer_among_processes(tmp_path):
    """`run`, with one key and with several, and `drive` refuse a file that another process holds,
    and evaluate nothing. A killed process holds nothing, even where a worker of it lives on."""
    path, lock = tmp_path / "run.1", tmp_path / "run.1.lock"
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], cwd=ROOT, **pipes)
    try:
        assert process.stdout.readline() == b"held\n"
        words = (
            "run.1 is being written by another process, or by another call in this one: wait for"
            " it, or name another checkpoint"
        )
        for action in (
            lambda: loops.drive(UniformBox(), pytest.fail, BOX, KEY, 3, checkpoint=path),
            lambda: loops.run(Uniform(), TWELVE, KEY, 3, checkpoint=path),
            lambda: loops.run(
                Uniform(),
                TWELVE,
                jax.random.split(KEY, 2),
                3,
                checkpoint=tmp_path / "run",
                strategy="threads",
            ),
        ):
            with pytest.raises(ValueError, match=words):
                action()
        process.kill()
        process.wait()
        assert lock.exists()  # the lock file stays, unlocked
        assert loops.run(Uniform(), TWELVE, KEY, 3, checkpoint=path).trace.arm.shape == (3,)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()  # ends the worker
        process.stdout.close()
    assert names(tmp_path) == ["run.1"]


def test_disks_without_locks_and_folders_without_permission(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", no_locks)
        with (
            pytest.warns(UserWarning, match="cannot be locked .*No locks available"),
            saving.held(tmp_path / "a", "a run", "wait"),
        ):
            saving.write(tmp_path / "b", b"x")
    assert names(tmp_path) == ["a", "b"]
    with (
        pytest.raises(ValueError, match="a run cannot be written: .*File exists"),
        saving.held(tmp_path / "b" / "a", "a run", "wait"),
    ):
        pass
