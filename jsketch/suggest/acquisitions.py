"""Which candidates to evaluate together: batches from a joint posterior of a shortlist.

An acquisition is a value with two methods. `score(mean, variance, threshold)` rates single
candidates, and the shortlist is those with the largest; `choose(outlook, size, key)` picks a batch
from it. Scores never rise as variances fall, so where the batch's scores are above all that the
shortlist leaves out, the shortlist changes nothing.

Greedy, UCB and ExpectedImprovement pick one candidate after the other: each pick brings its own
mean (hallucination: Desautels, Krause, Burdick, JMLR 2014; the kriging believer: Ginsbourger, Le
Riche, Carraro, 2010), which lowers the variances around it. Thompson, TopTwo and
ProbabilityOfBest read draws of the whole function.

Where evaluations may fail (`Chance`) a failure is worth the worst value so far: a score is
`with_failures`, and draws have failures drawn into them. Where they cost, expected improvement and
`Spread` are divided by cost^exponent (`per_cost`; EI-cool: Lee, Perrone, Archambeau, Seeger.
Cost-aware Bayesian optimization. 2020), and a pick costs no more than what is left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box.acquisition import log_expected_improvement
from jsketch.linalg import matmul, put
from jsketch.types import PRNGKey

FAILURES = 1  # folded into the key of draws
REACH = 3.0  # standard deviations of optimism by which draws are shortlisted


class Chance(NamedTuple):
    """Evaluations of K candidates may fail."""

    success: Array  # [K], probability
    worst: Array  # [], the value of a failure


class Price(NamedTuple):
    """Evaluations of K candidates cost something."""

    cost: Array  # [K], above 0
    exponent: Array  # [], of the cost in a score
    left: Array  # [], what all picks together may cost


class Terms(NamedTuple):
    """What counts beside the values; None: does not."""

    chance: Chance | None = None
    price: Price | None = None

    def of(self, rows: Array) -> Terms:
        """Of some candidates."""
        chance, price = self
        return Terms(
            None if chance is None else chance._replace(success=chance.success[rows]),
            None if price is None else price._replace(cost=price.cost[rows]),
        )


class JointPosterior(NamedTuple):
    """The joint posterior of a shortlist of K candidates, in units of the signal."""

    mean: Array  # [K]
    covariance: Array  # [K, K]
    free: Array  # [K] bool, those that may be picked
    ratio: Array  # [], noise variance
    threshold: Array  # [], the largest posterior mean of what was evaluated
    terms: Terms = Terms()


def rated(
    acquisition: Any, mean: Array, variance: Array, threshold: ArrayLike, terms: Terms
) -> Array:
    """[K], the scores of an acquisition on these terms."""
    score = acquisition.score(mean, variance, threshold)
    if terms.chance is not None:
        score = acquisition.with_failures(score, *terms.chance)
    if terms.price is not None:
        score = acquisition.per_cost(score, terms.price.exponent * jnp.log(terms.price.cost))
    return score


def _one_by_one(acquisition: Any, outlook: JointPosterior, size: int) -> Array:
    """[size] int32 picks of largest score, each conditioned on before the next; -1 where none of
    those left costs less than what is left."""
    mean, covariance, free, ratio, threshold, terms = outlook
    diagonal = jnp.maximum(jnp.diagonal(covariance), 0)
    every = jnp.arange(len(mean), dtype=jnp.int32)

    def pick(i: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        picks, left, variance, rows, best, spent = carry
        if terms.price is not None:
            left = left & (spent + terms.price.cost <= terms.price.left)
        value = jnp.where(left, rated(acquisition, mean, variance, best, terms), -jnp.inf)
        # where all scores vanish, the first that is left
        arm = jnp.argmax(jnp.where(left, jnp.maximum(value, -1e30), -jnp.inf)).astype(jnp.int32)
        # the covariance with the pick after the picks before it, as a row of a Cholesky factor
        row = covariance[arm] - matmul(rows[:, arm], rows)
        row = row / jnp.sqrt(jnp.maximum(variance[arm], 0) + ratio)
        taken = arm
        if terms.price is not None:
            taken, spent = jnp.where(left.any(), arm, -1), spent + terms.price.cost[arm]
        return (
            put(picks, i, taken),
            left & (every != arm),
            jnp.maximum(variance - jnp.square(row), 0),
            put(rows, i, row),
            jnp.maximum(best, mean[arm]),
            spent,
        )

    start = (
        jnp.zeros(size, jnp.int32),
        free,
        diagonal,
        jnp.zeros((size, len(mean)), mean.dtype),
        threshold,
        jnp.zeros((), mean.dtype),
    )
    return lax.fori_loop(0, size, pick, start)[0]


def _draws(outlook: JointPosterior, count: int, key: PRNGKey) -> Array:
    """[count, K] draws of f at the shortlist, the worst value where the evaluation fails in the
    draw; those that may not be picked are -inf."""
    mean, covariance, free, ratio, _, terms = outlook
    jitter = (1e-3 * ratio + 100 * jnp.finfo(mean.dtype).eps) * jnp.eye(len(mean), dtype=mean.dtype)
    root = jnp.linalg.cholesky(covariance + jitter)
    normal = jax.random.normal(key, (count, len(mean)), mean.dtype)
    values = mean[None, :] + matmul(normal, root.T)
    if terms.chance is not None:
        success = jax.random.uniform(jax.random.fold_in(key, FAILURES), values.shape, mean.dtype)
        values = jnp.where(success < terms.chance.success[None, :], values, terms.chance.worst)
    return jnp.where(free[None, :], values, -jnp.inf)


def expected_best(outlook: JointPosterior, picks: Array, key: PRNGKey, draws: int = 512) -> Array:
    """E max(max f(picks) - threshold, 0), [], by draws: the q-EI of a batch (Ginsbourger, Le Riche,
    Carraro, 2010), divided by its cost^exponent. Picks of -1 are none."""
    there, picks = picks >= 0, jnp.maximum(picks, 0)
    mean, covariance, _, ratio, threshold, terms = outlook
    some = terms.of(picks)
    both = there[:, None] & there[None, :]
    covariance = jnp.where(both, covariance[picks][:, picks], 0)
    batch = JointPosterior(mean[picks], covariance, there, ratio, threshold, some)
    gain = jnp.mean(jnp.maximum(_draws(batch, draws, key).max(1) - threshold, 0))
    if some.price is None:
        return gain
    return gain * jnp.sum(jnp.where(there, some.price.cost, 0)) ** -some.price.exponent


def _mixed(score: Array, chance: Array, worst: Array) -> Array:
    """The mean of a value and of what a failure is worth, by their chances."""
    return chance * score + (1 - chance) * worst


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

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        return _mixed(score, chance, worst)

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self, outlook, size)


@struct.dataclass
class ExpectedImprovement:
    """log E max(f - best, 0), best the largest posterior mean of what was evaluated or picked."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        floor = jnp.finfo(mean.dtype).eps
        return log_expected_improvement(mean, jnp.maximum(variance, floor), threshold)

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        """A failure improves nothing: the constrained EI of Gelbart et al., 2014."""
        return score + jnp.log(jnp.maximum(chance, jnp.finfo(score.dtype).tiny))

    def per_cost(self, score: Array, log_cost: Array) -> Array:
        return score - log_cost

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self, outlook, size)


