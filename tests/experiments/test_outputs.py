"""Folders of experiments have one writer, runs resume, and finished tables are replaced only with
--overwrite."""

import argparse
import sys

import numpy as np
import pytest

from experiments import demo
from experiments.results import environment, files, outputs, store, tidy
from experiments.suggest import closed_loop

CONFIG = dict(bkb=dict(horizon=10, chosen=["x"]))
LONGER = dict(bkb=dict(horizon=20, chosen=["x"]))


@pytest.fixture(autouse=True)
def commits(monkeypatch):
    """A list; its last entry stands in for the commit of the code."""
    commits = ["one"]
    monkeypatch.setattr(environment, "code", lambda: commits[-1])
    return commits


def session(out, config=CONFIG, seeds=2, value=0.0, experiment="tiny", finish=True, **options):
    """Makes the missing runs as every experiment does, and then its tables."""
    options = argparse.Namespace(**dict(out=out, overwrite=False, keep=False) | options)
    with outputs.opened(options, experiment, config, seeds) as opened:
        runs = []
        for name, settings in config.items():
            store.claim(out, name, settings)
            for seed in range(seeds):
                path = store.run_path(out, name, seed)
                if not path.exists():
                    store.write_npz(path, dict(t=np.arange(3), regret=np.full(3, value)))
                made = store.read_run(out, name, seed)
                runs.append(tidy.Run(dict(problem="p", algorithm=name), seed, made))
        if finish:
            opened.finish(dict(seeds=seeds), runs, "a title")


def first_value(out):
    return tidy.load(out).curves["value"].iloc[0]


def test_a_run_resumes_and_more_of_it_may_be_added(tmp_path, capsys):
    session(tmp_path, seeds=1, finish=False, value=1.0)
    assert not (tmp_path / tidy.CURVES).exists()
    session(tmp_path, value=2.0)  # the seed that was done is kept
    assert set(tidy.load(tmp_path).curves["value"]) == {1.0, 2.0}
    session(tmp_path)
    assert "are written again" in capsys.readouterr().out
    session(tmp_path, CONFIG | dict(uniform=dict(horizon=10)), seeds=3)
    table = tidy.load(tmp_path)
    assert len(table.summary) == 6 and table.provenance["commits_of_runs"] == ["one"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(config=LONGER), "bkb horizon was 10, is now 20"),
        (
            dict(config=dict(bkb=CONFIG["bkb"] | dict(chosen=[]))),
            r"chosen was \['x'\], is now \[\]",
        ),
        (dict(config=dict(uniform=dict(horizon=10))), "bkb was there, is now not there"),
        (dict(seeds=1), "seeds was 2, is now 1"),
        (dict(experiment="other"), "holds runs of tiny"),
    ],
)
def test_finished_tables_are_replaced_only_with_overwrite(tmp_path, changes, words):
    session(tmp_path, value=1.0)
    (tmp_path / "old.png").touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=words) as caught:
        session(tmp_path, **changes)
    assert "another --out, or --overwrite" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    session(tmp_path, **changes, overwrite=True, finish=False, value=2.0)
    assert first_value(tmp_path) == 1.0  # the old tables stay until the new ones are written
    name = changes.get("experiment", "tiny")
    # a third configuration may not replace them either
    with pytest.raises(ValueError, match="was there, is now not there"):
        session(tmp_path, dict(third=dict(horizon=10)), experiment=name)
    # an interrupted replacement resumes without --overwrite
    session(tmp_path, **changes, value=3.0)
    assert first_value(tmp_path) == 2.0 and not (tmp_path / "old.png").exists()
    assert tidy.load(tmp_path).curves.attrs["experiment"] == name


