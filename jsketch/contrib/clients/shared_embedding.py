"""Clients that share a Nystrom embedding: they exchange when one of them has learned enough.

Follows ApproxDisKernelUCB of C. Li, H. Wang, M. Wang, H. Wang, Communication efficient distributed
learning for kernelized contextual bandits, NeurIPS 2022 (THEORY 6.10). In every round each of N
clients plays the candidate of largest upper confidence bound on the embedding z of the last
exchange,

    V_i = lam I + sum_s z_s z_s^T,   b_i = sum_s y_s z_s,
    mean_i(x) = z(x)^T V_i^-1 b_i,   variance_i(x) = (k(x,x) - |z(x)|^2) / lam + z(x)^T V_i^-1 z(x),

with s over the points that all clients had played at the last exchange and those that client i has
played since. All exchange as soon as for one client the sum of variance(x_s) over the latter, with
the variance of the last exchange, exceeds `threshold` (D; the paper's analysis takes D = 1/N):

1. each point that was ever played joins the dictionary of m points with probability min(1, qbar
   variance(x)), the variance of the last exchange, drawn by the client that played it, which sends
   the d numbers of a point that joins;
2. every client receives the dictionary, d m numbers, and sends the sums of z z^T and y z over all
   points it played, m (m + 1) numbers;
3. every client receives their totals, m (m + 1) numbers.

An exchange so takes d m + N (d m + 2 m (m + 1)) numbers (`state.sent`), however many points there
are. Not counted: the call to exchange, the few scalars that a width of N clients reads, and what it
takes to scale a draw to `capacity`; nor is it used that z z^T is symmetric. Where the n
points since the last one are sent to all as they are, with their rewards, it takes N (d + 1) n
(`state.sent_as_data`), and every client can compute the same embedding by itself. While the
dictionary is empty every round ends with an exchange.

What the definition rests on: the paper's abstract, and the scripts with which Pavlovic, Salgia and
Zhao compare their own algorithm to it; the paper was not at hand in full. The scripts count what
clients send and not what they receive, and have another first exchange, after ten rounds. The
widths are ours: each client's is that of its own observations (THEORY 6.10).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import counts, sketched, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.contrib.clients.known import (
    ClientEvidence,
    EmbeddingState,
    points_of_clients,
    rewards_of_clients,
)
from jsketch.contrib.contextual import choice
from jsketch.linalg import cond_per_run, matmul
from jsketch.posterior import ridge
from jsketch.precision import in_dtype, one_dtype
from jsketch.sketch import dictionary as dictionaries
from jsketch.sketch import nystrom
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
@one_dtype
class SharedEmbedding:
    """N clients on a common embedding, which they renew in exchanges. Widths that read
    `ClientEvidence` serve: `certified_mixture`, `certified`, `bbkb_code`, `Bayesian`, a `Formula`
    of your own."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    # D >= 0; 0 exchanges in every round, a number that no sum reaches when `max_wait` is over
    threshold: ArrayLike = 0.1
    width: widths.Width = widths.bbkb_code
    clients: int = struct.field(pytree_node=False, default=8)  # N
    # B, rounds between two exchanges at most; reaching it brings one about
    max_wait: int = struct.field(pytree_node=False, default=64)
    max_history: int = struct.field(pytree_node=False, default=256)  # H, rounds in all
    capacity: int = struct.field(pytree_node=False, default=64)  # M
    # a draw of more than `capacity` points is scaled to it, in place of `info.overflow`
    scale_to_capacity: bool = struct.field(pytree_node=False, default=False)

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> EmbeddingState:
        """The state before the first round, for points with `dimension` inputs. Raises ValueError
        on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        checks.nonnegative(threshold=self.threshold)
        checks.capacity(
            dimension=dimension,
            clients=self.clients,
            max_wait=self.max_wait,
            max_history=self.max_history,
        )
        checks.truth(scale_to_capacity=self.scale_to_capacity)
        sketched.check_bandit(self)
        capacity, slots = self.capacity, self.clients * self.max_history
        dtype = checks.floating(dtype=dtype or jnp.zeros(()).dtype)
        floats = slots * (dimension + 5) + (self.clients + 3) * capacity**2
        checks.room(floats, dtype, max_history=self.max_history, capacity=capacity)
        checks.model(Arms(jnp.zeros((1, dimension), dtype)), self.kernel, self.regularization)
        kernel, regularization = in_dtype((self.kernel, self.regularization), dtype)
        history = Arms(jnp.zeros((slots, dimension), dtype))
        sketch = sketched.start(history, kernel, regularization, capacity, key, None)
        zero, zeros = jnp.zeros((), jnp.int32), jnp.zeros(self.clients, history.features.dtype)
        state = EmbeddingState(
            sketch=sketch,
            used=zero,
            last=zero,
            rewards=jnp.full(self.clients * self.max_wait, jnp.nan, zeros.dtype),
            precision=jnp.zeros((self.clients, capacity, capacity), zeros.dtype),
            moment=jnp.zeros((self.clients, capacity), zeros.dtype),
            spent=zeros,
            evidence=ClientEvidence(*[zeros] * 6),
            sent=zeros[0],
            sent_as_data=zeros[0],
            exchanges=zero,
        )
        return self._all_the_same(state, sketch)

    def _all_the_same(self, state: EmbeddingState, sketch: SketchState) -> EmbeddingState:
        """Every client has the posterior of an exchange, and nothing of its own."""
        n, known = self.clients, sketch.evidence
        eye = jnp.eye(sketch.capacity, dtype=state.spent.dtype)
        return replace(
            state,
            sketch=sketch,
            last=state.used,
            rewards=jnp.full_like(state.rewards, jnp.nan),
            precision=jnp.broadcast_to(eye, (n, *eye.shape)),
            moment=jnp.broadcast_to(sketch.weights, (n, *sketch.weights.shape)),
            spent=jnp.zeros_like(state.spent),
            evidence=ClientEvidence(
                **{
                    name: jnp.broadcast_to(getattr(known, name), (n,))
                    for name in ClientEvidence.__dataclass_fields__
                }
            ),
        )

    def confidence_width(self, state: EmbeddingState) -> Array:
        """Of each client, [N]."""
        return jax.vmap(lambda evidence: widths.confidence_width(self, evidence))(state.evidence)

    def _read(self, state: EmbeddingState, x: Array) -> tuple[Array, Array]:
        """(residual [...], u [...,M]) at points x [...,d], on the last exchange's embedding."""
        flat = x.reshape(-1, x.shape[-1])
        z = matmul(self.kernel.gram(flat, state.sketch.nystrom.points), state.sketch.nystrom.root)
        u = matmul(z, state.sketch.whiten)
        residual = nystrom.residual(self.kernel.diag(flat), z)
        return residual.reshape(x.shape[:-1]), u.reshape(*x.shape[:-1], -1)

    def posterior(self, state: EmbeddingState, x: Array) -> tuple[Array, Array]:
        """(mean [N,n], variance [N,n] in leverage units) of each client at its points x [N,n,d]."""
        residual, u = self._read(state, x)
        weights = matmul(state.precision, state.moment[..., None])
        explained = jnp.maximum((matmul(u, state.precision) * u).sum(-1), 0)
        return matmul(u, weights)[..., 0], residual / self.regularization + explained

    def scores(self, state: EmbeddingState, x: Array) -> Array:
        """Upper confidence bounds [N,n] of each client at its points x [N,n,d]."""
        mean, variance = self.posterior(state, x)
        return choice.upper_bound(mean, variance, self.confidence_width(state)[:, None])

    def ask(self, state: EmbeddingState, candidates: Array, key: PRNGKey) -> Array:
        """The numbers [N] int32 of the candidates to play, of candidates [N,C,d]: uniform ones
        while nothing is known. Raises ValueError for an empty or non-finite array, another number
        of clients or of inputs."""
        x = points_of_clients(self.clients, candidates, 3, self.kernel, state.sketch.domain)
        known = state.sketch.dictionary.size > 0
        keys = jax.random.split(key, self.clients)
        return jax.vmap(choice.best, (0, None, 0))(self.scores(state, x), known, keys)

    def tell(
        self, state: EmbeddingState, x: Array, y: Array, key: PRNGKey
    ) -> tuple[EmbeddingState, Info]:
        """Client i learns the reward y[i] of its point x[i], of x [N,d] and y [N]; then all
        exchange if one of them has learned enough. A reward that is not finite teaches nothing.
        Where history or dictionary have no room nothing is applied (`info.overflow`). Raises
        ValueError as `ask`."""
        n = self.clients
        x = points_of_clients(n, x, 2, self.kernel, state.sketch.domain)
        y = rewards_of_clients(n, y, x.dtype)
        width = self.confidence_width(state).max()
        finite, no_slot = jnp.isfinite(y), state.used + n > state.sketch.domain.count
        played = self._played(state, x, y)
        waited = played.used - played.last >= n * self.max_wait
        enough = (played.spent > self.threshold).any()
        empty = (state.sketch.dictionary.size == 0) & finite.any()
        due = (waited | enough | empty) & ~no_slot
        nothing = _nothing_drawn(width)
        new, info = cond_per_run(due, _exchange, (played, nothing), (self, key))
        applied = ~(no_slot | info.overflow)
        known = jnp.append(played.moment.sum(1) + played.spent, width)
        new = jax.tree.map(lambda new, old: jnp.where(applied, new, old), new, state)
        return new, replace(
            info,
            batch_size=jnp.full((), n, jnp.int32),
            observed=jnp.where(applied, finite.sum(), 0).astype(jnp.int32),
            dictionary_size=new.sketch.dictionary.size,
            overflow=info.overflow | no_slot,
            nonfinite=info.nonfinite | jnp.isinf(y).any() | ~jnp.isfinite(known).all(),
        )

    def _played(self, state: EmbeddingState, x: Array, y: Array) -> EmbeddingState:
        """Each client has learned its own reward; the exchange is still to come."""
        slot = jnp.minimum(state.used, state.sketch.domain.count - self.clients)
        since = jnp.minimum(state.used - state.last, state.rewards.shape[0] - self.clients)
        residual, u = self._read(state, x)
        # exactly: rounding of k(x,x) - |z|^2 would enter a width as the norm times its square root
        residual = jnp.where(self._in_dictionary(state, x), 0, residual)
        rest = residual / self.regularization
        spent = rest + jnp.square(u).sum(-1)
        finite = jnp.isfinite(y)
        weight = finite.astype(y.dtype)
        direction, e = jax.vmap(ridge.whitened_gain)(state.precision, u)
        precision = jax.vmap(ridge.hallucinate)(state.precision, direction, e)
        known, old = state.evidence, state.sketch
        prior = jnp.maximum(
            old.evidence.prior_variance, jnp.where(finite, self.kernel.diag(x), 0).max()
        )
        place = jax.lax.dynamic_update_slice
        zero = jnp.zeros((), slot.dtype)
        return replace(
            state,
            sketch=replace(
                old,
                domain=Arms(place(old.domain.features, x, (slot, zero))),
                variance=place(old.variance, spent, (slot,)),
                evidence=replace(old.evidence, prior_variance=prior),
            ),
            used=state.used + self.clients,
            rewards=place(state.rewards, y, (since,)),
            precision=jnp.where(finite[:, None, None], precision, state.precision),
            moment=state.moment + jnp.where(finite, y, 0)[:, None] * u,
            spent=state.spent + weight * spent,
            evidence=ClientEvidence(
                count=known.count + weight,
                information=known.information + weight * jnp.log1p(spent),
                information_sketched=known.information_sketched
                + weight * jnp.log1p(widths.ALPHA * spent),
                logdet=known.logdet + weight * jnp.log1p(e),
                residual_sum=known.residual_sum + weight * residual,
                prior_variance=jnp.full_like(known.prior_variance, prior),
            ),
        )

    def _in_dictionary(self, state: EmbeddingState, x: Array) -> Array:
        """[N] bool, whether points x [N,d] are inducing points."""
        same = (x[:, None] == state.sketch.nystrom.points[None]).all(-1)
        return (same & state.sketch.dictionary.mask[None]).any(1)

    def grow(self, state: EmbeddingState) -> EmbeddingState:
        """The same state with twice the room where it is full: of the history, or else of the
        dictionary."""
        sketch, used = state.sketch, int(state.used)
        if used + self.clients > sketch.domain.count:
            extra = sketch.domain.count
            rows = ("pull_counts", "reward_sums", "mean", "variance")
            padded: dict[str, Any] = {n: jnp.pad(getattr(sketch, n), (0, extra)) for n in rows}
            features = jnp.pad(sketch.domain.features, ((0, extra), (0, 0)))
            return replace(state, sketch=replace(sketch, domain=Arms(features), **padded))
        larger = sketched.grow(sketch, 2 * sketch.capacity)
        extra = larger.capacity - sketch.capacity
        free = (jnp.arange(larger.capacity) >= sketch.capacity).astype(state.spent.dtype)
        square = ((0, 0), (0, extra), (0, extra))
        return replace(
            state,
            sketch=larger,
            precision=jnp.pad(state.precision, square) + jnp.diag(free)[None],
            moment=jnp.pad(state.moment, ((0, 0), (0, extra))),
        )


