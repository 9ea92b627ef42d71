"""Algorithms on the exact GP posterior: GP-UCB and epsilon-greedy. Cost O(A u) a step for u distinct pulled arms.

GP-UCB: Srinivas, Krause, Kakade, Seeger (2010), with the widths of BKB eq. 7 (THEORY 4.1).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax
from jax.typing import ArrayLike

from jsketch import checks, told
from jsketch.bandits import history, widths
from jsketch.posterior import exact
from jsketch.posterior.exact import Exact
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, PRNGKey, Query


@struct.dataclass
class ExactState:
    """Exact posterior over the arms, updated after every evaluation."""

    domain: Arms  # A arms; never changes
    first_arm: Array  # [] int32, uniform; pulled while nothing is known, another one after it failed
    posterior: Exact
    count: Array  # [], observations so far
    prior_variance: Array  # [], max_x k(x,x)

    @property
    def capacity(self) -> int:
        return self.posterior.basis.shape[0]


def start(bandit: Any, domain: Arms, key: PRNGKey) -> ExactState:
    """The prior over the arms, for any algorithm on the exact posterior. Raises ValueError on static mistakes."""
    checks.positive(regularization=bandit.regularization)
    checks.capacity(capacity=bandit.capacity)
    domain = checks.arms(domain)
    checks.model(domain, bandit.kernel, bandit.regularization)
    table = bandit.capacity * (domain.count + 2 * bandit.capacity)
    checks.room(table, domain.features.dtype, capacity=bandit.capacity, arms=domain.count)
    return ExactState(
        domain=domain,
        first_arm=jax.random.randint(key, (), 0, domain.count, jnp.int32),
        posterior=exact.prior(bandit.kernel, domain.features, bandit.regularization, bandit.capacity),
        count=jnp.zeros((), domain.features.dtype),
        prior_variance=jnp.max(bandit.kernel.diag(domain.features)),
    )


def _single(arm: Array) -> Query:
    return Query(index=arm[None], mask=jnp.ones(1, bool))


def learn(bandit: Any, state: Any, query: Query, y: Array, width: Array, key: PRNGKey) -> tuple[Any, Info]:
    """The exact posterior after the rewards y [B] of a query; on overflow nothing is applied. For any batch size, and any
    state with the fields of `ExactState`."""
    query, y = told.feedback(state.domain, query, y)
    observed = history.usable(query, y)
    arms = state.domain.features

    def one(i: Array, carry: tuple[Exact, Array]) -> tuple[Exact, Array]:
        posterior, overflow = carry
        posterior, full = exact.observe(
            posterior,
            bandit.kernel,
            arms,
            query.index[i],
            y[i],
            observed[i] & ~overflow,
            bandit.regularization,
        )
        return posterior, overflow | full

    carry = (state.posterior, jnp.zeros((), bool))
    if y.shape[0] == 1:
        posterior, overflow = one(jnp.zeros((), jnp.int32), carry)
    else:
        posterior, overflow = lax.fori_loop(0, history.last_slot(query), one, carry)
        posterior = jax.tree.map(lambda old, new: jnp.where(overflow, old, new), state.posterior, posterior)
    count = jnp.where(overflow, 0, observed.sum(dtype=jnp.int32))
    info = exact_info(query, y, posterior, count, overflow, width)
    applied = query.mask.any() & ~overflow
    return after(state, posterior, count, applied, key), info


def after(state: Any, posterior: Exact, observed: Array, applied: Array, key: PRNGKey) -> Any:
    """The state with a posterior that `observed` [] more rewards entered; `applied` []: a query was told, and it fit."""
    count = state.count + observed.astype(state.count.dtype)
    first_arm = history.next_first_arm(state.first_arm, applied & (count == 0), state.domain.count, key)
    return state.replace(posterior=posterior, count=count, first_arm=first_arm)


def exact_info(
    query: Query, y: Array, posterior: Exact, observed: Array, overflow: Array, width: Array
) -> Info:
    """The info of a round told to an exact posterior."""
    return Info(
        batch_size=query.size.astype(jnp.int32),
        observed=observed,
        dictionary_size=posterior.used,
        width=width,
        overflow=overflow,
        truncated=jnp.zeros((), bool),
        nonfinite=(query.mask & jnp.isinf(y)).any() | ~jnp.isfinite(posterior.mean).all(),
        imprecise=jnp.zeros((), bool),
    )


def exact_evidence(state: Any) -> widths.Evidence:
    """What widths read, from an exact posterior: its information is its logdet, and nothing is left out."""
    zero, logdet = jnp.zeros_like(state.count), state.posterior.logdet
    return widths.Evidence(state.count, logdet, logdet, zero, logdet, zero, state.prior_variance)


@struct.dataclass
@one_dtype
class GPUCB:
    """Exact GP-UCB over finite arms; repeated arms never enlarge anything."""

    kernel: Any
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    width: widths.Width = struct.field(pytree_node=False, default=widths.gp_ucb_code)
    capacity: int = struct.field(pytree_node=False, default=128)  # N distinct arms; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> ExactState:
        """The prior. Raises ValueError on static mistakes."""
        checks.confidence(self)
        return start(self, domain, key)

    def confidence_width(self, state: ExactState) -> Array:
        """beta_t, []."""
        confidence = widths.Confidence(self.regularization, self.noise_std, self.norm_bound, self.delta)
        return self.width(exact_evidence(state), confidence)

    def scores(self, state: ExactState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return state.posterior.mean + self.confidence_width(state) * jnp.sqrt(state.posterior.variance)

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return _single(
            jnp.where(state.count == 0, state.first_arm, jnp.argmax(self.scores(state)).astype(jnp.int32))
        )

    def tell(self, state: ExactState, query: Query, y: Array, key: PRNGKey) -> tuple[ExactState, Info]:
        return learn(self, state, query, y, self.confidence_width(state), key)

    def grow(self, state: ExactState, capacity: int) -> ExactState:
        """The same state with room for `capacity` distinct arms."""
        return state.replace(posterior=exact.grow(state.posterior, capacity))


@struct.dataclass
@one_dtype
class EpsGreedy:
    """A uniform arm with probability epsilon, else the arm with the largest exact posterior mean.

    BBKB's experiments name EpsGreedy and define nothing; this definition is ours (THEORY 6.2).
    """

    kernel: Any
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    epsilon: ArrayLike = 0.1  # exploration probability, in [0, 1]
    capacity: int = struct.field(pytree_node=False, default=128)  # N distinct arms; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> ExactState:
        """The prior. Raises ValueError on static mistakes."""
        checks.fraction(epsilon=self.epsilon)
        return start(self, domain, key)

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        coin_key, arm_key = jax.random.split(key)
        explore = jax.random.uniform(coin_key, dtype=state.count.dtype) < self.epsilon
        uniform = jax.random.randint(arm_key, (), 0, state.domain.count, jnp.int32)
        best = jnp.argmax(state.posterior.mean).astype(jnp.int32)
        return _single(jnp.where(explore | (state.count == 0), uniform, best))

    def tell(self, state: ExactState, query: Query, y: Array, key: PRNGKey) -> tuple[ExactState, Info]:
        return learn(self, state, query, y, jnp.zeros_like(state.count), key)

    def grow(self, state: ExactState, capacity: int) -> ExactState:
        """The same state with room for `capacity` distinct arms."""
        return state.replace(posterior=exact.grow(state.posterior, capacity))
