"""Several clients with the same function and different candidates, simulated in one program.

Clients of `SharedEmbedding` exchange sums over their observations, and clients of
`IndependentClients` exchange nothing. A bandit for N clients has three methods:

init(dimension, key, dtype=None) -> state   for points with `dimension` inputs
ask(state, candidates [N,C,d], key) -> [N]  the indices of the candidates to play
tell(state, x [N,d], y [N], key) -> (state, Info)   the rewards y of the played points x

A state has `exchanges` [] int32, the number of exchanges so far; `sent` [], how many floats the
exchanges have sent in both directions; and `sent_as_data` [], how many floats points and rewards
would have taken instead.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, components, struct
from jsketch.bandits import starts
from jsketch.bandits.bbkb import SketchedBandit, SketchedEvidence, State
from jsketch.bandits.point_bbkb import after_pull, predict_in_batch
from jsketch.contrib.contextual import argmax_or_uniform
from jsketch.core import dictionary, history, posterior, widths
from jsketch.core.dictionary import Draw, Rule
from jsketch.numerics import all_finite, matmul
from jsketch.precision import in_dtype, one_dtype
from jsketch.results import Result, result
from jsketch.types import Arms, Info, PRNGKey, Query


def check_points(clients: int, x: Any, n_axes: int, dimension: int | None = None) -> Array:
    """The candidates [N,C,d] of N clients (3 axes), or their played points [N,d] (2 axes), as an
    array. Raises ValueError for an empty array, for values that are not finite, and for a shape
    that does not agree with `clients` and `dimension`."""
    x = checks.real("the points of clients", x)
    d = (x.shape[-1] if x.ndim else 1) if dimension is None else dimension
    if x.ndim != n_axes or x.shape[0] != clients or x.shape[-1] != d:
        shape = f"[{clients}, C, {d}]" if n_axes == 3 else f"[{clients}, {d}]"
        raise ValueError(
            f"the points of {clients} clients must have the shape {shape}; {x.shape} was given."
        )
    checks.candidates(x.reshape(-1, d), d)
    return jnp.asarray(x)


def check_rewards(clients: int, y: Any) -> Array:
    """The rewards [N] of N clients as an array. Raises ValueError unless they are N real
    numbers."""
    y = checks.real("the rewards of clients", y)
    if y.shape != (clients,):
        raise ValueError(f"the rewards must have the shape [{clients}]; {y.shape} was given.")
    return jnp.asarray(y)


@struct.dataclass
class IndependentState:
    """The stacked states of N independent bandits. Their clients send nothing."""

    states: Any

    @property
    def sent(self) -> Array:
        return jnp.zeros(())

    sent_as_data = sent

    @property
    def exchanges(self) -> Array:
        return jnp.zeros((), jnp.int32)


@struct.dataclass
class IndependentClients(struct.Settings):
    """A baseline: N clients that exchange nothing, each with a bandit of `contrib.contextual`.

    bandit   a `ContextualUCB`
    clients  N, the number of clients
    """

    bandit: Any = struct.component(components.BANDIT)
    clients: int = struct.size(8)

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> IndependentState:
        checks.settings(self)
        keys = jax.random.split(key, self.clients)
        states = jax.vmap(lambda key: self.bandit.init(dimension, key, dtype))(keys)
        return IndependentState(states)

    def ask(self, state: IndependentState, candidates: Array, key: PRNGKey) -> Array:
        """The indices [N] int32 of the candidates [N,C,d] to play. Raises ValueError as
        `check_points` does."""
        x = check_points(self.clients, candidates, n_axes=3)
        keys = jax.random.split(key, self.clients)
        return jax.vmap(self.bandit.ask)(state.states, x, keys)

    def tell(
        self, state: IndependentState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[IndependentState, Info]:
        """(state, info) after every client i has observed the reward y[i] of its point x[i], where
        x is [N,d] and y is [N]. If one client exceeds its capacity, no state changes. The
        `dictionary_size` and the `width` of the info are the largest of all clients. Raises
        ValueError as `ask` does."""
        x = check_points(self.clients, x, n_axes=2)
        y = check_rewards(self.clients, y)
        keys = jax.random.split(key, self.clients)
        states, info = jax.vmap(self.bandit.tell)(state.states, x, y, keys)
        exceeded = (info.result == Result.CAPACITY_EXCEEDED).any()
        states = jax.tree.map(partial(jnp.where, exceeded), state.states, states)
        return IndependentState(states), history.round_info(
            _query(self.clients),
            y,
            size=info.dictionary_size.max(),
            width=info.width.max(),
            finite=(info.result != Result.NOT_FINITE).all(),
            exceeded=exceeded,
        )


def _query(clients: int) -> Query:
    """A query of one evaluation for each client, whose arms have no meaning."""
    return Query(index=jnp.arange(clients, dtype=jnp.int32), mask=jnp.ones(clients, bool))


@struct.dataclass
class ClientEvidence:
    """The scalars that determine the widths of N clients, [N] each."""

    count: Array  # observations
    # sum_s log(1 + variance(x_s)), with the variances of the last exchange before s
    information: Array
    information_sketched: Array  # sum_s log(1 + 3 variance(x_s))
    logdet: Array  # logdet(V_i / lam), V_i = lam I + sum_s z_s z_s^T over points that client i uses
    residual_sum: Array  # sum_s (k(x_s,x_s) - |z_s|^2), z_s the features of x_s on the embedding
    prior_variance: Array  # the largest k(x,x) of the points of all clients


@struct.dataclass
class EmbeddingState(State):
    """BKB's state at the last exchange, whose arms are the points of the history, and the later
    observations of each client."""

    history: Array  # [N H, d], round after round
    used: Array  # [] int32, slots of the history in use
    last: Array  # [] int32, slots that were in use at the last exchange
    rewards: Array  # [N B], rewards since the last exchange, NaN in free slots
    covariance: Array  # [N, M, M], (I + sum u u^T)^-1 since the last exchange (THEORY 9.3)
    moment: Array  # [N, M], the sum of (y - mean) u since then, with the means of the exchange
    variance_sum: Array  # [N], sum of the variances since the last exchange
    evidence: ClientEvidence
    sent: Array  # []
    sent_as_data: Array  # []
    exchanges: Array  # [] int32


@struct.dataclass
class Exchange(SketchedBandit):
    """What an exchange computes: a drawn dictionary, and BKB's posterior on it given all rewards.
    With `scale_to_capacity` the oversampling is the largest one up to qbar with which the draw fits
    into the capacity; points that tie for the last place do not join."""

    dictionary: Rule = Draw()
    scale_to_capacity: bool = struct.choice(False)

    def resparsify(self, state: State, key: PRNGKey) -> Array:
        if not self.scale_to_capacity:
            return super().resparsify(state, key)
        variance = state.posterior.variance
        uniform = jax.random.uniform(key, variance.shape, variance.dtype)
        drawn = uniform < dictionary.probability(state.counts, variance, self.qbar)
        # a point is drawn if the oversampling is above qbar times this share
        share = jnp.where(drawn, uniform / (self.qbar * state.counts * variance), jnp.inf)
        first_dropped = jnp.sort(share).at[state.capacity].get(mode="fill", fill_value=jnp.inf)
        return share < first_dropped


@struct.dataclass
@one_dtype
class SharedEmbedding(widths.KernelBandit):
    """N clients on a common Nystrom embedding, which every exchange recomputes.

    Follows ApproxDisKernelUCB of C. Li, H. Wang, M. Wang, H. Wang, Communication efficient
    distributed learning for kernelized contextual bandits, NeurIPS 2022 (THEORY 6.10). The
    posterior of a client is BKB's on the embedding of the last exchange, given the rewards of all
    clients before the exchange and the client's own rewards after it. A round ends with an exchange
    if the dictionary is empty, if it is the `max_wait`-th round after the last exchange, or if the
    variances at the points of one client since the last exchange, computed from the posterior of
    this exchange, add up to more than D = `threshold` (1/N in the paper's analysis). In an exchange

    1. every point x of the history joins the dictionary with probability min(1, qbar variance(x));
       the clients send the points that join, d numbers each;
    2. every client receives the dictionary of m points, d m numbers, and sends the sums of z z^T
       and y z over all its points, m (m + 1) numbers;
    3. every client receives the totals of the sums, m (m + 1) numbers.

    An exchange sends d m + N (d m + 2 m (m + 1)) numbers (`sent`). To send every client the n new
    points with their rewards instead would take N (d + 1) n numbers (`sent_as_data`). The authors'
    published scripts count only what clients send, and have no exchange in the first ten rounds.
    The width may be `certified_mixture`, `certified`, `bbkb_code`, `Bayesian`, or a `Formula` of
    the fields of `ClientEvidence`. A round costs O(N C M^2), and an exchange O(N H M^2 + M^3).

    kernel             a kernel of `jsketch.kernels`
    regularization     lam, usually noise_std^2
    noise_std          xi, standard deviation of the noise of a reward
    norm_bound         F >= |f| in the RKHS
    delta              failure probability; the papers use 1/T
    qbar               oversampling
    threshold          D; with 0 every round has an exchange
    width              the confidence width, one of `bandits.widths`
    clients            N, the number of clients
    max_wait           B rounds between exchanges
    max_history        H rounds
    capacity           M inducing points
    scale_to_capacity  True: a draw beyond the capacity is no error, but lowers qbar until its
                       points fit
    """

    qbar: ArrayLike = struct.number(2.0, above=0)
    threshold: ArrayLike = struct.number(0.1, at_least=0)
    width: widths.Width = widths.bbkb_code
    clients: int = struct.size(8)
    max_wait: int = struct.size(64)
    max_history: int = struct.size(256)
    capacity: int = struct.size(64)
    scale_to_capacity: bool = struct.choice(False)

    def _exchange(self) -> Exchange:
        names = "kernel regularization qbar capacity scale_to_capacity"
        return Exchange(**{name: getattr(self, name) for name in names.split()})

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> EmbeddingState:
        """The state before the first round, for points with `dimension` inputs. Raises ValueError
        for invalid arguments."""
        checks.positive_integer(dimension=dimension)
        capacity, slots = self.capacity, self.clients * self.max_history
        dtype = checks.floating_dtype(dtype)
        starts.checked(self, Arms(jnp.zeros((1, dimension), dtype)), key, capacity)
        floats = slots * (dimension + 5) + (self.clients + 3) * capacity**2
        checks.memory(floats, dtype, max_history=self.max_history, capacity=capacity)
        points = jnp.zeros((slots, dimension), dtype)
        exchange = in_dtype(self._exchange(), dtype)
        prior = exchange._prior(Arms(points))
        zero, zeros = jnp.zeros((), jnp.int32), jnp.zeros(self.clients, dtype)
        return EmbeddingState(
            **vars(prior),
            history=points,
            used=zero,
            **self._no_observations(exchange, prior, points, zero),
            sent=zeros[0],
            sent_as_data=zeros[0],
            exchanges=zero,
        )

    def _no_observations(
        self, exchange: Exchange, state: State, points: Array, used: Array
    ) -> dict[str, Any]:
        """The fields of the observations of the clients right after an exchange with the result
        `state`, when `used` [] slots of the history are in use."""
        n, p = self.clients, state.posterior
        eye, dtype = jnp.eye(state.capacity, dtype=points.dtype), points.dtype
        shared = SketchedEvidence(exchange, state, Arms(points))
        evidence = {
            f.name: jnp.broadcast_to(getattr(shared, f.name), (n,)) for f in fields(ClientEvidence)
        }
        return dict(
            last=used,
            rewards=jnp.full(n * self.max_wait, jnp.nan, dtype),
            covariance=jnp.broadcast_to(eye, (n, *eye.shape)),
            moment=jnp.zeros((n, *p.weights.shape), dtype),
            variance_sum=jnp.zeros(n, dtype),
            evidence=ClientEvidence(**evidence),
        )

    def confidence_width(self, state: EmbeddingState) -> Array:
        """The widths of the clients, [N]."""
        return jax.vmap(lambda evidence: widths.confidence_width(self, evidence))(state.evidence)

    def _check_points(self, state: EmbeddingState, x: Any, n_axes: int) -> Array:
        x = check_points(self.clients, x, n_axes, state.history.shape[1])
        x = jnp.asarray(x, state.history.dtype)
        checks.kernel_inputs(self.kernel, x.reshape(-1, x.shape[-1]))
        return x

    def posterior(self, state: EmbeddingState, x: Array) -> tuple[Array, Array]:
        """(mean [N,n], variance [N,n]) of each client at its points x [N,n,d]. Variances are
        divided by the regularization."""
        predict = partial(predict_in_batch, state.posterior, self.kernel, self.regularization)
        return jax.vmap(predict)(x, state.covariance, state.moment)

    def scores(self, state: EmbeddingState, x: Array) -> Array:
        """Upper confidence bounds [N,n] of each client at its points x [N,n,d]."""
        mean, variance = self.posterior(state, x)
        return widths.ucb(mean, variance, self.confidence_width(state)[:, None])

    def ask(self, state: EmbeddingState, candidates: Array, key: PRNGKey) -> Array:
        """The indices [N] int32 of the candidates [N,C,d] to play, drawn uniformly while
        the dictionary is empty. Raises ValueError as `check_points` does."""
        x = self._check_points(state, candidates, n_axes=3)
        started = state.dictionary_size > 0
        keys = jax.random.split(key, self.clients)
        return jax.vmap(argmax_or_uniform, (0, None, 0))(self.scores(state, x), started, keys)

    def tell(
        self, state: EmbeddingState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[EmbeddingState, Info]:
        """(state, info) after every client i has observed the reward y[i] of its point x[i], where
        x is [N,d] and y is [N], and after the exchange if one follows. A reward that is not finite
        changes no posterior. If the history or the dictionary exceeds its capacity, the state does
        not change. Raises ValueError as `ask` does."""
        n = self.clients
        x = self._check_points(state, x, n_axes=2)
        y = jnp.asarray(check_rewards(n, y), x.dtype)
        width = self.confidence_width(state).max()
        is_full = state.used + n > len(state.history)
        observed = self._observe(state, x, y)
        is_longest_wait = observed.used - observed.last >= n * self.max_wait
        above_threshold = (observed.variance_sum > self.threshold).any()
        is_empty = (state.dictionary_size == 0) & jnp.isfinite(y).any()
        new, outcome = lax.cond(
            (is_longest_wait | above_threshold | is_empty) & ~is_full,
            lambda: self._after_exchange(observed, key),
            lambda: (observed, result()),
        )
        exceeded = is_full | (outcome == Result.CAPACITY_EXCEEDED)
        # a sum is finite only if all its terms are
        sums = observed.moment.sum(1) + observed.variance_sum
        finite = all_finite(sums) & (outcome != Result.NOT_FINITE)
        new = jax.tree.map(partial(jnp.where, exceeded), state, new)
        size = new.dictionary_size
        return new, history.round_info(
            _query(n), y, size=size, width=width, finite=finite, exceeded=exceeded
        )

    def _observe(self, state: EmbeddingState, x: Array, y: Array) -> EmbeddingState:
        """The state after each client has observed its reward, before any exchange."""
        p, lam, evidence = state.posterior, self.regularization, state.evidence
        slot = jnp.minimum(state.used, len(state.history) - self.clients)
        reward_slot = jnp.minimum(state.used - state.last, len(state.rewards) - self.clients)
        mean, variance = posterior.predict(p, self.kernel, lam, x)
        u = posterior.embed(p, self.kernel, x)
        # At inducing points the residual is 0 up to rounding, and is set to 0, because widths take
        # the root of the sum of residuals, which enlarges small errors.
        used = jnp.arange(p.capacity, dtype=jnp.int32) < p.rank
        is_inducing = ((x[:, None] == p.points[None]).all(-1) & used[None]).any(1)
        residual = jnp.where(is_inducing, 0, posterior.residual(variance, u))
        variance = residual + jnp.square(u).sum(1)
        finite = jnp.isfinite(y)
        weight = finite.astype(y.dtype)
        embedded = jax.vmap(lambda u, covariance: matmul(u, matmul(covariance, u)))
        write, zero = lax.dynamic_update_slice, jnp.zeros((), slot.dtype)
        return replace(
            state,
            posterior=replace(p, variance=write(p.variance, variance, (slot,))),
            history=write(state.history, x, (slot, zero)),
            used=state.used + self.clients,
            rewards=write(state.rewards, y, (reward_slot,)),
            covariance=jax.vmap(after_pull)(state.covariance, jnp.where(finite[:, None], u, 0)),
            moment=state.moment + jnp.where(finite, y - mean, 0)[:, None] * u,
            variance_sum=state.variance_sum + weight * variance,
            evidence=ClientEvidence(
                count=evidence.count + weight,
                information=evidence.information + weight * jnp.log1p(variance),
                information_sketched=evidence.information_sketched
                + weight * jnp.log1p(widths.ALPHA * variance),
                logdet=evidence.logdet + weight * jnp.log1p(embedded(u, state.covariance)),
                residual_sum=evidence.residual_sum + weight * lam * residual,
                prior_variance=jnp.maximum(
                    evidence.prior_variance, jnp.where(finite, self.kernel.diag(x), 0).max()
                ),
            ),
        )

    def _after_exchange(self, state: EmbeddingState, key: PRNGKey) -> tuple[EmbeddingState, Array]:
        """(state, result []) after an exchange, which draws the dictionary and projects all
        observations."""
        exchange, arms, y = self._exchange(), Arms(state.history), state.rewards
        slots = jnp.arange(len(y), dtype=jnp.int32)
        index = jnp.minimum(state.last + slots, len(state.history) - 1)
        query = Query(index=index, mask=slots < state.used - state.last)
        new, info = exchange.tell(state, arms, query, y, key)
        m = new.dictionary_size.astype(state.sent.dtype)
        dimension, n_rewards = arms.features.shape[1], jnp.isfinite(y).sum(dtype=m.dtype)
        # numbers in the m inducing points, and in the sums of z z^T and y z
        point_floats, sum_floats = dimension * m, m * (m + 1)
        new = replace(
            new,
            **self._no_observations(exchange, new, arms.features, new.used),
            sent=state.sent + point_floats + self.clients * (point_floats + 2 * sum_floats),
            sent_as_data=state.sent_as_data + self.clients * (dimension + 1) * n_rewards,
            exchanges=state.exchanges + 1,
        )
        return new, info.result
