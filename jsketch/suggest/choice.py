"""The compiled choice of a batch: the posterior of all candidates, a shortlist, an acquisition's
picks from it, and the certificate."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch.suggest import posterior
from jsketch.suggest.acquisitions import Chance, JointPosterior, Terms, expected_best, rated
from jsketch.suggest.constraints import Limits
from jsketch.suggest.posterior import Observed, Posterior
from jsketch.types import PRNGKey

# candidates that a batch is chosen from, or four times the batch, but not more than LONGEST, whose
# covariance has 2 GB (with costs the cheapest included); twice as many as the largest batch
SHORTLIST = 1024
LONGEST = 16384
LARGEST_BATCH = LONGEST // 2
GROUPS = 8  # values of one column whose batches are compared
WORST = -1.0  # of a failure before there is any value: one standard deviation below the mean


class Found(NamedTuple):
    """A batch of B and the certificate, in units of the signal."""

    rows: Array  # [B] int32, -1 for none
    mean: Array  # [B]
    variance: Array  # [B]
    gap: Array  # [], the largest upper bound less the largest lower bound
    best: Array  # [] int32, row of the largest lower bound
    rival: Array  # [] int32, row of the largest upper bound


class Arrays(NamedTuple):
    """What is known of A candidates, in padded slots."""

    features: Array  # [A, d]
    arms: Array  # [N] int
    known: Array  # [N] bool
    values: Array  # [N], of mean 0, in units of the signal
    error: Array  # [N], variances of the values' own errors, in those units
    pending: Array  # [P] int
    waiting: Array  # [P] bool
    inducing: Array  # [M] int; none where the posterior is exact
    included: Array  # [M] bool
    taken: Array  # [A] bool, not to be picked
    open: Array  # [A] bool, those that the certificate is of


def belief_of(
    kernel: Any, arrays: Arrays, ratio: Array, pending: bool
) -> tuple[Posterior, Observed]:
    """The posterior with or without the pending evaluations, and the slots of both."""
    features, arms, known, values, error, later, waiting, inducing, included, _, _ = arrays
    if not pending:
        later, waiting = later[:0], waiting[:0]
    no, yes = jnp.zeros_like(waiting), jnp.zeros_like(known)
    zeros = jnp.zeros(len(later), values.dtype)
    observed = Observed(
        features[jnp.concatenate([arms, later])],
        jnp.concatenate([values, zeros]),
        jnp.concatenate([known, no]),
        jnp.concatenate([yes, waiting]),
        jnp.concatenate([error, zeros]),
    )
    if inducing.size:
        return posterior.condition_sketched(
            kernel, observed, features[inducing], included, ratio
        ), observed
    return posterior.condition(kernel, observed, ratio), observed


def listed(batch: int, count: int, priced: bool = False) -> int:
    """How many of so many candidates are on the shortlist; with costs the cheapest, `batch` of
    them, come on top."""
    return min(max(SHORTLIST, 4 * batch), LONGEST - batch if priced else LONGEST, count)


@partial(jax.jit, static_argnames=("batch", "members"))
def picked(
    kernel: Any,
    arrays: Arrays,
    limits: Limits,
    ratio: Array,
    width: Array,
    acquisition: Any,
    key: PRNGKey,
    batch: int,
    members: int = 0,
) -> Found:
    """One program for all rounds of equal padded sizes; `members` is the size of the largest
    group, of the constraint that a batch is of one."""
    features, taken = arrays.features, arrays.taken
    ratio = jnp.asarray(ratio, features.dtype)
    belief, observed = belief_of(kernel, arrays, ratio, True)
    mean, variance = posterior.predict(belief, features)
    index = jnp.concatenate([arrays.arms, arrays.pending])
    there = observed.known | observed.pending
    threshold = jnp.max(jnp.where(there, mean[index], -jnp.inf))
    threshold = jnp.where(there.any(), threshold, 0)
    worst = jnp.min(jnp.where(observed.known, mean[index], jnp.inf))
    worst = jnp.where(observed.known.any(), worst, WORST)
    chance = None if limits.success is None else Chance(limits.success, worst)
    terms = Terms(chance, limits.price)
    shuffle_key, choose_key, rate_key = jax.random.split(key, 3)
    # ties in any order: tables are often sorted
    shuffled = jax.random.permutation(shuffle_key, features.shape[0])
    out = taken if limits.price is None else taken | (limits.price.cost > limits.price.left)
    score = rated(acquisition, mean, variance, threshold, terms)
    score = jnp.where(out, -jnp.inf, score)[shuffled]

    def choose(score: Array, free: Array, most: int) -> tuple[Array, Array]:
        """(rows [batch], what they are worth []) of the `most` largest scores."""
        short = shuffled[lax.top_k(score, most)[1]]
        there = free[short]
        if limits.price is not None:
            # the cheapest as well: the batch ends where not even they are paid for
            price = jnp.where(jnp.isneginf(score), jnp.inf, limits.price.cost[shuffled])
            cheap = shuffled[lax.top_k(-price, min(batch, features.shape[0]))[1]]
            there = jnp.concatenate([there, free[cheap] & ~jnp.isin(cheap, short)])
            short = jnp.concatenate([short, cheap])
        some, covariance = posterior.joint(belief, features[short])
        part = there, belief.ratio, threshold, terms.of(short)
        outlook = JointPosterior(some, covariance, *part)
        picks = acquisition.choose(outlook, batch, choose_key)
        rows = short[picks]
        if limits.price is not None:
            rows = jnp.where(picks >= 0, rows, -1)
        if limits.groups is None:
            return rows, jnp.zeros(())
        return rows, expected_best(outlook, picks, rate_key)

    most = listed(batch, features.shape[0], limits.price is not None)
    if limits.groups is None:
        rows = choose(score, ~taken, most)[0]
    else:
        (label, large), most = limits.groups, min(most, members)
        groups = _best_groups(score, label[shuffled], large, batch)

        def of_group(group: Array) -> tuple[Array, Array]:
            inside = jnp.where(label[shuffled] == group, score, -jnp.inf)
            return choose(inside, ~taken & (label == group), most)

        batches, worth = lax.map(of_group, groups)
        rows = batches[
            jnp.argmax(jnp.where(large[groups], jnp.nan_to_num(worth, nan=-1.0), -jnp.inf))
        ]
    certain = mean, variance
    if arrays.pending.size:
        # pending evaluations have brought nothing yet that a bound could rest on
        certain = posterior.predict(belief_of(kernel, arrays, ratio, False)[0], features)
    return Found(rows, mean[rows], variance[rows], *_gap(*certain, arrays.open, width))


def bounds(mean: Array, variance: Array, open: Array, width: Array) -> tuple[Array, Array]:
    """(upper bounds, lower bounds) [A] that a certificate is of; -inf for those it is not of."""
    reach = width * jnp.sqrt(variance)
    return jnp.where(open, mean + reach, -jnp.inf), jnp.where(open, mean - reach, -jnp.inf)


def _gap(mean: Array, variance: Array, open: Array, width: Array) -> tuple[Array, Array, Array]:
    """(gap, best, rival) of `Found`."""
    upper, lower = bounds(mean, variance, open, width)
    gap = jnp.max(upper) - jnp.max(lower)
    return gap, jnp.argmax(lower).astype(jnp.int32), jnp.argmax(upper).astype(jnp.int32)


def _best_groups(score: Array, label: Array, large: Array, batch: int) -> Array:
    """[min(G, GROUPS)] int, the groups that are large enough and whose `batch` largest scores have
    the largest mean."""
    order = jnp.lexsort((-score, label))
    sizes = jnp.bincount(label, length=len(large))
    first = jnp.cumsum(sizes) - sizes
    rank = jnp.arange(len(score)) - first[label[order]]
    # -inf times zero is none
    best = jnp.where(rank < batch, jnp.maximum(score[order], -1e30), 0)
    total = jnp.zeros(len(large), score.dtype).at[label[order]].add(best)
    return lax.top_k(jnp.where(large, total, -jnp.inf), min(len(large), GROUPS))[1]
