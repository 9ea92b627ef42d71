"""Reads the tables given as options of `jsketch-suggest`, and checks its output files."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from jsketch.suggest import Campaigns, Library, join_campaigns, library, stopping
from jsketch.suggest.data import unavailable_candidates
from jsketch.suggest.mixed import groups_of
from jsketch.suggest.tables import candidates as tables
from jsketch.suggest.tables import cells, command_line
from jsketch.suggest.tables.options import BATCH

MAX_CORRELATION = 0.98  # a larger rank correlation of a column with the values gives a warning
MIN_VALUES = 6  # with fewer values such a correlation arises by chance
# an outlier is this many times as far from the median as 90% of the numbers
OUTLIER_FACTOR = 1000


class Inputs(NamedTuple):
    """The tables of one call."""

    candidates: tables.Candidates
    library: Library
    arms: np.ndarray  # [n], rows of the candidates
    measured: np.ndarray  # [n], values as in the tables, NaN for a failed evaluation
    goals: np.ndarray  # [n], the `goal` of each measured value, which is maximised
    pending: np.ndarray  # [p], distinct rows of candidates that are being measured
    excluded: np.ndarray  # [e], distinct rows of candidates that are never suggested
    errors: np.ndarray | None  # [n], standard errors of the values
    sheet: tables.Sheet
    batch_number: int  # the number of the batch that is suggested now, from 1
    from_observations: tuple[np.ndarray, np.ndarray]  # (rows, values) of --observations
    batch_of: np.ndarray  # [n], the number of each evaluation's batch, 0 without one
    uses_sheet_values: bool  # False if the sheet has no values, or they are ignored
    # the present campaign, with its goals as values, and the campaigns of --also, if there are any
    joined: Campaigns | None = None


def read(options: argparse.Namespace) -> Inputs:
    """Reads and checks the tables. Raises ValueError for a mistake in a table."""
    _check_read_once(options)
    column, error_column = options.value_column, options.error_column
    results = (column,) if error_column is None else (column, error_column)
    roles = tables.Roles(
        id=options.id_column,
        results=results,
        cost=options.cost,
        ignored=options.ignore,
        readings=options.read,
        value_needed=options.value_given and not options.observations,
    )
    kinds = tables.Kinds(
        categories=options.categories,
        sequences=options.sequence,
        bits=options.bits,
        proteins=options.protein,
        smiles=options.smiles,
    )
    sheet = tables.read_sheet(options.candidates, roles, kinds, options.same, options.also)
    candidates, notes = sheet.candidates, list(sheet.candidates.notes)
    evaluations = [tables.read_evaluations(path, sheet, roles) for path in options.observations]
    if not (options.value_given or evaluations or column in sheet.table.names):
        notes.append(
            f"{options.candidates}: there is no column '{column}', so that no value was read and"
            " all columns are conditions; name the column of measured values with --value"
        )
    uses_sheet_values = column in sheet.table.names
    if options.replicates or len(np.unique(sheet.evaluations.arms)) < len(candidates.ids):
        if not options.replicates:
            evaluations = [_new_evaluations(sheet.evaluations, part) for part in evaluations]
        evaluations = [sheet.evaluations, *evaluations]
    elif evaluations:
        uses_sheet_values = False
        notes.append(
            f"{options.candidates}: every candidate has a value, so that none would be left to"
            " suggest; therefore only the values of --observations are used"
        )
    else:
        raise ValueError(
            f"{options.candidates}: every candidate has a value, and none is left to suggest."
            f"{_best_of(options, sheet)} If only some of them were measured, empty the other cells,"
            " or name a table of the measured ones with --observations."
        )
    for part in evaluations:
        notes += part.notes
    arms, values = (np.concatenate([part[i] for part in evaluations]) for i in (0, 1))
    _check_bounds(options, values)
    notes += _column_warnings(candidates, arms, values)
    notes += _outlier_warnings("the values", values[~np.isnan(values)])
    errors = None if error_column is None else np.concatenate([part.errors for part in evaluations])

    def rows_in(path: Path | None) -> np.ndarray:
        if path is None:
            return np.zeros(0, int)
        return np.unique(tables.read_ids(path, candidates, sheet.id_name))

    goals, joined = goal(options, values), None
    features, columns = candidates.features, candidates.columns
    if sheet.earlier:
        earlier = [(x, -y if options.minimize else y) for x, y in sheet.earlier]
        joined = join_campaigns(features, arms, goals, earlier, columns=columns, errors=errors)
        present_library = _present_library(joined, len(candidates.ids))
    else:
        present_library = library(features, columns)
    pending = np.concatenate([rows_in(options.pending), *(part.pending for part in evaluations)])
    pending, excluded = np.setdiff1d(pending, arms), rows_in(options.exclude)
    if options.batch is None:
        arguments = arms, values, pending, excluded, options.replicates
        is_left = ~unavailable_candidates(len(candidates.ids), *arguments)
        label = np.zeros(is_left.sum()) if candidates.same is None else candidates.same[is_left]
        options.batch = min(BATCH, int(np.unique(label, return_counts=True)[1].max(initial=1)))
        if options.batch < BATCH:
            notes.append(f"the size of the batch is {options.batch}, because no more are left")
    n_in_sheet = len(evaluations[0].arms)
    return Inputs(
        candidates=candidates._replace(notes=notes),
        library=present_library,
        arms=arms,
        measured=values,
        goals=goals,
        pending=pending,
        excluded=excluded,
        errors=errors,
        sheet=sheet,
        batch_number=1 + max(part.last_batch for part in evaluations),
        from_observations=(arms[n_in_sheet:], values[n_in_sheet:]),
        batch_of=np.concatenate([part.batch_of for part in evaluations]),
        uses_sheet_values=uses_sheet_values,
        joined=joined,
    )


def _best_of(options: argparse.Namespace, sheet: tables.Sheet) -> str:
    """A sentence on the best value of the sheet, or "" if all evaluations failed."""
    arms, values = sheet.evaluations.arms, sheet.evaluations.values
    if np.isnan(values).all():
        return ""
    row, _ = stopping.best_measured(arms, goal(options, values))
    prefix = "row " if sheet.id_name == tables.ROW_IDS else ""
    name = f"{prefix}{sheet.candidates.ids[row]}"
    return f" The best is {name} with {np.nanmean(values[arms == row]):.4g}."


def _check_read_once(options: argparse.Namespace) -> None:
    """Raises ValueError for a table of --also that is read a second time."""
    tables_read = [path.resolve() for path in (options.candidates, *options.observations)]
    for path in options.also:
        if path.resolve() in tables_read:
            raise ValueError(f"--also {path}: the table is read twice; name it once.")
        tables_read.append(path.resolve())


def _present_library(joined: Campaigns, count: int) -> Library:
    """The library of the `count` present candidates, with features that are scaled over all
    campaigns, because the lengthscales are fitted to all of them."""
    columns = joined.candidates.columns[:-1]  # without the campaign
    width = sum(group.width for group in columns)
    spread = joined.candidates.spread
    spread = None if spread is None else spread[:-1]
    return Library(joined.candidates.features[:count, :width], columns, spread=spread)


def _column_warnings(
    candidates: tables.Candidates, arms: np.ndarray, values: np.ndarray
) -> list[str]:
    """Warnings about columns that predict the values almost perfectly or have outliers."""
    observed, notes = ~np.isnan(values), []
    for group, name in zip(groups_of(candidates.columns), candidates.names, strict=True):
        if group.kind != "numbers":
            continue
        column = candidates.features[:, group.columns.start]
        notes += _outlier_warnings(f"the column '{name}'", column)
        measured, y = column[arms[observed]], values[observed]
        if len(y) < MIN_VALUES or np.ptp(measured) == 0 or np.ptp(y) == 0:
            continue
        correlation = float(spearmanr(measured, y).statistic)
        if abs(correlation) > MAX_CORRELATION:
            notes.append(
                f"WARNING: the column '{name}' predicts the values almost perfectly (rank"
                f" correlation {correlation:.3f}): if it is a result of the measurement, leave it"
                f' out with --ignore "{name}"'
            )
    return notes


def _outlier_warnings(name: str, numbers: np.ndarray) -> list[str]:
    """A warning in a list if one number determines the scale of all others; [] otherwise."""
    if len(numbers) < MIN_VALUES:
        return []
    distance = np.abs(numbers / 2 - np.median(numbers) / 2)
    typical_distance, farthest = np.quantile(distance, 0.9), int(np.argmax(distance))
    if not typical_distance > 0 or distance[farthest] <= OUTLIER_FACTOR * typical_distance:
        return []
    return [
        f"WARNING: {numbers[farthest]:g} is more than {OUTLIER_FACTOR} times as far from the median"
        f" as 90% of {name}: check it, because it determines the scale of all others"
    ]


def goal(options: argparse.Namespace, values: np.ndarray) -> np.ndarray:
    """The numbers that are maximised: the values, or with --minimize their negation, or with
    --target the negated distances to the target."""
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
    """Raises ValueError for a value or a target outside --bounds."""
    if options.bounds is None:
        return
    low, high = options.bounds
    values_outside = values[(values < low) | (values > high)]
    if values_outside.size:
        raise ValueError(f"--bounds {low:g} {high:g}: the value {values_outside[0]:g} is outside.")
    if options.target is not None and not low <= options.target <= high:
        raise ValueError(f"--target {options.target:g} is outside --bounds {low:g} {high:g}.")


def _new_evaluations(sheet: tables.Evaluations, part: tables.Evaluations) -> tables.Evaluations:
    """The evaluations in `part` that are not in the sheet, so that no result counts twice."""
    pairs, in_sheet = (pd.MultiIndex.from_arrays([x.arms, x.values]) for x in (part, sheet))
    fields, is_new = ("arms", "values", "errors", "batch_of"), ~pairs.isin(in_sheet)
    return part._replace(**{name: getattr(part, name)[is_new] for name in fields})


def set_outputs(options: argparse.Namespace, inputs: Inputs) -> Path | None:
    """Sets --out if it is not given, and returns the path of the copy of the sheet, or None if no
    values of the sheet are used. Raises what `check_outputs` raises."""
    suffix = options.candidates.suffix.lower().replace(".xlsm", ".xlsx") or ".csv"
    if options.out is None:
        number = "" if inputs.batch_number == 1 else inputs.batch_number
        options.out = Path(f"next{number}{suffix}")
        check_outputs(options)
    cells.check_ids(options.out, inputs.candidates.ids)
    if not inputs.uses_sheet_values:
        return None
    stem = re.sub(r"-batch\d+$", "", options.candidates.stem)
    copy = options.out.parent / f"{stem}-batch{inputs.batch_number}{suffix}"
    if copy.resolve() in [path.resolve() for path in (options.candidates, *options.also)]:
        raise ValueError(
            f"the copy of the sheet would replace {copy}, which is read: rename that table."
        )
    command_line.check_new(copy, options.overwrite)
    return copy


def check_outputs(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for an output file that cannot be
    written, is one of the tables, or exists (without --overwrite)."""
    inputs = {"the sheet": [options.candidates], "--observations": options.observations}
    inputs |= {"--pending": [options.pending], "--exclude": [options.exclude]}
    inputs |= {"--also": options.also}
    outputs = {"report": options.report, "out": options.out, "all-scores": options.all_scores}
    option_of: dict[Path, str] = {}
    for option, out in outputs.items():
        if out is None:
            continue
        for name, paths in inputs.items():
            if any(path is not None and path.resolve() == out.resolve() for path in paths):
                raise ValueError(
                    f"--{option} {out} is also the file of {name}, which it would replace: name"
                    " another file."
                )
        first_option = option_of.setdefault(out.resolve(), option)
        if first_option != option:
            raise ValueError(f"--{first_option} and --{option} are both {out}: name two files.")
        command_line.check_new(out, options.overwrite)
        if option != "report":
            cells.check_package(out)
            if out.suffix.lower() == ".xlsm":
                raise ValueError(
                    f"--{option} {out}: workbooks with macros are read, but not written; use .xlsx."
                )
