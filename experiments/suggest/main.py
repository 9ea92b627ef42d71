"""The next batch of experiments for a library of candidates, from the evaluations made so far.

scripts/suggest --candidates library.csv --observations done.csv --batch 96 --out next.csv

library.csv: a column `id`, and one column a feature: numbers, or words, which are categories.
done.csv: columns `id` and `value` (larger is better; an id may be repeated). Candidates that were
evaluated, or are named by --pending, are not suggested again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from experiments import cli
from experiments.results import files
from experiments.suggest import tables
from jsketch.suggest import Library, Model, Suggestion, acquisitions, fit, library, suggest

ACQUISITIONS = {
    "ucb": acquisitions.UCB(),
    "ei": acquisitions.ExpectedImprovement(),
    "thompson": acquisitions.Thompson(),
    "top-two": acquisitions.TopTwo(),
    "best": acquisitions.ProbabilityOfBest(),
    "greedy": acquisitions.UCB(0.0),
}
MATTER = 4  # columns that are named as those that matter most


class Tables(NamedTuple):
    """What was read, larger values being better."""

    candidates: tables.Candidates
    library: Library
    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n]
    pending: np.ndarray  # [p], rows of the candidates, each once


def run(options: argparse.Namespace) -> Suggestion:
    """Reads, fits, asks and writes. Raises ValueError for what the tables have wrong."""
    began = time.perf_counter()
    check_out(options)
    tables = read(options)
    announce(options, tables)
    key = jax.random.key(options.seed)
    model = fit(
        tables.library, tables.arms, tables.values, lengthscale=options.lengthscale, key=key
    )
    say(options, model, tables)
    batch = suggest(
        tables.library,
        tables.arms,
        tables.values,
        pending=tables.pending,
        batch=options.batch,
        acquisition=acquisition(options),
        model=model,
        key=key,
    )
    if batch.dictionary_size < len(tables.values):
        print(
            f"a sketch of {batch.dictionary_size} inducing points stands for {len(tables.values)}"
            " evaluations"
        )
    write(options, tables.candidates, batch)
    print(f"{len(batch.rows)} candidates in {options.out}, {time.perf_counter() - began:.1f} s")
    return batch


def read(options: argparse.Namespace) -> Tables:
    """The tables of the options. Raises ValueError for what is wrong with them, and for a batch
    larger than what is left."""
    candidates = tables.read_candidates(
        options.candidates,
        options.id_column,
        tables.Kinds(options.categories, options.sequence, options.bits),
    )
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
    values = -done.values if options.minimize else done.values
    known = library(candidates.features, candidates.columns, scaling=not options.no_scaling)
    return Tables(candidates, known, done.arms, values, pending)


def acquisition(options: argparse.Namespace) -> Any:
    """What --acquisition and --width ask for; the default without them."""
    if options.width is not None:
        return acquisitions.UCB(options.width)
    return None if options.acquisition is None else ACQUISITIONS[options.acquisition]


def announce(options: argparse.Namespace, tables: Tables) -> None:
    """Prints what was read."""
    kinds = [group.kind for group in tables.candidates.columns]
    words = dict(numbers="numbers", category="categories", bits="fingerprints")
    counts = [f"{kinds.count(kind)} {words[kind]}" for kind in words if kind in kinds]
    scaled = "as they are" if options.no_scaling else "scaled to 0 to 1 (--no-scaling: as they are)"
    said = f", numbers {scaled}" if "numbers" in kinds else ""
    print(
        f"{len(tables.candidates.ids)} candidates, {', '.join(counts)}{said};"
        f" {len(tables.values)} evaluations"
    )


def say(options: argparse.Namespace, model: Model, tables: Tables) -> None:
    """Prints the model of the values in plain words."""
    if not model.fitted:
        print(f"{len(tables.values)} values are too few, or too alike, to fit: defaults are taken")
        return
    how = "given" if options.lengthscale else "fitted"
    names = np.array(tables.candidates.names)
    order = np.argsort(model.lengthscale, kind="stable")[:MATTER]
    most = ", ".join(f"{names[i]} ({model.lengthscale[i]:.2g})" for i in order)
    print(
        f"noise {model.noise_std:.3g} and signal {model.scale:.3g} in units of the values;"
        f" lengthscales ({how}; the shorter, the more a column matters): {most}"
        + (", ..." if len(names) > MATTER else "")
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
    """The batch in the order of choice; means have the sign of the values."""
    sign = -1 if options.minimize else 1
    table = pd.DataFrame(
        {
            options.id_column: candidates.ids[batch.rows],
            "mean": sign * batch.mean,
            "standard_deviation": batch.std,
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
        "--categories", nargs="+", default=[], help="columns of numbers that are names"
    )
    parser.add_argument(
        "--sequence", nargs="+", default=[], help="columns of equally long words, site by site"
    )
    parser.add_argument(
        "--bits", nargs="+", default=[], help="columns of fingerprints, words such as 0110"
    )
    parser.add_argument(
        "--acquisition", choices=ACQUISITIONS, help="how candidates are chosen (default ucb)"
    )
    parser.add_argument(
        "--width", type=float, help="of ucb: more explore more (default 2), 0 is greedy"
    )
    parser.add_argument(
        "--lengthscale", type=float, help="of all scaled features; fitted without it"
    )
    parser.add_argument("--minimize", action="store_true", help="smaller values are better")
    parser.add_argument("--no-scaling", action="store_true", help="take the features as they are")
    parser.add_argument("--id-column", default="id")
    parser.add_argument("--value-column", default="value")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.width is not None and options.acquisition not in (None, "ucb"):
        parser.error(f"--width is of ucb; --acquisition {options.acquisition} has none")
    if options.width is not None and not 0 <= options.width < np.inf:
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
