"""BKB: GP-UCB on a Nystrom sketch resampled by posterior variance after every pull.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Gaussian process optimization with adaptive
sketching: scalable and no regret. COLT 2019, Figure 1.
"""

from __future__ import annotations

from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits.bbkb import SketchedBandit, State
from jsketch.core import history
from jsketch.types import Arms, PRNGKey, Query


@struct.dataclass
class BKB(SketchedBandit):
    """BKB over finite arms. A round is one evaluation and one update of the posterior.

    kernel          a kernel of `jsketch.kernels`
    regularization  lam, usually noise_std^2
    noise_std       xi, standard deviation of the noise of a reward
    norm_bound      F >= |f| in the RKHS
    delta           failure probability; the papers use 1/T
    qbar            oversampling; `dictionary.qbar_theory` has the theorems' value
    dictionary      how the dictionary changes after a batch: `Extend(slack)`, or `Draw()` as in the
                    papers
    width           the confidence width, one of `bandits.widths`
    capacity        M, the largest number of inducing points. None: `init` makes 64 slots, and
                    `run`, `drive` and `rollout` more where a run needs them. `run` and `drive`
                    also enlarge a capacity that is given

    Example:

        arms = Arms(features)
        bandit = BKB(kernels.Gaussian(1.0), noise_std=0.1)
        state = bandit.init(arms, jax.random.key(0))
        query = bandit.ask(state, arms, jax.random.key(1))
        state, info = bandit.tell(state, arms, query, mean_reward[query.index], jax.random.key(2))
    """

    def ask(self, state: State, arms: Arms, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        return history.query_of_best(arms, self.scores(state, arms), state.counts.sum(), key)
