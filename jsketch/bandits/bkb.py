"""BKB: GP-UCB on a Nystrom sketch resampled by posterior variance after every pull.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Gaussian process optimization with adaptive
sketching: scalable and no regret. COLT 2019, Figure 1.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, shards, struct
from jsketch.bandits.core import counts, room, sketched, warm_start, widths
from jsketch.bandits.core.sketched import SketchState
from jsketch.checks import queries
from jsketch.precision import one_dtype
from jsketch.types import Arms, Info, Kernel, PRNGKey, Query


@struct.dataclass
@one_dtype
class BKB:
    """BKB over finite arms; one evaluation and one refresh a round, O((A + n) m^2 + m^3)."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability; the papers use 1/T
    qbar: ArrayLike = 2.0  # oversampling; `dictionary.qbar_theory` for the guarantee
    width: widths.Width = widths.bkb_code
    capacity: int = struct.field(pytree_node=False, default=64)  # M; `run` grows it

    def init(
        self,
        domain: Arms,
        key: PRNGKey,
        *,
        pull_counts: Any = None,
        reward_sums: Any = None,
        dictionary: Any = None,
    ) -> SketchState:
        """The state before the first round, or after observed evaluations given as pull counts and
        reward sums [A] (then `dictionary` holds the inducing arms, by default all arms pulled;
        "bless" and "leverage" sample them by approximate and by exact leverage scores, THEORY 3.4).
        Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        room.check_bandit(self)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization)
        room.check_room(domain, self.capacity)
        known = warm_start.checked(self, domain, key, pull_counts, reward_sums, dictionary)
        return sketched.start(domain, self.kernel, self.regularization, self.capacity, key, known)

    def confidence_width(self, state: SketchState) -> Array:
        """beta~_t, []."""
        return self.width(state.evidence, widths.assumptions(self))

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return state.mean + self.confidence_width(state) * jnp.sqrt(state.variance)

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        shard = state.domain.shard
        best = shards.argmax(shard, shards.padded(shard, self.scores(state), -jnp.inf))
        arm = jnp.where(state.evidence.count == 0, state.first_arm, best)
        return Query(index=arm[None], mask=jnp.ones(1, bool))

    def tell(
        self, state: SketchState, query: Query, y: Array, key: PRNGKey
    ) -> tuple[SketchState, Info]:
        query, y = queries.feedback(state.domain, query, y)
        feedback = counts.absorb(
            state.pull_counts, state.reward_sums, state.variance, query, y, state.domain.shard
        )
        return sketched.apply_feedback(
            state, feedback, query, self.confidence_width(state), key, self
        )

    def grow(self, state: SketchState, capacity: int) -> SketchState:
        """The same state with room for `capacity` inducing points."""
        return room.grow(state, capacity)


def with_numbers_of(bandit: Any) -> BKB:
    """The BKB with the numbers of an algorithm that has all of BKB's, such as one that forgets."""
    return BKB(
        kernel=bandit.kernel,
        regularization=bandit.regularization,
        noise_std=bandit.noise_std,
        norm_bound=bandit.norm_bound,
        delta=bandit.delta,
        qbar=bandit.qbar,
        width=bandit.width,
        capacity=bandit.capacity,
    )
