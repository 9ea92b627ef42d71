"""The picks of a batch while the dictionary and the feedback are frozen (BBKB Algorithm 1, lines 4
to 8; Appendix A.3).

The score of an arm only decreases within a batch, so a stored score is an upper bound of the
current score. A working set consists of the k arms with the largest stored scores. It contains the
best arm as long as the largest current score in the set is not below the largest stored score
outside. Let U [k,M] be the whitened features of the arms in the set, and
P [M,M] = (I + sum_s u_s u_s^T)^-1, a sum over the picks s of the batch. A pick updates the
covariance U P U^T [k,k] of the set in O(k^2), and P is updated before each further set. To update
the scores of all arms after every pick makes the same picks, in O(A m) for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.core.posterior import Posterior, embed, residual
from jsketch.core.widths import ucb
from jsketch.numerics import diagonal, largest, matmul, put, put_part, skip_on_cpu, take, while_any

ARMS_OF_SET = 16  # k, arms of a working set
# The largest number of picks from one working set. A further set changes P, in O(k M^2)
PICKS_OF_SET = 1_024
# Picks come from a working set until its largest score is more than SLACK units in the last place
# below the scores of other arms, because scores of different sets have different rounding errors
SLACK = 64.0


def stop(bound: Array, ratio: ArrayLike) -> Array:
    """The rule of Lemma 1: a batch ends when 1 + sum_s variance(x_s) over its picks s, the `bound`
    [], exceeds C. It also ends when the bound is NaN, because a batch must end."""
    return ~(bound <= ratio)


class Batch(NamedTuple):
    """A batch under construction."""

    arms: Array  # [B + PICKS_OF_SET] int32, picks in order; each set writes PICKS_OF_SET entries
    size: Array  # [] int32
    # [], an upper bound of the ratio of variances: 1 + the sum of the variances of the picks; with
    # the local rule, the largest local bound at the last check + the sum since then
    bound: Array
    scores: Array  # [A], upper bounds of the current scores
    covariance: Array  # [M, M], P without the picks of the last set, which the next one reads
    half: Array  # [k, M], U P of the last set
    reduction: Array  # [k, k], S of the last set: its picks change P by -half^T S half


def empty(posterior: Posterior, scores: Array, slots: int) -> Batch:
    """A batch without picks for arms with these scores [A], and at most `slots` picks."""
    dtype, n_arms = scores.dtype, min(ARMS_OF_SET, len(scores))
    return Batch(
        arms=jnp.zeros(slots + PICKS_OF_SET, jnp.int32),
        size=jnp.zeros((), jnp.int32),
        bound=jnp.ones((), dtype),
        scores=scores,
        covariance=jnp.eye(posterior.capacity, dtype=dtype),
        half=jnp.zeros((n_arms, posterior.capacity), dtype),
        reduction=jnp.zeros((n_arms, n_arms), dtype),
    )


class Picks(NamedTuple):
    """The picks from a working set of k arms."""

    member: Array  # [PICKS_OF_SET] int32, the position in the set of each pick
    size: Array  # [] int32
    bound: Array  # [], as in `Batch`
    # [k, 2k], [K | E]: the covariances K = E K_0 of the set after the picks, where K_0 are those
    # before, and E; only K [k, k] without `reduces`
    table: Array

    @property
    def covariance(self) -> Array:
        """The covariances K [k,k] of the set after the picks."""
        return self.table[:, : len(self.table)]

    @property
    def reduction(self) -> Array:
        """S [k,k], by which the picks change the covariances K_0 of any arms with the set: they
        become K_0 - K_0 S K_0. With n_j picks of arm j, S = N E and E = (I + K_0 N)^-1."""
        size = len(self.table)
        made = jnp.arange(len(self.member), dtype=jnp.int32) < self.size
        is_pick = self.member[None, :] == jnp.arange(size, dtype=jnp.int32)[:, None]
        pulls = (is_pick & made[None, :]).sum(1, dtype=self.table.dtype)
        return pulls[:, None] * self.table[:, size:]


def pick_from_set(
    mean: Array,
    rest: Array,
    covariance: Array,
    width: ArrayLike,
    *,
    outside: Array,
    limit: Array,
    bound: Array,
    variance: Array,
    ratio: ArrayLike,
    candidates: Array,
    repeat: bool = True,
    reduces: bool = True,
) -> tuple[Picks, Array]:
    """(the picks from a set, the scores [k] of its arms after them).

    mean        [k], posterior means
    rest        [k], the part of the variances that picks do not reduce
    covariance  [k, k], the part that they reduce, given the picks of earlier sets
    width       posterior standard deviations of a score
    outside     [], the largest score outside of the set: picking ends below it
    limit       [] int, picks at most; no more than PICKS_OF_SET
    bound       [], 1 + sum of the `variance` [k] of the picks so far; picking ends when it exceeds
                the `ratio` C (Lemma 1)
    candidates  [k] bool, arms that may be picked
    repeat      whether an arm may be picked again
    reduces     whether the picks have a `reduction`
    """
    outside = outside - SLACK * jnp.finfo(mean.dtype).eps * jnp.abs(outside)

    def scores_of(picks: Picks, candidates: Array) -> Array:
        scores = ucb(mean, rest + jnp.maximum(diagonal(picks.covariance), 0), width)
        return jnp.where(candidates, scores, -jnp.inf)

    def goes_on(carry: tuple[Picks, Array]) -> Array:
        picks, candidates = carry
        best = jnp.max(scores_of(picks, candidates))
        # `~(<)`: a score of NaN is picked, because the loop over sets must end
        may_pick = ~(best < outside) & ~jnp.isneginf(best)
        return may_pick & (picks.size < limit) & ~stop(picks.bound, ratio)

    def pick(carry: tuple[Picks, Array]) -> tuple[Picks, Array]:
        picks, candidates = carry
        best = jnp.argmax(scores_of(picks, candidates)).astype(jnp.int32)
        row = take(picks.table, best)
        covariances = row[: len(mean)]
        noisy = 1 + jnp.maximum(take(row, best), 0)
        new = Picks(
            member=put(picks.member, picks.size, best),
            size=picks.size + 1,
            bound=picks.bound + take(variance, best),
            table=picks.table - covariances[:, None] * (row / noisy)[None, :],
        )
        if repeat:
            return new, candidates
        return new, candidates & (jnp.arange(len(mean), dtype=jnp.int32) != best)

    identity = jnp.eye(len(mean), dtype=mean.dtype)
    start = Picks(
        member=jnp.zeros(PICKS_OF_SET, jnp.int32),
        size=jnp.zeros((), jnp.int32),
        bound=bound,
        table=jnp.concatenate([covariance, identity], axis=1) if reduces else covariance,
    )
    picks, candidates = lax.while_loop(goes_on, pick, (start, candidates))
    return picks, scores_of(picks, candidates)


def add_picks(
    posterior: Posterior,
    kernel: Any,
    x: Array,
    width: Array,
    batch: Batch,
    ratio: ArrayLike,
    limit: Array,
) -> Batch:
    """The batch after picks until its bound exceeds the ratio (Lemma 1) or it has `limit` [] picks.
    The pick with which the bound exceeds the ratio is part of the batch, because its score was
    still valid (THEORY 5.2).

    kernel  k, a kernel of `jsketch.kernels`
    x       arms [A, d]
    width   [], posterior standard deviations of a score
    """
    n_arms = min(ARMS_OF_SET, len(x))

    def goes_on(batch: Batch) -> Array:
        return (batch.size < limit) & ~stop(batch.bound, ratio)

    def add_from_set(batch: Batch) -> Batch:
        live = goes_on(batch)
        index, outside = largest(batch.scores, n_arms)
        u, variance = embed(posterior, kernel, take(x, index)), take(posterior.variance, index)

        def after_last_set(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            before, u = carry
            change = matmul(batch.half.T, matmul(batch.reduction, batch.half))
            return before - change, matmul(u, before - change)

        # most batches come from one set, which no picks precede
        covariance, half = skip_on_cpu(batch.size > 0, after_last_set, (batch.covariance, u))
        picks, scores = pick_from_set(
            take(posterior.mean, index),
            residual(variance, u),
            matmul(half, u.T),
            width,
            outside=outside,
            limit=jnp.where(live, jnp.minimum(limit - batch.size, PICKS_OF_SET), 0),
            bound=batch.bound,
            variance=variance,
            ratio=ratio,
            candidates=~jnp.isneginf(take(batch.scores, index)),
        )
        return batch._replace(
            arms=put_part(batch.arms, batch.size, take(index, picks.member)),
            size=batch.size + picks.size,
            bound=picks.bound,
            # if rounding increased a stored score, the loop over sets might not end
            scores=batch.scores.at[index].min(scores),
            covariance=covariance,
            half=half,
            reduction=picks.reduction,
        )

    return while_any(goes_on, add_from_set, batch)
