"""Sweeps: compiled programs, strategies that make the same runs, and interruptions."""

import dataclasses
import itertools
import json
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from rows import check_refusals

from experiments.bbkb_2020 import regret
from experiments.bkb_2019 import linear
from experiments.results import tidy
from experiments.sweep import execution, settings
from experiments.sweep import main as sweep
from experiments.sweep.settings import Sweep
from jsketch import kernels, loops

TINY = dict(problem="generated", arms=60, horizon=30, seeds=2)
GRID = dict(lengthscale=(2.0, 6.0), ratio=(1.5, 3.0))
TIMES = ["run_seconds", "compile_seconds"]


def rows_of(folder):
    """The tables of a folder without the columns of times."""
    tables = tidy.load(folder)
    return tables.curves, tables.summary.drop(columns=TIMES)


def assert_same_rows(folder, other_folder, **tolerance):
    for a, b in zip(rows_of(folder), rows_of(other_folder), strict=True):
        pd.testing.assert_frame_equal(a, b, **tolerance)


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory):
    """(options, table) of a sweep without interruptions."""
    out = tmp_path_factory.mktemp("sweep") / "whole"
    return Sweep(out=out, grid=GRID, **TINY), sweep.run(Sweep(out=out, grid=GRID, **TINY))


def test_every_configuration_and_seed_is_in_the_tables(finished_sweep):
    options, table = finished_sweep
    tables = tidy.load(options.out)
    assert len(tables.summary) == 4 * 2 and tables.summary["regularization"].nunique() == 1
    pairs = {tuple(pair) for pair in tables.summary[["lengthscale", "ratio"]].to_numpy()}
    assert pairs == set(itertools.product(*GRID.values()))
    for _, row in table.iterrows():
        part = tables.summary[tables.summary["configuration"] == row["configuration"]]
        assert row["regret_ratio"] == part["final_regret_ratio"].mean()
        assert row["ci95"] == pytest.approx(1.96 * part["final_regret_ratio"].std() / np.sqrt(2))
    assert table["regret_ratio"].is_monotonic_increasing
    assert tables.provenance["config"]["grid.ratio"] == [1.5, 3.0]
    names = {"commit", "versions", "hardware", "dtype", "seeds", "last_session"}
    assert names <= tables.provenance.keys()


def test_a_vmapped_sweep_makes_the_same_picks(finished_sweep, tmp_path):
    options, _ = finished_sweep
    # 3 does not divide the 8 runs: the last chunk is filled up
    sweep.run(dataclasses.replace(options, out=tmp_path, strategy="vmap", chunk=3))
    assert_same_rows(options.out, tmp_path, check_exact=False, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["map", "vmap"])
def test_other_numbers_compile_nothing(finished_sweep, tmp_path, strategy):
    options, _ = finished_sweep
    options = dataclasses.replace(options, strategy=strategy, chunk=3, seeds=1)
    sweep.run(dataclasses.replace(options, out=tmp_path / "first"))
    n_programs = loops.compiled_programs()
    grid = dict(lengthscale=(1.0, 3.0), regularization=(0.1, 0.2), delta=(0.2,), noise_std=(0.1,))
    sweep.run(dataclasses.replace(options, out=tmp_path / "second", grid=grid))
    assert loops.compiled_programs() == n_programs > 0


def test_an_interrupted_sweep_ends_with_the_rows_of_an_uninterrupted_one(
    finished_sweep, tmp_path, monkeypatch
):
    options, save = dataclasses.replace(finished_sweep[0], out=tmp_path), execution.save

    def save_or_interrupt(job, task, *run):
        if task.row == 1:
            raise KeyboardInterrupt
        save(job, task, *run)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(execution, "save", save_or_interrupt)
        sweep.run(options)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/row*.npz")}
    assert 0 < len(times) < 8 and not (tmp_path / tidy.CURVES).exists()
    sweep.run(options)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert_same_rows(options.out, finished_sweep[0].out)


def test_a_finished_sweep_is_not_run_again(finished_sweep):
    options, table = finished_sweep
    time_written = (options.out / tidy.PROVENANCE).stat().st_mtime_ns
    pd.testing.assert_frame_equal(sweep.run(options), table)
    assert (options.out / tidy.PROVENANCE).stat().st_mtime_ns == time_written


def test_another_sweep_in_the_same_folder_is_refused(finished_sweep):
    changes = dict(grid=GRID | dict(lengthscale=(2.0, 4.0)), algorithm="bbkb_global_local")
    words = r"algorithm was bbkb_global, is now bbkb_g.*grid.lengthscale was \[2.0, 6.0\], is now"
    with pytest.raises(ValueError, match=words):
        sweep.run(dataclasses.replace(finished_sweep[0], **changes))


