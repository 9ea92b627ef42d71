"""What the options of `scripts/suggest` name: the tables that are read, and the files that are
written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.results import files
from experiments.suggest import cells, tables
from jsketch.suggest import Library, library

TABLES = ("candidates", "observations", "pending", "exclude")


class Inputs(NamedTuple):
    """What was read, larger values being better."""

    candidates: tables.Candidates
    library: Library
    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed evaluation
    pending: np.ndarray  # [p], rows of the candidates, each once
    excluded: np.ndarray  # [e], rows of the candidates, each once
    errors: np.ndarray | None = None  # [n], standard errors of the values


def kinds(options: argparse.Namespace) -> tables.Kinds:
    """The columns that are named as something else than numbers."""
    return tables.Kinds(
        options.categories, options.sequence, options.bits, options.protein, options.smiles
    )


def read(options: argparse.Namespace) -> Inputs:
    """Raises ValueError for what is wrong with the tables, and for a batch larger than the number
    of candidates that are left."""
    results = (options.value_column, *filter(None, [options.error_column]))
    roles = tables.Roles(options.id_column, results, options.cost, options.ignore)
    candidates = tables.read_candidates(options.candidates, roles, kinds(options), options.same)
    cells.check_ids(options.out, candidates.ids)
    scaled = library(candidates.features, candidates.columns, scaling=not options.no_scaling)
    done = tables.Evaluations(np.zeros(0, int), np.zeros(0))
    if options.observations is not None:
        done = tables.read_evaluations(
            options.observations,
            candidates,
            options.id_column,
            options.value_column,
            options.failures,
            options.error_column,
        )
    # a pending candidate that is observed meanwhile is pending no more
    pending = np.setdiff1d(_rows(options.pending, candidates, options), done.arms)
    excluded = _rows(options.exclude, candidates, options)
    count = len(candidates.ids)
    left = count - len(np.union1d(np.union1d(done.arms, pending), excluded))
    if options.batch > left:
        out = f", {len(excluded)} are excluded" if len(excluded) else ""
        raise ValueError(
            f"--batch {options.batch} is more than what is left: of {count}"
            f" candidates {len(np.unique(done.arms))} were evaluated and {len(pending)} are"
            f" pending{out}, {left} are left."
        )
    values = -done.values if options.minimize else done.values
    return Inputs(candidates, scaled, done.arms, values, pending, excluded, done.errors)


def _rows(
    path: Path | None, candidates: tables.Candidates, options: argparse.Namespace
) -> np.ndarray:
    if path is None:
        return np.zeros(0, int)
    return np.unique(tables.read_ids(path, candidates, options.id_column))


def check_out(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for a file that cannot be written,
    is a table to read, or exists, unless --overwrite is given."""
    cells.check_package(options.out)
    if options.out.suffix.lower() == ".xlsm":
        raise ValueError(f"--out {options.out}: a workbook with macros is not written; take .xlsx.")
    for option in ("out", "report"):
        out = getattr(options, option)
        if out is None:
            continue
        for name in TABLES:
            table = getattr(options, name)
            if table is not None and table.resolve() == out.resolve():
                raise ValueError(
                    f"--{option} {out} is the table of --{name}, which it would replace: name"
                    " another file."
                )
        files.check_new(out, options.overwrite)
    if options.report is not None and options.report.resolve() == options.out.resolve():
        raise ValueError(f"--report and --out are both {options.out}: name two files.")
