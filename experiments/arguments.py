"""What command lines share: `type=count`, and where results go."""

from __future__ import annotations

import argparse
from pathlib import Path


def count(text: str) -> int:
    """A whole number of at least 1; argparse says which option it was that is not."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; {number} was given")
    return number


def add_out_folder(parser: argparse.ArgumentParser) -> None:
    """--out, --overwrite and --keep of an experiment (`experiments.outputs`)."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    finished = parser.add_mutually_exclusive_group()
    finished.add_argument("--overwrite", action="store_true", help="replace other results in that folder")
    finished.add_argument(
        "--keep", action="store_true", help="go on with runs of another commit, where nothing else differs"
    )


def add_out_file(parser: argparse.ArgumentParser) -> None:
    """--out and --overwrite of a benchmark (`experiments.files.check_new`)."""
    parser.add_argument("--out", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--overwrite", action="store_true", help="replace that file")
