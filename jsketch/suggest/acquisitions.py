"""Acquisitions choose candidates to evaluate together from the joint posterior of a shortlist.

An acquisition has two methods. `score(mean, variance, threshold)` rates single candidates, and
those with the largest scores form the shortlist. `choose(posterior, size, key)` picks `size` of
them. Scores never rise as variances fall. If the scores of a batch exceed the scores of
all candidates outside the shortlist, the same batch would be picked from all candidates.

UCB, ExpectedImprovement, LargestVariance and VarianceReduction pick one candidate after the other.
Each pick is assumed to return its posterior mean, which lowers the variances of similar candidates
(hallucination: Desautels, Krause, Burdick, JMLR 2014; the kriging believer: Ginsbourger, Le Riche,
Carraro, 2010). Thompson, TopTwo and ProbabilityOfBest use joint draws of the posterior.

If evaluations may fail (`Chance`), a failure counts like the worst evaluated candidate: the method
`with_failures` adjusts the scores, and draws contain failures. If evaluations have costs (`Price`),
the method `per_cost` divides expected improvements and variances by cost^exponent (EI-cool: Lee,
Perrone, Archambeau, Seeger. Cost-aware Bayesian optimization. 2020), and a batch costs at most what
is left of the budget.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.box.acquisition import log_expected_improvement
from jsketch.numerics import matmul, put
from jsketch.types import PRNGKey

FAILURES_KEY = 1  # folded into the key of the draws, for the random failures
# an acquisition that uses draws shortlists candidates by mean + SHORTLIST_WIDTH * std
SHORTLIST_WIDTH = 3.0
# `VarianceReduction` averages the variance over the first REFERENCES candidates of the shortlist,
# and picks from random candidates: POOL_FACTOR times as many as it picks, but at least MIN_POOL. A
# larger pool would make the designs of all keys similar, and all good or all poor.
REFERENCES, POOL_FACTOR, MIN_POOL = 1024, 3, 16


class Chance(NamedTuple):
    """The probabilities that evaluations of K candidates succeed, and the value of a failure."""

    success: Array  # [K], the probability that an evaluation succeeds
    worst: Array  # [], the value of a failure


class Price(NamedTuple):
    """The costs of evaluations of K candidates."""

    cost: Any  # [K], above 0
    exponent: Any  # []; scores are divided by cost^exponent
    budget: Any  # [], the largest total cost of the batch


class Terms(NamedTuple):
    """The optional terms of a score: possible failures, and costs."""

    chance: Chance | None = None
    price: Price | None = None

    def at(self, rows: Array) -> Terms:
        """The terms of the candidates in some rows."""
        chance, price = self
        chance = chance and chance._replace(success=chance.success[rows])
        return Terms(chance, price and price._replace(cost=price.cost[rows]))


class JointPosterior(NamedTuple):
    """The joint posterior of a shortlist of K candidates; the signal has standard deviation 1."""

    mean: Array  # [K]
    covariance: Array  # [K, K]
    free: Array  # [K] bool, candidates that may be picked
    ratio: Array  # [], noise variance over signal variance
    threshold: Array  # [], the largest posterior mean of evaluated and pending candidates
    terms: Terms = Terms()
    evaluated_means: Any = ()  # [k], the k largest means of evaluated and pending candidates


def scores_of(
    acquisition: Any, mean: Array, variance: Array, threshold: ArrayLike, terms: Terms
) -> Array:
    """The scores [K] of an acquisition, adjusted for the terms that are given."""
    score = acquisition.score(mean, variance, threshold)
    if terms.chance is not None:
        score = acquisition.with_failures(score, *terms.chance)
    if terms.price is not None:
        score = acquisition.per_cost(score, terms.price.exponent * jnp.log(terms.price.cost))
    return score


def normal_draws(covariance: Array, ratio: Array, count: int, key: PRNGKey) -> Array:
    """[count, K] normal draws with mean 0 and this covariance plus a jitter against rounding."""
    n_candidates, dtype = len(covariance), covariance.dtype
    jitter = (1e-3 * ratio + 100 * jnp.finfo(dtype).eps) * jnp.eye(n_candidates, dtype=dtype)
    root = jnp.linalg.cholesky(covariance + jitter)
    return matmul(jax.random.normal(key, (count, n_candidates), dtype), root.T)


def _draws(posterior: JointPosterior, count: int, key: PRNGKey) -> Array:
    """[count, K] draws of f at the shortlist. An entry is the worst value if the evaluation fails
    in that draw, and -inf if the candidate may not be picked."""
    mean, covariance, available, ratio, _, terms, _ = posterior
    values = mean[None, :] + normal_draws(covariance, ratio, count, key)
    if terms.chance is not None:
        failure_key = jax.random.fold_in(key, FAILURES_KEY)
        uniform = jax.random.uniform(failure_key, values.shape, mean.dtype)
        values = jnp.where(uniform < terms.chance.success[None, :], values, terms.chance.worst)
    return jnp.where(available[None, :], values, -jnp.inf)


def expected_best(posterior: JointPosterior, picks: Array, key: PRNGKey, draws: int = 512) -> Array:
    """E max(max f(picks) - threshold, 0) [] (q-EI: Ginsbourger, Le Riche, Carraro, 2010), estimated
    from draws and divided by the batch's cost^exponent. Picks of -1 are ignored."""
    used, picks = picks >= 0, jnp.maximum(picks, 0)
    mean, covariance, _, ratio, threshold, terms, _ = posterior
    terms = terms.at(picks)
    in_use = used[:, None] & used[None, :]
    covariance = jnp.where(in_use, covariance[picks][:, picks], 0)
    batch = JointPosterior(mean[picks], covariance, used, ratio, threshold, terms)
    gain = jnp.mean(jnp.maximum(_draws(batch, draws, key).max(1) - threshold, 0))
    if terms.price is None:
        return gain
    return gain * jnp.sum(jnp.where(used, terms.price.cost, 0)) ** -terms.price.exponent


