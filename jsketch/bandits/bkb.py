"""BKB: GP-UCB on a Nystrom sketch resampled by posterior variance after every pull.

Calandriello, Carratino, Lazaric, Valko, Rosasco. Gaussian process optimization with adaptive sketching: scalable and no
regret. COLT 2019, Figure 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from jax.typing import ArrayLike

from jsketch import checks, told
from jsketch.bandits import history, sketched, widths
from jsketch.bandits.sketched import SketchState
from jsketch.precision import one_dtype
from jsketch.sketch import bless
from jsketch.types import Arms, Info, PRNGKey, Query, is_traced


def past(
    bandit: Any, domain: Arms, key: PRNGKey, pull_counts: Any, reward_sums: Any, dictionary: Any
) -> tuple[Array, Array, Array] | None:
    """Checks the evaluations that an algorithm is started with: None, or what `sketched.start` takes."""
    if pull_counts is None:
        if reward_sums is not None or dictionary is not None:
            raise ValueError(
                "reward_sums and dictionary describe past evaluations: give pull_counts with them."
            )
        return None
    told.past(domain, pull_counts, reward_sums)
    dtype = domain.features.dtype
    counts, sums = jnp.asarray(pull_counts, dtype), jnp.asarray(reward_sums, dtype)
    if isinstance(dictionary, str):
        dictionary = _sampled_dictionary(bandit, domain, key, counts, dictionary)
    if dictionary is None:
        keep = counts > 0
    else:
        checks.arm_numbers(domain, dictionary=dictionary)
        index = told.or_none(domain, dictionary)
        keep = jnp.zeros(domain.count, bool).at[index].set(True, mode="drop")
        # traced numbers only, which `tell` flags
        sums = jnp.where((index == domain.count).any(), jnp.nan, sums)
    if not is_traced(keep) and int(keep.sum()) > bandit.capacity:
        raise ValueError(
            f"a dictionary of {int(keep.sum())} arms does not fit a capacity of {bandit.capacity}: raise `capacity`."
        )
    return counts, sums, keep


def _sampled_dictionary(bandit: Any, domain: Arms, key: PRNGKey, counts: Array, method: str) -> np.ndarray:
    """Arms of a dictionary of the past evaluations, by BLESS or by exact leverage scores; on the host."""
    checks.choice(("bless", "leverage"), dictionary=method)
    if is_traced(domain, counts, bandit, key):
        raise ValueError(
            f'dictionary="{method}" is sampled on the host: call init outside jit and vmap, or give the arms themselves.'
        )
    pulled = np.flatnonzero(np.asarray(counts) > 0)
    if len(pulled) == 0:
        return pulled
    points, n = np.asarray(domain.features)[pulled], np.asarray(counts)[pulled]
    lam = float(bandit.regularization)
    if method == "bless":
        return pulled[bless.bless(bandit.kernel, points, n, lam, key).rows]
    scores = bless.exact_leverage_scores(bandit.kernel, points, n, lam)
    uniform = np.asarray(jax.random.uniform(key, scores.shape, scores.dtype))
    return pulled[uniform < np.minimum(1, float(bandit.qbar) * scores)]


@struct.dataclass
@one_dtype
class BKB:
    """BKB over finite arms; one evaluation and one refresh a round, O((A + n) m^2 + m^3)."""

    kernel: Any
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability; the papers use 1/T
    qbar: ArrayLike = 2.0  # oversampling; `dictionary.qbar_theory` for the guarantee
    width: widths.Width = struct.field(pytree_node=False, default=widths.bkb_code)
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
        """The state before the first round, or after past evaluations given as pull counts and reward sums [A] (then
        `dictionary` holds the inducing arms, by default all arms pulled; "bless" and "leverage" sample them by approximate
        and by exact leverage scores, THEORY 3.4). Raises ValueError on static mistakes."""
        checks.confidence(self)
        checks.positive(qbar=self.qbar)
        checks.capacity(capacity=self.capacity)
        domain = checks.arms(domain)
        checks.model(domain, self.kernel, self.regularization)
        sketched.check_room(domain, self.capacity)
        known = past(self, domain, key, pull_counts, reward_sums, dictionary)
        return sketched.start(domain, self.kernel, self.regularization, self.capacity, key, known)

    def confidence_width(self, state: SketchState) -> Array:
        """beta~_t, []."""
        confidence = widths.Confidence(self.regularization, self.noise_std, self.norm_bound, self.delta)
        return self.width(state.evidence, confidence)

    def scores(self, state: SketchState) -> Array:
        """Upper confidence bounds of all arms, [A]."""
        return state.mean + self.confidence_width(state) * jnp.sqrt(state.variance)

    def ask(self, state: SketchState, key: PRNGKey, limit: ArrayLike | None = None) -> Query:
        best = jnp.argmax(self.scores(state)).astype(jnp.int32)
        arm = jnp.where(state.evidence.count == 0, state.first_arm, best)
        return Query(index=arm[None], mask=jnp.ones(1, bool))

    def tell(self, state: SketchState, query: Query, y: Array, key: PRNGKey) -> tuple[SketchState, Info]:
        query, y = told.feedback(state.domain, query, y)
        feedback = history.absorb(state.pull_counts, state.reward_sums, state.variance, query, y)
        return sketched.apply_feedback(state, feedback, query, self.confidence_width(state), key, self)

    def grow(self, state: SketchState, capacity: int) -> SketchState:
        """The same state with room for `capacity` inducing points."""
        return sketched.grow(state, capacity)
