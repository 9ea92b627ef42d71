"""Reads the tables that the options of `scripts/suggest` name, and checks its output files."""

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
    """The tables of one call. Values are negated with --minimize, so that larger is better."""

    candidates: tables.Candidates
    library: Library
    arms: np.ndarray  # [n], rows of the candidates
    values: np.ndarray  # [n], NaN for a failed evaluation
    pending: np.ndarray  # [p], distinct rows of the candidates without an evaluation
    excluded: np.ndarray  # [e], distinct rows of the candidates
    errors: np.ndarray | None = None  # [n], standard errors of the values


def read(options: argparse.Namespace) -> Inputs:
    """Reads and checks the tables. Raises ValueError for a mistake in a table."""
    results = (options.value_column, *filter(None, [options.error_column]))
    roles = tables.Roles(options.id_column, results, options.cost, options.ignore)
    kinds = tables.Kinds(
        options.categories, options.sequence, options.bits, options.protein, options.smiles
    )
    candidates = tables.read_candidates(options.candidates, roles, kinds, options.same)
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

    def rows(path: Path | None) -> np.ndarray:
        if path is None:
            return np.zeros(0, int)
        return np.unique(tables.read_ids(path, candidates, options.id_column))

    pending, excluded = np.setdiff1d(rows(options.pending), done.arms), rows(options.exclude)
    values = -done.values if options.minimize else done.values
    return Inputs(candidates, scaled, done.arms, values, pending, excluded, done.errors)


def check_outputs(options: argparse.Namespace) -> None:
    """Raises ValueError or OSError, before anything is computed, for an output file that cannot be
    written, is one of the tables, or exists (without --overwrite)."""
    cells.check_package(options.out)
    if options.out.suffix.lower() == ".xlsm":
        raise ValueError(f"--out {options.out}: workbooks with macros are read only; use .xlsx.")
    for option in ("out", "report"):
        out = getattr(options, option)
        if out is None:
            continue
        for name in TABLES:
            table = getattr(options, name)
            if table is not None and table.resolve() == out.resolve():
                raise ValueError(
                    f"--{option} {out} is the table of --{name} and would replace it: name another"
                    " file."
                )
        files.check_new(out, options.overwrite)
    if options.report is not None and options.report.resolve() == options.out.resolve():
        raise ValueError(f"--report and --out are both {options.out}: name two files.")
