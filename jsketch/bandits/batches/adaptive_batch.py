"""How BBKB fills a batch while the dictionary and the feedback are frozen (BBKB Alg. 1, L3-9;
Appendix A.3), and the rules that end a batch. Every argument `bandit` is a `BBKB`.

The score of an arm only decreases within a batch, so a stored score is an upper bound of the
current score. A working set consists of the k arms with the largest stored scores. It contains the
best arm as long as the largest current score in the set is not below the largest stored score
outside. Let U [k,M] be the whitened features of the arms in the set, and
P [M,M] = (I + sum_s u_s u_s^T)^-1, a sum over the hallucinated pulls s. A pick updates the
covariance K = U P U^T [k,k] of the set in O(k^2); P is updated once for each set, in O(k m^2). A
full sweep (`lazy=False`) makes the same picks; it updates all scores after every pick, in O(A m).

By Cauchy-Schwarz, a pick increases the local bound of an arm (Lemma 3) at most as much as the
global bound (Lemma 1). Local bounds are therefore computed only where they may exceed C (`ratio`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import devices
from jsketch.bandits.core.sketched import SketchState, embed
from jsketch.bandits.core.widths import ucb
from jsketch.linalg import (
    Rows,
    cholesky_inverse,
    compact,
    lazy_cond,
    matmul,
    matmul_upper,
    put,
    running_count,
)
from jsketch.posterior import ridge
from jsketch.sketch import nystrom
from jsketch.struct import in_dtype
from jsketch.types import Kernel

SIZE = 16  # k, the number of arms of a working set
PICKS = 256  # the largest number of picks from one working set
STRIDE = 4  # picks between two host synchronisations of an accelerator's loop
# Picks come from a working set until its largest score is more than SLACK units in the last place
# below the scores of other arms, because scores of different sets have different rounding errors.
SLACK = 64.0
LOCAL_ROWS = 1_024  # arms in one chunk of the local bound
LOCAL_PICKS = 32  # distinct picks in one chunk of the local bound


class LastSet(NamedTuple):
    """The pulls of the last working set, which `Batch.weight_covariance` does not include."""

    directions: Array  # [k, M], rows P u
    covariance: Array  # [k, k], K before the pulls
    pulls: Array  # [k], number of pulls of each arm


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + PICKS] int32, picks in order, then zeros; each set writes PICKS entries
    size: Array  # [] int32
    scores: Array  # [A], upper bounds of the current scores; in a sweep, the current scores
    weight_covariance: Array  # [M, M], P of the hallucinated pulls
    last_set: LastSet  # without arms (k = 0) in a sweep
    embedded_variance: Array  # [A], e(x,x) = u^T P u; empty without a sweep
    # [A], upper bounds of 1 + sum_s k~(x,x_s)^2/sigma~^2(x); empty without the local rule
    local_bound: Array
    bound: Array  # [], upper bound of the variance ratio; a batch ends when it exceeds C
    done: Array  # [] bool, whether the batch is full or the local rule has ended it


def stop_global(bound: Array, ratio: ArrayLike) -> Array:
    """Lemma 1: a batch ends when `bound` [] = 1 + sum_s sigma~^2_fb(x_s) over its picks exceeds C.
    It also ends when the bound is NaN, because under vmap an endless batch would block all runs."""
    return ~(bound <= ratio)


def stop_local(local_bound: Array, ratio: ArrayLike, rows: Rows) -> tuple[Array, Array]:
    """(whether the batch ends, the largest bound []). Lemma 3: a batch ends when `local_bound` [A],
    1 + sum_s k~_fb(x,x_s)^2 / sigma~^2_fb(x), exceeds C for some arm x."""
    bound = rows.max(jnp.max(local_bound))
    return stop_global(bound, ratio), bound


def start(state: SketchState, bandit: Any, scores: Array) -> Batch:
    """A batch without picks, for arms with these scores [A]."""
    arms = state.domain.features
    k = min(SIZE, state.domain.count) if bandit.lazy else 0  # arms of a working set
    pulls, square = jnp.zeros(k, arms.dtype), jnp.zeros((k, k), arms.dtype)
    return Batch(
        arms=jnp.zeros(bandit.max_batch + PICKS, jnp.int32),
        size=jnp.zeros((), jnp.int32),
        scores=scores,
        weight_covariance=jnp.eye(state.capacity, dtype=arms.dtype),
        last_set=LastSet(jnp.zeros((k, state.capacity), arms.dtype), square, pulls),
        embedded_variance=jnp.zeros(0, arms.dtype),
        local_bound=jnp.ones(arms.shape[0] if bandit.rule == "global_local" else 0, arms.dtype),
        bound=jnp.ones((), arms.dtype),
        done=jnp.zeros((), bool),
    )


def fill(state: SketchState, bandit: Any, width: Array, limit: Array) -> Batch:
    """The next batch, of at most `limit` <= B picks. Before the first observation the batch is the
    random arm `state.first_arm`. The pick with which a bound exceeds C is part of the batch,
    because its score was still valid (THEORY 5.2)."""
    arms, rows = state.domain.features, state.domain.rows
    bandit = in_dtype(bandit, arms.dtype)
    unobserved = state.evidence.count == 0
    limit = jnp.where(unobserved, jnp.minimum(limit, 1), limit)
    scores = ucb(state.mean, state.variance, width)
    not_first_arm = rows.arm_numbers(arms.shape[0]) != state.first_arm
    scores = rows.mask(jnp.where(unobserved & not_first_arm, -jnp.inf, scores), -jnp.inf)
    batch = start(state, bandit, scores)
    if bandit.lazy:
        extend: Callable[..., Batch] = partial(extend_by_set, state, bandit.kernel)
    else:
        # low-rank updates do not keep `whiten` triangular
        multiply = matmul_upper if bandit.resparsify is None else matmul
        u_columns = multiply(state.nystrom.root, state.whiten)
        u = matmul(bandit.kernel.gram(arms, state.nystrom.points), u_columns)
        residual = nystrom.residual(state.variance, u)
        extend = partial(extend_by_sweep, state, u, residual)
        batch = batch._replace(embedded_variance=jnp.square(u).sum(1))

    def add_picks(batch: Batch, ratio: ArrayLike, limit: Array) -> Batch:
        """The batch after picks until the global bound exceeds the ratio or the batch is full."""
        return lax.while_loop(
            lambda b: (b.size < limit) & ~stop_global(b.bound, ratio),
            partial(extend, width, ratio=ratio, limit=limit),
            batch,
        )

    if bandit.rule == "global":
        return add_picks(batch, bandit.ratio, limit)

    def until_local_check(batch: Batch) -> Batch:
        """The batch after picks until some local bound may exceed C, with its local bounds."""
        batch = add_picks(batch, bandit.ratio, limit)
        local_bound = local_bounds(state, bandit, batch)
        stop, bound = stop_local(local_bound, bandit.ratio, rows)
        done = stop | (batch.size >= limit)
        return batch._replace(local_bound=local_bound, bound=bound, done=done)

    if not bandit.strict:
        # the authors' code has one more pick before it first computes the local bound
        batch = add_picks(batch, bandit.ratio, limit)
        no_ratio = jnp.finfo(arms.dtype).max  # no bound exceeds this number
        batch = add_picks(batch, no_ratio, jnp.minimum(batch.size + 1, limit))
    return lax.while_loop(lambda batch: ~batch.done, until_local_check, batch)


def extend_by_set(
    state: SketchState, kernel: Kernel, width: Array, batch: Batch, ratio: ArrayLike, limit: Array
) -> Batch:
    """The batch with the picks of one working set added. The picks end at the latest when the batch
    has `limit` picks or the global bound exceeds the ratio. If a set gives no pick, the stored
    scores of its arms become current, and the next set therefore differs."""
    rows = state.domain.rows
    index, outside_score = rows.largest(batch.scores, min(SIZE, state.domain.count))
    mean, variance = rows.take(state.mean, index), rows.take(state.variance, index)
    _, u = embed(state, kernel, rows.take(state.domain.features, index))

    def with_last_set(_: tuple[Array, Array]) -> tuple[Array, Array]:
        """(P, u P) after the pulls of the last set. With N = diag(pulls) and D = U P, the pulls
        subtract D^T N^1/2 (I + N^1/2 K N^1/2)^-1 N^1/2 D from P."""
        last_set = batch.last_set
        root_n = jnp.sqrt(last_set.pulls)
        scaled = root_n[:, None] * last_set.covariance * root_n[None, :]
        factor = cholesky_inverse(jnp.eye(root_n.shape[0], dtype=root_n.dtype) + scaled).inverse
        half = matmul(factor, root_n[:, None] * last_set.directions)
        updated = batch.weight_covariance - matmul(half.T, half)
        return updated, matmul(u, updated)

    # for the first set P is the identity
    without_pulls = batch.weight_covariance, u
    weight_covariance, directions = lazy_cond(batch.size > 0, with_last_set, without_pulls)
    covariance = matmul(directions, u.T)
    residual, previous = nystrom.residual(variance, u), rows.take(batch.scores, index)
    members = Members(index, mean, variance, residual, previous)
    picks = pick_from_set(
        members,
        width,
        covariance,
        outside_score - SLACK * jnp.finfo(outside_score.dtype).eps * jnp.abs(outside_score),
        bound=batch.bound,
        ratio=ratio,
        limit=jnp.minimum(limit - batch.size, PICKS),
        capacity=PICKS,
    )
    slots = jnp.arange(PICKS, dtype=jnp.int32)
    chosen = jnp.where(slots < picks.size, index[picks.position], 0)
    # `.min` of the scores is needed: if rounding increased one, the loop might not end
    place = rows.local(index, batch.scores.shape[0])
    return batch._replace(
        arms=lax.dynamic_update_slice(batch.arms, chosen, (batch.size,)),
        size=batch.size + picks.size,
        scores=batch.scores.at[place].min(scores_of(members, width, picks), mode="drop"),
        weight_covariance=weight_covariance,
        last_set=LastSet(directions, covariance, picks.pulls),
        # a pick increases a local bound at most as much as the global bound
        local_bound=batch.local_bound + (picks.bound - batch.bound),
        bound=picks.bound,
    )


class Members(NamedTuple):
    """The k arms of a working set."""

    arm: Array  # [k] int32
    mean: Array  # [k]
    variance: Array  # [k], at the start of the batch
    residual: Array  # [k], the part of the variance that the covariance of the set does not include
    previous: Array  # [k], scores before the picks of the set; -inf for an excluded arm


class Picks(NamedTuple):
    """The picks from a working set."""

    covariance: Array  # [k, k], after the picks
    excluded: Array  # [k] bool, members that cannot be picked
    pulls: Array  # [k]
    position: Array  # [PICKS] int32, the member of each pick
    size: Array  # [] int32, number of picks
    bound: Array  # [], as in `Batch`
    active: Array  # [] bool, false after the last pick


def scores_of(members: Members, width: Array, picks: Picks) -> Array:
    """Current upper confidence bounds of the members, [k]."""
    variance = members.residual + jnp.maximum(jnp.diagonal(picks.covariance), 0)
    scores = ucb(members.mean, variance, width)
    return jnp.where(picks.excluded, -jnp.inf, scores)


def pick_from_set(
    members: Members,
    width: Array,
    covariance: Array,
    threshold: Array,
    *,
    bound: Array,
    ratio: ArrayLike,
    limit: Array,
    capacity: int,
    repeat: bool = True,
) -> Picks:
    """The picks from a set with this covariance [k,k]. Picking ends when the largest score is below
    the `threshold` [], the global bound exceeds the ratio, or there are `limit` [] <= `capacity`
    picks. With repeat=False no arm is picked twice. An arm whose previous score is infinite is the
    first pick."""
    slots = jnp.arange(covariance.shape[0], dtype=jnp.int32)

    def pick_several(picks: Picks) -> Picks:
        for _ in range(STRIDE if devices.on_accelerator() else 1):
            scores = scores_of(members, width, picks)
            scores = jnp.where(jnp.isposinf(members.previous) & (picks.size == 0), jnp.inf, scores)
            best = jnp.argmax(scores).astype(jnp.int32)
            # `>= threshold` would never pick a score of NaN, and the loop over sets would not end
            active = picks.active & ~(scores[best] < threshold) & ~stop_global(picks.bound, ratio)
            # if all members are excluded and an arm outside has a score, which may be NaN, the next
            # set contains that arm
            allowed = ~picks.excluded[best] | jnp.isneginf(threshold)
            active = active & allowed & (picks.size < limit)
            row = picks.covariance[best]
            gain = jnp.where(active, 1 / (1 + jnp.maximum(row[best], 0)), 0)
            slot = jnp.minimum(picks.size, capacity - 1)
            # if too few arms have a score above -inf, an arm is in the set twice (`linalg.largest`)
            same_arm = members.arm == members.arm[best]
            picks = Picks(
                covariance=picks.covariance - row[:, None] * (gain * row)[None, :],
                excluded=picks.excluded if repeat else picks.excluded | (same_arm & active),
                pulls=picks.pulls + jnp.where((slots == best) & active, 1, 0).astype(row.dtype),
                position=put(picks.position, slot, jnp.where(active, best, picks.position[slot])),
                size=picks.size + active.astype(jnp.int32),
                bound=picks.bound + jnp.where(active, members.variance[best], 0),
                active=active,
            )
        return picks

    start = Picks(
        covariance=covariance,
        excluded=jnp.isneginf(members.previous),
        pulls=jnp.zeros_like(covariance[0]),
        position=jnp.zeros(capacity, jnp.int32),
        size=jnp.zeros((), jnp.int32),
        bound=bound,
        active=jnp.ones((), bool),
    )
    return lax.while_loop(lambda picks: picks.active, pick_several, start)


def extend_by_sweep(
    state: SketchState,
    u: Array,
    residual: Array,
    width: Array,
    batch: Batch,
    ratio: ArrayLike,
    limit: Array,
) -> Batch:
    """The batch with one more pick, and with the scores of all arms after it, given the whitened
    features u [A,M] and the residual variances [A] of all arms."""
    rows = state.domain.rows
    arm = rows.argmax(batch.scores)
    variance = rows.take(state.variance, arm)
    direction, e_arm = ridge.whitened_gain(batch.weight_covariance, rows.take(u, arm))
    reduction = jnp.square(matmul(u, direction)) / (1 + e_arm)
    e = jnp.maximum(batch.embedded_variance - reduction, 0)
    return batch._replace(
        arms=put(batch.arms, batch.size, arm),
        size=batch.size + 1,
        scores=ucb(state.mean, residual + e, width),
        weight_covariance=ridge.hallucinate(batch.weight_covariance, direction, e_arm),
        embedded_variance=e,
        local_bound=batch.local_bound + variance,
        bound=batch.bound + variance,
    )


def local_bounds(state: SketchState, bandit: Any, batch: Batch) -> Array:
    """`batch.local_bound` [A], in which the bound of Lemma 3 over the whole batch replaces every
    stored bound that exceeds C."""
    arms, rows, kernel = state.domain.features, state.domain.rows, bandit.kernel
    # each device checks the arms of its rows
    cumulative_exceeding = running_count(batch.local_bound > bandit.ratio)
    chunk_size = min(LOCAL_ROWS, arms.shape[0])
    # the terms of repeated picks are equal: each is computed once and multiplied by the pulls
    zeros, one = jnp.zeros(arms.shape[0], arms.dtype), jnp.ones((), arms.dtype)
    pulls = lax.fori_loop(0, batch.size, lambda i, n: rows.add(n, batch.arms[i], one), zeros)
    cumulative_picked = rows.running_count(pulls > 0)
    block_size = min(LOCAL_PICKS, batch.arms.shape[0])
    root, whiten, points = state.nystrom.root, state.whiten, state.nystrom.points
    n_inducing = state.dictionary.size
    guaranteed = bandit.local_statistic == "guaranteed"

    def add_pick_block(block: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        index, valid = rows.compact(cumulative_picked, block * block_size, block_size)
        picked = rows.take(arms, index)
        weight = jnp.where(valid, rows.take(pulls, index), 0)
        z, u = embed(state, kernel, picked)
        # k_S(x) @ embedded is e(x, x_s); k(x, x_s) / lam - k_S(x) @ explained is k~(x, x_s)
        embedded = matmul(root, matmul(whiten, u.T))
        explained = matmul(root, z.T) / bandit.regularization - embedded
        columns = jnp.concatenate([explained, embedded], axis=1) if guaranteed else explained

        def add_arm_chunk(chunk: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
            total, embedded_total = sums
            index, valid = compact(cumulative_exceeding, chunk * chunk_size, chunk_size)
            x = arms[index]
            products = nystrom.dual_products(kernel, x, points, columns, n_inducing)
            covariance = kernel.gram(x, picked) / bandit.regularization - products[:, :block_size]
            # an invalid slot has a position out of range, and its value is dropped
            place = jnp.where(valid, index, arms.shape[0])
            total = total.at[place].add(matmul(jnp.square(covariance), weight), mode="drop")
            if not guaranteed:
                return total, embedded_total
            squares = jnp.square(products[:, block_size:])
            return total, embedded_total.at[place].add(matmul(squares, weight), mode="drop")

        return lax.fori_loop(0, -(-cumulative_exceeding[-1] // chunk_size), add_arm_chunk, sums)

    blocks = -(-rows.total(cumulative_picked) // block_size)
    statistic, embedded_statistic = lax.fori_loop(0, blocks, add_pick_block, (zeros, zeros))
    if guaranteed:
        statistic = jnp.maximum(statistic, embedded_statistic)
    variance = state.variance
    bound = 1 + jnp.where(variance > 0, statistic / jnp.where(variance > 0, variance, 1), 0)
    return jnp.where(batch.local_bound > bandit.ratio, bound, batch.local_bound)
