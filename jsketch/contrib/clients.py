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
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.contrib.contextual import argmax_or_uniform, empty_info
from jsketch.linalg import cond_per_run, matmul
from jsketch.posterior import ridge
from jsketch.precision import in_dtype, one_dtype
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch import nystrom
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
    """A baseline: N clients that exchange nothing, each with a bandit of `contrib.contextual`."""

    bandit: Any  # a `ContextualUCB`
    clients: int = struct.field(pytree_node=False, default=8)  # N

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
        x is [N,d] and y is [N]. If one client overflows, no state changes. `dictionary_size` and
        `width` of the info are the largest of all clients. Raises ValueError as `ask` does."""
        x = check_points(self.clients, x, n_axes=2)
        y = check_rewards(self.clients, y)
        keys = jax.random.split(key, self.clients)
        states, info = jax.vmap(self.bandit.tell)(state.states, x, y, keys)
        overflow = info.overflow.any()
        states = jax.tree.map(partial(jnp.where, overflow), state.states, states)
        return IndependentState(states), replace(
            empty_info(info.width.max()),
            batch_size=jnp.full((), self.clients, jnp.int32),
            observed=jnp.where(overflow, 0, info.observed.sum()).astype(jnp.int32),
            dictionary_size=info.dictionary_size.max(),
            overflow=overflow,
            nonfinite=info.nonfinite.any(),
        )


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
class EmbeddingState:
    """The posterior of the last exchange, and the later observations of each client."""

    sketch: SketchState  # its domain is the history [N H, d], round after round
    used: Array  # [] int32, slots of the history in use
    last: Array  # [] int32, slots that were in use at the last exchange
    rewards: Array  # [N B], rewards since the last exchange, NaN in free slots
    weight_covariance: Array  # [N, M, M], (I + sum u u^T)^-1 since the last exchange (THEORY 9.3)
    moment: Array  # [N, M], the weights at the last exchange plus the sum of y u since then
    variance_sum: Array  # [N], sum of the variances since the last exchange
    evidence: ClientEvidence
    sent: Array  # []
    sent_as_data: Array  # []
    exchanges: Array  # [] int32


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
    """

    qbar: ArrayLike = 2.0  # oversampling
    threshold: ArrayLike = 0.1  # D >= 0; with 0 every round has an exchange
    # the confidence width, one of `bandits.widths`
    width: widths.Width = widths.bbkb_code
    clients: int = struct.field(pytree_node=False, default=8)  # N
    max_wait: int = struct.field(pytree_node=False, default=64)  # B rounds between exchanges
    max_history: int = struct.field(pytree_node=False, default=256)  # H rounds
    capacity: int = struct.field(pytree_node=False, default=64)  # M inducing points
    # True: a draw beyond the capacity does not overflow, but lowers qbar until its points fit
    scale_to_capacity: bool = struct.field(pytree_node=False, default=False)

    @property
    def resparsify(self) -> None:
        """None, because every exchange draws a dictionary."""

    incremental: ClassVar[bool] = False

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> EmbeddingState:
        """The state before the first round, for points with `dimension` inputs. Raises ValueError
        for invalid arguments."""
        checks.positive_integer(dimension=dimension)
        sketched.check_bandit(self)
        capacity, slots = self.capacity, self.clients * self.max_history
        dtype = checks.floating_dtype(dtype)
        floats = slots * (dimension + 5) + (self.clients + 3) * capacity**2
        checks.memory(floats, dtype, max_history=self.max_history, capacity=capacity)
        checks.model(Arms(jnp.zeros((1, dimension), dtype)), self.kernel, self.regularization)
        kernel, regularization = in_dtype((self.kernel, self.regularization), dtype)
        domain = Arms(jnp.zeros((slots, dimension), dtype))
        sketch = sketched.start(domain, kernel, regularization, capacity, key)
        zero, zeros = jnp.zeros((), jnp.int32), jnp.zeros(self.clients, domain.features.dtype)
        state = EmbeddingState(
            sketch=sketch,
            used=zero,
            last=zero,
            rewards=jnp.full(self.clients * self.max_wait, jnp.nan, zeros.dtype),
            weight_covariance=jnp.zeros((self.clients, capacity, capacity), zeros.dtype),
            moment=jnp.zeros((self.clients, capacity), zeros.dtype),
            variance_sum=zeros,
            evidence=ClientEvidence(**{f.name: zeros for f in fields(ClientEvidence)}),
            sent=zeros[0],
            sent_as_data=zeros[0],
            exchanges=zero,
        )
        return self._after_exchange(state, sketch)

    def _after_exchange(self, state: EmbeddingState, sketch: SketchState) -> EmbeddingState:
        """The state right after an exchange, whose posterior is `sketch`."""
        n, eye = self.clients, jnp.eye(sketch.capacity, dtype=state.variance_sum.dtype)
        evidence = {
            f.name: jnp.broadcast_to(getattr(sketch.evidence, f.name), (n,))
            for f in fields(ClientEvidence)
        }
        return replace(
            state,
            sketch=sketch,
            last=state.used,
            rewards=jnp.full_like(state.rewards, jnp.nan),
            weight_covariance=jnp.broadcast_to(eye, (n, *eye.shape)),
            moment=jnp.broadcast_to(sketch.weights, (n, *sketch.weights.shape)),
            variance_sum=jnp.zeros_like(state.variance_sum),
            evidence=ClientEvidence(**evidence),
        )

    def confidence_width(self, state: EmbeddingState) -> Array:
        """The widths of the clients, [N]."""
        return jax.vmap(lambda evidence: widths.confidence_width(self, evidence))(state.evidence)

    def _check_points(self, state: EmbeddingState, x: Any, n_axes: int) -> Array:
        features = state.sketch.domain.features
        x = check_points(self.clients, x, n_axes, features.shape[1])
        x = jnp.asarray(x, features.dtype)
        checks.kernel_inputs(self.kernel, x.reshape(-1, x.shape[-1]))
        return x

    def _features(self, state: EmbeddingState, x: Array) -> tuple[Array, Array]:
        """(residual [...], u [...,M]) at points x [...,d] on the embedding of the last exchange."""
        flat = x.reshape(-1, x.shape[-1])
        z, u = sketched.embed(state.sketch, self.kernel, flat)
        residual = nystrom.residual(self.kernel.diag(flat), z)
        return residual.reshape(x.shape[:-1]), u.reshape(*x.shape[:-1], -1)

    def posterior(self, state: EmbeddingState, x: Array) -> tuple[Array, Array]:
        """(mean [N,n], variance [N,n] in leverage units) of each client at its points x [N,n,d]."""
        residual, u = self._features(state, x)
        weights = matmul(state.weight_covariance, state.moment[..., None])
        explained = jnp.maximum((matmul(u, state.weight_covariance) * u).sum(-1), 0)
        return matmul(u, weights)[..., 0], residual / self.regularization + explained

    def scores(self, state: EmbeddingState, x: Array) -> Array:
        """Upper confidence bounds [N,n] of each client at its points x [N,n,d]."""
        mean, variance = self.posterior(state, x)
        return widths.ucb(mean, variance, self.confidence_width(state)[:, None])

    def ask(self, state: EmbeddingState, candidates: Array, key: PRNGKey) -> Array:
        """The indices [N] int32 of the candidates [N,C,d] to play, drawn uniformly while
        the dictionary is empty. Raises ValueError as `check_points` does."""
        x = self._check_points(state, candidates, n_axes=3)
        started = state.sketch.dictionary.size > 0
        keys = jax.random.split(key, self.clients)
        return jax.vmap(argmax_or_uniform, (0, None, 0))(self.scores(state, x), started, keys)

    def tell(
        self, state: EmbeddingState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[EmbeddingState, Info]:
        """(state, info) after every client i has observed the reward y[i] of its point x[i], where
        x is [N,d] and y is [N], and after the exchange if one follows. A reward that is not finite
        changes no posterior. If the history or the dictionary overflows, the state does not change.
        Raises ValueError as `ask` does."""
        n = self.clients
        x = self._check_points(state, x, n_axes=2)
        y = jnp.asarray(check_rewards(n, y), x.dtype)
        width = self.confidence_width(state).max()
        finite, is_full = jnp.isfinite(y), state.used + n > state.sketch.domain.count
        before_exchange = self._observe(state, x, y)
        is_longest_wait = before_exchange.used - before_exchange.last >= n * self.max_wait
        above_threshold = (before_exchange.variance_sum > self.threshold).any()
        is_empty = (state.sketch.dictionary.size == 0) & finite.any()
        is_due = (is_longest_wait | above_threshold | is_empty) & ~is_full
        carry = (before_exchange, empty_info(width))
        new, info = cond_per_run(is_due, _exchange, carry, (self, key))
        overflow = is_full | info.overflow
        # a sum is finite only if all its terms are
        sums = jnp.append(before_exchange.moment.sum(1) + before_exchange.variance_sum, width)
        new = jax.tree.map(partial(jnp.where, overflow), state, new)
        return new, replace(
            info,
            batch_size=jnp.full((), n, jnp.int32),
            observed=jnp.where(overflow, 0, finite.sum()).astype(jnp.int32),
            dictionary_size=new.sketch.dictionary.size,
            overflow=overflow,
            nonfinite=info.nonfinite | jnp.isinf(y).any() | ~jnp.isfinite(sums).all(),
        )

    def _observe(self, state: EmbeddingState, x: Array, y: Array) -> EmbeddingState:
        """The state after each client has observed its reward, before any exchange."""
        slot = jnp.minimum(state.used, state.sketch.domain.count - self.clients)
        reward_slot = jnp.minimum(state.used - state.last, state.rewards.shape[0] - self.clients)
        residual, u = self._features(state, x)
        # At inducing points the residual is 0 up to rounding, and is set to 0, because widths take
        # the root of the sum of residuals, which enlarges small errors.
        is_same = (x[:, None] == state.sketch.nystrom.points[None]).all(-1)
        is_inducing = (is_same & state.sketch.dictionary.mask[None]).any(1)
        residual = jnp.where(is_inducing, 0, residual)
        variance = residual / self.regularization + jnp.square(u).sum(-1)
        finite = jnp.isfinite(y)
        weight = finite.astype(y.dtype)
        direction, embedded_variance = jax.vmap(ridge.whitened_gain)(state.weight_covariance, u)
        lowered = jax.vmap(ridge.hallucinate)(state.weight_covariance, direction, embedded_variance)
        evidence, sketch = state.evidence, state.sketch
        prior_variance = jnp.maximum(
            sketch.evidence.prior_variance, jnp.where(finite, self.kernel.diag(x), 0).max()
        )
        write = jax.lax.dynamic_update_slice
        zero = jnp.zeros((), slot.dtype)
        return replace(
            state,
            sketch=replace(
                sketch,
                domain=Arms(write(sketch.domain.features, x, (slot, zero))),
                variance=write(sketch.variance, variance, (slot,)),
                evidence=replace(sketch.evidence, prior_variance=prior_variance),
            ),
            used=state.used + self.clients,
            rewards=write(state.rewards, y, (reward_slot,)),
            weight_covariance=jnp.where(finite[:, None, None], lowered, state.weight_covariance),
            moment=state.moment + jnp.where(finite, y, 0)[:, None] * u,
            variance_sum=state.variance_sum + weight * variance,
            evidence=ClientEvidence(
                count=evidence.count + weight,
                information=evidence.information + weight * jnp.log1p(variance),
                information_sketched=evidence.information_sketched
                + weight * jnp.log1p(widths.ALPHA * variance),
                logdet=evidence.logdet + weight * jnp.log1p(embedded_variance),
                residual_sum=evidence.residual_sum + weight * residual,
                prior_variance=jnp.full_like(evidence.prior_variance, prior_variance),
            ),
        )


def _exchange(
    carry: tuple[EmbeddingState, Info], arguments: tuple[SharedEmbedding, PRNGKey]
) -> tuple[EmbeddingState, Info]:
    """(state, info) after an exchange, which draws the dictionary and projects all observations."""
    (state, info), (bandit, key) = carry, arguments
    sketch, slots = state.sketch, jnp.arange(state.rewards.shape[0], dtype=jnp.int32)
    index = jnp.minimum(state.last + slots, sketch.domain.count - 1)
    query = Query(index=index, mask=slots < state.used - state.last)
    y = state.rewards
    feedback = counts.add_rewards(sketch.pull_counts, sketch.reward_sums, sketch.variance, query, y)
    uniform = _fitting_uniform(bandit, sketch, feedback, key) if bandit.scale_to_capacity else None
    new_sketch, info = sketched.apply_feedback(
        sketch, feedback, query, info.width, key, bandit, uniform
    )
    m = new_sketch.dictionary.size.astype(state.sent.dtype)
    dimension, n_rewards = sketch.domain.features.shape[1], jnp.isfinite(y).sum(dtype=m.dtype)
    # numbers in the m inducing points, and in the sums of z z^T and y z
    point_floats, sum_floats = dimension * m, m * (m + 1)
    new = replace(
        bandit._after_exchange(state, new_sketch),
        sent=state.sent + point_floats + bandit.clients * (point_floats + 2 * sum_floats),
        sent_as_data=state.sent_as_data + bandit.clients * (dimension + 1) * n_rewards,
        exchanges=state.exchanges + 1,
    )
    return new, info


def _fitting_uniform(
    bandit: SharedEmbedding, sketch: SketchState, feedback: counts.Feedback, key: PRNGKey
) -> Array:
    """The uniform numbers of a draw that fits into the capacity, with 1 for points that must not
    join the dictionary. The oversampling is the largest one up to qbar with which the draw fits;
    points that tie for the last place do not join."""
    pulls, variance = feedback.pull_counts, sketch.variance
    uniform = jax.random.uniform(key, variance.shape, variance.dtype)
    is_drawn = uniform < dictionaries.inclusion_probability(pulls, variance, bandit.qbar)
    ratio = jnp.where(is_drawn, uniform / (bandit.qbar * pulls * variance), jnp.inf)
    first_dropped = jnp.sort(ratio).at[sketch.capacity].get(mode="fill", fill_value=jnp.inf)
    return jnp.where(ratio < first_dropped, uniform, 1)
