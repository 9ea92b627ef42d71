"""Resumed runs equal uninterrupted ones, bit for bit, and a file has one writer."""

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
from rows import by_name, failing

from jsketch import Arms, Box, kernels, loops, problems
from jsketch.bandits import GPUCB, FixedBKB, Uniform, widths
from jsketch.box import GPBandit, ModelGOUCB, Parametric, UniformBox
from jsketch.loops import saving

ROOT = Path(__file__).parents[2]
KEY = jax.random.key(3)
HORIZON = 40
PROBLEM = cases.problem()
NAMES = ("gp_ucb", "bbkb_global_local", "sketched_ts", "evolution")
CASES = {name: cases.CASES[name] for name in NAMES}
CASES["growing"] = cases.CASES["bbkb_global"].replace(capacity=8)
ARMS = Arms(jnp.linspace(0, 1, 12)[:, None])
LINEAR = problems.finite_arms(np.asarray(ARMS.features), np.arange(12.0), 0.1)
FEWER = Arms(ARMS.features[:-1])
KERNEL = kernels.Gaussian(0.3)
FIXED = FixedBKB(KERNEL, 0.01, batch=4, capacity=12)
BOX = Box(jnp.zeros(1), jnp.ones(1))


class Interrupted(Exception):
    """Raised by a progress report or an objective, in place of a kill."""


def run_with_interrupt(bandit, path, n_reports):
    """A run that ends after `n_reports` progress reports, each after 2 evaluations or more."""
    calls = []

    def stop(evaluations, seconds):
        calls.append(evaluations)
        if len(calls) == n_reports:
            raise Interrupted

    with pytest.raises(Interrupted):
        loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path, on_progress=stop)


def assert_same(a, b):
    chex.assert_trees_all_equal((a.trace, a.state), (b.trace, b.state))


def file_names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@by_name(CASES, NAMES[1:3])
def test_an_interrupted_run_resumes_to_the_uninterrupted_one(name, tmp_path):
    bandit, path, evaluations = CASES[name], tmp_path / "run", []
    whole_run = loops.run(bandit, PROBLEM, KEY, HORIZON)
    for n_reports in (4, 2):
        run_with_interrupt(bandit, path, n_reports)
    options = dict(checkpoint=path, on_progress=lambda n, seconds: evaluations.append(n))
    resumed = loops.run(bandit, PROBLEM, KEY, HORIZON, **options)
    assert_same(resumed, whole_run)
    assert evaluations[0] > 8  # the run does not start again from 0
    # a finished run is read from its file
    assert_same(loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path), whole_run)
    if name == "growing":
        assert whole_run.capacity > bandit.capacity


SLOW_ON_ACCELERATOR = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.parametrize("accelerator", SLOW_ON_ACCELERATOR, indirect=True)
def test_several_seeds_are_resumed(accelerator, tmp_path):
    """All runs are in one file."""
    bandit, keys, path = CASES["growing"], jax.random.split(KEY, 2), tmp_path / "run"
    whole_run = loops.run(bandit, PROBLEM, keys, HORIZON)

    def stop(evaluations, seconds):
        if evaluations >= 40:
            raise Interrupted

    with pytest.raises(Interrupted):
        loops.run(bandit, PROBLEM, keys, HORIZON, on_progress=stop, checkpoint=path)
    assert_same(loops.run(bandit, PROBLEM, keys, HORIZON, checkpoint=path), whole_run)
    assert file_names(tmp_path) == ["run"]
    for i, key in enumerate(keys):
        single_run = loops.run(bandit, PROBLEM, key, HORIZON)
        np.testing.assert_array_equal(whole_run.trace.arm[i], single_run.trace.arm)


