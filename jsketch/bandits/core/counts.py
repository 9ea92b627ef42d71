"""The history of a run over arms: pull counts [A] and reward sums [A]. Its size does not depend on
the number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jsketch import checks, devices
from jsketch.linalg import ONE_DEVICE, Rows, sequential_vmap
from jsketch.types import Arms, Evaluations, Info, PRNGKey, Query

Carry = TypeVar("Carry")


SLOTS = 256  # slots of a query that an accelerator adds to the history in one step

_Sums = tuple[Array, Array, Array, Array]  # the first four fields of `Feedback`


class Feedback(NamedTuple):
    """The history after a round, and the information of the round."""

    pull_counts: Array  # [A]
    reward_sums: Array  # [A]
    information: Array  # [], sum of log(1 + variance) over the observations of the round
    information_sketched: Array  # [], sum of log(1 + 3 variance) over the observations
    observed: Array  # [] int32, number of observations of the round
    infinite: Array  # [] bool, whether a reward was infinite and therefore ignored


def of_evaluations(domain: Arms, arms: Any, rewards: Any, dictionary: Any = None) -> Evaluations:
    """The argument `data` of `init` for observed evaluations.

    arms        arm numbers [n]
    rewards     [n]; NaN is a failed evaluation, which is not counted
    dictionary  as in `Evaluations`

    Raises ValueError for arms that do not exist, for infinite rewards, and if `arms` and `rewards`
    have different shapes.
    """
    checks.arm_numbers(domain, arms=arms)
    arms, rewards = np.asarray(arms), np.asarray(checks.real("rewards", rewards), float)
    if rewards.shape != arms.shape:
        raise ValueError(
            f"there are {arms.size} arms and rewards of shape {rewards.shape}: give one reward for"
            " each evaluation."
        )
    if np.isinf(rewards).any():
        raise ValueError(
            f"the reward of arm {arms[np.isinf(rewards)][0]} is infinite; a failed evaluation is"
            " NaN."
        )
    is_failed, arms = np.isnan(rewards), arms.astype(int)  # an empty list has a floating dtype
    failed = arms[is_failed] if is_failed.any() else None
    arms, rewards = arms[~is_failed], rewards[~is_failed]
    counts = np.bincount(arms, minlength=domain.count).astype(float)
    sums = np.bincount(arms, rewards, minlength=domain.count)
    return Evaluations(counts, sums, dictionary, failed)


def resample_first_arm(first_arm: Array, failed: Array, count: int, key: PRNGKey) -> Array:
    """The arm [] int32, of `count` arms, to evaluate before the first observation. If the
    evaluation of `first_arm` has `failed` [], another arm is drawn uniformly, so that the next
    round does not repeat `first_arm`. `key` is the key of `tell`."""
    # a step of 1 to A - 1 leads to another arm; `tell` uses the key itself for other draws
    step = jax.random.randint(jax.random.fold_in(key, 1), (), 1, max(count, 2), jnp.int32)
    return jnp.where(failed, (first_arm + step) % count, first_arm)


def count_observations(state: Any, info: Info, key: PRNGKey) -> Any:
    """The state with the observations of a round counted. If it has none yet although the round
    had evaluations and did not overflow, the first arm is drawn again."""
    count = state.count + info.observed.astype(state.count.dtype)
    failed = (info.batch_size > 0) & ~info.overflow & (count == 0)
    first_arm = resample_first_arm(state.first_arm, failed, state.domain.count, key)
    return replace(state, count=count, first_arm=first_arm)


def query_of_best(state: Any, scores: Array) -> Query:
    """The query of the arm with the largest of the scores [A]; `first_arm` if none is observed."""
    best = jnp.argmax(scores).astype(jnp.int32)
    return checks.single_query(jnp.where(state.count == 0, state.first_arm, best))


def n_slots_to_last(query: Query) -> Array:
    """The number [] int32 of slots up to and including the last slot in use."""
    numbers = jnp.arange(1, query.mask.shape[0] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(query.mask, numbers, 0))


def scan_slots(step: Callable[[Array, Carry], Carry], carry: Carry, query: Query) -> Carry:
    """The carry after step(slot, carry) for every slot of a query up to the last slot in use."""
    if query.index.shape[0] == 1:  # without a loop; a step ignores a slot that is not in use
        return step(jnp.zeros((), jnp.int32), carry)
    return lax.fori_loop(0, n_slots_to_last(query), step, carry)


def round_info(
    query: Query,
    y: Array,
    *,
    size: Array | int,
    width: Array | None = None,
    finite: Array | bool = True,
    overflow: Array | bool = False,
) -> Info:
    """The info of a round of an algorithm without a resampled dictionary. `size` is the number of
    directions or distinct arms of its state, and `finite` [] whether its posterior is finite. On
    `overflow` [] no reward is observed."""
    width = jnp.zeros((), y.dtype) if width is None else width
    observed = (query.mask & jnp.isfinite(y)).sum(dtype=jnp.int32)
    return Info(
        batch_size=query.size,
        observed=jnp.where(overflow, 0, observed),
        dictionary_size=jnp.asarray(size, jnp.int32),
        width=width,
        overflow=jnp.asarray(overflow),
        truncated=jnp.asarray(query.truncated is not None and query.truncated),
        nonfinite=(query.mask & jnp.isinf(y)).any() | ~jnp.asarray(finite) | ~jnp.isfinite(width),
        imprecise=jnp.zeros((), bool),
    )


def add_rewards(
    pull_counts: Array,
    reward_sums: Array,
    variance: Array,
    query: Query,
    y: Array,
    rows: Rows = ONE_DEVICE,
) -> Feedback:
    """The history after the rewards y [B] of a query. `variance` [A] is the posterior variance at
    the start of the batch.

    A batch is usually much shorter than B. The rewards are therefore added in a loop that ends at
    the last slot in use, on an accelerator in chunks of SLOTS. The order of additions is fixed.
    """
    observed = query.mask & jnp.isfinite(y)
    weight = observed.astype(y.dtype)
    reward = jnp.where(observed, y, 0)
    zero = jnp.zeros((), pull_counts.dtype)
    start = (pull_counts, reward_sums, zero, zero)
    if devices.on_accelerator():
        sums = _add_in_chunks(start, variance, query, weight, reward, rows)
    else:
        # read before the loop, because in the loop each slot would cost a message between devices
        variances = rows.take(variance, query.index)
        arguments = n_slots_to_last(query), query.index, variances, weight, reward
        # under vmap each step of one common loop would copy the counts of all runs
        sums = sequential_vmap(partial(_add_by_slots, rows=rows), start, *arguments)
    infinite = jnp.any(query.mask & jnp.isinf(y))
    return Feedback(*sums, observed.sum(dtype=jnp.int32), infinite)


def _add_by_slots(
    start: _Sums,
    n_slots: Array,
    index: Array,
    variances: Array,
    weight: Array,
    reward: Array,
    *,
    rows: Rows,
) -> _Sums:
    """The sums of `add_rewards` after the first `n_slots` [] slots, with the arms `index`."""

    def add(i: Array, carry: _Sums) -> _Sums:
        counts, sums, information, information_sketched = carry
        arm, sigma2 = index[i], variances[i]
        counts = rows.add(counts, arm, weight[i])
        sums = rows.add(sums, arm, reward[i])
        information = information + weight[i] * jnp.log1p(sigma2)
        information_sketched = information_sketched + weight[i] * jnp.log1p(3 * sigma2)
        return counts, sums, information, information_sketched

    return lax.fori_loop(0, n_slots, add, start)


def _add_in_chunks(
    start: _Sums, variance: Array, query: Query, weight: Array, reward: Array, rows: Rows
) -> _Sums:
    """The sums of `add_rewards` by chunks of slots. The first slot of an arm in a chunk adds the
    sum over all slots of the arm, because a scatter with repeated arms would add in an arbitrary
    order."""
    size = min(SLOTS, query.mask.shape[0])
    padding = -query.mask.shape[0] % size
    index, weight, reward = (jnp.pad(a, (0, padding)) for a in (query.index, weight, reward))
    slots = jnp.arange(size, dtype=jnp.int32)

    def add(chunk: Array, sums: _Sums) -> _Sums:
        counts, reward_sums, information, information_sketched = sums
        arms, weights, rewards = (
            lax.dynamic_slice_in_dim(a, chunk * size, size) for a in (index, weight, reward)
        )
        same_arm = arms[:, None] == arms[None, :]
        is_first = ~(same_arm & (slots[None, :] < slots[:, None])).any(1)
        # the other slots of an arm have a position out of range, and their values are dropped
        n_rows = variance.shape[0]
        place = jnp.where(is_first, rows.local(arms, n_rows), n_rows)
        sigma2 = rows.take(variance, arms)
        return (
            counts.at[place].add(jnp.where(same_arm, weights[None, :], 0).sum(1), mode="drop"),
            reward_sums.at[place].add(jnp.where(same_arm, rewards[None, :], 0).sum(1), mode="drop"),
            information + jnp.where(weights > 0, jnp.log1p(sigma2), 0).sum(),
            information_sketched + jnp.where(weights > 0, jnp.log1p(3 * sigma2), 0).sum(),
        )

    return lax.fori_loop(0, -(-n_slots_to_last(query) // size), add, start)
