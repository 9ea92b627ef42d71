"""Queries, rewards and earlier evaluations of algorithms over arms. Mistakes in values raise
ValueError; where they are traced, they are flagged in the result."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks
from jsketch.types import Arms, Query, is_traced


def feedback(domain: Arms, query: Query, y: Any) -> tuple[Query, Array]:
    """(query, rewards [B]) as JAX arrays, the rewards in the dtype of the arms.

    Raises ValueError for rewards of another shape and for arms that do not exist. Where the arms
    are traced, the reward of such an arm becomes infinite, which is flagged and not used.
    """
    query = on_arms(domain, query)
    y = rewards(query, y, domain.features.dtype)
    return query, jnp.where(query.mask & (query.index == domain.count), jnp.inf, y)


def on_arms(domain: Arms, query: Query) -> Query:
    """The query as JAX arrays, with the number A for arms that do not exist, at which a scatter
    writes nothing. Raises ValueError where a slot in use has one, unless it is traced."""
    query = as_query(query)
    present(domain, query)
    return Query(or_none(domain, query.index), query.mask, query.truncated)


def or_none(domain: Arms, numbers: ArrayLike) -> Array:
    """Arm numbers, int32, with the number A for arms that do not exist."""
    numbers = jnp.asarray(numbers)
    outside = (numbers < 0) | (numbers >= domain.count)
    # converted, because the dtype of an empty list is a float
    return jnp.where(outside, domain.count, numbers).astype(jnp.int32)


def limited(limit: ArrayLike | None) -> Array:
    """The number of evaluations that can be made now, [] int32; without a limit the largest such
    number. Raises ValueError unless it is a whole number of at least 1."""
    if limit is None:
        return jnp.asarray(checks.MOST, jnp.int32)
    dtype = limit.dtype if hasattr(limit, "dtype") else np.asarray(limit).dtype
    if np.shape(limit) != () or not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"limit must be a whole number of evaluations; {limit!r} was given.")
    checks.at_least_one(limit=limit)
    return jnp.asarray(limit, jnp.int32)


def truncated(query: Query) -> Array:
    """[] bool: whether the capacity ended the batch."""
    return jnp.zeros((), bool) if query.truncated is None else jnp.asarray(query.truncated)


def rewards(query: Query, y: Any, dtype: DTypeLike) -> Array:
    """The rewards in that dtype. Raises ValueError unless there is one real number for each
    slot."""
    if np.shape(y) != query.index.shape:
        raise ValueError(
            f"y must hold one reward for each slot of the query, shape {query.index.shape}, NaN"
            f" where nothing was observed; its shape is {np.shape(y)}."
        )
    return jnp.asarray(checks.real("y", y)).astype(dtype)


def single(arm: Array) -> Query:
    """The query of one arm []."""
    return Query(index=arm[None], mask=jnp.ones(1, bool))


def present(domain: Arms, query: Query) -> None:
    """Raises ValueError where a slot in use has an arm that does not exist, unless it is traced."""
    if is_traced(query.index, query.mask):
        return
    index, mask = np.asarray(query.index), np.asarray(query.mask)
    outside = index[mask & ((index < 0) | (index >= domain.count))]
    if outside.size:
        raise ValueError(f"the query names arm {outside[0]}; the arms are 0 to {domain.count - 1}.")


def one_arm(query: Query, y: Array) -> tuple[Array, Array]:
    """(arm [], rewards [B]) of a query for one arm, that of its first slot in use. Raises
    ValueError for a second arm; where it is traced, its reward becomes infinite, which is flagged
    and not used."""
    arm = query.index[jnp.argmax(query.mask & ~jnp.isinf(y))]
    other = query.mask & (query.index != arm)
    if not is_traced(other) and bool(other.any()):
        arms = np.unique(np.asarray(query.index)[np.asarray(query.mask)])
        raise ValueError(
            f"a batch of this algorithm is one arm, repeated; arms {arms.tolist()} were given."
        )
    return arm, jnp.where(other, jnp.inf, y)


def as_query(query: Query) -> Query:
    """The query as JAX arrays. Raises ValueError unless it has a vector of arm numbers and a bool
    for each."""
    if not (hasattr(query, "index") and hasattr(query, "mask")):
        raise ValueError(
            "a query is the result of `ask`, or Query(index, mask) of arm numbers; a"
            f" {type(query).__name__} was given."
        )
    index, mask = jnp.asarray(query.index), jnp.asarray(query.mask)
    if index.ndim != 1 or not jnp.issubdtype(index.dtype, jnp.integer):
        raise ValueError(
            f"a query's index must be a vector [B] of arm numbers; its shape is {index.shape}, its"
            f" dtype {index.dtype}."
        )
    if mask.shape != index.shape or mask.dtype != bool:
        raise ValueError(
            f"a query's mask must be a bool for each of its {index.size} slots; its shape is"
            f" {mask.shape}, its dtype {mask.dtype}."
        )
    return Query(index, mask, query.truncated)


def past(domain: Arms, pull_counts: Any, reward_sums: Any, whole: bool = True) -> None:
    """Raises ValueError unless earlier evaluations are vectors [A] of counts >= 0, `whole` numbers,
    and of finite sums of rewards, zero where the count is."""
    for name, value in (("pull_counts", pull_counts), ("reward_sums", reward_sums)):
        if np.shape(value) != (domain.count,):
            raise ValueError(
                f"{name} must hold one number for each of the {domain.count} arms; its shape is"
                f" {np.shape(value)}."
            )
    if is_traced(pull_counts, reward_sums):
        return
    checks.all_nonnegative(pull_counts=pull_counts)
    counts = np.asarray(pull_counts, float)
    sums = np.asarray(checks.real("reward_sums", reward_sums), float)
    if not np.isfinite(sums).all():
        raise ValueError("reward_sums must be finite.")
    for arm in np.flatnonzero(counts != np.round(counts))[: int(whole)]:
        raise ValueError(f"pull_counts must count evaluations; that of arm {arm} is {counts[arm]}.")
    for arm in np.flatnonzero((counts == 0) & (sums != 0)):
        raise ValueError(
            f"arm {arm} was never evaluated, but the sum of its rewards is {sums[arm]}."
        )
