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
    shard: Shard | None = None,
    uniform: Array | None = None,
) -> tuple[Dictionary, Array]:
    """A fresh dictionary by posterior-variance sampling, and whether it does not fit (`overflow`,
    []). An empty one is legal.

    `uniform` [A] are numbers that were drawn elsewhere; None draws them with the key.
    """
    if uniform is None:
        uniform = shards.uniform(shard, key, pull_counts.shape[0], variance.dtype)
    keep = uniform < inclusion_probability(pull_counts, variance, qbar)
    return of_arms(keep, capacity, shard)


def qbar_theory(horizon: ArrayLike, delta: ArrayLike) -> Array:
    """The oversampling 72 log(4 T / delta) under which variances are accurate to a factor 3 w.p. 1
    - delta (BKB Thm 3.1 at eps = 1/2; BBKB Lemma 2). Experiments use qbar = 2."""
    return 72 * jnp.log(4 * jnp.asarray(horizon) / delta)
