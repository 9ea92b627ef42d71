"""`scripts/suggest`: the next batch of experiments for a library of candidates (see --help)."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import pandas as pd

from experiments import cli
from experiments.results import files
from experiments.suggest import cells, messages, page
from experiments.suggest.inputs import Inputs, check_outputs, read
from experiments.suggest.options import acquisition_of, parse
from experiments.suggest.tables import BATCH_COLUMNS, Candidates
from jsketch.suggest import Model, Suggestion, suggest


def run(options: argparse.Namespace) -> Suggestion:
    """Reads the tables, chooses a batch and writes it. Raises ValueError for a mistake in the
    tables."""
    began, key = time.perf_counter(), jax.random.key(options.seed)
    check_outputs(options)
    inputs = read(options)
    print("\n".join(messages.describe_inputs(options, inputs)))
    batch = choose(options, inputs, key)
    for line in messages.describe_batch(options, inputs, batch):
        print(line)
    write(options, inputs.candidates, batch)
    if options.report is not None:
        page.write(options, inputs, batch, key)
        print(f"{options.report}: open it in a browser")
    print(f"{len(batch.rows)} candidates in {options.out}, {time.perf_counter() - began:.1f} s")
    return batch


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
        cost_exponent=options.cost_exponent,
        failures=options.failures,
        batch=options.batch,
        acquisition=acquisition_of(options),
        lengthscale=options.lengthscale if model is None else None,
        model=model,
        key=key,
    )


def write(options: argparse.Namespace, candidates: Candidates, batch: Suggestion) -> None:
    """Writes the batch in the order of its choice; means have the sign of the user's values."""
    numbers = (messages.sign(options) * batch.mean, batch.std, batch.chance)
    columns = {options.id_column: candidates.ids[batch.rows]}
    for name, column in zip(BATCH_COLUMNS, numbers, strict=True):
        if column is not None:
            columns[name] = column
    files.write(options.out, cells.content(options.out, pd.DataFrame(columns)))


@cli.command
def main() -> None:
    options = parse()
    cli.set_up_jax()
    run(options)


if __name__ == "__main__":
    main()
