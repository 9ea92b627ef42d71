"""BKB: GP-UCB on a Nystrom sketch resampled by posterior variance after every pull.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Gaussian process optimization with adaptive
sketching: scalable and no regret. COLT 2019, Figure 1.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike

from jsketch import checks, struct
from jsketch.bandits.core.sketched import SketchedBandit, SketchState
from jsketch.types import PRNGKey, Query


@struct.dataclass
class BKB(SketchedBandit):
    """BKB over finite arms. A round is one evaluation and one refresh of the posterior, which costs
    O((A + n) m^2 + m^3) for n distinct pulled arms.

    Example:

        bandit = BKB(kernels.Gaussian(1.0), noise_std=0.1)
        state = bandit.init(Arms(features), jax.random.key(0))
        query = bandit.ask(state, jax.random.key(1))
        state, info = bandit.tell(state, query, mean_reward[query.index], jax.random.key(2))
    """

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        rows = state.domain.rows
        best = rows.argmax(rows.mask(self.scores(state), -jnp.inf))
        return checks.single_query(jnp.where(state.evidence.count == 0, state.first_arm, best))
