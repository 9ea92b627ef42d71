"""Algorithms on the exact GP posterior: GP-UCB and epsilon-greedy. Cost O(A u) a step for u
distinct pulled arms.

GP-UCB: Srinivas, Krause, Kakade, Seeger (2010), with the widths of BKB eq. 7 (THEORY 4.1).
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import exact_state, widths
from jsketch.bandits.core.exact_state import ExactState
from jsketch.checks import queries
from jsketch.posterior import exact
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
@one_dtype
class GPUCB:
    """Exact GP-UCB over finite arms; repeated arms never enlarge anything."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    width: widths.Width = widths.gp_ucb_code
    capacity: int = struct.field(pytree_node=False, default=128)  # N distinct arms; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> ExactState:
        """The prior. Raises ValueError on static mistakes."""
        checks.confidence(self)
        return exact_state.start(self, domain, key)

    def confidence_width(self, state: ExactState) -> Array:
        """beta_t, []."""
        return self.width(exact_state.evidence(state), widths.assumptions(self))

    def scores(self, state: ExactState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return state.posterior.mean + self.confidence_width(state) * jnp.sqrt(
            state.posterior.variance
        )

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return queries.single(
            jnp.where(
                state.count == 0, state.first_arm, jnp.argmax(self.scores(state)).astype(jnp.int32)
            )
        )

    def tell(
        self, state: ExactState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        return exact_state.learn(self, state, query, y, self.confidence_width(state), key)

    def grow(self, state: ExactState, capacity: int) -> ExactState:
        """The same state with room for `capacity` distinct arms."""
        return replace(state, posterior=exact.grow(state.posterior, capacity))


@struct.dataclass
@one_dtype
class EpsGreedy:
    """A uniform arm with probability epsilon, else the arm with the largest exact posterior mean.

    BBKB's experiments name EpsGreedy and define nothing; this definition is ours (THEORY 6.2).
    """

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    epsilon: ArrayLike = 0.1  # exploration probability, in [0, 1]
    capacity: int = struct.field(pytree_node=False, default=128)  # N distinct arms; `run` grows it

    def init(self, domain: Arms, key: PRNGKey) -> ExactState:
        """The prior. Raises ValueError on static mistakes."""
        checks.fraction(epsilon=self.epsilon)
        return exact_state.start(self, domain, key)

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        coin_key, arm_key = jax.random.split(key)
        explore = jax.random.uniform(coin_key, dtype=state.count.dtype) < self.epsilon
        uniform = jax.random.randint(arm_key, (), 0, state.domain.count, jnp.int32)
        best = jnp.argmax(state.posterior.mean).astype(jnp.int32)
        return queries.single(jnp.where(explore | (state.count == 0), uniform, best))

    def tell(
        self, state: ExactState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        return exact_state.learn(self, state, query, y, jnp.zeros_like(state.count), key)

    def grow(self, state: ExactState, capacity: int) -> ExactState:
        """The same state with room for `capacity` distinct arms."""
        return replace(state, posterior=exact.grow(state.posterior, capacity))
