"""The factors of a table: their levels, and their main effects according to the model.

A factor is a column of conditions, or a site of a sequence, with at most MAX_LEVELS levels.
Numbers with more values are cut into RANGES ranges of equal width. The main effect of a level is
the average of the function over the candidates of the library if the factor of all of them is set
to that level (a partial dependence: Friedman. Greedy function approximation. Ann. Stat. 2001).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from jsketch.suggest.mixed import groups_of
from jsketch.suggest.prediction import average_predictions
from jsketch.suggest.tables.inputs import Inputs
from jsketch.suggest.tables.messages import short_number
from jsketch.suggest.tables.results import Results

MAX_LEVELS = 24  # largest number of levels of a factor
RANGES = 12  # number of ranges into which a column of numbers with more values is cut
MAX_FACTORS = 12  # factors whose effects are computed, those with the shortest lengthscales
BACKGROUND = 128  # largest number of candidates over which an effect is averaged
LARGEST_INPUT = 2**24  # largest size of `sets` in `effects`, unless 8 candidates need a larger one
LONGEST_LABEL = 24  # largest number of characters in a label


class Factor(NamedTuple):
    """A factor of L levels in a library of A candidates."""

    name: str
    labels: list[str]  # [L], as in the sheet
    level: np.ndarray  # [A] int, the level of each candidate
    columns: np.ndarray  # int, the columns of the factor among the features
    examples: np.ndarray  # [L] int, a candidate of each level
    numbers: np.ndarray | None  # [L], the levels as numbers; None for categories and letters
    lengthscale_index: int


class Effect(NamedTuple):
    """The main effect of the L levels of a factor, in units of the values."""

    factor: Factor
    mean: np.ndarray  # [L]
    std: np.ndarray  # [L]


def factors(inputs: Inputs) -> list[Factor]:
    """The factors in the order of the table."""
    table, first_row, candidates = inputs.sheet.table, inputs.sheet.first_row, inputs.candidates
    factor_of: dict[str, Factor | None] = {}
    for name, group in zip(candidates.names, groups_of(candidates.columns), strict=True):
        columns, index = np.r_[group.columns], group.lengthscales.start
        block = candidates.features[:, columns]
        # site[0] is the name of a site, such as sequence[3]
        site = re.match(r"(?P<column>.*)\[(?P<position>\d+)\]", name)
        if name in table.names:
            cells, numeric = table.levels(name).iloc[first_row], group.kind == "numbers"
            factor_of[name] = _factor(name, cells, block, columns, numeric, index)
        elif site is not None and site[0] in factor_of:  # a property of the letter at that site
            letter = factor_of[site[0]]
            if letter is not None:
                factor_of[site[0]] = letter._replace(columns=np.append(letter.columns, columns))
        elif site is not None and site["column"] in table.names:
            letters = table.text(site["column"]).iloc[first_row].str[int(site["position"]) - 1]
            factor_of[name] = _factor(name, letters, block, columns, numeric=False, index=index)
    return [factor for factor in factor_of.values() if factor is not None]


def _factor(
    name: str, cells: pd.Series, block: np.ndarray, columns: np.ndarray, numeric: bool, index: int
) -> Factor | None:
    """The factor of A candidates from its cells [A], its features `block` [A, width] and the index
    of its lengthscale. None if the factor has too many levels."""
    if not numeric:
        level, labels = pd.factorize(cells, sort=True)
        if len(labels) > MAX_LEVELS:
            return None
        examples, limit = np.unique(level, return_index=True)[1], LONGEST_LABEL
        labels = [x if len(x) <= limit else x[: limit - 1] + "\u2026" for x in labels]
        return Factor(name, labels, level, columns, examples, None, lengthscale_index=index)
    values, examples, level = np.unique(block[:, 0], return_index=True, return_inverse=True)
    if len(values) > MAX_LEVELS:
        ends = np.linspace(values[0], values[-1], RANGES + 1)
        bins = np.clip(np.searchsorted(ends, block[:, 0], side="right") - 1, 0, RANGES - 1)
        occupied, level = np.unique(bins, return_inverse=True)
        distance = np.abs(block[:, 0] - (ends[:-1] + ends[1:])[bins] / 2)
        examples = pd.Series(distance).groupby(level).idxmin().to_numpy()
        values = block[examples, 0]
        labels = [f"{ends[i]:.3g} to {ends[i + 1]:.3g}" for i in occupied]
    else:
        labels = [short_number(cell) for cell in cells.iloc[examples]]
    return Factor(name, list(labels), level.ravel(), columns, examples, values, index)


def effects(results: Results) -> list[Effect]:
    """The main effects, sorted from the largest spread of their means to the smallest; [] before a
    model is fitted."""
    inputs, model = results.inputs, results.model
    if results.predicted is None:
        return []
    chosen = [factor for factor in factors(inputs) if len(factor.labels) > 1]
    chosen.sort(key=lambda factor: model.lengthscale[factor.lengthscale_index])
    chosen = chosen[:MAX_FACTORS]
    ends = np.cumsum([len(factor.labels) for factor in chosen], dtype=int)
    if not chosen:
        return []
    n_levels = int(ends[-1])
    features = np.asarray(inputs.library.features)
    count = min(BACKGROUND, max(LARGEST_INPUT // (n_levels * features.shape[1]), 8), len(features))
    rows = np.random.default_rng(0).permutation(len(features))[:count]
    sets = np.repeat(features[rows][None], n_levels, axis=0)
    for factor, part in zip(chosen, np.split(sets, ends[:-1]), strict=True):
        part[:, :, factor.columns] = features[factor.examples][:, None, factor.columns]
    mean, std = average_predictions(
        inputs.library, inputs.arms, inputs.measured, model, sets, errors=inputs.errors,
        key=results.key,
    )  # fmt: skip
    parts = zip(chosen, np.split(mean, ends[:-1]), np.split(std, ends[:-1]), strict=True)
    return sorted((Effect(*part) for part in parts), key=lambda effect: -np.ptp(effect.mean))
