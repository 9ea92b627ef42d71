"""The next batch of experiments for a library of candidates, from the evaluations made so far.

scripts/suggest --candidates library.csv --observations done.csv --batch 96 --out next.csv

library.csv: a column `id`, and one numeric column a feature. done.csv: columns `id` and `value`
(larger is better; an id may be repeated). Candidates that were evaluated, or are named by
--pending, are not suggested again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments import cli
from experiments.results import files
from experiments.suggest import plan_line, tables
from jsketch import Arms, kernels
from jsketch.bandits import FixedBKB
from jsketch.suggest import Model, Suggestion, fit, standardized, suggest
from jsketch.suggest.batch import LARGEST_DICTIONARY


class Tables(NamedTuple):
    """What was read, larger values being better."""

    candidates: tables.Candidates
    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n]
    pending: np.ndarray  # [p], rows of the candidates, each once


def run(options: argparse.Namespace) -> Suggestion:
    """Reads, fits, asks and writes. Raises ValueError for what the tables have wrong."""
    began = time.perf_counter()
    check_out(options)
    tables = read(options)
    announce(options, tables)
    features, scaling, key = (
        tables.candidates.features,
        not options.no_scaling,
        jax.random.key(options.seed),
    )
    model = fit(
        features,
        tables.arms,
        tables.values,
        lengthscale=options.lengthscale,
        scaling=scaling,
        key=key,
    )
    say(options, model, len(tables.values))
    batch = suggest(
        features,
        tables.arms,
        tables.values,
        pending=tables.pending,
        batch=options.batch,
        width=options.width,
        scaling=scaling,
        model=model,
        key=key,
    )
    if batch.dictionary_wanted > batch.dictionary_size:
        print(
            f"the sketch asks for {batch.dictionary_wanted} inducing points;"
            f" {batch.dictionary_size} of them are kept"
        )
    write(options, tables.candidates, batch)
    print(
        f"{len(batch.rows)} candidates in {options.out}, dictionary of {batch.dictionary_size}"
        f" points, width {batch.width:.2f}, {time.perf_counter() - began:.1f} s"
    )
    return batch


def read(options: argparse.Namespace) -> Tables:
    """The tables of the options. Raises ValueError for what is wrong with them, and for a batch
    larger than what is left."""
    candidates = tables.read_candidates(options.candidates, options.id_column)
    done, pending = tables.Evaluations(np.zeros(0, int), np.zeros(0)), np.zeros(0, int)
    if options.observations is not None:
        done = tables.read_evaluations(
            options.observations, candidates, options.id_column, options.value_column
        )
    if options.pending is not None:
        pending = np.unique(tables.read_ids(options.pending, candidates, options.id_column))
    left = len(candidates.ids) - len(np.union1d(done.arms, pending))
    if options.batch > left:
        raise ValueError(
            f"--batch {options.batch} is more than what is left: of {len(candidates.ids)}"
            f" candidates {len(np.unique(done.arms))} were evaluated and {len(pending)} are"
            f" pending, {left} are left."
        )
    return Tables(candidates, done.arms, -done.values if options.minimize else done.values, pending)


def announce(options: argparse.Namespace, tables: Tables) -> None:
    """Prints what was read and, where it takes long, the plan."""
    features = (
        tables.candidates.features
        if options.no_scaling
        else standardized(tables.candidates.features)
    )
    said = (
        "as they are"
        if options.no_scaling
        else "scaled to mean 0 and standard deviation 1 (--no-scaling: as they are)"
    )
    print(
        f"{len(features)} candidates, {features.shape[1]} features, {said}; {len(tables.values)}"
        " evaluations"
    )
    # before the fit, so with a kernel of its shape and not of its lengthscale, and the most
    # inducing points there can be
    most = min(len(np.unique(tables.arms)), LARGEST_DICTIONARY)
    likely = FixedBKB(
        kernels.Gaussian(1.0),
        batch=options.batch,
        max_pending=len(tables.pending),
        capacity=max(32, most),
    )
    plan_line.announce(
        [likely],
        Arms(jnp.asarray(features)),
        options.batch,
        1,
        1,
        what="plan of the batch, after the fit",
        dictionary_size=max(most, 1),
    )


def say(options: argparse.Namespace, model: Model, count: int) -> None:
    """Prints the model of `count` values."""
    if not model.fitted:
        print(
            f"{count} values are too few, or too alike, to fit: lengthscale"
            f" {model.lengthscale:.3g}, noise ratio {model.ratio:g}"
        )
    how = (
        "given"
        if options.lengthscale
        else "by marginal likelihood"
        if model.fitted
        else "the default"
    )
    print(
        f"lengthscale {model.lengthscale:.3g} ({how}), noise {model.noise_std:.3g} and signal"
        f" {model.scale:.3g} in units of the values"
    )


def check_out(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for a file that cannot be written
    or is a table to read."""
    out = options.out
    files.check(out)
    for name in ("candidates", "observations", "pending"):
        table = getattr(options, name)
        if table is not None and table.resolve() == out.resolve():
            raise ValueError(
                f"--out {out} is the table of --{name}, which it would replace: name another file."
            )


def write(options: argparse.Namespace, candidates: tables.Candidates, batch: Suggestion) -> None:
    """The batch in the order of choice; scores and means have the sign of the values."""
    sign = -1 if options.minimize else 1
    table = pd.DataFrame(
        {
            options.id_column: candidates.ids[batch.rows],
            "score": sign * batch.score,
            "mean": sign * batch.mean,
            "standard_deviation": batch.std,
            "dictionary_size": batch.dictionary_size,
            "width": batch.width,
        }
    )
    files.write(options.out, table.to_csv(index=False).encode())


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/suggest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--candidates", type=Path, required=True, help="table of the library")
    parser.add_argument(
        "--observations", type=Path, help="table of the evaluations; none yet without it"
    )
    parser.add_argument("--pending", type=Path, help="table whose ids are pending")
    parser.add_argument(
        "--batch", type=cli.count, default=96, help="evaluations to suggest (default 96)"
    )
    parser.add_argument("--out", type=Path, default=Path("next.csv"))
    parser.add_argument(
        "--lengthscale", type=float, help="in units of the scaled features; fitted without it"
    )
    parser.add_argument(
        "--width",
        type=float,
        default=2.0,
        help="standard deviations of optimism: more explore more (default 2)",
    )
    parser.add_argument("--minimize", action="store_true", help="smaller values are better")
    parser.add_argument("--no-scaling", action="store_true", help="take the features as they are")
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--value-column", default="value")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if not 0 <= options.width < np.inf:
        parser.error(f"--width must be a finite number of at least 0; {options.width} was given")
    if options.lengthscale is not None and not (0 < options.lengthscale < np.inf):
        parser.error(
            f"--lengthscale must be a finite number above 0; {options.lengthscale} was given"
        )
    return options


@cli.line
def main() -> None:
    options = parse()
    cli.set_up_jax()
    run(options)


if __name__ == "__main__":
    main()
