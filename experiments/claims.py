"""Claims of the papers, and functions that read the numbers on which the verdicts depend.

A claim consists of the paper's statement, a rule in words, and a function that applies the rule to
a folder of results. The function reads summary.json and the tables, and returns a `Finding`.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.figures.styles import label
from experiments.results import store, tidy

# DIFFERS: the statement does not hold with the settings that the paper specifies
CONFIRMED, DIFFERS, UNREADABLE = "confirmed", "differs", "unreadable"
UNDECIDED = "not decidable here"


class Missing(LookupError):
    """An entry of the results that a claim needs is missing."""


class Source(NamedTuple):
    """A folder of results and its summary.json."""

    folder: Path
    summary: dict[str, Any]


class Finding(NamedTuple):
    """Our numbers as text, and whether they satisfy the rule of the claim."""

    numbers: str
    holds: bool | None  # None if the numbers do not decide the claim
    note: str = ""  # evidence for the cause, or settings under which the verdict changes


class Claim(NamedTuple):
    """A statement of a paper, in our words, and its rule."""

    item: str  # figure or table of the paper
    statement: str
    rule: str  # the condition under which the claim is confirmed
    check: Callable[[Source], Finding]
    missing_data: str = ""  # data that a decision needs; if not empty, the verdict is UNDECIDED
    reason: str = ""  # why the rule fails


class Table(NamedTuple):
    """A CSV table in the folder of an experiment."""

    file: str
    caption: str


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
    """A claim with its verdict."""

    claim: Claim
    verdict: str
    numbers: str  # our numbers, or the error that prevents a verdict
    note: str = ""


def optional(evidence: Callable[..., str]) -> Callable[..., str]:
    """Decorates a function that returns evidence as text. If results are missing, the text is
    empty."""

    @functools.wraps(evidence)
    def wrapper(*arguments: Any) -> str:
        try:
            return evidence(*arguments)
        except Missing:
            return ""

    return wrapper


def read(folder: Path) -> Source:
    """The results in a folder. Raises Missing if there is no summary.json, and ValueError if it is
    damaged."""
    path = folder / tidy.PROVENANCE
    if not path.exists():
        raise Missing(f"there is no {path.name} in {folder.parent.name}/{folder.name}")
    return Source(folder, store.read_json(path))


def read_sibling(source: Source, name: str) -> Source:
    """The results in a neighbouring folder."""
    return read(source.folder.parent / name)


def judge(claim: Claim, folder: Path) -> Outcome:
    """The verdict on a claim. If results are missing or damaged, the outcome holds the error."""
    try:
        numbers, holds, note = claim.check(read(folder))
    except Missing as error:
        text = str(error)
        return Outcome(claim, UNDECIDED, f"{text[0].upper()}{text[1:]}.")
    except Exception as error:
        # damaged files raise many kinds of errors; the page shows them beside the claim
        text = f"{type(error).__name__}: {error}".replace(str(folder), folder.name)
        return Outcome(claim, UNREADABLE, f"The results cannot be read: {text}")
    if claim.missing_data:
        return Outcome(
            claim, UNDECIDED, numbers, f"Missing here: {claim.missing_data}. {note}".strip()
        )
    if holds is None:
        return Outcome(claim, UNDECIDED, numbers, note)
    if not holds:
        return Outcome(claim, DIFFERS, numbers, f"{claim.reason} {note}".strip())
    return Outcome(claim, CONFIRMED, numbers, note)


def entry(source: Source, *keys: str) -> Any:
    """The value of summary.json under nested keys. Raises Missing with the first missing key."""
    value: Any = source.summary
    for depth, key in enumerate(keys):
        if not isinstance(value, dict) or value.get(key) is None:
            raise Missing(f"the summary holds no {' / '.join(keys[: depth + 1])}")
        value = value[key]
    return value


def number(source: Source, *keys: str) -> float:
    """A finite number of summary.json. Raises Missing if there is no entry, and ValueError if the
    entry is not a finite number."""
    value = entry(source, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{' / '.join(keys)} in summary.json is {value!r}, not a finite number")
    return float(value)


def mean(source: Source, *keys: str) -> float:
    """The mean over seeds."""
    return number(source, *keys, "mean")


def half_width(source: Source, *keys: str) -> float:
    """The half width of the 95% interval of the mean over seeds; 0 for a single seed."""
    return number(source, *keys, "ci95") if entry(source, *keys).get("ci95") is not None else 0.0


def mean_text(source: Source, *keys: str, digits: int = 4) -> str:
    """The text "mean ± half width", without the half width if it is 0."""
    width = half_width(source, *keys)
    return f"{mean(source, *keys):.{digits}f}" + (f" ± {width:.{digits}f}" if width else "")


def lines(
    source: Source, metric: str, problem: str | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P])} of a metric in curves.parquet, of one problem if it is
    given. Raises Missing if the file or the metric is missing."""
    if not (source.folder / tidy.CURVES).exists():
        raise Missing(f"there is no {tidy.CURVES} in {source.folder.name}")
    table = tidy.load(source.folder).curves
    curves = tidy.lines(table if problem is None else table[table["problem"] == problem], metric)
    if not curves:
        raise Missing(f"{tidy.CURVES} holds no {metric}")
    return curves


def curve(
    source: Source, metric: str, algorithm: str, problem: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], values [S,P]) of one algorithm. Raises Missing as `lines`, and if there are no values
    of the algorithm."""
    curves = lines(source, metric, problem)
    if algorithm not in curves:
        raise Missing(f"{tidy.CURVES} holds no {metric} of {algorithm}")
    return curves[algorithm]


def mean_curve(source: Source, metric: str, algorithm: str) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], mean over seeds [P]) of one algorithm. Raises Missing as `curve`."""
    t, values = curve(source, metric, algorithm)
    return t, values.mean(0)


def list_numbers(names: Iterable[str], values: Iterable[float], digits: int = 3) -> str:
    """The text "label: value; ..." of some methods."""
    texts = {name: f"{value:.{digits}f}" for name, value in zip(names, values, strict=True)}
    return list_texts(texts)


def list_texts(texts: Mapping[str, str]) -> str:
    """The text "label: text; ..." of {method: text}."""
    return "; ".join(f"{label(name)}: {text}" for name, text in texts.items())