def _exchange(
    played: tuple[EmbeddingState, Info], given: tuple[SharedEmbedding, PRNGKey]
) -> tuple[EmbeddingState, Info]:
    """The dictionary is drawn anew, everything is projected on it, and counted as sent."""
    (state, before), (bandit, key) = played, given
    old, slots = state.sketch, jnp.arange(state.rewards.shape[0], dtype=jnp.int32)
    index = jnp.minimum(state.last + slots, old.domain.count - 1)
    query = Query(index=index, mask=slots < state.used - state.last)
    y = queries.rewards(query, state.rewards, state.spent.dtype)
    feedback = counts.absorb(old.pull_counts, old.reward_sums, old.variance, query, y)
    uniform = _scaled_draw(bandit, old, feedback, key) if bandit.scale_to_capacity else None
    sketch, info = sketched.apply_feedback(old, feedback, query, before.width, key, bandit, uniform)
    m = sketch.dictionary.size.astype(state.sent.dtype)
    inputs, seen = old.domain.features.shape[1], jnp.isfinite(y).sum(dtype=state.sent.dtype)
    points, sums = inputs * m, m * (m + 1)
    after = replace(
        bandit._all_the_same(state, sketch),
        sent=state.sent + points + bandit.clients * (points + 2 * sums),
        sent_as_data=state.sent_as_data + bandit.clients * (inputs + 1) * seen,
        exchanges=state.exchanges + 1,
    )
    return after, info


def _scaled_draw(
    bandit: SharedEmbedding, sketch: SketchState, feedback: counts.Feedback, key: PRNGKey
) -> Array:
    """The uniform numbers of a draw, with 1 in the place of those that do not fit the capacity.

    The points that stay are those of the largest oversampling, at most qbar, at which the draw
    fits. Points that tie for the last place stay out.
    """
    pulls, variance = feedback.pull_counts, sketch.variance
    uniform = jax.random.uniform(key, variance.shape, variance.dtype)
    drawn = uniform < dictionaries.inclusion_probability(pulls, variance, bandit.qbar)
    ratio = jnp.where(drawn, uniform / (bandit.qbar * pulls * variance), jnp.inf)
    first_left_out = jnp.sort(ratio).at[sketch.capacity].get(mode="fill", fill_value=jnp.inf)
    return jnp.where(ratio < first_left_out, uniform, 1)


def _nothing_drawn(width: Array) -> Info:
    """What is said of a round without an exchange."""
    count, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return Info(count, count, count, width, no, no, no, no)
