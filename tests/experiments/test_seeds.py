"""The benchmarks of many seeds and of an accelerator, and the choice of how a sweep is computed."""

import argparse
import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

from experiments import cli, demo, engine
from experiments.bench import accelerator, bandits, seeds
from experiments.sweep import execution
from experiments.sweep.settings import Sweep
from jsketch import Box, kernels, numerics, problems
from jsketch.bandits import BBKB, Uniform
from jsketch.core.dictionary import Draw
from jsketch.loops import advance, rollouts
from jsketch.loops.capacities import with_initial_capacity


def row(way, runs, seconds, run_seconds, gigabytes=0.5):
    new = dict(size=[1, 1, runs], runs=runs, way=way, seconds=seconds, run_seconds=run_seconds)
    return new | dict(regret_ratio=0.5, peak_gigabytes=gigabytes)


# --- the benchmark of many seeds


@pytest.mark.slow
def test_all_ways_make_the_same_runs(monkeypatch):
    """Two settings with four seeds each."""
    monkeypatch.setattr(rollouts, "one_after_another", rollouts.one_after_another)
    monkeypatch.setattr(advance, "over_runs", advance.over_runs)
    monkeypatch.setattr(seeds, "WORKERS", engine.THIS_PROCESS)
    rows = {}
    for way in (seeds.ONE_BY_ONE, seeds.PROCESSES, seeds.TOGETHER):
        advance.run_segment.clear_cache()  # its programs depend on the way
        point = json.dumps(["generated", [2, 1, 4], way])
        rows[way] = seeds.measure(argparse.Namespace(point=point, small=True, data_dir=None))
    advance.run_segment.clear_cache()
    ratios = [one["regret_ratio"] for one in rows.values()]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-9)
    assert 0 < ratios[0] < 1.5
    for way, one in rows.items():
        assert (one["way"], one["runs"]) == (way, 8)
        assert 0 < one["run_seconds"] < one["seconds"] and one["peak_gigabytes"] > 0.05


def test_the_settings_of_a_sweep_are_distinct_and_those_of_seeds_are_the_bandit():
    bandit = BBKB(kernels.Gaussian(2.0), noise_std=0.1)
    for size in seeds.SIZES:
        made = seeds.settings_of(bandit, size)
        numbers = {(one.kernel.lengthscale, one.noise_std) for one in made}
        tasks = seeds.tasks_of(size)
        assert len(numbers) == len(made) and len(set(tasks)) == len(tasks) == size.runs
        assert {task.setting for task in tasks} == set(range(len(made)))
        if len(made) == 1:
            assert numbers == {(2.0, 0.1)}


def test_a_size_that_takes_too_long_or_too_much_memory_is_left_out(monkeypatch, capsys):
    """Of 1 run in a second and 1 GB more for each run."""
    measured = []

    def in_new_process(name, size, way, options):
        measured.append((way, size.runs))
        return row(way, size.runs, size.runs + 1.0, float(size.runs), 0.5 + size.runs)

    monkeypatch.setattr(seeds, "in_new_process", in_new_process)
    monkeypatch.setattr("jsketch.devices.memory", lambda: 10_000e9)
    options = argparse.Namespace(small=False, limit=500.0)
    assert len(seeds.rows_of("generated", options)) == len(measured)
    one_by_one = [runs for way, runs in measured if way == seeds.ONE_BY_ONE]
    assert one_by_one == [1, 8, 64, 400]
    assert [runs for way, runs in measured if way == seeds.TOGETHER] == [8, 64, 400]
    assert "1,000 seeds one by one: left out, because it would take about 1000 s and 1000.5 GB" in (
        capsys.readouterr().out
    )
    measured.clear()
    monkeypatch.setattr("jsketch.devices.memory", lambda: 200e9)
    seeds.rows_of("generated", options)
    assert [runs for way, runs in measured if way == seeds.TOGETHER] == [8, 64]


def test_the_table_names_the_way_that_ends_first():
    rows = [
        row(seeds.ONE_BY_ONE, 1, 3.0, 0.5),
        row(seeds.ONE_BY_ONE, 64, 20.0, 16.0),
        row(seeds.TOGETHER, 64, 22.0, 12.0, gigabytes=1.25),
        row(seeds.PROCESSES, 64, 19.0, 14.0),
    ]
    head, rule, one, many = seeds.table("abalone", rows)
    assert head.startswith("| abalone | one by one | together | two processes |")
    assert rule.count("---") == head.count("|") - 1
    assert one == "| 1 seed | 3 s (0.5 s), 0.5 GB | – | – | one by one | one by one |"
    assert "| 64 seeds | 20 s (16 s), 0.5 GB | 22 s (12 s), 1.2 GB | 19 s (14 s)" in many
    assert many.endswith("| two processes | together |")


# --- the choice of a sweep


