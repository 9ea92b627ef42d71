"""The folder of an experiment: one writer at a time, and finished tables that are never replaced
unasked.

runs/experiment.json names the experiment of the folder and what its tables were made with. The same
command resumes with an unfinished run, and more seeds or more methods may be added at the same
commit. Anything that would lose what the tables hold (another experiment or configuration, fewer
methods or seeds) is refused without --overwrite, which runs all of it again. Where nothing but the
commit differs, --keep resumes with the runs, and the tables name all their commits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from experiments.results import environment, files, store, tidy

TABLES = (tidy.CURVES, tidy.SUMMARY, tidy.PROVENANCE)
SHOWN = 3  # differences in a message
SWEEP = "sweep.json"  # the record of a sweep


class Folder(NamedTuple):
    """A folder that this process holds."""

    path: Path
    made: dict[str, Any]  # experiment, commit, configuration and seeds of what is being run
    commits: list[str]  # of the runs in it
    replaces: bool  # finished results, which the user gave up with --overwrite

    def finish(self, summary: Mapping[str, Any], runs: list[tidy.Run], title: str) -> None:
        """Writes summary.json and, of the runs if there are any, the tables; each is whole or not
        at all."""
        self._replace(replaces=False)._record(self.made)
        # figures that the new tables do not have would stand beside them
        if self.replaces:
            for figure in (*self.path.glob("*.png"), *self.path.glob("*.svg")):
                figure.unlink()
        store.write_json(self.path / tidy.PROVENANCE, dict(summary, commits_of_runs=self.commits))
        if runs:
            tidy.write(self.path, runs, self.made["experiment"], title)

    def _record(self, tables: dict[str, Any] | None) -> None:
        """`tables`: what those in the folder are made with; None: there are none, or others that
        are being replaced."""
        content = dict(begun=self.made, tables=tables, commits=self.commits, replaces=self.replaces)
        store.write_json(record_path(self.path), content)


def record_path(folder: Path) -> Path:
    return folder / "runs" / "experiment.json"


@contextmanager
def opened(
    options: argparse.Namespace, experiment: str, config: Mapping[str, Any], seeds: int = 0
) -> Iterator[Folder]:
    """Holds options.out for an experiment until the block ends; `config` is everything that its
    tables depend on, but for the number of seeds where more of them only add runs.

    Raises ValueError or OSError, before anything is run, for a folder that cannot be written, that
    another process holds, or whose tables would lose something (with options.overwrite they and
    their runs are replaced).
    """
    out = options.out
    files.check_folder(out)
    made = json.loads(
        json.dumps(
            dict(experiment=experiment, commit=environment.code(), config=config, seeds=seeds)
        )
    )
    with files.held(out):
        record = read_record(out)
        if (
            options.overwrite
            and (record or _tables(out) or (out / "runs" / SWEEP).exists())
            and record.get("begun") != made
        ):
            clear(out)
            record = dict(tables=None, commits=[], replaces=True)
        else:
            check(out, record, made, options.keep)
        commits = set(record.get("commits", [])) if any((out / "runs").rglob("*.npz")) else set()
        tables = record.get("tables")
        folder = Folder(
            out, made, sorted(commits | {made["commit"]}), record.get("replaces", False)
        )
        folder._record(tables)
        if tables is not None:
            print(f"{out} holds the tables of this run already: they are written anew", flush=True)
        yield folder


def read_record(out: Path) -> dict[str, Any]:
    """What the folder says of itself; empty if nothing. Raises ValueError for a damaged record."""
    path = record_path(out)
    record = store.read_json(path) if path.exists() else {}
    if record and not {"begun", "tables", "commits", "replaces"} <= record.keys():
        raise ValueError(f"{path} is damaged (it lacks a field).")
    return record


def check(out: Path, record: dict[str, Any], made: dict[str, Any], keep: bool = False) -> None:
    """Raises ValueError if a run would lose what the tables in the folder hold, or mix with runs of
    something else; with `keep` those of another commit are none."""
    remedy = "use another --out, or --overwrite to replace them."
    if (out / "runs" / SWEEP).exists():
        raise ValueError(f"{out} holds a sweep: {remedy}")
    holder = record.get("begun", made)["experiment"]
    if holder != made["experiment"]:
        raise ValueError(f"{out} holds runs of {holder}: {remedy}")
    found = _tables(out)
    if found and not record:
        raise ValueError(
            f"{out} holds finished results ({', '.join(found)}) without the runs behind them:"
            f" {remedy}"
        )
    if not found:
        return
    # an interrupted replacement resumes as what it was
    before = record["tables"] or record["begun"]
    words = lost(before, made)
    if words and not lost(before, made | dict(commit=before["commit"])):
        if keep:
            return
        raise ValueError(
            f"{out} holds finished results of this configuration ({words[0]}): --keep resumes with"
            " their runs and says which commits they are of; --overwrite runs all of it again;"
            " another --out leaves them alone."
        )
    more = f"; and {len(words) - SHOWN} more differences" if len(words) > SHOWN else ""
    if words:
        raise ValueError(
            f"{out} holds other finished results ({'; '.join(words[:SHOWN])}{more}): {remedy}"
        )


def check_no_tables(out: Path) -> None:
    """Raises ValueError for a folder of finished results, for commands that leave no tables
    themselves."""
    if _tables(out):
        raise ValueError(
            f"{out} holds finished results ({', '.join(_tables(out))}): use another --out."
        )


def _tables(out: Path) -> list[str]:
    return [name for name in TABLES if (out / name).exists()]


def lost(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What tables made with `before` hold, and those made with `now` would not, in words; what is
    new loses nothing."""
    was, is_now = ({"commit": made["commit"]} | made["config"] for made in (before, now))
    words = store.differences(was, is_now, additions=False)
    if now["seeds"] < before["seeds"]:
        words.append(f"seeds was {before['seeds']}, is now {now['seeds']}")
    return words


def clear(out: Path) -> None:
    """Removes the runs and what is recorded of them; tables stay until new ones replace them."""
    for file in (out / "runs").rglob("*"):
        if file.suffix in (".npz", ".json"):
            file.unlink()
