"""Sweeps: compiled programs, strategies that make the same runs, and interruptions."""

import dataclasses
import itertools
import json
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rows import check_refusals

from experiments import cli, common, engine
from experiments.bbkb_2020 import methods
from experiments.bkb_2019 import linear
from experiments.results import summaries, tidy
from experiments.sweep import execution, heat_maps, settings
from experiments.sweep import main as sweep
from experiments.sweep.settings import Sweep
from jsketch import kernels, loops, struct
from jsketch.bandits import Uniform

TINY = dict(problem="generated", arms=60, horizon=30, seeds=2)
GRID = dict(lengthscale=(2.0, 6.0), ratio=(1.5, 3.0))
CONFIG = {f"grid.{name}": list(values) for name, values in GRID.items()}
TIMES = ["run_seconds", "compile_seconds"]


@struct.dataclass
class Ending(Uniform):
    """Uniformly random arms, and an empty query from the fourth evaluation on."""

    a: float = 1.0

    def init(self, arms, key, *, horizon=None, data=None):
        return jnp.zeros((), jnp.int32)

    def ask(self, state, arms, key, limit=None):
        query = Uniform.ask(self, (), arms, key, limit)
        return query.replace(mask=query.mask & (state < 3))

    def tell(self, state, arms, query, y, key):
        _, info = Uniform.tell(self, (), arms, query, y, key)
        return state + info.observed, info


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


def test_the_number_of_processes_comes_from_the_first_run(finished_sweep, monkeypatch, tmp_path):
    """The runs are those of one process."""
    options, calls, run_each = finished_sweep[0], [], engine.run_each

    def in_this_process(make, tasks, workers, *rest):
        calls.append((len(tasks), workers.processes))
        run_each(make, tasks, engine.THIS_PROCESS, *rest)

    monkeypatch.setattr(engine, "run_each", in_this_process)
    monkeypatch.setattr(execution.environment, "hardware", lambda: dict(cores=2))
    for start_seconds, expected in ((1e9, 1), (0.0, 2)):
        monkeypatch.setattr(execution, "START_SECONDS", start_seconds)
        auto = dataclasses.replace(options, out=tmp_path / f"{expected}", workers="auto")
        sweep.run(auto)
        assert calls == [(1, 1), (7, expected)]
        assert tidy.load(auto.out).provenance["last_session"]["strategy"] == f"{expected} processes"
        assert_same_rows(options.out, auto.out)
        sweep.run(auto)
        assert len(calls) == 2  # nothing was missing
        calls.clear()
    sweep.run(dataclasses.replace(auto, out=tmp_path / "cluster", cluster="tcp://host:8786"))
    assert [n for n, _ in calls] == [8]  # a cluster decides nothing by a run of this process
    assert sweep.parse(["--out", "x"]).workers == 1
    assert sweep.parse(["--out", "x", "--workers", "auto"]).workers == "auto"


@pytest.mark.parametrize("strategy", ["map", "vmap"])
def test_other_numbers_compile_nothing(finished_sweep, tmp_path, strategy):
    options, _ = finished_sweep
    options = dataclasses.replace(options, strategy=strategy, chunk=3, seeds=1)
    sweep.run(dataclasses.replace(options, out=tmp_path / "first"))
    n_programs = loops.compiled_programs()
    grid = dict(lengthscale=(1.0, 3.0), regularization=(0.1, 0.2), delta=(0.2,), noise_std=(0.1,))
    sweep.run(dataclasses.replace(options, out=tmp_path / "second", grid=grid))
    assert loops.compiled_programs() == n_programs > 0


@pytest.mark.parametrize(("strategy", "capacities"), [("map", {80}), ("vmap", {None})])
def test_kernels_share_a_program(tmp_path, strategy, capacities):
    """`run` alone would choose the capacities 80 and 64."""
    options = Sweep(
        out=tmp_path,
        problem="generated",
        arms=200,
        horizon=100,
        algorithm="jsketch.bandits:BBKB",
        grid=dict(lengthscale=(2.0, 2.5)),
        strategy=strategy,
    )
    found = [bandit.capacity for bandit in sweep.RunMaker(options, "commit").job.bandits]
    assert set(found) == capacities and len(found) == 2


