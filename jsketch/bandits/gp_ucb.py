"""Algorithms on the exact GP posterior: GP-UCB and epsilon-greedy. A step costs O(A u) for u
distinct pulled arms.

GP-UCB: Srinivas, Krause, Kakade, Seeger (2010), with the widths of BKB eq. 7 (THEORY 4.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core import exact_state
from jsketch.bandits.core.exact_state import ExactBandit, ExactState
from jsketch.posterior import exact
from jsketch.struct import in_dtype
from jsketch.types import Algorithm, Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
class GPUCB(ExactBandit):
    """Exact GP-UCB over finite arms. Repeated pulls of an arm do not enlarge the state.

    Example:

        run(GPUCB(kernels.Gaussian(1.0), noise_std=0.1), problem, jax.random.key(0), 100)
    """


@struct.dataclass
class EpsGreedy(Algorithm):
    """Pulls a random arm with probability epsilon, and otherwise the arm with the largest exact
    posterior mean. BBKB's paper does not define its EpsGreedy; this is our choice (THEORY 6.2)."""

    kernel: Kernel  # a kernel of `jsketch.kernels`
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    epsilon: ArrayLike = 0.1  # exploration probability, in [0, 1]
    # N, the largest number of distinct arms; None as for `GPUCB`
    capacity: int | None = struct.field(pytree_node=False, default=None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, domain: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        return exact_state.start(self, domain, key, data)

    def ask(self, state: ExactState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        coin_key, arm_key = jax.random.split(key)
        epsilon = in_dtype(self.epsilon, state.count.dtype)
        explore = jax.random.uniform(coin_key, dtype=state.count.dtype) < epsilon
        random_arm = jax.random.randint(arm_key, (), 0, state.domain.count, jnp.int32)
        best = jnp.argmax(state.posterior.mean).astype(jnp.int32)
        return checks.single_query(jnp.where(explore | (state.count == 0), random_arm, best))

    def tell(
        self, state: ExactState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        return exact_state.observe(self, state, query, y, jnp.zeros_like(state.count), key)

    def grow(self, state: ExactState, capacity: int) -> ExactState:
        return replace(state, posterior=exact.grow(state.posterior, capacity))
