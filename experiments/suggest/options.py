"""The options of `scripts/suggest`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from experiments import cli
from experiments.suggest.tables import WRITTEN
from jsketch.suggest import acquisitions

DESCRIPTION = """\
The next batch of experiments for a library of candidates, from the evaluations made so far.

scripts/suggest --candidates library.csv --observations done.csv --batch 96 --out next.csv

library.csv: a column `id`, and one column a feature: numbers, or words, which are categories.
done.csv: columns `id` and `value` (larger is better; an id may be repeated). Candidates that were
evaluated, or are named by --pending, are not suggested again. Tables may be Excel (.xlsx) or
Parquet (.parquet) files too. One value is maximised; several at once are not.
"""

ACQUISITIONS = {
    "ucb": acquisitions.UCB(),
    "ei": acquisitions.ExpectedImprovement(),
    "thompson": acquisitions.Thompson(),
    "top-two": acquisitions.TopTwo(),
    "best": acquisitions.ProbabilityOfBest(),
    "greedy": acquisitions.UCB(0.0),
}


def acquisition_of(options: argparse.Namespace) -> Any:
    """What --acquisition and --width ask for; the default without them."""
    if options.width is not None:
        return acquisitions.UCB(options.width)
    return None if options.acquisition is None else ACQUISITIONS[options.acquisition]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/suggest",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--candidates", type=Path, required=True, help="table of the library")
    parser.add_argument(
        "--observations", type=Path, help="table of the evaluations; none yet without it"
    )
    parser.add_argument("--pending", type=Path, help="table whose ids are pending")
    parser.add_argument("--exclude", type=Path, help="table whose ids are never suggested")
    parser.add_argument(
        "--batch", type=cli.count, default=96, help="evaluations to suggest (default 96)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("next.csv"),
        help="default next.csv; Excel and Parquet by the end of its name",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the files of --out and --report"
    )
    parser.add_argument(
        "--categories", nargs="+", default=[], help="columns of numbers that are names"
    )
    parser.add_argument(
        "--sequence", nargs="+", default=[], help="columns of equally long words, site by site"
    )
    parser.add_argument(
        "--protein",
        nargs="+",
        default=[],
        help="columns of equally long words of amino acids, site by site with their properties",
    )
    parser.add_argument(
        "--bits", nargs="+", default=[], help="columns of fingerprints, words such as 0110"
    )
    parser.add_argument(
        "--smiles", nargs="+", default=[], help="columns of molecules, which RDKit reads"
    )
    parser.add_argument(
        "--ignore", nargs="+", default=[], help="columns of the library that are not features"
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
    parser.add_argument(
        "--error-column", help="of the observations: a standard error for every value; 0 is none"
    )
    parser.add_argument("--seed", type=int, default=0)
    _add_constraints(parser)
    _add_output(parser)
    options = parser.parse_args(arguments)
    if options.width is not None and options.acquisition not in (None, "ucb"):
        parser.error(f"--width is of ucb; --acquisition {options.acquisition} has none")
    if options.width is not None and not 0 <= options.width < np.inf:
        parser.error(f"--width must be a finite number of at least 0; {options.width} was given")
    if options.lengthscale is not None and not (0 < options.lengthscale < np.inf):
        parser.error(
            f"--lengthscale must be a finite number above 0; {options.lengthscale} was given"
        )
    if options.id_column in WRITTEN:
        parser.error(
            f"--id-column {options.id_column} is a column of the table that is written: rename it"
        )
    named = [options.id_column, options.value_column, options.error_column]
    if options.observations is not None and len(set(named)) < len(named):
        parser.error(
            "--id-column, --value-column and --error-column name three columns; given are"
            f" {', '.join(str(name) for name in named if name is not None)}"
        )
    if options.cost is None and (options.budget is not None or options.cost_exponent is not None):
        parser.error("--budget and --cost-exponent are of costs: name their column with --cost")
    if options.cost is not None and (
        options.acquisition not in (None, "ei") or options.width is not None
    ):
        parser.error("--cost divides an expected improvement: leave --acquisition and --width out")
    for name in ("budget", "cost_exponent"):
        value = getattr(options, name)
        if value is not None and not 0 <= value < np.inf:
            said = "--" + name.replace("_", "-")
            parser.error(f"{said} must be a finite number of at least 0; {value} was given")
    return options


def _add_constraints(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what a laboratory asks for")
    group.add_argument(
        "--same", metavar="COLUMN", help="the batch has one value of it, such as a temperature"
    )
    group.add_argument(
        "--cost",
        metavar="COLUMN",
        help="what an evaluation costs; it is no feature. Expected improvement is divided by it",
    )
    group.add_argument(
        "--budget",
        type=float,
        help="of all evaluations, those made and pending included; the more of it is spent, the"
        " less costs matter",
    )
    group.add_argument(
        "--cost-exponent", type=float, help="of the cost, 0 to ignore it; without it 1 or falling"
    )
    group.add_argument(
        "--failures",
        action="store_true",
        help="an empty value is an evaluation that failed: candidates like it are suggested less",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--explain", action="store_true", help="print why each candidate is suggested"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write a page with the fit, the batch on a map, what matters, and when to stop",
    )
