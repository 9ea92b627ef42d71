"""Campaigns over a recorded library: a first batch, random or the design of `jsketch.suggest`, then
batches of `jsketch.suggest`.

Every round runs two programs, the fit and the choice, which are compiled for a few padded sizes.
The campaigns of all seeds share these programs.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments import engine
from experiments.pools.libraries import Pool
from experiments.results import store
from jsketch.suggest import suggest


class Campaign(NamedTuple):
    """One seed's evaluations in order."""

    seed: int
    arms: np.ndarray  # [n]
    values: np.ndarray  # [n], means of the repeats where evaluations are noisy
    seconds: np.ndarray | float = np.nan  # [], CPU time with compilation


def play(
    pool: Pool, sizes: Sequence[int], seed: int, acquisition: Any = None, design: bool = False
) -> Campaign:
    """A campaign in batches of `sizes`. The first one is random, so that it is that of all methods,
    or with `design` that of `suggest`. acquisition: None is the default."""
    readings, options = pool.readings(seed), dict(acquisition=acquisition)
    arms = np.random.default_rng(seed).permutation(len(pool.values))[: 0 if design else sizes[0]]
    for index, size in enumerate(sizes if design else sizes[1:]):
        key = jax.random.fold_in(jax.random.key(seed), index)
        suggestion = suggest(pool.library, arms, readings[arms], batch=size, key=key, **options)
        arms = np.append(arms, suggestion.rows)
    return Campaign(seed, arms, pool.values[arms])


def play_all(
    make: Callable[[int], Campaign],
    seeds: Sequence[int],
    path_of: Callable[[int], Path],
    workers: int = 1,
) -> list[Campaign]:
    """The campaigns `make(seed)` of all seeds, in worker processes if `workers` is above 1. Where
    the file `path_of(seed)` exists, the campaign is read from it; others are saved when they
    end."""
    missing = [seed for seed in seeds if not path_of(seed).exists()]
    for seed, best in engine.each(
        partial(_play_and_save, make, path_of), missing, engine.Workers(workers)
    ):
        print(f"seed {seed}: best {best:.4g}", flush=True)
    return [Campaign(seed, **store.read_saved(path_of(seed))) for seed in seeds]


def _play_and_save(
    make: Callable[[int], Campaign], path_of: Callable[[int], Path], seed: int
) -> float:
    """Saves the campaign of a seed; returns the largest value."""
    start = time.process_time()
    campaign = make(seed)
    seconds = np.array(time.process_time() - start)
    arrays = dict(arms=campaign.arms, values=campaign.values, seconds=seconds)
    store.write_npz(path_of(seed), arrays)
    return float(np.nanmax(campaign.values))


def best_so_far(campaigns: Sequence[Campaign], at: Sequence[int]) -> np.ndarray:
    """[S, len(at)], the largest value of the first n evaluations for each n of `at`."""
    values = np.stack([campaign.values for campaign in campaigns])
    best = np.fmax.accumulate(values, axis=1)
    return best[:, np.asarray(at) - 1]


def top_found(
    campaigns: Sequence[Campaign], values: np.ndarray, top: int, at: Sequence[int]
) -> np.ndarray:
    """[S, len(at)], the share of the `top` largest values [A] that are among the first n
    evaluations, for each n of `at`. Of candidates that tie for the last places, at most as many
    count as there are such places (MolPAL's rule)."""
    descending = np.sort(np.where(np.isnan(values), -np.inf, values))[::-1]
    cut = descending[top - 1]
    places = int((descending[:top] == cut).sum())  # of the `top` for candidates that tie

    def share(part: np.ndarray) -> float:
        n_above = int((part > cut).sum())
        return (n_above + min(int((part == cut).sum()), places)) / top

    return np.array([[share(c.values[:n]) for n in at] for c in campaigns])
