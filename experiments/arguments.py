"""What command lines share: `type=count`."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A whole number of at least 1; argparse says which option it was that is not."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; {number} was given")
    return number
