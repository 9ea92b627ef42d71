"""How BBKB fills a batch while dictionary and feedback are frozen (BBKB Alg. 1, L3-9; Appendix
A.3).

Within a batch an arm's score only falls, so a stored score is an upper bound of the current one.
The lazy route picks among the k largest stored scores while no other can be larger (`working_set`):
exactly the arms of a full sweep, at O(k m^2) a set and O(k^2) a pick. The sweep route keeps every
score current by a rank-one update, O(A m) a pick.

Batches end by the ratio bounds of Lemma 1 (global) or of Lemma 3 once Lemma 1's is exceeded
(global_local). The local bound of an arm never rises faster than the global one (Cauchy-Schwarz),
so it is evaluated only when it may have crossed C, and only for the arms where it may have: exact,
and a handful of evaluations a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import shards
from jsketch.bandits.batches import working_set
from jsketch.bandits.batches.working_set import Batch
from jsketch.bandits.core.sketched import SketchState
from jsketch.linalg import compact, matmul, matmul_upper, put, running_count
from jsketch.posterior import ridge
from jsketch.types import Kernel

LOCAL_ROWS = 512  # arms in one chunk of the local bound
LOCAL_PICKS = 32  # distinct picks in one chunk of the local bound


class Rule(NamedTuple):
    """When a batch ends."""

    ratio: ArrayLike  # C
    local: bool  # Lemma 3 after Lemma 1
    # check the local bound at once when the global one exceeds C, not one pick later as the
    # authors' code
    strict: bool
    # the larger of the two local statistics (THEORY 5.4) instead of the authors' one
    guaranteed: bool
    lazy: bool


def _swept_pick(
    state: SketchState, features: Array, unseen: Array, batch: Batch, width: Array, rule: Rule
) -> Batch:
    """One more pick when all scores are current, and all scores after it; features u [A,M], and
    what a pull does not change of the variances, `unseen` [A]."""
    shard = state.domain.shard
    arm = shards.argmax(shard, batch.scores)
    u, spent = shards.take(shard, (features, state.variance), arm)
    direction, own = ridge.whitened_gain(batch.precision, u)
    e = jnp.maximum(batch.e - jnp.square(matmul(features, direction)) / (1 + own), 0)
    return batch._replace(
        arms=put(batch.arms, batch.size, arm),
        size=batch.size + 1,
        scores=state.mean + width * jnp.sqrt(unseen + e),
        precision=ridge.hallucinate(batch.precision, direction, own),
        e=e,
        local=batch.local + spent if rule.local else batch.local,
        bound=batch.bound + spent,
    )


def _local_bounds(
    state: SketchState, kernel: Kernel, regularization: ArrayLike, rule: Rule, batch: Batch
) -> Array:
    """`batch.local` with the arms that may exceed C evaluated over the whole batch, [A] (Lemma
    3)."""
    arms, shard = state.domain.features, state.domain.shard
    # each device checks its own arms
    suspects = running_count(batch.local > rule.ratio)
    rows = min(LOCAL_ROWS, arms.shape[0])
    zeros = jnp.zeros(arms.shape[0], arms.dtype)
    # a batch may pull few arms thousands of times: their terms are the same
    pulls = lax.fori_loop(
        0,
        batch.size,
        lambda i, n: shards.add(shard, n, batch.arms[i], jnp.ones((), n.dtype)),
        zeros,
    )
    pulled = shards.running_count(shard, pulls > 0)
    picks = min(LOCAL_PICKS, batch.arms.shape[0])
    blocks = -(-shards.last(shard, pulled) // picks)

    def embed(x: Array) -> tuple[Array, Array]:
        k = kernel.gram(x, state.nystrom.points)
        z = matmul(k, state.nystrom.root)
        return z, matmul(z, state.whiten)

    def some_arms(chunk: Array, local: Array) -> Array:
        index, valid = compact(suspects, chunk * rows, rows)
        z, u = embed(arms[index])

        def some_picks(block: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            picked_index, picked_valid = shards.compact(shard, pulled, block * picks, picks)
            picked, weight = shards.take(shard, (arms, pulls), picked_index)
            weight = jnp.where(picked_valid, weight, 0)
            z_picked, u_picked = embed(picked)
            embedded = matmul(u, u_picked.T)
            full = (
                kernel.gram(arms[index], picked) - matmul(z, z_picked.T)
            ) / regularization + embedded
            return sums[0] + matmul(jnp.square(full), weight), sums[1] + matmul(
                jnp.square(embedded), weight
            )

        none = jnp.zeros(rows, arms.dtype)
        full, embedded = lax.fori_loop(0, blocks, some_picks, (none, none))
        statistic = jnp.maximum(full, embedded) if rule.guaranteed else full
        variance = state.variance[index]
        bound = 1 + jnp.where(variance > 0, statistic / jnp.where(variance > 0, variance, 1), 0)
        # invalid slots write to a position outside, which drops them
        return local.at[jnp.where(valid, index, arms.shape[0])].set(bound, mode="drop")

    # as many on every device: they exchange the picks
    chunks = shards.largest(shard, -(-suspects[-1] // rows))
    return lax.fori_loop(0, chunks, some_arms, batch.local)


def fill(
    state: SketchState,
    kernel: Kernel,
    regularization: ArrayLike,
    width: Array,
    rule: Rule,
    limit: Array,
    capacity: int,
) -> Batch:
    """The next batch, at most `limit` <= capacity B picks. Without any data it is one pick, the
    uniform `state.first_arm`.

    The arm that takes a bound over C is part of the batch: it was chosen while its score was valid
    (THEORY 5.2).
    """
    arms, shard = state.domain.features, state.domain.shard
    nothing_known = state.evidence.count == 0
    limit = jnp.where(nothing_known, jnp.minimum(limit, 1), limit)
    scores = state.mean + width * jnp.sqrt(state.variance)
    numbers = shards.numbers(shard, arms.shape[0])
    scores = jnp.where(nothing_known & (numbers != state.first_arm), -jnp.inf, scores)
    scores = shards.padded(shard, scores, -jnp.inf)
    features = unseen = None
    if not rule.lazy:
        whitened = matmul_upper(state.nystrom.root, state.whiten)
        features = matmul(kernel.gram(arms, state.nystrom.points), whitened)
        unseen = ridge.residual_variance(state.variance, features)

    def full(batch: Batch) -> Array:
        return batch.size >= limit

    def picks(batch: Batch, ratio: ArrayLike, limit: Array) -> Batch:
        """One pick of the sweep, or those of a working set."""
        if features is not None and unseen is not None:
            return _swept_pick(state, features, unseen, batch, width, rule)
        return working_set.extend(state, kernel, width, batch, ratio, limit)

    def pick_on(batch: Batch) -> Batch:
        """Picks until the bound asks for a look."""
        return lax.while_loop(
            lambda b: ~full(b) & (b.bound <= rule.ratio),
            lambda b: picks(b, rule.ratio, limit),
            batch,
        )

    def stretch(batch: Batch) -> Batch:
        """Picks until the bound asks for a look, and looks."""
        batch = pick_on(batch)
        local = _local_bounds(state, kernel, regularization, rule, batch)
        bound = shards.largest(shard, jnp.max(local))
        # not >: a posterior that is not finite ends its batch, and under vmap those of all runs
        return batch._replace(local=local, bound=bound, done=full(batch) | ~(bound <= rule.ratio))

    precision = jnp.eye(state.capacity, dtype=arms.dtype)
    start = Batch(
        arms=jnp.zeros(capacity + working_set.PICKS, jnp.int32),
        size=jnp.zeros((), jnp.int32),
        scores=scores,
        precision=precision,
        last=working_set.no_set(state.domain.count if features is None else 0, precision),
        e=jnp.zeros(0, arms.dtype) if features is None else jnp.square(features).sum(1),
        local=jnp.ones(arms.shape[0] if rule.local else 0, arms.dtype),
        bound=jnp.ones((), arms.dtype),
        done=jnp.zeros((), bool),
    )
    if not rule.local:
        return pick_on(start)
    if not rule.strict:
        start = pick_on(start)
        size = jnp.minimum(start.size + 1, limit)
        start = lax.while_loop(
            lambda b: (b.size < size) & (b.bound < jnp.inf),
            lambda b: picks(b, jnp.inf, size),
            start,
        )
    return lax.while_loop(lambda batch: ~batch.done, stretch, start)
