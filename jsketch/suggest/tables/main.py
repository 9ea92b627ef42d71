"""The command `jsketch-suggest`: the next batch of experiments for a table of candidates."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np
import pandas as pd

from jsketch import command_line
from jsketch.loops import saving
from jsketch.suggest import Model, Suggestion, suggest
from jsketch.suggest.tables import cells, messages, page
from jsketch.suggest.tables.candidates import PREDICTED, SUGGESTED
from jsketch.suggest.tables.inputs import Inputs, check_outputs, read, set_outputs
from jsketch.suggest.tables.options import ACQUISITIONS, parse


def run(options: argparse.Namespace) -> Suggestion:
    """Reads the tables, chooses a batch and writes it. Raises ValueError for a mistake in the
    tables."""
    began, key = time.perf_counter(), jax.random.key(options.seed)
    check_outputs(options)
    inputs = read(options)
    copy = set_outputs(options, inputs)
    batch = choose(options, inputs, key)
    gain = messages.found_gain(options, inputs, batch, key)
    print(messages.verdict(options, inputs, gain))
    lines = messages.describe_inputs(options, inputs)
    print("\n".join([*lines, *messages.describe_batch(options, inputs, batch)]))
    like = None if inputs.sheet is None else inputs.sheet.table
    saving.write(options.out, cells.content(options.out, table(options, inputs, batch), like))
    if options.report is not None:
        page.write(options, inputs, batch, gain, key)
        print(f"{options.report}: open it in a browser")
    if copy is not None and inputs.sheet is not None:
        saving.write(copy, cells.changed_copy(copy, inputs.sheet.table, _changes(inputs, batch)))
        print(f"{copy}: a copy of the sheet with the batch in the column '{SUGGESTED}'")
    print(f"{len(batch.rows)} candidates in {options.out}, {time.perf_counter() - began:.1f} s")
    return batch


def _changes(inputs: Inputs, batch: Suggestion) -> dict[str, dict[int, Any]]:
    """The number of the batch at the rows of its candidates, and values of other tables at the
    first row of their candidates."""
    sheet = inputs.sheet
    assert sheet is not None
    first = sheet.table.frame.index[np.unique(sheet.candidate_of, return_index=True)[1]]
    new = {
        int(first[arm]): "failed" if np.isnan(value) else float(value)
        for arm, value in zip(*inputs.added, strict=True)
        if arm not in sheet.done.arms
    }
    marks = {int(first[row]): inputs.number for row in batch.rows}
    return {SUGGESTED: marks, inputs.value_column: new}


def choose(
    options: argparse.Namespace, inputs: Inputs, key: Any, model: Model | None = None
) -> Suggestion:
    """The batch of `jsketch.suggest` with these options; without a `model` it is fitted."""
    return suggest(
        inputs.library,
        inputs.arms,
        inputs.values,
        errors=inputs.errors,
        pending=inputs.pending,
        exclude=inputs.excluded,
        same=inputs.candidates.same,
        costs=inputs.candidates.cost,
        budget=options.budget,
        failures=inputs.failures,
        batch=options.batch,
        acquisition=None if options.acquisition is None else ACQUISITIONS[options.acquisition],
        model=model,
        key=key,
    )


def table(options: argparse.Namespace, inputs: Inputs, batch: Suggestion) -> pd.DataFrame:
    """The batch in the order of its choice: ids, conditions as in the sheet, predictions with their
    intervals, and an empty column of values."""
    columns: dict[str, Any] = {SUGGESTED: np.full(len(batch.rows), inputs.number)}
    sheet = inputs.sheet
    assert sheet is not None
    columns[sheet.id_name] = inputs.candidates.ids[batch.rows]
    first = np.unique(sheet.candidate_of, return_index=True)[1]
    for name in sheet.table.names:
        if name not in (*columns, *PREDICTED, options.value_column, options.error_column):
            columns[name] = sheet.table.frame[name].to_numpy()[first[batch.rows]]
    if batch.model.fitted:
        numbers = (*messages.predictions(options, batch), batch.chance)
        for name, column in zip(PREDICTED, numbers, strict=True):
            if column is not None:
                columns[name] = column
    columns[options.value_column] = np.full(len(batch.rows), "", object)
    if options.error_column is not None:
        columns[options.error_column] = np.full(len(batch.rows), "", object)
    return pd.DataFrame(columns)


@command_line.command
def main() -> None:
    options = parse()
    command_line.set_up_jax()
    run(options)
