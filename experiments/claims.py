"""Claims of the papers, and functions that read the numbers on which the verdicts depend.

A claim consists of the place of a sentence in a paper, the sentence in our words, a rule in words
with its reason, and one or more cases. A case is a folder of results and a function that applies
the rule to this folder: the function reads summary.json and the tables, and returns a `Finding`. A
sentence that a paper repeats for several data sets is one claim with several cases.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from experiments.figures.styles import label
from experiments.results import store, tidy

# a claim "differs" if its statement does not hold with the settings that the paper specifies
CONFIRMED, DIFFERS, UNREADABLE = "confirmed", "differs", "unreadable"
UNDECIDED = "not decidable here"
CAUSE_UNKNOWN = "Cause unknown."
# a method that has less regret than another one, but by less than this fraction, does not lead
TIE = 0.05

Interval = tuple[float, float]  # centre and half width of a 95% interval
Runs = Sequence[float] | np.ndarray  # a number for each seed


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


class Case(NamedTuple):
    """A rule applied to one folder of results."""

    folder: str  # under results/
    check: Callable[[Source], Finding]
    name: str = ""  # what distinguishes this case from the others of its claim
    other_folders: tuple[str, ...] = ()  # those under results/ that the rule or its note reads


class Claim(NamedTuple):
    """A sentence of a paper, in our words, and its rule. It is confirmed if every case satisfies
    the rule, and it differs if at least one case contradicts it."""

    place: str  # section, figure or table of the paper
    statement: str
    rule: str  # the statistic, and the condition under which the claim is confirmed
    why: str  # the reason for the statistic and for the threshold
    cases: tuple[Case, ...]
    earlier_verdicts: tuple[str, ...] = ()  # by earlier rules
    change: str = ""  # how the rule differs from earlier rules, and the verdicts by these
    cause: str = CAUSE_UNKNOWN  # why our numbers differ from the paper's, if they do

    @property
    def folders(self) -> list[str]:
        """The folders of results that the rule or its notes read."""
        folders = (name for case in self.cases for name in (case.folder, *case.other_folders))
        return list(dict.fromkeys(folders))


class Withdrawn(NamedTuple):
    """A statement that is no longer a claim, with the reason."""

    place: str
    statement: str
    earlier_verdicts: tuple[str, ...]
    reason: str


class Measurements(NamedTuple):
    """A table of numbers in summary.json. With the levels ("problems", "methods") it has a row for
    each entry summary["problems"][problem]["methods"][method]."""

    caption: str
    fields: Mapping[str, tuple[str, int]]  # {field of an entry: (head of its column, digits)}
    levels: tuple[str, ...] = ("problems", "methods")


class Experiment(NamedTuple):
    """A folder of results; its command is in the paper's README (`commands`)."""

    folder: str  # under results/
    title: str
    note: str  # data, settings, and differences from the paper's set-up
    figures: Mapping[str, str] = {}  # {file: what the picture shows}
    tables: Mapping[str, str] = {}  # {CSV file: caption}
    measurements: tuple[Measurements, ...] = ()


class Paper(NamedTuple):
    """A paper with its claims and its experiments."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    claims: tuple[Claim, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()


class Outcome(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    verdict: str
    numbers: tuple[str, ...]  # for each case, our numbers, or the error that prevents a verdict
    note: str = ""  # the cause if the claim differs, and the notes of the cases


def empty_if_missing(write_text: Callable[..., str]) -> Callable[..., str]:
    """Decorates a function that returns a text about results, so that the text is empty if these
    results are missing."""

    @functools.wraps(write_text)
    def wrapper(*arguments: Any) -> str:
        try:
            return write_text(*arguments)
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
    """The results in another folder of the same paper."""
    return read(source.folder.parent / name)


def judge(claim: Claim, root: Path) -> Outcome:
    """Judges a claim by the results in `root`. If results are missing or damaged, the error is in
    the outcome's `numbers`."""
    numbers, notes, decisions, damaged = [], [], [], False
    for case in claim.cases:
        try:
            text, holds, note = case.check(read(root / case.folder))
        except Missing as error:
            text, holds, note = f"{str(error)[0].upper()}{str(error)[1:]}.", None, ""
        except Exception as error:
            # damaged files raise many kinds of errors; the report shows them beside the claim
            text = f"The results cannot be read: {type(error).__name__}: {error}"
            text = text.replace(str(root / case.folder), case.folder)
            holds, note, damaged = None, "", True
        prefix = f"{case.name}: " if case.name else ""
        numbers.append(f"{prefix}{text}")
        notes += [f"{prefix}{note}"] if note else []
        decisions.append(None if holds is None else bool(holds))
    if damaged:
        verdict = UNREADABLE
    elif any(holds is False for holds in decisions):
        verdict = DIFFERS
        notes.insert(0, claim.cause)
    elif all(decisions):
        verdict = CONFIRMED
    else:
        verdict = UNDECIDED
    return Outcome(claim, verdict, tuple(numbers), " ".join(notes))