@struct.dataclass
class Spread:
    """The largest variances: before there is any value, and for a design that learns most."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return variance

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        """A failure tells nothing of the values."""
        return chance * score

    def per_cost(self, score: Array, log_cost: Array) -> Array:
        return score * jnp.exp(-log_cost)

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
        return _one_by_one(self, outlook, size)


@struct.dataclass
class Thompson:
    """The best candidate of a draw of the posterior for each pick (Kandasamy et al., AISTATS
    2018)."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + REACH * jnp.sqrt(variance)

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        return _mixed(score, chance, worst)

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
        return _distinct(_draws(outlook, size, key), size)


@struct.dataclass
class TopTwo:
    """Thompson sampling that takes the second best of its draw with probability 1 - `leader`
    (Russo. Simple Bayesian algorithms for best-arm identification. Operations Research 2020)."""

    leader: ArrayLike = 0.5

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + REACH * jnp.sqrt(variance)

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        return _mixed(score, chance, worst)

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
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

    def with_failures(self, score: Array, chance: Array, worst: Array) -> Array:
        return _mixed(score, chance, worst)

    def choose(self, outlook: JointPosterior, size: int, key: PRNGKey) -> Array:
        best = jnp.argmax(_draws(outlook, self.draws, key), 1)
        wins = jnp.zeros(len(outlook.mean), outlook.mean.dtype).at[best].add(1)
        optimism = outlook.mean + jnp.sqrt(jnp.maximum(jnp.diagonal(outlook.covariance), 0))
        order = jnp.argsort(jnp.argsort(optimism)).astype(optimism.dtype) / (2 * len(optimism))
        rate = jnp.where(outlook.free, wins + order, -1)
        return lax.top_k(rate, size)[1].astype(jnp.int32)