def test_processes_are_used_where_they_save_more_than_they_need_to_start(monkeypatch):
    monkeypatch.setattr(execution, "START_SECONDS", 10.0)
    monkeypatch.setattr(execution, "SLOWER_ON_ONE_THREAD", 1.5)
    monkeypatch.setattr(execution.environment, "hardware", lambda: dict(cores=4))
    # of n runs of a second, n - 1.5 ceil(n / 4) seconds are saved
    assert [execution.processes(n, 1.0) for n in (1, 16, 17, 1_000)] == [1, 1, 1, 4]
    assert execution.processes(18, 1.0) == 4 and execution.processes(3, 6.7) == 3
    assert execution.processes(0, 1.0) == execution.processes(1, 1e9) == 1
    monkeypatch.setattr(numerics, "on_accelerator", lambda: True)
    assert execution.processes(1_000, 1.0) == 1


def test_configurations_of_similar_capacities_share_a_program():
    """Each has at least the capacity that `loops.run` would choose, and at most SHARED_RATIO times
    as much. Algorithms whose capacity is not chosen, and runs over a box, stay as they are."""
    problem = problems.finite_arms(
        np.random.default_rng(0).uniform(0, 1, (600, 3)), np.ones(600), 0.1
    )
    lengthscales = (0.2, 0.25, 0.3, 0.5, 0.6, 1.0, 2.0)
    bandits = [BBKB(kernels.Gaussian(scale), 0.01) for scale in lengthscales]
    others = [Uniform(), BBKB(kernels.Gaussian(1.0), dictionary=Draw())]
    alone = [with_initial_capacity(bandit, problem.arms, 100).capacity for bandit in bandits]
    *shared, first, second = execution.with_shared_capacities(
        bandits + others, [problem] * len(bandits + others), 100
    )
    assert (first, second) == tuple(others)
    found = [bandit.capacity for bandit in shared]
    assert len(set(found)) < len(set(alone)) > 3
    for before, after in zip(alone, found, strict=True):
        assert before <= after <= execution.SHARED_RATIO * before
    wrong = BBKB(kernels.Gaussian(jnp.nan), 0.01)  # its run names the cause
    assert execution.with_shared_capacities([wrong], [problem], 100) == [wrong]
    box = problems.on_box(jnp.sum, Box(jnp.zeros(2), jnp.ones(2)))
    assert execution.with_shared_capacities([Uniform()], [box], 9) == [Uniform()]


@pytest.mark.parametrize("on_accelerator", [False, True])
def test_the_strategy_follows_the_rule_of_a_program(on_accelerator, monkeypatch, tmp_path):
    """One program for several runs pays only where it computes them together."""
    monkeypatch.setattr(numerics, "on_accelerator", lambda: on_accelerator)
    options = Sweep(tmp_path)
    cluster = dataclasses.replace(options, cluster="tcp://host:8786")
    two = dataclasses.replace(options, workers=2)
    assert execution.is_vmapped(options) == execution.is_vmapped(two) == on_accelerator
    assert not execution.is_vmapped(cluster)
    for strategy in ("map", "vmap"):
        chosen = dataclasses.replace(two, strategy=strategy)
        assert execution.is_vmapped(chosen) == (strategy == "vmap")


# --- the benchmark of an accelerator


def test_every_part_runs_small_on_a_cpu(monkeypatch, tmp_path, capsys):
    arms, mean_reward = demo.generate(60)
    problem = problems.finite_arms(arms, mean_reward, 0.1)
    monkeypatch.setattr(bandits, "load_problem", lambda *_: problem)
    monkeypatch.setattr(cli, "set_up_jax", lambda *_: None)
    out = tmp_path / "numbers.json"
    command = ["bench", "--accelerator", "--small", "--repeats", "1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", command)
    bandits.main()
    numbers = json.loads(out.read_text())
    dtypes = ["float32", "float64"]
    assert list(numbers["seeds"]) == ["3 seeds, T = 20"]
    assert list(numbers["arms"]) == [f"A = 400, {dtype}" for dtype in dtypes]
    assert list(numbers["stream"]) == [f"600 examples, {dtype}" for dtype in dtypes]
    for part in ("seeds", "arms", "stream"):
        assert all(row["run_seconds"] > 0 for row in numbers[part].values())
    printed = capsys.readouterr().out
    assert "goal: 1,000 seeds, T = 10,000: run_seconds at most 4: not measured" in printed
    monkeypatch.setattr("sys.argv", ["bench", "--small"])
    with pytest.raises(SystemExit):
        bandits.main()
    assert "--small is an option of --accelerator" in capsys.readouterr().err


def test_goals_are_compared_with_the_rows_of_an_accelerator():
    sizes = accelerator.ACCELERATOR
    names = {f"{n:,} seeds, T = {sizes.horizon:,}" for n in sizes.seeds}
    names |= {f"A = {n:,}, {dtype}" for n in sizes.arms for dtype in ("float32", "float64")}
    assert accelerator.GOALS.keys() <= names
    assert sizes.chunks * sizes.chunk == 10_000_000 and 1_000 in sizes.seeds
    rows = {
        "seeds": {"1,000 seeds, T = 10,000": dict(run_seconds=7.554)},
        "arms": {"A = 10,000,000, float32": dict(milliseconds_a_round=30.0)},
    }
    assert accelerator.goals(rows) == [
        "goal: 1,000 seeds, T = 10,000: run_seconds at most 4: 7.554, not reached",
        "goal: A = 10,000,000, float32: milliseconds_a_round at most 30: 30, reached",
        "goal: A = 10,000,000, float64: milliseconds_a_round at most 30: not measured",
    ]