@pytest.mark.parametrize("strategy", ["map", "vmap"])
def test_an_interrupted_sweep_ends_with_the_rows_of_an_uninterrupted_one(
    finished_sweep, tmp_path, monkeypatch, capsys, strategy
):
    """After Ctrl-C every run that the bar has counted is saved, and `tidy.load` reads it."""
    options = dataclasses.replace(finished_sweep[0], out=tmp_path, strategy=strategy, chunk=2)
    save, bars = execution.save, []

    def save_or_interrupt(job, task, *run):
        if task.row == 1:
            raise KeyboardInterrupt
        save(job, task, *run)

    def progress(*arguments):
        bars.append(cli.Lines(*arguments))
        return bars[0]

    with monkeypatch.context() as patch, pytest.raises(SystemExit) as exit_info:
        patch.setattr(execution, "save", save_or_interrupt)
        patch.setattr(cli, "progress", progress)
        command = cli.command_line.command(lambda: sweep.run(options))
        command()
    assert exit_info.value.code == 130
    assert (
        f"interrupted: 2 of 8 runs are saved in {tmp_path}, and `tidy.load` reads them. The same"
        " command makes the other 6." in capsys.readouterr().err
    )
    # the bar counts evaluations, and no run, or program of runs, as whole that is not saved
    unsaved = bars[0].n - 2 * options.horizon
    assert 0 < unsaved < options.horizon * (1 if strategy == "map" else options.chunk)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/row*.npz")}
    assert len(times) == 2 and not (tmp_path / tidy.CURVES).exists()
    partial_rows, whole_rows = rows_of(tmp_path), rows_of(finished_sweep[0].out)
    for part, whole in zip(partial_rows, whole_rows, strict=True):
        expected = whole[(whole["lengthscale"] == 2.0) & (whole["ratio"] == 1.5)]
        expected = expected[part.columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected, check_categorical=False, rtol=1e-12)
    assert tidy.load(tmp_path).provenance["finished"] is False
    sweep.run(options)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert_same_rows(options.out, finished_sweep[0].out, check_exact=False, rtol=1e-12)


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
        (dict(grid=dict(ratio=(0.5,))), r"\{'ratio': 0.5\} cannot be run: ratio must be a finite"),
        (dict(grid=dict(noise_std=(float("nan"),))), "every number finite"),
        (dict(grid={}, random=dict(qbar=(2.0, 1.0))), "--random qbar needs 0 < LOW < HIGH"),
        (dict(random=dict(ratio=(2.0, 3.0))), "ratio has both a grid and a range"),
        (dict(algorithm="soful"), "there is no algorithm 'soful' for generated"),
    ]
    replaced = ((dataclasses.replace(options, **changes), words) for changes, words in rows)
    check_refusals((partial(sweep.run, wrong), words) for wrong, words in replaced)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("problem", ["generated", "linear_fast"])
def test_every_algorithm_of_the_experiments_can_be_swept(problem):
    options = Sweep(out=Path("nowhere"), problem=problem, arms=60)
    setting = settings.load(options)
    assert setting.algorithms is (linear if problem.startswith("linear") else methods).ALGORITHMS
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
    printed = capsys.readouterr().out
    assert "2 runs FAILED" in printed and "last and have no mean: 1, 3." in printed
    assert json.loads((tmp_path / tidy.PROVENANCE).read_text())["best"][3]["regret_ratio"] is None
    assert sweep.latex(table).count("--") == 2 * 3  # ratio, batches and inducing points


