"""`suggest`: every part's scores, one shortlist of them, and the batch from it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch.suggest import batch as batches
from jsketch.suggest import choice, feasibility, posterior
from jsketch.suggest.acquisitions import UCB, Chance, Outlook, Terms, rated
from jsketch.suggest.batch import Suggestion
from jsketch.suggest.data import Data, kernel_of
from jsketch.suggest.model import Model
from jsketch.suggest.parts.processes import Processes
from jsketch.suggest.parts.rows import Part
from jsketch.types import PRNGKey


def suggest(
    processes: Processes,
    part: Part,
    features: Array,
    data: Data,
    numbers: np.ndarray,
    model: Model,
    *,
    excluded: np.ndarray,
    batch: int,
    acquisition: Any = None,
    failures: bool = False,
    key: PRNGKey,
) -> Suggestion:
    """`suggest.suggest` of the library, the same on all processes; of arguments that were checked.

    features   [R, d] of the part, in the scale of the whole library
    data       of a small library: some rows of the large one, in its order, with all that were
               evaluated or are pending
    numbers    [k] int, the rows of the small library in the large one
    excluded   [e] int, rows of the large one
    """
    kernel = kernel_of(data.library, model.lengthscale)
    known, size = processes.by_first(lambda: batches.evaluated(kernel, data, model, key))
    none = jnp.zeros(0, bool)
    whole: Any = (data.library.features, *map(jnp.asarray, known), none, none)
    arrays = choice.Arrays(*whole)
    width: Any
    acquisition, width = batches.asked(data, UCB() if acquisition is None else acquisition)
    success = None
    if failures:
        failed_key = jax.random.fold_in(key, batches.FAILED)
        success = feasibility.chances(kernel, data, failed_key, features)
    # the third key rates the batches of groups, which `choice.picked` alone has
    shuffle_key, key, _ = jax.random.split(jax.random.fold_in(key, batches.BATCH), 3)
    rank = _ranks(shuffle_key, part)

    found, certain = _predicted(kernel, arrays, model.ratio, features)
    done, pending = numbers[data.arms[data.observed]], numbers[data.pending]
    failed = numbers[data.arms[~data.observed]]
    threshold, worst = _levels(processes, part, found[0], done, pending)
    terms = Terms() if success is None else Terms(Chance(success, worst))
    free = part.own & ~np.isin(part.rows, np.concatenate([done, failed, pending, excluded]))
    most = choice.listed(batch, part.total)
    at, score = _listed(acquisition, *found, threshold, terms, free, rank, min(most, len(free)))
    at = np.asarray(at)
    # rows whose number another block has come last
    at, score = at[part.own[at]], np.asarray(score)[part.own[at]]
    some = (*found, features, free) if success is None else (*found, features, free, success)
    seen = (score, rank[at], part.rows[at], *(np.asarray(array)[at] for array in some))
    score, ranks, rows, *listed = (
        np.concatenate(a) for a in zip(*processes.gather(seen), strict=True)
    )
    short = np.lexsort((ranks, -score))[:most]

    open: Any = part.own & ~np.isin(part.rows, np.setdiff1d(np.append(excluded, failed), done))
    gap, best, rival = _certificate(processes, part, _bounds(*certain, open, width))

    def picked() -> tuple[Any, Any]:
        mean, variance, x, there, *chance = (array[short] for array in listed)
        terms = Terms(Chance(jnp.asarray(chance[0]), worst)) if chance else Terms()
        picks = _picked(
            kernel, arrays, model.ratio, acquisition, key, x, there, threshold, terms, batch
        )
        picks = np.asarray(picks)
        numbers: Any = (rows[short][picks], mean[picks], variance[picks], gap, best, rival)
        return choice.Found(*numbers), chance[0][picks] if chance else None

    found, chance = processes.by_first(picked)
    return batches.in_units(found, chance, model, width, size)


def _ranks(key: PRNGKey, part: Part) -> np.ndarray:
    """[R] int, the places of the part's rows in the order of ties; what is not its own comes after
    all others."""
    order = np.asarray(jax.random.permutation(key, part.total))
    places = np.empty_like(order)
    places[order] = np.arange(part.total, dtype=order.dtype)
    return np.where(part.own, places[part.rows], part.total)


def _levels(
    processes: Processes, part: Part, mean: Array, done: np.ndarray, pending: np.ndarray
) -> tuple[Array, Array]:
    """(threshold, worst) of all parts, as `choice.picked` has them."""
    mine = np.asarray(mean)[np.isin(part.rows, done) & part.own]
    waiting = np.asarray(mean)[np.isin(part.rows, pending) & part.own]
    said = np.append(mine, waiting).max(initial=-np.inf), mine.min(initial=np.inf)
    largest, least = (np.array(level) for level in zip(*processes.gather(said), strict=True))
    threshold = largest.max() if np.isfinite(largest).any() else 0.0
    worst = least.min() if np.isfinite(least).any() else choice.WORST
    return jnp.asarray(threshold, mean.dtype), jnp.asarray(worst, mean.dtype)


def _certificate(
    processes: Processes, part: Part, bounds: tuple[Array, Array]
) -> tuple[float, int, int]:
    """(gap, best, rival) of all parts; of bounds that tie the first row."""
    tops = []
    for bound in map(np.asarray, bounds):
        # rows are in order, so that the first is the lowest
        at = int(bound.argmax())
        tops.append((bound[at], -int(part.rows[at])))
    (upper, rival), (lower, best) = (max(top) for top in zip(*processes.gather(tops), strict=True))
    return upper - lower, -best, -rival


# compiled as in `choice.picked`, where a product and a sum are rounded once
_bounds = jax.jit(choice.bounds)


@jax.jit
def _predicted(kernel: Any, arrays: choice.Arrays, ratio: Array, features: Array) -> Any:
    """(mean, variance) [R] each, and the same without the pending evaluations."""
    ratio = jnp.asarray(ratio, features.dtype)
    found = posterior.predict(choice.belief_of(kernel, arrays, ratio, True)[0], features)
    if not arrays.pending.size:
        return found, found
    certain = choice.belief_of(kernel, arrays, ratio, False)[0]
    return found, posterior.predict(certain, features)


@partial(jax.jit, static_argnames="most")
def _listed(
    acquisition: Any,
    mean: Array,
    variance: Array,
    threshold: Array,
    terms: Terms,
    free: Array,
    rank: Array,
    most: int,
) -> tuple[Array, Array]:
    """(places in the part [most], scores) of the largest scores, -inf for what is not free."""
    score = rated(acquisition, mean, variance, threshold, terms)
    order = jnp.argsort(rank)
    largest, at = lax.top_k(jnp.where(free, score, -jnp.inf)[order], most)
    return order[at], largest


@partial(jax.jit, static_argnames="batch")
def _picked(
    kernel: Any,
    arrays: choice.Arrays,
    ratio: Array,
    acquisition: Any,
    key: PRNGKey,
    x: Array,
    free: Array,
    threshold: Array,
    terms: Terms,
    batch: int,
) -> Array:
    """[batch] picks from a shortlist x [k, d]."""
    belief = choice.belief_of(kernel, arrays, jnp.asarray(ratio, x.dtype), True)[0]
    mean, covariance = posterior.joint(belief, x)
    outlook = Outlook(mean, covariance, free, belief.ratio, threshold, terms)
    return acquisition.choose(outlook, batch, key)
