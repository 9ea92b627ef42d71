"""`scripts/suggest`: the next batch of experiments for a library of candidates (`options` has the
help)."""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import pandas as pd

from experiments import cli
from experiments.results import files
from experiments.suggest import cells, page, words
from experiments.suggest.inputs import Inputs, check_out, read
from experiments.suggest.options import acquisition_of, parse
from experiments.suggest.tables import WRITTEN, Candidates
from jsketch.suggest import Model, Suggestion, fit, suggest


def run(options: argparse.Namespace) -> Suggestion:
    """Reads the tables, fits a model, chooses a batch and writes it. Raises ValueError for what is
    wrong with the tables."""
    began, key = time.perf_counter(), jax.random.key(options.seed)
    check_out(options)
    inputs = read(options)
    words.announce(options, inputs)
    model = fitted(options, inputs, key)
    words.say(options, model, inputs)
    batch = suggested(options, inputs, model, key)
    words.say_batch(options, inputs, batch)
    if options.explain:
        words.explain(options, inputs, batch)
    write(options, inputs.candidates, batch)
    if options.report is not None:
        page.write(options, inputs, batch, key)
        print(f"{options.report} opens in any browser")
    print(f"{len(batch.rows)} candidates in {options.out}, {time.perf_counter() - began:.1f} s")
    return batch


def fitted(options: argparse.Namespace, inputs: Inputs, key: Any) -> Model:
    """The model of the values."""
    return fit(
        inputs.library,
        inputs.arms,
        inputs.values,
        errors=inputs.errors,
        lengthscale=options.lengthscale,
        key=key,
    )


def suggested(options: argparse.Namespace, inputs: Inputs, model: Model, key: Any) -> Suggestion:
    """The batch from all candidates."""
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
        model=model,
        key=key,
    )


def write(options: argparse.Namespace, candidates: Candidates, batch: Suggestion) -> None:
    """The batch in the order of choice; means have the sign of the values."""
    columns: dict[str, Any] = {
        options.id_column: candidates.ids[batch.rows],
        WRITTEN[0]: words.sign(options) * batch.mean,
        WRITTEN[1]: batch.std,
    }
    if batch.chance is not None:
        columns[WRITTEN[2]] = batch.chance
    files.write(options.out, cells.content(options.out, pd.DataFrame(columns)))


@cli.line
def main() -> None:
    options = parse()
    cli.set_up_jax()
    run(options)


if __name__ == "__main__":
    main()
