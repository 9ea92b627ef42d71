"""A library whose rows are read by several processes (`scripts/suggest --processes`).

What a column is (numbers, words, which letters a site has) depends on all of its rows: processes
show each other rows that have every word, every letter and the extremes of the numbers, and read
their own rows together with those.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd

from experiments.suggest import cells, inputs, tables
from experiments.suggest.inputs import Inputs
from jsketch.suggest import Library, Model, Suggestion, library, parts
from jsketch.suggest.data import checked
from jsketch.suggest.parts import Processes
from jsketch.types import PRNGKey


class Split(NamedTuple):
    """What a process has read."""

    part: parts.Part
    library: Library  # of its rows, scaled as a whole
    candidates: tables.Candidates  # their ids, without features
    numbers: np.ndarray  # [k] int, rows of the library that all processes know
    inputs: Inputs  # with those alone as candidates


def read(options: argparse.Namespace, processes: Processes) -> Split:
    """`inputs.read`; raises ValueError on all processes."""
    part, found, own, labels = _own(options, processes)
    _check_ids(options, processes, found.ids[part.own], labels[part.own])
    named = processes.agreed(lambda: _named(options))
    here = part.own & (np.isin(found.ids, named) | (part.rows == 0))
    numbers, small, known = _together(processes, part, found, own, here)
    given = processes.agreed(lambda: inputs.of_candidates(options, small, known, part.total))
    return Split(part, own, found, numbers, given)


def suggest(
    options: argparse.Namespace,
    processes: Processes,
    split: Split,
    model: Model,
    acquisition: Any,
    key: PRNGKey,
) -> tuple[Inputs, Suggestion]:
    """(what was read and chosen, the batch), the same on all processes; rows of both count the
    candidates that are in them."""
    given, numbers = split.inputs, split.numbers
    batch = parts.suggest(
        processes,
        split.part,
        split.library.features,
        checked(given.library, None, given.arms, given.values, given.pending, True, given.errors),
        numbers,
        model,
        excluded=numbers[given.excluded],
        batch=options.batch,
        acquisition=acquisition,
        failures=options.failures,
        key=key,
    )
    ends = batch.certificate
    named = [*numbers, *batch.rows, *((ends.best, ends.rival) if ends else ())]
    here = split.part.own & np.isin(split.part.rows, named)
    after, small, known = _together(processes, split.part, split.candidates, split.library, here)
    places = np.searchsorted(after, numbers)
    given = given._replace(
        candidates=small,
        library=known,
        arms=places[given.arms],
        pending=places[given.pending],
        excluded=places[given.excluded],
    )
    if ends:
        best, rival = np.searchsorted(after, (ends.best, ends.rival)).tolist()
        batch = batch._replace(certificate=ends._replace(best=best, rival=rival))
    return given, batch._replace(rows=np.searchsorted(after, batch.rows))


def _own(
    options: argparse.Namespace, processes: Processes
) -> tuple[parts.Part, tables.Candidates, Library, Any]:
    """(the part, its ids without features, its features, its rows in a spreadsheet)."""
    table, part = processes.agreed(lambda: _own_rows(options, processes))
    shown = processes.agreed(lambda: table.iloc[_witnesses(options, table)])
    others = pd.concat(processes.gather(shown))
    others = others[~others.index.isin(table.index) & ~others.index.duplicated()]
    before, after = others.index < table.index[0], others.index > table.index[-1]
    at = int(before.sum()) + part.rows - part.rows[0]
    table = pd.concat([others[before], table, others[after]])

    def parsed() -> tuple[tables.Candidates, np.ndarray]:
        kinds = inputs.kinds(options)
        found = tables.read_candidates(options.candidates, options.id_column, kinds, table=table)
        whole = library(found.features, found.columns, scaling=not options.no_scaling)
        # the features as they were read are needed no more
        found = found._replace(ids=found.ids[at], features=found.features[:0].copy())
        return found, np.asarray(whole.features)[at]

    found, features = processes.agreed(parsed)
    return part, found, Library(jnp.asarray(features), tuple(found.columns)), table.index[at]


def _own_rows(options: argparse.Namespace, processes: Processes) -> tuple[pd.DataFrame, parts.Part]:
    found: list[parts.Part] = []

    def piece(count: int) -> slice:
        found.append(parts.part(count, processes.number, processes.total))
        return slice(int(found[0].rows[0]), int(found[0].rows[-1]) + 1)

    asked = [name for group in inputs.kinds(options) for name in group]
    return cells.read(options.candidates, [options.id_column, *asked], piece), found[0]


def _witnesses(options: argparse.Namespace, table: pd.DataFrame) -> list[int]:
    """Places of rows that say what the columns are, as far as these rows can."""
    kinds, places = inputs.kinds(options), [0]
    for name in table.columns.drop(options.id_column):
        cell = table[name]
        if name in kinds.sequences or name in kinds.proteins:
            words = cells.text(cell)
            # words of other lengths, or else every letter of every site
            places += np.unique(words.str.len(), return_index=True)[1].tolist()
            if words.str.len().nunique() == 1:
                for site in np.array([list(word) for word in words]).T:
                    places += np.unique(site, return_index=True)[1].tolist()
        elif name in kinds.bits or name in kinds.smiles:
            words = cells.text(cell).to_numpy(str)
            places += np.flatnonzero(words != words[0])[:1].tolist()
        else:
            values = pd.to_numeric(cell, errors="coerce").to_numpy(float)
            if name in kinds.categories or np.isnan(values).all():
                words = cells.text(cell).to_numpy(str)
                places += np.unique(words, return_index=True)[1].tolist()
                # a second row of one word: not every row has another
                places += np.flatnonzero(pd.Series(words).duplicated())[:1].tolist()
            else:
                places += [int(np.nanargmin(values)), int(np.nanargmax(values))]
    return sorted(set(places))


def _check_ids(
    options: argparse.Namespace, processes: Processes, ids: np.ndarray, labels: Any
) -> None:
    """Raises ValueError for an id that two processes have."""
    marks = pd.util.hash_array(ids.astype(object), categorize=False)
    twice = [np.zeros(0, marks.dtype)]
    # a share of them at a time
    for share in range(processes.total):
        heard = np.sort(np.concatenate(processes.gather(marks[marks % processes.total == share])))
        twice.append(heard[1:][heard[1:] == heard[:-1]])

    def check() -> None:
        mine = np.flatnonzero(np.isin(marks, np.concatenate(twice)))
        if mine.size:
            raise ValueError(
                f"{options.candidates}, row {labels[mine[0]]}, column '{options.id_column}': the id"
                f" '{ids[mine[0]]}' is that of a row of another process, too."
            )

    processes.agreed(check)


def _named(options: argparse.Namespace) -> np.ndarray:
    """Ids of all other tables."""
    found = [np.zeros(0, "U1")]
    for path in (options.observations, options.pending, options.exclude):
        if path is not None:
            column = cells.read(path, [options.id_column])[options.id_column]
            found.append(cells.text(column).to_numpy(str))
    return np.unique(np.concatenate(found))


def _together(
    processes: Processes,
    part: parts.Part,
    candidates: tables.Candidates,
    own: Library,
    here: np.ndarray,
) -> tuple[np.ndarray, tables.Candidates, Library]:
    """(numbers, candidates, library) of the rows that the processes have `here` [R], in order."""
    mine = part.rows[here], candidates.ids[here], np.asarray(own.features)[here]
    rows, ids, features = (
        np.concatenate(column) for column in zip(*processes.gather(mine), strict=True)
    )
    order = np.argsort(rows)
    known = Library(jnp.asarray(features[order]), own.columns)
    return rows[order], candidates._replace(ids=ids[order], features=features[order]), known
