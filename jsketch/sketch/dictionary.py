"""Posterior-variance (ridge leverage score) sampling of the inducing points.

BKB [Calandriello et al. 2019, Fig. 1] and BBKB [2020, Alg. 1, L11-16] include a pulled arm with a
probability proportional to its posterior variance. Random numbers are drawn for the A arms and not
for the M slots, so that the dictionary does not depend on the capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.linalg import ONE_DEVICE, Rows

Sums = TypeVar("Sums")

OUTSIDE_ROWS = 128  # pulled arms outside the dictionary in one chunk


@struct.dataclass
class Dictionary:
    """The inducing points, a set of arms in M slots. After a draw they are in the order of their
    arm numbers; arms that are added later follow. Unused slots contain arm 0 and are masked."""

    index: Array  # [M] int32
    mask: Array  # [M] bool

    @property
    def size(self) -> Array:
        """The number m of inducing points, []."""
        return self.mask.sum(dtype=jnp.int32)


def of_arms(inducing: Array, capacity: int, rows: Rows = ONE_DEVICE) -> tuple[Dictionary, Array]:
    """(the dictionary of the `inducing` [A] arms, whether their number exceeds the capacity [])."""
    counts = rows.running_count(inducing)
    index, mask = rows.compact(counts, 0, capacity)
    return Dictionary(index=index, mask=mask), rows.total(counts) > capacity


def put(dictionary: Dictionary, values: Array, new: Array | bool, rows: Rows = ONE_DEVICE) -> Array:
    """The values [A], replaced by `new` [M] or [] at the arms of the dictionary."""
    count = values.shape[0]
    position = jnp.where(dictionary.mask, rows.local(dictionary.index, count), count)
    return values.at[position].set(new, mode="drop")


def sum_outside(state: Any, add: Callable[[Sums, Array, Array, Array], Sums], start: Sums) -> Sums:
    """A sum over the pulled arms of a `SketchState` that are not in its dictionary.

    The sum begins with `start`, and add(sum, index [n], pull counts [n], reward sums [n]) returns
    the sum plus a chunk of n arms. Pull counts and reward sums of padding are zero.
    """
    rows = state.domain.rows
    counts = rows.running_count(put(state.dictionary, state.pull_counts > 0, False, rows))
    size = min(OUTSIDE_ROWS, state.domain.count)

    def add_chunk(i: Array, total: Sums) -> Sums:
        index, valid = rows.compact(counts, i * size, size)
        pulls = jnp.where(valid, rows.take(state.pull_counts, index), 0)
        return add(total, index, pulls, jnp.where(valid, rows.take(state.reward_sums, index), 0))

    return lax.fori_loop(0, -(-rows.total(counts) // size), add_chunk, start)


def inclusion_probability(pull_counts: Array, variance: Array, qbar: ArrayLike) -> Array:
    """The probability min(1, qbar n_i sigma~_i^2), [A], that an arm joins the dictionary.

    As in the authors' code, one draw decides for each arm. In the paper (BKB Fig. 1; THEORY 3.1)
    every pull is drawn separately, which gives an arm at most this probability.

    pull_counts [A] include the latest pulls; variance [A], in leverage units, is the posterior
    variance before the latest pulls.
    """
    return jnp.clip(qbar * pull_counts * variance, 0, 1)


def extend(
    dictionary: Dictionary,
    added: Array,
    probability: Array,
    growth: ArrayLike,
    rows: Rows = ONE_DEVICE,
) -> tuple[Array, Array]:
    """(the arms [A] bool of the extended dictionary, whether it replaces a new draw []). The
    extended dictionary also has the arms where `added` [A] is true.

    It replaces a draw if its size is at most (1 + growth) times the expected size of a draw with
    the inclusion probabilities [A]. A dictionary to which every newly pulled arm is added stays as
    accurate as at its last draw (THEORY 3.6). With a growth below 0 dictionaries are always drawn,
    as in the papers.
    """
    extended = put(dictionary, added, True, rows)
    size = rows.sum(extended.sum(dtype=probability.dtype))
    limit = (1 + growth) * rows.sum(probability.sum())
    return extended, (jnp.asarray(growth) >= 0) & (size <= limit)


def qbar_theory(horizon: ArrayLike, delta: ArrayLike) -> Array:
    """The oversampling 72 log(4 T / delta). With probability at least 1 - delta, variances are then
    accurate to a factor of 3 (BKB Thm 3.1 at eps = 1/2; BBKB Lemma 2)."""
    return 72 * jnp.log(4 * jnp.asarray(horizon) / delta)
