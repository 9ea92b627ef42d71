"""CBKB and CBBKB: BKB and BBKB for contexts, whose dictionary is resampled over the history.

The algorithms that Zenati et al. (AISTATS 2022) compare EK-UCB with: the dictionary is drawn anew
from all points played, with BKB's probabilities (Calandriello et al., COLT 2019, Figure 1), after
every reward (ratio C = 1, CBKB) or when 1 + the sum of the variances of the points played since the
last draw exceeds C (Calandriello et al., ICML 2020, Lemma 1; CBBKB). History, dictionary and
variances are `PointBBKB`'s. There rewards arrive with the end of a batch; contexts have each reward
at once, and only the dictionary waits: with P the precision of the points played since and b the
whitened moments,

    mean(x) = u(x)^T P (b + sum_s y_s u_s),     u as in THEORY 9.3,

which is the posterior of all rewards on the dictionary of the last draw (THEORY 6.6). The width
stays that of the start of the batch: for C > 1 no theorem covers it here, `certified` included.
While the dictionary is empty it is drawn after every reward: no pull teaches anything then.

What the definition rests on: the authors' published scripts. They add up variances that shrink
during the batch, where Lemma 1, and this file, take those of its start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jsketch import struct
from jsketch.bandits.core import widths
from jsketch.bandits.points.point_bbkb import PointBBKB, PointState
from jsketch.contrib.contextual import choice
from jsketch.linalg import cond_per_run, matmul, put
from jsketch.precision import one_dtype
from jsketch.types import Info, Kernel, PRNGKey


@struct.dataclass
class CBBKBState:
    """PointBBKB's state, and the rewards of its unfinished batch."""

    points: PointState
    rewards: Array  # [B], NaN beyond the batch
    moment: Array  # [M], the whitened sum of y z over all rewards


@struct.dataclass
@one_dtype
class CBBKB:
    """BBKB for contexts; CBKB with `ratio` 1."""

    kernel: Kernel
    regularization: ArrayLike = 1e-2  # lam, usually noise_std^2
    noise_std: ArrayLike = 0.1  # xi
    norm_bound: ArrayLike = 1.0  # F >= |f| in the RKHS
    delta: ArrayLike = 0.1  # failure probability
    qbar: ArrayLike = 2.0  # oversampling
    ratio: ArrayLike = 2.0  # C >= 1; 1 is CBKB
    width: widths.Width = widths.bbkb_code
    max_batch: int = struct.field(pytree_node=False, default=64)  # B
    max_history: int = struct.field(pytree_node=False, default=1024)  # H, rewards in all
    capacity: int = struct.field(pytree_node=False, default=64)  # M

    def _over_points(self) -> PointBBKB:
        return PointBBKB(
            kernel=self.kernel,
            regularization=self.regularization,
            noise_std=self.noise_std,
            norm_bound=self.norm_bound,
            delta=self.delta,
            qbar=self.qbar,
            ratio=self.ratio,
            width=self.width,
            max_batch=self.max_batch,
            max_history=self.max_history,
            capacity=self.capacity,
        )

    def init(self, dimension: int, key: PRNGKey, dtype: Any = None) -> CBBKBState:
        """As `PointBBKB.init`. Raises ValueError on static mistakes."""
        points = self._over_points().init(dimension, key, dtype)
        weights = points.sketch.weights
        return CBBKBState(points, jnp.full(self.max_batch, jnp.nan, weights.dtype), weights)

    def confidence_width(self, state: CBBKBState) -> Array:
        """[], that of the start of the batch."""
        return self._over_points().confidence_width(state.points)

    def posterior(self, state: CBBKBState, x: Array) -> tuple[Array, Array]:
        """(mean [n], variance [n] in leverage units) at points x [n,d], after all rewards."""
        _, residual, u = self._over_points().read(state.points, x)
        mean = matmul(u, matmul(state.points.precision, state.moment))
        explained = jnp.maximum((matmul(u, state.points.precision) * u).sum(1), 0)
        return mean, residual / self.regularization + explained

    def scores(self, state: CBBKBState, x: Array) -> Array:
        """Upper confidence bounds at points x [n,d], [n]."""
        return choice.upper_bound(*self.posterior(state, x), self.confidence_width(state))

    def ask(self, state: CBBKBState, candidates: Array, key: PRNGKey) -> Array:
        """As `EKUCB.ask`."""
        inputs = state.points.sketch.domain.features.shape[1]
        x = choice.candidates_of(self.kernel, candidates, inputs)
        return choice.best(self.scores(state, x), state.points.used > 0, key)

    def tell(
        self, state: CBBKBState, x: Array, y: ArrayLike, key: PRNGKey
    ) -> tuple[CBBKBState, Info]:
        """Learns the reward y [] of the point x [d]; at the end of a batch the dictionary is drawn
        again and all is projected on it. A reward that is not finite changes nothing, nor does one
        for which history or dictionary have no room (`info.overflow`)."""
        x = choice.point_of(self.kernel, x, state.points.sketch.domain.features.shape[1])
        y = choice.reward_of(y, x.dtype)
        bandit, points = self._over_points(), state.points
        no_slot = bandit.full(points)
        u = bandit.read(points, x[None])[2][0]
        played = CBBKBState(
            points=bandit.pulled(points, x),
            rewards=put(state.rewards, jnp.minimum(points.batch_size, self.max_batch - 1), y),
            moment=state.moment + jnp.where(jnp.isfinite(y), y, 0) * u,
        )
        width = self.confidence_width(state)
        learned = jnp.isfinite(y) & ~no_slot
        empty = points.sketch.dictionary.size == 0
        ends = learned & (bandit.ends(played.points) | empty)
        drawn, info = cond_per_run(ends, _observe, (played, _nothing_drawn(width)), (bandit, key))
        applied = learned & ~info.overflow
        new = jax.tree.map(lambda new, old: jnp.where(applied, new, old), drawn, state)
        return new, replace(
            info,
            batch_size=jnp.ones((), jnp.int32),
            observed=applied.astype(jnp.int32),
            dictionary_size=new.points.sketch.dictionary.size,
            overflow=info.overflow | (jnp.isfinite(y) & no_slot),
            nonfinite=info.nonfinite | jnp.isinf(y) | ~jnp.isfinite(width),
        )

    def grow(self, state: CBBKBState) -> CBBKBState:
        """The same state with twice the room where it is full: of the history, or else of the
        dictionary."""
        bandit, points = self._over_points(), state.points
        history = points.sketch.domain.count
        if int(points.used) >= history:
            return replace(state, points=bandit.extend(points, 2 * history))
        points = bandit.grow(points, 2 * points.capacity)
        extra = points.capacity - state.moment.shape[0]
        return replace(state, points=points, moment=jnp.pad(state.moment, (0, extra)))


def _observe(
    played: tuple[CBBKBState, Info], given: tuple[PointBBKB, PRNGKey]
) -> tuple[CBBKBState, Info]:
    """The batch is over: PointBBKB hears of it, and its posterior is that of all rewards."""
    (state, _), (bandit, key) = played, given
    points, info = bandit.tell(state.points, state.rewards, key)
    return CBBKBState(points, jnp.full_like(state.rewards, jnp.nan), points.sketch.weights), info


def _nothing_drawn(width: Array) -> Info:
    """What is said of a reward within a batch."""
    count, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return Info(count, count, count, width, no, no, no, no)
