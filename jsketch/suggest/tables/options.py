"""The options of the command `jsketch-suggest`. Neither JAX nor pandas is imported here, so that
`--help` and mistakes in the options are answered at once."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import jsketch
from jsketch.suggest.tables.command_line import count, number_type

DESCRIPTION = """\
The next batch of experiments for a table of candidates.

    jsketch-suggest sheet.xlsx --value "Yield (%)" --batch 8

Each row of the sheet is a candidate: an id, and a column for each condition (numbers, or words,
which are categories). The column of values has a number where a candidate was measured, "failed"
where the experiment gave no result, and is empty elsewhere. Measured values may also be in further
tables (--observations). Tables are CSV, Excel (.xlsx) or Parquet (.parquet) files.

The batch is written to next.xlsx (or .csv) with an empty column of values. Fill in this column,
and pass the file to --observations. A copy of the sheet that marks the batch is written to the
folder of the batch; it has results in place of formulas.
"""

BATCH = 8  # size of a batch without --batch, if as many candidates are left
ACQUISITIONS = ("ucb", "ei", "thompson", "top-two", "best", "greedy")  # `results` has their objects
# columns that the command writes
SUGGESTED_COLUMN = "suggested_batch"  # the number of the batch that contains the candidate
PREDICTED_COLUMNS = ("predicted", "low_90", "high_90", "chance_of_success")
WRITTEN_COLUMNS = (SUGGESTED_COLUMN, *PREDICTED_COLUMNS)
FAILURE_WORDS = ("failed", "fail", "failure")  # cells of a column of values, in lower case


_at_least_0 = number_type(float, lambda x: 0 <= x < math.inf, "a finite number of at least 0")
_finite = number_type(float, math.isfinite, "a finite number")
_seed = number_type(int, lambda n: 0 <= n < 2**63, "from 0 to 2^63 - 1")


def _cell_meaning(text: str) -> tuple[str, str]:
    """(a cell in lower case, the value that the cell stands for) of CELL=VALUE."""
    cell, equals, value = text.rpartition("=")
    cell, value = cell.strip().casefold(), value.strip().casefold()
    if not equals or not cell:
        raise argparse.ArgumentTypeError(
            f"must be CELL=VALUE, such as n.d.=failed; {text!r} was given"
        )
    if value not in ("", *FAILURE_WORDS):
        _finite(value)
    return cell, value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The checked options; without `arguments`, those of the command line."""
    style = argparse.RawDescriptionHelpFormatter
    usage = "jsketch-suggest SHEET --value COLUMN --batch COUNT [options]"  # printed with errors
    parser = argparse.ArgumentParser("jsketch-suggest", usage, DESCRIPTION, formatter_class=style)
    add: Any = parser.add_argument_group("what everybody needs").add_argument
    add("candidates", type=Path, metavar="SHEET", help="table of the candidates")
    add("--value", dest="value_column", metavar="COLUMN",
        help="column of the measured values (default: 'value')")  # fmt: skip
    add("--batch", type=count, metavar="COUNT",
        help=f"candidates to suggest (default {BATCH}, or fewer if fewer are left)")  # fmt: skip

    add = parser.add_argument_group("the goal").add_argument
    add("--minimize", action="store_true", help="smaller values are better; default: larger ones")
    add("--target", type=_finite, metavar="VALUE", help="values closer to VALUE are better")
    add("--bounds", type=_finite, nargs=2, metavar=("LOW", "HIGH"),
        help="smallest and largest possible value, such as 0 100 for percent")  # fmt: skip
    add("--top", type=count, default=1, metavar="COUNT",
        help="find many of the COUNT best candidates (default: the best one)")  # fmt: skip
    add("--tolerance", type=_at_least_0, metavar="GAIN",
        help="stop if a larger gain is improbable (default 1%% of the values' range)")  # fmt: skip

    add = parser.add_argument_group("further files").add_argument
    add("--observations", type=Path, nargs="+", action="extend", default=[],
        metavar="FILE",
        help="tables of ids and values, such as earlier batches that were filled in")  # fmt: skip
    add("--also", type=Path, nargs="+", action="extend", default=[], metavar="FILE",
        help="sheets of earlier campaigns with the same columns")  # fmt: skip
    add("--pending", type=Path, metavar="FILE", help="ids of candidates that are being measured")
    add("--exclude", type=Path, metavar="FILE", help="ids of candidates that are never suggested")

    add = parser.add_argument_group("what is written").add_argument
    add("--out", type=Path, metavar="FILE",
        help="file of the batch (default next.csv or next.xlsx, like the sheet)")  # fmt: skip
    add("--report", type=Path, metavar="FILE", help="write a page for the browser, such as r.html")
    add("--all-scores", type=Path, metavar="FILE",
        help="write predictions and scores of all candidates, such as all.parquet")  # fmt: skip
    add("--overwrite", action="store_true", help="replace output files that exist")

    add = parser.add_argument_group("kinds of columns that are not recognized").add_argument
    for name, text in (
        ("--categories", "columns whose numbers are names"),
        ("--sequence", "columns of words of one length, in which each site is a category"),
        ("--protein", "sequences of amino acids, whose properties are features too"),
        ("--bits", "columns of fingerprints, which are words such as 0110"),
        ("--smiles", "columns of molecules as SMILES, which RDKit reads"),
        ("--ignore", "columns that are not conditions"),
    ):
        add(name, nargs="+", action="extend", default=[], metavar="COLUMN", help=text)

    add = parser.add_argument_group("limits of the batch").add_argument
    add("--replicates", action="store_true",
        help="measured candidates may be picked again; equal results count as repeats")  # fmt: skip
    text = "all candidates of the batch have the same value in COLUMN, such as a temperature"
    add("--same", metavar="COLUMN", help=text)
    text = "column of costs, by which expected improvement is divided; it is not a condition"
    add("--cost", metavar="COLUMN", help=text)
    text = "largest total cost of all measurements, finished and pending ones included"
    add("--budget", type=_at_least_0, metavar="COST", help=text)

    add = parser.add_argument_group("details").add_argument
    add("--id", dest="id_column", metavar="COLUMN",
        help="column of ids (default id, or a column of different words)")  # fmt: skip
    add("--error", dest="error_column", metavar="COLUMN",
        help="column of standard errors of the values; 0 for an exact value")  # fmt: skip
    add("--read", nargs="+", action="extend", type=_cell_meaning, default=[], metavar="CELL=VALUE",
        help="what cells of the values mean, such as n.d.=failed \"<5=0\" (VALUE is a number,"
        " failed, or empty if it was not measured)")  # fmt: skip
    add("--explain", action="store_true", help="print the reason for each candidate")
    add(
        "--acquisition",
        choices=ACQUISITIONS,
        help="how candidates are chosen (default: ucb, narrower while there are few values)",
    )
    add("--seed", type=_seed, default=0, help="seed of the random choices (default 0)")
    version = f"%(prog)s {jsketch.__version__}"
    add("--version", action="version", version=version, help="print the version and exit")
    options = parser.parse_args(arguments)
    options.value_given = options.value_column is not None
    options.value_column = options.value_column or "value"
    options.read = dict(options.read)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the program for options that contradict each other."""
    if options.id_column in WRITTEN_COLUMNS:
        parser.error(f"--id {options.id_column} is a column that the command writes: rename it")
    columns = (options.id_column, options.value_column, options.error_column)
    named = [name for name in columns if name is not None]
    if len(set(named)) < len(named):
        parser.error(
            f"--id, --value and --error must be different columns; given are {', '.join(named)}"
        )
    if options.bounds is not None and options.bounds[0] >= options.bounds[1]:
        parser.error("--bounds LOW HIGH: LOW must be below HIGH")
    if options.target is not None and options.minimize:
        parser.error("--target and --minimize are two goals: leave one out")
    if options.top > 1 and (options.acquisition is not None or options.cost is not None):
        parser.error("--top chooses its own acquisition: omit --acquisition and --cost")
    if options.also and (options.target is not None or options.cost is not None):
        parser.error("--also has values in any unit, and no costs: leave --target and --cost out")
    if options.also and (options.top > 1 or options.acquisition == "ei"):
        parser.error(
            "--top and --acquisition ei compare candidates with those of --also: leave one out"
        )
    if options.cost is None and options.budget is not None:
        parser.error("--budget needs costs: name their column with --cost")
    if options.cost is not None and options.acquisition not in (None, "ei"):
        parser.error("--cost divides an expected improvement: leave --acquisition out")