def test_another_run_is_refused(tmp_path):
    path, bandit = tmp_path / "run", CASES["gp_ucb"]
    run_with_interrupt(bandit, path, n_reports=1)
    formula = widths.Formula(lambda evidence, assumed: 2.0)
    for change, words in [
        (dict(algorithm=bandit.replace(noise_std=0.2)), r"was 0.1, is 0.2\. Name another file"),
        (dict(algorithm=CASES["sketched_ts"]), "bandit was GPUCB, is SketchedTS"),
        (dict(algorithm=GPUCB(kernels.Matern(0.5), 0.01, 0.1)), "kernel was Gaussian, is Matern"),
        (dict(algorithm=bandit.replace(width=formula)), "width.function was .*widths._gp_ucb_code"),
        (dict(key=jax.random.key(4)), "key was .0, 3., is .0, 4."),
        (dict(horizon=50), "horizon was 40, is 50"),
    ]:
        arguments = dict(algorithm=bandit, problem=PROBLEM, key=KEY, horizon=HORIZON) | change
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            loops.run(**arguments, checkpoint=path)
    content = path.read_bytes()
    for changed, words in [
        (content.replace(b"jsketch run", b"jsketch live stream"), "is a jsketch live stream"),
        (content.replace(b'"version": 5', b'"version": 1'), "version 1, .* 5. Name another file"),
    ]:
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=words):
            loops.run(bandit, PROBLEM, KEY, HORIZON, checkpoint=path)


def test_a_run_from_another_state_is_refused(tmp_path):
    path, bandit = tmp_path / "run", CASES["gp_ucb"]
    state = bandit.init(PROBLEM.arms, jax.random.key(1))
    changed = state.replace(count=state.count + 1)

    def run(states):
        return loops.run(bandit, PROBLEM, KEY, HORIZON, states=states, checkpoint=path)

    assert_same(run([state]), run([state]))
    for states, words in (([changed], "start.count was"), (None, "start")):
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            run(states)


def first_coordinate(x):
    return float(x[0])


