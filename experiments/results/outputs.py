"""The folder of an experiment. One process at a time writes into it, and finished results are lost
only with --overwrite.

runs/experiment.json records the experiment, the commit, the configuration and the seeds of the runs
and of the tables. The same command resumes an unfinished run, and may add seeds and methods at the
same commit, or with --keep at another one. A command that would lose results needs --overwrite.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from experiments.results import environment, files, store, tidy

MAX_DIFFERENCES = 3  # number of differences in a message
SWEEP = "sweep.json"  # the record of a sweep


class Folder(NamedTuple):
    """A folder that this process has locked."""

    path: Path
    session: dict[str, Any]  # experiment, commit, configuration and seeds of this process
    commits: list[str]  # of the runs in the folder
    replaces: bool  # whether finished results are replaced (--overwrite)
    provenance: dict[str, Any]  # when the session began
    earlier: float = 0.0  # minutes of earlier sessions that made runs in the folder
    start: float = 0.0  # of this session, by the monotonic clock

    @property
    def minutes(self) -> float:
        """Minutes of all sessions until now."""
        return self.earlier + (time.monotonic() - self.start) / 60

    def write(
        self, summary: Mapping[str, Any], runs: Sequence[tidy.Run] = (), title: str = ""
    ) -> None:
        """Writes summary.json, with the provenance of this process, and, if there are runs, the
        tables."""
        self._replace(replaces=False)._record(self.session)
        if self.replaces:  # the new results may have other figures
            for figure in (*self.path.glob("*.png"), *self.path.glob("*.svg")):
                figure.unlink()
        summary = self.provenance | dict(
            summary, commits_of_runs=self.commits, minutes=round(self.minutes, 2)
        )
        store.write_json(self.path / tidy.PROVENANCE, summary)
        if runs:
            tidy.write(self.path, runs, self.session["experiment"], title)

    def _record(self, tables: dict[str, Any] | None) -> None:
        """Writes the record of the folder. tables: the session that made the tables in the folder;
        None if there are no tables, or if they will be replaced."""
        content = dict(
            begun=self.session,
            tables=tables,
            commits=self.commits,
            replaces=self.replaces,
            minutes=self.minutes,
        )
        store.write_json(record_path(self.path), content)


def record_path(folder: Path) -> Path:
    return folder / "runs" / "experiment.json"


@contextmanager
def results_folder(
    options: argparse.Namespace, experiment: str, config: Mapping[str, Any], seeds: int = 0
) -> Iterator[Folder]:
    """Locks options.out for an experiment until the block ends. config: everything that the tables
    depend on, except the number of seeds where more seeds only add runs.

    Raises ValueError or OSError, before any run, if the folder cannot be written, if another
    process has locked it, or if results would be lost (options.overwrite replaces them).
    """
    out = options.out
    files.check_folder(out)
    session = dict(
        experiment=experiment, commit=environment.commit_name(), config=config, seeds=seeds
    )
    session = json.loads(json.dumps(session))
    with files.lock_folder(out):
        record = read_record(out)
        holds_results = bool(record or _result_files(out) or (out / "runs" / SWEEP).exists())
        if options.overwrite and holds_results and record.get("begun") != session:
            # the tables stay until new tables replace them
            for file in (out / "runs").rglob("*"):
                if file.suffix in (".npz", ".json"):
                    file.unlink()
            record = dict(tables=None, commits=[], replaces=True)
        else:
            check(out, record, session, options.keep)
        commits = set(record.get("commits", [])) if any((out / "runs").rglob("*.npz")) else set()
        tables, replaces = record.get("tables"), record.get("replaces", False)
        folder = Folder(
            *(out, session, sorted(commits | {session["commit"]}), replaces),
            provenance=environment.provenance(),
            earlier=record.get("minutes", 0.0) if commits else 0.0,
            start=time.monotonic(),
        )
        folder._record(tables)
        if tables is not None:
            print(f"{out} holds the tables of this run: they are written again", flush=True)
        try:
            yield folder
        except BaseException as error:
            if tables is None:  # the minutes until now
                folder._record(None)
            if not isinstance(error, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt(
                f"the finished runs are kept in {out / 'runs'}, and the same command makes the"
                " others."
            ) from None
    print(f"\nThe results are in {out}.")


def read_record(out: Path) -> dict[str, Any]:
    """The record of a folder; empty if there is none. Raises ValueError for a damaged record."""
    path = record_path(out)
    record = store.read_json(path) if path.exists() else {}
    if record and not {"begun", "tables", "commits", "replaces"} <= record.keys():
        raise ValueError(f"{path} is damaged (it lacks a field).")
    return record


def check(out: Path, record: dict[str, Any], session: dict[str, Any], keep: bool = False) -> None:
    """Raises ValueError if results in the tables of the folder would be lost, or if the folder has
    runs of another experiment. keep: whether runs of another commit may be reused."""
    remedy = "use another --out, or --overwrite to replace them."
    if (out / "runs" / SWEEP).exists():
        raise ValueError(f"{out} holds a sweep: {remedy}")
    holder = record.get("begun", session)["experiment"]
    if holder != session["experiment"]:
        raise ValueError(f"{out} holds runs of {holder}: {remedy}")
    result_files = _result_files(out)
    if result_files and not record:
        raise ValueError(
            f"{out} holds finished results ({', '.join(result_files)}) without the runs behind"
            f" them: {remedy}"
        )
    if not result_files:
        return
    # while tables are being replaced, none are recorded; the command that replaces them may resume
    before = record["tables"] or record["begun"]
    losses = losses_between(before, session)
    if losses and not losses_between(before, session | dict(commit=before["commit"])):
        if keep:
            return
        raise ValueError(
            f"{out} holds finished results of this configuration ({losses[0]}): --keep resumes with"
            " their runs and records their commits; --overwrite makes all runs again; another --out"
            " leaves them alone."
        )
    if losses:
        n_more = len(losses) - MAX_DIFFERENCES
        more = f"; and {n_more} more differences" if n_more > 0 else ""
        raise ValueError(
            f"{out} holds other finished results ({'; '.join(losses[:MAX_DIFFERENCES])}{more}):"
            f" {remedy}"
        )


def check_no_tables(out: Path) -> None:
    """Raises ValueError for a folder of finished results, for scripts that write no tables."""
    if _result_files(out):
        raise ValueError(
            f"{out} holds finished results ({', '.join(_result_files(out))}): use another --out."
        )


def _result_files(out: Path) -> list[str]:
    return [name for name in tidy.FILES if (out / name).exists()]


def losses_between(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The differences between two sessions that lose results. Additions lose none."""
    old, new = ({"commit": session["commit"]} | session["config"] for session in (before, after))
    losses = store.differences(old, new, additions=False)
    if after["seeds"] < before["seeds"]:
        losses.append(f"seeds was {before['seeds']}, is now {after['seeds']}")
    return losses
