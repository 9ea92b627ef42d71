"""The arms at hand while a batch is chosen, and bounds of the scores of all others; on the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FREE = np.iinfo(np.int32).max  # the number in a slot without an arm


class Table(NamedTuple):
    """Some arms, in the order of their numbers."""

    number: np.ndarray  # [n] int32
    points: np.ndarray  # [n, d]
    mean: np.ndarray  # [n]
    variance: np.ndarray  # [n], at the start of the batch
    # [n], upper bounds of the current upper confidence bounds
    score: np.ndarray
    own: np.ndarray  # [n] bool, arms that were pulled, or may be the first: they always stay


def joined(*tables: Table) -> Table:
    """The arms of several tables; no number is in two of them."""
    columns = Table(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    order = np.argsort(columns.number, kind="stable")
    return Table(*(column[order] for column in columns))


def split(table: Table, most: int) -> tuple[Table, Table]:
    """(its own arms and the `most` largest scores of the others, the rest); of scores that tie
    those of the lowest numbers stay."""
    order = np.lexsort((table.number, -table.score, ~table.own))
    stay = np.zeros(len(order), bool)
    stay[order[: most + int(table.own.sum())]] = True
    kept, rest = (Table(*(column[part] for column in table)) for part in (stay, ~stay))
    return kept, rest


def raised(bounds: np.ndarray, rest: Table, chunk: int) -> np.ndarray:
    """The bounds of the chunks [C], of so many arms each, with the scores of arms that are at hand
    no more."""
    bounds = bounds.copy()
    np.maximum.at(bounds, rest.number // chunk, rest.score)
    return bounds


def filled(table: Table, slots: int) -> Table:
    """The table with that many rows: free ones repeat its first arm, with a score that is never
    chosen."""
    free = slots - len(table.number)
    return Table(
        number=np.pad(table.number, (0, free), constant_values=FREE),
        points=np.concatenate([table.points, np.repeat(table.points[:1], free, 0)]),
        mean=np.pad(table.mean, (0, free)),
        variance=np.pad(table.variance, (0, free)),
        score=np.pad(table.score, (0, free), constant_values=-np.inf),
        own=np.pad(table.own, (0, free)),
    )
