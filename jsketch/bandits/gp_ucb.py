"""Algorithms on the exact GP posterior: GP-UCB and epsilon-greedy. A step costs O(A u) for u
distinct pulled arms.

GP-UCB: Srinivas, Krause, Kakade, Seeger (2010), with the widths of BKB eq. 7 (THEORY 4.1).
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits import exact
from jsketch.bandits.exact import ExactBandit, ExactState
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
    regularization: ArrayLike = struct.number(1e-2, above=0)  # lam, usually noise_std^2
    epsilon: ArrayLike = struct.number(0.1, at_least=0, at_most=1)  # exploration probability
    # N, the largest number of distinct arms; None as for `GPUCB`
    capacity: int | None = struct.size(None)
    first_capacity: ClassVar[int] = 128

    def init(
        self, arms: Arms, key: PRNGKey, *, horizon: int | None = None, data: None = None
    ) -> ExactState:
        return exact.start(self, arms, key, data)

    def ask(
        self, state: ExactState, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None
    ) -> Query:
        coin_key, arm_key = jax.random.split(key)
        explores = jax.random.uniform(coin_key, dtype=state.count.dtype) < self.epsilon
        random_arm = jax.random.randint(arm_key, (), 0, arms.count, jnp.int32)
        best = jnp.argmax(arms.without_padding(state.posterior.mean)).astype(jnp.int32)
        return Query.of(jnp.where(explores | (state.count == 0), random_arm, best))

    def tell(
        self, state: ExactState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        return exact.observe(self, state, arms, query, y, width=jnp.zeros_like(state.count))

    def grow(self, state: ExactState, arms: Arms, capacity: int) -> ExactState:
        return exact.grow(state, capacity)
