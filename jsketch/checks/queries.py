"""What an algorithm over finite arms observes, checked once for all of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jsketch import checks
from jsketch.types import Arms, Query, is_traced


def feedback(domain: Arms, query: Query, y: Any) -> tuple[Query, Array]:
    """(query, rewards [B]) in the dtype of the arms, as every algorithm learns them.

    Raises ValueError for rewards of another shape and for arms that are not there. Where the arms
    are traced, the reward of such an arm becomes infinite: it is not used, and flagged. What a
    masked slot names does not matter.
    """
    query = on_arms(domain, query)
    y = rewards(query, y, domain.features.dtype)
    return query, jnp.where(query.mask & (query.index == domain.count), jnp.inf, y)


def on_arms(domain: Arms, query: Query) -> Query:
    """The query with the number A in slots that name an arm that is not there: a scatter writes
    nothing at A.

    Raises ValueError when such an arm is asked for, unless arms are traced.
    """
    query = as_query(query)
    present(domain, query)
    return Query(or_none(domain, query.index), query.mask, query.truncated)


def or_none(domain: Arms, numbers: ArrayLike) -> Array:
    """Arm numbers, int32; the number A for arms that are not there: a scatter writes nothing at
    A."""
    numbers = jnp.asarray(numbers)
    outside = (numbers < 0) | (numbers >= domain.count)
    # an empty list has no integer dtype of its own
    return jnp.where(outside, domain.count, numbers).astype(jnp.int32)


def limited(limit: ArrayLike | None) -> Array:
    """The number of evaluations that can be made now, [] int32; without a limit more than any batch
    holds. Raises ValueError unless it is a whole number of at least 1."""
    if limit is None:
        return jnp.asarray(checks.MOST, jnp.int32)
    dtype = limit.dtype if hasattr(limit, "dtype") else np.asarray(limit).dtype
    if np.shape(limit) != () or not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"limit must be a whole number of evaluations; {limit!r} was given.")
    if not is_traced(limit):
        checks.at_least_one(limit=limit)
    return jnp.asarray(limit, jnp.int32)


def truncated(query: Query) -> Array:
    """[] bool: the algorithm that asked says that the capacity ended the batch."""
    return jnp.zeros((), bool) if query.truncated is None else jnp.asarray(query.truncated)


def rewards(query: Query, y: Any, dtype: DTypeLike) -> Array:
    """The rewards in that dtype. Raises ValueError unless there is one real number for each slot of
    the query."""
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
    """Raises ValueError when a query asks for an arm that is not there; traced values are left
    alone."""
    if is_traced(query.index, query.mask):
        return
    index, mask = np.asarray(query.index), np.asarray(query.mask)
    outside = index[mask & ((index < 0) | (index >= domain.count))]
    if outside.size:
        raise ValueError(f"the query names arm {outside[0]}; the arms are 0 to {domain.count - 1}.")


def one_arm(query: Query, y: Array) -> tuple[Array, Array]:
    """(arm [], rewards [B]) of a query that asks for one arm, that of its first slot in use. Raises
    ValueError for a second one; traced, its reward becomes infinite, which is not used, and
    flagged."""
    arm = query.index[jnp.argmax(query.mask & ~jnp.isinf(y))]
    other = query.mask & (query.index != arm)
    if not is_traced(other) and bool(other.any()):
        asked = np.unique(np.asarray(query.index)[np.asarray(query.mask)])
        raise ValueError(
            f"a batch of this algorithm is one arm, repeated; arms {asked.tolist()} were given."
        )
    return arm, jnp.where(other, jnp.inf, y)


def as_query(query: Query) -> Query:
    """The query as JAX arrays. Raises ValueError unless it is a vector of arm numbers with a bool
    for each."""
    if not (hasattr(query, "index") and hasattr(query, "mask")):
        raise ValueError(
            "a query is what `ask` gave, or Query(index, mask) of arm numbers; what was given is a"
            f" {type(query).__name__}."
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
    """Raises ValueError unless earlier evaluations are finite vectors [A] with counts >= 0, `whole`
    ones, and sums of rewards only where there were evaluations."""
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
    fractions = np.flatnonzero(counts != np.round(counts))
    if whole and fractions.size:
        arm = fractions[0]
        raise ValueError(f"pull_counts must count evaluations; that of arm {arm} is {counts[arm]}.")
    unknown = np.flatnonzero((counts == 0) & (sums != 0))
    if unknown.size:
        arm = unknown[0]
        raise ValueError(
            f"arm {arm} was never evaluated, but the sum of its rewards is {sums[arm]}."
        )
