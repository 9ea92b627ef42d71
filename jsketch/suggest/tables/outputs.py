"""Chooses the batch for the tables that the options name, and writes it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from jsketch.loops import saving
from jsketch.suggest import Suggestion
from jsketch.suggest.tables import cells, messages, page
from jsketch.suggest.tables.inputs import check_outputs, read, set_outputs
from jsketch.suggest.tables.options import PREDICTED_COLUMNS, SUGGESTED_COLUMN
from jsketch.suggest.tables.results import Results, compute

DIGITS = 3  # significant digits of the width of an interval, and decimals of a chance
SCORE_DIGITS = 6  # significant digits of a score


def run(options: argparse.Namespace) -> Suggestion:
    """Reads the tables, chooses a batch and writes it. Raises ValueError for a mistake in the
    tables."""
    start, key = time.perf_counter(), jax.random.key(options.seed)
    check_outputs(options)
    inputs = read(options)
    copy = set_outputs(options, inputs)
    results = compute(options, inputs, key)
    lines = [*messages.describe_inputs(options, inputs), *messages.describe_batch(results)]
    print("\n".join([messages.verdict(results), *lines, *explanations(results)]))
    sheet_table = inputs.sheet.table
    saving.write(options.out, cells.content(options.out, batch_table(results), sheet_table))
    if options.report is not None:
        page.write(results)
        print(f"{options.report}: open it in a browser")
    if copy is not None:
        changes = _sheet_changes(results)
        saving.write(copy, cells.changed_copy(copy, sheet_table, *changes))
        print(f"{copy}: a copy of the sheet with the batch in the column '{SUGGESTED_COLUMN}'")
    if options.all_scores is not None:
        scores = cells.content(options.all_scores, score_table(results), sheet_table)
        saving.write(options.all_scores, scores)
        print(f"{options.all_scores}: predictions and scores of all candidates")
    seconds = time.perf_counter() - start
    print(f"{options.out}: {len(results.batch.rows)} candidates, chosen in {seconds:.1f} s")
    print(_next_step(results, copy))
    return results.batch


def explanations(results: Results) -> list[str]:
    """With --explain, a line for each candidate of the batch; [] otherwise."""
    if not results.options.explain:
        return []
    names = [messages.candidate_name(results.inputs, row) for row in results.batch.rows]
    intro = "the prediction with its 90% interval is"
    predictions = [f"{intro} {words}. " for words in messages.predictions(results)]
    predictions = predictions or [""] * len(names)
    reasons = messages.reasons(results)
    return [f"{n}: {p}{r}" for n, p, r in zip(names, predictions, reasons, strict=True)]


def _next_step(results: Results, copy: Path | None) -> str:
    """A sentence on how to continue with the written files."""
    out, column = results.options.out, results.options.value_column
    start, file = "If you go on" if results.stops else "Next", copy or out
    step = f"{start}: type the results into the column '{column}' of {file}, and run"
    step += " the command again with"
    if copy is None:
        return f"{step} {file} added to --observations"
    return f"{step} {file} as the sheet; for results in {out}, add --observations {out}"


def _sheet_changes(results: Results) -> tuple[dict[str, dict[int, Any]], list[dict[str, Any]]]:
    """(changed cells {column: {row: cell}}, added rows) of the copy of the sheet. The first row of
    each candidate of the batch gets the number of the batch. A value of --observations is written
    to the first row of its candidate, or to an added row if the candidate has a value already."""
    inputs, value_column = results.inputs, results.options.value_column
    sheet = inputs.sheet
    first_row, arms_with_values = sheet.first_row, set(sheet.evaluations.arms.tolist())
    row_numbers = sheet.table.frame.index[first_row]
    cells_of_values: dict[int, Any] = {}
    added_rows: list[dict[str, Any]] = []
    for arm, value in zip(*inputs.from_observations, strict=True):
        cell = "failed" if np.isnan(value) else float(value)
        if arm in arms_with_values:
            row = sheet.table.frame.iloc[first_row[arm]].to_dict()
            added_rows.append({**row, SUGGESTED_COLUMN: "", value_column: cell})
        else:
            cells_of_values[int(row_numbers[arm])] = cell
            arms_with_values.add(arm)
    batch_numbers = {int(row_numbers[arm]): inputs.batch_number for arm in results.batch.rows}
    return {SUGGESTED_COLUMN: batch_numbers, value_column: cells_of_values}, added_rows


def batch_table(results: Results) -> pd.DataFrame:
    """The table of the batch, in the order of the picks: ids, conditions as in the sheet,
    predictions with their intervals, and empty columns of values and errors."""
    options, inputs, batch = results.options, results.inputs, results.batch
    sheet, empty = inputs.sheet, np.full(len(batch.rows), "", object)
    first = sheet.first_row[batch.rows]
    columns: dict[str, Any] = {SUGGESTED_COLUMN: np.full(len(batch.rows), inputs.batch_number)}
    columns[sheet.id_name] = inputs.candidates.ids[batch.rows]
    for name in sheet.table.names:
        if name not in (*columns, *PREDICTED_COLUMNS, options.value_column, options.error_column):
            columns[name] = sheet.table.frame[name].to_numpy()[first]
    if results.predicted is not None:
        chance = None if batch.chance is None else np.round(batch.chance, DIGITS)
        numbers = (*_rounded(*results.intervals(batch.rows)), chance)
        for name, column in zip(PREDICTED_COLUMNS, numbers, strict=True):
            if column is not None:
                columns[name] = column
    columns[options.value_column] = empty
    if options.error_column is not None:
        columns[options.error_column] = empty
    return pd.DataFrame(columns)


def _rounded(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """The numbers, rounded so that the width of an interval has DIGITS significant digits."""
    log_width = np.log10(np.maximum(high - low, np.finfo(float).tiny))
    columns = []
    for column in (mean, low, high):
        magnitude = np.log10(np.maximum(np.abs(column), np.finfo(float).tiny))
        digits = np.clip(np.floor(magnitude) - np.floor(log_width) + DIGITS, 1, 17).astype(int)
        columns.append(np.array([float(f"{x:.{n}g}") for x, n in zip(column, digits, strict=True)]))
    return columns


def score_table(results: Results) -> pd.DataFrame:
    """The table of all candidates: predictions with their intervals, the score of the acquisition,
    and the state (measured, failed, pending, excluded or suggested; empty for all others)."""
    inputs, batch = results.inputs, results.batch
    assert batch.scores is not None
    all_rows = np.arange(len(inputs.candidates.ids))
    columns: dict[str, Any] = {inputs.sheet.id_name: inputs.candidates.ids}
    if results.predicted is not None:
        numbers = _rounded(*results.intervals(all_rows))
        columns |= dict(zip(PREDICTED_COLUMNS[:3], numbers, strict=True))
    state = np.full(len(all_rows), "", object)
    measured = inputs.arms[results.observed]
    for rows, word in (
        (inputs.excluded, "excluded"),
        (inputs.pending, "pending"),
        (inputs.arms, "failed"),
        (measured, "measured"),
        (batch.rows, "suggested"),
    ):
        state[rows] = word
    score = [float(f"{x:.{SCORE_DIGITS}g}") for x in batch.scores.score]
    return pd.DataFrame({**columns, "score": score, "state": state})
