"""Claims of the papers, and the functions that read the numbers which decide them.

A claim is the paper's statement, a rule in words, and a function from a folder of results to (our
numbers as text, whether the rule holds). All numbers are read from summary.json or the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.figures.styles import label
from experiments.results import store, tidy

# differs: the statement does not hold with the paper's settings, as far as the paper gives them
CONFIRMED, DIFFERS, UNREADABLE = "confirmed", "differs", "unreadable"
UNDECIDED = "not decidable here"


class Missing(LookupError):
    """An entry of the results that a claim needs is missing."""


class Source(NamedTuple):
    """A folder of results and its summary.json."""

    folder: Path
    summary: dict[str, Any]


class Found(NamedTuple):
    """Our numbers, and whether they satisfy the rule of the claim."""

    number: str
    holds: bool | None  # None: not decided by the numbers
    note: str = ""  # evidence for the cause, or settings under which the verdict is another one


class Claim(NamedTuple):
    """A statement of a paper, in our words, and its rule."""

    item: str  # figure or table of the paper
    statement: str
    rule: str  # under which condition it counts as confirmed
    check: Callable[[Source], Found]
    lacks: str = ""  # what is missing for a decision; if not empty, the verdict is UNDECIDED
    cause: str = ""  # why the rule fails, in a sentence


class Table(NamedTuple):
    """A CSV table in the folder of an experiment."""

    file: str
    caption: str


class Setting(NamedTuple):
    """A setting that a paper does not specify."""

    name: str
    paper: str  # the text of the paper
    chosen: str
    evidence: str


class Figure(NamedTuple):
    """A picture in the folder of an experiment."""

    file: str
    alt: str


class Experiment(NamedTuple):
    """A folder of results and the claims about it; its command is in the paper's README
    (`commands`)."""

    folder: str  # under results/
    title: str
    note: str  # differences from the paper's set-up
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()


class Paper(NamedTuple):
    """A paper and its experiments."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]


class Outcome(NamedTuple):
    """A claim with its verdict; number: our numbers, or what is missing or wrong."""

    claim: Claim
    verdict: str
    number: str
    note: str = ""


def read(folder: Path) -> Source:
    """The results in a folder. Raises Missing without a summary.json, and ValueError for a damaged
    one."""
    path = folder / tidy.PROVENANCE
    if not path.exists():
        raise Missing(f"there is no {path.name} in {folder.parent.name}/{folder.name}")
    return Source(folder, store.read_json(path))


def read_sibling(source: Source, name: str) -> Source:
    """The results in a neighbouring folder."""
    return read(source.folder.parent / name)


def judge(claim: Claim, folder: Path) -> Outcome:
    """The verdict on a claim. Errors of missing and damaged results become part of it."""
    try:
        number, holds, note = claim.check(read(folder))
    except Missing as error:
        text = str(error)
        return Outcome(claim, UNDECIDED, f"{text[0].upper()}{text[1:]}.")
    except Exception as error:
        # damaged files raise many kinds of errors, which the page shows beside the claim
        text = f"{type(error).__name__}: {error}".replace(str(folder), folder.name)
        return Outcome(claim, UNREADABLE, f"The results cannot be read: {text}")
    if claim.lacks:
        return Outcome(claim, UNDECIDED, number, f"Missing here: {claim.lacks}. {note}".strip())
    if holds is None:
        return Outcome(claim, UNDECIDED, number, note)
    if not holds:
        return Outcome(claim, DIFFERS, number, f"{claim.cause} {note}".strip())
    return Outcome(claim, CONFIRMED, number, note)


def entry(source: Source, *keys: str) -> Any:
    """The entry of summary.json under the keys. Raises Missing, naming the first missing key."""
    found: Any = source.summary
    for depth, key in enumerate(keys):
        if not isinstance(found, dict) or found.get(key) is None:
            raise Missing(f"the summary holds no {' / '.join(keys[: depth + 1])}")
        found = found[key]
    return found


def number(source: Source, *keys: str) -> float:
    """A finite number of summary.json. Raises Missing for a missing entry, and ValueError for any
    other value."""
    found = entry(source, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float) or not np.isfinite(found):
        raise ValueError(f"{' / '.join(keys)} in summary.json is {found!r}, not a finite number")
    return float(found)


def mean(source: Source, *keys: str) -> float:
    """The mean over seeds."""
    return number(source, *keys, "mean")


def half(source: Source, *keys: str) -> float:
    """The half width of the 95% interval of the mean; 0 for a single seed."""
    return number(source, *keys, "ci95") if entry(source, *keys).get("ci95") is not None else 0.0


def shown(source: Source, *keys: str, digits: int = 4) -> str:
    """Mean ± half width, as text."""
    width = half(source, *keys)
    return f"{mean(source, *keys):.{digits}f}" + (f" ± {width:.{digits}f}" if width else "")


def lines(source: Source, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P])} of a metric of curves.parquet. Raises Missing without
    it."""
    if not (source.folder / tidy.CURVES).exists():
        raise Missing(f"there is no {tidy.CURVES} in {source.folder.name}")
    found = tidy.lines(tidy.load(source.folder).curves, metric)
    if not found:
        raise Missing(f"{tidy.CURVES} holds no {metric}")
    return found


def line(source: Source, metric: str, algorithm: str) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], mean over seeds [P]) of one algorithm."""
    found = lines(source, metric)
    if algorithm not in found:
        raise Missing(f"{tidy.CURVES} holds no {metric} of {algorithm}")
    t, values = found[algorithm]
    return t, values.mean(0)


def listed(names: Sequence[str], values: Sequence[float], digits: int = 3) -> str:
    """The names, as readers see them, with their values."""
    return written({name: f"{value:.{digits}f}" for name, value in zip(names, values, strict=True)})


def written(values: Mapping[str, str]) -> str:
    """The names, as readers see them, with values as text."""
    return "; ".join(f"{label(name)}: {value}" for name, value in values.items())
