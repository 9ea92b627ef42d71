"""Reads the tables that the options of `jsketch-suggest` name, and checks its output files."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from jsketch.suggest import Library, library
from jsketch.suggest.tables import candidates as tables
from jsketch.suggest.tables import cells, command_line

SUSPICIOUS = 0.98  # correlation of ranks of a column with the values that gives a warning
FEW_VALUES = 6  # with fewer values such a correlation arises by chance
FAR = 1000  # times the distance from the median below which 90% of numbers lie


class Inputs(NamedTuple):
    """The tables of one call."""

    candidates: tables.Candidates
    library: Library
    arms: np.ndarray  # [n], rows of the candidates
    measured: np.ndarray  # [n], values as in the tables, NaN for a failed evaluation
    values: np.ndarray  # [n], what is maximised: the `goal` of those values
    pending: np.ndarray  # [p], distinct rows of the candidates without an evaluation
    excluded: np.ndarray  # [e], distinct rows of the candidates
    errors: np.ndarray | None = None  # [n], standard errors of the values
    sheet: tables.Sheet | None = None
    number: int = 1  # of the batch
    # (candidates, values) of --observations, and the column of values
    added: tuple[np.ndarray, np.ndarray] = (np.zeros(0, int), np.zeros(0))
    value_column: str = "value"
    batch: np.ndarray | None = None  # [n], the number of the batch of each evaluation, 0 without
    keeps_values: bool = True  # whether the sheet holds the values that are used

    @property
    def failures(self) -> bool:
        """Whether some evaluation failed."""
        return bool(np.isnan(self.values).any())


def read(options: argparse.Namespace) -> Inputs:
    """Reads and checks the tables. Raises ValueError for a mistake in a table."""
    roles = tables.Roles(
        options.id_column,
        (options.value_column, *filter(None, [options.error_column])),
        options.value_given and not options.observations,
        options.cost,
        options.ignore,
        options.read,
    )
    kinds = tables.Kinds(
        options.categories, options.sequence, options.bits, options.protein, options.smiles
    )
    sheet = tables.read_sheet(options.candidates, roles, kinds, options.same)
    candidates, notes = sheet.candidates, list(sheet.candidates.notes)
    done = [
        tables.read_evaluations(
            path,
            candidates,
            sheet.id_name,
            options.value_column,
            options.error_column,
            options.read,
        )
        for path in options.observations
    ]
    count, keeps_values = len(candidates.ids), True
    if options.replicates or len(np.unique(sheet.done.arms)) < count:
        others = done if options.replicates else [_without(sheet.done, each) for each in done]
        done = [sheet.done, *others]
    elif done:
        keeps_values = False
        notes.append(
            f"{options.candidates}: every candidate has a value there, so that nothing would be"
            " left to suggest: only the values of --observations are used"
        )
    else:
        raise ValueError(
            f"{options.candidates}: every candidate has a value; none is left. If only some of them"
            " were measured, empty the other cells, or name a table of the measured ones with"
            " --observations."
        )
    for each in done:
        notes += each.notes
    arms, values = (np.concatenate([each[i] for each in done]) for i in (0, 1))
    _check_bounds(options, values)
    notes += _suspicious_columns(candidates, arms, values)
    notes += _outliers("the values", values[~np.isnan(values)])
    errors = None
    if options.error_column is not None:
        some = [np.zeros(len(e.arms)) if e.errors is None else e.errors for e in done]
        errors = np.concatenate(some)

    def rows(path: Path | None) -> np.ndarray:
        if path is None:
            return np.zeros(0, int)
        return np.unique(tables.read_ids(path, candidates, sheet.id_name))

    pending = np.concatenate([rows(options.pending), *(each.pending for each in done)])
    return Inputs(
        candidates._replace(notes=notes),
        library(candidates.features, candidates.columns),
        arms,
        values,
        goal(options, values),
        np.setdiff1d(pending, arms),
        rows(options.exclude),
        errors,
        sheet,
        1 + max(each.number for each in done),
        (arms[len(done[0].arms) :], values[len(done[0].arms) :]),
        options.value_column,
        np.concatenate([each.batch for each in done]),
        keeps_values and options.value_column in sheet.table.names,
    )


def _suspicious_columns(
    candidates: tables.Candidates, arms: np.ndarray, values: np.ndarray
) -> list[str]:
    """Warnings of numbers that predict the values almost perfectly, and of outliers among them."""
    observed, notes, start = ~np.isnan(values), [], 0
    ranks = rankdata(values[observed])
    for group, name in zip(candidates.columns, candidates.names, strict=True):
        column = candidates.features[:, start]
        start += group.width
        if group.kind != "numbers":
            continue
        notes += _outliers(f"the column '{name}'", column)
        some = column[arms[observed]]
        if len(some) < FEW_VALUES or np.ptp(some) == 0 or np.ptp(ranks) == 0:
            continue
        correlation = float(np.corrcoef(rankdata(some), ranks)[0, 1])
        if abs(correlation) > SUSPICIOUS:
            notes.append(
                f"WARNING: the column '{name}' predicts the values almost perfectly (correlation of"
                f" ranks {correlation:.3f}): if it is a result of the measurement, leave it out"
                f" with --ignore '{name}'"
            )
    return notes


def _outliers(name: str, numbers: np.ndarray) -> list[str]:
    """A warning where one number sets the scale of all others."""
    if len(numbers) < FEW_VALUES:
        return []
    apart = np.abs(numbers / 2 - np.median(numbers) / 2)
    typical, farthest = np.quantile(apart, 0.9), int(np.argmax(apart))
    if not typical > 0 or apart[farthest] <= FAR * typical:
        return []
    return [
        f"WARNING: {numbers[farthest]:g} is more than {FAR} times as far from the middle as"
        f" 90% of {name}: check it, as it sets the scale of all others"
    ]


def goal(options: argparse.Namespace, values: np.ndarray) -> np.ndarray:
    """What is maximised: the values, with --minimize their negation, with --target the negation of
    the distance to it."""
    if options.target is not None:
        return -np.abs(values - options.target)
    return -values if options.minimize else values


def goal_bounds(options: argparse.Namespace) -> tuple[float, float] | None:
    """The smallest and the largest possible value of `goal`; None without bounds or a target."""
    if options.target is not None:
        ends = [np.inf] if options.bounds is None else options.bounds
        return -max(abs(end - options.target) for end in ends), 0.0
    if options.bounds is None:
        return None
    low, high = options.bounds
    return (-high, -low) if options.minimize else (low, high)


def _check_bounds(options: argparse.Namespace, values: np.ndarray) -> None:
    """Raises ValueError for a value outside --bounds."""
    if options.bounds is None:
        return
    low, high = options.bounds
    outside = values[(values < low) | (values > high)]
    if outside.size:
        raise ValueError(f"--bounds {low:g} {high:g}: the value {outside[0]:g} is outside.")
    if options.target is not None and not low <= options.target <= high:
        raise ValueError(f"--target {options.target:g} is outside --bounds {low:g} {high:g}.")


def _without(sheet: tables.Evaluations, done: tables.Evaluations) -> tables.Evaluations:
    """The evaluations that are not in the sheet: results that were typed into both count once."""

    def pairs(some: tables.Evaluations) -> list[tuple[int, float | None]]:
        values = [None if np.isnan(value) else value for value in some.values.tolist()]
        return list(zip(some.arms.tolist(), values, strict=True))

    known = set(pairs(sheet))
    new = np.array([pair not in known for pair in pairs(done)], bool)
    errors = None if done.errors is None else done.errors[new]
    return done._replace(
        arms=done.arms[new], values=done.values[new], errors=errors, batch=done.batch[new]
    )


def set_outputs(options: argparse.Namespace, inputs: Inputs) -> Path | None:
    """Names the file of --out where it is not given. Returns the path of the copy of the sheet;
    None where the sheet does not hold the values that are used. Raises ValueError as
    `check_outputs` does."""
    suffix = options.candidates.suffix.lower().replace(".xlsm", ".xlsx") or ".csv"
    if options.out is None:
        number = "" if inputs.number == 1 else inputs.number
        options.out = Path(f"next{number}{suffix}")
        check_outputs(options)
    cells.check_ids(options.out, inputs.candidates.ids)
    if not inputs.keeps_values:
        return None
    stem = re.sub(r"-batch\d+$", "", options.candidates.stem)
    copy = options.out.parent / f"{stem}-batch{inputs.number}{suffix}"
    if copy.resolve() == options.candidates.resolve():
        raise ValueError(f"{copy} is the sheet, and would be replaced by its copy: rename it.")
    command_line.check_new(copy, options.overwrite)
    return copy


def check_outputs(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for an output file that cannot be
    written, is one of the tables, or exists (without --overwrite)."""
    inputs = {"the sheet": [options.candidates], "--observations": options.observations}
    inputs |= {"--pending": [options.pending], "--exclude": [options.exclude]}
    for option in ("out", "report", "all_scores"):
        out, option = getattr(options, option), option.replace("_", "-")
        if out is None:
            continue
        for name, paths in inputs.items():
            if any(path is not None and path.resolve() == out.resolve() for path in paths):
                raise ValueError(
                    f"--{option} {out} is the table of {name} and would replace it: name another"
                    " file."
                )
        command_line.check_new(out, options.overwrite)
    for option, path in (("out", options.out), ("all-scores", options.all_scores)):
        if path is None:
            continue
        cells.check_package(path)
        if path.suffix.lower() == ".xlsm":
            raise ValueError(f"--{option} {path}: workbooks with macros are read only; use .xlsx.")
    named = dict(report=options.report, out=options.out)
    named["all-scores"] = options.all_scores
    seen: dict[Path, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise ValueError(f"--{other} and --{option} are both {path}: name two files.")
