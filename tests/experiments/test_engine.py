"""Runs in worker processes of Dask: the numbers of one process, killed workers, lost schedulers."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import partial

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from experiments import common, engine
from experiments.bbkb_2020 import methods
from experiments.engine import Workers
from experiments.pools import baselines, campaigns
from experiments.pools.libraries import Pool
from experiments.results import tidy
from experiments.sweep import main as sweep
from experiments.sweep.settings import Sweep
from jsketch.suggest import acquisitions, library

TWO = Workers(2)
KERNEL = """
import jax.numpy as jnp
from jsketch import struct

@struct.dataclass
class Mine:
    lengthscale: float

    def gram(self, x, y):
        return jnp.exp(-jnp.abs(x[:, None] - y[None]).sum(-1) / self.lengthscale)

    def diag(self, x):
        return jnp.ones(x.shape[0], x.dtype)
"""


@pytest.fixture(scope="module", autouse=True)
def folder_of_programs(tmp_path_factory):
    """Worker processes save compiled programs in a temporary folder, with the options of users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
        engine.close(TWO)


def settings_of_process(number):
    threads = [os.environ.get(name) for name in engine.ONE_THREAD]
    return os.getpid(), threads, str(jnp.ones(2).dtype), number**2


def test_workers_have_one_thread_and_the_results_of_this_process():
    [(task, (pid, *_, square))] = engine.each(settings_of_process, [3], TWO)
    assert (task, pid, square) == (3, os.getpid(), 9)  # one task needs no other process
    results = dict(engine.each(settings_of_process, range(4), TWO))
    assert [results[n][3] for n in range(4)] == [0, 1, 4, 9]
    assert os.getpid() not in {pid for pid, *_ in results.values()}
    assert all(n == ["1"] * 3 and dtype == "float64" for _, n, dtype, _ in results.values())
    with pytest.raises(ValueError, match="3 threads: start it with --nthreads 1"):
        engine.begin(3)


def fail(number):
    if number:
        raise ValueError(f"the task {number} fails")
    return number


def test_an_error_of_a_task_is_raised_and_ends_the_others():
    with pytest.raises(ValueError, match="the task 1 fails"):
        list(engine.each(fail, [0, 1, 1], TWO))
    assert dict(engine.each(fail, [0, 0], TWO)) == {0: 0}  # new workers


def die_once(folder, number):
    """The first call with a number above 0 kills its process."""
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return os.getpid()
    if number:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_a_task_of_a_killed_worker_runs_again(tmp_path):
    results = dict(engine.each(partial(die_once, tmp_path), [0, 1, 2], TWO))
    assert sorted(results) == [0, 1, 2] and sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


@pytest.mark.slow
def test_a_scheduler_that_is_absent_or_lost_is_an_error(tmp_path):
    """Results that were yielded before are complete. The address is that of a real cluster."""
    file, dask = tmp_path / "scheduler.json", [sys.executable, "-m", "dask"]
    shared = ["--scheduler-file", str(file), "--no-dashboard"]
    started: dict = dict(stderr=subprocess.DEVNULL, env=os.environ | engine.ONE_THREAD)
    scheduler = subprocess.Popen([*dask, "scheduler", "--port", "0", *shared], **started)
    worker = subprocess.Popen([*dask, "worker", "--nthreads", "1", *shared], **started)
    try:
        while not file.exists():
            time.sleep(0.1)
        workers, results = Workers(cluster=json.loads(file.read_text())["address"]), []
        with pytest.raises(ConnectionError, match="is lost. The finished runs are kept"):
            for task, _ in engine.each(time.sleep, [0, 60], workers):
                results.append(task)
                scheduler.kill()
        assert results == [0]
        with pytest.raises(ConnectionError, match="no scheduler of Dask at tcp://"):
            next(engine.each(time.sleep, [0], workers))
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_sweep_in_workers_has_the_rows_of_one_process(tmp_path, monkeypatch):
    """Own modules of the working directory are imported in the workers as well. An unfinished sweep
    resumes, and is read before."""
    (tmp_path / "own.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    options = dict(problem="generated", arms=60, horizon=20, seeds=2, kernel="own:Mine")
    options |= dict(algorithm="jsketch.bandits.template:ConstantWidth", grid=dict(beta=(1.0, 2.0)))
    sweep.run(Sweep(out=tmp_path / "one", **options))
    engine.close(TWO)  # its workers started in another folder
    sweep.run(Sweep(out=tmp_path / "two", workers=2, **options))
    one, two = (tidy.load(tmp_path / name) for name in ("one", "two"))
    pd.testing.assert_frame_equal(one.curves, two.curves)
    assert two.provenance["last_session"]["strategy"] == "2 processes"
    (tmp_path / "two" / "summary.json").unlink()
    removed = tmp_path / "two" / "runs" / "row0001-001.npz"
    removed.unlink()
    data = common.load(tmp_path / "two")
    assert dict(data.sizes) == dict(setting=2, seed=2, t=20) and not data.attrs["finished"]
    assert data.beta.values.tolist() == [1.0, 2.0]
    assert np.isnan(data.regret_ratio.values[1, 1]).all()
    sweep.run(Sweep(out=tmp_path / "two", workers=2, **options))
    pd.testing.assert_frame_equal(one.curves, tidy.load(tmp_path / "two").curves)
    whole = common.load(tmp_path / "two")
    np.testing.assert_allclose(whole.regret_ratio.sel(t=20), whole.final_regret_ratio, rtol=1e-6)


@pytest.mark.parametrize("name", methods.ALGORITHMS)
def test_the_methods_can_be_sent_to_a_process(name):
    config = methods.COMMON | dict(lengthscale=1.0, delta=0.1, horizon=10, epsilon=0.1)
    bandit = methods.ALGORITHMS[name](config)
    assert repr(pickle.loads(pickle.dumps(bandit))) == repr(bandit)


def test_campaigns_can_be_sent_to_a_process():
    x = np.random.default_rng(0).random((20, 2))
    pool = Pool("made up", library(x), x.sum(1))
    for make in (
        partial(campaigns.play, pool, (5, 3), acquisition=acquisitions.UCB()),
        partial(baselines.play, pool, (5, 3), choose=baselines.CHOOSERS["random"]),
    ):
        sent = pickle.loads(pickle.dumps(make))
        assert sent(1).arms.tolist() == make(1).arms.tolist()
