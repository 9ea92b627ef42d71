"""Which candidates to evaluate together: batches from a joint posterior of a shortlist.

An acquisition is a value with two methods. `score(mean, variance, threshold)` rates single
candidates, and the shortlist is those with the largest; `choose(outlook, size, key)` picks a batch
from it. Scores never rise as variances fall, so where the batch's scores are above all that the
shortlist leaves out, the shortlist changes nothing.

Greedy, UCB and ExpectedImprovement pick one candidate after the other: each pick brings its own
mean (hallucination: Desautels, Krause, Burdick, JMLR 2014; the kriging believer: Ginsbourger, Le
Riche, Carraro, 2010), which lowers the variances around it. Thompson, TopTwo and
ProbabilityOfBest read draws of the whole function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch.box.acquisition import log_expected_improvement
from jsketch.linalg import matmul, put
from jsketch.types import PRNGKey

REACH = 3.0  # standard deviations of optimism by which draws are shortlisted


class Outlook(NamedTuple):
    """The joint posterior of a shortlist of K candidates, in units of the signal."""

    mean: Array  # [K]
    covariance: Array  # [K, K]
    free: Array  # [K] bool, those that may be picked
    ratio: Array  # [], noise variance
    threshold: Array  # [], the largest posterior mean of what was evaluated


def _one_by_one(score: Callable[..., Array], outlook: Outlook, size: int) -> Array:
    """[size] int32 picks of largest score(mean, variance, threshold), each conditioned on before
    the next."""
    mean, covariance, free, ratio, threshold = outlook
    diagonal = jnp.maximum(jnp.diagonal(covariance), 0)
    every = jnp.arange(len(mean), dtype=jnp.int32)

    def pick(i: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        picks, left, variance, rows, best = carry
        value = jnp.where(left, score(mean, variance, best), -jnp.inf)
        # where all scores vanish, the first that is left
        arm = jnp.argmax(jnp.where(left, jnp.maximum(value, -1e30), -jnp.inf)).astype(jnp.int32)
        # the covariance with the pick after the picks before it, as a row of a Cholesky factor
        row = covariance[arm] - matmul(rows[:, arm], rows)
        row = row / jnp.sqrt(jnp.maximum(variance[arm], 0) + ratio)
        return (
            put(picks, i, arm),
            left & (every != arm),
            jnp.maximum(variance - jnp.square(row), 0),
            put(rows, i, row),
            jnp.maximum(best, mean[arm]),
        )

    start = (
        jnp.zeros(size, jnp.int32),
        free,
        diagonal,
        jnp.zeros((size, len(mean)), mean.dtype),
        threshold,
    )
    return lax.fori_loop(0, size, pick, start)[0]


def _draws(outlook: Outlook, count: int, key: PRNGKey) -> Array:
    """[count, K] draws of f at the shortlist; those that may not be picked are -inf."""
    mean, covariance, free, ratio, _ = outlook
    jitter = (1e-3 * ratio + 100 * jnp.finfo(mean.dtype).eps) * jnp.eye(len(mean), dtype=mean.dtype)
    root = jnp.linalg.cholesky(covariance + jitter)
    normal = jax.random.normal(key, (count, len(mean)), mean.dtype)
    return jnp.where(free[None, :], mean[None, :] + matmul(normal, root.T), -jnp.inf)


def _distinct(draws: Array, size: int) -> Array:
    """[size] int32: of every draw [size, K] its largest that none before it took."""

    every = jnp.arange(draws.shape[1], dtype=jnp.int32)

    def pick(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        picks, left = carry
        arm = jnp.argmax(jnp.where(left, draws[i], -jnp.inf)).astype(jnp.int32)
        return put(picks, i, arm), left & (every != arm)

    start = (jnp.zeros(size, jnp.int32), jnp.ones(draws.shape[1], bool))
    return lax.fori_loop(0, size, pick, start)[0]


@struct.dataclass
class UCB:
    """mean + width standard deviations; width 0 is greedy."""

    width: ArrayLike = 2.0

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + self.width * jnp.sqrt(variance)

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self.score, outlook, size)


@struct.dataclass
class ExpectedImprovement:
    """log E max(f - best, 0), best the largest posterior mean of what was evaluated or picked."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        floor = jnp.finfo(mean.dtype).eps
        return log_expected_improvement(mean, jnp.maximum(variance, floor), threshold)

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self.score, outlook, size)


@struct.dataclass
class Spread:
    """The largest variances: before there is any value, and for a design that learns most."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return variance

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self.score, outlook, size)


@struct.dataclass
class Thompson:
    """The best candidate of a draw of the posterior for each pick (Kandasamy et al., AISTATS
    2018)."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + REACH * jnp.sqrt(variance)

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        return _distinct(_draws(outlook, size, key), size)


@struct.dataclass
class TopTwo:
    """Thompson sampling that takes the second best of its draw with probability 1 - `leader`
    (Russo. Simple Bayesian algorithms for best-arm identification. Operations Research 2020)."""

    leader: ArrayLike = 0.5

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + REACH * jnp.sqrt(variance)

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        draw_key, coin_key = jax.random.split(key)
        draws = _draws(outlook, size, draw_key)
        second = jax.random.uniform(coin_key, (size,)) >= self.leader
        best = jnp.arange(draws.shape[1])[None, :] == jnp.argmax(draws, 1)[:, None]
        # the best is put last among those that may be picked, not out: it may be the only one
        last = jnp.min(jnp.where(jnp.isfinite(draws), draws, jnp.inf), 1, keepdims=True) - 1
        draws = jnp.where(second[:, None] & best & jnp.isfinite(draws), last, draws)
        return _distinct(draws, size)


@struct.dataclass
class ProbabilityOfBest:
    """The candidates most likely to be the best of the library, counted over `draws`: the batch of
    the largest probability to hold it (qPO: Fromer, Graff, Coley, 2024). Ties by optimism."""

    draws: int = struct.field(pytree_node=False, default=2048)

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + REACH * jnp.sqrt(variance)

    def choose(self, outlook: Outlook, size: int, key: PRNGKey) -> Array:
        best = jnp.argmax(_draws(outlook, self.draws, key), 1)
        wins = jnp.zeros(len(outlook.mean), outlook.mean.dtype).at[best].add(1)
        optimism = outlook.mean + jnp.sqrt(jnp.maximum(jnp.diagonal(outlook.covariance), 0))
        order = jnp.argsort(jnp.argsort(optimism)).astype(optimism.dtype) / (2 * len(optimism))
        rate = jnp.where(outlook.free, wins + order, -1)
        return lax.top_k(rate, size)[1].astype(jnp.int32)