def _distinct_maxima(draws: Array, size: int) -> Array:
    """[size] int32, for each of the draws [size, K] the candidate with the largest value among
    those that no earlier draw picked."""
    indices = jnp.arange(draws.shape[1], dtype=jnp.int32)

    def pick(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        picks, available = carry
        arm = jnp.argmax(jnp.where(available, draws[i], -jnp.inf)).astype(jnp.int32)
        return put(picks, i, arm), available & (indices != arm)

    start = (jnp.zeros(size, jnp.int32), jnp.ones(draws.shape[1], bool))
    return lax.fori_loop(0, size, pick, start)[0]


class _ValueScore:
    """Acquisitions whose score is in units of the values."""

    def with_failures(self, score: Array, success: Array, worst: Array) -> Array:
        """The expected score, where a failure has the worst value."""
        return success * score + (1 - success) * worst


class _DrawAcquisition(_ValueScore):
    """Acquisitions that choose from draws of the posterior. Their `score` only shortlists."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + SHORTLIST_WIDTH * jnp.sqrt(variance)


class _SequentialAcquisition:
    """Acquisitions that pick one candidate after the other, each with the largest score."""

    def choose(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        """The picks [size] int32, each with the largest score given the earlier picks; they are -1
        as soon as every available candidate costs more than the rest of the budget."""
        mean, covariance, _, noise_variance, threshold, terms, _ = posterior
        available = self._available(posterior, size, key)
        diagonal = jnp.maximum(jnp.diagonal(covariance), 0)
        indices, price = jnp.arange(len(mean), dtype=jnp.int32), terms.price

        def pick(i: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
            picks, available, variance, factor, threshold, total_cost, state = carry
            if price is not None:
                available = available & (total_cost + price.cost <= price.budget)
            # scores of -inf are raised, so that argmax still returns an available candidate
            rated = self._rated_variance(variance, noise_variance, state)
            score = jnp.maximum(scores_of(self, mean, rated, threshold, terms), -1e30)
            arm = jnp.argmax(jnp.where(available, score, -jnp.inf)).astype(jnp.int32)
            # a row of the Cholesky factor: scaled covariances of the pick with all candidates
            row = covariance[arm] - matmul(factor[:, arm], factor)
            row = row / jnp.sqrt(jnp.maximum(variance[arm], 0) + noise_variance)
            arm_or_none = arm
            if price is not None:
                arm_or_none = jnp.where(available.any(), arm, -1)
                total_cost = total_cost + price.cost[arm]
            picks, available = put(picks, i, arm_or_none), available & (indices != arm)
            variance, factor = jnp.maximum(variance - jnp.square(row), 0), put(factor, i, row)
            threshold = jnp.maximum(threshold, mean[arm])
            state = self._next_state(state, row)
            return picks, available, variance, factor, threshold, total_cost, state

        picks, factor = jnp.zeros(size, jnp.int32), jnp.zeros((size, len(mean)), mean.dtype)
        cost, state = jnp.zeros((), mean.dtype), self._first_state(posterior)
        start = picks, available, diagonal, factor, threshold, cost, state
        return lax.fori_loop(0, size, pick, start)[0]

    def _available(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        """[K] bool, the candidates from which the picks are chosen."""
        return posterior.free

    def _first_state(self, posterior: JointPosterior) -> Any:
        """What `_rated_variance` needs to know besides the variances."""
        return None

    def _next_state(self, state: Any, row: Array) -> Any:
        """The state after a pick that lowers the covariance by the product of `row` [K] with
        itself."""
        return state

    def _rated_variance(self, variance: Array, noise_variance: Array, state: Any) -> Array:
        """The argument `variance` [K] of the score of each candidate."""
        return variance


@struct.dataclass
class UCB(_SequentialAcquisition, _ValueScore):
    """mean + width * standard deviation; with width 0 the picks are greedy.

    width  number of standard deviations
    """

    width: ArrayLike = 2.0

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return mean + self.width * jnp.sqrt(variance)


@struct.dataclass
class ExpectedImprovement(_SequentialAcquisition):
    """log E max(f - best, 0), where best is the largest posterior mean of the candidates that are
    evaluated, pending or picked."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        floor = jnp.finfo(mean.dtype).eps
        return log_expected_improvement(mean, jnp.maximum(variance, floor), threshold)

    def with_failures(self, score: Array, success: Array, worst: Array) -> Array:
        """The constrained EI of Gelbart et al., 2014, where a failure improves nothing."""
        return score + jnp.log(jnp.maximum(success, jnp.finfo(score.dtype).tiny))

    def per_cost(self, score: Array, log_cost: Array) -> Array:
        return score - log_cost


@struct.dataclass
class LargestVariance(_SequentialAcquisition):
    """The candidates with the largest variances, which are far from all others: many of them are at
    the border of the library."""

    def score(self, mean: Array, variance: Array, threshold: ArrayLike) -> Array:
        return variance

    def with_failures(self, score: Array, success: Array, worst: Array) -> Array:
        """The expected score, where a failure has score 0 because it reveals no value."""
        return success * score

    def per_cost(self, score: Array, log_cost: Array) -> Array:
        return score * jnp.exp(-log_cost)


class _References(NamedTuple):
    """R candidates that represent the library."""

    covariance: Array  # [R, K], with all candidates, given the picks so far
    free: Array  # [R] bool; the others are not of interest


@struct.dataclass
class VarianceReduction(LargestVariance):
    """The candidates whose evaluations lower the mean variance of the library most, for the first
    batch: each represents a part of the library (the designs of Sacks, Schiller, Welch.
    Technometrics 1989, and of Cohn, Ghahramani, Jordan. JAIR 1996, for a library). The picks are
    from a random part of the library, so that different keys give different designs."""

    def _available(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        if posterior.terms.price is not None:  # a random part might cost more than the budget
            return posterior.free
        count = min(max(MIN_POOL, POOL_FACTOR * size), len(posterior.mean))
        order = jnp.where(posterior.free, jax.random.uniform(key, posterior.free.shape), -1)
        return posterior.free & (order >= lax.top_k(order, count)[0][-1])

    def _first_state(self, posterior: JointPosterior) -> _References:
        return _References(posterior.covariance[:REFERENCES], posterior.free[:REFERENCES])

    def _next_state(self, state: _References, row: Array) -> _References:
        covariance, free = state
        return _References(covariance - row[: len(free), None] * row[None, :], free)

    def _rated_variance(self, variance: Array, noise_variance: Array, state: _References) -> Array:
        weight = state.free.astype(variance.dtype)
        explained = matmul(weight, jnp.square(state.covariance)) / jnp.maximum(weight.sum(), 1)
        return explained / (jnp.maximum(variance, 0) + noise_variance)


@struct.dataclass
class Thompson(_DrawAcquisition):
    """Thompson sampling: each pick is the best candidate of a draw of the posterior (Kandasamy et
    al., AISTATS 2018)."""

    def choose(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        return _distinct_maxima(_draws(posterior, size, key), size)


@struct.dataclass
class TopTwo(_DrawAcquisition):
    """Thompson sampling that picks the best candidate of a draw with probability `leader`, and
    otherwise the second best (Russo. Simple Bayesian algorithms for best-arm identification.
    Operations Research 2020).

    leader  probability of picking the best candidate of a draw
    """

    leader: ArrayLike = 0.5

    def choose(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        draw_key, coin_key = jax.random.split(key)
        draws = _draws(posterior, size, draw_key)
        picks_second = jax.random.uniform(coin_key, (size,)) >= self.leader
        is_best = jnp.arange(draws.shape[1])[None, :] == jnp.argmax(draws, 1)[:, None]
        # the best candidate moves to the last place: it is picked only if no other one is free
        last = jnp.min(jnp.where(jnp.isfinite(draws), draws, jnp.inf), 1, keepdims=True) - 1
        draws = jnp.where(picks_second[:, None] & is_best & jnp.isfinite(draws), last, draws)
        return _distinct_maxima(draws, size)


@struct.dataclass
class ProbabilityOfBest(_DrawAcquisition):
    """The candidates that are most often the best of the shortlist in `draws` draws: the batch that
    most probably contains the best one (qPO: Fromer, Graff, Coley, 2024). With `top` = k > 1, the
    candidates that are most often among the k best, where the values of a draw are ranked together
    with the posterior means of evaluated and pending candidates. Ties are broken by mean + std.

    draws  number of draws of the posterior
    top    k, the number of best candidates that are sought
    """

    draws: int = struct.field(pytree_node=False, default=2048)
    top: int = struct.field(pytree_node=False, default=1)

    def choose(self, posterior: JointPosterior, size: int, key: PRNGKey) -> Array:
        draws = _draws(posterior, self.draws, key)
        kth_best = jnp.max(draws, 1)
        if self.top > 1:
            means = posterior.evaluated_means
            means = jnp.broadcast_to(means, (self.draws, len(means)))
            kth_best = lax.top_k(jnp.concatenate([draws, means], 1), self.top)[0][:, -1]
        # candidates that may not be picked have draws of -inf
        wins = ((draws >= kth_best[:, None]) & jnp.isfinite(draws)).sum(0).astype(draws.dtype)
        upper_bound = posterior.mean + jnp.sqrt(jnp.maximum(jnp.diagonal(posterior.covariance), 0))
        rank = jnp.argsort(jnp.argsort(upper_bound)).astype(upper_bound.dtype)
        tie_break = rank / (2 * len(rank))
        score = jnp.where(posterior.free, wins + tie_break, -1)
        return lax.top_k(score, size)[1].astype(jnp.int32)
