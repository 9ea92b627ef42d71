"""The picks of a batch among the arms at hand, while no other can be better: the programs of
FixedBKB and of BBKB, over a window of S slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jsketch.bandits.batches import adaptive_batch
from jsketch.bandits.core.sketched import SketchState
from jsketch.bandits.core.widths import ucb
from jsketch.bandits.fixed_bkb import FixedBKB, with_pending
from jsketch.types import Arms


@jax.jit
def started(
    bandit: Any, sketch: SketchState, pending: Array, tried: Array, free: Array
) -> tuple[Any, Array]:
    """(a batch without picks, distinct pending arms []) over the window of a sketch, with pending
    [S], tried [S] and free [S] slots."""
    if isinstance(bandit, FixedBKB):
        some, begin = bandit.start_batch(with_pending(sketch, pending, tried))
        return some._replace(scores=jnp.where(free, -jnp.inf, some.scores)), begin
    scores = ucb(sketch.mean, sketch.variance, bandit.confidence_width(sketch))
    scores = jnp.where(free, -jnp.inf, scores)
    return adaptive_batch.start(sketch, bandit, scores), jnp.zeros((), jnp.int32)


@jax.jit
def extended(
    bandit: Any,
    sketch: SketchState,
    batch: Any,
    begin: Array,
    limit: Array,
    beyond: Array,
) -> Any:
    """The batch with picks of the window until it has `limit` of them, or is ended by its rule, or
    a score `beyond` [] the window may be larger."""
    fixed = isinstance(bandit, FixedBKB)
    # not given up for less, which may be rounding between two programs
    slack = adaptive_batch.SLACK * jnp.finfo(batch.scores.dtype).eps
    least = jnp.where(jnp.isneginf(beyond), beyond, beyond - slack * jnp.abs(beyond))

    def more(batch: Any) -> Array:
        ended = False if fixed else batch.bound > bandit.ratio
        return (batch.size < limit) & ~(jnp.max(batch.scores) < least) & ~jnp.asarray(ended)

    def picks(batch: Any) -> Any:
        if fixed:
            return bandit.extend_batch(sketch, batch, begin, limit, least)
        width = bandit.confidence_width(sketch)
        return adaptive_batch.extend_by_set(
            sketch, bandit.kernel, width, batch, bandit.ratio, limit, least
        )

    return lax.while_loop(more, picks, batch)


def window(
    sketch: SketchState, points: Array, mean: Array, variance: Array, pull_counts: Array
) -> SketchState:
    """A posterior over other arms [S, d] than its own, with their means, variances and counts [S].
    Its dictionary stays in the numbers of its own arms: no batch reads it."""
    return replace(
        sketch, domain=Arms(points), mean=mean, variance=variance, pull_counts=pull_counts
    )
