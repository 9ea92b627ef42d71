"""The command-line options of `scripts/suggest`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from experiments import cli
from experiments.suggest.tables import BATCH_COLUMNS
from jsketch.suggest import acquisitions

DESCRIPTION = """\
The next batch of experiments for a library of candidates, from the evaluations made so far.

scripts/suggest --candidates library.csv --observations done.csv --batch 96 --out next.csv

library.csv: a column `id`, and a column for each feature: numbers, or words, which are categories.
done.csv: columns `id` and `value` (larger is better; an id may be repeated). Candidates that were
evaluated, or are in the table of --pending, are not suggested again. Tables may also be Excel
(.xlsx) or Parquet (.parquet) files. One value is maximised; several at once are not supported.
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
    """The acquisition of --acquisition and --width; None without them."""
    if options.width is not None:
        return acquisitions.UCB(options.width)
    return None if options.acquisition is None else ACQUISITIONS[options.acquisition]


def _at_least_0(text: str) -> float:
    """A finite number of at least 0, as the `type` of an option."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a finite number of at least 0; {text} was given")
    return number


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The checked options; of the command line without `arguments`."""
    parser = cli.parser(DESCRIPTION, "scripts/suggest")
    add = parser.add_argument
    add("--candidates", type=Path, required=True, help="table of the library")
    add("--observations", type=Path, help="table of the evaluations; without it there are none")
    add("--pending", type=Path, help="table of ids whose evaluation is pending")
    add("--exclude", type=Path, help="table of ids that are never suggested")
    add("--batch", type=cli.count, default=96, help="number of candidates (default 96)")
    add("--out", type=Path, default=Path("next.csv"), help="default next.csv; or .xlsx, .parquet")
    add("--overwrite", action="store_true", help="replace the files of --out and --report")
    add("--id-column", default="id", help="default id")
    add("--value-column", default="value", help="default value")
    add("--error-column", help="standard errors of the values; 0 where there is none")
    add("--minimize", action="store_true", help="smaller values are better")
    add("--explain", action="store_true", help="print the reason for each candidate")
    text = "write a page with the fit, the batch on a map, what matters, and when to stop"
    add("--report", type=Path, metavar="FILE", help=text)

    add = parser.add_argument_group("kinds of columns").add_argument
    for name, text in (
        ("--categories", "numbers that are names"),
        ("--sequence", "words of one length, each site a category"),
        ("--protein", "sequences of amino acids, with their properties"),
        ("--bits", "fingerprints, words such as 0110"),
        ("--smiles", "molecules, read by RDKit"),
        ("--ignore", "columns that are not features"),
    ):
        add(name, nargs="+", default=[], metavar="COLUMN", help=text)

    add = parser.add_argument_group("constraints of the batch").add_argument
    text = "the batch has one value of it, such as a temperature"
    add("--same", metavar="COLUMN", help=text)
    text = "the cost of an evaluation: expected improvement is divided by it; not a feature"
    add("--cost", metavar="COLUMN", help=text)
    text = "of all evaluations, those made and pending included; costs matter less as it is spent"
    add("--budget", type=_at_least_0, help=text)
    text = "of the cost, 0 to ignore it; default 1, with a budget the share that is left"
    add("--cost-exponent", type=_at_least_0, help=text)
    text = "an empty value is a failed evaluation: similar candidates are suggested less"
    add("--failures", action="store_true", help=text)

    add = parser.add_argument_group("model and choice").add_argument
    add("--acquisition", choices=ACQUISITIONS, help="how candidates are chosen (default ucb)")
    add("--width", type=_at_least_0, help="of ucb: larger explores more (default 2)")
    add("--lengthscale", type=cli.positive, help="of all scaled features; default: fitted")
    add("--no-scaling", action="store_true", help="numbers are not scaled to [0, 1]")
    add("--seed", type=int, default=0, help="of the random choices (default 0)")
    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the program for options that contradict each other."""
    if options.width is not None and options.acquisition not in (None, "ucb"):
        parser.error(f"--width is for ucb; --acquisition {options.acquisition} has none")
    if options.id_column in BATCH_COLUMNS:
        parser.error(
            f"--id-column {options.id_column} is a column of the table that is written: rename it"
        )
    named = [options.id_column, options.value_column, options.error_column]
    if options.observations is not None and len(set(named)) < len(named):
        parser.error(
            "--id-column, --value-column and --error-column must be three columns; given are"
            f" {', '.join(str(name) for name in named if name is not None)}"
        )
    if options.cost is None and (options.budget is not None or options.cost_exponent is not None):
        parser.error("--budget and --cost-exponent need costs: name their column with --cost")
    if options.cost is not None and (
        options.acquisition not in (None, "ei") or options.width is not None
    ):
        parser.error("--cost divides an expected improvement: leave --acquisition and --width out")
