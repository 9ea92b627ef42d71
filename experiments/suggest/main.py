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
from experiments.suggest.inputs import check_out, read
from experiments.suggest.options import WRITTEN, acquisition_of, parse
from experiments.suggest.tables import Candidates
from jsketch.suggest import Suggestion, fit, suggest


def run(options: argparse.Namespace) -> Suggestion:
    """Reads, fits, asks and writes. Raises ValueError for what the tables have wrong."""
    began = time.perf_counter()
    check_out(options)
    inputs = read(options)
    words.announce(options, inputs)
    key = jax.random.key(options.seed)
    model = fit(
        inputs.library,
        inputs.arms,
        inputs.values,
        errors=inputs.errors,
        lengthscale=options.lengthscale,
        key=key,
    )
    words.say(options, model, inputs)
    batch = suggest(
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
    words.say_batch(options, inputs, batch)
    if options.explain:
        words.explain(options, inputs, batch)
    write(options, inputs.candidates, batch)
    if options.report is not None:
        page.write(options, inputs, batch, key)
        print(f"{options.report} opens in any browser")
    print(f"{len(batch.rows)} candidates in {options.out}, {time.perf_counter() - began:.1f} s")
    return batch


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
