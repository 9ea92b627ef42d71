"""A sweep in shards: the tables of the whole, whoever was killed or run twice; what is missing is
named with its command."""

import dataclasses
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import tyro

from experiments.results import shards, store, tidy
from experiments.sweep import cluster, execution
from experiments.sweep import main as sweep
from experiments.sweep.options import Grid, Ranges, Sweep, command

TINY = dict(problem="generated", arms=60, horizon=30, seeds=2, workers=2)
GRID = Grid(lengthscale=(2.0, 6.0), ratio=(1.5, 3.0))
CLOCK = ["run_seconds", "compile_seconds"]


class Killed(BaseException):
    """As a signal ends a process: nothing catches it."""


def part(out, shard):
    return Sweep(out=out, grid=GRID, shard=shard, **TINY)


def assert_same(one, other):
    pd.testing.assert_frame_equal(one.curves, other.curves)
    pd.testing.assert_frame_equal(
        one.summary.drop(columns=CLOCK), other.summary.drop(columns=CLOCK)
    )
    assert one.curves.attrs == other.curves.attrs == other.summary.attrs


def test_shards_make_the_tables_of_the_whole(tmp_path, monkeypatch):
    out, alone = tmp_path / "in parts", tmp_path / "whole"
    save, made = execution.save, []

    def killed_after_one(job, task, *rest):
        if made:
            raise Killed
        made.append(task)
        save(job, task, *rest)

    sweep.run(part(out, "3/3"))
    with monkeypatch.context() as patch:
        patch.setattr(execution, "save", killed_after_one)
        with pytest.raises(Killed):
            sweep.run(part(out, "1/3"))
    with pytest.raises(FileNotFoundError, match="lacks 2 of 3 shards") as missing:
        tidy.load(out)
    # what is named runs as it stands
    lines = [shlex.split(line) for line in str(missing.value).splitlines()[1:]]
    assert [line[-1] for line in lines] == ["1/3", "2/3"]
    for line in lines:
        options = tyro.cli(Sweep, args=line[1:])
        before = sum(1 for _ in out.rglob("row*.npz"))
        sweep.run(options)
        # of the three runs of the first shard one was done
        assert sum(1 for _ in out.rglob("row*.npz")) - before == (
            2 if options.shard == "1/3" else 3
        )
    tables = [(p, os.stat(p).st_mtime_ns) for p in out.rglob("*.parquet")]
    sweep.run(part(out, "2/3"))
    assert tables == [(p, os.stat(p).st_mtime_ns) for p in out.rglob("*.parquet")]

    sweep.run(Sweep(out=alone, grid=GRID, **TINY))
    whole, found = tidy.load(alone), tidy.load(out)
    assert_same(whole, found)
    assert found.provenance["shards"] == 3
    assert list(tidy.load_all(tmp_path).summary["folder"].unique()) == ["in parts", "whole"]

    # without --shard their runs are taken, and none is made again
    monkeypatch.setattr(execution, "save", None)
    sweep.run(part(out, None))
    assert_same(whole, tidy.load(out))


def test_a_split_is_deterministic_and_whole():
    tasks = list(range(11))
    parts = [shards.Shard(k, 4).part(tasks) for k in (1, 2, 3, 4)]
    assert sorted(task for part in parts for task in part) == tasks
    assert max(map(len, parts)) - min(map(len, parts)) == 1


def test_the_command_of_a_shard_is_read_as_it_was_meant():
    asked = Sweep(
        out=Path("a b"),
        algorithm="bkb",
        grid=Grid(noise_std=(0.1, 0.2)),
        random=Ranges(lengthscale=(1.0, 30.0)),
        strategy="vmap",
    )
    words = shlex.split(command(asked, "2/5"))
    assert words[0] == "scripts/sweep"
    assert tyro.cli(Sweep, args=words[1:]) == dataclasses.replace(asked, shard="2/5")


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_shard_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="such as 3/40"):
        sweep.run(part(tmp_path, text))
    assert not list(tmp_path.iterdir())


