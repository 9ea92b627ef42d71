"""What a claim of a paper is, and how it reads the numbers that decide it.

A claim is plain data: the paper's statement, a rule in words, and a small function from a folder of
results to (our numbers as text, does the rule hold). No number of ours is written here: all are
read from summary.json or the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.figures.styles import label
from experiments.results import store, tidy

# differs: the statement does not hold with the paper's own settings, as far as the paper gives them
CONFIRMED, DIFFERS, UNREADABLE = "confirmed", "differs", "unreadable"
UNDECIDED = "not decidable here"


class Missing(LookupError):
    """A claim needs what the results do not hold; says what."""


class Source(NamedTuple):
    """A folder of results and its summary.json."""

    folder: Path
    summary: dict[str, Any]


class Found(NamedTuple):
    """Our numbers, and whether the rule of the claim holds for them."""

    number: str
    # None: the numbers do not tell, as where two methods are level
    holds: bool | None
    # under which other settings the statement holds or fails, or why it fails, with the numbers
    note: str = ""


class Claim(NamedTuple):
    """A statement of a paper, in our words, and the rule that decides it."""

    item: str  # figure or table of the paper
    statement: str
    rule: str  # under which condition it counts as confirmed
    check: Callable[[Source], Found]
    # what is missing to decide the statement, which is undecided then, hold the rule or not
    lacks: str = ""
    # where the rule fails, why, in a sentence; its evidence is in the note of the check
    cause: str = ""


class Table(NamedTuple):
    """A CSV table that an experiment leaves in its folder."""

    file: str
    caption: str


class Setting(NamedTuple):
    """A setting that a paper does not specify."""

    name: str
    paper: str  # what the paper gives
    chosen: str
    evidence: str


class Figure(NamedTuple):
    """A picture that an experiment leaves in its folder."""

    file: str
    alt: str


class Experiment(NamedTuple):
    """A folder of results, and what the paper says about it; how it is made is in the paper's
    README (`commands`)."""

    folder: str  # under results/
    title: str
    note: str  # what differs from the paper's set-up
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()


class Paper(NamedTuple):
    """A paper and its experiments."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]


class Outcome(NamedTuple):
    """A claim with its verdict; `number` says what is missing or wrong where there is none."""

    claim: Claim
    verdict: str
    number: str
    note: str = ""


def read(folder: Path) -> Source:
    """Raises Missing without a summary.json, and ValueError for one that is no JSON object."""
    path = folder / tidy.PROVENANCE
    if not path.exists():
        raise Missing(f"there is no {path.name} in {folder.parent.name}/{folder.name}")
    return Source(folder, store.read_json(path))


def beside(source: Source, name: str) -> Source:
    """The results in the neighbouring folder."""
    return read(source.folder.parent / name)


def judge(claim: Claim, folder: Path) -> Outcome:
    """The verdict. Nothing that a folder holds or lacks raises an error here: it becomes words."""
    try:
        number, holds, note = claim.check(read(folder))
    except Missing as error:
        words = str(error)
        return Outcome(claim, UNDECIDED, f"{words[0].upper()}{words[1:]}.")
    except Exception as error:
        # whatever a broken file leads to belongs on the page, beside its claim
        words = str(error).replace(str(folder), folder.name)
        return Outcome(
            claim, UNREADABLE, f"The results cannot be read: {type(error).__name__}: {words}"
        )
    if claim.lacks:
        return Outcome(claim, UNDECIDED, number, f"Missing here: {claim.lacks}. {note}".strip())
    if holds is None:
        return Outcome(claim, UNDECIDED, number, note)
    if not holds:
        return Outcome(claim, DIFFERS, number, f"{claim.cause} {note}".strip())
    return Outcome(claim, CONFIRMED, number, note)


def entry(source: Source, *keys: str) -> Any:
    """What summary.json holds under the keys. Raises Missing, naming the first key that is not
    there."""
    found: Any = source.summary
    for depth, key in enumerate(keys):
        if not isinstance(found, dict) or found.get(key) is None:
            raise Missing(f"the summary holds no {' / '.join(keys[: depth + 1])}")
        found = found[key]
    return found


def number(source: Source, *keys: str) -> float:
    """A finite number of summary.json. Raises Missing where there is none, and ValueError for
    anything else."""
    found = entry(source, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float) or not np.isfinite(found):
        raise ValueError(f"{' / '.join(keys)} in summary.json is {found!r}, not a finite number")
    return float(found)


def mean(source: Source, *keys: str) -> float:
    """The mean over seeds."""
    return number(source, *keys, "mean")


def half(source: Source, *keys: str) -> float:
    """Half width of the 95% interval of the mean; 0 where one seed gives none."""
    return number(source, *keys, "ci95") if entry(source, *keys).get("ci95") is not None else 0.0


def shown(source: Source, *keys: str, digits: int = 4) -> str:
    """Mean ± half width."""
    width = half(source, *keys)
    return f"{mean(source, *keys):.{digits}f}" + (f" ± {width:.{digits}f}" if width else "")


def lines(source: Source, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P])} of a metric of curves.parquet. Raises Missing where there
    is none."""
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
    """Methods (or whatever the names are) with their values."""
    return written({name: f"{value:.{digits}f}" for name, value in zip(names, values, strict=True)})


def written(values: Mapping[str, str]) -> str:
    """Methods by the names that readers know, each with its value."""
    return "; ".join(f"{label(name)}: {value}" for name, value in values.items())