def test_mistakes_are_refused(tmp_path):
    options = Sweep(out=tmp_path, grid=GRID, **TINY)
    rows = [
        (dict(grid={}), "the sweep is empty: give values, such as --grid lengthscale 1 2 3"),
        (dict(grid=dict(ratio=(2.0, 2.0))), "--grid ratio needs distinct values"),
        (dict(grid=dict(epsilon=(0.1,))), "BBKB has no number called 'epsilon'; its numbers are"),
        (dict(grid=dict(ratio=(0.5,))), r"\{'ratio': 0.5\} cannot be run: ratio must be at lea"),
        (dict(grid=dict(noise_std=(float("nan"),))), "every number finite"),
        (dict(grid={}, random=dict(qbar=(2.0, 1.0))), "--random qbar needs 0 < LOW < HIGH"),
        (dict(random=dict(ratio=(2.0, 3.0))), "ratio has both a grid and a range"),
        (dict(algorithm="soful"), "there is no algorithm 'soful' for generated"),
    ]
    replaced = ((dataclasses.replace(options, **changes), words) for changes, words in rows)
    check_refusals((partial(sweep.run, wrong), words) for wrong, words in replaced)
    assert not list(tmp_path.rglob("*"))


def test_shards_make_the_runs_of_the_whole_sweep(finished_sweep, tmp_path, monkeypatch):
    options = dataclasses.replace(finished_sweep[0], out=tmp_path)
    monkeypatch.setattr(sweep.cli, "set_up_jax", lambda: None)
    for shard, n_runs in ((3, 2), (1, 5)):
        sweep.run_shard(options, shard, 3)
        assert len(list(tmp_path.rglob("row*.npz"))) == n_runs
    with pytest.raises(ValueError, match="horizon was 30, is now 31"):
        sweep.run_shard(dataclasses.replace(options, horizon=31), 2, 3)
    sweep.run_shard(options, 2, 3)
    assert not (tmp_path / tidy.CURVES).exists()
    monkeypatch.setattr(execution, "save", pytest.fail)  # the whole sweep repeats no run
    sweep.run(options)
    assert_same_rows(finished_sweep[0].out, tmp_path)


@pytest.mark.parametrize("problem", ["generated", "linear_fast"])
def test_every_algorithm_of_the_experiments_can_be_swept(problem):
    options = Sweep(out=Path("nowhere"), problem=problem, arms=60)
    setting = settings.load(options)
    assert setting.algorithms is (linear if problem.startswith("linear") else regret).ALGORITHMS
    for name in setting.algorithms:
        bandit = settings.make(dataclasses.replace(options, algorithm=name), setting)
        with_half = settings.with_numbers(bandit, dict.fromkeys(settings.numbers(bandit), 0.5))
        assert jax.tree.structure(with_half) == jax.tree.structure(bandit)
        assert set(settings.numbers(with_half).values()) <= {0.5}


def test_a_run_that_is_not_finite_is_counted_and_not_hidden(
    finished_sweep, tmp_path, monkeypatch, capsys
):
    options, _ = finished_sweep
    original_run = execution.loops.run

    def run(bandit, problem, key, horizon, **rest):
        if bandit.ratio == 3.0:
            raise FloatingPointError("the run stopped")
        return original_run(bandit, problem, key, horizon, **rest)

    monkeypatch.setattr(execution.loops, "run", run)
    table = sweep.run(dataclasses.replace(options, out=tmp_path, seeds=1))
    assert table["failed"].tolist() == [0, 0, 1, 1] and table["regret_ratio"].isna().sum() == 2
    sweep.print_table(table)
    assert "2 runs FAILED" in capsys.readouterr().out
    assert json.loads((tmp_path / tidy.PROVENANCE).read_text())["best"][3]["regret_ratio"] is None


def test_an_algorithm_and_a_table_of_the_user_can_be_swept(tmp_path, monkeypatch, capsys):
    frame = pd.DataFrame(np.random.default_rng(0).random((60, 3)), columns=["a", "b", "reward"])
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "my_bandits.py").write_text(
        "from jsketch import struct\n"
        "from jsketch.bandits import BBKB\n"
        "@struct.dataclass\n"
        "class MyBandit(BBKB):\n"
        "    ratio: float = 1.5\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = "--problem table.csv --algorithm my_bandits:MyBandit --kernel matern52 --out out"
    arguments += " --horizon 20 --seeds 1 --grid ratio 2 3"
    options, _ = sweep.parse(arguments.split())
    setting = settings.load(options)
    assert setting.problem.arms.features.shape == (60, 2)
    assert setting.problem.mean_reward.min() == 0 and setting.problem.mean_reward.max() == 1
    bandit = settings.make(options, setting)
    assert type(bandit).__name__ == "MyBandit" and bandit.kernel == kernels.Matern(1.0, nu=2.5)
    with pytest.raises(ValueError, match="no algorithm my_bandits:Yours"):
        settings.make(dataclasses.replace(options, algorithm="my_bandits:Yours"), setting)
    monkeypatch.setattr(sys, "argv", ["sweep", *arguments.split()])
    sweep.main()
    best = pd.read_csv(tmp_path / "out" / "best.csv")
    assert set(best["ratio"]) == {2, 3} and "best 2 of 2" in capsys.readouterr().out
    del sys.modules["my_bandits"]