def mean_interval(runs: Runs) -> Interval:
    """The mean over runs and the half width of its 95% interval, NaN for a single run. The half
    width uses the quantile of Student's distribution, 12.7 for two runs and 2.78 for five. The
    papers use the normal quantile 1.96, which is too small for few runs."""
    runs = np.asarray(runs, float)
    if runs.size < 2:
        return float(runs.mean()), float("nan")
    quantile = special.stdtrit(runs.size - 1, 0.975)
    return float(runs.mean()), float(quantile * runs.std(ddof=1) / np.sqrt(runs.size))


def probability_interval(hits: int, runs: int) -> Interval:
    """Wilson's 95% interval of the probability of an event that occurred in `hits` of `runs`."""
    low, high = stats.binomtest(hits, runs).proportion_ci(method="wilson")
    return float(low + high) / 2, float(high - low) / 2


def difference_interval(first: Runs, second: Runs) -> Interval:
    """The 95% interval of the mean of first - second over their common seeds. Raises Missing for
    fewer than two common seeds."""
    count = min(len(first), len(second))
    if count < 2:
        raise Missing("fewer than two seeds are common to both methods")
    return mean_interval(np.asarray(first[:count], float) - np.asarray(second[:count], float))


def all_above(intervals: Iterable[Interval], bound: float) -> bool | None:
    """True if all intervals lie above the bound, False if one lies below it, and None otherwise."""
    return _decide(list(intervals), bound, bound)


def leads(differences: Iterable[Interval], tie: float) -> bool | None:
    """Whether a method has less regret than all others. The intervals `differences` are of each
    other method's regret minus its own regret. Returns True if all lie above 0, False if one lies
    below `tie`, and None otherwise."""
    return _decide(list(differences), tie, 0.0)


def _decide(intervals: list[Interval], fails_below: float, holds_above: float) -> bool | None:
    """The decision of a rule that fails if one interval lies below `fails_below`, and holds if all
    intervals lie above `holds_above`."""
    return decision(
        any(centre + half <= fails_below for centre, half in intervals),
        all(centre - half > holds_above for centre, half in intervals),
    )


def decision(fails: bool, holds: bool) -> bool | None:
    """False if a rule fails, True if it holds, and None if the numbers decide neither."""
    return False if fails else (True if holds else None)


def all_near_zero(intervals: Iterable[Interval], margin: float) -> bool | None:
    """True if all intervals lie within `margin` of 0, False if one lies entirely farther from 0,
    and None otherwise."""
    intervals = list(intervals)
    return decision(
        any(abs(centre) - half > margin for centre, half in intervals),
        all(abs(centre) + half <= margin for centre, half in intervals),
    )


def labelled_intervals(intervals: Mapping[str, Interval], digits: int) -> str:
    """The text "label: centre ± half width; ..." of {method: interval}."""
    return labelled_texts({name: interval_text(pair, digits) for name, pair in intervals.items()})


def interval_text(interval: Interval, digits: int) -> str:
    """The text "centre ± half width"."""
    centre, half = interval
    return f"{centre:.{digits}f} ± {half:.{digits}f}"


def seed_values(source: Source, *keys: str) -> list[float]:
    """The list "values" of summary.json under nested keys, with a value for each seed."""
    return list(entry(source, *keys, "values"))


