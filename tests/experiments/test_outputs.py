"""Folders of experiments have one writer; only --overwrite replaces finished tables."""

import argparse
import sys

import numpy as np
import pytest

from experiments import cli, demo
from experiments.results import environment, files, outputs, store, tidy

CONFIG = dict(bkb=dict(horizon=10, chosen=["x"]))


@pytest.fixture(autouse=True)
def commits(monkeypatch):
    """Names of commits. The last one is the present commit."""
    names = ["one"]
    monkeypatch.setattr(environment, "commit_name", lambda: names[-1])
    return names


def session(out, config=CONFIG, seeds=2, experiment="tiny", finish=True, value=0.0, **more):
    """Makes the runs that are missing and writes the tables, as every experiment does."""
    options = argparse.Namespace(**dict(out=out, overwrite=False, keep=False) | more)
    with outputs.results_folder(options, experiment, config, seeds) as results:
        runs = []
        for name, settings in config.items():
            store.record_configuration(out, name, settings)
            for seed in range(seeds):
                path = store.run_path(out, name, seed)
                if not path.exists():
                    store.write_npz(path, dict(t=np.arange(3), regret=np.full(3, value)))
                arrays = store.read_run(out, name, seed)
                runs.append(tidy.Run(dict(problem="p", algorithm=name), seed, arrays))
        if finish:
            results.write(dict(seeds=seeds), runs, "a title")


def first_value(out):
    return tidy.load(out).curves["value"].iloc[0]


def test_a_run_resumes_and_can_be_extended(tmp_path, capsys):
    session(tmp_path, seeds=1, finish=False, value=1.0)
    assert not (tmp_path / tidy.CURVES).exists()
    session(tmp_path, value=2.0)  # the finished seed is kept
    assert set(tidy.load(tmp_path).curves["value"]) == {1.0, 2.0}
    session(tmp_path)
    assert "are written again" in capsys.readouterr().out
    session(tmp_path, CONFIG | dict(uniform=dict(horizon=10)), seeds=3)
    tables = tidy.load(tmp_path)
    assert len(tables.summary) == 6 and tables.provenance["commits_of_runs"] == ["one"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(config=dict(bkb=dict(horizon=20, chosen=["x"]))), "bkb horizon was 10, is now 20"),
        (dict(config=dict(bkb=dict(horizon=10, chosen=[]))), r"chosen was \['x'\], is now \[\]"),
        (dict(config=dict(uniform=dict(horizon=10))), "bkb was present, is now missing"),
        (dict(seeds=1), "seeds was 2, is now 1"),
        (dict(experiment="other"), "holds runs of tiny"),
    ],
)
def test_finished_tables_are_replaced_with_overwrite_only(tmp_path, changes, words):
    session(tmp_path, value=1.0)
    (tmp_path / "old.png").touch()
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=words) as error_info:
        session(tmp_path, **changes)
    assert "another --out, or --overwrite" in str(error_info.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == contents
    session(tmp_path, **changes, overwrite=True, finish=False, value=2.0)
    assert first_value(tmp_path) == 1.0  # until the new tables are written
    name = changes.get("experiment", "tiny")
    # --overwrite permits no configuration of a later call
    with pytest.raises(ValueError, match="was present, is now missing"):
        session(tmp_path, dict(third=dict(horizon=10)), experiment=name)
    # an interrupted replacement resumes without --overwrite
    session(tmp_path, **changes, value=3.0)
    assert first_value(tmp_path) == 2.0 and not (tmp_path / "old.png").exists()
    assert tidy.load(tmp_path).curves.attrs["experiment"] == name


def test_results_of_another_commit_are_replaced_with_overwrite_only(tmp_path, commits):
    session(tmp_path, value=1.0)
    (tmp_path / "old.png").touch()
    commits.append("two")
    words = r"of this configuration \(commit was one, is now two\): --keep resumes"
    with pytest.raises(ValueError, match=words):
        session(tmp_path)
    session(tmp_path, overwrite=True, value=2.0)
    assert first_value(tmp_path) == 2.0 and not (tmp_path / "old.png").exists()
    assert tidy.load(tmp_path).provenance["commits_of_runs"] == ["two"]
    # nothing is replaced, because the configuration and the commit are the same
    session(tmp_path, overwrite=True, value=3.0)
    assert first_value(tmp_path) == 2.0


def test_runs_of_another_commit_may_be_kept(tmp_path, commits):
    """--keep refuses another configuration. An unfinished folder needs no option."""
    session(tmp_path, seeds=1, value=1.0)
    commits.append("two")
    words = "commit was one, is now two; bkb horizon was 10, is now 20"
    with pytest.raises(ValueError, match=words):
        session(tmp_path, dict(bkb=dict(horizon=20, chosen=["x"])), keep=True)
    session(tmp_path, value=2.0, keep=True)
    table = tidy.load(tmp_path)
    assert set(table.curves["value"]) == {1.0, 2.0}
    assert table.provenance["commits_of_runs"] == ["one", "two"]
    session(tmp_path / "unfinished", seeds=1, finish=False)
    commits.append("three")
    session(tmp_path / "unfinished")
    assert tidy.load(tmp_path / "unfinished").provenance["commits_of_runs"] == ["three", "two"]


def test_results_without_their_runs_are_replaced_with_overwrite_only(tmp_path):
    (tmp_path / tidy.CURVES).touch()
    words = r"finished results \(curves.parquet\) without the runs behind them"
    with pytest.raises(ValueError, match=words):
        session(tmp_path)
    session(tmp_path, overwrite=True)
    assert len(tidy.load(tmp_path).summary) == 2


def test_files_that_are_no_results_are_left_alone(tmp_path):
    """--overwrite replaces files of results only."""
    (tmp_path / "runs").mkdir()
    for path in (tmp_path / "mine.png", tmp_path / "runs" / "mine.json"):
        path.write_text("mine")
    session(tmp_path, overwrite=True)
    assert (tmp_path / "mine.png").exists() and (tmp_path / "runs" / "mine.json").exists()


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    words = "being written by another process"
    with files.lock_folder(tmp_path), pytest.raises(ValueError, match=words):
        session(tmp_path)
    session(tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setattr(demo.loops, "run", pytest.fail)
    (tmp_path / "file").touch()
    (tmp_path / tidy.CURVES).touch()
    for out, words in (
        (tmp_path / "file", "error: --out names a folder; .*file is a file"),
        (tmp_path, r"error: .* holds finished results \(curves.parquet\)"),
    ):
        monkeypatch.setattr(sys, "argv", ["x", "--out", str(out)])
        with pytest.raises(SystemExit, match=words):
            demo.main()


def test_a_log_gets_a_line_for_each_tenth_of_the_work(capsys):
    """No terminal: the progress of many small steps is a few lines, and never a bar."""
    with cli.progress(12_000, done=1_000, unit="evaluations", name="a sweep") as bar:
        for _ in range(11_000):
            bar.update(1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10 and bar.n == 12_000
    assert lines[0] == "a sweep: 1,200 of 12,000 evaluations after 0 s"
    assert lines[-1].startswith("a sweep: 12,000 of 12,000 evaluations after ")


def test_an_interrupted_experiment_says_how_to_resume(tmp_path):
    options = argparse.Namespace(out=tmp_path, overwrite=False, keep=False)
    words = "the finished runs are kept in .*runs, and the same command makes the others"
    with (
        pytest.raises(KeyboardInterrupt, match=words),
        outputs.results_folder(options, "tiny", CONFIG, 2),
    ):
        raise KeyboardInterrupt