def test_shards_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there are 8 runs, too few for 9 shards"):
        sweep.run(part(tmp_path, "1/9"))
    for shard, horizon in (shards.Shard(1, 2), 30), (shards.Shard(1, 3), 31):
        shards.record(shard, shard.folder(tmp_path), "")
        (shard.folder(tmp_path) / "runs").mkdir()
        (shard.folder(tmp_path) / "runs" / "sweep.json").write_text(f'{{"horizon": {horizon}}}')
    with pytest.raises(ValueError, match="in 2 and in 3 parts, none of them complete"):
        tidy.load(tmp_path)
    for shard in None, "2/2":
        with pytest.raises(ValueError, match="shard 1/2 .* was made with another configuration"):
            sweep.run(part(tmp_path, shard))
    made = [dict(config=dict(horizon=t, shard=str(t)), commits_of_runs=[]) for t in (30, 31)]
    with pytest.raises(ValueError, match="of several sweeps: horizon was 30, is now 31"):
        shards.provenance(made)


def test_shards_that_restart_together_find_each_other(tmp_path, monkeypatch):
    """A shard without runs replaces its configuration, and another one reads it meanwhile."""
    config, out = dict(horizon=30), tmp_path / "shards" / "1-of-2"
    options = part(out, None)
    sweep.claim(options, config)
    shards.record(shards.Shard(1, 2), out, "")
    write, read = store.files.write, []

    def meanwhile(path, content):
        read.append(sweep.alike(tmp_path, config))
        write(path, content)

    monkeypatch.setattr(store.files, "write", meanwhile)
    sweep.claim(options, config)
    assert read == [{shards.Shard(1, 2): out}]


class Jobs:
    """An executor with submitit's interface that runs the shards in this process, except those in
    `dying`."""

    def __init__(self, folder, dying=()):
        self.folder, self.dying, self.commands = folder, dying, []

    def map_array(self, function, commands):
        self.commands += commands
        for words in commands:
            assert words[1:4] == ["-P", "-m", "experiments.sweep.main"]
            if words[-1] not in self.dying:
                sweep.run(tyro.cli(Sweep, args=words[4:]))
        paths = SimpleNamespace(stderr=self.folder / "errors.txt")
        return [SimpleNamespace(wait=lambda: None, paths=paths) for _ in commands]


def test_a_cluster_runs_the_shards_that_are_not_done(tmp_path, monkeypatch):
    whole = dataclasses.replace(part(tmp_path, None), cluster="local", shards=3)
    jobs = Jobs(tmp_path, dying=("2/3",))
    with pytest.raises(ValueError, match=r"1 of 3 shards .*\n  shard 2/3: .*errors.txt"):
        cluster.run(whole, jobs)
    assert len(jobs.commands) == 3
    jobs.dying = ()
    cluster.run(whole, jobs)
    assert len(jobs.commands) == 4
    # the whole sweep submits nothing, and makes no run again
    monkeypatch.setattr(execution, "save", None)
    assert len(sweep.run(whole)) == 4
    assert len(tidy.load(tmp_path).summary) == 8
    monkeypatch.setattr(cluster, "run", None)
    with pytest.raises(ValueError, match="horizon was 30, is now 31"):
        sweep.run(dataclasses.replace(whole, horizon=31))
    with pytest.raises(ValueError, match="shard 1/3 .* seeds was 2, is now 3"):
        sweep.run(dataclasses.replace(whole, seeds=3))


def test_submitit_runs_the_shards(tmp_path):
    pytest.importorskip("submitit")
    whole = dataclasses.replace(
        part(tmp_path, None), cluster="local", shards=2, submit=("timeout_min=5",)
    )
    cluster.run(whole)
    assert cluster.unfinished(whole) == []


def test_options_of_clusters_that_are_refused(tmp_path, monkeypatch):
    whole = dataclasses.replace(part(tmp_path, None), cluster="local", shards=2)
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace())
    with pytest.raises(ValueError, match="--submit timeout_min=240"):
        sweep.run(whole)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ValueError, match="--cluster needs submitit"):
        sweep.run(whole)
    for words, why in (
        (dict(shard="1/2"), "--cluster runs all shards, --shard one of them"),
        (dict(shards=9), "there are 8 runs, too few for 9 shards"),
        (dict(at_once=0), "--at-once must be at least 1"),
    ):
        with pytest.raises(ValueError, match=why):
            sweep.run(dataclasses.replace(whole, **words))
    with pytest.raises(ValueError, match="NAME=VALUE, such as timeout_min=240; 'x' was given"):
        cluster.parameters(["gpus_per_node=1", "x"])
    found = cluster.parameters(["gpus_per_node=1", "slurm_partition=long"])
    assert found == dict(gpus_per_node=1, slurm_partition="long")
