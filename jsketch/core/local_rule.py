"""The local rule, by which a batch that Lemma 1 would end may continue (BBKB Lemma 3).

By Cauchy-Schwarz, a pick increases the local bound of an arm at most as much as the global bound.
Local bounds are therefore computed only where they may exceed C.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import numerics
from jsketch.core.posterior import Posterior, embed, features
from jsketch.core.working_set import Batch, add_picks, stop
from jsketch.numerics import (
    count,
    gram_product,
    matmul,
    positions,
    sum_over,
    take,
    trip_count,
    while_any,
)

# arms whose bounds are computed together, and distinct picks whose terms are added together; an
# accelerator takes larger steps
BOUNDS_TOGETHER, BOUNDS_ACCELERATOR = 256, 1_024
TERMS_TOGETHER, TERMS_ACCELERATOR = 4, 16


def add_picks_local(
    posterior: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    x: Array,
    width: Array,
    batch: Batch,
    ratio: ArrayLike,
    limit: Array,
    *,
    guaranteed: bool = False,
    strict: bool = True,
) -> Batch:
    """The batch after picks until 1 + sum_s k~(x,x_s)^2 / variance(x) over its picks s exceeds
    the ratio C for some arm x (Lemma 3), or it has `limit` [] picks.

    guaranteed  the larger of the sums for the covariance k~ and for its embedded part is bounded,
                as the proof needs (THEORY 5.4); False: the sum for k~, as in the paper
    strict      False: the bounds are first computed one pick after the global bound exceeds C, as
                in the authors' code (THEORY 5.5)
    """
    add = partial(add_picks, posterior, kernel, x, width)
    bounds = jnp.ones(len(x), x.dtype)
    if not strict:
        batch = add(batch, ratio, limit)
        batch = add(batch, jnp.inf, jnp.minimum(batch.size + 1, limit))

    def goes_on(carry: tuple[Batch, Array, Array]) -> Array:
        return ~carry[2]

    def until_check(carry: tuple[Batch, Array, Array]) -> tuple[Batch, Array, Array]:
        """Picks until some local bound may exceed C, and the bounds then."""
        batch, bounds, done = carry
        batch = add(batch, ratio, jnp.where(done, 0, limit))
        bounds = local_bounds(
            posterior, kernel, regularization, x, batch, bounds, ratio, guaranteed
        )
        largest = jnp.max(bounds)
        ends = stop(largest, ratio) | (batch.size >= limit)
        return batch._replace(bound=largest), bounds, done | ends

    start = batch, bounds, jnp.zeros((), bool)
    return while_any(goes_on, until_check, start)[0]


def local_bounds(
    posterior: Posterior,
    kernel: Any,
    regularization: ArrayLike,
    x: Array,
    batch: Batch,
    bounds: Array,
    ratio: ArrayLike,
    guaranteed: bool,
) -> Array:
    """The local bounds [A], of which `bounds` [A] plus the global bound's growth are upper bounds:
    the sum over the whole batch replaces those that may exceed C."""
    growth = jnp.maximum(batch.bound - jnp.max(bounds), 0)
    bounds = bounds + growth
    exceeds = bounds > ratio
    together = BOUNDS_TOGETHER, TERMS_TOGETHER
    if numerics.on_accelerator():
        together = BOUNDS_ACCELERATOR, TERMS_ACCELERATOR
    n_arms, n_picks = (min(size, len(x)) for size in together)
    # the terms of repeated picks are equal: each is computed once and multiplied by its pulls
    in_batch = jnp.arange(len(batch.arms), dtype=jnp.int32) < batch.size
    place = jnp.where(in_batch, batch.arms, len(x))
    pulls = jnp.zeros(len(x), x.dtype).at[place].add(1, mode="drop")

    def terms_of(index: Array, valid: Array) -> Array:
        picked, weight = take(x, index), jnp.where(valid, take(pulls, index), 0)
        z, u = features(posterior, kernel, picked), embed(posterior, kernel, picked)
        # k_S(x) @ embedded is u(x).u(x_s); k(x,x_s) / lam - k_S(x) @ explained is k~(x,x_s)
        embedded = matmul(posterior.dual, u.T)
        explained = matmul(posterior.root, z.T) / regularization - embedded
        columns = jnp.concatenate([explained, embedded], axis=1) if guaranteed else explained

        def terms(arms: Array, products: Array) -> Array:
            covariance = kernel.gram(arms, picked) / regularization - products[:, :n_picks]
            terms = [matmul(jnp.square(covariance), weight)]
            if guaranteed:
                terms.append(matmul(jnp.square(products[:, n_picks:]), weight))
            return jnp.stack(terms, axis=1)

        def add_arms(j: Array, sums: Array) -> Array:
            index = positions(exceeds, n_arms, j * n_arms)
            arms = take(x, jnp.minimum(index, len(x) - 1))
            products = gram_product(kernel, arms, posterior.points, columns, posterior.rank)
            return sums.at[index].add(terms(arms, products), mode="drop")

        if posterior.gram is not None:  # the terms of all arms take less time than to find some
            gram = posterior.gram
            needed = trip_count((count(exceeds) > 0).astype(jnp.int32))
            return lax.fori_loop(0, needed, lambda *_: terms(x, matmul(gram, columns)), zeros)
        return lax.fori_loop(0, trip_count(-(-count(exceeds) // n_arms)), add_arms, zeros)

    zeros = jnp.zeros((len(x), 2 if guaranteed else 1), x.dtype)
    statistic = sum_over(pulls > 0, n_picks, terms_of, zeros).max(1)
    variance = posterior.variance
    exact = 1 + jnp.where(variance > 0, statistic / jnp.where(variance > 0, variance, 1), 0)
    return jnp.where(exceeds, exact, bounds)