def test_one_failed_run_leaves_no_mean_of_the_others(finished_sweep, tmp_path):
    """Neither in the ranking nor in the figures: the mean of the other seeds is no result."""
    summary = tidy.load(finished_sweep[0].out).summary.copy()
    best = int(finished_sweep[1]["configuration"].iloc[0])
    failed = (summary["configuration"] == best) & (summary["seed"] == 1)
    summary.loc[failed, ["final_regret_ratio", "batches", "dictionary_size"]] = np.nan
    summary.loc[failed, "failed"] = True
    table = sweep.rank(summary, ["lengthscale", "ratio"])
    assert table["configuration"].iloc[-1] == best
    assert table.iloc[-1][["regret_ratio", "ci95", "batches", "dictionary_size"]].isna().all()
    assert table.iloc[:-1].notna().all(axis=None)
    drawn = []
    along = summary[summary["ratio"] == summary[failed]["ratio"].iloc[0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heat_maps.tidy, "load", lambda folder: (None, along, dict(config=CONFIG)))
        patch.setattr(heat_maps, "along_number", lambda *arguments: drawn.append(arguments))
        assert heat_maps.draw(tmp_path) == ["regret_ratio_lengthscale.png"]
    [(_, values, x, *_)] = drawn
    assert x == [2.0, 6.0] and np.isnan(values).sum() == 1 and values.shape == (2, 2)


def test_a_vmapped_run_without_a_query_is_no_result(tmp_path):
    options = Sweep(out=tmp_path, grid=dict(a=(1.0, 2.0)), strategy="vmap", **TINY)
    setting = settings.load(options)
    bandits = [Ending(a=1.0), Ending(a=2.0)]
    arms = setting.problem
    job = execution.Job(bandits, [arms, arms], arms.mean_reward, 30, tmp_path, "commit")
    tasks = [execution.Task(0, 0), execution.Task(1, 0)]
    bar = cli.Lines(60, 0, "evaluations", None)
    with pytest.raises(ValueError, match="stopped after 3 of 30 evaluations: .* empty query"):
        execution.run_vmapped(job, tasks, 2, bar)
    assert not list(tmp_path.rglob("*.npz")) and bar.n < 60


def test_the_table_for_latex_has_labels_and_errors(finished_sweep):
    lines = sweep.latex(finished_sweep[1]).splitlines()
    assert lines[2] == (
        r"lengthscale & ratio & $R_T / R_T^{\mathrm{unif}}$ & batches & inducing points & seconds a"
        r" run \\"
    )
    for line, (_, row) in zip(lines[4:8], finished_sweep[1].iterrows(), strict=True):
        lengthscale, ratio, text, *_ = line.split(" & ")
        number, error = text.strip("$").split(r" \pm ")
        assert (float(lengthscale), float(ratio)) == (row["lengthscale"], row["ratio"])
        assert len(number.split(".")[1]) == len(error.split(".")[1])
        assert float(error) == pytest.approx(row["ci95"], rel=0.05)
        assert abs(float(number) - row["regret_ratio"]) <= row["ci95"] / 10
    cases = [(0.08943, 0.00121), (12.0, 3.4), (1234.5, 120.0), (0.5, float("nan")), (0.5, 0.0)]
    texts = [r"$0.0894 \pm 0.0012$", r"$12.0 \pm 3.4$", r"$1234 \pm 120$", "0.5", "0.5"]
    assert [summaries.with_error(*case, latex=True) for case in cases] == texts
    plain = [text.strip("$").replace(r"\pm", "±") for text in texts]
    assert [summaries.with_error(*case) for case in cases] == plain


def test_one_sweep_has_algorithms_over_arms_and_over_a_box(tmp_path):
    """BBKB over 30 points of Branin's box, and GP-EI over the box: one command, one table, and one
    optimum, which is the maximum of the box."""
    arguments = "--problem branin --algorithm bbkb_global,gp_ei --grid ratio 1.5 3 --arms 30"
    arguments += f" --horizon 12 --seeds 2 --out {tmp_path / 'map'}"
    options = sweep.parse(arguments.split())
    table = sweep.run(options)
    assert sorted(table["algorithm"]) == ["bbkb_global", "bbkb_global", "gp_ei"]
    by_name = table.set_index("algorithm")
    assert sorted(by_name.loc["bbkb_global", "ratio"]) == [1.5, 3.0]
    assert np.isnan(by_name.loc["gp_ei", ["ratio", "dictionary_size"]].astype(float)).all()
    assert table["regret_ratio"].between(0, 2).all() and table["ci95"].gt(0).all()
    curves, summary, _ = tidy.load(options.out)
    assert len(summary) == 3 * 2 and not summary["failed"].any()
    ratio = curves[curves["metric"] == "regret_ratio"]
    counts = ratio.groupby("algorithm", observed=True)["seed"].nunique()
    assert counts.to_dict() == dict(bbkb_global=2, gp_ei=2)
    lines = sweep.latex(table).splitlines()
    assert lines[2].startswith(r"algorithm & ratio & $R_T / R_T^{\mathrm{unif}}$ & batches")
    [line] = [line for line in lines if line.startswith("GP-EI & -- & $")]
    assert r"\pm" in line and " & -- & " in line.split("$")[2]  # inducing points
    data = common.load(options.out)
    assert dict(data.sizes)["setting"] == 3 and data.regret_ratio.notnull().all()
    files = {path.name for path in options.out.glob("*.png")}
    assert files == {"bbkb_global_regret_ratio_ratio.png"}
    vmapped = dataclasses.replace(options, out=tmp_path / "vmap", strategy="vmap", chunk=3)
    sweep.run(vmapped)
    assert_same_rows(options.out, vmapped.out, check_exact=False, rtol=1e-9)


def test_numbers_that_no_algorithm_has_are_refused(tmp_path):
    options = Sweep(out=tmp_path, problem="branin", arms=30, algorithm="bbkb_global,gp_ei")
    rows = [
        (dict(grid=dict(epsilon=(0.1,))), "none of bbkb_global,gp_ei has .* 'epsilon'; their num"),
        (dict(algorithm="gp_ei,gp_ei", grid=dict(margin=(0.1,))), "needs distinct names"),
        (dict(algorithm="gp_ei", problem="generated"), "there is no algorithm 'gp_ei' for generat"),
        (dict(algorithm="gp_ei", grid=dict(margin=(-1.0,))), r"\{'margin': -1.0\} cannot be run"),
    ]
    replaced = ((dataclasses.replace(options, **changes), words) for changes, words in rows)
    check_refusals((partial(sweep.run, wrong), words) for wrong, words in replaced)
    assert not list(tmp_path.rglob("*"))


OWN_KERNELS = """
from jsketch import kernels, struct

@struct.dataclass
class Mine(kernels.Gaussian):
    tilt: float = 0.5

def scaled(lengthscale):
    return kernels.Scaled(kernels.Matern(lengthscale, nu=1.5), 2.0)

fixed = kernels.Gaussian(7.0)
both = fixed + 0.1 * kernels.Matern(2.0, nu=1.5)
number = 3

@struct.dataclass
class Needs:
    other: float

class Empty:
    pass
"""


def test_a_kernel_of_the_user_can_be_swept(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_kernels.py").write_text(OWN_KERNELS)
    monkeypatch.chdir(tmp_path)
    options = Sweep(out=tmp_path / "out", grid={}, **TINY)
    setting = settings.load(options)

    def make(name):
        changed = dataclasses.replace(options, kernel=f"own_kernels:{name}")
        return settings.make(changed, setting)

    lengthscale = setting.defaults["lengthscale"]
    mine, scaled, fixed = (make(name) for name in ("Mine", "scaled", "fixed"))
    assert {"lengthscale": lengthscale, "tilt": 0.5}.items() <= settings.numbers(mine).items()
    assert scaled.kernel == kernels.Scaled(kernels.Matern(lengthscale, nu=1.5), 2.0)
    assert settings.numbers(fixed)["lengthscale"] == 7.0
    # numbers of the same name have their paths
    both = make("both")
    paths = {"kernel.left.lengthscale": 7.0, "kernel.right.kernel.lengthscale": 2.0}
    assert {**paths, "variance": 0.1}.items() <= settings.numbers(both).items()
    changed = settings.with_numbers(both, {"kernel.left.lengthscale": 5.0}).kernel
    assert changed == kernels.Gaussian(5.0) + 0.1 * kernels.Matern(2.0, nu=1.5)
    with pytest.raises(ValueError, match="no number called 'lengthscale'; its .* kernel.left.len"):
        settings.with_numbers(both, {"lengthscale": 5.0})
    # the configuration of the runs has static fields and arrays, too
    own = dataclasses.replace(options, kernel="own_kernels:both")
    smoother = both.kernel.replace(right=0.1 * kernels.Matern(2.0))
    ard = both.kernel.replace(left=kernels.Gaussian(np.array([7.0, 1.0])))
    configs = [
        settings.configuration(own, setting, dict(bbkb_global=both.replace(kernel=kernel)))
        for kernel in (both.kernel, smoother, ard, ard.replace(left=kernels.Gaussian(np.ones(2))))
    ]
    assert all(one != other for one, other in itertools.combinations(configs, 2))
    json.dumps(configs)
    rows = [
        ("Yours", "no kernel own_kernels:Yours: module 'own_kernels' has no attribute 'Yours'"),
        ("number", "own_kernels:number makes no kernel: 3 is not a callable object"),
        ("Needs", r"Needs makes no kernel: .* missing 1 .*'other'. It is called with lengthscale"),
        ("Empty", r"Empty is not a kernel: it needs the methods gram\(x, y\) and diag\(x\)"),
    ]
    check_refusals((partial(make, name), words) for name, words in rows)
    words = "no kernel absent:Kernel: No module named 'absent'"
    with pytest.raises(ValueError, match=words):
        settings.make(dataclasses.replace(options, kernel="absent:Kernel"), setting)
    for name in ("gausian", "module:", ":Kernel"):
        with pytest.raises(SystemExit):
            sweep.parse(["--out", "out", "--kernel", name])
        assert "must be one of gaussian, matern12, " in capsys.readouterr().err
    arguments = "--problem generated --kernel own_kernels:Mine --out out --arms 60 --horizon 20"
    parsed = sweep.parse(f"{arguments} --seeds 1 --grid tilt 1 2".split())
    assert sorted(sweep.run(parsed)["tilt"]) == [1, 2]
    del sys.modules["own_kernels"]


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
    options = sweep.parse(arguments.split())
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