ERRORS = [Interrupted("the robot is stuck"), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("with_file", [False, True], ids=["state", "file"])
@pytest.mark.parametrize("domain", [ARMS, BOX], ids=["arms", "box"])
def test_drive_loses_no_evaluation_to_an_error(error, with_file, domain, tmp_path):
    """The error is raised in the third call. Only this call is repeated."""
    algorithm, values, horizon, evaluations_done = {
        Arms: (FIXED, np.sin, 14, 8),
        Box: (UniformBox(initial=3), first_coordinate, 5, 2),
    }[type(domain)]
    whole_run = loops.drive(algorithm, values, domain, KEY, horizon)
    path = tmp_path / "run"
    options = dict(checkpoint=path) if with_file else {}
    objective, calls = failing([3], error, values)
    with pytest.raises(type(error)) as error_info:
        loops.drive(algorithm, objective, domain, KEY, horizon, **options)
    assert error_info.value is error and error.driven.t == evaluations_done
    place = f"they are in {path}" if with_file else "drive(..., state=error.driven) resumes"
    for words in (place, f"finished {evaluations_done} evaluations"):
        assert words in error.__notes__[-1]
    options = options or dict(state=error.driven)
    resumed_run = loops.drive(algorithm, objective, domain, KEY, horizon, **options)
    del calls[2]
    np.testing.assert_array_equal(np.concatenate(calls), whole_run.x.ravel())
    for part in ("state", "x", "y"):
        chex.assert_trees_all_equal(getattr(resumed_run, part), getattr(whole_run, part))


def test_states_and_files_of_another_run_are_refused(tmp_path):
    arms_file, box_file = tmp_path / "arms", tmp_path / "box"
    resumed_run = loops.drive(FIXED, np.sin, ARMS, KEY, 14, checkpoint=arms_file)
    uniform = dict(algorithm=UniformBox(), domain=BOX, horizon=3)
    box_run = loops.drive(objective=first_coordinate, key=KEY, **uniform, checkpoint=box_file)
    exact_run = loops.drive(GPUCB(KERNEL), np.sin, ARMS, KEY, 2)
    moved = Box(BOX.lower + 20, BOX.upper + 20)
    for change, words in (
        (dict(checkpoint=arms_file, key=jax.random.key(1)), "holds another run: key was"),
        (dict(checkpoint=arms_file, state=resumed_run), "a run already, and a state was given too"),
        (dict(checkpoint=arms_file, algorithm=FIXED.replace(qbar=3.0)), "algorithm.qbar was"),
        (uniform | dict(checkpoint=box_file, domain=moved), r"box.lower was \[0.0\], is \[20.0"),
        (dict(state=resumed_run, domain=FEWER), "other arms: it has 12 arms"),
        (
            dict(state=exact_run, algorithm=GPUCB(KERNEL), domain=FEWER),
            "other arms: it has 12 arms",
        ),
        (dict(state=resumed_run, domain=Arms(2 * ARMS.features)), "features have changed"),
        (dict(state=resumed_run, algorithm=Uniform()), "the states of Uniform are tuple"),
        (dict(state=resumed_run, algorithm=GPUCB(KERNEL)), "the states of GPUCB are ExactState"),
        (uniform | dict(state=box_run, domain=moved), "another box"),
        (
            uniform | dict(state=box_run, algorithm=GPBandit(initial=3)),
            "the states of GPBandit are GPState",
        ),
        (uniform | dict(state={}), "a dict was given"),
    ):
        arguments = dict(algorithm=FIXED, domain=ARMS, key=KEY, horizon=14) | change
        with pytest.raises(ValueError, match=words):
            loops.drive(objective=pytest.fail, **arguments)


def test_the_state_of_another_law_is_refused():
    """Its coordinates are those of other bounds, or those of other parameters."""

    def line(a, slope):
        return slope * a

    def curve(a, slope, level):
        return slope * a + level

    def law(function=line, upper=2.0, **parameters):
        return ModelGOUCB(
            Parametric(function, dict(slope=(0.0, upper, 1.0), **parameters)),
            **dict(restarts=1, fit_steps=5, candidates=8, starts=2, steps=5),
        )

    driven = loops.drive(law(), first_coordinate, BOX, KEY, 4, stop=lambda run: run.t == 2)
    for other, words in (
        (law(upper=4.0), r"of another model.*ranges.slope was \[0.0, 2.0, 1.0\], is \[0.0, 4"),
        (law(curve, level=(0.0, 1.0, 0.5)), "ranges.level was absent"),
    ):
        with pytest.raises(ValueError, match=words):
            loops.drive(other, pytest.fail, BOX, KEY, 4, state=driven)
    other_width = law().replace(width=0.1)
    assert loops.drive(other_width, first_coordinate, BOX, KEY, 4, state=driven).t == 4


def test_the_state_of_a_law_whose_function_was_edited_is_refused():
    """Both functions have the same name, inputs and ranges; only their values differ."""

    def power(exponent):
        def line(a, slope):
            return slope * a**exponent

        model = Parametric(line, dict(slope=(0.0, 2.0, 1.0)))
        settings = dict(restarts=1, fit_steps=5, candidates=8, starts=2, steps=5)
        return ModelGOUCB(model, **settings)

    driven = loops.drive(power(1), first_coordinate, BOX, KEY, 4, stop=lambda run: run.t == 2)
    again = power(1)  # another function with the same values
    assert loops.drive(again, first_coordinate, BOX, KEY, 4, state=driven).t == 4
    words = r"of another model.*at x = \[.*\] its value for the same parameters was .*, is "
    with pytest.raises(ValueError, match=words):
        loops.drive(power(2), pytest.fail, BOX, KEY, 4, state=driven)


def test_run_refuses_the_state_of_other_arms():
    problem = problems.finite_arms(ARMS.features, np.zeros(12), 0.1)
    moved = problems.finite_arms(2 * ARMS.features, np.zeros(12), 0.1)
    state = loops.drive(FIXED, np.sin, ARMS, KEY, 5).state
    assert loops.run(FIXED, problem, KEY, 2, states=[state]).trace.arm.shape == (2,)
    with pytest.raises(ValueError, match="features have changed"):
        loops.run(FIXED, moved, KEY, 2, states=[state])


def test_drive_keeps_a_batch_that_was_not_observed(monkeypatch):
    """If Ctrl-C interrupts `tell` after a batch, the resumed run does not evaluate it again."""
    whole_run = loops.drive(FIXED, np.sin, ARMS, KEY, 12)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as error_info:
        patch.setattr("jsketch.loops.host._tell_arms", interrupt)
        loops.drive(FIXED, np.sin, ARMS, KEY, 12)
    driven = error_info.value.driven
    assert (driven.t, driven.n_unobserved) == (4, 4)
    for horizon in (4, 3, 12):  # a horizon before the end of the batch evaluates nothing
        objective, calls = failing([], None, np.sin)
        resumed_run = loops.drive(FIXED, objective, ARMS, KEY, horizon, state=driven)
        assert resumed_run.n_unobserved == 0 and len(calls) == (2 if horizon == 12 else 0)
    np.testing.assert_array_equal(resumed_run.x, whole_run.x)
    with pytest.raises(ValueError, match="another run: its last 4 evaluations are not those"):
        loops.drive(FIXED.replace(batch=3), pytest.fail, ARMS, KEY, 12, state=driven)


def test_the_error_holds_the_invalid_rewards():
    for returned, words in [
        (np.zeros(3), "4 rewards for 4 arms"),
        (np.array([1, np.inf, 2, 3]), "infinite"),
    ]:
        with pytest.raises(ValueError, match=words) as error_info:
            loops.drive(FIXED, lambda arms, returned=returned: returned, ARMS, KEY, 8)
        assert error_info.value.returned is returned and error_info.value.driven.t == 0


def test_a_full_disk_loses_no_evaluation(tmp_path, monkeypatch):
    """`error.driven` has the evaluation, and no part of a file is left."""

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left") as error_info:
        loops.drive(UniformBox(), lambda x: 1.0, BOX, KEY, 5, checkpoint=tmp_path / "run")
    assert error_info.value.driven.t == 1 and "state=error.driven" in error_info.value.__notes__[-1]
    assert file_names(tmp_path) == []


HOLDER = """
import sys
from pathlib import Path
from jsketch.loops import saving
with saving.hold(Path(sys.argv[1]), "run", "wait"):
    import os
    child = os.fork()  # a worker, which outlives its parent
    if child == 0:
        os.close(1)
        sys.stdin.read()
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_has_one_writer_among_processes(tmp_path):
    """A killed process loses its lock, even while one of its workers is alive."""
    path, lock, keys = tmp_path / "run", tmp_path / "run.lock", jax.random.split(KEY, 2)
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], cwd=ROOT, **pipes)
    try:
        assert process.stdout.readline() == b"held\n"
        words = (
            "run is being written by another process, or by another call in this one: wait for"
            " it, or name another checkpoint"
        )
        for action in (
            lambda: loops.drive(UniformBox(), pytest.fail, BOX, KEY, 3, checkpoint=path),
            lambda: loops.run(Uniform(), LINEAR, KEY, 3, checkpoint=path),
            lambda: loops.run(Uniform(), LINEAR, keys, 3, checkpoint=path),
        ):
            with pytest.raises(ValueError, match=words):
                action()
        process.kill()
        process.wait()
        assert lock.exists()  # the lock file stays, unlocked
        assert loops.run(Uniform(), LINEAR, KEY, 3, checkpoint=path).trace.arm.shape == (3,)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()  # ends the worker
        process.stdout.close()
    assert file_names(tmp_path) == ["run"]


def test_disks_without_locks_are_warned_of(tmp_path, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    words = "cannot be locked .*No locks available"
    with pytest.warns(UserWarning, match=words), saving.hold(tmp_path / "a", "a run", "wait"):
        saving.write(tmp_path / "b", b"x")
    assert file_names(tmp_path) == ["a", "b"]
