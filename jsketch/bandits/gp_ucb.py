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

from jsketch import components, struct
from jsketch.bandits import exact
from jsketch.bandits.exact import ExactBandit, ExactState
from jsketch.core import history
from jsketch.posterior import GaussianProcess
from jsketch.types import Algorithm, Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
class GPUCB(ExactBandit):
    """Exact GP-UCB over finite arms. Repeated pulls of an arm do not enlarge the state.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    width           the confidence width, one of `bandits.widths`
    capacity        N, the largest number of distinct pulled arms. None: `init` makes 128 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given

    Example:

        run(GPUCB(kernels.Gaussian(1.0), noise_std=0.1), problem, jax.random.key(0), 100)
    """


@struct.dataclass
class EpsGreedy(Algorithm):
    """Pulls a random arm with probability epsilon, and otherwise the arm with the largest exact
    posterior mean. BBKB's paper does not define its EpsGreedy; this is our choice (THEORY 6.2).

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    epsilon         exploration probability
    capacity        N, the largest number of distinct arms; None as for `GPUCB`
    """

    kernel: Kernel = struct.component(components.KERNEL)
    regularization: ArrayLike = struct.number(1e-2, above=0)
    epsilon: ArrayLike = struct.number(0.1, at_least=0, at_most=1)
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
        random_arm = history.redrawn(arms, random_arm[None], jax.random.fold_in(arm_key, 0))[0]
        best = jnp.argmax(arms.of_candidates(state.posterior.mean)).astype(jnp.int32)
        return Query.of(jnp.where(explores | (state.count == 0), random_arm, best))

    def tell(
        self, state: ExactState, arms: Arms, query: Query, y: Array, key: PRNGKey
    ) -> tuple[ExactState, Info]:
        return exact.observe(self, state, arms, query, y, width=jnp.zeros_like(state.count))

    def gaussian_process(self, state: ExactState, arms: Arms) -> GaussianProcess:
        """The posterior at any points (`jsketch.posterior.of`)."""
        return exact.gaussian_process(self, state, arms)

    def grow(self, state: ExactState, arms: Arms, capacity: int) -> ExactState:
        return exact.grow(state, capacity)
