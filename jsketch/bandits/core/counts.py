"""The whole history of a finite-arm run: pull counts and reward sums, [A] each. No state grows with
T."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks, devices, shards
from jsketch.types import Arms, PRNGKey, Query, Shard, State

Carry = TypeVar("Carry")


class HasFirstArm(State, Protocol):
    """A state that counts observations, and has an arm to begin with."""

    # [] int32, uniform; pulled while nothing is known, another one after it failed
    first_arm: Array
    count: Array  # [], observations so far


Counting = TypeVar("Counting", bound=HasFirstArm)

TOGETHER = 256  # slots that an accelerator adds at a time

_Sums = tuple[Array, Array, Array, Array]  # as the first four of `Feedback`


class Feedback(NamedTuple):
    """The history after a round, and what widths want to know about the round."""

    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    information: Array  # [], sum over the observed arms of log(1 + variance)
    information_sketched: Array  # [], the same with 3 variance
    observed: Array  # [] int32
    infinite: Array  # [] bool, a reward was infinite (and is not used)


def of_evaluations(domain: Arms, arms: Any, rewards: Any) -> tuple[np.ndarray, np.ndarray]:
    """(pull_counts [A], reward_sums [A]) of observed evaluations: arm numbers [n] and their rewards
    [n], NaN for a failure.

    Raises ValueError for arms outside the set, rewards of another length or infinite ones.
    """
    checks.arm_numbers(domain, arms=arms)
    arms, rewards = np.asarray(arms), np.asarray(checks.real("rewards", rewards), float)
    if rewards.shape != arms.shape:
        raise ValueError(
            f"there are {arms.size} arms and rewards of shape {rewards.shape}: one reward an"
            " evaluation."
        )
    if np.isinf(rewards).any():
        raise ValueError(
            f"the reward of arm {arms[np.isinf(rewards)][0]} is infinite; a failed evaluation is"
            " NaN."
        )
    # an empty list has no integer dtype of its own
    arms, rewards = arms[~np.isnan(rewards)].astype(int), rewards[~np.isnan(rewards)]
    counts = np.bincount(arms, minlength=domain.count).astype(float)
    return counts, np.bincount(arms, rewards, minlength=domain.count)


def resample_initial_arm(first_arm: Array, failed: Array, arms: int, key: PRNGKey) -> Array:
    """The arm to evaluate while nothing is known, [] int32: where a query left it so (`failed` []:
    nothing was observed) another one, uniform. The same one would be asked for in every round to
    come.

    Only the last failure is remembered, and so no state holds more: whoever meets another arm that
    fails leaves it again. `key` is the one of `tell`.
    """
    # by 1 to A - 1, so that it is another one; the key itself may be drawn with elsewhere
    step = jax.random.randint(jax.random.fold_in(key, 1), (), 1, max(arms, 2), jnp.int32)
    return jnp.where(failed, (first_arm + step) % arms, first_arm)


def counted(state: Counting, observed: Array, asked: Array, key: PRNGKey) -> Counting:
    """The state with `observed` [] more rewards counted, and another first arm where something was
    `asked` [] and nothing ever observed."""
    count = state.count + observed.astype(state.count.dtype)
    failed = asked & (count == 0)
    first_arm = resample_initial_arm(state.first_arm, failed, state.domain.count, key)
    return replace(state, count=count, first_arm=first_arm)


def usable(query: Query, y: Array) -> Array:
    """[B] bool: slots that were asked for and hold a finite reward."""
    return query.mask & jnp.isfinite(y)


def last_slot(query: Query) -> Array:
    """Number of slots up to and including the last one asked for, [] int32: what a loop over a
    query has to visit."""
    return jnp.max(
        jnp.where(query.mask, jnp.arange(1, query.mask.shape[0] + 1, dtype=jnp.int32), 0)
    )


def over_slots(one: Callable[[Array, Carry], Carry], carry: Carry, query: Query) -> Carry:
    """one(slot, carry) over the slots of a query that were asked for."""
    if query.index.shape[0] == 1:
        return one(jnp.zeros((), jnp.int32), carry)
    return lax.fori_loop(0, last_slot(query), one, carry)


def absorb(
    pull_counts: Array,
    reward_sums: Array,
    variance: Array,
    query: Query,
    y: Array,
    shard: Shard | None = None,
) -> Feedback:
    """Adds the rewards y [B] of a query to the history; variance [A] is the one at the start of the
    batch.

    A loop over the slots asked for, and not a scatter over all B of them: a batch is usually much
    shorter than B. On an accelerator TOGETHER slots are added at a time, in an order that is the
    same every time.
    """
    observed = usable(query, y)
    infinite = jnp.any(query.mask & jnp.isinf(y))
    weight = observed.astype(y.dtype)
    reward = jnp.where(observed, y, 0)
    zero = jnp.zeros((), pull_counts.dtype)
    start = (pull_counts, reward_sums, zero, zero)

    def add(i: Array, carry: _Sums) -> _Sums:
        counts, sums, information, sketched = carry
        arm, each = query.index[i], variance_of(i)
        counts = shards.add(shard, counts, arm, weight[i])
        sums = shards.add(shard, sums, arm, reward[i])
        information = information + weight[i] * jnp.log1p(each)
        return counts, sums, information, sketched + weight[i] * jnp.log1p(3 * each)

    if devices.on_accelerator():
        counts, sums, information, sketched = _added_together(
            start, variance, query, weight, reward, shard
        )
    else:
        variance_of = shards.lookup(shard, variance, query.index)
        counts, sums, information, sketched = lax.fori_loop(0, last_slot(query), add, start)
    return Feedback(counts, sums, information, sketched, observed.sum(dtype=jnp.int32), infinite)


def _added_together(
    start: _Sums,
    variance: Array,
    query: Query,
    weight: Array,
    reward: Array,
    shard: Shard | None,
) -> _Sums:
    """The loop of `absorb` by chunks of slots. Each arm of a chunk is written once, by its first
    slot: a scatter that met it several times would add in any order, and round differently every
    time."""
    size = min(TOGETHER, query.mask.shape[0])
    chunks = -(-query.mask.shape[0] // size)
    extra = chunks * size - query.mask.shape[0]
    index, weight, reward = (jnp.pad(a, (0, extra)) for a in (query.index, weight, reward))
    slots = jnp.arange(size, dtype=jnp.int32)

    def add(chunk: Array, sums: _Sums) -> _Sums:
        arms, weights, rewards = (
            lax.dynamic_slice_in_dim(a, chunk * size, size) for a in (index, weight, reward)
        )
        same = arms[:, None] == arms[None, :]
        first = ~(same & (slots[None, :] < slots[:, None])).any(1)
        # the others write to a position outside, which drops them
        rows = variance.shape[0]
        place = jnp.where(first, shards.local(shard, arms, rows), rows)
        each = shards.take(shard, variance, arms)
        return (
            sums[0].at[place].add(jnp.where(same, weights[None, :], 0).sum(1), mode="drop"),
            sums[1].at[place].add(jnp.where(same, rewards[None, :], 0).sum(1), mode="drop"),
            sums[2] + jnp.where(weights > 0, jnp.log1p(each), 0).sum(),
            sums[3] + jnp.where(weights > 0, jnp.log1p(3 * each), 0).sum(),
        )

    return lax.fori_loop(0, -(-last_slot(query) // size), add, start)
