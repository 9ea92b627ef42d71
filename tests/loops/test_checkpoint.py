"""Runs that are killed and go on: the picks, and the state, of an uninterrupted one, bit for
bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cases
import jax
import numpy as np
import pytest

from jsketch import kernels, loops
from jsketch.bandits import GPUCB, widths
from jsketch.loops.saving import saved

KEY = jax.random.key(3)
CASES = {
    name: cases.CASES[name] for name in ("gp_ucb", "bbkb_global_local", "sketched_ts", "evolution")
}
CASES["growing"] = cases.CASES["bbkb_global"].replace(capacity=8)  # grows on the way
HORIZON = 40


class Interrupted(Exception):
    """What a report raises in place of a kill."""


def interrupted(bandit, problem, path, reports):
    """A run that ends after that many reports, each of 5 evaluations."""
    seen = []

    def stop(evaluations, seconds):
        seen.append(evaluations)
        if len(seen) == reports:
            raise Interrupted

    with pytest.raises(Interrupted):
        loops.run(bandit, problem, KEY, HORIZON, checkpoint=path, every=5, on_progress=stop)


def assert_same(a, b):
    for left, right in zip(
        jax.tree.leaves((a.trace, a.state)), jax.tree.leaves((b.trace, b.state)), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_is_the_uninterrupted_one(name, tmp_path):
    bandit, problem, path = CASES[name], cases.problem(), tmp_path / "run"
    whole = loops.run(bandit, problem, KEY, HORIZON)
    for reports in (2, 3):
        interrupted(bandit, problem, path, reports)
    evaluations = []
    resumed = loops.run(
        bandit,
        problem,
        KEY,
        HORIZON,
        checkpoint=path,
        on_progress=lambda n, seconds: evaluations.append(n),
    )
    assert_same(resumed, whole)
    assert evaluations[0] > 10  # it went on, and did not begin again
    # a finished one is read
    assert_same(loops.run(bandit, problem, KEY, HORIZON, checkpoint=path), whole)
    if name == "growing":
        assert whole.capacity > bandit.capacity


@pytest.mark.parametrize("strategy", ["threads", pytest.param("vmap", marks=pytest.mark.slow)])
def test_seeds_go_on_too(strategy, tmp_path):
    bandit, problem, keys = CASES["growing"], cases.problem(), jax.random.split(KEY, 2)
    whole = loops.run_seeds(bandit, problem, keys, HORIZON, strategy=strategy)

    def stop(evaluations, seconds):
        if evaluations >= 40:
            raise Interrupted

    options = dict(strategy=strategy, checkpoint=tmp_path / "run", workers=1)
    with pytest.raises(Interrupted):
        loops.run_seeds(bandit, problem, keys, HORIZON, every=8, on_progress=stop, **options)
    assert_same(loops.run_seeds(bandit, problem, keys, HORIZON, **options), whole)
    files = {"threads": ["run.0", "run.1"], "vmap": ["run"]}[strategy]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == files


RUN = """
import sys, jax
jax.config.update("jax_enable_x64", True)
import cases, time
from jsketch import loops
loops.run(
    cases.CASES["bbkb_global"].replace(capacity=8),
    cases.problem(),
    jax.random.key(3),
    40,
    checkpoint=sys.argv[1],
    every=1,
    on_progress=lambda n, seconds: time.sleep(0.03),
)
"""


def test_killed_at_any_moment(tmp_path):
    """Real kills, at moments that depend on the machine: the file is always a whole one."""
    path = tmp_path / "run"
    tests = Path(__file__).parents[1]
    folder = jax.config.jax_compilation_cache_dir or tmp_path / "compiled"
    # what the first process compiles, the second reads
    cache = dict(
        JAX_COMPILATION_CACHE_DIR=str(folder), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.02"
    )
    environment = (
        os.environ | cache | dict(PYTHONPATH=os.pathsep.join([str(tests), str(tests.parent)]))
    )
    kills = 0
    for wait in (0.1, 0.4):
        before = path.stat().st_mtime_ns if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", RUN, str(path)], env=environment)
        while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        header, _ = saved.read(path, saved.RUN)
        assert header["evaluations"] >= 1
    assert kills >= 1
    bandit, problem = CASES["growing"], cases.problem()
    resumed = loops.run(bandit, problem, KEY, HORIZON, checkpoint=path)
    assert_same(resumed, loops.run(bandit, problem, KEY, HORIZON))


def test_another_run_is_refused(tmp_path):
    path, bandit, problem = tmp_path / "run", CASES["gp_ucb"], cases.problem()
    interrupted(bandit, problem, path, 1)
    for other, words in [
        (
            dict(bandit=bandit.replace(noise_std=0.2)),
            r"bandit.noise_std was 0.1, is 0.2\. Name another file",
        ),
        (dict(bandit=CASES["sketched_ts"]), "bandit was GPUCB, is SketchedTS"),
        (
            dict(bandit=GPUCB(kernels.Matern(0.5), 0.01, 0.1)),
            "bandit.kernel was Gaussian, is Matern",
        ),
        (dict(problem=problem.replace(noise_std=0.3)), "problem.noise_std was"),
        (
            dict(bandit=bandit.replace(width=widths.Formula(lambda evidence, assumed: 2.0))),
            "bandit.width.function was jsketch.bandits.core.widths._gp_ucb_code",
        ),
        (dict(key=jax.random.key(4)), "key was .0, 3., is .0, 4."),
        (dict(horizon=50), "horizon was 40, is 50"),
    ]:
        given = dict(bandit=bandit, problem=problem, key=KEY, horizon=HORIZON) | other
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            loops.run(
                given["bandit"], given["problem"], given["key"], given["horizon"], checkpoint=path
            )


def test_a_run_from_another_state_is_refused(tmp_path):
    """Of a run from the state of its own key, and of one from a state that was given."""
    path, bandit, problem = tmp_path / "run", CASES["gp_ucb"], cases.problem()
    own = bandit.init(problem.arms, jax.random.key(1))
    other = own.replace(first_arm=(own.first_arm + 1) % problem.arms.count)

    def run(states):
        return loops.run(bandit, problem, KEY, HORIZON, states=states, checkpoint=path)

    whole = run([own])
    assert_same(run([own]), whole)
    for states, words in (([other], "start.first_arm was"), (None, "start")):
        with pytest.raises(ValueError, match=f"holds another run: .*{words}"):
            run(states)


def test_a_damaged_file_is_refused(tmp_path):
    path, bandit, problem = tmp_path / "run", CASES["gp_ucb"], cases.problem()
    interrupted(bandit, problem, path, 1)
    content = path.read_bytes()
    for wrong, words in [
        (content[:-1], "damaged"),
        (content.replace(b"jsketch run", b"jsketch live stream"), "is a jsketch live stream"),
        (
            content.replace(b'"version": 2', b'"version": 1'),
            "is a jsketch run, version 1, and not a jsketch run, version 2. Name another file",
        ),
        (b"", "is not a saved jsketch run"),
        (content.replace(b'"sha256"', b'"sha"'), "damaged"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=words):
            loops.run(bandit, problem, KEY, HORIZON, checkpoint=path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(checkpoint="no_such_folder/run"), "in a folder that exists"),
        (dict(checkpoint="."), "in a folder that exists"),
        (
            dict(checkpoint="run", every=0),
            "every counts evaluations and must be an integer of at least 1; 0",
        ),
        (dict(checkpoint="run", every=2.5), "every counts evaluations"),
        (dict(every=5), "name its file too"),
    ],
)
def test_bad_input(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words):
        loops.run(CASES["gp_ucb"], cases.problem(), KEY, HORIZON, **options)
