"""Runs in worker processes: the numbers of one process, interruptions, and killed workers."""

import os
import signal
import threading
import time
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.bbkb_2020 import methods, nas_bench_101
from experiments.bkb_2019 import linear
from experiments.pools import baselines, campaigns
from experiments.pools.libraries import Pool
from experiments.results import store, tidy
from experiments.runs import bandit_runs, processes
from experiments.sweep import main as sweep
from experiments.sweep.settings import Sweep
from jsketch.suggest import acquisitions, library

TIMES = {"run_seconds", "compile_seconds", "seconds"}
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


@pytest.fixture(autouse=True)
def folder_of_programs(tmp_path, monkeypatch):
    """Worker processes save compiled programs in a temporary folder, with the options of users."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings_of_process(number):
    threads = [os.environ.get(name) for name in ("NPROC", "OPENBLAS_NUM_THREADS")]
    return os.getpid(), threads, str(jnp.ones(2).dtype), number**2


def wait(folder, number):
    """Writes a file, and then waits for ever, unless the number is 0."""
    (folder / str(number)).touch()
    while number:
        time.sleep(0.01)
    return os.getpid()


def test_results_are_those_of_one_process():
    tasks, before = range(3), os.environ.copy()
    [(task, (pid, *_, square))] = processes.each(settings_of_process, [3], workers=2)
    assert (task, pid, square) == (3, os.getpid(), 9)  # one task needs no other process
    results = dict(processes.each(settings_of_process, tasks, workers=2))
    assert sorted(results) == list(tasks) and [results[n][3] for n in tasks] == [0, 1, 4]
    assert os.getpid() not in {pid for pid, *_ in results.values()}
    assert all(n == ["1", "1"] and dtype == "float64" for _, n, dtype, _ in results.values())
    assert os.environ == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_processes_end_with_the_call(tmp_path, how):
    """Ctrl-C, or the death of a process, ends the call. The yielded results are complete."""

    def act():
        while not (tmp_path / "2").exists():
            time.sleep(0.01)
        os.kill(pids[1] if how == "killed" else os.getpid(), signal_sent)

    signal_sent = signal.SIGKILL if how == "killed" else signal.SIGINT
    raised = ChildProcessError if how == "killed" else KeyboardInterrupt
    pids, done = [os.getpid()], []
    with pytest.raises(raised) as error_info:
        for task, pid in processes.each(partial(wait, tmp_path), [0, 1, 2], workers=2):
            pids.append(pid)
            done.append(task)
            threading.Thread(target=act).start()
    assert done == [0] and not processes.multiprocessing.active_children()
    assert how != "killed" or "fewer --workers need less memory" in str(error_info.value)


@pytest.mark.slow
def test_a_sweep_in_processes_has_the_rows_of_one_process(tmp_path, monkeypatch):
    """Own modules of the working directory are imported in the processes as well."""
    (tmp_path / "own.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    options = dict(problem="generated", arms=60, horizon=20, seeds=2, kernel="own:Mine")
    options |= dict(algorithm="jsketch.bandits.template:ConstantWidth", grid=dict(beta=(1.0, 2.0)))
    for name, workers in (("one", 1), ("two", 2)):
        sweep.run(Sweep(out=tmp_path / name, workers=workers, **options))
    for seed in range(2):
        for row in range(2):
            one, two = (store.read_run(tmp_path / n, f"row{row:04d}", seed) for n in ("one", "two"))
            assert one.keys() == two.keys()
            for name in one.keys() - TIMES:
                np.testing.assert_array_equal(one[name], two[name])
    assert tidy.load(tmp_path / "two").provenance["last_session"]["strategy"] == "2 processes"


@pytest.mark.slow
def test_an_experiment_in_processes_has_the_runs_of_one_process(tmp_path):
    """With initial evaluations, whose states are made in the processes."""
    problem = linear.generate("fast")
    config = methods.COMMON | dict(algorithm="bbkb_global", initial=10, root_seed=0, horizon=30)
    config |= dict(lengthscale=1.0, delta=0.1, width="code")
    bandit = methods.ALGORITHMS["bbkb_global"](config)
    states = partial(nas_bench_101.warm_state, "bbkb_global", bandit, problem, config)
    runs = []
    for workers in (1, 2):
        config = config | dict(seeds_side_by_side=workers)
        arguments = (problem, config, tmp_path / str(workers), 2, states)
        runs.append(bandit_runs.run_algorithm("bbkb_global", bandit, *arguments))
    for one, two in zip(*runs, strict=True):
        assert one.keys() == two.keys()
        for name in one.keys() - TIMES:
            np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("name", methods.ALGORITHMS)
def test_the_methods_can_be_sent_to_a_process(name):
    config = methods.COMMON | dict(lengthscale=1.0, delta=0.1, horizon=10, epsilon=0.1)
    bandit = methods.ALGORITHMS[name](config)
    sent = processes.pickle.loads(processes.pickle.dumps(bandit))
    assert repr(sent) == repr(bandit)


def test_campaigns_can_be_sent_to_a_process():
    x = np.random.default_rng(0).random((20, 2))
    pool = Pool("made up", library(x), x.sum(1))
    acquisition = acquisitions.UCB()
    for make in (
        partial(campaigns.play, pool, (5, 3), acquisition=acquisition),
        partial(baselines.play, pool, (5, 3), choose=baselines.CHOOSERS["random"]),
    ):
        sent = processes.pickle.loads(processes.pickle.dumps(make))
        assert sent(1).arms.tolist() == make(1).arms.tolist()
