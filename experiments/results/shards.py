"""A sweep in parts, shards, each a folder of results of its own within the folder of the whole:
shards/3-of-40. They share no file and no lock, and are put together when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from experiments.results import store

Item = TypeVar("Item")
PLACE = "shards"  # folder of the folders
RECORD = "shard.json"
CHOSEN = "{shard}"  # where the command of a shard names it


class Shard(NamedTuple):
    """One of `of` parts, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, items: Sequence[Item]) -> list[Item]:
        """Every `of`-th: neighbours, which take about as long, are in different parts. Raises
        ValueError where there is nothing for some part."""
        if self.of > len(items):
            raise ValueError(
                f"--shard {self}: there are {len(items)} runs, too few for {self.of} shards."
            )
        return list(items[self.number - 1 :: self.of])

    def folder(self, out: Path) -> Path:
        """Where its results are."""
        return out / PLACE / f"{self.number}-of-{self.of}"


def parse(text: str) -> Shard:
    """The shard "3/40". Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.of:
        raise ValueError(
            f"--shard takes a number from 1 on and how many there are, such as 3/40; {text!r} was"
            " given."
        )
    return shard


def record(shard: Shard, folder: Path, command: str) -> None:
    """Leaves in its folder the command that makes a shard, `CHOSEN` where it is named."""
    store.write_json(folder / RECORD, dict(number=shard.number, of=shard.of, command=command))


def started(out: Path) -> dict[Shard, Path]:
    """The folders of shards that were started, by their numbers."""
    found = {}
    for path in (out / PLACE).glob(f"*-of-*/{RECORD}"):
        said = store.read_json(path)
        found[Shard(said["number"], said["of"])] = path.parent
    return dict(sorted(found.items()))


def complete(out: Path, finished: str) -> list[Path]:
    """The folders of all shards, in order; none where there is no shard. `finished` is the file
    that a finished one has.

    Raises FileNotFoundError with the commands of those that are missing, and ValueError for shards
    of two splits, none of them complete.
    """
    found = started(out)
    splits = {
        of: {s: path for s, path in found.items() if s.of == of and (path / finished).exists()}
        for of in sorted({shard.of for shard in found})
    }
    for of, done in splits.items():
        if len(done) == of:
            return list(done.values())
    if not splits:
        return []
    if len(splits) > 1:
        raise ValueError(
            f"{out} holds shards of sweeps in {' and in '.join(map(str, splits))} parts, none of"
            f" them complete: delete those of all but one from {out / PLACE}."
        )
    ((of, done),) = splits.items()
    missing = [shard for n in range(1, of + 1) if (shard := Shard(n, of)) not in done]
    command = store.read_json(next(iter(found.values())) / RECORD)["command"]
    lines = "".join(f"\n    {command.replace(CHOSEN, str(shard))}" for shard in missing)
    raise FileNotFoundError(f"{out} lacks {len(missing)} of {of} shards; these make them:{lines}")


def whole_of(folder: Path) -> Path:
    """The folder that a folder of results belongs to: its own, or that of the shard's whole."""
    return folder.parent.parent if (folder / RECORD).exists() else folder


def merged(
    curves: Sequence[pd.DataFrame], summaries: Sequence[pd.DataFrame], always: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables (curves, summary) of the whole, in the order of configurations and seeds.

    A column of the configuration that does not differ in a shard is not in its curves, and may
    differ in the whole; those `always` in curves are in all of them.
    """
    attributes = summaries[0].attrs
    columns = attributes["configuration"]
    filled = [
        table.assign(
            **{name: summary[name].iloc[0] for name in columns if name not in table.columns}
        )
        for table, summary in zip(curves, summaries, strict=True)
    ]
    points = [name for name in curves[0].columns if name not in columns]
    summary = _in_order(pd.concat(_plain(summaries), ignore_index=True))
    kept = [name for name in columns if name in always or summary[name].nunique(dropna=False) > 1]
    whole = _in_order(pd.concat(_plain(filled), ignore_index=True))[[*kept, *points]]
    for table in (summary, whole):
        table.attrs = dict(attributes)
    return whole, summary


def provenance(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the provenances of all shards say together. Raises ValueError for shards of several
    sweeps."""
    first, *others = ({**said["config"], "shard": None} for said in found)
    if words := [word for other in others for word in store.differences(first, other)]:
        raise ValueError(f"these shards are of several sweeps: {'; '.join(words)}.")
    commits = sorted({commit for said in found for commit in said["commits_of_runs"]})
    kept = {name: value for name, value in found[0].items() if name != "best"}
    return kept | dict(shards=len(found), commits_of_runs=commits)


def _plain(tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Without categories, which differ from shard to shard; attributes would be compared."""
    found = [
        table.astype({name: object for name in table.select_dtypes("category").columns})
        for table in tables
    ]
    for table in found:
        table.attrs = {}
    return found


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    order = np.lexsort((table["seed"], table["configuration"]))
    return table.iloc[order].reset_index(drop=True)