def entry(source: Source, *keys: str) -> Any:
    """The value of summary.json under nested keys. Raises Missing with the first missing key."""
    value: Any = source.summary
    for depth, key in enumerate(keys):
        if not isinstance(value, dict) or value.get(key) is None:
            raise Missing(f"summary.json has no {' / '.join(keys[: depth + 1])}")
        value = value[key]
    return value


def number(source: Source, *keys: str) -> float:
    """The number in summary.json under nested keys. Raises Missing if there is no entry, and
    ValueError if the entry is not a finite number."""
    value = entry(source, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{' / '.join(keys)} in summary.json is {value!r}, not a finite number")
    return float(value)


def mean(source: Source, *keys: str) -> float:
    """The "mean" over seeds in summary.json under nested keys."""
    return number(source, *keys, "mean")


def mean_text(source: Source, *keys: str, digits: int = 4) -> str:
    """The text "mean ± half width" over seeds, without the half width if it is 0 or if there is a
    single seed."""
    runs = seed_values(source, *keys)
    half = mean_interval(runs)[1] if len(runs) > 1 else 0.0
    return f"{mean(source, *keys):.{digits}f}" + (f" ± {half:.{digits}f}" if half else "")


def curves_by_algorithm(
    source: Source, metric: str, problem: str | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{algorithm: (t [P], values [S,P] of S seeds)} of a metric in curves.parquet, on `problem` if
    the file has several problems. Raises Missing if the file or the metric is missing."""
    if not (source.folder / tidy.CURVES).exists():
        raise Missing(f"there is no {tidy.CURVES} in {source.folder.name}")
    table = tidy.load(source.folder).curves
    curves = tidy.lines(table if problem is None else table[table["problem"] == problem], metric)
    if not curves:
        raise Missing(f"{tidy.CURVES} has no {metric}")
    return curves


def curve(
    source: Source, metric: str, algorithm: str, problem: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], values [S,P] of S seeds) of one algorithm. Raises Missing if the file, the metric or
    the algorithm is missing."""
    curves = curves_by_algorithm(source, metric, problem)
    if algorithm not in curves:
        raise Missing(f"{tidy.CURVES} has no {metric} of {algorithm}")
    return curves[algorithm]


def mean_curve(source: Source, metric: str, algorithm: str) -> tuple[np.ndarray, np.ndarray]:
    """(t [P], mean over seeds [P]) of one algorithm. Raises Missing like `curve`."""
    t, values = curve(source, metric, algorithm)
    return t, values.mean(0)


def measurement_rows(source: Source, table: Measurements) -> list[list[str]]:
    """The rows of a table of measurements, the header first."""
    heads = [head for head, _ in table.fields.values()]
    rows = [[level.removesuffix("s") for level in table.levels] + heads]  # "problem", "method"

    def add_rows(part: Any, levels: tuple[str, ...], names: list[str]) -> None:
        if levels:
            for name, smaller_part in part.get(levels[0], {}).items():
                add_rows(smaller_part, levels[1:], [*names, name])
            return
        cells = [_cell(part.get(field), digits) for field, (_, digits) in table.fields.items()]
        if any(cells):
            rows.append([*(label(name) for name in names), *cells])

    add_rows(source.summary, table.levels, [])
    return rows


def _cell(value: Any, digits: int) -> str:
    """The text of a number, or "mean ± half width" for an entry with a mean; empty for None."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"{value:,.{digits}f}"
    runs = value.get("values", ())
    half = mean_interval(runs)[1] if len(runs) > 1 else value.get("ci95") or 0.0
    half_text = f" ± {half:,.{digits}f}" if half > 0 else ""
    return f"{value['mean']:,.{digits}f}{half_text}"


def labelled_numbers(names: Iterable[str], values: Iterable[float], digits: int = 3) -> str:
    """The text "label: value; ..." of methods and their values."""
    texts = {name: f"{value:.{digits}f}" for name, value in zip(names, values, strict=True)}
    return labelled_texts(texts)


def labelled_texts(texts: Mapping[str, str]) -> str:
    """The text "label: text; ..." of {method: text}."""
    return "; ".join(f"{label(name)}: {text}" for name, text in texts.items())
