"""The history of a run over arms: the number of pulls and the sum of rewards of each arm. Its size
does not depend on the number of rounds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.numerics import count, part, positions, take
from jsketch.results import Result, result
from jsketch.types import Arms, Info, PRNGKey, Query

CHUNK = 256  # slots of a query that are added together; most batches are shorter


def add(counts: Array, sums: Array, query: Query, y: Array) -> tuple[Array, Array]:
    """(counts [A], sums of rewards [A]) after the rewards y [B] of a query. A slot whose mask is
    false, or whose reward is not finite, is not observed. The slots in use are the first ones."""
    size = min(CHUNK, len(y))
    padding = -len(y) % size
    index, y = jnp.pad(query.index, (0, padding)), jnp.pad(y, (0, padding))
    mask = jnp.pad(query.mask, (0, padding)) & jnp.isfinite(y)

    def add_chunk(i: Array, history: tuple[Array, Array]) -> tuple[Array, Array]:
        arm, reward, observed = (part(a, i * size, size) for a in (index, y, mask))
        place = jnp.where(observed, arm, len(counts))  # there values are dropped
        counts_, sums_ = history
        return _added(counts_, place, 1), _added(sums_, place, reward)

    return lax.fori_loop(0, -(-last_slot(query) // size), add_chunk, (counts, sums))


def _added(values: Array, arms: Array, amounts: ArrayLike) -> Array:
    """The values [A] with amounts added at arms [n]; those that do not exist are left out."""
    return values.at[arms].add(amounts, mode="drop", wrap_negative_indices=False)


def last_slot(query: Query) -> Array:
    """The number [] int32 of slots up to and including the last slot in use."""
    numbers = jnp.arange(1, len(query.mask) + 1, dtype=jnp.float32)
    return jnp.max(jnp.where(query.mask, numbers, 0)).astype(jnp.int32)


def limit_of(limit: ArrayLike | None, most: int) -> Array:
    """The largest number [] int32 of evaluations of a round: the argument `limit` of `ask`, but at
    least 1 and at most `most`; `most` if it is None."""
    if limit is None:
        return jnp.asarray(most, jnp.int32)
    return jnp.clip(jnp.asarray(limit, jnp.int32), 1, most)


def random_arm(arms: Arms, key: PRNGKey) -> Array:
    """A uniformly random arm [] int32, for the first pull: before it all scores tie.

    The number is 32 random bits modulo A, whose bias of A / 2^32 does not matter here. The bits are
    those of a folded key, because `jax.random.randint` would add three generators to a program."""
    bits = jax.random.key_data(jax.random.fold_in(key, 0)).ravel()[0]
    return (bits % jnp.uint32(arms.count)).astype(jnp.int32)


def first_or(is_first: Array, best: Array, arms: Arms, key: PRNGKey) -> Array:
    """The arms `best` [...], or a random arm if `is_first` [] is true and the arm is not left
    out."""
    random = random_arm(arms, key)
    return jnp.where(is_first & arms.allows(random), random, best)


def redrawn(arms: Arms, index: Array, key: PRNGKey) -> Array:
    """Arms [n], of which those that are left out are replaced by random others. Uniform arms become
    uniform over those that are not left out."""
    if arms.left_out is None:
        return index
    candidates = arms.candidates
    rank = jax.random.randint(key, index.shape, 0, count(candidates), jnp.int32)
    others = jax.vmap(lambda one: positions(candidates, 1, one)[0])(rank)
    return jnp.where(take(candidates, index), index, others)


def query_of_best(arms: Arms, scores: Array, n_observed: Array, key: PRNGKey) -> Query:
    """The query of the arm with the largest of the scores [A]; of a random arm before the first
    observation, when the number `n_observed` [] is 0."""
    best = jnp.argmax(arms.of_candidates(scores)).astype(jnp.int32)
    return Query.of(first_or(n_observed == 0, best, arms, key))


def round_info(
    query: Query,
    y: Array,
    *,
    size: Array | int = 0,
    width: Array | None = None,
    finite: Array | bool = True,
    exceeded: Array | bool = False,
) -> Info:
    """The info of a round.

    size      [] int, inducing points, directions or distinct arms of the state after the round
    width     [], the confidence width; None: 0
    finite    [] bool, whether the posterior is finite
    exceeded  [] bool, whether the round is not applied, because it needs a larger capacity. Its
              batch size is 0 then: the loop enlarges the capacity and repeats the round
    """
    width = jnp.zeros((), y.dtype) if width is None else width
    infinite = count(query.mask & jnp.isinf(y)) > 0
    return Info(
        batch_size=jnp.where(exceeded, 0, query.size),
        observed=count(query.mask & jnp.isfinite(y) & ~jnp.asarray(exceeded)),
        dictionary_size=jnp.asarray(size, jnp.int32),
        width=width,
        result=result(
            (Result.CAPACITY_EXCEEDED, exceeded),
            (Result.NOTHING_TO_ASK, query.size == 0),
            (Result.NOT_FINITE, infinite | ~jnp.asarray(finite) | ~jnp.isfinite(width)),
        ),
    )
