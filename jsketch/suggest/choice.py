"""The compiled part of `suggest`: the posterior of all candidates, a shortlist of them, and the
picks of an acquisition from the shortlist."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch.suggest import posterior
from jsketch.suggest.acquisitions import (
    Chance,
    JointPosterior,
    Price,
    Terms,
    expected_best,
    scores_of,
)
from jsketch.suggest.posterior import Evaluations, Posterior
from jsketch.types import PRNGKey

# The shortlist has max(SHORTLIST, 4 * batch, 4 * top) candidates (`top` of `ProbabilityOfBest`)
# and, with costs, the `batch` cheapest; at most LARGEST_SHORTLIST, whose covariance takes 2 GB.
SHORTLIST = 1024
LARGEST_SHORTLIST = 16384
LARGEST_BATCH = LARGEST_SHORTLIST // 2
COMPARED_GROUPS = 8  # largest number of groups whose batches are compared
# value of a failure while no value is observed: one standard deviation below the mean
PRIOR_WORST = -1.0


class Groups(NamedTuple):
    """The groups of the candidates. All candidates of a batch are from one group."""

    label: Array  # [A] int, the group of each candidate
    eligible: Array  # [G] bool, groups from which a whole batch may be picked


class ConstraintArrays(NamedTuple):
    """Constraints on a batch. A constraint that is None adds no code to the compiled program."""

    success: Array | None = None  # [A], the probability that an evaluation succeeds
    price: Price | None = None  # of all candidates
    groups: Groups | None = None


class Batch(NamedTuple):
    """A batch of B candidates, and the posterior of all A candidates, in units of the signal."""

    rows: Array  # [B] int32, -1 after the last pick that the budget pays for
    mean: Array  # [A]
    variance: Array  # [A]
    score: Array  # [A], the scores of the acquisition


class PaddedData(NamedTuple):
    """A library of A candidates and its evaluations, in padded slots with masks."""

    features: Array  # [A, d]
    arms: Array  # [N] int
    observed: Array  # [N] bool
    values: Array  # [N], of mean 0, in units of the signal
    error_variance: Array  # [N], added to the noise variance, in units of the signal variance
    pending: Array  # [P] int
    is_pending: Array  # [P] bool
    inducing: Array  # [M] int; empty if the posterior is exact
    included: Array  # [M] bool, slots of `inducing` in use
    unavailable: Array  # [A] bool, candidates that may not be picked


def condition(kernel: Any, arrays: PaddedData, ratio: Array, with_pending: bool) -> Posterior:
    """The posterior given the observed and, if `with_pending`, the pending evaluations."""
    pending, is_pending = arrays.pending, arrays.is_pending
    if not with_pending:
        pending, is_pending = pending[:0], is_pending[:0]
    zeros = jnp.zeros(len(pending), arrays.values.dtype)
    evaluations = Evaluations(
        points=arrays.features[jnp.concatenate([arrays.arms, pending])],
        values=jnp.concatenate([arrays.values, zeros]),
        observed=jnp.concatenate([arrays.observed, jnp.zeros_like(is_pending)]),
        pending=jnp.concatenate([jnp.zeros_like(arrays.observed), is_pending]),
        error_variance=jnp.concatenate([arrays.error_variance, zeros]),
    )
    if arrays.inducing.size:
        sketch = arrays.features[arrays.inducing], arrays.included
        return posterior.condition_sketched(kernel, evaluations, *sketch, ratio)
    return posterior.condition(kernel, evaluations, ratio)


@partial(jax.jit, static_argnames=("batch", "largest_group"))
def choose_batch(
    kernel: Any,
    arrays: PaddedData,
    constraints: ConstraintArrays,
    ratio: Array,
    acquisition: Any,
    key: PRNGKey,
    batch: int,
    largest_group: int = 0,
) -> Batch:
    """Chooses a batch. Calls with the same padded sizes share one compiled program. `largest_group`
    is the number of candidates in the largest group."""
    features, unavailable = arrays.features, arrays.unavailable
    ratio = jnp.asarray(ratio, features.dtype)
    gp_posterior = condition(kernel, arrays, ratio, with_pending=True)
    mean, variance = posterior.predict(gp_posterior, features)
    index = jnp.concatenate([arrays.arms, arrays.pending])
    is_used = jnp.concatenate([arrays.observed, arrays.is_pending])
    threshold = jnp.max(jnp.where(is_used, mean[index], -jnp.inf))
    threshold = jnp.where(is_used.any(), threshold, 0)
    worst = jnp.min(jnp.where(arrays.observed, mean[arrays.arms], jnp.inf))
    worst = jnp.where(arrays.observed.any(), worst, PRIOR_WORST)
    price = constraints.price
    chance = None if constraints.success is None else Chance(constraints.success, worst)
    terms = Terms(chance, price)
    shuffle_key, choose_key, compare_key = jax.random.split(key, 3)
    # candidates with equal scores are picked in random order, because tables are often sorted
    shuffled = jax.random.permutation(shuffle_key, features.shape[0])
    excluded = unavailable if price is None else unavailable | (price.cost > price.budget)
    scores = scores_of(acquisition, mean, variance, threshold, terms)
    shuffled_scores = jnp.where(excluded, -jnp.inf, scores)[shuffled]
    top = getattr(acquisition, "top", 1)  # of `ProbabilityOfBest`
    evaluated_or_pending = jnp.zeros(len(mean), bool).at[index].max(is_used)
    used_means = jnp.where(evaluated_or_pending, mean, -jnp.inf)
    best_means = lax.top_k(used_means, min(top, len(mean)))[0]

    def choose(score: Array, available: Array, size: int) -> tuple[Array, Array]:
        """(rows [batch], joint expected improvement []). The rows are `available` [A] candidates of
        a shortlist of `size`; `score` [A] has the order of `shuffled`. Without groups, the expected
        improvement is not computed, and is 0."""
        shortlist = shuffled[lax.top_k(score, size)[1]]
        free = available[shortlist]
        if price is not None:
            # the cheapest are shortlisted: a batch ends only when the budget pays for no candidate
            cost = jnp.where(jnp.isneginf(score), jnp.inf, price.cost[shuffled])
            cheapest = shuffled[lax.top_k(-cost, min(batch, features.shape[0]))[1]]
            is_new = ~jnp.isin(cheapest, shortlist)
            free = jnp.concatenate([free, available[cheapest] & is_new])
            shortlist = jnp.concatenate([shortlist, cheapest])
        mean, covariance = posterior.joint(gp_posterior, features[shortlist])
        joint = JointPosterior(
            mean, covariance, free, gp_posterior.ratio, threshold, terms.at(shortlist), best_means
        )
        picks = acquisition.choose(joint, batch, choose_key)
        rows = shortlist[picks]
        if price is not None:
            rows = jnp.where(picks >= 0, rows, -1)
        if constraints.groups is None:
            return rows, jnp.zeros(())
        return rows, expected_best(joint, picks, compare_key)

    largest = LARGEST_SHORTLIST if price is None else LARGEST_SHORTLIST - batch
    size = min(max(SHORTLIST, 4 * batch, 4 * top), largest, features.shape[0])
    if constraints.groups is None:
        rows, _ = choose(shuffled_scores, ~unavailable, size)
    else:
        (label, eligible), size = constraints.groups, min(size, largest_group)
        groups = _best_groups(shuffled_scores, label[shuffled], eligible, batch)

        def choose_in(group: Array) -> tuple[Array, Array]:
            score = jnp.where(label[shuffled] == group, shuffled_scores, -jnp.inf)
            return choose(score, ~unavailable & (label == group), size)

        batches, gain = lax.map(choose_in, groups)
        gain = jnp.where(eligible[groups], jnp.nan_to_num(gain, nan=-1.0), -jnp.inf)
        rows = batches[jnp.argmax(gain)]
    return Batch(rows, mean, variance, scores)


def _best_groups(score: Array, label: Array, eligible: Array, batch: int) -> Array:
    """[min(G, COMPARED_GROUPS)] int, the eligible groups whose `batch` largest scores have the
    largest mean."""
    order = jnp.lexsort((-score, label))
    sizes = jnp.bincount(label, length=len(eligible))
    begin = jnp.cumsum(sizes) - sizes  # of each group in `order`
    rank = jnp.arange(len(score)) - begin[label[order]]
    # a score of -inf would make the whole sum -inf
    best = jnp.where(rank < batch, jnp.maximum(score[order], -1e30), 0)
    total = jnp.zeros(len(eligible), score.dtype).at[label[order]].add(best)
    return lax.top_k(jnp.where(eligible, total, -jnp.inf), min(len(eligible), COMPARED_GROUPS))[1]