def test_another_commit_is_another_result(tmp_path, commits):
    """--overwrite replaces the runs of an earlier commit, and --keep resumes them; --keep does not
    apply to changed settings."""
    session(tmp_path, seeds=1, value=1.0)
    (tmp_path / "old.png").touch()
    commits.append("two")
    for options, words in [
        (dict(seeds=1), r"of this configuration \(commit was one, is now two\): --keep resumes"),
        (dict(config=LONGER, keep=True), "commit was one, is now two; bkb horizon was 10, is now"),
    ]:
        with pytest.raises(ValueError, match=words):
            session(tmp_path, **options)
    session(tmp_path, value=2.0, keep=True)
    table = tidy.load(tmp_path)
    assert set(table.curves["value"]) == {1.0, 2.0}
    assert table.provenance["commits_of_runs"] == ["one", "two"]
    commits.append("three")
    session(tmp_path, overwrite=True, value=3.0)
    assert first_value(tmp_path) == 3.0 and not (tmp_path / "old.png").exists()
    assert tidy.load(tmp_path).provenance["commits_of_runs"] == ["three"]
    session(tmp_path, overwrite=True, value=4.0)  # the same commit: the runs are kept
    assert first_value(tmp_path) == 3.0


def test_an_unfinished_run_may_continue_at_another_commit(tmp_path, commits):
    session(tmp_path, seeds=1, finish=False)
    commits.append("two")
    session(tmp_path)
    assert tidy.load(tmp_path).provenance["commits_of_runs"] == ["one", "two"]


def test_results_of_a_clone_have_no_runs_and_are_kept(tmp_path):
    (tmp_path / tidy.CURVES).touch()
    with pytest.raises(ValueError, match=r"\(curves.parquet\) without the runs behind them"):
        session(tmp_path)
    session(tmp_path, overwrite=True)
    assert len(tidy.load(tmp_path).summary) == 2


def test_a_process_that_ends_while_it_writes_its_tables(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tidy, "write", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            session(tmp_path)
    with pytest.raises(ValueError, match="bkb horizon was 10"):
        session(tmp_path, dict(bkb=dict(horizon=20)))
    session(tmp_path)


def test_a_folder_of_a_sweep_or_of_another_writer_is_refused(tmp_path):
    with files.held(tmp_path), pytest.raises(ValueError, match="written by another process"):
        session(tmp_path)
    store.write_json(tmp_path / "runs" / outputs.SWEEP, {})
    with pytest.raises(ValueError, match="holds a sweep"):
        session(tmp_path)


def test_a_damaged_record_is_refused(tmp_path):
    session(tmp_path)
    for content in ("[" * 100_000, '{"begun": 1}'):
        outputs.record_path(tmp_path).write_text(content)
        with pytest.raises(ValueError, match=r"experiment.json is damaged"):
            session(tmp_path)


def test_files_of_others_are_left_alone(tmp_path):
    """A folder that holds no results has nothing that --overwrite replaces."""
    (tmp_path / "runs").mkdir()
    for path in (tmp_path / "mine.png", tmp_path / "runs" / "mine.json"):
        path.write_text("mine")
    session(tmp_path, overwrite=True)
    assert (tmp_path / "mine.png").exists() and (tmp_path / "runs" / "mine.json").exists()


@pytest.mark.parametrize("main", [demo.main, closed_loop.main])
def test_the_folder_is_checked_before_anything_runs(tmp_path, monkeypatch, main):
    monkeypatch.setattr(demo, "generate", pytest.fail, raising=False)
    monkeypatch.setattr(demo.loops, "run", pytest.fail)
    monkeypatch.setattr(closed_loop, "play", pytest.fail)
    small = demo.datasets.Dataset("abalone", np.eye(3), np.arange(3.0), "made up")
    monkeypatch.setattr(demo.datasets, "load", lambda *arguments: small)
    (tmp_path / "file").touch()
    rest = ["--rounds", "1", "--batch", "1"] if main is closed_loop.main else []
    monkeypatch.setattr(sys, "argv", ["x", "--out", str(tmp_path / "file"), *rest])
    with pytest.raises(SystemExit, match=r"error: --out names a folder; .*file is a file"):
        main()
    (tmp_path / tidy.CURVES).touch()
    monkeypatch.setattr(sys, "argv", ["x", "--out", str(tmp_path), *rest])
    with pytest.raises(SystemExit, match=r"error: .* holds finished results \(curves.parquet\)"):
        main()
