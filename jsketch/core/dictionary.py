"""Which arms are the inducing points: sampling by posterior variance, and the two rules.

BKB (Figure 1) and BBKB (Algorithm 1, lines 11 to 16) include a pulled arm with a probability
proportional to its posterior variance, its ridge leverage score. Random numbers are drawn for the A
arms and not for the M slots, so that a draw does not depend on the capacity.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.types import PRNGKey


@struct.dataclass
class Draw:
    """A fresh draw after every batch, as in the papers."""


@struct.dataclass
class Extend:
    """The pulled arms of a batch join the dictionary if it then has at most 1 + `slack` times the
    expected size of a fresh draw; otherwise a fresh draw replaces it (THEORY 3.6).

    A dictionary that every pulled arm joins stays as accurate as it was drawn, and the posterior
    can be updated in less time (`core.low_rank`).

    slack  the share by which an extended dictionary may exceed the expected size of a fresh draw
    """

    slack: ArrayLike = struct.number(0.25, at_least=0)


Rule = Draw | Extend


def probability(counts: Array, variance: Array, qbar: ArrayLike) -> Array:
    """The probability min(1, qbar n_i sigma_i^2), [A], that an arm is drawn.

    counts    [A], pulls of each arm, the latest ones included
    variance  [A], posterior variances before the latest pulls, divided by lam
    qbar      oversampling

    As in the authors' code, one draw decides for each arm. In the paper (BKB Fig. 1; THEORY 3.1)
    every pull is drawn separately, which gives an arm at most this probability.
    """
    return jnp.clip(qbar * counts * variance, 0, 1)


def draw(key: PRNGKey, probability: Array) -> Array:
    """A fresh dictionary, [A] bool, in which each arm is with its probability [A]."""
    return jax.random.uniform(key, probability.shape, probability.dtype) < probability


def may_extend(inducing: Array, probability: Array, slack: ArrayLike) -> Array:
    """Whether an extended dictionary [A] bool is at most 1 + slack times as large as a fresh draw
    with these probabilities [A] is expected to be, []."""
    return inducing.sum(dtype=probability.dtype) <= (1 + slack) * probability.sum()


def qbar_theory(horizon: ArrayLike, delta: ArrayLike) -> Array:
    """The oversampling 72 log(4 T / delta). With probability at least 1 - delta, variances are then
    accurate to a factor of 3 (BKB Thm 3.1 at eps = 1/2; BBKB Lemma 2)."""
    return 72 * jnp.log(4 * jnp.asarray(horizon) / delta)
