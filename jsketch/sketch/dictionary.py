"""Which points we keep: posterior-variance (ridge leverage score) sampling of inducing points.

BKB [Calandriello et al. 2019, Fig. 1] and BBKB [2020, Alg. 1, L11-16] keep a pulled arm with a
probability proportional to its posterior variance. Randomness is drawn over the A arms and never
over the M slots, so that a larger capacity gives the same dictionary.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import shards, struct
from jsketch.linalg import lazy_cond
from jsketch.types import PRNGKey, Shard


@struct.dataclass
class Dictionary:
    """Inducing points: a set of arms in M slots, in the order of the arms; free slots point at arm
    0 and are masked."""

    index: Array  # [M] int32
    mask: Array  # [M] bool

    @property
    def capacity(self) -> int:
        return self.index.shape[0]

    @property
    def size(self) -> Array:
        """m, []."""
        return self.mask.sum(dtype=jnp.int32)


def empty(capacity: int) -> Dictionary:
    """A dictionary without points: the posterior is then the prior."""
    return Dictionary(index=jnp.zeros(capacity, jnp.int32), mask=jnp.zeros(capacity, bool))


def of_arms(keep: Array, capacity: int, shard: Shard | None = None) -> tuple[Dictionary, Array]:
    """The dictionary of the arms where keep [A] is true, and whether they do not fit (`overflow`,
    [])."""
    running = shards.running_count(shard, keep)
    index, mask = shards.compact(shard, running, 0, capacity)
    return Dictionary(index=index, mask=mask), shards.last(shard, running) > capacity


def inclusion_probability(pull_counts: Array, variance: Array, qbar: ArrayLike) -> Array:
    """min(1, qbar n_i sigma~^2_i), [A] (BKB Fig. 1; THEORY 3.1: the authors' per-arm draw, never
    below the paper's).

    pull_counts [A] includes the pulls just made; variance [A] is the one BEFORE them, in leverage
    units.
    """
    return jnp.clip(qbar * pull_counts * variance, 0, 1)


def resample(
    key: PRNGKey,
    pull_counts: Array,
    variance: Array,
    qbar: ArrayLike,
    capacity: int,
    most: int | None = None,
    shard: Shard | None = None,
    uniform: Array | None = None,
) -> tuple[Dictionary, Array, Array]:
    """A fresh dictionary by posterior-variance sampling: (dictionary, overflow [], budgeted []). An
    empty one is legal.

    most is the budget `max_dictionary`, None for no limit; `budgeted` says that the draw exceeded
    it and was scaled to it. uniform [A] are numbers drawn elsewhere, None for those of the key.
    """
    if uniform is None:
        uniform = shards.uniform(shard, key, pull_counts.shape[0], variance.dtype)
    keep = uniform < inclusion_probability(pull_counts, variance, qbar)
    expected = jnp.asarray(qbar * pull_counts * variance)
    keep, budgeted = within_budget(keep, uniform, expected, most, shard)
    dictionary, overflow = of_arms(keep, capacity, shard)
    return dictionary, overflow, budgeted


def within_budget(
    keep: Array, uniform: Array, expected: Array, most: int | None, shard: Shard | None = None
) -> tuple[Array, Array]:
    """The draw keep [A], scaled to at most `most` arms where it has more: (keep [A], whether it
    was, []).

    uniform [A] and expected = qbar n_i sigma~^2_i [A] are those of the draw. An arm stays where
    uniform < c expected, c <= 1 the largest factor at which the draw fits: the draw of the same
    numbers with qbar c in the place of qbar (THEORY 3.6). It is a priority sample of the draw,
    the `most` smallest uniform / expected (Duffield, Lund, Thorup, JACM 2007; Ohlsson 1998); arms
    that tie for the last place stay out.
    """
    if most is None or most >= (keep.shape[0] if shard is None else shard.arms):
        return keep, jnp.zeros((), bool)
    budgeted = shards.total(shard, keep.sum(dtype=jnp.int32)) > most

    def scaled(keep: Array) -> Array:
        ratio = jnp.where(keep, uniform / expected, jnp.inf)
        smallest = jnp.sort(ratio)
        if shard is not None:
            # no device has more than most + 1 of the most + 1 smallest
            smallest = jnp.sort(shards.gather(shard, smallest[: most + 1]).reshape(-1))
        return ratio < smallest[most]

    return lazy_cond(budgeted, scaled, keep), budgeted


def qbar_theory(horizon: ArrayLike, delta: ArrayLike) -> Array:
    """The oversampling 72 log(4 T / delta) under which variances are accurate to a factor 3 w.p. 1
    - delta (BKB Thm 3.1 at eps = 1/2; BBKB Lemma 2). Experiments use qbar = 2."""
    return 72 * jnp.log(4 * jnp.asarray(horizon) / delta)
